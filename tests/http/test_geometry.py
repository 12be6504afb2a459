"""Averages, lines and planes of checkpoints, and correlations between what was measured."""

import json
import math
import os
import pathlib
import signal
import struct
import time

import models
import numpy
import pytest
from service import Service, quoted

STEPS = 6


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    return {
        name: numpy.frombuffer(data[8 + size :][slice(*row["data_offsets"])], numpy.float32).reshape(row["shape"])
        for name, row in header.items()
    }


def weights_of(service, checkpoint):
    return read_safetensors(
        pathlib.Path(service.get(f"/v1/checkpoints/{checkpoint}").json["source"]["path"]) / "model.safetensors"
    )


def write_path(service, trajectory, seed=0, steps=STEPS, scale=0.02, **config):
    """A path of checkpoints that wander away from one model."""
    made, files = [], []
    random = numpy.random.default_rng(seed)
    drift = {
        name: random.standard_normal(t.shape) for name, t in models.tensors_of({**models.LLAMA, **config}, 0).items()
    }
    for i in range(steps):

        def change(tensors, i=i):
            for name, tensor in tensors.items():
                tensor += (scale * (i * drift[name] + random.standard_normal(tensor.shape))).astype(numpy.float32)

        files.append(models.write_llama(service.files / trajectory / f"step{i + 1}", change=change, **config))
        made.append(
            service.checkpoint(
                files[-1],
                trajectory,
                f"step{i + 1}",
                step=10 * (i + 1),
                tokens=640 * (i + 1),
                learning_rate=0.01 / (i + 1),
            )
        )
    return made, [read_safetensors(f / "model.safetensors") for f in files]


@pytest.fixture(scope="module")
def path(service):
    made, tensors = write_path(service, "geometry")
    return {
        "ids": [c["id"] for c in made],
        "tensors": tensors,
        "dataset": service.sequences("geometry", models.rows(4, 24))["id"],
    }


def loss_of(service, checkpoint, path):
    return service.run("evaluate", checkpoint=checkpoint, dataset=path["dataset"], sequence_length=None)["result"][
        "loss"
    ]


def mean(tensors, weights=None):
    weights = weights or [1.0] * len(tensors)
    out = {}
    for name in tensors[0]:
        total = numpy.zeros(tensors[0][name].shape)
        for weight, t in zip(weights, tensors):
            total += weight * t[name].astype(numpy.float64)
        divisor = 0.0
        for weight in weights:
            divisor += weight
        out[name] = (total / divisor).astype(numpy.float32)
    return out


def assert_same(got, wanted):
    assert got.keys() == wanted.keys()
    for name in wanted:
        assert numpy.array_equal(got[name], wanted[name]), name


def test_uniform_average_is_bit_exact(service, path):
    run = service.run("average", checkpoints=path["ids"], name="all")
    assert run["state"] == "succeeded", run["error"]
    made = run["result"]["checkpoint"]
    assert_same(weights_of(service, made), mean(path["tensors"]))
    document = service.get(f"/v1/checkpoints/{made}").json
    assert (document["trajectory"], document["name"], document["step"]) == ("geometry-averages", "all", 60)
    assert document["derived_from"]["checkpoints"] == path["ids"] and document["derived_from"][
        "weights"
    ] == pytest.approx([1 / 6] * 6)
    assert run["params"]["into"] == "geometry-averages" and run["progress"]["done"] == run["progress"]["total"]
    files = pathlib.Path(document["source"]["path"])
    assert {f.name for f in files.iterdir()} == {"config.json", "tokenizer.json", "model.safetensors"}


def test_weighted_average_and_its_default_name(service, path):
    ids = [path["ids"][5], path["ids"][3], path["ids"][1]]
    run = service.run("average", checkpoints=ids, weights=[0.5, 0.3, 0.2])
    made = run["result"]["checkpoint"]
    assert_same(weights_of(service, made), mean([path["tensors"][i] for i in (5, 3, 1)], [0.5, 0.3, 0.2]))
    assert run["params"]["name"].startswith("average-")
    forced = service.post(
        "/v1/runs", {"kind": "average", "params": {"checkpoints": ids, "weights": [0.5, 0.3, 0.2]}, "force": True}
    )
    assert (
        forced.status == 202 and service.wait(forced.json["id"])["result"]["checkpoint"] == made
    ), "the same average is one checkpoint"


