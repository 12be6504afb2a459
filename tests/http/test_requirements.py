"""What runs and sweeps require of their workers, and what workers say of themselves."""

import subprocess

import models
import pytest
from service import BINARY, Service


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("labelled"), "--threads", "1", "--memory", "900",
                      "--label", "gpu=h100,partition=debug", "--label", "big")
    models.write_llama(service.files / "model")
    service.checkpoint(service.files / "model", "t", "c0", step=0)
    service.sequences("rows", models.rows(2, 12))
    yield service
    assert service.stop() == 0


PARAMS = {"checkpoint": "t/c0", "dataset": "rows", "sequence_length": None}


def post(service, requires, **more):
    return service.post("/v1/runs", {"kind": "evaluate", "params": PARAMS, "requires": requires, **more})


def test_a_worker_shows_its_labels_and_its_memory(labelled):
    post(labelled, None)
    labelled.run("evaluate", **PARAMS)
    worker = labelled.get("/v1/workers").json["items"][0]
    assert worker["labels"] == ["gpu=h100", "partition=debug", "big"] and worker["memory_bytes"] == 900 << 20


def test_a_run_keeps_what_it_requires_and_is_done_where_that_is_met(labelled):
    requires = {"labels": ["big", "gpu=h100"], "device": "cpu", "memory_bytes": 1000}
    answer = post(labelled, requires, force=True)
    assert answer.status == 202 and answer.json["requires"] == requires
    run = labelled.wait(answer.json["id"])
    assert run["state"] == "succeeded" and run["waiting"] is None


def test_a_run_that_nobody_can_take_says_why_and_can_be_cancelled(labelled):
    labelled.run("evaluate", **PARAMS)
    run = post(labelled, {"labels": ["gpu=a100"]}, force=True).json
    assert run["state"] == "queued" and run["error"] is None
    assert run["waiting"] == "no running worker has all that it needs: label gpu=a100"
    listed = labelled.get("/v1/runs?state=queued&fields=waiting").json["items"]
    assert listed[0]["waiting"] == run["waiting"]
    assert labelled.post(f"/v1/runs/{run['id']}/cancel").json["waiting"] is None


def test_an_action_takes_no_fields(labelled):
    """Nobody would read them: with "dry_run" a run was queued again all the same."""
    run = post(labelled, {"labels": ["gpu=a100"]}, force=True).json
    sweep = {"name": "no-fields", "kind": "evaluate", "base": PARAMS, "grid": {"max_sequences": [3]},
             "requires": {"labels": ["absent"]}}
    assert labelled.post("/v1/sweeps", sweep).status == 202
    one, all_of_it = f"/v1/runs/{run['id']}", "/v1/sweeps/no-fields"

    def states():
        return labelled.get(one).json["state"], labelled.get(all_of_it).json["runs"]["cancelled"]

    for before, after, actions in ((("queued", 0), ("cancelled", 1), (f"{one}/cancel", f"{all_of_it}/cancel")),
                                   (("cancelled", 1), ("queued", 1), (f"{one}/retry", f"{all_of_it}/retry-failed"))):
        assert states() == before
        for action in actions:
            refused = labelled.post(action, {"dry_run": True})
            assert refused.status == 422 and refused.pointers == ["/dry_run"], refused.body
            assert "there are none here" in refused.json["detail"] and labelled.post(action, []).pointers == [""]
        assert states() == before
        for action in actions:
            assert labelled.post(action, {}).status == 202
        assert states() == after
    assert labelled.post(f"{one}/cancel").status == 202, "nor does it need a body"


@pytest.mark.parametrize("requires, pointer", [
    ({"labels": ["a b"]}, "/requires/labels/0"),
    ({"labels": "gpu=h100"}, "/requires/labels"),
    ({"device": "tpu"}, "/requires/device"),
    ({"memory_bytes": 0}, "/requires/memory_bytes"),
    ({"device_memory_bytes": 0}, "/requires/device_memory_bytes"),
    ({"device": "cpu", "device_memory_bytes": 1}, "/requires/device_memory_bytes"),
    ({"gpu": "h100"}, "/requires/gpu"),
    ([], "/requires"),
])
def test_bad_requirements_are_pointed_at(labelled, requires, pointer):
    answer = post(labelled, requires)
    assert answer.status == 422 and answer.pointers == [pointer]


def test_all_runs_of_a_sweep_require_what_it_says_also_later_ones(labelled):
    body = {"name": "picky", "kind": "evaluate", "base": PARAMS, "grid": {"max_sequences": [1]},
            "requires": {"labels": ["absent"]}}
    sweep = labelled.post("/v1/sweeps", body).json
    assert sweep["requires"] == {"labels": ["absent"]}
    assert labelled.post("/v1/sweeps", body).json["id"] == sweep["id"]
    assert labelled.post("/v1/sweeps", {**body, "requires": None}).status == 409
    assert labelled.post("/v1/sweeps/picky/extend", {"grid": {"max_sequences": [2]}}).status == 202
    runs = labelled.get("/v1/runs?sweep=picky").json["items"]
    assert [run["requires"] for run in runs] == [sweep["requires"]] * 2
    assert all(run["waiting"].endswith("label absent") for run in runs)
    labelled.post("/v1/sweeps/picky/cancel")


def test_a_bad_label_is_refused_before_anything_is_made(tmp_path):
    done = subprocess.run([BINARY, "worker", "--data-dir", tmp_path / "data", "--label", "gpu=h100,a=b=c"],
                          capture_output=True, text=True)
    assert done.returncode == 1 and "--label a=b=c: must be NAME=VALUE" in done.stderr
    assert not (tmp_path / "data").exists()
