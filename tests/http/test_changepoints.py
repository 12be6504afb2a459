"""GET /v1/trajectories/{trajectory}/changepoints: a change of a real run is found where its decay begins;
series are tested one by one."""

import math
import pathlib
import random

import models
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEP = 8 * 32  # tokens
BEGINS, TOTAL, EVERY = 60, 84, 4  # steps: the decay of the run, its end, its checkpoints
FROM = 12  # the warm-up is over


@pytest.fixture(scope="module")
def decayed(service):
    text = "\n".join(path.read_text() for path in sorted((ROOT / "docs").glob("*.md")))
    (service.files / "bend.txt").write_text(text)
    (service.files / "bend-held-out.txt").write_text((ROOT / "README.md").read_text())
    for name in ("bend", "bend-held-out"):
        service.post("/v1/datasets", {"name": name, "path": str(service.files / f"{name}.txt"), "format": "text"})
    model = {**models.LLAMA, "hidden_size": 16, "intermediate_size": 32, "tie_word_embeddings": True}
    run = service.run(
        "train", trajectory="bend", dataset="bend", validation="bend-held-out", model=model,
        tokenizer={"name": "bytes"},
        tokens=TOTAL * STEP, batch_sequences=8, sequence_length=32, checkpoint_every=EVERY * STEP, keep_state=False,
        schedule={"name": "wsd", "peak": 0.05, "warmup": 10 * STEP, "decay": (TOTAL - BEGINS) * STEP},
    )
    assert run["state"] == "succeeded", run["error"]


def changes(service, trajectory="bend", **query):
    text = "&".join(f"{name}={value}" for name, value in query.items())
    answer = service.get(f"/v1/trajectories/{trajectory}/changepoints?{text}")
    assert answer.status == 200, answer.body
    return answer.json


def test_the_decay_of_a_real_run_is_found(service, decayed):
    """Its learning rate is a metric without noise: the place is exact, and the slope that of the schedule."""
    told = changes(service, metric="learning_rate", x="step", **{"from": FROM})
    assert told["metric"] == "learning_rate" and told["x"] == "step"
    (series,) = told["series"]
    assert series["points"] == (TOTAL - FROM) // EVERY + 1
    assert series["p_value"] == series["adjusted_p_value"] <= 0.01
    change = series["change"]
    assert change["kind"] == "slope" and change["interval"][0] <= BEGINS <= change["interval"][1], change
    assert (change["interval"] == [change["after"]["x"], change["before"]["x"]]
            and change["after"]["checkpoint_name"].startswith("step"))
    assert change["before"]["x"] - change["after"]["x"] == EVERY
    assert abs(change["size"] + 0.05 / (TOTAL - BEGINS)) < 0.05 * 0.05 / (TOTAL - BEGINS)
    by_tokens = changes(service, metric="learning_rate", x="tokens", **{"from": FROM * STEP})["series"][0]
    assert (by_tokens["p_value"] == series["p_value"]
            and by_tokens["change"]["after"]["x"] == change["after"]["x"] * STEP)


def registered(service, trajectory, losses):
    """Checkpoints of a series that no model made: learning rates are a metric that is registered as it is."""
    path = models.write_llama(service.files / trajectory)
    for i, loss in enumerate(losses):
        service.checkpoint(path, trajectory, f"c{i}", step=100 * (i + 1), learning_rate=loss)


def test_series_are_tested_one_by_one_and_not_joined(service, decayed):
    """Half of the checkpoints measured on one dataset and half on another: two series, each with too few points."""
    items = sorted(service.get("/v1/checkpoints?trajectory=bend&limit=200").json["items"],
                   key=lambda item: item["step"])
    for name, rows in (("bend-a", models.rows(2, 16)), ("bend-b", models.rows(2, 16, seed=2))):
        service.sequences(name, rows)
    half = 8
    for seed in range(4):  # as many points as a test needs, but not places
        path = models.write_llama(service.files / f"bend-again{seed}", seed=50 + seed)
        again = service.checkpoint(path, "bend", f"again{seed}", step=items[0]["step"])
        run = service.run("evaluate", checkpoint=again["id"], dataset="bend-a", sequence_length=None)
        assert run["state"] == "succeeded", run["error"]
    for i, item in enumerate(items):
        run = service.run("evaluate", checkpoint=item["id"], dataset="bend-a" if i < half else "bend-b",
                          sequence_length=None)
        assert run["state"] == "succeeded", run["error"]
    series = {row["dataset"]: row for row in changes(service, metric="loss")["series"]}
    assert series["bend-a"]["points"] == half and series["bend-b"]["points"] == len(items) - half
    assert series["bend-a"]["p_value"] is series["bend-a"]["adjusted_p_value"] is series["bend-a"]["change"] is None
    assert series["bend-b"]["p_value"] == series["bend-b"]["adjusted_p_value"], "one series of the answer was tested"
    identity = ("trajectory", "label", "method_label", "dataset", "evaluated_on", "protocol_id", "calibration_id")
    curves = service.get("/v1/curves?trajectory=bend&metric=loss").json["series"]
    assert ({tuple(curve[field] for field in identity) for curve in curves}
            == {tuple(row[field] for field in identity) for row in series.values()})  # by which pages find them
    only = changes(service, metric="loss", dataset="bend-a")["series"]
    assert [row["dataset"] for row in only] == ["bend-a"]


def test_a_jump_has_its_size_and_a_smooth_line_no_change(service):
    noise = random.Random(1)
    smooth = [1e-3 * (2 - math.log(i + 1) / 3 + 0.02 * noise.gauss(0, 1)) for i in range(16)]
    registered(service, "smooth", smooth)
    registered(service, "jumps", [rate - (1e-3 if i > 8 else 0) for i, rate in enumerate(smooth)])
    (series,) = changes(service, "smooth", metric="learning_rate")["series"]
    assert series["p_value"] > 0.05 and series["change"] is None
    (series,) = changes(service, "jumps", metric="learning_rate")["series"]
    change = series["change"]
    assert change["kind"] == "level" and change["interval"] == [900, 1000] and abs(change["size"] + 1e-3) < 1e-4
    assert changes(service, "jumps", metric="learning_rate")["series"][0] == series, (
        "equal questions have equal answers")


def test_what_cannot_be_asked(service, decayed):
    assert service.get("/v1/trajectories/none/changepoints").status == 404
    assert service.get("/v1/trajectories/bend/changepoints?metric=nonsense").status == 422
    assert service.get("/v1/trajectories/bend/changepoints?x=learning_rate").status == 422
    assert service.get("/v1/trajectories/bend/changepoints?since=3").status == 422
    assert changes(service, metric="trace")["series"] == []
