"""Attributions over HTTP: held to plain quantizations, allocations posted back, what is refused,
and a worker killed on the way."""

import os
import signal
import struct

import models
import pytest
from service import Service

METHOD = {"name": "gptq", "bits": 4, "group_size": 16}


def subject_of(service, name, seed=9, **config):
    checkpoint = service.checkpoint(models.write_llama(service.files / name, seed=seed, **config), name, "only",
                                    step=1, tokens=10)
    data = service.sequences(f"{name}-data", models.rows(6, 32))
    calibration = service.sequences(f"{name}-calibration", models.rows(6, 32, seed=7))
    return {"checkpoint": checkpoint["id"], "evaluation": {"dataset": data["name"]},
            "calibration": {"dataset": calibration["name"]}}


@pytest.fixture(scope="module")
def subject(service):
    return subject_of(service, "attribution")


def done(service, kind, params):
    run = service.run(kind, **params)
    assert run["state"] == "succeeded", run["error"]
    return run["result"]


NUMBERS = ("loss_q", "delta", "delta_interval", "kl", "top1_agreement")


def same(part, whole):
    assert [part[name] for name in NUMBERS] == [whole[name] for name in NUMBERS]


def test_units_add_up_to_what_plain_quantizations_say(service, subject):
    found = done(service, "attribution", {**subject, "method": METHOD})
    whole = done(service, "quantize", {**subject, "method": METHOD})
    same(found, whole)
    assert [found[name] for name in ("loss_fp", "recipe_id", "protocol_id", "bits_per_weight")] == \
        [whole[name] for name in ("loss_fp", "recipe_id", "protocol_id", "bits_per_weight")]
    assert [unit["name"] for unit in found["units"]] == [layer["name"] for layer in whole["layers"]]
    assert (found["frontier"] == [] and found["allocation"] is None
            and [width["bits"] for width in found["widths"]] == [4])
    total = sum(unit["alone"]["delta"] for unit in found["units"])
    assert (found["delta_alone"] == pytest.approx(total)
            and found["additive_share"] == pytest.approx(total / found["delta"]))
    assert found["interaction"] == pytest.approx(found["delta"] - total)
    unit = found["units"][9]
    assert (unit["name"] == "model.layers.1.self_attn.v_proj"
            and unit["share"] == pytest.approx(unit["alone"]["delta"] / total))
    pattern = r"^model\.layers\.1\.self_attn\.v_proj$"
    alone = done(service, "quantize",
                 {**subject, "method": {**METHOD, "overrides": [{"pattern": f"^(?!{pattern[1:]})", "skip": True}]}})
    left_out = done(service, "quantize",
                    {**subject, "method": {**METHOD, "overrides": [{"pattern": pattern, "skip": True}]}})
    same(unit["alone"], alone)
    same(unit["left_out"], left_out)
    assert unit["marginal"] == found["delta"] - left_out["delta"]
    assert unit["interaction"] == unit["marginal"] - unit["alone"]["delta"]
    series = service.get("/v1/curves?trajectory=attribution&metric=additive_share").json["series"]
    assert [point["y"] for item in series for point in item["points"]] == [found["additive_share"]]


def test_shares_of_blocks_and_of_linears_are_series_of_their_own(service):
    subject = subject_of(service, "shares", seed=47120)
    asked = {**subject, "method": METHOD, "left_out": False}
    shares = [done(service, "attribution", {**asked, "unit": unit})["additive_share"] for unit in ("linear", "block")]
    series = service.get("/v1/curves?trajectory=shares&metric=additive_share").json["series"]
    assert sorted(point["y"] for one in series for point in one["points"]) == sorted(shares)
    assert len({one["label"] for one in series}) == 2


