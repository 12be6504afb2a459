"""The kind `plan`: forecasts from branches that are really trained, on a small real trajectory,
held against what the options then give."""

import pathlib

import models
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = {
    "model_type": "llama",
    "vocab_size": 256,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 32,
    "tie_word_embeddings": True,
}
STEP = 8 * 32  # tokens
TRUNK = 480 * STEP
LONG = 256 * STEP  # a decay that the budget does not reach
MEASURES = {
    "method": {"name": "gptq", "bits": 3, "group_size": 16},
    "calibration": {"dataset": "plan-text", "sequence_length": 32, "packing": "blocks", "max_sequences": 32},
    "evaluation": {"dataset": "plan-held-out", "sequence_length": 32, "max_sequences": 128},
}
NUMBERS = ("loss_fp", "loss_q", "delta")


def train(service, trajectory, tokens, schedule, **more):
    run = service.run(
        "train", trajectory=trajectory, dataset="plan-text", tokens=tokens, batch_sequences=8, sequence_length=32,
        schedule={"peak": 0.01, "warmup": 20 * STEP, **schedule}, **more,
    )
    assert run["state"] == "succeeded", run["error"]
    return run["result"]["checkpoints"]


def prepare(service):
    """A stable run of twelve checkpoints."""
    texts = [*sorted((ROOT / "sql").glob("000?_*.sql")), ROOT / "LICENSE"]  # none of them may change
    (service.files / "plan.txt").write_text("\n".join(path.read_text() for path in texts)[:-4200])
    (service.files / "plan-held-out.txt").write_text((ROOT / "LICENSE").read_text()[-4200:])
    for name, file in (("plan-text", "plan.txt"), ("plan-held-out", "plan-held-out.txt")):
        service.post("/v1/datasets", {"name": name, "path": str(service.files / file), "format": "text"})
    return train(service, "stable", TRUNK, {"name": "constant"}, model=MODEL, tokenizer={"name": "bytes"},
                 checkpoint_every=40 * STEP)


def asked(**more):
    options = [{"decay": LONG}, {"continue": LONG}, {"average": 4}, {"decay": 32 * STEP}]
    return {"trajectory": "stable", **MEASURES, "options": options, "budget": 280 * STEP, **more}


SHORT = {"options": [{"decay": 30 * STEP}, {"continue": 20 * STEP}], "budget": 50 * STEP}


@pytest.fixture(scope="module")
def stable(service):
    return prepare(service)


@pytest.fixture(scope="module")
def planned(service, stable):
    run = service.run("plan", **asked())
    assert run["state"] == "succeeded", run["error"]
    return run


def numbers_of(service, checkpoint):
    run = service.run("quantize", checkpoint=checkpoint, **MEASURES)
    assert run["state"] == "succeeded", run["error"]
    return {name: run["result"][name] for name in NUMBERS}


def decayed(service, stable, tokens):
    schedule = {"name": "wsd", "decay": tokens}
    return train(service, f"decayed-{tokens}", TRUNK + tokens, schedule, keep_state=False, **{"from": stable[-1]})[-1]


def held(option, numbers):
    return {name: option[f"{name}_interval"][0] <= numbers[name] <= option[f"{name}_interval"][1] for name in numbers}


def test_forecasts_hold_what_the_options_then_give(service, stable, planned):
    decay, go_on = planned["result"]["options"][:2]
    assert not decay["measured"] and not go_on["measured"] and decay["tokens"] == go_on["tokens"] == TRUNK + LONG
    found = numbers_of(service, decayed(service, stable, LONG))
    assert all(held(decay, found).values()), (decay, found)
    after = train(service, "gone-on", TRUNK + LONG, {"name": "constant"}, **{"from": stable[-1]})[-1]
    found = numbers_of(service, after)
    assert all(held(go_on, found).values()), (go_on, found)
    for option in (decay, go_on):  # and is no interval that holds everything
        low, high = option["loss_fp_interval"]
        assert 0 < high - low < 0.5 * option["loss_fp"], option


def test_branches_are_the_runs_that_anybody_could_post(service, stable, planned):
    """The same training, averaging and quantization as the kinds of these names do, to the last bit."""
    points = planned["result"]["points"]
    assert (points[0]["checkpoint"] == stable[-1]
            and {n: points[0][n] for n in NUMBERS} == numbers_of(service, stable[-1]))
    branch = next(point for point in points if point["decay"] is not None)
    found = numbers_of(service, decayed(service, stable, branch["decay"]))
    assert {name: branch[name] for name in NUMBERS} == found
    average = service.run("average", checkpoints=stable[-4:], into="stable-mean", name="four")["result"]["checkpoint"]
    option = planned["result"]["options"][2]
    assert option["measured"] and {name: option[name] for name in NUMBERS} == numbers_of(service, average)
    lengths = [point["continue"] for point in points if point["continue"] is not None]
    assert len(lengths) == 4 and planned["result"]["trained_tokens"] == lengths[-1] + sum(
        point["decay"] for point in points if point["decay"] is not None) <= 280 * STEP


