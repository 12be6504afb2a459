import csv
import io
import json
import math
import socket
import time

import models
import pytest
from test_watch import until


@pytest.fixture(scope="module")
def ready(service):
    """A checkpoint and two datasets of ids."""
    made = service.checkpoint(models.write_llama(service.files / "runs"), "runs", "step1", step=1, tokens=64,
                              learning_rate=0.01)
    return {"checkpoint": made["id"], "dataset": service.sequences("runs-evaluation", models.rows(6, 32))["id"],
            "calibration": service.sequences("runs-calibration", models.rows(8, 32, seed=2))["id"]}


UNUSED_OPTIONS = {"activation_bits": None, "rotation": "none", "rotation_seed": 0, "keep_outliers": 0, "overrides": [],
                  "embedding_bits": None, "lm_head_bits": None}


def quantize(ready, **method):
    return {"checkpoint": ready["checkpoint"], "method": {"name": "gptq", "bits": 3, "group_size": 16, **method},
            "calibration": {"dataset": ready["calibration"], "sequence_length": None},
            "evaluation": {"dataset": ready["dataset"], "sequence_length": None}}


def test_evaluate(service, ready):
    run = service.run("evaluate", checkpoint=ready["checkpoint"], dataset=ready["dataset"], sequence_length=None)
    result = run["result"]
    assert run["state"] == "succeeded" and run["device"] == "cpu" and run["usage"]["peak_host_bytes"] > 0
    assert (result["sequences"], result["tokens"]) == (6, 192) and len(result["sequence_losses"]) == 6
    assert result["loss"] == pytest.approx(sum(result["sequence_losses"]) / 6)
    assert run["progress"]["done"] == run["progress"]["total"] > 0
    assert run["params"] == {"checkpoint": ready["checkpoint"], "dataset": ready["dataset"], "sequence_length": None,
                             "packing": "blocks", "per_token": False, "max_sequences": None, "precision": "f32"}


def test_quantize(service, ready):
    run = service.run("quantize", **quantize(ready))
    result = run["result"]
    assert run["state"] == "succeeded", run["error"]
    assert result["delta"] == pytest.approx(result["loss_q"] / result["loss_fp"] - 1)
    assert result["delta_interval"][0] <= result["delta"] <= result["delta_interval"][1]
    assert len(result["layers"]) == 14 and all(l["proxy_error"] >= 0 for l in result["layers"])
    assert 0 < result["top1_agreement"] <= 1 and result["kl"] > 0 and 3 < result["bits_per_weight"] < 6
    assert run["params"]["method"] == {"name": "gptq", "bits": 3, "group_size": 16, "sym": True, "desc_act": False,
                                       "act_group_aware": True, "damp_percent": 0.05, **UNUSED_OPTIONS}


def test_completed_parameters_are_written_back_and_shared(service, ready):
    first = service.post("/v1/runs", {"kind": "quantize", "params": quantize(ready, desc_act=True)})
    again = service.post("/v1/runs",
                         {"kind": "quantize", "params": quantize(ready, desc_act=True, act_group_aware=False)})
    assert first.json["params"]["method"]["act_group_aware"] is False
    assert (first.status, again.status) == (202, 200) and first.json["id"] == again.json["id"]


def test_rtn_needs_no_calibration_gptq_does(service, ready):
    params = quantize(ready)
    del params["calibration"]
    assert service.post("/v1/runs", {"kind": "quantize", "params": params}).pointers == ["/params/calibration"]
    params["method"] = {"name": "rtn", "bits": 4, "group_size": 16}
    assert service.run("quantize", **params)["state"] == "succeeded"


