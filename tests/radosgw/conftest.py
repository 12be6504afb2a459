import pytest
from gateway import Gateway, missing


@pytest.fixture(scope="session")
def gateway():
    if missing():
        pytest.skip(missing())
    gateway = Gateway()
    yield gateway
    gateway.stop()