def test_the_recommendation_is_that_of_the_numbers(planned):
    result = planned["result"]
    options = result["options"]
    lowest = min(range(len(options)), key=lambda i: options[i]["loss_q"])
    apart = all(option["behind_interval"][0] > 0 for i, option in enumerate(options) if i != lowest)
    assert result["recommended"] == (lowest if apart else None)
    assert apart or result["reason"].startswith("the options cannot be told apart"), result["reason"]
    assert options[lowest]["behind"] == 0 and all(option["behind"] >= 0 for option in options)


def test_a_short_decay_is_measured_and_recommended_over_none(service, stable):
    """A budget that reaches both: nothing is extrapolated.
    After a decay the loss is lower by far more than sequences vary."""
    result = service.run("plan", **asked(**SHORT))["result"]
    assert [option["measured"] for option in result["options"]] == [True, True]
    assert result["recommended"] == 0 and result["trained_tokens"] == 50 * STEP
    assert result["reason"].startswith(f"decaying over {30 * STEP} tokens has the lowest quantized loss")


def test_a_dry_run_prices_the_branches(service, stable):
    def rows():
        return [len(service.get(f"/v1/{what}").json["items"])
                for what in ("runs?kind=plan&limit=200", "trajectories?limit=200")]

    before = rows()
    told = service.post("/v1/runs", {"kind": "plan", "params": asked(**SHORT), "dry_run": True}).json
    assert told["fits"] and told["problem"] is None and told["flops"] > 0
    measured = 3 * (2 * 128 + 32) * 32  # three models: each twice through the evaluation, once through the calibration
    assert told["tokens"] == 50 * STEP + measured
    assert told["params"]["checkpoints"] == stable[-9:]
    assert rows() == before


def test_the_same_request_is_the_same_run_and_gives_the_same_bits(service, stable, planned):
    again = service.post("/v1/runs", {"kind": "plan", "params": asked()})
    assert again.status == 200 and again.json["id"] == planned["id"]
    forced = service.post("/v1/runs", {"kind": "plan", "params": asked(), "force": True})
    assert forced.status == 202
    assert service.wait(forced.json["id"])["result"] == planned["result"]


def refused(service, **more):
    answer = service.post("/v1/runs", {"kind": "plan", "params": asked(**more)})
    assert answer.status == 422, answer.body
    return answer.pointers, answer.json["detail"]


def test_what_cannot_be_planned_is_refused(service, stable):
    kept = train(service, "no-state", 40 * STEP, {"name": "constant"}, model=MODEL, tokenizer={"name": "bytes"},
                 keep_state=False)
    assert len(kept) == 1
    pointers, detail = refused(service, trajectory="no-state", options=[{"average": 1}])
    assert pointers == ["/params/trajectory"] and "no training state" in detail
    service.checkpoint(models.write_llama(service.files / "foreign"), "foreign", "step1", step=1)
    pointers, detail = refused(service, trajectory="foreign", options=[{"average": 1}])
    assert pointers == ["/params/trajectory"] and "not written by a train run" in detail
    schedule = {"name": "wsd", "decay": 40 * STEP}
    train(service, "falling", 80 * STEP, schedule, model=MODEL, tokenizer={"name": "bytes"}, checkpoint_every=40 * STEP)
    pointers, detail = refused(service, trajectory="falling")
    assert pointers == ["/params/trajectory"] and "not constant" in detail
    pointers, detail = refused(service, budget=None)
    assert pointers == ["/params/budget"] and "is missing" in detail
    pointers, detail = refused(service, budget=STEP)
    assert pointers == ["/params/budget"] and "too small" in detail
    assert refused(service, options=[{"decay": 5, "average": 2}])[0] == ["/params/options/0"]
    assert refused(service, options=[{"average": 13}])[0] == ["/params/options/0"]
    assert refused(service, options=[])[0] == ["/params/options"]
    assert refused(service, checkpoints=stable[:2][::-1])[0] == ["/params/checkpoints"]


def test_a_cancelled_plan_leaves_nothing(service, stable, planned):
    with service.gate.holding("plan", 1, "token"):
        run = service.post("/v1/runs", {"kind": "plan", "params": asked(seed=1)}).json["id"]
        service.held(run)
        assert service.post(f"/v1/runs/{run}/cancel").status == 202
        assert service.wait(run)["state"] == "cancelled"


def test_a_step_that_is_not_that_of_the_training_state_is_refused(service, stable):
    """Branches go on from the state: a decay would begin at another step than its forecast says."""
    assert service.request("PATCH", f"/v1/checkpoints/{stable[-1]}", {"step": 475}).status == 200
    pointers, detail = refused(service, seed=2)
    assert service.request("PATCH", f"/v1/checkpoints/{stable[-1]}", {"step": 480}).status == 200
    assert pointers == ["/params/trajectory"] and "has step 475, but its training state is of step 480" in detail