def test_an_equal_run_is_answered_with_the_earlier_one(service, ready, name):
    body = {"kind": "evaluate",
            "params": {"checkpoint": ready["checkpoint"], "dataset": ready["dataset"], "sequence_length": 8}}
    first = service.post("/v1/runs", body)
    done = service.wait(first.json["id"])
    again = service.post("/v1/runs", body)
    assert again.status == 200 and again.json == done
    # The same content under other names is the same work.
    copy = service.checkpoint(models.write_llama(service.files / name), name, "copy")
    data = service.sequences(name, models.rows(6, 32))
    body["params"].update(checkpoint=f"{name}/copy", dataset=data["name"], packing="blocks")
    assert service.post("/v1/runs", body).json["id"] == done["id"] and copy["id"] != ready["checkpoint"]
    for checkpoint in (ready["checkpoint"], copy["id"], f"{name}/copy"):  # and is found by each of the names
        listed = service.get(f"/v1/runs?kind=evaluate&state=succeeded&checkpoint={checkpoint}&limit=200").json["items"]
        assert done["id"] in [run["id"] for run in listed], checkpoint
    other = service.checkpoint(models.write_llama(service.files / name / "other", seed=7100), name, "other")
    assert service.get(f"/v1/runs?checkpoint={other['id']}").json["items"] == []
    forced = service.post("/v1/runs", {**body, "force": True})
    assert forced.status == 202 and forced.json["id"] != done["id"]
    assert service.wait(forced.json["id"])["result"] == done["result"], "the same request gives the same bits"


def test_other_data_or_parameters_are_another_run(service, ready, name):
    params = {"checkpoint": ready["checkpoint"], "dataset": ready["dataset"], "sequence_length": 16}
    other = service.sequences(name, models.rows(6, 32, seed=9))["id"]
    ids = {service.post("/v1/runs", {"kind": "evaluate", "params": {**params, **change}}).json["id"]
           for change in ({}, {"max_sequences": 2}, {"dataset": other}, {"packing": "documents"})}
    assert len(ids) == 4


def test_a_loss_that_is_not_finite_is_null_and_says_so(service, name):
    def spoil(tensors):
        tensors["lm_head.weight"] *= 1e38
        tensors["model.norm.weight"] *= 1e6

    made = service.checkpoint(models.write_llama(service.files / name, change=spoil), name, "a")
    run = service.run("evaluate", checkpoint=made["id"], dataset=service.sequences(name, models.rows(2, 16))["id"],
                      sequence_length=None)
    assert run["state"] == "succeeded" and run["result"]["loss"] is None and "finite" in run["result"]["note"]


@pytest.mark.parametrize("body,pointers", [
    ({}, {"/kind"}),
    ({"kind": "dance"}, {"/kind"}),
    ({"kind": "evaluate", "params": {}}, {"/params/checkpoint", "/params/dataset"}),
    ({"kind": "evaluate", "params": []}, {"/params"}),
    ({"kind": "evaluate", "params": {"checkpoint": "nothing", "dataset": "nothing"}},
     {"/params/checkpoint", "/params/dataset"}),
    ({"kind": "evaluate", "params": {"checkpoint": 1, "dataset": "", "sequence_length": 4.5,
                                     "packing": "x", "max_sequences": 0, "what": 1}},
     {"/params/checkpoint", "/params/dataset", "/params/sequence_length", "/params/packing", "/params/max_sequences",
      "/params/what"}),
    ({"kind": "quantize", "params": {"checkpoint": "x", "method": {"name": "gptq", "bits": 1},
                                     "evaluation": {"dataset": "x"}}}, {"/params/method/bits"}),
    ({"kind": "quantize", "params": {"checkpoint": "x", "method": {"bits": 4}, "evaluation": {}}},
     {"/params/method/name", "/params/evaluation/dataset"}),
    ({"kind": "quantize", "params": {"checkpoint": "x", "method": {"name": "magic"}, "evaluation": {"dataset": "x"}}},
     {"/params/method/name"}),
    ({"kind": "quantize", "params": {"checkpoint": "x", "method": {"name": "rtn", "damp_percent": 0.1},
                                     "evaluation": {"dataset": "x"}}}, {"/params/method/damp_percent"}),
    ({"kind": "train", "params": {"tokens": 0}}, {"/params/trajectory", "/params/dataset", "/params/tokens"}),
], ids=lambda x: json.dumps(x)[:50] if isinstance(x, dict) else "")
def test_bad_runs_are_pointed_at(service, body, pointers):
    answer = service.post("/v1/runs", body)
    assert answer.status == 422 and set(answer.pointers) == pointers, answer.body


