import os
import pathlib
import shutil

import oci
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def reason():
    """Why nothing of this can be run here; or None."""
    if os.geteuid() != 0:
        return "needs root: chroot and namespaces"
    for program in ("buildah", "debootstrap", "ip", "nsenter", "unshare", "curl"):
        if shutil.which(program) is None:
            return f"{program} is not installed (apt-get install buildah debootstrap iproute2 util-linux curl)"
    return None


@pytest.fixture(scope="session")
def store():
    why = reason()
    if why:
        pytest.skip(why)
    with oci.Store(ROOT / "build" / "images") as found:
        yield found


@pytest.fixture(scope="session")
def image(store):
    """The target that is built when none is named, on a bare Debian 12; or DELTAQ_IMAGE, one that build/images has."""
    if "DELTAQ_IMAGE" in os.environ:
        return oci.Image(store, os.environ["DELTAQ_IMAGE"])
    store.base("bookworm")
    return store.build(ROOT, "cpu")


@pytest.fixture
def network():
    with oci.Network() as found:
        yield found
