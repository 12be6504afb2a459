"""Faults, made from outside on the real server: what is killed, filled, cut or wrong. Whoever asks gets a precise
answer, what was asked for comes about once, and nothing half-written stays."""

import pathlib
import shutil
import tempfile

import pytest
from faults import started
from service import BINARY


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
