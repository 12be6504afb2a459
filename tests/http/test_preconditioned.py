"""The preconditioned sharpness over HTTP: against a Hessian that numpy makes of the same model and sequences, with the
second moments of a training state and with those of gradients."""

import json
import pathlib
import shutil
import struct

import derivatives
import models
import numpy
import pytest

CONFIG = {**models.LLAMA, "hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 12,
          "vocab_size": 24, "num_hidden_layers": 1, "max_position_embeddings": 16}
ROWS = models.rows(5, 10, vocabulary=24)
BETA1, BETA2, EPSILON, STEPS = 0.8, 0.9, 1e-3, 5
SETTINGS = {"beta1": BETA1, "beta2": BETA2, "epsilon": EPSILON}
CLOSE = {"estimators": [], "max_iterations": 300, "tolerance": 1e-5}


def train(service, trajectory, data, optimizer, keep_state=True):
    run = service.run("train", trajectory=trajectory, model=CONFIG, dataset=data, tokens=STEPS * 2 * 10,
                      batch_sequences=2, sequence_length=10, tokenizer={"name": "none"}, optimizer=optimizer,
                      schedule={"name": "constant", "peak": 3e-2}, keep_state=keep_state, seed=3)
    assert run["state"] == "succeeded", run["error"]
    return run["result"]["checkpoints"][-1]


@pytest.fixture(scope="module")
def ready(service):
    data = service.sequences("preconditioned", ROWS)["id"]
    path = models.write_llama(service.files / "preconditioned", seed=4, tokenizer=False, **CONFIG)
    stranger = service.checkpoint(path, "strangers", "only", step=1, tokens=64)["id"]
    trained = train(service, "preconditioned", data, {"name": "adamw", **SETTINGS})
    place = service.get(f"/v1/checkpoints/{trained}").json["source"]["path"]
    return {"data": data, "stranger": stranger, "trained": trained, "place": place}


def tensors_at(path):
    data = pathlib.Path(path, "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    return {name: numpy.frombuffer(data, "<f4", (at["data_offsets"][1] - at["data_offsets"][0]) // 4,
                                   8 + size + at["data_offsets"][0]).reshape(at["shape"])
            for name, at in json.loads(data[8 : 8 + size]).items() if name != "__metadata__"}


def moments_at(path, tensors):
    """{tensor: second moments} of a training state; each tensor is found by its values among the state's parameters."""
    data = pathlib.Path(path, "training.state").read_bytes()
    magic, version, element, elements, buffers, optimizer, step = struct.unpack("<8sIIqq32sq", data[:72])
    assert (magic, element, buffers, step) == (b"deltaqTS", 4, 2, STEPS) and optimizer.startswith(b"adamw\0")
    (count,) = struct.unpack("<q", data[104:112])
    at = 112 + (32 if version == 2 else 0) + count * (48 if version == 2 else 40)
    weights, _, second = numpy.frombuffer(data, "<f4", 3 * elements, at).reshape(3, elements)
    found = {}
    for name, tensor in tensors.items():
        flat, size = tensor.ravel(), tensor.size
        (first,) = (at for at in range(0, elements, 16) if numpy.array_equal(weights[at : at + size], flat))
        found[name] = second[first : first + size]
    return found


def scaled(hessian, d):
    return (hessian + hessian.T) / 2 / numpy.sqrt(numpy.outer(d, d))


def assert_found(result, model, d):
    """Float32 products: 2e-4 of the largest eigenvalue. The error is that of uᵀAu over the sequences."""
    values, vectors = numpy.linalg.eigh(scaled(model.hessian(ROWS), d))
    bound = 2e-4 * numpy.abs(values).max()
    assert abs(result["preconditioned_sharpness"] - values[-1]) < bound
    assert abs(result["preconditioned_smallest"] - values[0]) < bound
    for name, value in (("sharpness", values[-1]), ("smallest", values[0])):
        low, high = result[f"preconditioned_{name}_interval"]
        assert low < result[f"preconditioned_{name}"] < high and low - bound < value < high + bound
        assert high - low < bound
    assert result["preconditioned_converged"] and 0 < result["preconditioned_residual"] < 1e-4
    assert result["preconditioned_iterations"] == result["products"] > 5
    along = vectors[:, -1] / numpy.sqrt(d)
    each = [along @ model.product([row], along) for row in ROWS]
    assert result["preconditioned_sharpness_units"] == len(ROWS)
    error = numpy.std(each, ddof=1) / len(ROWS) ** 0.5
    assert result["preconditioned_sharpness_stderr"] == pytest.approx(error, rel=1e-2)
    return values