SHAPES = {
    "linear": lambda x: 1 - x,
    "cosine": lambda x: 0.5 * (1 + math.cos(math.pi * x)),
    "sqrt": lambda x: 1 - math.sqrt(x),
}


def decay_weights(shape, count):
    """Of the checkpoints, oldest first: what the rate falls by from one to the next."""
    return list(-numpy.diff([SHAPES[shape](place / count) for place in range(count)] + [0.0]))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_shape_of_a_decay_weighs_checkpoints_by_their_steps(service, path, name, shape):
    """Listed in any order; the oldest of a sqrt decay weighs most, all of a linear one the same."""
    order = [3, 0, 5, 1, 4, 2]
    run = service.run("average", checkpoints=[path["ids"][i] for i in order], shape=shape, into=name)
    assert run["state"] == "succeeded" and run["params"]["shape"] == shape, run["error"]
    weights = decay_weights(shape, 6)
    assert_same(weights_of(service, run["result"]["checkpoint"]), mean(path["tensors"], weights))
    origin = service.get(f"/v1/checkpoints/{run['result']['checkpoint']}").json["derived_from"]
    assert origin["checkpoints"] == path["ids"]
    assert origin["weights"] == pytest.approx(weights, rel=1e-12) and sum(weights) == pytest.approx(1)
    first, last = origin["weights"][0], origin["weights"][-1]
    assert {"linear": abs(first - last) < 1e-12, "sqrt": first > 4 * last, "cosine": abs(first - last) < 1e-12}[shape]
    assert shape != "cosine" or origin["weights"][2] > 3 * first


def test_a_shape_over_windows_is_that_of_each_trajectory(service, path, name):
    _, other = write_path(service, name, seed=5, steps=3)
    run = service.run("average", trajectories=["geometry", name], window=3, shape="sqrt", into=name + "-both")
    assert run["state"] == "succeeded", run["error"]
    (made,) = run["result"]["checkpoints"]
    assert_same(weights_of(service, made), mean(path["tensors"][:3] + other, 2 * decay_weights("sqrt", 3)))


def test_the_uniform_shape_asks_for_the_average_without_one(service, path):
    plain = service.run("average", checkpoints=path["ids"][:3])
    same = service.post("/v1/runs", {"kind": "average", "params": {"checkpoints": path["ids"][:3], "shape": "uniform"}})
    assert same.status == 200 and same.json["id"] == plain["id"] and "shape" not in plain["params"]


def test_a_shape_needs_steps_that_differ(service, path, name):
    for i, step in enumerate((10, None)):
        file = models.write_llama(service.files / name / str(i), seed=i)
        service.checkpoint(file, name, f"made{i}", **({} if step is None else {"step": step}))
    for odd, words in (("made0", "both of step 10"), ("made1", "has none")):
        params = {"checkpoints": [*path["ids"][:2], f"{name}/{odd}"], "shape": "cosine"}
        answer = service.post("/v1/runs", {"kind": "average", "params": params})
        assert answer.status == 422 and answer.pointers == ["/params/shape"] and words in answer.json["detail"]


def test_windows_along_a_trajectory(service, path):
    run = service.run("average", trajectory="geometry", window=3)
    assert run["state"] == "succeeded", run["error"]
    assert run["params"]["checkpoints"] == path["ids"]
    made = service.get("/v1/checkpoints?trajectory=geometry-lawa3").json["items"]
    assert [c["name"] for c in reversed(made)] == ["step3", "step4", "step5", "step6"]
    assert [c["id"] for c in reversed(made)] == run["result"]["checkpoints"] and run["result"][
        "trajectory"
    ] == "geometry-lawa3"
    assert [(c["step"], c["tokens"], c["learning_rate"]) for c in made][0] == (60, 3840, pytest.approx(0.01 / 6))
    for i, checkpoint in enumerate(run["result"]["checkpoints"]):
        assert_same(weights_of(service, checkpoint), mean(path["tensors"][i : i + 3]))
    again = service.run("average", **run["params"])
    assert again["result"] == run["result"], "parameters as they are written back ask for the same"