def test_bf16_gives_nearly_the_same_numbers_under_another_protocol(service, ready):
    """Factors of products have eight bits, so they are up to 2^-9 off. What was kept of a run in one precision is not
    taken for the other."""
    asked = {"checkpoint": ready["checkpoint"], "dataset": ready["dataset"], "sequence_length": None}
    full, rounded = (service.run("evaluate", **asked, precision=p) for p in ("f32", "bf16"))
    assert rounded["state"] == "succeeded" and rounded["device"] == "cpu", rounded["error"]
    assert rounded["id"] != full["id"] and rounded["params"]["precision"] == "bf16"
    assert full["result"]["protocol_id"] != rounded["result"]["protocol_id"]
    assert rounded["result"]["loss"] != full["result"]["loss"]
    assert rounded["result"]["loss"] == pytest.approx(full["result"]["loss"], rel=2**-7)
    for method in ({"name": "rtn", "bits": 4, "group_size": 16}, {"name": "gptq", "bits": 4, "group_size": 16}):
        params = {**quantize(ready), "method": method}
        found = {p: service.run("quantize", **params, precision=p) for p in ("f32", "bf16", "f32")}
        assert all(run["state"] == "succeeded" for run in found.values()), found
        for precision, evaluated in (("f32", full), ("bf16", rounded)):
            result = found[precision]["result"]
            assert result["loss_fp"] == pytest.approx(evaluated["result"]["loss"], rel=1e-6)
            assert result["protocol_id"] == evaluated["result"]["protocol_id"]
            assert result["delta"] == pytest.approx(result["loss_q"] / result["loss_fp"] - 1)
        assert found["bf16"]["result"]["loss_q"] == pytest.approx(found["f32"]["result"]["loss_q"], rel=2**-7)
        assert found["bf16"]["result"]["kl"] == pytest.approx(found["f32"]["result"]["kl"], rel=0.1)


def test_gradients_in_bf16_are_nearly_the_same(service, ready):
    """After a few steps the weights, and with them the losses, are as near as factors of eight bits let them be."""
    train = {"model": models.LLAMA, "dataset": ready["dataset"], "tokens": 8 * 64, "batch_sequences": 2,
             "sequence_length": 32, "tokenizer": {"name": "none"}, "optimizer": {"name": "adamw"},
             "schedule": {"name": "constant", "peak": 1e-3}, "validation": ready["dataset"]}
    found = {p: service.run("train", **train, trajectory=f"rounded-{p}", precision=p) for p in ("f32", "bf16")}
    losses = {}
    for precision, run in found.items():
        assert run["state"] == "succeeded" and run["device"] == "cpu", run["error"]
        assert run["params"]["precision"] == precision
        losses[precision] = (run["result"]["final_loss"], run["result"]["validation_loss"])
    assert losses["bf16"] != losses["f32"]
    assert losses["bf16"] == pytest.approx(losses["f32"], rel=2**-7)


def test_bad_group_sizes_are_pointed_at(service, ready):
    assert service.post("/v1/runs", {"kind": "quantize", "params": quantize(ready, group_size=0)}).pointers == [
        "/params/method/group_size"]


