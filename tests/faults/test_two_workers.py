"""`deltaq worker` beside `deltaq serve` on a PostgreSQL of its own: the two share the runs of a sweep, and each run is
done once. What one had begun when it was killed, the other ends."""

import shutil
import subprocess
import time

import models
import pytest
from faults import FINAL, kill, started, workers_of
from plain_postgres import Database
from service import BINARY


@pytest.fixture
def pair(tmp_path):
    """A server with one worker and a second worker that was started by hand."""
    database = Database(tmp_path / "database")
    service = started(tmp_path, "--database-url", database.url)
    command = [BINARY, "worker", "--database-url", database.url, "--data-dir", service.data, "--root", service.files,
               "--threads", "1"]
    with open(tmp_path / "second", "wb") as log:
        second = subprocess.Popen(command, stderr=log, env=service.environment)
    yield service, second, database
    if second.poll() is None:
        second.terminate()
        assert second.wait(15) == 0
    if service.process.poll() is None:
        assert service.stop() == 0
    database.stop()
    shutil.rmtree(tmp_path, ignore_errors=True)


def sweep(service):
    for step in (1, 2, 3):
        path = models.write_llama(service.files / f"step{step}", seed=step)
        service.checkpoint(path, "shared", f"step{step}", step=step, tokens=step)
    service.sequences("evaluation", models.rows(4, 64))
    body = {"name": "pair", "kind": "quantize", "base": {
        "method": {"name": "rtn", "group_size": 32}, "evaluation": {"dataset": "evaluation", "sequence_length": None}},
            "grid": {"checkpoint": {"trajectory": "shared"}, "method.bits": [2, 3, 4, 8]}}
    answer = service.post("/v1/sweeps", body)
    assert answer.status == 202, answer.body
    return answer.json["id"]


def wait_for_all(service, identity, limit=300):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        runs = service.get(f"/v1/runs?sweep={identity}&limit=100").json["items"]
        if all(r["state"] in FINAL for r in runs):
            return runs
        time.sleep(0.2)
    raise TimeoutError(runs)


def wait_until(database, query, wanted, limit=120):
    end = time.monotonic() + limit
    while database.sql(query) != wanted:
        assert time.monotonic() < end, query
        time.sleep(0.05)


def both_there(database):
    wait_until(database, "select count(*) from workers", "2")


def test_a_sweep_is_shared_and_each_run_is_done_once(pair):
    service, _, database = pair
    both_there(database)
    service.gate.hold("quantize", 1, "block")
    identity = sweep(service)
    wait_until(database, "select count(distinct owner) from runs where state = 'running'", "2")
    service.gate.open()
    runs = wait_for_all(service, identity)
    assert len(runs) == 12 and all(r["state"] == "succeeded" and r["attempt"] == 0 for r in runs)
    assert len({r["worker"] for r in runs}) == 2, "both worked"
    assert database.sql("select count(*), max(n) from (select run, count(*) as n from run_events "
                        "where data->>'to' = 'running' group by run) q") == "12|1"
    assert database.sql("select count(*) from run_results") == "12"
    assert (database.sql("select count(*), count(distinct (run, metric)) from measurements where metric = 'delta'")
            == "12|12")


def test_what_a_killed_worker_had_begun_the_other_ends(pair):
    service, second, database = pair
    both_there(database)
    service.gate.hold("quantize", 1, "block")
    identity = sweep(service)
    begun = f"from runs r join workers w on w.id = r.owner where r.state = 'running' and w.pid = {second.pid}"
    wait_until(database, f"select count(*) > 0 {begun}", "t")
    kill(second.pid)
    second.wait()
    service.gate.open()
    (left,) = workers_of(service)
    runs = wait_for_all(service, identity)
    # it may hold several
    assert all(r["state"] == "succeeded" for r in runs) and {r["attempt"] for r in runs} == {0, 1}
    assert database.sql("select count(*) from run_results") == "12" and workers_of(service) == [left]