def test_windows_across_trajectories_are_matched_by_step(service, path, name):
    _, other = write_path(service, name, seed=5, steps=3)
    run = service.run("average", trajectories=["geometry", name], window=2, into=name + "-both")
    assert run["state"] == "succeeded", run["error"]
    assert len(run["result"]["checkpoints"]) == 2
    assert_same(weights_of(service, run["result"]["checkpoints"][1]), mean(path["tensors"][1:3] + other[1:3]))


def test_search_over_windows_keeps_the_best(service, path):
    evaluation = {"dataset": path["dataset"], "sequence_length": None}
    run = service.run(
        "average",
        trajectory="geometry",
        windows=[1, 2, 3, 6],
        evaluation=evaluation,
        calibration=evaluation,
        method={"name": "gptq", "bits": 3, "group_size": 16},
    )
    assert run["state"] == "succeeded", run["error"]
    result = run["result"]
    best = min(result["windows"], key=lambda row: row["loss_q"])
    assert [row["window"] for row in result["windows"]] == [1, 2, 3, 6] and result["window"] == best["window"]
    assert_same(weights_of(service, result["checkpoint"]), mean(path["tensors"][-best["window"] :]))
    assert loss_of(service, result["checkpoint"], path) == pytest.approx(best["loss"], abs=1e-6)
    quantized = service.run(
        "quantize",
        checkpoint=result["checkpoint"],
        method={"name": "gptq", "bits": 3, "group_size": 16},
        calibration=evaluation,
        evaluation=evaluation,
    )["result"]
    assert (quantized["loss_q"], quantized["delta"]) == (
        best["loss_q"],
        best["delta"],
    ), "a mix reads like the file it stands for"


@pytest.mark.parametrize(
    "params,pointer",
    [
        ({}, "/params/checkpoints"),
        ({"checkpoints": []}, "/params/checkpoints"),
        ({"checkpoints": ["nothing"]}, "/params/checkpoints/0"),
        ({"checkpoints": ["geometry/step1", 3]}, "/params/checkpoints/1"),
        ({"checkpoints": ["geometry/step1", "geometry/step2"], "weights": [1]}, "/params/weights"),
        ({"checkpoints": ["geometry/step1", "geometry/step2"], "weights": [1, -1]}, "/params/weights"),
        ({"checkpoints": ["geometry/step1"], "name": "a/b"}, "/params/name"),
        ({"checkpoints": ["geometry/step1"], "name": "a\u0085b"}, "/params/name"),
        ({"checkpoints": ["geometry/step1"], "into": "a\u2028b"}, "/params/into"),
        ({"trajectory": "geometry", "window": 7}, "/params/window"),
        ({"trajectory": "geometry", "window": 2, "name": "x"}, "/params/name"),
        ({"trajectory": "geometry", "trajectories": ["geometry", "geometry"]}, "/params/trajectories"),
        ({"trajectory": "geometry", "windows": [1, 2]}, "/params/evaluation"),
        ({"checkpoints": ["geometry/step1"], "calibration": {"dataset": "geometry"}}, "/params/calibration"),
        ({"trajectory": "geometry", "window": 2, "seed": 1}, "/params/seed"),
        ({"trajectory": "nothing"}, "/params/trajectory"),
        ({"checkpoints": ["geometry/step1"], "shape": "exponential"}, "/params/shape"),
        ({"checkpoints": ["geometry/step1"], "shape": None}, "/params/shape"),
        ({"checkpoints": ["geometry/step1"], "shape": "sqrt", "weights": [1]}, "/params/shape"),
        ({"checkpoints": ["geometry/step1"], "shape": "uniform", "weights": [1]}, "/params/shape"),
        ({"trajectory": "geometry", "windows": [1, 2], "shape": "sqrt"}, "/params/shape"),
    ],
)
def test_bad_averages_are_pointed_at(service, path, params, pointer):
    answer = service.post("/v1/runs", {"kind": "average", "params": params})
    assert answer.status == 422 and answer.pointers == [pointer], answer.body


