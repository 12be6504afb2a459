"""losses.csv: the losses of every sequence, as runs of evaluate and quantize leave them."""

import csv
import io
import urllib.request

import models
import numpy
import pytest

LENGTHS = [9, 17, 33, 12, 48, 25]  # of the sequences: each weighs its predictions


@pytest.fixture(scope="module")
def subject(service):
    made = service.checkpoint(models.write_llama(service.files / "losses", seed=6), "losses", "one", step=1)
    rows = [row[:length] for row, length in zip(models.rows(len(LENGTHS), max(LENGTHS), seed=5), LENGTHS)]
    return {
        "checkpoint": made["id"],
        "data": service.sequences("losses", rows)["name"],
        "calibration": service.sequences("losses-calibration", models.rows(8, 32, seed=7))["name"],
    }


def losses_of(service, run, *others):
    """The listed artifact, and its columns as numbers."""
    listed = {item["name"]: item for item in service.get(f"/v1/runs/{run['id']}/artifacts").json["items"]}
    assert set(listed) == {"losses.csv", *others} and listed["losses.csv"]["media_type"] == "text/csv; charset=utf-8"
    raw = service.get(f"/v1/runs/{run['id']}/artifacts/losses.csv").body
    assert len(raw) == listed["losses.csv"]["bytes"] and raw.endswith(b"\n") and b"\r" not in raw
    rows = list(csv.DictReader(io.StringIO(raw.decode())))
    return listed["losses.csv"]["sha256"], {name: numpy.array([float(row[name]) for row in rows]) for name in rows[0]}


def test_a_part_of_an_artifact(service, subject):
    """As a client goes on with a download that broke off."""
    run = service.run("evaluate", checkpoint=subject["checkpoint"], dataset=subject["data"], sequence_length=None)
    path = f"/v1/runs/{run['id']}/artifacts/losses.csv"
    whole = service.get(path)
    size, tag = len(whole.body), whole.headers["ETag"]
    assert whole.status == 200 and whole.headers["Accept-Ranges"] == "bytes"
    assert "Content-Range" not in whole.headers
    for asked, first, end in (("10-19", 10, 20), ("10-", 10, size), ("-7", size - 7, size), ("5-99999999", 5, size)):
        part = service.get(path, {"Range": f"bytes={asked}", "If-Range": tag})
        assert (part.status, part.body) == (206, whole.body[first:end]), asked
        assert part.headers["Content-Range"] == f"bytes {first}-{end - 1}/{size}"
        assert int(part.headers["Content-Length"]) == end - first and part.headers["ETag"] == tag
    for given in ({"Range": "bytes=0-3", "If-Range": '"another"'}, {"Range": "bytes=0-3", "If-Range": "*"},
                  {"Range": "bytes=0-3, 8-9"}, {"Range": "lines=0-3"}, {"Range": "bytes=9-3"}):
        other = service.get(path, given)
        assert (other.status, other.body) == (200, whole.body), given
    beyond = service.get(path, {"Range": f"bytes={size}-"})
    assert (beyond.status, beyond.json["code"]) == (416, "range_not_satisfiable")
    assert beyond.headers["Content-Range"] == f"bytes */{size}" and "ETag" not in beyond.headers
    assert service.get(path, {"Range": "bytes=0-3", "If-None-Match": tag}).status == 304
    asked = urllib.request.Request(service.url + path, method="HEAD", headers={"Range": "bytes=0-3"})
    with urllib.request.urlopen(asked) as head:
        assert (head.status, int(head.headers["Content-Length"])) == (200, size)
        assert head.headers["Accept-Ranges"] == "bytes"


def weighted(columns, name):
    return numpy.average(columns[name], weights=columns["tokens"] - 1)


STUDENT = 2.9475974111811167  # the t of a 95 % interval, of (Σw)² / Σw² - 1 = 3.4809 degrees, w the predictions


def variance_of(columns, name):
    """Of the weighted mean over sequences."""
    weights, n = columns["tokens"] - 1, len(columns["tokens"])
    residuals = weights * (columns[name] - weighted(columns, name)) / (1 - weights / weights.sum())
    return (n - 1) / n * (residuals**2).sum() / weights.sum() ** 2


def interval_of(columns, name):
    half = STUDENT * numpy.sqrt(variance_of(columns, name))
    return [weighted(columns, name) - half, weighted(columns, name) + half]


def quantize(service, subject, force=False, **more):
    params = {
        "checkpoint": subject["checkpoint"],
        "method": {"name": "gptq", "bits": 3, "group_size": 16},
        "evaluation": {"dataset": subject["data"]},
        "calibration": {"dataset": subject["calibration"], "max_sequences": 4},
        **more,
    }
    answer = service.post("/v1/runs", {"kind": "quantize", "params": params, "force": force})
    assert answer.status in (200, 202), answer.body
    run = service.wait(answer.json["id"])
    assert run["state"] == "succeeded", run["error"]
    return run


def test_evaluate_leaves_the_losses_of_its_sequences(service, subject):
    run = service.run("evaluate", checkpoint=subject["checkpoint"], dataset=subject["data"])
    _, columns = losses_of(service, run)
    assert list(columns) == ["sequence", "tokens", "loss"]
    assert columns["sequence"].tolist() == list(range(len(LENGTHS))) and columns["tokens"].tolist() == LENGTHS
    assert columns["loss"].tolist() == run["result"]["sequence_losses"]  # 17 digits give the double back
    assert weighted(columns, "loss") == pytest.approx(run["result"]["loss"], rel=1e-14)