def test_moments_of_the_training_state_are_corrected_as_adam_s(service, ready):
    run = service.run("sharpness", checkpoint=ready["trained"], dataset=ready["data"], **CLOSE,
                      preconditioner={"name": "training_state"})
    assert run["state"] == "succeeded", run["error"]
    assert run["params"]["preconditioner"] == {"name": "training_state", **SETTINGS}
    tensors = tensors_at(ready["place"])
    model = derivatives.Model(CONFIG, tensors)
    v = model.flat(moments_at(ready["place"], tensors))
    d = (1 - BETA1**STEPS) * (numpy.sqrt(v / (1 - BETA2**STEPS)) + EPSILON)
    result = run["result"]
    assert result["loss"] == pytest.approx(model.gradient(ROWS)[0], rel=1e-5)
    assert_found(result, model, d)
    assert result["top_eigenvalue"] is None and result["trace"] is None
    # the same by hand, of a copy that no run of this server wrote
    copy = shutil.copytree(ready["place"], service.files / "preconditioned-copy")
    other = service.checkpoint(copy, "strangers", "copy")["id"]
    params = {"checkpoint": other, "dataset": ready["data"], **CLOSE}
    refused = service.post("/v1/runs", {"kind": "sharpness", "params": {
        **params, "preconditioner": {"name": "training_state", "beta1": BETA1}}})
    assert refused.status == 422 and refused.pointers == ["/params/preconditioner"]
    assert "give beta1, beta2 and epsilon" in refused.json["detail"]
    again = service.run("sharpness", **params, preconditioner={"name": "training_state", **SETTINGS})["result"]
    assert again["preconditioned_sharpness"] == result["preconditioned_sharpness"]
    more = service.run("sharpness", **params, preconditioner={"name": "training_state", **SETTINGS, "epsilon": 1e-2})
    assert more["result"]["preconditioned_sharpness"] < result["preconditioned_sharpness"]


def test_moments_of_gradients_are_means_over_batches(service, ready):
    wanted = {"name": "squared_gradients", "batches": 3, "epsilon": EPSILON}
    params = {"checkpoint": ready["stranger"], "dataset": ready["data"], **CLOSE}
    run = service.run("sharpness", **params, preconditioner=wanted)
    assert run["state"] == "succeeded", run["error"]
    model = derivatives.Model(CONFIG, models.tensors_of(CONFIG, 4))
    slopes = [model.gradient(ROWS[first:end])[1] for first, end in ((0, 1), (1, 3), (3, 5))]
    d = numpy.sqrt(numpy.mean(numpy.square(slopes), 0)) + EPSILON
    result = run["result"]
    values = assert_found(result, model, d)
    single = service.run("sharpness", **params, preconditioner={**wanted, "batches": 1})["result"]
    assert single["preconditioned_sharpness"] != result["preconditioned_sharpness"]
    # a curve for each of the preconditioners, with Student's interval
    half = 2.7764451051977987 * result["preconditioned_sharpness_stderr"]  # t of 0.975, 4 degrees
    series = service.get("/v1/curves?trajectory=strangers&metric=preconditioned_sharpness").json["series"]
    by_value = {point["y"]: (curve["protocol_id"], point) for curve in series for point in curve["points"]}
    (protocol, point), (other, _) = (by_value[of["preconditioned_sharpness"]] for of in (result, single))
    assert protocol != other and [point["low"], point["high"]] == pytest.approx([point["y"] - half, point["y"] + half])
    assert "preconditioned_sharpness" in {one["name"] for one in service.get("/v1/metrics").json["items"]}
    power = service.run("sharpness", **{**params, "tolerance": 1e-6}, preconditioner=wanted, method="power")["result"]
    told = [power["preconditioned_sharpness"], power["preconditioned_smallest"]]
    assert told.count(None) == 1 and (told[0] is None) == (abs(values[0]) > abs(values[-1]))
    assert next(one for one in told if one) == pytest.approx(values[numpy.abs(values).argmax()], rel=1e-2)


