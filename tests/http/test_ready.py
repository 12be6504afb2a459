"""/readyz tells what is wrong with the database, and when it is over."""

import pathlib
import subprocess
import tempfile
import time

import pytest
from service import Service


@pytest.fixture
def pair():
    """A server on the database that another one runs; a short path, for the socket."""
    with tempfile.TemporaryDirectory(prefix="dq-") as name:
        first = Service(pathlib.Path(name) / "a", "--workers", "0")
        place = f"host={first.data}/pg/socket dbname=deltaq user=deltaq"
        second = Service(pathlib.Path(name) / "b", "--workers", "0", "--database-url", place)
        yield first, second
        assert second.stop() == 0
        assert first.stop() == 0


def ready(service, status, limit=60):
    end = time.monotonic() + limit
    while (answer := service.get("/readyz")).status != status:
        assert time.monotonic() < end, answer.body
        time.sleep(0.1)
    return answer


def test_while_the_database_is_away(pair):
    first, second = pair
    assert ready(second, 200).json["database"] == "ok"
    assert first.stop() == 0
    for _ in range(3):
        detail = ready(second, 503).json["detail"]
        assert detail.startswith("database: ") and detail.count("database: ") == 1 and len(detail) > 20, detail
    assert second.get("/healthz").status == 200
    assert second.get("/v1/runs").status == 503
    first.start()
    assert ready(second, 200).json["database"] == "ok"


def test_while_the_database_takes_no_writes(pair):
    first, second = pair
    elsewhere = ("psql", "-XAtq", "-h", first.data / "pg" / "socket", "-U", "deltaq", "postgres", "-c")
    others = "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = 'deltaq'"
    for setting, status in (("on", 503), ("off", 200)):
        subprocess.run([*elsewhere, f"alter database deltaq set default_transaction_read_only = {setting}"], check=True)
        subprocess.run([*elsewhere, others], check=True, capture_output=True)
        answer = ready(second, status)
        assert status == 200 or "it is read only" in answer.json["detail"], answer.body
        made = second.post("/v1/datasets", {"name": f"d-{setting}", "sequences": [[1, 2, 3]]})
        assert made.status == (503 if setting == "on" else 201), made.body
        assert second.get("/v1/runs").status == 200, "reading goes on"