def test_lists_filter_and_page(service, ready):
    for sequence_length in (2, 3, 4, 5, 6):
        service.run("evaluate", checkpoint=ready["checkpoint"], dataset=ready["dataset"],
                    sequence_length=sequence_length)
    address, seen = "/v1/runs?limit=2&kind=evaluate&trajectory=runs&state=succeeded", []
    while address:
        answer = service.get(address)
        page = answer.json
        assert len(page["items"]) <= 2 and all(r["kind"] == "evaluate" and r["state"] == "succeeded"
                                               for r in page["items"])
        seen += [r["id"] for r in page["items"]]
        address = page["next"]
        if address:
            assert answer.headers["Link"] == f'<{address}>; rel="next"'
    assert len(seen) == len(set(seen)) >= 5
    whole = service.get("/v1/runs?kind=evaluate&trajectory=runs&state=succeeded&limit=1000").json["items"]
    assert seen == [r["id"] for r in whole]


@pytest.mark.parametrize("query",
                         ["limit=0", "limit=1001", "limit=x", "cursor=x", "colour=red", "limit=1.0", "state=odd"])
def test_bad_queries_are_refused(service, query):
    assert service.get("/v1/runs?" + query).status == 422


def test_a_field_that_is_unknown_is_told_with_all_that_are_known(service):
    for kind, last in (("sharpness", "precision"), ("train", "seed")):
        refused = service.post("/v1/runs", {"kind": kind, "params": {"nothing": 1}})
        said = [error["detail"] for error in refused.json["errors"] if error["pointer"] == "/params/nothing"]
        assert refused.status == 422 and len(said) == 1 and last in said[0] and not said[0].endswith(","), refused.body


def test_unknown_references_in_filters(service):
    assert service.get("/v1/runs?checkpoint=nothing").status == 404
    assert service.get("/v1/runs/nothing").status == 404
    assert service.get("/v1/runs/nothing/events").status == 404
    assert service.post("/v1/runs/nothing/cancel").status == 404


def training(service, name, **more):
    (service.files / f"{name}.txt").write_text("a long story without an end. " * 2000)
    service.post("/v1/datasets", {"name": name, "path": f"{name}.txt", "format": "text"})
    model = {**models.LLAMA, "max_position_embeddings": 64}
    params = {"trajectory": name, "model": model, "dataset": name, "tokenizer": {"name": "bytes"}, "tokens": 7680,
              "batch_sequences": 4, "sequence_length": 64, "checkpoint_every": 2560, **more}
    answer = service.post("/v1/runs", {"kind": "train", "params": params})
    assert answer.status == 202, answer.body
    service.unfinished.append(answer.json["id"])
    return answer.json["id"]


@pytest.fixture(autouse=True)
def nothing_goes_on_running(service):
    """A test that fails must not leave a run that is held in the only slot: every later test would wait for it."""
    service.unfinished = []
    yield
    service.gate.open()
    for run in service.unfinished:
        if service.get(f"/v1/runs/{run}").json["state"] in ("queued", "running"):
            service.post(f"/v1/runs/{run}/cancel")
            service.wait(run)


def held_training(service, name):
    """One that runs until it is cancelled, under any of its leases."""
    service.gate.hold("train", 1, "step", lease="*")
    run = training(service, name)
    service.held(run)
    return run


def test_train_registers_checkpoints_as_they_appear(service, name):
    run = training(service, name, validation=name, validation_sequences=2)
    document = service.wait(run)
    assert document["state"] == "succeeded", document["error"]
    items = service.get(f"/v1/checkpoints?trajectory={name}").json["items"]
    assert sorted((c["step"], c["tokens"]) for c in items) == [(10, 2560), (20, 5120), (30, 7680)]
    assert document["result"]["checkpoints"] == [c["id"] for c in sorted(items, key=lambda c: c["step"])]
    assert all(c["learning_rate"] > 0 and c["derived_from"] == {"run": run} for c in items)
    found = service.run("evaluate", checkpoint=items[0]["id"], dataset=name, sequence_length=64, max_sequences=4)
    assert found["state"] == "succeeded"
    points = service.get(f"/v1/curves?trajectory={name}&metric=validation_loss&x=tokens").json["series"][0]["points"]
    assert [p["x"] for p in points] == [2560, 5120, 7680]