def test_mismatched_checkpoints_are_refused_at_once(service, path, name):
    def rename(tensors):
        tensors["lm_head.weight"] = tensors["lm_head.weight"][:, :]

    wide = service.checkpoint(models.write_llama(service.files / name / "wide", intermediate_size=80), name, "wide")
    heads = service.checkpoint(
        models.write_llama(service.files / name / "heads", change=rename, rope_theta=5000.0), name, "heads"
    )
    for kind, params in (
        ("average", {}),
        ("interpolate", {"dataset": path["dataset"]}),
        ("landscape", {"dataset": path["dataset"]}),
    ):
        for odd, words in ((wide, "intermediate_size"), (heads, "rope_theta")):
            ids = [path["ids"][0], path["ids"][1], odd["id"]]
            both = {"from": ids[0], "to": ids[2]} if kind == "interpolate" else {"checkpoints": ids}
            answer = service.post("/v1/runs", {"kind": kind, "params": {**both, **params}})
            assert answer.status == 422 and words in answer.json["detail"], answer.body


def test_another_average_under_the_name_is_a_conflict(service, path, name):
    assert service.run("average", checkpoints=path["ids"][:2], name=name)["state"] == "succeeded"
    answer = service.post("/v1/runs", {"kind": "average", "params": {"checkpoints": path["ids"][1:3], "name": name}})
    assert answer.status == 409 and answer.pointers == ["/params/name"]


def test_weights_that_are_no_numbers_fail_the_average_by_name(service, path, name):
    def spoil(tensors):
        tensors["model.layers.1.mlp.up_proj.weight"][3, 4] = numpy.nan

    bad = service.checkpoint(models.write_llama(service.files / name, change=spoil), name, "bad")
    run = service.run("average", checkpoints=[path["ids"][0], bad["id"]], name=name)
    assert run["state"] == "failed" and "model.layers.1.mlp.up_proj.weight" in run["error"]["detail"]
    run = service.run(
        "landscape", checkpoints=[*path["ids"][:2], bad["id"]], dataset=path["dataset"], sequence_length=None
    )
    assert run["state"] == "failed" and "model.layers.1.mlp.up_proj.weight" in run["error"]["detail"]


def test_interpolation_ends_at_the_checkpoints(service, path):
    ends = [loss_of(service, path["ids"][i], path) for i in (0, 5)]
    run = service.run(
        "interpolate",
        **{"from": path["ids"][0], "to": path["ids"][5]},
        points=3,
        dataset=path["dataset"],
        sequence_length=None,
    )
    result = run["result"]
    assert result["alphas"] == [0, 0.5, 1] and result["losses_q"] is None
    assert [result["losses"][0], result["losses"][2]] == ends, "an end is read as it is"
    middle = service.run("average", checkpoints=[path["ids"][0], path["ids"][5]], name="middle")["result"]["checkpoint"]
    assert result["losses"][1] == loss_of(service, middle, path)
    assert (run["progress"]["done"], run["progress"]["unit"]) == (3, "point")


