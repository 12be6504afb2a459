"""Runs of several tokens in one queue: whose they are, and the bound on them. What a worker tells of its files."""

import subprocess
import time

import models
import pytest
from service import BINARY, Service


def token(service, name, scope="write"):
    done = subprocess.run([BINARY, "token", "create", "--scope", scope, "--name", name, "--data-dir", service.data],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def prepared(tmp_path, *arguments):
    service = Service(tmp_path, "--threads", "1", *arguments)
    models.write_llama(service.files / "model")
    service.checkpoint(service.files / "model", "t", "c0", step=0)
    service.sequences("rows", models.rows(2, 12))
    return service


PARAMS = {"checkpoint": "t/c0", "dataset": "rows", "sequence_length": None}
BODY = {"kind": "evaluate", "params": PARAMS, "force": True}


@pytest.fixture()
def bounded(tmp_path):
    service = prepared(tmp_path, "--workers", "0", "--queue-per-token", "3")
    yield service
    service.stop()


def test_a_token_has_no_more_runs_waiting_than_the_bound(bounded):
    first, second = token(bounded, "first"), token(bounded, "second")
    bounded.token = first
    for _ in range(3):
        assert bounded.post("/v1/runs", BODY).status == 202
    refused = bounded.post("/v1/runs", BODY)
    assert refused.status == 429 and refused.json["code"] == "too_many"
    assert "3 runs" in refused.json["detail"] and "--queue-per-token" in refused.json["detail"]
    assert bounded.post("/v1/runs", {**BODY, "force": False}).status == 200, "an equal run takes no place"
    waiting = bounded.get("/v1/runs?state=queued").json["items"]
    assert len(waiting) == 3
    bounded.token = second
    sweep = {"name": "s", "kind": "evaluate", "base": PARAMS, "grid": {"max_sequences": [1, 2]}}
    assert bounded.post("/v1/sweeps", sweep).status == 202
    more = bounded.post("/v1/sweeps/s/extend", {"grid": {"max_sequences": [3, 4]}})
    assert more.status == 429, "the whole sweep or none of it"
    assert bounded.get("/v1/sweeps/s").json["runs"]["total"] == 2
    bounded.token = first
    assert bounded.post(f"/v1/runs/{waiting[0]['id']}/cancel").status == 202
    assert bounded.post("/v1/runs", BODY).status == 202
    own = bounded.get(f"/v1/runs/{waiting[1]['id']}").json["requester"]
    assert bounded.sql(f"select name from tokens where id = '{own}'") == [["first"]]
    whose = bounded.sql("select t.name, count(*) from runs r join tokens t on t.id = r.requester"
                 " where r.state = 'queued' group by 1 order by 1")
    assert whose == [["first", "3"], ["second", "2"]]


def test_runs_to_come_of_a_standing_sweep_are_its_requester_s(tmp_path):
    service = prepared(tmp_path, "--workers", "0")
    try:
        service.token = token(service, "someone")
        made = service.post("/v1/sweeps", {"name": "s", "kind": "evaluate", "standing": True,
                                           "base": {"dataset": "rows", "sequence_length": None},
                                           "grid": {"checkpoint": {"trajectory": "t"}}})
        assert made.status == 202, made.body
        models.write_llama(service.files / "later", seed=2)
        service.checkpoint(service.files / "later", "t", "c1", step=1)
        for _ in range(1200):
            if service.get("/v1/sweeps/s").json["runs"]["total"] == 2:
                break
            time.sleep(0.1)
        assert service.sql("select t.name, count(*) from runs r left join tokens t on t.id = r.requester"
                    " group by 1") == [["someone", "2"]]
    finally:
        service.token = None
        service.stop()


def flood(service, name, count):
    service.sql("insert into runs (kind, requester) select 'flood', t.id from tokens t,"
                f" generate_series(1, {count}) where t.name = '{name}'")


def standing(service, name, dataset):
    made = service.post("/v1/sweeps", {"name": name, "kind": "evaluate", "standing": True,
                                       "base": {"dataset": dataset, "sequence_length": None},
                                       "grid": {"checkpoint": {"trajectory": "t"}}})
    assert made.status == 202, made.body


def runs_of(service, sweep):
    return service.get(f"/v1/sweeps/{sweep}").json["runs"]["total"]


def wait_for_runs(service, sweep, count):
    end = time.monotonic() + 120
    while runs_of(service, sweep) != count:
        assert time.monotonic() < end, service.get(f"/v1/sweeps/{sweep}").json
        time.sleep(0.1)


def test_without_a_bound_a_token_leaves_room_for_others(tmp_path):
    """New runs, a sweep, retries, and what comes to a standing sweep, which waits and holds up nobody else's."""
    service = prepared(tmp_path, "--workers", "0")
    try:
        service.sequences("other", models.rows(2, 12, seed=5))
        first = service.token = token(service, "first")
        standing(service, "first", "rows")
        flood(service, "first", 9000)
        made = service.post("/v1/runs", BODY)
        assert made.status == 202, "who is alone has the whole queue"
        run = made.json["id"]
        assert service.post(f"/v1/runs/{run}/cancel").status == 202
        second = service.token = token(service, "second")
        standing(service, "second", "other")
        service.token = first
        refused = service.post("/v1/runs", BODY)
        assert refused.status == 429 and refused.json["code"] == "too_many" and refused.headers["Retry-After"]
        assert "9002 runs of this token would wait and 997 of the queue's 10000" in refused.json["detail"], refused.body
        grid = {"name": "s", "kind": "evaluate", "base": PARAMS, "grid": {"max_sequences": [1, 2]}}
        refused = service.post("/v1/sweeps", grid)
        assert refused.status == 429 and "of 2 runs, which go in together" in refused.json["detail"], refused.body
        assert service.get("/v1/sweeps/s").status == 404
        assert service.post(f"/v1/runs/{run}/retry").status == 429
        assert service.get(f"/v1/runs/{run}").json["state"] == "cancelled"
        service.sql("update runs set state = 'failed', error = '{}', finished_at = clock_timestamp() where id in"
                    " (select x.run from sweep_runs x join sweeps w on w.id = x.sweep where w.name = 'first')")
        assert service.post("/v1/sweeps/first/retry-failed").status == 429
        models.write_llama(service.files / "later", seed=2)
        service.checkpoint(service.files / "later", "t", "c1", step=1)
        wait_for_runs(service, "second", 2)
        assert runs_of(service, "first") == 1
        service.token = second
        assert service.post("/v1/runs", BODY).status == 202
        service.sql("delete from runs where kind = 'flood'")
        wait_for_runs(service, "first", 2)
        service.token = first
        assert service.post("/v1/sweeps/first/retry-failed").status == 202
        assert service.post(f"/v1/runs/{run}/retry").status == 202
    finally:
        service.token = None
        service.stop()


def test_what_never_has_room_is_refused_to_a_standing_sweep(tmp_path):
    """Two runs of a checkpoint go in together, and a token may have one waiting."""
    service = prepared(tmp_path, "--workers", "0", "--queue-per-token", "1")
    try:
        assert service.request("DELETE", "/v1/checkpoints/t%2Fc0").status == 204
        made = service.post("/v1/sweeps", {"name": "s", "kind": "evaluate", "standing": True,
                                           "base": {"dataset": "rows", "sequence_length": None},
                                           "grid": {"checkpoint": {"trajectory": "t"}, "max_sequences": [1, 2]}})
        assert made.status == 202, made.body
        service.checkpoint(service.files / "model", "t", "c1", step=1)
        end = time.monotonic() + 120
        while not (refused := service.get("/v1/sweeps/s").json["refused"]):
            assert time.monotonic() < end, service.get("/v1/sweeps/s").json
            time.sleep(0.1)
        assert [(item["name"], item["error"]["status"]) for item in refused] == [("c1", "too_many")]
        assert "--queue-per-token" in refused[0]["error"]["detail"] and runs_of(service, "s") == 0
    finally:
        service.stop()


def test_a_worker_tells_which_files_its_node_has(tmp_path):
    service = prepared(tmp_path)
    try:
        service.run("evaluate", **PARAMS)
        node = (service.data / "node").readlink()
        assert service.sql("select n.node, c.name, n.snapshot from node_checkpoints n"
                    " join checkpoints c on c.id = n.checkpoint") == [[str(node), "c0", ""]]
        assert service.sql("select distinct node from workers") == [[str(node)]]
        assert service.stop() == 0
        service.start()
        assert (service.data / "node").readlink() == node, "the same data directory is the same node"
    finally:
        service.stop()
