"""Weight health against numpy, and the integrity of trajectories
that are not what they claim: the real cases, small."""

import csv
import hashlib
import json
import math

import models
import numpy
from service import quoted
from streaming import Stream


def drift(seed, step):
    """The weights of a run after `step` steps: a start that is the same, and a way that grows smoothly."""
    start, way = models.tensors_of(models.LLAMA, seed), models.tensors_of(models.LLAMA, seed + 1000)
    return {name: (start[name] + 0.002 * step * way[name]).astype(numpy.float32) for name in start}


def write(directory, tensors, shards=1):
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(models.LLAMA))
    if shards == 1:
        models.write_safetensors(directory / "model.safetensors", tensors)
        return directory
    names, files = sorted(tensors), {}
    for i in range(shards):
        files[f"model-{i + 1:05}-of-{shards:05}.safetensors"] = (
            names[i * len(names) // shards:(i + 1) * len(names) // shards])
    for file, inside in files.items():
        models.write_safetensors(directory / file, {name: tensors[name] for name in inside})
    index = {"metadata": {}, "weight_map": {name: file for file, inside in files.items() for name in inside}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    return directory


def measured(service, trajectory, checkpoints):
    """Registers [(name, step, path)], reads them all, and answers what integrity says."""
    ids = {name: service.checkpoint(path, trajectory, name, step=step)["id"] for name, step, path in checkpoints}
    sweep = service.post("/v1/sweeps", {"name": f"{trajectory}-health", "kind": "health",
                                        "grid": {"checkpoint": {"trajectory": trajectory}}})
    assert sweep.status == 202, sweep.body
    for run in service.get(f"/v1/runs?sweep={sweep.json['id']}&limit=200").json["items"]:
        done = service.wait(run["id"])
        assert done["state"] == "succeeded", done
    return ids, service.get(f"/v1/trajectories/{trajectory}/integrity").json


def names(rows):
    return [row["name"] for row in rows]


def flags(found):
    return {point["name"]: point["flags"] for point in found["points"] if point["flags"]}


def test_health_is_what_numpy_says(service, name):
    a, b = drift(101, 0), drift(101, 3)  # weights of no other test: equal ones share what is measured
    b["lm_head.weight"][7, 5] = 40.0
    first = service.checkpoint(write(service.files / name / "a", a), name, "a", step=0)
    second = service.checkpoint(write(service.files / name / "b", b), name, "b", step=3)
    run = service.run("health", checkpoint=second["id"])
    assert (run["state"] == "succeeded" and run["params"]["previous"] == first["id"]
            and run["result"]["previous"] == first["id"])
    health = service.get(f"/v1/checkpoints/{second['id']}/health").json
    assert [t["name"] for t in health["tensors"]] == sorted(b)
    for tensor in health["tensors"]:
        x, y = b[tensor["name"]].astype(numpy.float64).ravel(), a[tensor["name"]].astype(numpy.float64).ravel()
        centred = x - x.mean()
        assert tensor["sha256"] == hashlib.sha256(b[tensor["name"]].tobytes()).hexdigest()
        assert (math.isclose(tensor["l1"], abs(x).sum(), rel_tol=1e-12)
                and math.isclose(tensor["l2"], numpy.linalg.norm(x), rel_tol=1e-12))
        assert tensor["linf"] == abs(x).max()
        if (centred ** 2).sum() > 0:
            assert math.isclose(tensor["kurtosis"], (centred ** 4).mean() / (centred ** 2).mean() ** 2, rel_tol=1e-9)
        assert math.isclose(tensor["relative_l2"], numpy.linalg.norm(x - y) / numpy.linalg.norm(y), rel_tol=1e-9,
                            abs_tol=1e-15)
        assert tensor["outliers"] == (abs(x) > 6 * numpy.sqrt((x * x).mean())).sum() == (
            tensor["name"] == "lm_head.weight")
    everything = numpy.concatenate([b[k].astype(numpy.float64).ravel() for k in sorted(b)])
    before = numpy.concatenate([a[k].astype(numpy.float64).ravel() for k in sorted(a)])
    assert math.isclose(run["result"]["cosine"],
                        everything @ before / numpy.linalg.norm(everything) / numpy.linalg.norm(before), rel_tol=1e-12)
    assert math.isclose(run["result"]["l2"], numpy.linalg.norm(everything), rel_tol=1e-12)
    assert [block["layer"] for block in run["result"]["blocks"]] == [0, 1]
    curve = service.get(f"/v1/curves?trajectory={name}&metric=weight_l2&x=step").json
    assert [point["y"] for point in curve["series"][0]["points"]] == [run["result"]["l2"]]


def test_healthy_trajectories_are_clean(service, name):
    rows = [(f"step{s}", s, write(service.files / name / str(s), drift(2, s))) for s in range(0, 12)]
    _, found = measured(service, name, rows)
    assert found["clean"] and found["measured"] == found["checkpoints"] == 12
    assert found["marked"] == 0 and found["gaps"] == []
    assert (found["constant_matrices"] == 0 and found["points"][0]["relative_l2"] is None
            and found["points"][1]["previous"] == found["points"][0]["checkpoint"])


def test_what_nobody_read_is_not_clean(service, name):
    for step in range(2):
        service.checkpoint(write(service.files / name / str(step), drift(5, step)), name, f"step{step}", step=step)
    address = f"/v1/trajectories/{name}/integrity"
    unread = service.get(address).json
    assert (unread["measured"], unread["clean"]) == (0, None)
    assert service.run("health", checkpoint=f"{name}/step0")["state"] == "succeeded"
    half = service.get(address).json
    assert (half["measured"], half["checkpoints"], half["clean"]) == (1, 2, None)
    assert service.run("health", checkpoint=f"{name}/step1")["state"] == "succeeded"
    assert service.get(address).json["clean"] is True


def test_identical_branches_and_revisions_with_the_final_weights(service, name):
    """Three branches that are the same (OLMo2-7B), and revisions that hold the final weights (Pythia-2.8B)."""
    final = drift(3, 11)
    rows = [(f"step{s}", s, write(service.files / name / str(s), final if s in (4, 5, 8) else drift(3, s)))
            for s in range(0, 12)]
    ids, found = measured(service, name, rows)
    assert [names(group["checkpoints"]) for group in found["identical"]] == [["step4", "step5", "step8", "step11"]]
    assert all("identical" in flags(found)[f"step{s}"] for s in (4, 5, 8, 11)) and not found["clean"]
    assert {n for n, f in flags(found).items() if "identical" in f} == {"step4", "step5", "step8", "step11"}
    points = {point["name"]: point for point in found["points"]}
    assert (points["step4"]["identical_to"] is None and points["step11"]["identical_to"] == ids["step4"]
            and points["step5"]["relative_l2"] == 0)
    assert found["mixed"] == []
    address = f"/v1/trajectories/{name}/integrity?checkpoint="
    assert service.get(address + "step8").json["identical"] == found["identical"]
    assert service.get(address + "step7").json["identical"] == []
    branches = f"{name}-branches"
    rows = [(f"ingredient{i}", 100, write(service.files / branches / str(i), drift(4, 7))) for i in range(3)]
    _, found = measured(service, branches, rows)
    assert [names(group["checkpoints"]) for group in found["identical"]] == [
        ["ingredient0", "ingredient1", "ingredient2"]]


def test_a_wrong_first_shard(service, name):
    """A checkpoint whose first shard is the final one's (Pythia-12B), and one whose shard is nobody's."""
    def spoiled(s, tensors):
        other = drift(5, 30) if s == 6 else drift(77, 3) if s == 11 else None
        count = len(tensors)
        return {n: other[n] if other and i < count // 2 else tensors[n] for i, n in enumerate(sorted(tensors))}

    steps = [*range(0, 16), 30]
    rows = [(f"step{s}", s, write(service.files / name / str(s), spoiled(s, drift(5, s)), shards=2)) for s in steps]
    ids, found = measured(service, name, rows)
    assert [(m["name"], m["with"]["name"], m["file"]) for m in found["mixed"]] == [
        ("step6", "step30", "model-00001-of-00002.safetensors")]
    assert found["mixed"][0]["matrices"] < found["mixed"][0]["of"] and found["mixed"][0]["example"] in drift(5, 0)
    assert names(found["jumps"]) == ["step6", "step11"]
    assert flags(found) == {"step6": ["mixed", "jump"], "step11": ["jump"]}
    # Of one checkpoint: it and its neighbours, and what was found of it.
    address = f"/v1/trajectories/{name}/integrity?checkpoint="
    own = service.get(address + "step6").json
    assert own["points"] == found["points"][5:8] and own["clean"] is False
    assert own["marked"] == found["marked"] == 2
    assert own["checkpoints"] == found["checkpoints"] and own["mixed"] == found["mixed"]
    assert names(own["jumps"]) == ["step6"] and own["identical"] == own["not_finite"] == own["gaps"] == []
    assert service.get(address + ids["step6"]).json == service.get(f"{address}{name}%2Fstep6").json == own
    assert names(service.get(address + "step30").json["mixed"]) == ["step6"]  # the other one
    assert service.get(address + "step0").json["points"] == found["points"][:2]
    assert service.get(address + "step99").status == 404
    curve = service.get(f"/v1/curves?trajectory={name}&metric=weight_change&x=step").json
    assert {p["checkpoint_name"]: p["flags"] for p in curve["series"][0]["points"] if p["flags"]} == flags(found)
    service.checkpoint(service.files / name / "0", f"{name}-unread", "step0", step=0)
    second = service.get(f"/v1/curves?trajectory={name}-unread&trajectory={name}&metric=weight_change&x=step").json
    assert second["series"][-1]["points"] == curve["series"][0]["points"]
    text = service.get(f"/v1/curves?trajectory={name}&metric=weight_change&x=step",
                       headers={"Accept": "text/csv"}).body.decode()
    assert [row["flags"] for row in csv.DictReader(text.splitlines()) if row["flags"]] == ["mixed jump", "jump"]


def test_broken_numbers_and_missing_steps(service, name):
    def at(s):
        tensors = drift(6, s)
        if s == 3:
            tensors["model.layers.1.mlp.up_proj.weight"][2, 3] = numpy.nan
            tensors["lm_head.weight"][0, :2] = numpy.inf
        return tensors

    rows = [(f"step{s}", 100 * s, write(service.files / name / str(s), at(s))) for s in (0, 1, 2, 3, 4, 7, 8, 9)]
    _, found = measured(service, name, rows)
    assert [(r["name"], r["tensor"], r["nan"], r["infinite"]) for r in found["not_finite"]] == [
        ("step3", "lm_head.weight", 0, 2), ("step3", "model.layers.1.mlp.up_proj.weight", 1, 0)]
    assert flags(found) == {"step3": ["not_finite"]}
    own = service.get(f"/v1/trajectories/{name}/integrity?checkpoint=step3").json
    other = service.get(f"/v1/trajectories/{name}/integrity?checkpoint=step4").json
    assert own["not_finite"] == found["not_finite"] and own["gaps"] == []
    assert other["not_finite"] == [] and other["gaps"] == found["gaps"]
    assert [(g["after"]["name"], g["before"]["name"], g["missing"]) for g in found["gaps"]] == [("step4", "step7", 2)]


def test_what_was_not_read_is_said(service, name):
    made = service.checkpoint(models.write_llama(service.files / name), name, "only")
    found = service.get(f"/v1/trajectories/{name}/integrity").json
    assert found["measured"] == 0 and found["points"][0]["sha256"] is None and found["points"][0]["flags"] == []
    assert service.get(f"/v1/checkpoints/{made['id']}/health").status == 404
    assert service.get("/v1/trajectories/nobody/integrity").status == 404
    assert (service.post("/v1/runs", {"kind": "health", "params": {"checkpoint": made["id"], "previous": made["id"]}})
            .pointers == ["/params/previous"])
    run = service.run("health", checkpoint=made["id"])
    assert run["params"]["previous"] is None and run["result"]["relative_l2"] is None


def test_checkpoints_of_one_content_share_their_points(service, name):
    data = service.sequences(name, models.rows(2, 16))
    for step, seed in ((1, 1), (2, 1), (3, 2)):
        service.checkpoint(models.write_llama(service.files / name / str(step), seed=seed), name,
                           f"step{step}", step=step)
    grid = {"checkpoint": {"trajectory": name}}
    sweep = service.post("/v1/sweeps", {"name": name, "kind": "evaluate",
                                        "base": {"dataset": data["id"], "sequence_length": None}, "grid": grid}).json
    assert sweep["runs"]["total"] == 2
    for run in service.get(f"/v1/runs?sweep={sweep['id']}").json["items"]:
        assert service.wait(run["id"])["state"] == "succeeded"
    points = service.get(f"/v1/curves?trajectory={name}&metric=loss&x=step").json["series"][0]["points"]
    assert ([p["x"] for p in points] == [1, 2, 3] and points[0]["y"] == points[1]["y"] != points[2]["y"]
            and points[0]["run"] == points[1]["run"])


def test_a_gate_judges_a_trajectory_anew_that_a_checkpoint_left(service, name):
    """Of two checkpoints that share a matrix one is deleted: the other one is clean then."""
    body = {"name": name, "trajectory": name, "rules": [{"integrity": "clean"}]}
    tensors = [drift(150, i) for i in range(4)]
    tensors[3]["lm_head.weight"] = tensors[1]["lm_head.weight"]
    for i, one in enumerate(tensors):
        service.checkpoint(write(service.files / name / str(i), one), name, f"step{i}", step=i)
    assert service.post("/v1/gates", body).status == 201
    for i in range(4):
        assert service.run("health", checkpoint=f"{name}/step{i}")["state"] == "succeeded"
    with Stream(service.port, f"/v1/events?after=0&trajectory={quoted(name)}&kind=verdict",
                limit=40) as stream:
        events = stream.events()

        def told(wanted):
            for _, _, data in events:
                if (data["checkpoint_name"], data["verdict"]) == wanted:
                    return data["rules"][0]["flags"]

        assert told(("step1", "fail")) == ["mixed"]
        assert service.request("DELETE", f"/v1/checkpoints/{quoted(name)}%2Fstep3").status == 204
        assert told(("step1", "pass")) == []