def test_an_allocation_can_be_posted(service, subject):
    asked = {**subject, "method": METHOD, "bits": [2, 8], "budget": 4.9, "left_out": False}
    found = done(service, "attribution", asked)
    assert [width["bits"] for width in found["widths"]] == [2, 4, 8]
    points = [(point["bits_per_weight"], point["loss_q"]) for point in found["frontier"]]
    assert (points == sorted(points)
            and [loss for _, loss in points] == sorted((loss for _, loss in points), reverse=True))
    assert found["frontier"][0]["bits_per_weight"] == 3 and all(unit["left_out"] is None for unit in found["units"])
    allocation = found["allocation"]
    assert allocation["measured"]["bits_per_weight"] == allocation["predicted"]["bits_per_weight"] <= 4.9
    assert min(loss for bits, loss in points if bits <= 4.9) >= allocation["predicted"]["loss_q"]
    assert (set(allocation["bits"].values()) <= {2, 4, 8}
            and set(allocation["bits"]) == {unit["name"] for unit in found["units"]})
    for method in ({**METHOD, "overrides": allocation["overrides"]}, allocation["method"]):
        plain = done(service, "quantize", {**subject, "method": method})
        same(allocation["measured"], plain)
        assert (plain["recipe_id"] == allocation["recipe_id"]
                and plain["bits_per_weight"] == allocation["measured"]["bits_per_weight"])
    blocks = done(service, "attribution", {**asked, "unit": "block", "budget": 2.5, "allocate_by": "kl"})
    assert [unit["name"] for unit in blocks["units"]] == ["model.layers.0", "model.layers.1"]
    assert blocks["allocation"] is None and "3 bits per weight" in blocks["note"]


def test_a_method_without_bits_or_calibration(service, subject):
    asked = {key: value for key, value in subject.items() if key != "calibration"}
    found = done(service, "attribution", {**asked, "method": {"name": "nf4"}, "unit": "block"})
    assert found["calibration_tokens"] == 0 and found["widths"][0]["bits"] is None and len(found["units"]) == 2


@pytest.mark.parametrize("change, pointer", [
    ({"unit": "head"}, "/params/unit"),
    ({"bits": [5]}, "/params/bits"),
    ({"bits": [16]}, "/params/bits/0"),
    ({"bits": 4}, "/params/bits"),
    ({"budget": 4}, "/params/budget"),
    ({"budget": 3.5, "bits": [8]}, "/params/budget"),
    ({"budget": "4", "bits": [8]}, "/params/budget"),
    ({"allocate_by": "size"}, "/params/allocate_by"),
    ({"left_out": 1}, "/params/left_out"),
    ({"calibration": None}, "/params/calibration"),
    ({"method": {"name": "nf4"}, "bits": [3]}, "/params/bits"),
    ({"method": {**METHOD, "overrides": [{"pattern": ".", "skip": True}]}}, "/params/method/overrides"),
    ({"method": {**METHOD, "embedding_bits": 8}}, "/params/method/embedding_bits"),
    ({"method": {**METHOD, "lm_head_bits": 8}}, "/params/method/lm_head_bits"),
    ({"export": "gptq"}, "/params/export"),
])
def test_bad_attributions_are_pointed_at(service, subject, change, pointer):
    answer = service.post("/v1/runs", {"kind": "attribution", "params": {**subject, "method": METHOD, **change}})
    assert answer.status == 422 and answer.pointers[0].startswith(pointer), answer.body


def test_an_attribution_goes_on_after_its_worker_was_killed(tmp_path):
    service = Service(tmp_path, "--threads", "1")
    try:
        params = {**subject_of(service, "killed"), "method": METHOD, "bits": [2, 3, 8], "budget": 4.5}
        whole = service.run("attribution", **params)
        assert whole["state"] == "succeeded", whole["error"]
        middle = whole["progress"]["total"] // 2
        service.gate.hold("attribution", middle)
        service.gate.hold("attribution", 0, lease=2, also=True)
        run = service.post("/v1/runs", {"kind": "attribution", "params": params, "force": True}).json["id"]
        table = service.data / "tmp" / f"run-{run}" / "attribution.table"

        def rows():
            return struct.unpack("<q", table.read_bytes()[32:40])[0]

        assert service.held(run) >= middle
        kept = rows()
        for worker in service.workers():
            os.kill(worker, signal.SIGKILL)
        # What was being measured is measured again: less than a tenth of the whole.
        assert service.held(run, lease=2) > 0.9 * middle and rows() == kept >= 10, "what was measured stays"
        service.gate.open()
        done = service.wait(run)
        assert done["state"] == "succeeded" and done["attempt"] == 1, done["error"]
        assert done["result"] == whole["result"], "interrupted or not: the same bits"
    finally:
        service.stop()
