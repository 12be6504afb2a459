"""Gates: rules that checkpoints are held to, their verdicts, and the events that tell of them."""

import contextlib
import http.server
import json
import os
import subprocess
import threading

import models
import pytest
from earlier import psql
from service import BINARY, Service, quoted
from streaming import Stream
from test_watch import until

RTN4 = {"method.name": "rtn", "method.bits": 4}


@pytest.fixture(scope="module")
def course(service):
    """Seven checkpoints; rtn at 4 bits of the first six, at 3 bits of the first, nothing of the last."""
    for i in range(7):
        place = models.write_llama(service.files / "gates" / str(i), seed=60 + i)
        service.checkpoint(place, "gated", f"step{i}", step=i)
    service.sequences("gates-data", models.rows(8, 32))
    runs = {}
    for i in range(6):
        for bits in (4, 3) if i == 0 else (4,):
            runs[i, bits] = quantize(service, f"gated/step{i}", bits)
    return runs


def quantize(service, checkpoint, bits, dataset="gates-data"):
    params = {"method": {"name": "rtn", "bits": bits, "group_size": 32},
              "evaluation": {"dataset": dataset, "sequence_length": None}}
    run = service.run("quantize", checkpoint=checkpoint, **params)
    assert run["state"] == "succeeded"
    return run


def make(service, name, *rules, trajectory="gated"):
    answer = service.post("/v1/gates", {"name": name, "trajectory": trajectory, "rules": list(rules)})
    assert answer.status == 201, answer.body
    assert answer.headers["Location"] == f"/v1/gates/{answer.json['id']}"
    return answer.json


def verdict(service, gate, checkpoint, more=""):
    answer = service.get(f"/v1/gates/{quoted(gate)}/verdict?checkpoint={quoted(checkpoint)}{more}")
    assert answer.status == 200, answer.body
    return answer.json


def one(service, gate, checkpoint):
    """The verdict of a gate with one rule."""
    found = verdict(service, gate, checkpoint)
    rule, = found["rules"]
    assert found["verdict"] == rule["verdict"]
    return rule


def deltas(course, steps):
    return [course[i, 4]["result"]["delta"] for i in steps]


def test_a_budget_passes_fails_and_is_pending_where_nothing_was_measured(service, course, name):
    delta, interval = (course[2, 4]["result"][field] for field in ("delta", "delta_interval"))
    for limit, expected in ((delta + 1, "pass"), (delta, "pass"), (delta - 1, "fail")):
        make(service, f"{name}{limit}", {"metric": "delta", "series": RTN4, "max": limit})
        rule = one(service, f"{name}{limit}", "step2")
        assert (rule["verdict"], rule["value"], rule["limit"]) == (expected, delta, limit)
        assert (rule["interval"], rule["run"], rule["reason"]) == (interval, course[2, 4]["id"], None)
    rule = one(service, f"{name}{delta + 1}", "step6")
    assert (rule["verdict"], rule["value"], rule["run"], rule["reason"]) == ("pending", None, None, "not measured")
    # Of another width nothing was measured either: pending, never passed on the strength of the other.
    make(service, name, {"metric": "delta", "series": {"method.bits": 8}, "max": 1e9})
    assert one(service, name, "step2")["verdict"] == "pending"


