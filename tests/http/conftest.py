import contextlib

import pytest
from service import BINARY, Service


@contextlib.contextmanager
def served(directory):
    """A server whose worker uses one thread: the tests are small."""
    if not BINARY.exists():
        pytest.skip("build/deltaq is not built")
    # Nothing here reaches for the real hub; test_hub.py has a stand-in for it.
    service = Service(directory, "--threads", "1", environment={"HF_ENDPOINT": "http://127.0.0.1:9"})
    yield service
    assert service.stop() == 0


@pytest.fixture(scope="session")
def serving():
    """with serving(directory) as service: a server for tests that need one of their own."""
    return served


@pytest.fixture(scope="session")
def service(serving, tmp_path_factory):
    """One server for all tests that do not break it."""
    with serving(tmp_path_factory.mktemp("deltaq")) as service:
        yield service


@pytest.fixture
def name(request):
    """A name that no other test uses."""
    from service import slug

    return slug(request.node.name)[:80]
