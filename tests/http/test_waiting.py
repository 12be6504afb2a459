"""Answers that are held until a run or a sweep is final, and changes under a condition."""

import re
import subprocess
import threading
import time

import models
import numpy
import pytest
from contract import OPENAPI
from hub_stand_in import StandIn
from service import Service


@pytest.fixture(scope="module")
def ready(service):
    made = service.checkpoint(models.write_llama(service.files / "waiting"), "waiting", "step1", step=1)
    return {"checkpoint": made["id"], "dataset": service.sequences("waiting", models.rows(4, 32))["name"],
            "sequence_length": None}


def sweep(ready, name, lengths):
    return {"name": name, "kind": "evaluate", "grid": {"sequence_length": lengths},
            "base": {field: value for field, value in ready.items() if field != "sequence_length"}}


def test_a_post_that_prefers_to_wait_has_the_result(service, ready):
    body = {"kind": "evaluate", "params": {**ready, "sequence_length": 7}}
    answer = service.post("/v1/runs", body, {"Prefer": "respond-async, wait=60"})
    assert (answer.status == 202 and answer.json["state"] == "succeeded"
            and answer.headers["Preference-Applied"] == "wait=60")
    assert answer.headers["Location"] == f"/v1/runs/{answer.json['id']}"
    again = service.post("/v1/runs", body, {"Prefer": "wait=60"})
    assert again.status == 200 and again.json == answer.json
    assert "Preference-Applied" not in service.post("/v1/runs", body, {"Prefer": "wait=soon"}).headers


def test_a_forced_run_that_is_waited_for_is_made_once(service, ready, name):
    """The handler is called again after the wait and must not queue another run."""
    body = {"kind": "evaluate", "params": {**ready, "sequence_length": 9}, "force": True}
    before = len(service.get("/v1/runs?trajectory=waiting&limit=1000").json["items"])
    answer = service.post("/v1/runs", body, {"Prefer": "wait=60", "Idempotency-Key": name})
    assert answer.json["state"] == "succeeded"
    assert len(service.get("/v1/runs?trajectory=waiting&limit=1000").json["items"]) == before + 1
    replayed = service.post("/v1/runs", body, {"Prefer": "wait=60", "Idempotency-Key": name})
    assert replayed.json["id"] == answer.json["id"]


def test_a_dry_run_does_not_wait(service, ready):
    body = {"kind": "evaluate", "params": {**ready, "sequence_length": 11}, "dry_run": True}
    answer = service.post("/v1/runs", body, {"Prefer": "wait=60"})
    assert answer.status == 200 and "state" not in answer.json and "Preference-Applied" not in answer.headers


def test_a_wait_ends_with_its_time(service, ready):
    body = {"kind": "evaluate", "params": {**ready, "sequence_length": 15}}
    with service.gate.holding("evaluate", 0):
        answer = service.post("/v1/runs", body, {"Prefer": "wait=1"})
        assert answer.status == 202 and answer.json["state"] in ("queued", "running")
    assert service.wait(answer.json["id"])["state"] == "succeeded"


def test_a_sweep_is_waited_for(service, ready, name):
    answer = service.post("/v1/sweeps", sweep(ready, name, [4, 5]), {"Prefer": "wait=60"})
    assert (answer.status == 202 and answer.json["runs"]["succeeded"] == 2
            and answer.headers["Preference-Applied"] == "wait=60")
    made = service.post("/v1/sweeps", sweep(ready, f"{name}-2", [12, 13, 14]))
    waited = service.get(f"/v1/sweeps/{made.json['id']}?wait=60").json
    assert waited["runs"]["queued"] == waited["runs"]["running"] == 0 and waited["runs"]["succeeded"] == 3
    assert service.get(f"/v1/sweeps/{name}?wait=61").pointers == ["/wait"]


