"""AWQ whose exponents the block's outputs decide, against a second one in numpy and double precision."""

import models
import numpy
import pytest
from test_methods_oracle import CONFIG, awkward, block, logarithms

SETS = [
    ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    ("self_attn.o_proj",),
    ("mlp.gate_proj", "mlp.up_proj"),
    ("mlp.down_proj",),
]
METHODS = {
    "range": {"bits": 3, "group_size": 16, "grid_points": 7, "sym": False},
    "duo": {"bits": 2, "group_size": 8, "grid_points": 5, "sym": False, "duo_scaling": True},
    "o_proj": {"bits": 3, "group_size": 32, "grid_points": 4, "sym": False, "scale_o_proj": "always"},
}


def on_grid(weight, bits, group):
    out, top = numpy.empty(weight.shape), 2**bits - 1
    for first in range(0, weight.shape[1], group):
        part = weight[:, first : first + group]
        low = numpy.minimum(part.min(1, keepdims=True), 0)
        high = numpy.maximum(part.max(1, keepdims=True), 0)
        step = numpy.maximum(high - low, 1e-5) / top
        zero = numpy.clip(-numpy.rint(low / step), 0, top)
        out[:, first : first + group] = (numpy.clip(numpy.rint(part / step) + zero, 0, top) - zero) * step
    return out


def magnitudes(weights, group):
    """Means over the rows of all linears of |W| over the largest of its group."""
    sums, rows = 0, 0
    for weight in weights:
        parts = numpy.abs(weight).reshape(len(weight), -1, group)
        sums = sums + (parts / (parts.max(2, keepdims=True) + 1e-6)).reshape(weight.shape).sum(0)
        rows += len(weight)
    return sums / rows


def scales(mean, alpha, weights, method):
    s = mean**alpha
    if method.get("duo_scaling"):
        s = s / (magnitudes(weights, method["group_size"]) ** (1 - alpha) + 1e-4)
    s = numpy.maximum(s, 1e-4)
    return (s / numpy.sqrt(s.max() * s.min())).astype(numpy.float32).astype(float)


def outputs(tensors, at, streams):
    return [block(tensors, at, x, lambda name, h: h @ tensors[name + ".weight"].T) for x in streams]


def inputs(tensors, at, streams, name):
    """What the linear reads."""
    seen = []

    def product(linear, h):
        if linear == at + name:
            seen.append(h)
        return h @ tensors[linear + ".weight"].T

    for x in streams:
        block(tensors, at, x, product)
    return numpy.concatenate(seen)


def quantize_set(tensors, at, names, streams, method):
    """Replaces the set's weights; the exponent, and by how much the second best is worse."""
    full = {name: tensors[f"{at}{name}.weight"] for name in names}
    grid = (method["bits"], method["group_size"])
    put = lambda s: tensors.update({f"{at}{n}.weight": on_grid(w * s, *grid) / s for n, w in full.items()})
    if names == ("self_attn.o_proj",) and method.get("scale_o_proj") != "always":  # heads share their values
        put(1.0)
        return None, numpy.inf
    wanted, mean = outputs(tensors, at, streams), numpy.abs(inputs(tensors, at, streams, names[0])).mean(0)
    points, errors = method["grid_points"], []
    for i in range(points):
        put(scales(mean, i / points, full.values(), method))
        errors.append(sum(((x - y) ** 2).sum() for x, y in zip(outputs(tensors, at, streams), wanted)))
    best = int(numpy.argmin(errors))
    put(scales(mean, best / points, full.values(), method))
    return best / points, sorted(errors)[1] / min(errors) - 1


def oracle(tensors, calibration, method):
    """{linear: exponent} and the quantized tensors."""
    tensors, alphas, gap = dict(tensors), {}, numpy.inf
    streams = [tensors["model.embed_tokens.weight"][row] for row in calibration]
    for layer in range(CONFIG["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        for names in SETS:
            alpha, apart = quantize_set(tensors, at, names, streams, method)
            alphas.update({at + name: alpha for name in names})
            gap = min(gap, apart)
        streams = outputs(tensors, at, streams)
    assert gap > 1e-4, f"two exponents are as good as each other ({gap}): float may choose the other one"
    return alphas, tensors


@pytest.fixture(scope="module")
def ready(service):
    tensors = models.tensors_of(CONFIG, 21)
    awkward(tensors)
    path = models.write_llama(service.files / "awq-block", seed=21, change=awkward)
    rows = {"calibration": models.rows(6, 30, seed=5), "evaluation": models.rows(4, 24, seed=6)}
    return {
        "tensors": {name: tensor.astype(float) for name, tensor in tensors.items()},
        "checkpoint": service.checkpoint(path, "awq-block", "only")["id"],
        "rows": rows,
        "data": {name: {"dataset": service.sequences(f"awq-{name}", of)["name"]} for name, of in rows.items()},
    }


def run_of(service, ready, method):
    run = service.run("quantize", checkpoint=ready["checkpoint"], method={"name": "awq", "clip": False, **method},
                      **ready["data"])
    assert run["state"] == "succeeded", run["error"]
    return run["result"]


@pytest.mark.parametrize("name", METHODS)
def test_exponents_and_loss_are_the_oracle_s(service, ready, name):
    method = METHODS[name]
    alphas, quantized = oracle(ready["tensors"], [numpy.array(row) for row in ready["rows"]["calibration"]], method)
    found = run_of(service, ready, {**method, "judge": "block"})
    assert {layer["name"]: layer["alpha"] for layer in found["layers"]} == {
        name: alpha if alpha is None else pytest.approx(alpha) for name, alpha in alphas.items()
    }
    losses = []
    for row in map(numpy.array, ready["rows"]["evaluation"]):
        logs = logarithms(quantized, row, lambda at, x: x @ quantized[at + ".weight"].T)
        losses.extend(-logs[numpy.arange(len(row) - 1), row[1:]])
    # a weight on a tie may go the other way in float
    assert found["loss_q"] == pytest.approx(numpy.mean(losses), abs=2e-3)
    by_linear = run_of(service, ready, {**method, "judge": "linear"})
    assert [layer["alpha"] for layer in by_linear["layers"]] != [layer["alpha"] for layer in found["layers"]]


@pytest.mark.parametrize("option", [{"keep_outliers": 2}, {"activation_bits": 8}],
                         ids=["kept columns", "rounded inputs"])
def test_what_the_block_cannot_judge_is_refused(service, ready, option):
    method = {"name": "awq", "judge": "block", **option}
    params = {"checkpoint": ready["checkpoint"], "method": method, **ready["data"]}
    answer = service.post("/v1/runs", {"kind": "quantize", "params": params})
    assert answer.status == 422 and answer.pointers == ["/params/method/judge"], answer.body
    assert next(iter(option)) in answer.json["detail"]