def test_a_training_counts_steps_also_while_it_registers_a_checkpoint(service, name):
    """What a client sees between two steps is no other unit, and nothing is left to wait for once the run has ended."""
    service.gate.hold("train", 100_000, "byte", lease="*")  # the text has fewer: only a checkpoint would be held
    assert service.wait(training(service, name, tokens=2560))["state"] == "succeeded"
    service.gate.hold("train", 25, "step", lease="*")
    run = training(service, name, trajectory=f"{name}-again")
    service.held(run)
    # what the last heartbeat before told may still be the bytes of the text
    told = until("its steps", lambda: (p := service.get(f"/v1/runs/{run}").json["progress"])["unit"] == "step" and p)
    assert told["total"] == 30
    service.sql(f"update runs set progress_eta = 7 where id = '{run}'")
    service.post(f"/v1/runs/{run}/cancel")
    ended = service.wait(run)
    assert ended["state"] == "cancelled" and ended["progress"]["unit"] == "step" and ended["progress"]["done"] < 30
    assert ended["progress"]["eta_seconds"] is None


def test_a_training_makes_no_trajectory_that_no_address_reaches(service, name):
    (service.files / f"{name}.txt").write_text("a story")
    service.post("/v1/datasets", {"name": name, "path": f"{name}.txt", "format": "text"})
    answer = service.post("/v1/runs", {"kind": "train", "params": {
        "trajectory": "..", "model": models.LLAMA, "dataset": name, "tokenizer": {"name": "bytes"}, "tokens": 7680,
        "batch_sequences": 4, "sequence_length": 64, "checkpoint_every": 2560}})
    assert answer.status == 422 and answer.pointers == ["/params/trajectory"], answer.body


def curve_of(service, run):
    """The lines of the curve that a training leaves, below the names of the columns, and as numbers."""
    (listed,) = service.get(f"/v1/runs/{run}/artifacts").json["items"]
    assert (listed["name"], listed["media_type"]) == ("training.csv", "text/csv; charset=utf-8")
    text = service.get(f"/v1/runs/{run}/artifacts/training.csv").body.decode()
    rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(io.StringIO(text))]
    assert list(rows[0]) == ["step", "tokens", "learning_rate", "loss", "gradient_norm"]
    return text.splitlines()[1:], rows


def test_a_training_that_diverges_leaves_its_curve(service, name):
    """Up to its last step: there it is read why. A run that is tried again shows no file until it has ended."""
    run = training(service, name, schedule={"name": "constant", "peak": 1e3}, tokens=256 * 400)
    assert service.wait(run)["state"] == "failed"
    rows = curve_of(service, run)[1]
    assert [row["step"] for row in rows] == list(range(1, len(rows) + 1)) and 0 < len(rows) < 400
    service.gate.hold("train", 0, "step", lease="*")
    assert service.post(f"/v1/runs/{run}/retry").status == 202
    service.held(run, 2)
    assert service.get(f"/v1/runs/{run}/artifacts").json["items"] == []
    assert service.get(f"/v1/runs/{run}/artifacts/training.csv").status == 404
    service.gate.open()
    assert service.wait(run)["state"] == "failed"
    assert curve_of(service, run)[1] == rows


def test_a_cancelled_training_leaves_its_curve(service, name):
    run = held_training(service, name)
    service.post(f"/v1/runs/{run}/cancel")
    assert service.wait(run)["state"] == "cancelled"  # from where it is held: once let go it might make more steps
    service.gate.open()
    assert [row["step"] for row in curve_of(service, run)[1]] == [1]