def test_a_fetched_checkpoint_is_waited_for(tmp_path):
    """The handler is called again after the wait and must not queue another run, also not for the key's sake."""
    hub = StandIn()
    service = Service(tmp_path / "data", environment={"HF_ENDPOINT": hub.url + "/", "DELTAQ_HUB_CACHE": "1G"})
    files = {path.name: path.read_bytes() for path in sorted(models.write_llama(tmp_path / "model").iterdir())}
    try:
        hub.add("lab/awaited", "main", files)
        body = {"trajectory": "awaited", "name": "a", "source": {"repo": "lab/awaited"}}
        hold = hub.fail("store", "blobs", "hold", after=1000)
        early = service.post("/v1/checkpoints", body, {"Prefer": "wait=1"})
        hold.released.set()
        assert (early.status, early.headers["Preference-Applied"]) == (202, "wait=1")
        assert early.json["state"] in ("queued", "running")
        key = {"Prefer": "wait=60", "Idempotency-Key": "awaited"}
        answer = service.post("/v1/checkpoints", body, key)
        assert answer.status == 200 and answer.json["state"] == "succeeded", "it is that run, and it is waited for"
        assert (answer.json["id"], answer.headers["Preference-Applied"]) == (early.json["id"], "wait=60")
        hub.add("lab/awaited", "other", {**files, "README.md": b"words"})
        other = {**body, "name": "b", "source": {"repo": "lab/awaited", "revision": "other"}}
        made = service.post("/v1/checkpoints", other, {"Prefer": "wait=60", "Idempotency-Key": "awaited-b"})
        assert (made.status, made.json["state"]) == (202, "succeeded") and made.json["result"]["checkpoint"]
        assert made.headers["Location"] == f"/v1/runs/{made.json['id']}"
        replayed = service.post("/v1/checkpoints", body, key)
        assert replayed.headers["Idempotency-Replayed"] == "true" and replayed.json["id"] == answer.json["id"]
        fetches = service.get("/v1/runs?kind=fetch&limit=1000").json["items"]
        assert sorted(run["params"]["name"] for run in fetches) == ["a", "b"]
        local = models.write_llama(service.files / "here")
        here = service.post("/v1/checkpoints", {"trajectory": "awaited", "name": "c", "source": {"path": str(local)}},
                           {"Prefer": "wait=60"})
        assert here.status == 201 and "Preference-Applied" not in here.headers
    finally:
        service.stop()
        hub.close()


def test_a_change_under_a_condition(service, ready, name):
    made = service.checkpoint(models.write_llama(service.files / name), name, "a", step=1)
    address = f"/v1/checkpoints/{made['id']}"
    tag = service.get(address).headers["ETag"]
    refused = service.request("PATCH", address, {"step": 5}, {"If-Match": '"nothing"'})
    assert (refused.status == 412 and refused.json["code"] == "precondition_failed"
            and tag.strip('"') in refused.json["detail"])
    assert service.get(address).json["step"] == 1
    assert service.request("PATCH", address, {"step": 2}, {"If-Match": f'"other", {tag}'}).status == 200
    assert service.request("PATCH", address, {"step": 3}, {"If-Match": tag}).status == 412
    assert service.request("PATCH", address, {"step": 3},
                           {"If-Match": "W/" + service.get(address).headers["ETag"]}).status == 412
    assert service.request("PATCH", address, {"step": 3}, {"If-Match": "*"}).status == 200
    assert service.request("DELETE", address, headers={"If-Match": tag}).status == 412
    assert service.request("DELETE", address, headers={"If-Match": service.get(address).headers["ETag"]}).status == 204
    assert service.request("DELETE", address, headers={"If-Match": "*"}).status == 404


@pytest.mark.parametrize("method,path", [(method.upper(), path) for path, item in OPENAPI["paths"].items()
                                         for method in ("patch", "delete") if method in item])
def test_any_state_of_nothing(service, method, path):
    """RFC 9110, 13.2.1: a condition changes nothing of an answer that is a refusal without it."""
    address = re.sub("{[a-z]+}", "nothing", path)
    body = {"name": "other"} if method == "PATCH" else None
    refused = service.request(method, address, body, {"If-Match": "*"})
    assert refused.status == 404 and refused.json["code"] == "not_found"