def test_what_is_asked_beside_it_keeps_its_bits_and_the_plan_counts_it(service, ready):
    params = {"checkpoint": ready["stranger"], "dataset": ready["data"], "estimators": ["top_eigenvalue", "trace"],
              "probes": 4, "groups": True}
    wanted = {"name": "squared_gradients", "batches": 2}
    plain = service.run("sharpness", **params)["result"]
    both = service.run("sharpness", **params, preconditioner=wanted)["result"]
    own = {name for name in both if name.startswith("preconditioned_")} | {"products"}
    assert len(own) == 10 and all(plain[name] is None for name in own - {"products"})
    assert {name: value for name, value in both.items() if name not in own} == {
        name: value for name, value in plain.items() if name not in own}
    assert both["products"] == plain["products"] + both["preconditioned_iterations"]
    body, many = {"kind": "sharpness", "dry_run": True}, {**params, "max_iterations": 300}  # vectors are the peak
    plan, more = (service.post("/v1/runs", {**body, "params": {**many, "preconditioner": p}}).json
                  for p in (None, wanted))
    assert more["flops"] > plan["flops"]
    vectors = (more["memory"]["host"]["peak_bytes"] - plan["memory"]["host"]["peak_bytes"]) / 4 / both["parameters"]
    assert 2 <= vectors < 2.3  # gaps between tensors count too


@pytest.mark.parametrize("fields,pointer", [
    ({"name": "squared_gradients", "epsilon": 0}, "/epsilon"), ({"name": "training_state", "epsilon": 0}, "/epsilon"),
    ({"name": "squared_gradients", "epsilon": -1e-8}, "/epsilon"),
    ({"name": "squared_gradients", "batches": 0}, "/batches"),
    ({"name": "training_state", "beta2": 1}, "/beta2"), ({"name": "training_state", "beta1": -0.1}, "/beta1"),
    ({"name": "squared_gradients", "beta1": 0.9}, "/beta1"), ({"name": "fisher"}, "/name"),
    ({"name": "training_state"}, "")])
def test_bad_preconditioners_are_blamed(service, ready, fields, pointer):
    answer = service.post("/v1/runs", {"kind": "sharpness", "params": {
        "checkpoint": ready["stranger"], "dataset": ready["data"], "preconditioner": fields}})
    assert answer.status == 422 and answer.pointers == ["/params/preconditioner" + pointer], answer.json


def test_more_batches_than_sequences_are_refused(service, ready):
    params = {"checkpoint": ready["stranger"], "dataset": ready["data"], "estimators": [],
              "preconditioner": {"name": "squared_gradients", "batches": 6}}
    answer = service.post("/v1/runs", {"kind": "sharpness", "dry_run": True, "params": params})
    (fault,) = answer.json["problem"]["errors"]
    assert fault["pointer"] == "/params/preconditioner/batches" and answer.json["problem"]["status"] == 422
    run = service.run("sharpness", **params)
    assert run["state"] == "failed" and "6 batches need as many sequences, and there are 5" in run["error"]["detail"]


@pytest.mark.parametrize("optimizer,keep_state,said", [
    ({"name": "muon"}, True, "trained with \"muon\""), ({"name": "soap"}, True, "trained with \"soap\""),
    ({"name": "adamw"}, False, "has no training state")])
def test_states_of_others_are_refused(service, ready, optimizer, keep_state, said):
    name = f"preconditioned-{optimizer['name']}"
    checkpoint = train(service, name, ready["data"], optimizer, keep_state)
    params = {"checkpoint": checkpoint, "dataset": ready["data"], "estimators": [],
              "preconditioner": {"name": "training_state"}}
    answer = service.post("/v1/runs", {"kind": "sharpness", "params": params})
    assert answer.status == 422 and answer.pointers == ["/params/preconditioner"] and said in answer.json["detail"]


def test_a_state_is_read_as_what_it_is_whatever_is_given_of_it(service, ready):
    """Muon's state beside a checkpoint that no run here wrote, with settings by hand."""
    muon = train(service, "preconditioned-moved", ready["data"], {"name": "muon"})
    place = service.get(f"/v1/checkpoints/{muon}").json["source"]["path"]
    copy = shutil.copytree(place, service.files / "preconditioned-muon")
    other = service.checkpoint(copy, "strangers", "muon")["id"]
    answer = service.post("/v1/runs", {"kind": "sharpness", "params": {
        "checkpoint": other, "dataset": ready["data"], "preconditioner": {"name": "training_state", **SETTINGS}}})
    assert answer.status == 422 and answer.pointers == ["/params/preconditioner"], answer.json
    assert "the state of optimizer \"muon\", not \"adamw\"" in answer.json["detail"]