def test_interpolation_quantized_at_each_point(service, path):
    use = {"dataset": path["dataset"], "sequence_length": None}
    method = {"name": "rtn", "bits": 3, "group_size": 16}
    run = service.run(
        "interpolate", **{"from": path["ids"][0], "to": path["ids"][5]}, points=2, range=[0, 2], method=method, **use
    )
    whole = service.run("quantize", checkpoint=path["ids"][0], method=method, evaluation=use)["result"]
    result = run["result"]
    assert (
        result["alphas"] == [0, 2]
        and result["losses_q"][0] == whole["loss_q"]
        and result["deltas"][0] == whole["delta"]
    )
    assert result["delta_intervals"][0] == whole["delta_interval"]
    params = {"from": path["ids"][0], "to": path["ids"][5], **use}
    answer = service.post("/v1/runs", {"kind": "interpolate", "params": {**params, "method": {"name": "gptq"}}})
    assert answer.pointers == ["/params/calibration"]
    assert service.post("/v1/runs", {"kind": "interpolate", "params": {**params, "range": [1, 0]}}).pointers == [
        "/params/range"
    ]


def plane_of(tensors):
    rows = numpy.stack([numpy.concatenate([t[name].ravel() for name in sorted(t)]) for t in tensors]).astype(
        numpy.float64
    )
    centred = rows - rows.mean(0)
    _, singular, directions = numpy.linalg.svd(centred, full_matrices=False)
    directions = directions[:2] * numpy.sign([d[numpy.argmax(abs(d))] for d in directions[:2]])[:, None]
    return centred @ directions.T, singular**2 / (singular**2).sum()


def test_landscape_of_a_trajectory(service, path):
    run = service.run("landscape", trajectory="geometry", grid=[4, 3], dataset=path["dataset"], sequence_length=None)
    assert run["state"] == "succeeded", run["error"]
    result = run["result"]
    points, explained = plane_of(path["tensors"])
    assert result["explained_variance"] == pytest.approx(explained[:2], rel=1e-6)
    assert numpy.allclose(result["points"], points, rtol=1e-6, atol=1e-6)
    assert (
        len(result["losses"]) == 3
        and all(len(row) == 4 for row in result["losses"])
        and len(result["point_losses"]) == 6
    )
    low, high = points[:, 0].min(), points[:, 0].max()
    assert result["x"] == pytest.approx(
        numpy.linspace(low - 0.25 * (high - low), high + 0.25 * (high - low), 4), rel=1e-6
    )
    assert run["params"]["checkpoints"] == path["ids"] == result["checkpoints"]
    again = service.run(
        "landscape",
        checkpoints=path["ids"],
        grid=[2, 2],
        adaptive_margins=True,
        dataset=path["dataset"],
        sequence_length=None,
    )
    assert again["state"] == "succeeded" and all(0.125 <= m <= 1.5 for m in again["result"]["margins"])


@pytest.mark.parametrize(
    "params,pointer",
    [
        ({}, "/params/checkpoints"),
        ({"checkpoints": ["geometry/step1", "geometry/step2"]}, "/params/checkpoints"),
        ({"trajectory": "geometry", "grid": [1, 5]}, "/params/grid/0"),
        ({"trajectory": "geometry", "grid": [5]}, "/params/grid"),
        ({"trajectory": "geometry", "margin": -1}, "/params/margin"),
    ],
)
def test_bad_landscapes_are_pointed_at(service, path, params, pointer):
    answer = service.post("/v1/runs", {"kind": "landscape", "params": {**params, "dataset": path["dataset"]}})
    assert answer.status == 422 and answer.pointers == [pointer], answer.body


def test_checkpoints_on_a_line_have_no_plane(service, path):
    ids = [path["ids"][0], path["ids"][0], path["ids"][1]]
    run = service.run("landscape", checkpoints=ids, dataset=path["dataset"], sequence_length=None)
    assert run["state"] == "failed" and "line" in run["error"]["detail"]


