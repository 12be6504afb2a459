"""Renaming, archiving and deleting: trajectories, runs, sweeps; and sweeps that are tried again."""

import os
import zlib

import models
import pytest
from test_counts import check


@pytest.fixture
def evaluated(service, name):
    """Two checkpoints of the trajectory `name`, each with a run and its measurements."""
    seed = zlib.crc32(name.encode()) % 10000
    for i in range(2):
        service.checkpoint(models.write_llama(service.files / name / str(i), seed=seed + i), name, f"step{i}", step=i)
    data = service.sequences(name, models.rows(3, 16, seed=seed))["name"]
    runs = [service.run("evaluate", checkpoint=f"{name}/step{i}", dataset=data, sequence_length=None) for i in range(2)]
    assert all(run["state"] == "succeeded" for run in runs)
    return name, data, runs


def patch(service, trajectory, **changes):
    return service.request("PATCH", f"/v1/trajectories/{trajectory}", changes)


def delete(service, path, headers=None):
    return service.request("DELETE", path, headers=headers)


def names(service, query=""):
    return [item["name"] for item in service.get(f"/v1/trajectories?limit=1000{query}").json["items"]]


def test_a_trajectory_takes_another_name_and_notes(service, evaluated):
    name, data, runs = evaluated
    before = service.get(f"/v1/trajectories/{name}").json
    assert before["notes"] is None and before["archived"] is False
    answer = patch(service, name, name=f"{name}-renamed", notes="the second seed")
    assert answer.status == 200 and answer.json == {**before, "name": f"{name}-renamed", "notes": "the second seed"}
    assert service.get(f"/v1/trajectories/{name}").status == 404
    assert service.get(f"/v1/checkpoints?trajectory={name}-renamed").json["items"][0]["trajectory"] == f"{name}-renamed"
    rows = service.get(f"/v1/measurements?trajectory={name}-renamed&fields=checkpoint_name,run").json["items"]
    assert [(row["checkpoint_name"], row["run"]) for row in rows] == [
        ("step0", runs[0]["id"]), ("step1", runs[1]["id"])]
    assert patch(service, f"{name}-renamed", notes=None).json["notes"] is None
    check(service)


def test_a_trajectory_refuses_a_taken_name_and_unknown_fields(service, evaluated, name):
    assert service.request("POST", "/v1/trajectories/taken/scan",
                           {"path": str(service.files / name), "watch": False}).status == 200
    assert (patch(service, name, name="taken").status, patch(service, name, name="taken").pointers) == (409, ["/name"])
    for body, pointer in (({"name": "a/b"}, "/name"), ({"name": None}, "/name"), ({"archived": "yes"}, "/archived"),
                          ({"archived": None}, "/archived"), ({"colour": 1}, "/colour"),
                          ({"notes": "x" * 10001}, "/notes")):
        answer = service.request("PATCH", f"/v1/trajectories/{name}", body)
        assert answer.status == 422 and answer.pointers == [pointer], answer.body
    assert patch(service, "nothing-is-called-this", notes="x").status == 404
    assert service.request("PATCH", f"/v1/trajectories/{name}", {"notes": "new"}, {"If-Match": '"old"'}).status == 412


def test_archived_trajectories_leave_the_list_and_come_back(service, evaluated):
    name, data, runs = evaluated
    assert name in names(service) and name not in names(service, "&archived=true")
    assert patch(service, name, archived=True).json["archived"] is True
    assert (name not in names(service) and name not in names(service, "&archived=false")
            and name in names(service, "&archived=true"))
    assert service.get(f"/v1/trajectories/{name}").json["archived"] is True
    assert service.get(f"/v1/measurements?trajectory={name}&fields=run").json["items"]
    assert patch(service, name, archived=False).json["archived"] is False and name in names(service)
    answer = service.get("/v1/trajectories?archived=perhaps")
    assert answer.status == 422 and answer.pointers == ["/archived"]


def test_what_a_run_read_keeps_its_name_in_the_run(service, evaluated):
    """A dataset and a checkpoint that are deleted; also when the same data is registered under the name again."""
    name, data, runs = evaluated
    was = runs[0]["names"]
    assert set(was) == {runs[0]["params"]["checkpoint"], runs[0]["params"]["dataset"]}
    assert delete(service, f"/v1/datasets/{data}").status == 204
    service.sequences(data, models.rows(3, 16, seed=zlib.crc32(name.encode()) % 10000))
    assert delete(service, f"/v1/checkpoints/{runs[0]['params']['checkpoint']}").status == 204
    assert service.get(f"/v1/runs/{runs[0]['id']}").json["names"] == was
    assert service.get(f"/v1/runs/{runs[1]['id']}").json["names"] == runs[1]["names"]


