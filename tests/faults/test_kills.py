"""kill -9 of the server, of a worker and of PostgreSQL in the middle of each kind of run. The run ends as if
undisturbed: the same numbers to the last bit, once."""

import json
import os
import time

import models
import pytest
from faults import (FINAL, MIDDLE, body_of, kill, leftovers, postmaster_of, prepare, finished, submit, submit_held,
                    wait_for_none_left, weights_of, workers_of)


def kill_server(service):
    service.process.kill()
    service.process.wait()
    service.process.stdout.close()
    service.start()


def kill_worker(service):
    (worker,) = workers_of(service)
    kill(worker)


def kill_postmaster(service):
    kill(postmaster_of(service))


def events(service, run):
    """The states that the run went through, from the event stream, which ends with the run."""
    text = service.get(f"/v1/runs/{run}/events").body.decode()
    return [json.loads(line[6:])["to"] for block in text.split("\n\n") if "event: state" in block
            for line in block.splitlines() if line.startswith("data: ")]


def told(service, run, limit=120):
    """As events; a stream that breaks off while the database comes back is opened again, as a browser does."""
    end = time.monotonic() + limit
    while not (states := events(service, run)) or states[-1] not in FINAL:
        assert time.monotonic() < end, states
        time.sleep(0.2)
    return states


def comparable(document):
    """A result without what differs from one execution to the next."""
    return {k: v for k, v in document["result"].items() if k not in ("checkpoints", "tokens_per_second")}


def files_of(service, run):
    """The hashes of the files that it left, by name."""
    return {item["name"]: item["sha256"] for item in service.get(f"/v1/runs/{run}/artifacts").json["items"]}


@pytest.fixture(scope="module")
def undisturbed():
    """kind -> (result, files, weights by checkpoint) of a run that nothing happened to; made by the first that asks."""
    return {}


def run_undisturbed(service, kind):
    document = finished(service, submit(service, body_of(kind, "undisturbed")))
    assert document["state"] == "succeeded" and document["attempt"] == 0, document
    run = document["id"]
    return comparable(document), files_of(service, run), weights_of(service, run) if kind == "train" else None


@pytest.mark.parametrize("victim", [kill_worker, kill_postmaster, kill_server], ids=["worker", "postmaster", "server"])
def test_a_run_survives(own, victim, undisturbed):
    prepare(own)
    found = {}
    for kind in ("evaluate", "quantize", "train"):
        run = submit_held(own, body_of(kind, "disturbed"))
        victim(own)
        own.gate.open()
        found[kind] = document = finished(own, run)
        assert document["state"] == "succeeded", (kind, document["error"])
        # A worker whose server or database dies may still give its run back in good order, which counts nothing.
        assert (document["attempt"] == 1
                or (victim is not kill_worker and document["attempt"] == 0)), (kind, document["attempt"])
        states = told(own, run)
        assert states[0] == "queued" and states.count("succeeded") == 1 and states[-1] == "succeeded", states
        wait_for_none_left(own)
    once(own, found)
    for kind, document in found.items():
        if kind not in undisturbed:
            undisturbed[kind] = run_undisturbed(own, kind)
        result, files, weights = undisturbed[kind]
        assert comparable(document) == result, kind
        assert files_of(own, document["id"]) == files != {}, kind
        assert weights is None or weights_of(own, document["id"]) == weights
    assert len(weights_of(own, found["train"]["id"])) == len(found["train"]["result"]["checkpoints"]) == 5


def once(service, found):
    """Each measurement is there once."""
    for metric, trajectory, kind, count in (("loss", "whole", "evaluate", 1), ("delta", "whole", "quantize", 1),
                                            ("train_loss", "disturbed", "train", 5)):
        series = service.get(f"/v1/curves?trajectory={trajectory}&metric={metric}&x=tokens").json["series"]
        points = [p for s in series for p in s["points"] if p["run"] == found[kind]["id"]]
        assert len(points) == count, (metric, points)
    items = service.get("/v1/checkpoints?trajectory=disturbed").json["items"]
    assert [c["id"] for c in sorted(items, key=lambda c: c["step"])] == found["train"]["result"]["checkpoints"]


def test_a_plan_goes_on_where_it_was_killed(own):
    """In the training of a branch, in the quantization of one, and in a branch that continues another."""
    prepare(own)
    trunk = body_of("train", "stable")
    trunk["params"]["schedule"] = {"name": "constant", "peak": 0.01}
    assert finished(own, submit(own, trunk))["state"] == "succeeded"
    measures = {key: body_of("quantize")["params"][key] for key in ("method", "calibration", "evaluation")}
    step = 64 * 4
    options = [{"decay": 8 * step}, {"continue": 6 * step}, {"continue": 12 * step}, {"average": 2}]
    body = {"kind": "plan", "force": True,
            "params": {"trajectory": "stable", **measures, "options": options, "budget": 20 * step}}
    calm = finished(own, submit(own, body))
    assert calm["state"] == "succeeded" and calm["attempt"] == 0, calm["error"]
    measured = 2 * 16 * 64 + 8 * 64
    first = 2 * measured  # of the last checkpoint and of the average
    places = [first + 3 * 5 * step, first + 3 * 8 * step + measured // 2,
              first + 3 * 14 * step + 2 * measured + 3 * 3 * step]
    for place in places:
        own.gate.hold("plan", place, "token")
        run = submit(own, body)
        own.held(run)
        kill_worker(own)
        own.gate.open()
        document = finished(own, run)
        assert document["state"] == "succeeded" and document["attempt"] == 1, document["error"]
        assert document["result"] == calm["result"], place
        wait_for_none_left(own)