def test_landscape_goes_on_after_its_worker_was_killed(tmp_path):
    service = Service(tmp_path, "--threads", "1")
    try:
        made, _ = write_path(service, "killed", steps=3)
        params = {
            "checkpoints": [c["id"] for c in made],
            "grid": [6, 5],
            "sequence_length": None,
            "dataset": service.sequences("killed", models.rows(4, 32))["id"],
        }
        service.gate.hold("landscape", 4, "point")
        run = service.post("/v1/runs", {"kind": "landscape", "params": params}).json["id"]
        service.held(run)

        def saved_after(point, lease):
            """How many points are kept once `point` is done; the last save was more than the second ago
            that lies between two of them."""
            time.sleep(1.1)
            service.gate.hold("landscape", point, "point", lease)
            service.held(run, lease)
            return struct.unpack("<q", (service.data / "tmp" / f"run-{run}" / "landscape.table").read_bytes()[32:40])[0]

        assert [saved_after(point, 1) for point in (5, 6, 7)] == [5, 6, 7]
        service.gate.hold("landscape", 1, "point", lease=2, also=True)
        for worker in service.workers():
            os.kill(worker, signal.SIGKILL)
        service.held(run, 2)
        assert [saved_after(point, 2) for point in (2, 8)] == [
            7,
            8,
        ], "the second attempt measures the eighth point first"
        service.gate.open()
        done = service.wait(run)
        assert done["state"] == "succeeded" and done["attempt"] == 1, done["error"]
        forced = service.post("/v1/runs", {"kind": "landscape", "params": params, "force": True}).json["id"]
        assert service.wait(forced)["result"] == done["result"], "interrupted or not: the same bits"
    finally:
        service.stop()


def test_correlations(service, path):
    use = {"dataset": path["dataset"], "sequence_length": None}
    for checkpoint in path["ids"][:5]:
        for bits in (3, 4):
            service.run(
                "quantize",
                checkpoint=checkpoint,
                method={"name": "rtn", "bits": bits, "group_size": 16},
                evaluation=use,
            )
    address = "/v1/correlations?trajectory=geometry&x=step&y=delta"
    answer = service.get(address + "&method=rtn&bits=3").json
    assert answer["n"] == 5 and len(answer["points"]) == 5 and answer["x"] == "step" and answer["units"] == 1
    x, y = ([p[k] for p in answer["points"]] for k in "xy")
    assert x == [10, 20, 30, 40, 50] and answer["pearson"] == pytest.approx(numpy.corrcoef(x, y)[0, 1], rel=1e-9)
    ranks = numpy.argsort(numpy.argsort(y)) + 1
    assert answer["spearman"] == pytest.approx(numpy.corrcoef(range(5), ranks)[0, 1], rel=1e-9)
    # the points of one trajectory share its trend: they are no sample
    assert answer["interval"] is None and "fewer than five independent trajectories" in answer["note"]
    assert (answer["differences"]["n"], answer["differences"]["pearson"]) == (4, None)  # every step is of 10
    pooled = service.get(address).json
    assert pooled["n"] >= 10 and "not pooled" in pooled["note"] and len(pooled["series"]) >= 2
    assert (pooled["pearson"], pooled["interval"]) == (None, None) and pooled["within"]["pearson"] is not None
    assert any(
        s["pearson"] == pytest.approx(answer["pearson"]) and s["label"] == "rtn 3-bit g16" for s in pooled["series"]
    )
    few = service.get(address + "&method=llm_int8").json
    assert (few["n"], few["pearson"], few["interval"]) == (0, None, None) and "three" in few["note"]
    for point in answer["points"]:  # a step is not measured
        run = service.get(f"/v1/runs/{point['run_y']}").json
        assert point["run_x"] is None and run["params"]["checkpoint"] == point["checkpoint"]
    both = service.get("/v1/correlations?trajectory=geometry&x=kl&y=delta&method=rtn&bits=3").json["points"]
    assert both and all(point["run_x"] == point["run_y"] for point in both), "one run measures both"
    table = service.get(address + "&method=rtn&bits=3", headers={"Accept": "text/csv"})
    assert service.get(address + "&method=rtn&bits=3&format=csv").body == table.body
    assert table.headers.get_content_type() == "text/csv" and len(table.body.decode().splitlines()) == 6
    assert service.get("/v1/correlations?x=step").status == 422
    assert service.get("/v1/correlations?x=step&y=delta&what=1").status == 422
    assert service.get(f"/v1/correlations?x=step&y=delta&trajectory={quoted('nothing at all')}").status == 404