def test_a_trajectory_is_deleted_with_what_is_its_own(service, evaluated):
    name, data, runs = evaluated
    made = service.get(f"/v1/trajectories/{name}").json
    assert delete(service, f"/v1/trajectories/{name}", {"If-Match": '"old"'}).status == 412
    assert delete(service, f"/v1/trajectories/{name}").status == 204
    assert (delete(service, f"/v1/trajectories/{name}").status == 404
            == service.get(f"/v1/trajectories/{made['id']}").status)
    assert service.get(f"/v1/checkpoints/{runs[0]['params']['checkpoint']}").status == 404
    left = service.get(f"/v1/runs/{runs[0]['id']}").json
    assert left["result"] == runs[0]["result"] and left["names"] == runs[0]["names"]
    assert left["names"][runs[0]["params"]["checkpoint"]] == f"{name}/step0"
    assert (service.files / name / "0" / "model.safetensors").exists()
    gone = [e for e in service.get("/v1/events?follow=false&after=0&kind=checkpoint").body.decode().split("\n\n")
            if '"deleted"' in e and f'"{name}"' in e]
    assert len(gone) == 2
    check(service)


def test_what_a_run_needs_is_neither_renamed_nor_deleted(service, evaluated):
    name, data, runs = evaluated
    with service.gate.holding("evaluate", 0):
        params = {"checkpoint": f"{name}/step0", "dataset": data, "sequence_length": 7}
        held = service.post("/v1/runs", {"kind": "evaluate", "params": params}).json["id"]
        service.held(held)
        for answer in (delete(service, f"/v1/trajectories/{name}"), patch(service, name, name=f"{name}-new"),
                       delete(service, f"/v1/runs/{held}")):
            assert answer.status == 409 and "cancel" in answer.json["detail"], answer.body
        assert patch(service, name, notes="may change").status == 200
        service.post(f"/v1/runs/{held}/cancel")
    assert service.wait(held)["state"] in ("cancelled", "succeeded")  # it may have been at its end
    assert delete(service, f"/v1/runs/{held}").status == 204 and patch(service, name, name=f"{name}-new").status == 200


def test_a_watched_trajectory_keeps_its_name(service, evaluated):
    name, data, runs = evaluated
    scan = f"/v1/trajectories/{name}/scan"
    assert service.post(scan, {"path": str(service.files / name), "watch": True}).status == 200
    for answer in (delete(service, f"/v1/trajectories/{name}"), patch(service, name, name=f"{name}-new")):
        assert answer.status == 409 and "watch" in answer.json["detail"]
    assert service.post(scan, {"path": str(service.files / name), "watch": False}).status == 200
    assert delete(service, f"/v1/trajectories/{name}").status == 204


def test_a_run_is_deleted_with_its_measurements_and_artifacts(service, evaluated):
    name, data, runs = evaluated
    body = {"kind": "evaluate", "params": {"checkpoint": f"{name}/step0", "dataset": data, "sequence_length": None},
            "force": True}
    again = service.post("/v1/runs", body, {"Prefer": "wait=60"}).json
    artifact = f"/v1/runs/{again['id']}/artifacts/losses.csv"
    assert service.get(artifact).status == 200
    assert delete(service, f"/v1/runs/{again['id']}").status == 204
    assert [service.get(path).status
            for path in (f"/v1/runs/{again['id']}", artifact, f"/v1/runs/{again['id']}/events")] == [404] * 3
    assert delete(service, f"/v1/runs/{again['id']}").status == 404
    address = f"/v1/measurements?checkpoint={name}/step0&fields=run,loss"
    assert [row["run"] for row in service.get(address).json["items"]] == [runs[0]["id"]], (
        "the one before it counts again")
    assert service.get(f"/v1/runs/{runs[0]['id']}/artifacts/losses.csv").status == 200, (
        "equal bytes of another run stay")
    assert delete(service, f"/v1/runs/{runs[0]['id']}").status == 204
    assert service.get(address).json["items"] == []
    check(service)
    answer = service.post("/v1/runs", {**body, "force": False}, {"Prefer": "wait=60"})
    assert answer.json["id"] not in (again["id"], runs[0]["id"]) and answer.json["result"] == runs[0]["result"], (
        "it is measured anew")