def test_a_training_leaves_its_curve(service, name):
    """Its rows agree with the checkpoints of the run, and a branch leaves those of its own steps."""
    run = training(service, name, keep_state=True)
    document = service.wait(run)
    assert document["state"] == "succeeded", document["error"]
    lines, rows = curve_of(service, run)
    assert [(row["step"], row["tokens"]) for row in rows] == [(step, 256 * step) for step in range(1, 31)]
    assert rows[-1]["loss"] == document["result"]["final_loss"] and all(row["gradient_norm"] > 0 for row in rows)
    items = sorted(service.get(f"/v1/checkpoints?trajectory={name}").json["items"], key=lambda c: c["step"])
    series = service.get(f"/v1/curves?trajectory={name}&metric=train_loss&x=step").json["series"]
    points = sorted((p for one in series for p in one["points"] if p["run"] == run), key=lambda p: p["x"])
    assert [c["step"] for c in items] == [p["x"] for p in points] == [10, 20, 30], series
    for item, point in zip(items, points):
        row = rows[item["step"] - 1]
        assert (row["tokens"], row["learning_rate"], row["loss"]) == (item["tokens"], item["learning_rate"], point["y"])
    params = {field: value for field, value in document["params"].items() if field not in ("model", "tokenizer")}
    branch = service.wait(service.post("/v1/runs", {"kind": "train", "params": {
        **params, "trajectory": f"{name}-branch", "from": items[0]["id"]}}).json["id"])
    assert branch["state"] == "succeeded", branch["error"]
    assert curve_of(service, branch["id"])[0] == lines[10:]
    assert (branch["result"]["steps"], branch["result"]["tokens"]) == (30, 7680)


def test_a_long_curve_is_published_in_parts(service, name):
    run = training(service, name, tokens=2500 * 8, batch_sequences=1, sequence_length=8, checkpoint_every=2500 * 8)
    assert service.wait(run)["state"] == "succeeded"
    assert [row["step"] for row in curve_of(service, run)[1]] == list(range(1, 2501))


def test_logs_leave_out_losses_that_were_not_measured(service, name):
    run = training(service, name, tokens=2560, ema={})
    assert service.wait(run)["state"] == "succeeded"
    said = [data["line"] for _, kind, data in events_of(service, run) if kind == "log"]
    assert [line.split(":")[0] for line in said if line.startswith("checkpoint")] == [
        "checkpoint step0000010", "checkpoint step0000010-ema"]
    assert not any("nan" in line for line in said), said


def test_an_average_of_the_weights_is_a_trajectory_of_its_own(service, name):
    optimizer = {"name": "sam", "rho": 0.1}
    run = training(service, name, tokens=5120, validation=name, validation_sequences=2, ema={}, optimizer=optimizer)
    document = service.wait(run)
    assert document["state"] == "succeeded", document["error"]
    assert document["params"]["ema"] == {"decay": 0.999} and document["params"]["optimizer"]["rho"] == 0.1
    own = service.get(f"/v1/checkpoints?trajectory={name}").json["items"]
    averaged = sorted(service.get(f"/v1/checkpoints?trajectory={name}-ema").json["items"], key=lambda c: c["step"])
    assert len(own) == 2 and [c["name"] for c in averaged] == ["step0000010-ema", "step0000020-ema"]
    assert document["result"]["ema_checkpoints"] == [c["id"] for c in averaged]
    beside = [c["id"] for c in sorted(own, key=lambda c: c["step"])]
    assert [c["derived_from"] for c in averaged] == [
        {"run": run, "from": checkpoint, "ema": {"decay": 0.999}} for checkpoint in beside
    ]
    points = (
        service.get(f"/v1/curves?trajectory={name}-ema&metric=validation_loss&x=tokens").json["series"][0]["points"])
    assert points[-1]["y"] == document["result"]["ema_loss"] != document["result"]["validation_loss"]
    assert averaged[0]["sha256"] not in {c["sha256"] for c in own}