def test_a_label_of_the_table_is_matched_whatever_else_is_measured(service, name):
    """method_label stays; label names the data as soon as there are others. The reason tells what would match."""
    service.checkpoint(models.write_llama(service.files / name, seed=661), name, "step0", step=0)
    for data in ("a", "b"):
        service.sequences(f"{name}-{data}", models.rows(4, 32, seed=7 if data == "a" else 8))
    make(service, f"{name}-early", {"metric": "delta", "series": {"label": "rtn 4-bit g23"}, "max": 1e6},
         trajectory=name)
    assert one(service, f"{name}-early", "step0")["reason"] == "not measured"
    seen = []
    for data in ("a", "b"):
        quantize(service, f"{name}/step0", 4, f"{name}-{data}")
        seen.append(service.get(f"/v1/measurements?trajectory={quoted(name)}&metric=delta").json["items"])
    assert [row["method_label"] for rows in seen for row in rows] == ["rtn 4-bit g32"] * 3
    assert seen[0][0]["label"] == "rtn 4-bit g32" and seen[1][0]["label"] != "rtn 4-bit g32"
    make(service, name, {"metric": "delta", "series": {"label": seen[1][0]["method_label"]}, "max": 1e6},
         trajectory=name)
    assert one(service, name, "step0")["verdict"] == "pass"
    head = "not measured: no series of delta in this trajectory has the "
    for i, (key, value, there) in enumerate([
            ("label", seen[1][0]["label"], 'is "rtn 4-bit g32"'), ("method", "gptq", 'is "rtn"'),
            ("method.name", "awq", 'is "rtn"'), ("protocol", "none", "are "),
            ("dataset", "gates-date", f'are "{name}-a", "{name}-b"')]):
        make(service, f"{name}{i}", {"metric": "delta", "series": {key: value}, "max": 1e6}, trajectory=name)
        reason = one(service, f"{name}{i}", "step0")["reason"]
        assert reason.startswith(f'{head}{key} "{value}"; there {there}'), reason
    assert one(service, f"{name}-early", "step0")["reason"] == f'{head}label "rtn 4-bit g23"; there is "rtn 4-bit g32"'
    # Of the same content, so that what was measured of the first is there too.
    service.checkpoint(models.write_llama(service.files / name / "again", seed=661), f"{name}-twin", "step0", step=0)
    service.checkpoint(models.write_llama(service.files / name / "other", seed=662), f"{name}-twin", "step1", step=1)
    make(service, f"{name}-twin", {"metric": "delta", "series": {"label": "rtn"}, "max": 1}, trajectory=f"{name}-twin")
    assert one(service, f"{name}-twin", "step1")["reason"] == f'{head}label "rtn"; there is "rtn 4-bit g32"'


def test_a_reason_names_few_of_many_series(service, name):
    service.checkpoint(models.write_llama(service.files / name, seed=663), name, "step0", step=0)
    for i in range(6):
        service.sequences(f"{name}-{i}", models.rows(2, 16, seed=i))
        assert service.run("evaluate", checkpoint=f"{name}/step0", dataset=f"{name}-{i}",
                           sequence_length=None)["state"] == "succeeded"
    make(service, name, {"metric": "loss", "series": {"dataset": "x" * 250}, "max": 1e6}, trajectory=name)
    reason = one(service, name, "step0")["reason"]
    assert f'"{"x" * 200}"' in reason and reason.count('"') == 12 and reason.endswith('-4" and others'), reason


def test_a_lower_limit(service, course, name):
    loss = course[1, 4]["result"]["loss_fp"]
    make(service, name, {"metric": "loss_fp", "min": loss - 0.1}, {"metric": "loss_fp", "min": loss + 0.1})
    found = verdict(service, name, "gated/step1")
    assert [rule["verdict"] for rule in found["rules"]] == ["pass", "fail"] and found["verdict"] == "fail"
    assert found["rules"][0]["series"] == ""


@pytest.mark.parametrize("straddle,expected", [("value", ("pass", "fail")), ("fail", ("fail", "fail")),
                                               ("pass", ("pass", "pass"))])
def test_an_interval_around_the_limit_is_told_and_decided_by_rule(service, course, name, straddle, expected):
    delta, (low, high) = (course[3, 4]["result"][field] for field in ("delta", "delta_interval"))
    limits = ((delta + high) / 2, (low + delta) / 2)
    for limit, word in zip(limits, expected):
        make(service, f"{name} {limit}", {"metric": "delta", "series": RTN4, "max": limit, "straddle": straddle})
        rule = one(service, f"{name} {limit}", "step3")
        assert (rule["straddles"], rule["verdict"]) == (True, word)
    make(service, name, {"metric": "delta", "series": RTN4, "max": high + 1, "straddle": straddle})
    assert (one(service, name, "step3")["straddles"], one(service, name, "step3")["verdict"]) == (False, "pass")


@pytest.mark.parametrize("straddle,expected", [("value", "pass"), ("fail", "pending"), ("pass", "pass")])
def test_a_value_without_an_interval_is_not_passed_where_one_is_asked_for(service, course, name, straddle, expected):
    service.sequences("gates-single", models.rows(1, 32))
    quantized = quantize(service, "gated/step3", 4, "gates-single")["result"]
    assert quantized["delta_interval"] is None
    series, delta = {**RTN4, "protocol": quantized["protocol_id"]}, quantized["delta"]
    for limit, word in ((delta + 1e-9, expected), (delta - 1e-9, "fail")):
        make(service, f"{name} {limit}", {"metric": "delta", "series": series, "max": limit, "straddle": straddle})
        rule = one(service, f"{name} {limit}", "step3")
        assert (rule["straddles"], rule["interval"], rule["verdict"]) == (None, None, word)
        assert (rule["reason"] or "").startswith("the value has no interval" if word == "pending" else "")


