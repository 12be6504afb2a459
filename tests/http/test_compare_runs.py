"""Runs of the kind compare: of two runs, whose numbers are those of GET /v1/compare, and of two checkpoints, whose
numbers are those of two runs; by token against numpy on the values that the runs left."""

import csv
import io
import math

import models
import numpy
import pytest
from test_compare import LENGTHS, compare, evaluate, linearized, quantize, subject  # noqa: F401

NUMBERS = ("loss_fp", "loss_q", "delta", "kl")
RTN = {"name": "rtn", "bits": 3, "group_size": 16}
STUDENT_13 = 2.160368656461013  # t of 0.975, 13 degrees


def post(service, force=False, **params):
    return service.post("/v1/runs", {"kind": "compare", "params": params, "force": force})


def compared(service, **params):
    run = service.run("compare", **params)
    assert run["state"] == "succeeded", run["error"]
    return run


def artifact(service, run, name):
    return service.get(f"/v1/runs/{run['id']}/artifacts/{name}").body


def table(service, run, name):
    rows = list(csv.DictReader(io.StringIO(artifact(service, run, name).decode())))
    return {column: numpy.array([float(row[column]) for row in rows]) for column in rows[0]}


def tokens_of(service, run, name):
    return numpy.load(io.BytesIO(artifact(service, run, name))).astype(float)


def names_of(service, run):
    return sorted(item["name"] for item in service.get(f"/v1/runs/{run['id']}/artifacts").json["items"])


def test_two_runs(service, subject):  # noqa: F811
    a, b = quantize(service, subject, 4), quantize(service, subject, 3)
    run = compared(service, a=a["id"], b=b["id"])
    found, told = run["result"], compare(service, a, b).json
    assert {name: found[name] for name in told if name not in "ab"} == {k: v for k, v in told.items() if k not in "ab"}
    for side, of in (("a", a), ("b", b)):
        assert found[side] == {
            "run": of["id"],
            "checkpoint": subject["one"],
            "recipe_id": of["result"]["recipe_id"],
            "calibration_id": None,
        }
    assert run["names"][subject["one"]] == "compare/1"
    assert found["by_token"] is None and "note" not in found and names_of(service, run) == ["differences.csv"]
    first, second = table(service, a, "losses.csv"), table(service, b, "losses.csv")
    differences = table(service, run, "differences.csv")
    assert list(differences) == ["sequence", "tokens", *NUMBERS]
    assert (differences["tokens"] == LENGTHS).all()
    for name in ("loss_fp", "loss_q", "kl"):
        assert (differences[name] == second[name] - first[name]).all()
    ratios = second["loss_q"] / second["loss_fp"] - first["loss_q"] / first["loss_fp"]
    assert (differences["delta"] == ratios).all()
    listed = service.get(f"/v1/runs?kind=compare&checkpoint={subject['one']}").json["items"]
    assert run["id"] in [item["id"] for item in listed]
    again = post(service, a=a["id"], b=b["id"])
    assert again.status == 200 and again.json["id"] == run["id"]


def test_two_evaluations(service, subject):  # noqa: F811
    a, b = evaluate(service, subject), evaluate(service, subject, "two")
    found = compared(service, a=a["id"], b=b["id"])["result"]
    assert found["loss"] == compare(service, a, b).json["loss"] and not set(NUMBERS) & set(found)
    assert [found[side]["checkpoint"] for side in "ab"] == [subject["one"], subject["two"]]
    assert found["a"]["recipe_id"] is None


def hold_tokens(found, first, second, predictions, name):
    """One number by token, of few tokens: Student's interval, as of independent tokens; clusters by sequence."""
    ones = numpy.ones(len(first["loss_fp"]))
    terms = linearized(ones, second, name) - linearized(ones, first, name)
    n = len(ones)
    error = math.sqrt(n / (n - 1) * (terms**2).sum())
    ends = numpy.cumsum(predictions).astype(int)
    clusters = numpy.array([part.sum() for part in numpy.split(terms, ends[:-1])])
    clusters = clusters / (1 - numpy.array(predictions) / sum(predictions))
    effect = (len(ends) - 1) / len(ends) * (clusters**2).sum() / error**2
    assert found["interval_method"] == "student"
    assert numpy.diff(found["interval"])[0] == pytest.approx(2 * STUDENT_13 * error, rel=1e-4)
    assert found["design_effect"] == pytest.approx(effect, rel=1e-3)
    if name == "delta":
        assert "worse" not in found
        return
    worse = second[name] > first[name]
    assert (found["worse"], found["better"]) == (worse.sum(), (second[name] < first[name]).sum())
    assert found["worse_share"] == pytest.approx(worse.mean())
    low, high = found["worse_share_interval"]
    assert 0 <= low <= found["worse_share"] <= high <= 1 and found["worse_share_method"] == "student"