def test_more_pairs_than_there_may_be_are_refused_in_every_form(service):
    alone = "set session_replication_role = replica;"  # no trigger runs: the log of changes need not know
    service.sql(alone + "insert into trajectories (id, name) values ('many', 'many');"
                "insert into checkpoints (trajectory, name, step, tokens, source)"
                " select 'many', i, i, i, '{}' from generate_series(1, 5001) i")
    address = "/v1/correlations?trajectory=many&x=step&y=tokens"
    try:
        for accept in ("application/json", "text/csv"):
            refused = service.get(address, headers={"Accept": accept})
            assert refused.status == 422 and "more than 5000 pairs" in refused.json["detail"], refused.body
        service.sql(alone + "delete from checkpoints where trajectory = 'many' and step = 1")
        few = service.get(address, headers={"Accept": "text/csv"})
        assert few.status == 200 and len(few.body.splitlines()) == 5001, few.body[:500]
    finally:
        service.sql(alone + "delete from checkpoints where trajectory = 'many';"
                    "delete from trajectories where id = 'many'")


def test_single_checkpoints_are_no_units_within_trajectories(service):
    alone = "set session_replication_role = replica;"  # no trigger runs: the log of changes need not know
    six = "generate_series(1, 6) i;"
    one = "insert into checkpoints (trajectory, name, step, tokens, source) select 'single-' || i, "
    service.sql(f"{alone} insert into trajectories (id, name) select 'single-' || i, 'single-' || i from {six}"
                f"{one} 'one', i, i * i, '{{}}' from {six}")
    address = "/v1/correlations?x=step&y=tokens" + "".join(f"&trajectory=single-{i}" for i in range(1, 7))
    try:
        found = service.get(address).json
        assert (found["n"], found["units"]) == (6, 6) and found["interval"] is not None
        assert [(found[part]["n"], found[part]["units"]) for part in ("within", "differences")] == [(0, 0), (0, 0)]
        assert found["within"]["pearson"] is None and "nothing is left of a single one" in found["note"]
        service.sql(f"{alone} {one} 'two', i + 9, i * 7, '{{}}' from {six}")
        found = service.get(address).json
        assert found["within"]["units"] == 6 and found["within"]["interval"] is not None
        assert "no two trajectories have checkpoints of the same tokens" in found["note"]
    finally:
        service.sql(f"{alone} delete from checkpoints where trajectory like 'single-_';"
                    "delete from trajectories where id like 'single-_'")


@pytest.fixture(scope="module")
def family(service):
    """Six trajectories of four checkpoints of the same token budgets; a quantized loss of each on two evaluations."""
    data = [service.sequences(f"family-{which}", models.rows(4, 12, seed=30 + which))["name"] for which in range(2)]
    for trajectory in range(6):
        for step in range(1, 5):
            path = models.write_llama(service.files / f"family-{trajectory}-{step}", seed=100 + 10 * trajectory + step)
            checkpoint = service.checkpoint(
                path, f"family-{trajectory}", f"s{step}", step=step, tokens=100 * step, tags={"seed": str(trajectory)}
            )["id"]
            # the last two checkpoints are evaluated on other data as well, the first of them there alone
            for use in ([data[0]] if step < 3 else [data[1]] if step == 3 else data):
                service.run(
                    "quantize",
                    checkpoint=checkpoint,
                    method={"name": "rtn", "bits": 3, "group_size": 16},
                    evaluation={"dataset": use},
                )
    return data