def test_against_the_last_checkpoints(service, course, name):
    before = sorted(deltas(course, (2, 3, 4)))[1]
    value = course[5, 4]["result"]["delta"]
    assert before > 0 and value != before
    change = value - before
    rules = [{"metric": "delta", "series": RTN4, "against_last": 3, field: limit} for field, limit in (
        ("max_ratio", value / before * 1.01), ("max_ratio", value / before * 0.99),
        ("min_ratio", value / before * 1.01), ("max_change", change + 1e-9), ("max_change", change - 1e-9),
        ("min_change", change - 1e-9))]
    make(service, name, *rules)
    found = verdict(service, name, "step5")["rules"]
    assert [rule["verdict"] for rule in found] == ["pass", "fail", "fail", "pass", "fail", "pass"]
    for rule in found:
        assert rule["compared_with"] == ["step2", "step3", "step4"]
        assert rule["base"] == pytest.approx(before, rel=1e-12) and rule["value"] == value
    assert found[0]["limit"] == pytest.approx(value * 1.01, rel=1e-12)
    assert found[3]["limit"] == pytest.approx(value + 1e-9, rel=1e-12)
    # Fewer than asked for are enough; with none there is nothing to compare with.
    assert verdict(service, name, "step1")["rules"][0]["compared_with"] == ["step0"]
    first = verdict(service, name, "step0")["rules"][0]
    assert first["verdict"] == "pending" and "no checkpoint before" in first["reason"] and first["value"] is not None


def test_all_series_that_fit_must_pass_and_the_worst_is_shown(service, course, name):
    (low, _), (high, worse) = sorted((course[0, bits]["result"]["delta"], bits) for bits in (4, 3))
    make(service, name, {"metric": "delta", "max": (low + high) / 2})
    rule = one(service, name, "step0")
    assert (rule["verdict"], rule["value"], rule["series"]) == ("fail", high, f"rtn {worse}-bit g32")
    make(service, f"{name} group", {"metric": "delta", "series": {"method.group_size": 32, "dataset": "gates-data"},
                                    "max": high})
    assert one(service, f"{name} group", "step0")["verdict"] == "pass"


def test_numbers_of_a_sharpness_run_are_matched_by_the_quantizer_of_its_direction(service, course, name):
    """`method` of such a run is how it finds eigenvalues."""
    service.checkpoint(models.write_llama(service.files / name, seed=664), name, "step0", step=0)
    direction = {"method": {"name": "rtn", "bits": 8, "group_size": 16}, "random_directions": 1}
    run = service.run("sharpness", checkpoint=f"{name}/step0", dataset="gates-data", sequence_length=None,
                      estimators=[], direction=direction)
    assert run["state"] == "succeeded" and run["params"]["method"] == "lanczos"
    for metric in ("predicted_delta", "gradient_term", "curvature_term", "measured_delta", "random_delta"):
        for size, word in ((16, "pass"), (32, "pending")):
            gate = f"{name} {metric} {size}"
            make(service, gate, {"metric": metric, "series": {"method.name": "rtn", "method.group_size": size},
                                 "max": 1e6}, trajectory=name)
            rule = one(service, gate, "step0")
            assert (rule["verdict"], rule["value"]) == (word, run["result"][metric] if word == "pass" else None)


def test_integrity_is_pending_until_the_weights_are_read(service, course, name):
    for i, seed in enumerate((1, 2, 2)):
        place = models.write_llama(service.files / name / str(i), seed=seed)
        service.checkpoint(place, name, f"step{i}", step=i)
    make(service, name, {"integrity": "clean"}, trajectory=name)
    rule = one(service, name, "step0")
    assert (rule["verdict"], rule["flags"]) == ("pending", None) and "not read" in rule["reason"]
    for i in range(3):
        assert service.run("health", checkpoint=f"{name}/step{i}")["state"] == "succeeded"
    assert (one(service, name, "step0")["verdict"], one(service, name, "step0")["flags"]) == ("pass", [])
    assert one(service, name, "step2")["verdict"] == "fail" and "identical" in one(service, name, "step2")["flags"]