def test_two_checkpoints_by_token(service, subject):  # noqa: F811
    """14 predictions of 3 sequences; the same numbers as of a run for each checkpoint, bit for bit."""
    rows = [row[:length] for row, length in zip(models.rows(3, 8, seed=11), (5, 4, 8))]
    evaluation = {"dataset": service.sequences("compare-tokens", rows)["name"]}
    both = [subject["one"], subject["two"]]
    pair = compared(service, checkpoints=both, evaluation=evaluation, method=RTN, per_token=True)
    runs = [
        service.run("quantize", checkpoint=checkpoint, evaluation=evaluation, method=RTN, per_token=True)
        for checkpoint in both
    ]
    of_runs = compared(service, a=runs[0]["id"], b=runs[1]["id"])
    found = pair["result"]
    assert {**of_runs["result"], "a": 0, "b": 0} == {**found, "a": 0, "b": 0}
    for side, run in zip("ab", runs):
        assert of_runs["result"][side]["run"] == run["id"]
        assert found[side] == {**of_runs["result"][side], "run": None}
    assert names_of(service, pair) == names_of(service, of_runs) == ["differences.csv", "token_differences.csv"]
    for name in names_of(service, pair):
        assert artifact(service, pair, name) == artifact(service, of_runs, name)
    first, second = (
        {
            "loss_fp": tokens_of(service, run, "token_losses_fp.npy"),
            "loss_q": tokens_of(service, run, "token_losses_q.npy"),
            "kl": tokens_of(service, run, "token_kl.npy"),
        }
        for run in runs
    )
    differences = table(service, pair, "token_differences.csv")
    assert list(differences) == ["sequence", "position", "loss_fp", "loss_q", "kl"]
    assert differences["sequence"].tolist() == [0] * 4 + [1] * 3 + [2] * 7
    assert differences["position"].tolist() == [*range(1, 5), *range(1, 4), *range(1, 8)]
    for name in ("loss_fp", "loss_q", "kl"):
        assert (differences[name] == second[name] - first[name]).all()
    assert found["by_token"]["predictions"] == 14 and "loss" not in found["by_token"]
    for name in NUMBERS:
        hold_tokens(found["by_token"][name], first, second, [4, 3, 7], name)


def test_two_checkpoints_evaluated(service, subject):  # noqa: F811
    evaluation = {"dataset": subject["many"], "max_sequences": 70}
    run = compared(service, checkpoints=[subject["one"], subject["two"]], evaluation=evaluation)
    runs = [evaluate(service, subject, which, "many", max_sequences=70) for which in ("one", "two")]
    assert run["result"]["loss"] == compare(service, *runs).json["loss"]
    assert run["result"]["kind"] == "evaluate" and run["result"]["by_token"] is None
    assert run["result"]["loss"]["interval_method"] == "bootstrap"
    swapped = compared(service, checkpoints=[subject["two"], subject["one"]], evaluation=evaluation)
    assert swapped["id"] != run["id"]
    assert swapped["result"]["loss"]["difference"] == -run["result"]["loss"]["difference"]


def test_other_calibration_is_told(service, subject):  # noqa: F811
    data = [service.sequences(f"compare-cal-{i}", models.rows(8, 24, seed=30 + i))["name"] for i in (0, 1)]
    method = {"name": "gptq", "bits": 3, "group_size": 16}
    runs = [
        service.run(
            "quantize",
            checkpoint=subject["one"],
            method=method,
            calibration={"dataset": name},
            evaluation={"dataset": subject["few"]},
        )
        for name in data
    ]
    found = compared(service, a=runs[0]["id"], b=runs[1]["id"])["result"]
    assert "different samples" in found["note"] and found["a"]["calibration_id"] != found["b"]["calibration_id"]
    assert found["loss_fp"]["difference"] == 0 != found["loss_q"]["difference"]


def test_a_dry_run_tells_what_two_runs_take(service, subject):  # noqa: F811
    a, b = quantize(service, subject, 4), quantize(service, subject, 3)
    body = {"kind": "compare", "params": {"a": a["id"], "b": b["id"]}, "dry_run": True}
    told = service.post("/v1/runs", body)
    assert told.status == 200, told.body
    assert told.json["fits"] and told.json["tokens"] == 0 and told.json["problem"] is None
    sizes = [len(artifact(service, run, "losses.csv")) for run in (a, b)]
    assert told.json["disk"]["read_bytes"] == sum(sizes)


