"""GET /v1/compare: the numbers of two runs over the same sequences, against numpy on the losses that the runs left."""

import csv
import io
import math

import models
import numpy
import pytest

LENGTHS = [9, 17, 33, 12, 48, 25]  # below 64 sequences: Student's interval
STUDENT = 2.9475974111811167  # t of 0.975, (Σw)² / Σw² - 1 = 3.4809 degrees, w the predictions
MANY = 80  # from 64 on: the bootstrap's
QUANTIZED = ("loss_fp", "loss_q", "delta", "kl")


@pytest.fixture(scope="module")
def subject(service):
    made = [
        service.checkpoint(
            models.write_llama(service.files / f"compare-{seed}", seed=seed), "compare", str(seed), step=seed
        )["id"]
        for seed in (1, 2)
    ]
    rows = [row[:length] for row, length in zip(models.rows(len(LENGTHS), max(LENGTHS), seed=5), LENGTHS)]
    many = [row[: 8 + i % 9] for i, row in enumerate(models.rows(MANY, 16, seed=8))]
    return {
        "one": made[0],
        "two": made[1],
        "few": service.sequences("compare", rows)["name"],
        "many": service.sequences("compare-many", many)["name"],
    }


def quantize(service, subject, bits, checkpoint="one", data="few"):
    params = {
        "checkpoint": subject[checkpoint],
        "method": {"name": "rtn", "bits": bits, "group_size": 16},
        "evaluation": {"dataset": subject[data]},
    }
    run = service.run("quantize", **params)
    assert run["state"] == "succeeded", run["error"]
    return run


def evaluate(service, subject, checkpoint="one", data="few", **more):
    return service.run("evaluate", checkpoint=subject[checkpoint], dataset=subject[data], **more)


def compare(service, a, b):
    return service.get(f"/v1/compare?a={a['id']}&b={b['id']}")


def columns_of(service, run):
    rows = list(csv.DictReader(io.StringIO(service.get(f"/v1/runs/{run['id']}/artifacts/losses.csv").body.decode())))
    columns = {name: numpy.array([float(row[name]) for row in rows]) for name in rows[0]}
    return columns.pop("tokens") - 1, columns


def number(weights, columns, name):
    """The run's number of samples of sequences, whose weights stand in the rows of `weights`."""
    if name == "delta":
        return (weights @ columns["loss_q"]) / (weights @ columns["loss_fp"]) - 1
    return (weights @ columns[name]) / weights.sum(-1)


def linearized(weights, columns, name):
    """What each sequence adds to the number, by a derivative: its weight times (1 + h) in place of 1."""
    steps = weights * (1 + 1e-6 * numpy.eye(len(weights)))
    return (number(steps, columns, name) - number(weights, columns, name)) / 1e-6


def per_sequence(columns, name):
    return columns["loss_q"] / columns["loss_fp"] if name == "delta" else columns[name]


def hold(found, name, weights, first, second):
    """Everything but the interval, which is its own for few and many sequences."""
    a, b = number(weights, first, name), number(weights, second, name)
    assert found["a"] == pytest.approx(a, rel=1e-12) and found["b"] == pytest.approx(b, rel=1e-12)
    assert found["difference"] == pytest.approx(b - a, rel=1e-9, abs=1e-14)
    own = per_sequence(second, name) - per_sequence(first, name)
    worse, better = int((own > 0).sum()), int((own < 0).sum())
    assert (found["worse"], found["better"]) == (worse, better) and found["worse_share"] == worse / len(own)
    n, fewer = worse + better, min(worse, better)
    assert found["sign_p"] == pytest.approx(min(1, 2 * sum(math.comb(n, k) for k in range(fewer + 1)) / 2**n), rel=1e-9)


@pytest.mark.parametrize("other", [("one", 3), ("two", 4)], ids=["of one checkpoint", "of two checkpoints"])
def test_two_quantizations_of_few_sequences(service, subject, other):
    a, b = quantize(service, subject, 4), quantize(service, subject, other[1], other[0])
    answer = compare(service, a, b)
    assert answer.status == 200, answer.body
    found = answer.json
    assert (found["a"], found["b"], found["kind"]) == (a["id"], b["id"], "quantize")
    assert found["protocol_id"] == a["result"]["protocol_id"] == b["result"]["protocol_id"]
    assert (found["sequences"], found["tokens"]) == (len(LENGTHS), sum(LENGTHS)) and "loss" not in found
    (weights, first), (_, second) = columns_of(service, a), columns_of(service, b)
    for name in QUANTIZED:
        hold(found[name], name, weights, first, second)
        assert found[name]["a"] == pytest.approx(a["result"][name], rel=1e-12)
        if name == "loss_fp" and other[0] == "one":
            assert (found[name]["difference"], found[name]["interval"], found[name]["sign_p"]) == (0, [0, 0], 1)
            continue
        terms = linearized(weights, second, name) - linearized(weights, first, name)
        terms = terms / (1 - weights / weights.sum())
        half = STUDENT * math.sqrt((len(terms) - 1) / len(terms) * (terms**2).sum())
        middle = found[name]["difference"]
        assert found[name]["interval_method"] == "student"
        assert found[name]["interval"] == pytest.approx([middle - half, middle + half], rel=1e-4, abs=1e-4 * half)