def test_a_run_that_is_being_compared_stays(service, evaluated):
    name, data, runs = evaluated
    with service.gate.holding("evaluate", 0):  # the worker has this one, so that the comparison waits
        params = {"checkpoint": f"{name}/step0", "dataset": data, "sequence_length": 7}
        busy = service.post("/v1/runs", {"kind": "evaluate", "params": params}).json["id"]
        service.held(busy)
        made = service.post("/v1/runs", {"kind": "compare", "params": {"a": runs[0]["id"], "b": runs[1]["id"]}})
        assert made.status == 202 and made.json["state"] == "queued", made.body
        for run in runs:
            answer = delete(service, f"/v1/runs/{run['id']}")
            assert answer.status == 409 and made.json["id"] in answer.json["detail"], answer.body
    assert service.wait(made.json["id"])["state"] == "succeeded"
    assert delete(service, f"/v1/runs/{runs[0]['id']}").status == 204


def test_failed_runs_of_a_sweep_are_tried_again_and_the_others_left(service, evaluated):
    name, data, runs = evaluated
    weights = service.files / name / "1" / "model.safetensors"
    body = {"name": name, "kind": "evaluate", "base": {"dataset": data},
            "grid": {"checkpoint": {"trajectory": name}, "sequence_length": [5]}}
    with service.gate.holding("evaluate", 0):
        made = service.post("/v1/sweeps", body)
        assert made.status == 202 and made.json["runs"]["total"] == 2, made.body
        assert delete(service, f"/v1/sweeps/{name}").status == 409
        os.rename(weights, weights.with_suffix(".away"))
    counts = service.get(f"/v1/sweeps/{name}?wait=60").json["runs"]
    os.rename(weights.with_suffix(".away"), weights)
    assert counts["failed"] >= 1 and counts["failed"] + counts["succeeded"] == 2
    done = {run["id"]: run for run in service.get(f"/v1/runs?sweep={name}&state=succeeded").json["items"]}
    answer = service.post(f"/v1/sweeps/{name}/retry-failed")
    assert answer.status == 202 and answer.json["runs"]["failed"] == 0, answer.body
    assert service.get(f"/v1/sweeps/{name}?wait=60").json["runs"]["succeeded"] == 2
    for run in service.get(f"/v1/runs?sweep={name}").json["items"]:
        assert run["id"] not in done or run == done[run["id"]]
    assert service.post(f"/v1/sweeps/{name}/retry-failed").json["runs"]["succeeded"] == 2, (
        "nothing failed: nothing changes")
    assert service.post("/v1/sweeps/nothing-is-called-this/retry-failed").status == 404


def test_an_ended_sweep_is_deleted_and_its_runs_stay(service, evaluated):
    name, data, runs = evaluated
    body = {"name": name, "kind": "evaluate", "base": {"dataset": data, "sequence_length": None},
            "grid": {"checkpoint": {"trajectory": name}}, "standing": True}
    assert service.post("/v1/sweeps", body).json["runs"]["succeeded"] == 2
    answer = delete(service, f"/v1/sweeps/{name}")
    assert answer.status == 409 and "cancel" in answer.json["detail"]
    assert service.post(f"/v1/sweeps/{name}/cancel").status == 202
    assert delete(service, f"/v1/sweeps/{name}").status == 204
    assert delete(service, f"/v1/sweeps/{name}").status == 404 == service.get(f"/v1/runs?sweep={name}").status
    assert service.get(f"/v1/runs/{runs[0]['id']}").json["sweep"] is None


@pytest.mark.parametrize("what", ["trajectory", "checkpoint", "dataset"])
def test_what_was_measured_of_a_deleted_checkpoint_is_measured_again(service, evaluated, what):
    """The numbers went with the checkpoint, so the run that had them is no answer for another one of that content. A
    dataset leaves them behind."""
    name, data, runs = evaluated

    def measured():
        items = service.get(f"/v1/measurements?trajectory={name}&fields=checkpoint_name,loss").json["items"]
        return {item["checkpoint_name"]: item["loss"] for item in items}

    before = measured()
    path = {"trajectory": f"trajectories/{name}", "checkpoint": f"checkpoints/{name}%2Fstep1",
            "dataset": f"datasets/{data}"}[what]
    assert delete(service, f"/v1/{path}").status == 204
    if what == "dataset":
        assert service.sequences(name, models.rows(3, 16, seed=zlib.crc32(name.encode()) % 10000))["name"] == data
    else:
        service.checkpoint(service.files / name / "1", name, "step1", step=1)
        assert "step1" not in measured()
    again = service.run("evaluate", checkpoint=f"{name}/step1", dataset=data, sequence_length=None)
    assert (again["id"] == runs[1]["id"]) == (what == "dataset")
    assert measured()["step1"] == before["step1"] and again["result"]["loss"] == runs[1]["result"]["loss"]