def test_what_cannot_be_compared_is_refused(service, subject):  # noqa: F811
    a, b = quantize(service, subject, 4), quantize(service, subject, 3)
    other, many = quantize(service, subject, 3, "two"), quantize(service, subject, 4, data="many")
    plain = evaluate(service, subject)
    both, evaluation = [subject["one"], subject["two"]], {"dataset": subject["few"]}
    health = service.run("health", checkpoint=subject["one"])
    ids = {"a": a["id"], "b": b["id"]}
    refused = [
        ({}, ["/params/a"], "give two runs"),
        ({"a": a["id"]}, ["/params/b"], "give two runs"),
        ({"b": b["id"]}, ["/params/a"], "give two runs"),
        ({**ids, "checkpoints": both}, ["/params/checkpoints"], "one or the other"),
        ({**ids, "evaluation": evaluation}, ["/params/evaluation"], "no use"),
        ({**ids, "method": RTN}, ["/params/method"], "no use"),
        ({**ids, "calibration": evaluation}, ["/params/calibration"], "no use"),
        ({**ids, "precision": "bf16"}, ["/params/precision"], "no use"),
        ({**ids, "per_token": True}, ["/params/a"], "or compare without"),
        ({"a": a["id"], "b": "none"}, ["/params/b"], "no run"),
        ({"a": a["id"], "b": health["id"]}, ["/params/b"], "only evaluate and quantize"),
        ({"a": a["id"], "b": plain["id"]}, ["/params/b"], "one kind"),
        ({"a": a["id"], "b": many["id"]}, ["/params/b"], "same dataset"),
        ({"a": a["id"], "b": other["id"]}, ["/params/b"], "by one method"),
        ({"checkpoints": both}, ["/params/evaluation"], "is missing"),
        ({"checkpoints": both[:1], "evaluation": evaluation}, ["/params/checkpoints"], ""),
        ({"checkpoints": [both[0], "none"], "evaluation": evaluation}, ["/params/checkpoints/1"], ""),
        (
            {"checkpoints": both, "evaluation": evaluation, "calibration": evaluation},
            ["/params/calibration"],
            "without a method",
        ),
        (
            {"checkpoints": both, "evaluation": evaluation, "method": {"name": "gptq"}},
            ["/params/calibration"],
            "needs calibration",
        ),
        ({"a": 3, "b": b["id"]}, ["/params/a"], ""),
        ({**ids, "c": 1}, ["/params/c"], ""),
    ]
    for params, pointers, words in refused:
        answer = post(service, **params)
        assert answer.status == 422 and answer.pointers == pointers, (params, answer.body)
        assert words in answer.body.decode(), (params, answer.body)
    assert service.get(f"/v1/compare?a={a['id']}&b={other['id']}").pointers == ["/b"]


def test_a_run_that_has_not_succeeded_is_a_conflict(service, subject):  # noqa: F811
    failed = service.run(
        "quantize",
        checkpoint=subject["one"],
        method=RTN,
        evaluation={"dataset": service.sequences("compare-long", models.rows(1, 100))["name"]},
    )
    assert failed["state"] == "failed"
    answer = post(service, a=quantize(service, subject, 4)["id"], b=failed["id"])
    assert answer.status == 409 and answer.pointers == ["/params/b"], answer.body


def test_damaged_values_of_tokens_are_noticed(service, subject):  # noqa: F811
    a = evaluate(service, subject, per_token=True)
    b = evaluate(service, subject, "two", per_token=True)
    params = {"a": a["id"], "b": b["id"], "per_token": True}
    whole = compared(service, **params)
    assert whole["result"]["by_token"]["loss"]["interval_method"] == "bootstrap"
    items = service.get(f"/v1/runs/{b['id']}/artifacts").json["items"]
    (item,) = [item for item in items if item["name"] == "token_losses.npy"]
    path = service.data / "artifacts" / item["sha256"]
    kept = path.read_bytes()
    try:
        for damage in (kept[:-4], kept + b"1234", b"", b"\0" * len(kept)):
            path.write_bytes(damage)
            answer = post(service, force=True, **params)
            run = service.wait(answer.json["id"])
            assert run["state"] == "failed" and run["error"]["code"] == "corrupt", run
    finally:
        path.write_bytes(kept)


def test_a_comparison_that_runs_is_cancelled(service, subject):  # noqa: F811
    both, evaluation = [subject["one"], subject["two"]], {"dataset": subject["few"]}
    with service.gate.holding("compare", 1, "chunk"):
        answer = post(service, checkpoints=both, evaluation=evaluation, seed=7)
        assert answer.status == 202, answer.body
        run = answer.json["id"]
        service.held(run)
        assert service.post(f"/v1/runs/{run}/cancel").status in (200, 202)
        done = service.wait(run)
    assert done["state"] == "cancelled" and done["result"] is None
    assert service.get(f"/v1/runs/{run}/artifacts").json["items"] == []
