"""Which averages are refused when they are posted: by their names in a sweep, by checkpoints beside a trajectory."""

import models
import pytest


def write(service, trajectory, steps):
    """The ids of a trajectory's checkpoints."""
    files = [models.write_llama(service.files / trajectory / f"step{i + 1}", seed=i) for i in range(steps)]
    return [service.checkpoint(file, trajectory, f"step{i + 1}", step=10 * (i + 1))["id"]
            for i, file in enumerate(files)]


@pytest.fixture(scope="module")
def path(service):
    return write(service, "averages", 6)


def dry_run(service, **params):
    return service.post("/v1/runs", {"kind": "average", "params": params, "dry_run": True})


@pytest.mark.parametrize("dry", [True, False])
@pytest.mark.parametrize("more, grid, where", [
    ({"name": "both"}, {"weights": [[1, 2], [2, 1]]}, "/base/name"),
    ({}, {"weights": [[1, 2], [2, 1]], "name": ["both"]}, "/grid/name"),
    ({"into": "both", "trajectory": "averages", "checkpoints": None}, {"window": [2, 3]}, "/base/into"),
])
def test_averages_of_a_sweep_have_names_of_their_own(service, path, more, grid, where, dry):
    base = {"checkpoints": path[:2], **more}
    answer = service.post("/v1/sweeps", {"kind": "average", "base": base, "grid": grid, "dry_run": dry})
    assert answer.status == 409 and answer.pointers == [where], answer.body
    assert "runs 1 and 2 of the product would both make a checkpoint" in answer.json["detail"]
    named = {key: value for key, value in base.items() if key not in ("name", "into")}
    grid = {key: value for key, value in grid.items() if key != "name"}
    assert service.post("/v1/sweeps", {"kind": "average", "base": named, "grid": grid, "dry_run": True}).status == 200


def test_a_name_that_is_taken_is_pointed_at_in_a_sweep(service, path, name):
    assert service.run("average", checkpoints=path[:2], name=name)["state"] == "succeeded"
    answer = service.post("/v1/sweeps", {"kind": "average", "base": {"checkpoints": path[1:3]},
                                         "grid": {"name": [name]}})
    assert answer.status == 409 and answer.pointers == ["/grid/name"], answer.body


def test_checkpoints_beside_a_trajectory_are_of_it(service, path, name):
    """What a trajectory was completed to may be posted again; others would make an average of what is not named."""
    made = write(service, name, 2)
    again = dry_run(service, trajectory="averages", window=2)
    assert again.status == 200 and again.json["params"]["checkpoints"] == path, again.body
    assert dry_run(service, **again.json["params"]).status == 200
    odd = [*path[:2], made[0]]
    answer = dry_run(service, trajectory="averages", checkpoints=odd, window=2)
    assert answer.status == 422 and answer.pointers == ["/params/checkpoints/2"], answer.body
    assert f'of trajectory "{name}", which is not in "trajectory"' in answer.json["detail"]
    both = {"trajectories": ["averages", name], "window": 2}
    assert dry_run(service, **both, checkpoints=[*path[:2], *made]).status == 200
    answer = dry_run(service, **both, checkpoints=path)
    assert answer.status == 422 and answer.pointers == ["/params/trajectories"], answer.body


@pytest.mark.parametrize("search", [False, True])
def test_windows_need_checkpoints_by_step(service, path, name, search):
    """Else an average that is called step1, at its step in curves, would have a later checkpoint in it."""
    made, how = write(service, name, 2), {"window": 2}
    if search:
        (service.files / f"{name}.txt").write_text("any text at all " * 20)
        service.post("/v1/datasets", {"name": name, "path": f"{name}.txt", "format": "text"})
        how = {"windows": [1, 2], "evaluation": {"dataset": name, "sequence_length": 16}}
    answer = dry_run(service, checkpoints=[path[1], path[3], path[0]], **how)
    assert answer.status == 422 and answer.pointers == ["/params/checkpoints/2"], answer.body
    assert 'of step 10 and stands after "step2" of step 20' in answer.json["detail"]
    assert dry_run(service, checkpoints=[path[1], made[0], path[3], made[1]], **{**how, "window": None}).status == 200
    assert dry_run(service, checkpoints=[path[1], path[3], path[0]], weights=[1, 2, 3]).status == 200


def test_too_few_checkpoints_for_the_default_window_are_said_to_be(service, path, name):
    write(service, name, 2)
    for params, pointer in (
        ({"trajectory": "averages", "checkpoints": path[:1]}, "/params/checkpoints"),
        ({"trajectory": name}, "/params/trajectory"),
        ({"trajectories": ["averages", name]}, "/params/trajectories"),
        ({"trajectory": name, "window": 3}, "/params/window"),
    ):
        answer = dry_run(service, **params)
        assert answer.status == 422 and answer.pointers == [pointer], answer.body
        said = "no place has 3" if "window" in params else "no checkpoint ends a window of 5"
        assert said in answer.json["detail"], answer.body


@pytest.mark.parametrize("how, pointer", [({"checkpoints": 2, "name": True}, "/params/name"),
                                          ({"trajectory": "averages", "window": 2}, "/params/into")])
def test_an_average_that_is_stored_in_another_type_is_another_one(service, path, name, how, pointer):
    """What is asked for in f32 is not answered by what was rounded to bf16; "same" means f32 here."""
    how = {**how, "into": name}
    if "name" in how:
        how.update(checkpoints=path[:2], name=name)
    made = service.run("average", **how, dtype="bf16")["result"]["checkpoints"]
    assert {service.get(f"/v1/checkpoints/{id}").json["dtype"] for id in made} == {"BF16"}
    for dtype in ({"dtype": "f32"}, {}):
        answer = service.post("/v1/runs", {"kind": "average", "params": {**how, **dtype}})
        assert answer.status == 409 and answer.pointers == [pointer], answer.body
        assert "stored in BF16" in answer.json["detail"]
    again = service.post("/v1/runs", {"kind": "average", "params": {**how, "dtype": "bf16"}, "force": True})
    assert service.wait(again.json["id"])["result"]["checkpoints"] == made
    kept = {**how, "into": f"{name}-kept"}
    made = service.run("average", **kept)["result"]["checkpoints"]
    assert service.run("average", **kept, dtype="f32")["result"]["checkpoints"] == made