def test_a_branch_is_no_unit_of_its_own(service, name):
    """What a branch and an average say of two numbers is not independent of what their trunk says."""
    data = {"validation": name, "validation_sequences": 2}
    service.wait(training(service, name, tokens=5120, ema={}, **data))
    trunk = service.get(f"/v1/checkpoints?trajectory={name}").json["items"]
    start = next(c["id"] for c in trunk if c["step"] == 10)
    document = service.run("train", **{"trajectory": f"{name}-branch", "from": start, "dataset": name, "tokens": 7680,
                                       "batch_sequences": 4, "sequence_length": 64, "checkpoint_every": 2560,
                                       **data})
    assert document["state"] == "succeeded", document["error"]
    made = service.get(f"/v1/checkpoints?trajectory={name}-branch").json["items"]
    assert made and all(c["derived_from"] == {"run": document["id"], "from": start} for c in made)
    names = "".join(f"&trajectory={name}{suffix}" for suffix in ("", "-branch", "-ema"))
    found = service.get(f"/v1/correlations?x=step&y=validation_loss{names}").json
    assert found["units"] == 1 and {p["trajectory"] for p in found["points"]} == {name, f"{name}-branch", f"{name}-ema"}
    assert {p["unit"] for p in found["points"]} == {f"trajectory {name}"}


def test_rates_of_cycles_fall_and_come_back(service, name):
    """Checkpoints after 10, 20 and 30 steps have the rate of the update before:
    half a cycle, a restart, half of the next."""
    schedule = {"name": "oscillating", "peak": 0.01, "period": 20 * 256, "final": 0.2}
    document = service.wait(training(service, name, schedule=schedule))
    assert document["state"] == "succeeded", document["error"]
    items = sorted(service.get(f"/v1/checkpoints?trajectory={name}").json["items"], key=lambda c: c["step"])
    rates = [0.01 * (0.2 + 0.8 * (1 + math.cos(2 * math.pi * (c["step"] - 1) / 20)) / 2) for c in items]
    assert [c["learning_rate"] for c in items] == pytest.approx(rates, rel=1e-12)
    assert document["params"]["schedule"]["start"] == 0
    answer = service.post("/v1/runs", {"kind": "train", "params": {**document["params"], "schedule": {"name": "sgdr"}}})
    assert answer.status == 422 and answer.pointers == ["/params/schedule/period"]


@pytest.mark.parametrize("schedule, pointer", [({"name": "cosine"}, "/params/schedule/name"),
                                               ({"name": "wsd", "decay": 2560}, "/params/schedule/decay")])
def test_schedule_free_training_refuses_a_schedule_that_falls(service, name, schedule, pointer):
    (service.files / f"{name}.txt").write_text("a long story. " * 2000)
    service.post("/v1/datasets", {"name": name, "path": f"{name}.txt", "format": "text"})
    params = {"trajectory": name, "model": models.LLAMA, "dataset": name, "tokenizer": {"name": "bytes"},
              "tokens": 5120, "batch_sequences": 4, "sequence_length": 64, "optimizer": {"name": "schedule_free"},
              "schedule": schedule}
    answer = service.post("/v1/runs", {"kind": "train", "params": params})
    assert answer.status == 422 and pointer in [e["pointer"] for e in answer.json["errors"]], answer.body


def test_cancel_stops_a_running_run_and_retry_queues_it_again(service, name):
    run = held_training(service, name)
    assert service.get(f"/v1/runs/{run}").json["state"] == "running"
    queued = training(service, name + "-2")
    assert service.post(f"/v1/runs/{queued}/cancel").json["state"] == "cancelled"
    began = time.monotonic()
    assert service.post(f"/v1/runs/{run}/cancel").status == 202
    assert service.wait(run)["state"] == "cancelled" and time.monotonic() - began < 30
    # an idle worker may have it already
    assert service.post(f"/v1/runs/{run}/retry").json["state"] in ("queued", "running")
    assert service.post(f"/v1/runs/{run}/retry").status == 409
    service.post(f"/v1/runs/{run}/cancel")
    assert service.wait(run)["state"] == "cancelled"