def test_a_cancelled_run_leaves_its_finished_checkpoints_alone(own):
    prepare(own)
    run = submit_held(own, body_of("train"))
    assert own.post(f"/v1/runs/{run}/cancel").status == 202
    assert own.wait(run)["state"] == "cancelled"
    wait_for_none_left(own)
    assert weights_of(own, run), "the checkpoints it had finished stay"


def test_an_attempt_removes_what_an_earlier_one_had_not_finished(own):
    """Beside what the next attempt goes on with: each kill may leave a model of gigabytes."""
    prepare(own)
    run = submit_held(own, body_of("train"))
    work, made = own.data / "tmp" / f"run-{run}", own.data / "checkpoints" / run
    (before,) = [p.name for p in made.iterdir()]
    halves = [work / ".deltaq-0123456789abcdef.tmp", work / "branch" / ".step1.0123456789abcdef.tmp" / "model",
              made / ".step9.0123456789abcdef.tmp" / "model"]
    for half in halves:
        half.parent.mkdir(parents=True, exist_ok=True)
        half.write_text("half")
    left = work / "export" / ".deltaq-model.safetensors.part"
    left.parent.mkdir()
    left.write_text("an export goes on with this one")
    own.gate.hold("train", *MIDDLE["train"], lease=2, also=True)  # the first attempt stays where it is
    kill_worker(own)
    own.held(run, lease=2)
    assert not [half for half in halves if half.exists()]
    assert left.exists() and [p.name for p in made.iterdir()] == [before]
    own.gate.open()
    assert finished(own, run)["state"] == "succeeded"
    wait_for_none_left(own)


def test_a_worker_removes_what_ended_runs_left(own):
    own.checkpoint(models.write_llama(own.files / "small"), "small", "a")
    own.sequences("ids", models.rows(2, 16))
    run = own.run("evaluate", checkpoint="small/a", dataset="ids", sequence_length=None)["id"]
    assert own.stop() == 0
    left = own.data / "tmp" / f"run-{run}"
    left.mkdir()
    (left / "training.state").write_text("old")
    (own.data / "checkpoints" / run / ".step-7.0123456789abcdef.tmp").mkdir(parents=True)
    (own.data / "tmp" / "gone-0" / "work").mkdir(parents=True)  # a worker was killed while it removed it
    unknown = own.data / "tmp" / "run-of-another-database"  # young: it stays
    unknown.mkdir()
    deleted = own.data / "tmp" / "run-deleted"  # old, as where a machine was away while its run was deleted
    deleted.mkdir()
    halves = [own.data / "checkpoints" / "deleted" / f".{name}.0123456789abcdef.tmp" for name in ("old", "young")]
    for half in halves:
        half.mkdir(parents=True)
    for path in (deleted, halves[0]):
        os.utime(path, (time.time() - 86400 * 2,) * 2)
    artifacts = own.data / "artifacts"
    artifacts.mkdir(exist_ok=True)
    for name, days in ((".tmp-old", 2), (".tmp-young", 0), ("a" * 64, 2), ("b" * 64, 0)):
        (artifacts / name).write_text("of no run")
        os.utime(artifacts / name, (time.time() - 86400 * days,) * 2)
    own.start()
    for _ in range(2):  # a worker that was just started does not clean up, not between two runs either
        assert finished(own, submit(own, {"kind": "evaluate", "force": True, "params": {
            "checkpoint": "small/a", "dataset": "ids", "sequence_length": None}}))["state"] == "succeeded"
    assert (artifacts / ".tmp-old").exists() and left.exists()
    kept = {item["sha256"] for each in own.get("/v1/runs").json["items"]
            for item in own.get(f"/v1/runs/{each['id']}/artifacts").json["items"]}
    assert own.stop() == 0
    own.environment["DELTAQ_CLEANUP_AFTER"] = "0"
    own.start()
    end = time.monotonic() + 120
    while (artifacts / ("a" * 64)).exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert sorted(p.name for p in artifacts.iterdir()) == sorted([".tmp-young", "b" * 64, *kept])
    assert leftovers(own) == [unknown, halves[1], artifacts / ".tmp-young"]
    assert not (own.data / "checkpoints" / run).exists()