# --- change points ---
SCALES = [1 + 0.01 * i + 0.002 * (-1) ** (i * i // 3) for i in range(16)]
JUMP = 10  # the first checkpoint behind it


@pytest.fixture(scope="module")
def jumping(service):
    """The norm of the weights grows along 16 checkpoints and jumps by half of it before number 10."""
    scaled(service, "jumping", [scale + (0.5 if i >= JUMP else 0) for i, scale in enumerate(SCALES)])


def scaled(service, trajectory, scales, measured=None):
    """Weights times these, and their health; of all unless told otherwise."""
    for i, scale in enumerate(scales):
        def change(tensors, scale=scale):
            for tensor in tensors.values():
                tensor *= scale

        place = models.write_llama(service.files / trajectory / str(i), seed=7, change=change)
        service.checkpoint(place, trajectory, f"step{i}", step=100 * i)
    measure_health(service, trajectory, range(len(scales)) if measured is None else measured)


def measure_health(service, trajectory, numbers):
    for i in numbers:
        assert service.run("health", checkpoint=f"{trajectory}/step{i}")["state"] == "succeeded"


def changed(service, name, checkpoint, last, trajectory="jumping", **more):
    gate = f"{name} {checkpoint} {last} {json.dumps(more)}".replace("/", "")
    make(service, gate, {"metric": "weight_l2", "changepoint": last, **more}, trajectory=trajectory)
    return one(service, gate, checkpoint)


def test_a_change_point_among_the_last_checkpoints_fails_and_an_earlier_one_passes(service, jumping, name):
    told = service.get("/v1/trajectories/jumping/changepoints?metric=weight_l2").json["series"][0]
    at = {"after": f"step{JUMP - 1}", "before": f"step{JUMP}"}
    for checkpoint, last, verdict in (("step12", 3, "fail"), ("step15", 6, "fail"), ("step15", 5, "pass"),
                                      ("step15", 100, "fail")):
        rule = changed(service, name, checkpoint, last)
        assert rule["verdict"] == verdict, (checkpoint, last, rule)
        assert {side: rule["change"][side]["checkpoint_name"] for side in at} == at
        assert rule["change"]["kind"] == "level" and rule["change"]["size"] > 0 and rule["p_value"] <= 0.05
        assert (rule["straddles"], rule["limit"], rule["reason"]) == (False, None, None)
        if checkpoint == "step15":
            assert (rule["change"], rule["p_value"]) == (told["change"], told["adjusted_p_value"])
    early = changed(service, name, "step11", 3)  # two points behind the jump are not enough to tell it
    assert (early["verdict"], early["change"]) == ("pass", None) and early["p_value"] > 0.05


def test_a_change_point_is_pending_without_its_points(service, jumping, name):
    few = changed(service, name, "step10", 3)
    assert (few["verdict"], few["change"], few["p_value"]) == ("pending", None, None) and "12" in few["reason"]
    assert few["value"] > 0 and few["straddles"] is None
    assert changed(service, name, "step11", 3)["verdict"] == "pass"
    late = changed(service, name, "step15", 3, **{"from": 500})
    assert late["verdict"] == "pending" and "12" in late["reason"]
    assert changed(service, name, "step15", 6, **{"from": 400})["verdict"] == "fail"
    make(service, name, {"metric": "delta", "changepoint": 3}, trajectory="jumping")
    assert one(service, name, "step15")["reason"] == "not measured"
    service.checkpoint(models.write_llama(service.files / name, seed=8), "jumping", "stepless")
    assert service.run("health", checkpoint="jumping/stepless")["state"] == "succeeded"
    assert "no step" in changed(service, name, "stepless", 3)["reason"]


def test_a_change_whose_place_is_uncertain_is_decided_by_rule(service, name):
    """A bend in noise: its interval has two places, which a last N divides."""
    noise = (0.4, -0.9, 1.1, -0.3, -1.2, 0.8, 0.5, -0.6, 1.0, -0.7, 0.2, 0.9, -1.1, 0.3, 0.6, -0.8)
    scaled(service, name, [1 + 0.02 * kick + 0.08 * max(0, i - 9) for i, kick in enumerate(noise)])
    for last, straddle, straddles, word in (
        (6, "value", True, "fail"), (6, "fail", True, "fail"), (6, "pass", True, "pass"),
        (7, "pass", False, "fail"), (5, "fail", False, "pass"),
    ):
        rule = changed(service, name, "step15", last, name, straddle=straddle)
        assert (rule["straddles"], rule["verdict"]) == (straddles, word), (last, straddle)
        change = rule["change"]
        assert (change["kind"], change["interval"], change["before"]["x"]) == ("slope", [800, 1000], 1000)


def test_a_change_point_is_an_alert_and_the_command_tells_its_place(service, name):
    """Told when a number that was missing before is measured: later checkpoints are judged anew."""
    scales = [1.1 * scale + (0.5 if i >= JUMP else 0) for i, scale in enumerate(SCALES[:13])]
    scaled(service, name, scales, measured=())
    make(service, name, {"metric": "weight_l2", "changepoint": 3}, trajectory=name)
    measure_health(service, name, set(range(13)) - {4, 5})
    assert one(service, name, "step12")["verdict"] == "pending"
    query = f"/v1/events?after=0&trajectory={quoted(name)}&kind=verdict&kind=alert"
    measure_health(service, name, [4])
    with Stream(service.port, query) as stream:
        (_, kind, told), (_, alert, _) = stream.take(2)
    assert (kind, alert, told["checkpoint_name"], told["verdict"]) == ("verdict", "alert", "step12", "fail")
    assert told["rules"][0]["change"]["before"]["checkpoint_name"] == f"step{JUMP}"
    done = checked(service, name, "step12")
    assert done.returncode == 1 and "level changes between step 900 and 1000 (95 % 900 to 1000)" in done.stdout


def test_verdicts_that_change_are_events_and_failures_alerts(service, course, name):
    for i in range(2):
        service.checkpoint(models.write_llama(service.files / name / str(i), seed=80 + i), name, f"step{i}", step=i)
    make(service, name, {"metric": "delta", "series": RTN4, "max": 1e6},
         {"metric": "delta", "series": RTN4, "against_last": 1, "max_change": -1e6}, trajectory=name)
    quantize(service, f"{name}/step1", 4)  # nothing before it is measured: still pending, no event
    late = quantize(service, f"{name}/step0", 4)
    query = f"/v1/events?after=0&trajectory={name}&kind=verdict&kind=alert"
    with Stream(service.port, query) as stream:  # the later checkpoint is judged anew
        (_, kind, told), (_, alert, same) = stream.take(2)
    assert (kind, alert) == ("verdict", "alert") and same == {**told, "at": same["at"]}
    assert (told["gate"], told["checkpoint_name"], told["from"], told["verdict"]) == (name, "step1", "pending", "fail")
    assert told["rules"][1]["compared_with"] == ["step0"] and told["rules"][0]["verdict"] == "pass"
    # The same numbers again change no verdict; nothing is told.
    assert service.post("/v1/runs", {"kind": "quantize", "params": late["params"], "force": True}).status == 202
    quantize(service, f"{name}/step1", 3)
    with Stream(service.port, query + "&follow=false") as stream:
        assert len(list(stream.events())) == 2
    assert verdict(service, name, "step1")["verdict"] == "fail"
    # With the run goes what was judged.
    measured = quantize(service, f"{name}/step1", 4)["id"]
    assert service.request("DELETE", f"/v1/runs/{measured}").status == 204
    with Stream(service.port, query) as stream:
        _, _, (_, kind, told) = stream.take(3)
    assert (kind, told["checkpoint_name"], told["from"], told["verdict"]) == ("verdict", "step1", "fail", "pending")


def test_a_verdict_on_numbers_of_a_checkpoint_that_is_deleted_is_told(service, course, name):
    """Of two checkpoints of one content one is measured; the other one, of another trajectory, has the gate."""
    place = models.write_llama(service.files / name, seed=84)
    for trajectory in ("owner", "twin"):
        service.checkpoint(place, f"{name}-{trajectory}", "step5", step=5)
    make(service, name, {"metric": "delta", "series": RTN4, "max": 1e6}, trajectory=f"{name}-twin")
    quantize(service, f"{name}-owner/step5", 4)
    with Stream(service.port, f"/v1/events?after=0&trajectory={name}-twin&kind=verdict") as stream:
        events = stream.events()
        _, _, told = next(events)
        assert (told["checkpoint_name"], told["from"], told["verdict"]) == ("step5", "pending", "pass")
        assert service.request("DELETE", f"/v1/checkpoints/{name}-owner%2Fstep5").status == 204
        _, _, told = next(events)
    assert (told["checkpoint_name"], told["from"], told["verdict"]) == ("step5", "pass", "pending")
    assert verdict(service, name, "step5")["verdict"] == "pending"


def test_verdicts_behind_the_place_that_a_checkpoint_left_are_told(service, name):
    """They were compared with it: it is moved, then another one is deleted."""
    scaled(service, name, (1, 1.2, 0.9, 1.1), measured=())
    make(service, name, {"metric": "weight_l2", "against_last": 1, "max_change": 0}, trajectory=name)
    measure_health(service, name, range(4))
    with Stream(service.port, f"/v1/events?after=0&trajectory={quoted(name)}&kind=verdict") as stream:
        events = stream.events()

        def told():
            data = next(events)[2]
            return data["checkpoint_name"], data["from"], data["verdict"], data["rules"][0]["compared_with"]

        assert [told() for _ in range(3)] == [
            ("step1", "pending", "fail", ["step0"]), ("step2", "pending", "pass", ["step1"]),
            ("step3", "pending", "fail", ["step2"])]
        moved = service.request("PATCH", f"/v1/checkpoints/{quoted(name)}%2Fstep2", {"step": 4000})
        assert moved.status == 200
        assert told() == ("step3", "fail", "pass", ["step1"])
        assert service.request("DELETE", f"/v1/checkpoints/{quoted(name)}%2Fstep1").status == 204
        assert told() == ("step3", "pass", "fail", ["step0"])


def test_wait_holds_the_answer_while_it_is_pending(service, course, name):
    service.checkpoint(models.write_llama(service.files / name, seed=90), name, "step0", step=0)
    make(service, name, {"metric": "loss", "max": 100}, trajectory=name)
    assert verdict(service, name, "step0", "&wait=1")["verdict"] == "pending"
    params = {"checkpoint": f"{name}/step0", "dataset": "gates-data", "sequence_length": None}
    assert service.post("/v1/runs", {"kind": "evaluate", "params": params}).status == 202
    assert verdict(service, name, "step0", "&wait=60")["verdict"] == "pass"


def checked(service, gate, checkpoint, *more):
    command = [BINARY, "gate", "check", gate, "--checkpoint", checkpoint, *more]
    environment = {**os.environ, "DELTAQ_URL": service.url, "HOME": "/nowhere"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


def test_the_command_tells_each_rule_and_the_verdict_by_its_exit_status(service, course, name):
    delta = course[2, 4]["result"]["delta"]
    low, high = course[2, 4]["result"]["delta_interval"]
    told = f"delta of rtn 4-bit g32, value {delta:.6g} (95 % {low:.6g} to {high:.6g}), limit"
    make(service, name, {"metric": "delta", "series": RTN4, "max": delta + 1})
    make(service, f"{name} fails", {"metric": "delta", "series": RTN4, "max": delta - 1})
    make(service, f"{name} waits", {"integrity": "clean"})
    done = checked(service, name, "step2")
    assert (done.returncode, done.stdout) == (0, f"pass\n  pass     {told} {delta + 1:.6g}\n")
    done = checked(service, f"{name} fails", "gated/step2")
    assert (done.returncode, done.stdout) == (1, f"fail\n  fail     {told} {delta - 1:.6g}\n")
    done = checked(service, name, "step6")
    assert done.returncode == 3 and done.stdout.endswith("  pending  delta: not measured\n") and done.stderr == ""
    done = checked(service, f"{name} waits", "step6", "--wait", "--timeout", "1")
    assert done.returncode == 3 and "pending  integrity: " in done.stdout
    assert "not finished after 1 seconds" in done.stderr
    done = checked(service, name, "step2", "--wait", "--json")
    assert done.returncode == 0 and json.loads(done.stdout) == verdict(service, name, "step2")
    assert checked(service, "nothing of that name", "step2", "--wait").returncode == 5


PASSES, FAILS = {"metric": "delta", "series": RTN4, "max": 1e6}, {"metric": "delta", "series": RTN4, "max": -1e6}
UNMEASURED = {"metric": "delta", "series": {"method.bits": 8}, "max": 1e6}
FIRST = {"metric": "delta", "series": RTN4, "against_last": 3, "max_change": 1e6}
CLEAN = {"integrity": "clean"}


@pytest.mark.parametrize("rules,checkpoint,status,words", [
    ([PASSES], "step2", 0, ["pass"]),
    ([FAILS], "step2", 1, ["fail"]),
    ([UNMEASURED], "step2", 3, ["pending  delta: not measured"]),
    ([PASSES], "step6", 3, ["pending  delta: not measured"]),
    ([FIRST], "step0", 3, ["pending  delta"]),
    ([CLEAN], "step2", 3, ["pending  integrity: its weights were not read"]),
    ([PASSES, PASSES], "step2", 0, ["pass", "pass"]),
    ([PASSES, FAILS], "step2", 1, ["pass", "fail"]),
    ([PASSES, UNMEASURED], "step2", 3, ["pass", "pending"]),
    ([UNMEASURED, FAILS], "step2", 1, ["pending", "fail"]),
    ([CLEAN, PASSES], "step2", 3, ["pending", "pass"]),
    ([CLEAN, FAILS], "step2", 1, ["pending", "fail"]),
])
def test_the_command_has_an_exit_status_for_every_verdict(service, course, name, rules, checkpoint, status, words):
    make(service, name, *rules)
    done = checked(service, name, checkpoint)
    first, *lines = done.stdout.splitlines()
    assert (done.returncode, first, done.stderr) == (status, {0: "pass", 1: "fail", 3: "pending"}[status], "")
    assert len(lines) == len(words) and all(line.strip().startswith(word) for line, word in zip(lines, words)), lines
    told = checked(service, name, f"gated/{checkpoint}", "--json")
    assert told.returncode == status and json.loads(told.stdout)["verdict"] == first


def test_the_command_on_weights_that_are_clean_and_that_are_not(service, course, name):
    for i, seed in enumerate((1, 2, 2)):
        service.checkpoint(models.write_llama(service.files / name / str(i), seed=seed), name, f"step{i}", step=i)
    make(service, name, CLEAN, trajectory=name)
    assert checked(service, name, "step0").returncode == 3
    for i in range(3):
        assert service.run("health", checkpoint=f"{name}/step{i}")["state"] == "succeeded"
    assert [checked(service, name, f"step{i}").returncode for i in (0, 2)] == [0, 1]


def test_the_command_passes_nothing_without_a_verdict(service, course, name):
    """What is not there, what was not understood, no answer, and answers that have no verdict that is known."""
    make(service, name, PASSES)
    assert checked(service, name, "nothing").returncode == 5
    assert checked(service, name, "step2", "--colour").returncode == 2
    assert checked(service, name, "step2", "--url", "http://127.0.0.1:1").returncode == 4
    for document in ({"verdict": "maybe", "rules": []}, {"rules": []}, {"verdict": None, "rules": []},
                     {"verdict": True, "rules": []}, []):
        with answering(document) as url:
            done = checked(service, name, "step2", "--url", url)
            known = document == {"verdict": "maybe", "rules": []}
            assert done.returncode == (1 if known else 5), (document, done.returncode)
            assert "pass" not in done.stdout and known == ("no verdict" not in done.stderr), (done.stdout, done.stderr)


@contextlib.contextmanager
def answering(document):
    """The address of a server that answers everything with a document."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("rules,pointers", [
    ([], ["/rules"]),
    ([{}], ["/rules/0"]),
    ([{"metric": "dleta", "max": 1}], ["/rules/0/metric"]),
    ([{"metric": "delta"}], ["/rules/0"]),
    ([{"metric": "delta", "max": 1, "min": 0}], ["/rules/0"]),
    ([{"metric": "delta", "max_ratio": 1.5}], ["/rules/0/against_last"]),
    ([{"metric": "delta", "max": 1, "against_last": 3}], ["/rules/0/against_last"]),
    ([{"metric": "delta", "max_change": 1, "against_last": 51}], ["/rules/0/against_last"]),
    ([{"metric": "delta", "max": 1, "series": {"bits": 4}}], ["/rules/0/series/bits"]),
    ([{"metric": "delta", "max": 1, "series": {"method.name": "gptk"}}], ["/rules/0/series/method.name"]),
    ([{"metric": "delta", "max": 1, "series": {"method": 4}}], ["/rules/0/series/method"]),
    ([{"metric": "delta", "max": 1, "series": {"method.bitz": 4, "method.name": ["rtn"]}}],
     ["/rules/0/series/method.bitz", "/rules/0/series/method.name"]),
    ([{"metric": "learning_rate", "max": 1}], ["/rules/0/metric"]),
    ([{"metric": "delta", "max": 1, "series": {"method.bits": "3", "method.sym": 1, "label": 4}}],
     ["/rules/0/series/method.bits", "/rules/0/series/method.sym", "/rules/0/series/label"]),
    ([{"metric": "delta", "max": 1, "series": {"method.rotation": "nothing", "method.damp_percent": None}}],
     ["/rules/0/series/method.rotation", "/rules/0/series/method.damp_percent"]),
    ([{"integrity": "dirty"}], ["/rules/0/integrity"]),
    ([{"integrity": "clean", "max": 1}], ["/rules/0"]),
    ([{"metric": "delta", "max": 1, "straddle": "maybe"}], ["/rules/0/straddle"]),
    ([{"metric": "delta", "maximum": 1}], ["/rules/0/maximum"]),
    ([{"metric": "delta", "changepoint": 2}], ["/rules/0/changepoint"]),
    ([{"metric": "delta", "changepoint": 101}], ["/rules/0/changepoint"]),
    ([{"metric": "delta", "changepoint": 3, "max": 1}], ["/rules/0"]),
    ([{"metric": "delta", "changepoint": 3, "against_last": 3}], ["/rules/0/against_last"]),
    ([{"metric": "delta", "max": 1, "from": 3}], ["/rules/0/from"]),
    ([{"integrity": "clean", "changepoint": 3}], ["/rules/0"]),
])
def test_bad_rules_are_pointed_at(service, course, rules, pointers):
    answer = service.post("/v1/gates", {"name": "bad", "trajectory": "gated", "rules": rules})
    assert answer.status == 422 and sorted(answer.pointers) == sorted(pointers), answer.body


def test_gates_are_listed_found_made_once_and_deleted(service, course, name):
    gate = make(service, name, {"metric": "delta", "max": 1})
    body = {"name": name, "trajectory": "gated", "rules": [{"metric": "delta", "max": 1}]}
    again = service.post("/v1/gates", body)
    assert again.status == 200 and again.json == gate
    other = service.post("/v1/gates", {**body, "rules": [{"metric": "delta", "max": 2}]})
    assert other.status == 409 and other.pointers == ["/name"]
    assert service.post("/v1/gates", {**body, "trajectory": "nowhere"}).pointers == ["/trajectory"]
    assert service.get(f"/v1/gates/{name}").json == gate == service.get(f"/v1/gates/{gate['id']}").json
    assert service.get("/v1/gates?limit=1").json["items"][0]["name"] == name
    assert service.get(f"/v1/gates/{name}/verdict").pointers == ["/checkpoint"]
    assert service.get(f"/v1/gates/{name}/verdict?checkpoint=nothing").status == 404
    service.checkpoint(models.write_llama(service.files / name, seed=3), name, "elsewhere", step=0)
    assert service.get(f"/v1/gates/{name}/verdict?checkpoint=elsewhere").pointers == ["/checkpoint"]
    assert service.request("DELETE", f"/v1/gates/{name}").status == 204
    assert service.get(f"/v1/gates/{name}").status == 404
    assert service.request("DELETE", f"/v1/gates/{name}").status == 404


def test_a_killed_server_tells_every_verdict_once(tmp_path):
    """Killed while it judges, again and again: each verdict is told, and told once."""
    service = Service(tmp_path, "--threads", "1")
    place = models.write_llama(service.files / "one", seed=4)
    for i in range(30):
        service.checkpoint(place, "killed", f"step{i}", step=i)
    service.sequences("killed-data", models.rows(2, 32))
    make(service, "killed", {"metric": "loss", "max": 100}, trajectory="killed")
    for i in range(4):
        body = {"kind": "evaluate", "force": True, "params": {
            "checkpoint": f"killed/step{i}", "dataset": "killed-data", "sequence_length": None}}
        assert service.post("/v1/runs", body).status == 202
    for _ in range(4):
        service.process.kill()
        service.process.wait()
        service.process.stdout.close()
        service.start()
    with Stream(service.port, "/v1/events?after=0&kind=verdict") as stream:
        told = stream.take(30)
    assert sorted(data["checkpoint_name"] for _, _, data in told) == sorted(f"step{i}" for i in range(30))
    for run in service.get("/v1/runs").json["items"]:
        assert service.wait(run["id"])["state"] == "succeeded"
    with Stream(service.port, "/v1/events?after=0&kind=verdict&kind=alert&follow=false") as stream:
        assert len(list(stream.events())) == 30
    assert service.stop() == 0


def test_what_cannot_be_judged_is_passed_over(tmp_path):
    """One checkpoint that no verdict can be kept of holds up no other one."""
    service = Service(tmp_path, "--threads", "1")
    try:
        for i in range(2):
            service.checkpoint(models.write_llama(service.files / str(i), seed=i), "t", f"step{i}", step=i)
        service.sequences("gates-data", models.rows(2, 32))
        bad = service.get("/v1/checkpoints/t%2Fstep0").json["id"]
        psql(service.data, f"""create function refuse() returns trigger language plpgsql as $$ begin
            if new.checkpoint = '{bad}' then raise 'not this one'; end if; return new; end $$;
            create trigger refuse before insert on gate_verdicts for each row execute function refuse();""")
        make(service, "g", {"metric": "delta", "max": 100}, trajectory="t")
        for i in range(2):
            quantize(service, f"t/step{i}", 4)
        kept = "select count(*) from gate_verdicts where checkpoint <> '{}'"
        until("the verdict of the other one", lambda: psql(service.data, kept.format(bad)).strip() == "1")
        assert f"passes over checkpoint {bad}, which it cannot judge" in service.log.read_text()
    finally:
        service.stop()