def test_quantize_leaves_both_losses_and_the_divergence(service, subject):
    run = quantize(service, subject)
    result = run["result"]
    _, columns = losses_of(service, run)
    assert list(columns) == ["sequence", "tokens", "loss_fp", "loss_q", "kl"]
    assert columns["tokens"].tolist() == LENGTHS
    for name in ("loss_fp", "loss_q", "kl"):
        assert weighted(columns, name) == pytest.approx(result[name], rel=1e-13)
    evaluated = service.run("evaluate", checkpoint=subject["checkpoint"], dataset=subject["data"])
    assert columns["loss_fp"].tolist() == evaluated["result"]["sequence_losses"]
    # the interval can be computed again from it: Student's t, of sequences of unlike lengths
    weights, fp, q = columns["tokens"] - 1, columns["loss_fp"], columns["loss_q"]
    ratio, n = (weights * q).sum() / (weights * fp).sum(), len(fp)
    residuals = weights * (q - ratio * fp) / (1 - weights / weights.sum())
    half = STUDENT * numpy.sqrt((n - 1) / n * (residuals**2).sum()) / (weights * fp).sum()
    assert result["delta_interval"] == pytest.approx([ratio - 1 - half, ratio - 1 + half], rel=1e-9)
    for name in ("loss_fp", "loss_q", "kl"):
        assert result[f"{name}_interval"] == pytest.approx(interval_of(columns, name), rel=1e-9)
    low, high = result["top1_agreement_interval"]
    assert 0 <= low < result["top1_agreement"] < high <= 1


def test_with_several_draws_the_columns_are_means_over_them(service, subject):
    run = quantize(service, subject, calibration_draws=2)
    _, columns = losses_of(service, run)
    _, single = losses_of(service, quantize(service, subject))
    assert (columns["loss_q"] != single["loss_q"]).all() and (columns["loss_fp"] == single["loss_fp"]).all()
    for name in ("loss_q", "kl"):
        assert weighted(columns, name) == pytest.approx(numpy.mean(run["result"]["calibration_draws"][name]), rel=1e-13)


def test_equal_requests_leave_equal_bytes(service, subject):
    first, again = quantize(service, subject), quantize(service, subject, force=True)
    assert first["id"] != again["id"]
    assert losses_of(service, first)[0] == losses_of(service, again)[0]


def tokens_of(service, run, name):
    """Means over the predictions of each sequence."""
    values = numpy.load(io.BytesIO(service.get(f"/v1/runs/{run['id']}/artifacts/{name}").body), allow_pickle=False)
    assert values.dtype == numpy.float32 and values.shape == (sum(LENGTHS) - len(LENGTHS),)
    ends = numpy.cumsum([length - 1 for length in LENGTHS])[:-1]
    return [part.astype(numpy.float64).mean() for part in numpy.split(values, ends)]


def test_the_losses_of_every_token_when_asked_for(service, subject):
    tolerance = {"rel": 2.0**-24, "abs": 2.0**-24}  # rounded to float32; divergences are small differences
    run = service.run("evaluate", checkpoint=subject["checkpoint"], dataset=subject["data"], per_token=True)
    _, columns = losses_of(service, run, "token_losses.npy")
    assert tokens_of(service, run, "token_losses.npy") == pytest.approx(columns["loss"].tolist(), **tolerance)
    run = quantize(service, subject, per_token=True)
    names = {"loss_fp": "token_losses_fp.npy", "loss_q": "token_losses_q.npy", "kl": "token_kl.npy"}
    sha256, columns = losses_of(service, run, *names.values())
    assert sha256 == losses_of(service, quantize(service, subject))[0]
    for column, name in names.items():
        assert tokens_of(service, run, name) == pytest.approx(columns[column].tolist(), **tolerance)


def test_tokens_of_several_draws_are_refused(service, subject):
    params = {
        "checkpoint": subject["checkpoint"],
        "method": {"name": "gptq"},
        "per_token": True,
        "calibration_draws": 2,
        "evaluation": {"dataset": subject["data"]},
        "calibration": {"dataset": subject["calibration"], "max_sequences": 4},
    }
    answer = service.post("/v1/runs", {"kind": "quantize", "params": params})
    assert answer.status == 422 and answer.pointers == ["/params/per_token"]


def test_the_plan_counts_the_values_of_tokens(service, subject):
    def peak(kind, **params):
        answer = service.post(
            "/v1/runs", {"kind": kind, "params": {"checkpoint": subject["checkpoint"], **params}, "dry_run": True}
        )
        assert answer.status == 200, answer.body
        return answer.json["memory"]["host"]["peak_bytes"]

    for kind, params, arrays in (
        ("evaluate", {"dataset": subject["data"]}, 1),
        ("quantize", {"method": {"name": "rtn"}, "evaluation": {"dataset": subject["data"]}}, 3),
    ):
        more = peak(kind, **params, per_token=True) - peak(kind, **params)
        assert more == 4 * arrays * (sum(LENGTHS) - len(LENGTHS))