def test_finished_runs_cannot_be_cancelled_or_retried(service, ready):
    run = service.run("evaluate", checkpoint=ready["checkpoint"], dataset=ready["dataset"], sequence_length=None)["id"]
    assert service.post(f"/v1/runs/{run}/cancel").status == 409
    assert service.post(f"/v1/runs/{run}/retry").status == 409


def test_wait_holds_the_answer_no_longer_than_asked(service, name):
    run = held_training(service, name)
    began = time.monotonic()
    document = service.get(f"/v1/runs/{run}?wait=1").json
    assert 0.9 < time.monotonic() - began < 30 and document["state"] == "running"
    service.post(f"/v1/runs/{run}/cancel")
    service.wait(run)


@pytest.mark.parametrize("wait", ["61", "-1", "x", "1.5"])
def test_bad_waits_are_refused(service, wait):
    assert service.get(f"/v1/runs/x?wait={wait}").status == 422


def events_of(service, run, last=None):
    """All events until the stream ends."""
    connection = socket.create_connection(("127.0.0.1", service.port), timeout=30)
    extra = f"Last-Event-ID: {last}\r\n" if last else ""
    connection.sendall(f"GET /v1/runs/{run}/events HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\n"
                       f"Connection: close\r\n{extra}\r\n".encode())
    text = b""
    while chunk := connection.recv(65536):
        text += chunk
    connection.close()
    head, _, body = text.partition(b"\r\n\r\n")
    assert b"200" in head.split(b"\r\n")[0] and b"text/event-stream" in head
    found = []
    for block in body.decode().replace("\r\n", "\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and not line.startswith(":"))
        if "event" in fields:
            found.append((fields.get("id"), fields["event"], json.loads(fields["data"])))
    return found


def test_events_tell_the_whole_story_and_resume(service, name):
    run = training(service, name, tokens=5120)
    events = events_of(service, run)
    states = [data["to"] for _, event, data in events if event == "state"]
    assert states == ["queued", "running", "succeeded"]
    assert any(event == "log" for _, event, _ in events) and any(event == "progress" for _, event, _ in events)
    ids = [int(i) for i, _, _ in events if i]
    assert ids == sorted(ids)
    later = [int(i) for i, _, _ in events_of(service, run, last=ids[1]) if i]
    assert later == ids[2:]


def test_artifacts_of_a_run_without_any(service, ready):
    run = service.run("health", checkpoint=ready["checkpoint"])["id"]
    assert service.get(f"/v1/runs/{run}/artifacts").json["items"] == []
    for bad in ("x", "..%2f..%2fpg", "%2e%2e"):
        assert service.get(f"/v1/runs/{run}/artifacts/{bad}").status == 404


def test_a_checkpoint_in_use_cannot_be_deleted(service, name, ready):
    run = held_training(service, name)
    body = {"kind": "evaluate",
            "params": {"checkpoint": ready["checkpoint"], "dataset": ready["dataset"], "sequence_length": 7}}
    queued = service.post("/v1/runs", body).json["id"]
    assert service.request("DELETE", f"/v1/checkpoints/{ready['checkpoint']}").status == 409
    assert service.request("DELETE", f"/v1/datasets/{ready['dataset']}").status == 409
    service.post(f"/v1/runs/{run}/cancel")
    assert service.wait(queued)["state"] == "succeeded"


def test_lengths_written_as_fractions_ask_for_the_same(service, ready):
    first = service.run("evaluate", checkpoint=ready["checkpoint"], dataset=ready["dataset"], sequence_length=7)
    again = service.post("/v1/runs",
                         {"kind": "evaluate", "params": {"checkpoint": ready["checkpoint"], "dataset": ready["dataset"],
                                                         "sequence_length": 7.0}})
    assert again.status == 200 and again.json["id"] == first["id"] and again.json["params"]["sequence_length"] == 7