def test_an_average_is_no_unit_of_its_own(service, path):
    data = service.sequences("units", models.rows(2, 12, seed=40))["name"]
    alone = models.write_llama(service.files / "units-alone", seed=400)
    ids = [path["ids"][0], service.checkpoint(alone, "units-alone", "first", step=1)["id"]]
    mean = service.run("average", checkpoints=path["ids"][:2], into="units-mean")["result"]["checkpoint"]
    again = service.run("average", checkpoints=[mean, path["ids"][2]], into="units-again")["result"]["checkpoint"]
    for checkpoint in (*ids, mean, again):
        service.run("quantize", checkpoint=checkpoint, method={"name": "rtn", "bits": 3, "group_size": 16},
                    evaluation={"dataset": data})
    names = "".join(f"&trajectory={name}" for name in ("geometry", "units-alone", "units-mean", "units-again"))
    found = service.get(f"/v1/correlations?x=kl&y=delta&dataset={data}{names}").json
    units = {point["trajectory"]: point["unit"] for point in found["points"]}
    assert units == {"units-alone": "trajectory units-alone"} | dict.fromkeys(
        ("geometry", "units-mean", "units-again"), "trajectory geometry")
    assert found["n"] == 4 and found["units"] == 2
    # single checkpoints leave nothing about the means of their trajectories, and have no difference
    assert [(found[part]["n"], found[part]["units"]) for part in ("within", "differences")] == [(0, 0), (0, 0)]
    # asked for alone, the same
    found = service.get(f"/v1/correlations?x=kl&y=delta&dataset={data}&trajectory=units-again").json
    assert [point["unit"] for point in found["points"]] == ["trajectory geometry"]


def test_correlations_are_within_series_and_over_independent_units(service, family):
    names = "".join(f"&trajectory=family-{trajectory}" for trajectory in range(6))
    both = service.get(f"/v1/correlations?x=kl&y=delta{names}").json
    assert [(s["dataset"], s["n"], s["units"]) for s in both["series"]] == [(family[0], 18, 6), (family[1], 12, 6)]
    assert both["n"] == 30 and both["pearson"] is None and "not pooled" in both["note"]
    assert {(p["series"], p["dataset"]) for p in both["points"]} == {(0, family[0]), (1, family[1])}
    one = service.get(f"/v1/correlations?x=kl&y=delta&dataset={family[0]}{names}").json
    assert ("note" in one) == (one["interval"] is None), "what is not missing needs no reason"
    assert one["series"][0]["label"] == one["points"][0]["label"] and one["series"][0]["bits"] == 3
    points = one["points"]
    x, y = (numpy.array([p[k] for p in points]) for k in "xy")
    assert (
        one["pearson"]
        == pytest.approx(numpy.corrcoef(x, y)[0, 1], rel=1e-9)
        == pytest.approx(both["series"][0]["pearson"], rel=1e-9)
    )
    place = {name: numpy.array([p[name] for p in points]) for name in ("trajectory", "tokens")}
    dummies = numpy.array([place[name] == value for name in place for value in sorted(set(place[name]))]).T.astype(
        float
    )

    def left(values, rows):
        return values[rows] - dummies[rows] @ numpy.linalg.lstsq(dummies[rows], values[rows], rcond=None)[0]

    def within(rows):
        return numpy.corrcoef(left(x, rows), left(y, rows))[0, 1]

    everything = numpy.ones(len(points), bool)
    assert one["within"]["units"] == one["differences"]["units"] == 6
    assert one["within"]["pearson"] == pytest.approx(within(everything), rel=1e-6)
    # the jackknife over units on Fisher's z; 2.570582 is Student's quantile of five degrees of freedom
    pseudo = 5 * numpy.arctanh([within(place["trajectory"] != f"family-{unit}") for unit in range(6)])
    half, z = 2.57058183661474 * pseudo.std(ddof=1) / 6**0.5, numpy.arctanh(within(everything))
    assert one["within"]["interval"] == pytest.approx([numpy.tanh(z - half), numpy.tanh(z + half)], rel=1e-5)
    follows = [i for i in range(1, len(points)) if points[i]["trajectory"] == points[i - 1]["trajectory"]]
    changes = numpy.corrcoef([x[i] - x[i - 1] for i in follows], [y[i] - y[i - 1] for i in follows])[0, 1]
    assert (one["differences"]["n"], one["differences"]["pearson"]) == (12, pytest.approx(changes, rel=1e-9))
