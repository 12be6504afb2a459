"""Faults, made from outside on the real server: what is killed, filled, cut or wrong. Whoever asks gets a precise answer, what was
asked for comes about once, and nothing half-written stays."""

import pathlib
import shutil
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "http"))
from service import BINARY, Service  # noqa: E402


def started(directory, *options, **more):
    if not BINARY.exists():
        pytest.skip("build/deltaq is not built")
    return Service(directory, "--threads", "1", *options, **more)


@pytest.fixture
def own(tmp_path):
    """A server for one test."""
    service = started(tmp_path)
    yield service
    if service.process.poll() is None:
        assert service.stop() == 0
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """One server for the tests of a file that do not break it."""
    directory = tmp_path_factory.mktemp("deltaq")
    service = started(directory)
    yield service
    assert service.stop() == 0
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def disk_directory():
    """On a disk, for large files: the other temporary files may be in memory."""
    directory = pathlib.Path(tempfile.mkdtemp(dir=BINARY.parent, prefix="faults-"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)
