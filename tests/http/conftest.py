import pytest
from service import BINARY, Service


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    """One server for all tests that do not break it. Its worker uses one thread: the tests are small."""
    if not BINARY.exists():
        pytest.skip("build/deltaq is not built")
    # Nothing here reaches for the real hub; test_hub.py has a stand-in for it.
    service = Service(tmp_path_factory.mktemp("deltaq"), "--threads", "1",
                      environment={"HF_ENDPOINT": "http://127.0.0.1:9"})
    yield service
    assert service.stop() == 0


@pytest.fixture
def name(request):
    """A name that no other test uses."""
    from service import slug

    return slug(request.node.name)[:80]