def test_two_quantizations_of_many_sequences(service, subject):
    """Percentiles of another generator's samples: those of 2000 have a standard error of 0.06 standard errors of the
    difference, 1.5 % of the interval's width."""
    a, b = quantize(service, subject, 4, data="many"), quantize(service, subject, 3, data="many")
    found = compare(service, a, b).json
    (weights, first), (_, second) = columns_of(service, a), columns_of(service, b)
    samples = numpy.random.default_rng(1).multinomial(MANY, [1 / MANY] * MANY, 20000) * weights
    for name in QUANTIZED[1:]:
        hold(found[name], name, weights, first, second)
        low, high = numpy.quantile(number(samples, second, name) - number(samples, first, name), [0.025, 0.975])
        assert found[name]["interval_method"] == "bootstrap"
        assert found[name]["interval"] == pytest.approx([low, high], abs=0.06 * (high - low))
    assert found["loss_fp"]["interval"] == [0, 0]
    apart = [run["result"]["delta_interval"] for run in (a, b)]
    assert numpy.diff(found["delta"]["interval"])[0] < sum(high - low for low, high in apart)


def test_two_evaluations(service, subject):
    a, b = evaluate(service, subject), evaluate(service, subject, "two")
    found = compare(service, a, b).json
    (weights, first), (_, second) = columns_of(service, a), columns_of(service, b)
    hold(found["loss"], "loss", weights, first, second)
    assert found["kind"] == "evaluate" and not set(QUANTIZED) & set(found)
    back = compare(service, b, a).json["loss"]
    assert back["difference"] == -found["loss"]["difference"] and back["worse"] == found["loss"]["better"]


@pytest.mark.parametrize("data", ["few", "many"])
def test_equal_runs_differ_by_exactly_nothing(service, subject, data):
    run = quantize(service, subject, 4, data=data)
    again = service.post("/v1/runs", {"kind": "quantize", "params": run["params"], "force": True})
    again = service.wait(again.json["id"])
    assert again["id"] != run["id"]
    found = compare(service, run, again).json
    for name in QUANTIZED:
        told = found[name]
        assert (told["difference"], told["interval"], told["worse"], told["better"], told["sign_p"]) == (
            0,
            [0, 0],
            0,
            0,
            1,
        )
    answer = compare(service, run, again)
    assert (
        service.get(
            f"/v1/compare?a={run['id']}&b={again['id']}", headers={"If-None-Match": answer.headers["ETag"]}
        ).status
        == 304
    )


def test_one_sequence_has_no_interval(service, subject):
    runs = [evaluate(service, subject, checkpoint, max_sequences=1) for checkpoint in ("one", "two")]
    found = compare(service, *runs).json["loss"]
    assert found["difference"] != 0 and found["interval"] is None and found["interval_method"] is None


def test_what_cannot_be_compared_is_refused(service, subject):
    run, other = quantize(service, subject, 4), quantize(service, subject, 4, data="many")
    refused = compare(service, run, other)
    assert (
        refused.status == 422
        and refused.pointers == ["/b"]
        and other["result"]["protocol_id"] in refused.json["detail"]
    )
    assert "same dataset" in refused.json["detail"]
    fewer = evaluate(service, subject, max_sequences=3)
    assert compare(service, evaluate(service, subject), fewer).pointers == ["/b"]
    kinds = compare(service, run, evaluate(service, subject))
    assert kinds.status == 422 and kinds.pointers == ["/b"] and "one kind" in kinds.json["detail"]
    health = service.run("health", checkpoint=subject["one"])
    assert compare(service, health, run).pointers == ["/a"]
    failed = service.run(
        "quantize",
        checkpoint=subject["one"],
        method={"name": "rtn", "bits": 4, "group_size": 16},
        evaluation={"dataset": service.sequences("compare-long", models.rows(1, 100))["name"]},
    )
    assert failed["state"] == "failed" and compare(service, run, failed).status == 409
    assert service.get(f"/v1/compare?a={run['id']}&b=none").status == 404
    assert service.get(f"/v1/compare?a={run['id']}").pointers == ["/b"]
    assert service.get("/v1/compare").pointers == ["/a"]


def test_a_damaged_file_of_losses_is_noticed(service, subject):
    run = evaluate(service, subject, max_sequences=5)
    (item,) = service.get(f"/v1/runs/{run['id']}/artifacts").json["items"]
    path = service.data / "artifacts" / item["sha256"]
    whole = path.read_bytes()
    lines = whole.split(b"\n")
    damages = (
        whole[:-1],
        whole + b"5",
        whole + whole,
        lines[0] + b"\n",
        b"",
        whole.replace(b"loss", b"lost"),
        whole.replace(b"\n2,", b"\n3,"),
        whole.replace(b"\n1,", b"\n 1,"),
        whole.replace(b"\n1,17", b"\n1,1"),
        b"\n".join([*lines[:2], lines[2] + b",1", *lines[3:]]),
        b"\0" * len(whole),
    )
    try:
        for damage in damages:
            assert damage != whole
            path.write_bytes(damage)
            answer = compare(service, run, run)
            assert answer.json["type"] == "/problems/corrupt", (damage, answer.body)
    finally:
        path.write_bytes(whole)
    assert compare(service, run, run).status == 200