def test_of_two_conditional_changes_one_wins(service, name):
    made = service.checkpoint(models.write_llama(service.files / name), name, "a", step=1)
    address = f"/v1/checkpoints/{made['id']}"
    for step in range(10, 16):
        tag, found = service.get(address).headers["ETag"], []
        threads = [threading.Thread(target=lambda k=k: found.append(
            service.request("PATCH", address, {"step": step * 10 + k}, {"If-Match": tag}).status))
                   for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == [200, 412, 412, 412]


class Locked:
    """Another session of the database that holds the lock of a conditional change (server/store/conditions.c), as one
    of another server would during a long deletion."""

    def __init__(self, service, tag):
        self.process = subprocess.Popen(["psql", "-XAtq", "-h", "/proc/self/cwd", "-U", "deltaq", "deltaq"], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        cwd=service.data / "pg" / "socket")
        self.process.stdin.write(f"select pg_try_advisory_lock(1668247140, hashtext('{tag}'));\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "t\n"

    def let_go(self):
        self.process.communicate()


def waits(service):
    text = service.get("/metrics").body.decode()
    return int(re.search(r"^deltaq_http_waiting (\d+)$", text, re.M).group(1))


def test_a_long_conditional_change_holds_up_nothing_else(service, name):
    """One lock for all of them was held by a thread: eight on one checkpoint took the four threads from everybody."""
    path = models.write_llama(service.files / name)
    one, other = (f"/v1/checkpoints/{service.checkpoint(path, name, k, step='ab'.index(k))['id']}" for k in "ab")
    tag, answers = service.get(one).headers["ETag"], []

    def change(step):  # the asterisk is a tag like another one: only alone it stands for all
        answers.append(service.request("PATCH", one, {"step": step}, {"If-Match": f'"*", {tag}'}).status)

    locked = Locked(service, tag.strip('"'))
    threads = [threading.Thread(target=change, args=(step,)) for step in range(10, 18)]
    try:
        for thread in threads:
            thread.start()
        end = time.monotonic() + 8
        while waits(service) < 4:
            assert time.monotonic() < end, "they do not wait for the lock"
            time.sleep(0.02)
        changed = service.request("PATCH", other, {"step": 20}, {"If-Match": service.get(other).headers["ETag"]})
        assert changed.status == 200 and answers == [], "another checkpoint's change waits for nobody"
        assert service.request("PATCH", one, {"step": 9}, {"If-Match": '"older"'}).status == 412, "known without a lock"
    finally:
        locked.let_go()
        for thread in threads:
            thread.join()
    assert sorted(answers) == [200] + [412] * 7


def test_a_conditional_change_does_not_wait_for_ever(service, name):
    address = f"/v1/checkpoints/{service.checkpoint(models.write_llama(service.files / name), name, 'a')['id']}"
    tag = service.get(address).headers["ETag"]
    locked = Locked(service, tag.strip('"'))
    refused = service.request("PATCH", address, {"step": 2}, {"If-Match": tag})
    locked.let_go()
    assert refused.status == 503 and refused.headers["Retry-After"] == "5"
    assert "another conditional change of this is being made" in refused.json["detail"]
    assert service.request("PATCH", address, {"step": 2}, {"If-Match": tag}).status == 200


def test_a_condition_where_there_is_no_tag_is_refused(service, ready):
    run = service.post("/v1/runs", {"kind": "evaluate", "params": ready}).json["id"]
    answer = service.post(f"/v1/runs/{run}/cancel", headers={"If-Match": "*"})
    assert answer.status == 412 and "no entity tag" in answer.json["detail"]


@pytest.mark.parametrize("given", [None, 2048])
def test_the_default_length_is_no_more_than_the_models_positions(service, given, name):
    """The tiny model has 64 positions; a default that is sent is the default."""
    made = service.checkpoint(models.write_llama(service.files / name), name, "a", step=1)
    tokens = service.files / f"{name}.npy"
    numpy.save(tokens, numpy.arange(1000, dtype=numpy.uint16) % 256)
    data = service.post("/v1/datasets", {"name": name, "path": str(tokens), "format": "tokens"}).json
    length = {} if given is None else {"sequence_length": given}
    body = {"kind": "evaluate", "params": {"checkpoint": made["id"], "dataset": data["id"], **length}}
    plan = service.post("/v1/runs", {**body, "dry_run": True})
    assert plan.status == 200, plan.body
    answer = service.post("/v1/runs", body, {"Prefer": "wait=60"})
    assert answer.json["params"]["sequence_length"] == 64 and answer.json["state"] == "succeeded", answer.body
    assert answer.json["result"]["sequences"] == 1000 // 64
    assert (service.post("/v1/runs", {**body, "params": {**body["params"], "sequence_length": 64}}).json["id"]
            == answer.json["id"])
    refused = service.post("/v1/runs", {**body, "params": {**body["params"], "sequence_length": 65}})
    assert refused.status == 422 and refused.pointers == ["/params/sequence_length"]
    body = {"kind": "quantize",
            "params": {"checkpoint": made["id"], "method": {"name": "gptq", "bits": 4, "group_size": 32},
                       "calibration": {"dataset": data["id"], **length},
                       "evaluation": {"dataset": data["id"], **length}}}
    params = service.post("/v1/runs", body, {"Prefer": "wait=60"}).json["params"]
    assert params["calibration"]["sequence_length"] == params["evaluation"]["sequence_length"] == 64
