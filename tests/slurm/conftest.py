import pytest
from cluster import Cluster, missing


@pytest.fixture(scope="session")
def slurm():
    if missing():
        pytest.skip(missing())
    cluster = Cluster()
    yield cluster
    cluster.stop()
