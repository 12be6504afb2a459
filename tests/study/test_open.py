"""The plan `open`: its endpoints on made-up studies in which the truth is known, its cells, and the whole of it at its
smallest scale through a server."""

import collections
import csv
import json
import math
import pathlib
import random
import re
import sys
import xml.etree.ElementTree

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "demo")]

import cells  # noqa: E402
import corpus  # noqa: E402
import findings  # noqa: E402
import made_up_open  # noqa: E402
import open_cells  # noqa: E402
import open_unit  # noqa: E402
import plans  # noqa: E402
import published  # noqa: E402
import report  # noqa: E402
import student  # noqa: E402
import test_study  # noqa: E402

PLAN = plans.PLANS["open"]
OF_CAUSE = ("trunk", "cycles")


def judge(world, number=0, **more):
    rows = made_up_open.rows(random.Random(number), world, **more)
    return {finding["id"]: finding for finding in findings.judge(rows, PLAN.cells, PLAN.endpoints)}


def verdicts(found, names):
    return {found[name]["verdict"] for name in names}


# --- the truth of made-up studies -------------------------------------------------------------------------------------
RATES = [f"cause-{group}-rate{given}" for group in ("sgdr", "oscillating") for given in ("", "-loss")]


def test_where_the_decay_is_the_cause_the_rate_is_found_and_no_growth_at_a_constant_rate():
    found = judge(made_up_open.DECAY, parts=OF_CAUSE)
    assert verdicts(found, ["cause-early", "cause-early-loss", *RATES]) == {findings.HELD}
    assert verdicts(found, ["cause-level", "cause-sgdr-end", "cause-oscillating-end"]) == {findings.NOT_DECIDED}
    for name in RATES:
        assert found[name]["effect"] == pytest.approx(-0.02, abs=0.002), name


def test_where_convergence_is_the_cause_growth_at_a_constant_rate_is_found_and_no_effect_of_the_rate():
    found = judge(made_up_open.CONVERGENCE, parts=OF_CAUSE)
    assert found["cause-level"]["verdict"] == findings.HELD
    assert found["cause-level"]["effect"] == pytest.approx(0.02, abs=0.002)
    assert verdicts(found, ["cause-early", "cause-early-loss", *RATES]) == {findings.NOT_DECIDED}


def test_what_the_loss_alone_explains_is_not_taken_for_an_effect_of_the_rate():
    found = judge({**made_up_open.NOTHING, "loss": 0.2}, parts=OF_CAUSE)
    assert verdicts(found, ["cause-sgdr-rate", "cause-oscillating-rate"]) == {findings.HELD}
    assert verdicts(found, ["cause-sgdr-rate-loss", "cause-oscillating-rate-loss"]) == {findings.NOT_DECIDED}


def test_without_any_effect_one_is_found_in_at_most_the_stated_share_of_studies():
    studies, wrong = 40, 0
    for number in range(studies):
        found = judge(made_up_open.NOTHING, number, seeds=3, parts=OF_CAUSE)
        wrong += any(
            finding["verdict"] in test_study.DECIDED for finding in found.values() if finding.get("family") == "cause"
        )
    assert wrong / studies <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / studies)


def test_planted_sharpness_averages_and_markers_are_found_and_others_are_not():
    world = {
        **made_up_open.DECAY,
        "sharp": 0.01,
        "window": {"lawa-20": -0.02, "wsm-1-sqrt": -0.02, "lawa-2": 0.05},
        "marker": 1.0,
    }
    found = judge(world, parts=("trunk", "optimizers", "windows"))
    planted = ["sam-delta", "asam-delta", "muon-delta", "soap-delta", "windows-lawa-20", "windows-wsm-1-sqrt"]
    assert verdicts(found, planted) == {findings.HELD}
    assert found["sam-delta"]["effect"] == pytest.approx(-0.01, abs=0.002)
    assert found["windows-lawa-2"]["verdict"] == findings.OPPOSITE
    assert found["windows-lawa-5"]["verdict"] == findings.NOT_DECIDED
    for name in ("marker-trace", "marker-critical-sharpness", "marker-preconditioned-sharpness"):
        assert found[name]["verdict"] == findings.HELD and found[name]["effect"] > 0.8
    for name in ("marker-line-curvature-trace", "marker-critical-sharpness-trace"):  # both are made of one number
        assert found[name]["effect"] == pytest.approx(0, abs=1e-9)


def test_what_another_model_adds_to_the_effect_of_a_decay_is_found():
    found = judge({**made_up_open.DECAY, "others": {"mixture": 0.01, "states": -0.03}}, parts=("trunk", "others"))
    assert verdicts(found, ["mixture-decay", "wide-decay", "learned-decay"]) == {findings.HELD}
    assert found["states-decay"]["verdict"] == findings.OPPOSITE
    for name, wanted in (("mixture", 0.01), ("states", -0.03), ("wide", 0.0)):
        assert found[f"{name}-added"]["effect"] == pytest.approx(wanted, abs=0.002), name
    alone = judge(made_up_open.DECAY, parts=("others",))
    assert alone["wide-decay"]["verdict"] == findings.HELD and alone["wide-added"]["seeds"] == 0


def test_a_small_change_is_told_from_none_that_was_seen():
    still = judge(made_up_open.NOTHING, parts=("others",))
    assert verdicts(still, ["learned-level-loss", "learned-level-still"]) == {findings.HELD}
    moved = judge(made_up_open.CONVERGENCE, parts=("others",))
    assert moved["learned-level"]["verdict"] == findings.HELD
    assert moved["learned-level-still"]["verdict"] == findings.REFUTED
    assert findings.verdict_within(-0.02, 0.04, 0.03) == findings.NOT_DECIDED
    assert findings.verdict_within(None, None, 0.03) == findings.NOT_DECIDED  # a single seed
    assert findings.verdict_within(-0.05, -0.031, 0.03) == findings.REFUTED


def test_cycles_are_compared_with_a_cosine_of_the_same_seed():
    found = judge(made_up_open.DECAY, parts=OF_CAUSE)
    assert verdicts(found, ["cosine-sgdr", "cosine-oscillating"]) == {findings.NOT_DECIDED}
    rows = made_up_open.rows(random.Random(0), made_up_open.DECAY, parts=OF_CAUSE)
    for row in rows:
        if (row["cell"], row["metric"]) == ("cosine", "delta"):
            row["value"] += 0.01
    found = {finding["id"]: finding for finding in findings.judge(rows, PLAN.cells, PLAN.endpoints)}
    for name in ("cosine-sgdr", "cosine-oscillating"):
        assert found[name]["effect"] == pytest.approx(-0.01, abs=0.002), name
    assert found["cosine-decay"]["effect"] == pytest.approx(0.01, abs=0.002)


def test_where_the_second_order_is_short_is_told_by_bits():
    found = judge({**made_up_open.NOTHING, "second": {8: 0.0, 4: 0.0, 3: 0.7, 2: 1.0}}, parts=("layers",))
    assert verdicts(found, ["curvature-short-3", "curvature-short-2", "curvature-layers-2"]) == {findings.HELD}
    assert found["curvature-short-4"]["verdict"] == findings.COMPATIBLE
    assert found["curvature-short-3"]["effect"] == pytest.approx(0.7, abs=0.05)
    assert found["curvature-fit-4-decay"]["effect"] > 0.95 > 0.5 > found["curvature-fit-2-decay"]["effect"]
    nothing = judge(made_up_open.NOTHING, parts=("layers",))
    assert nothing["curvature-layers-4"]["verdict"] == findings.NOT_DECIDED
    assert nothing["curvature-fit-4-decay"]["effect"] < 0.2


def test_equal_loss_is_never_beyond_what_was_measured():
    rows = made_up_open.rows(random.Random(0), made_up_open.NOTHING, 3, ("trunk", "optimizers"))
    for row in rows:
        if row["cell"] == "sam" and row["metric"] == "loss_fp":
            row["value"] += 5
    found = {finding["id"]: finding for finding in findings.judge(rows, PLAN.cells, PLAN.endpoints)}
    assert found["sam-delta"]["seeds"] == 0 and found["asam-delta"]["seeds"] == 3


def test_a_seed_without_a_logarithm_leaves_its_endpoint_without_an_effect():
    """Not the others, as if it had not been measured: seeds would be chosen by their effect."""
    rows = made_up_open.rows(random.Random(0), {**made_up_open.NOTHING, "second": {3: 0.7}}, 4, ("layers",))
    first = next(row for row in rows if row["metric"] == "measured_delta" and row["method"] == "rtn-3"
                 and row["group"] == "decay")
    first["value"] = -first["value"]
    found = {finding["id"]: finding for finding in findings.judge(rows, PLAN.cells, PLAN.endpoints)}
    assert found["curvature-short-3"]["verdict"] == findings.NOT_MEASURED
    assert found["curvature-short-2"]["seeds"] == 4


def test_a_marker_that_was_added_later_is_judged_by_the_seeds_that_have_it():
    rows = made_up_open.rows(random.Random(0), {**made_up_open.DECAY, "marker": 1.0}, 6, ("trunk",))
    later = [row for row in rows if row["metric"] != "critical_sharpness" or row["seed"] >= open_cells.FIRST + 3]
    whole, part = (
        {finding["id"]: finding for finding in findings.judge(some, PLAN.cells, PLAN.endpoints)}
        for some in (rows, later)
    )
    for name in ("marker-critical-sharpness", "marker-critical-sharpness-trace"):
        assert sorted(part[name]["by_seed"]) == [open_cells.FIRST + more for more in (3, 4, 5)]
        assert all(part[name]["by_seed"][seed] == whole[name]["by_seed"][seed] for seed in part[name]["by_seed"])
    assert part["marker-trace"]["by_seed"] == whole["marker-trace"]["by_seed"]


def test_what_is_published_is_adopted_whole_and_judged_again_alike(tmp_path):
    source = published.PUBLISHED.parent / "study-open"
    kept = json.loads((source / "units.json").read_text())
    fit = published.adopt(source, tmp_path, PLAN.cells, kept["engine_revision"])
    assert sorted(fit) == sorted(kept["units"])
    rows = [row for file in sorted((tmp_path / "units").iterdir()) for row in json.loads(file.read_text())]
    rows = [{"id": f"m{number}", **row} for number, row in enumerate(rows, 1)]
    found = {finding["id"]: finding for finding in findings.judge(rows, PLAN.cells, PLAN.endpoints)}
    told = json.loads((source / "findings.json").read_text())["findings"]
    for finding in told:
        now = found[finding["id"]]
        assert (now["number"], now["verdict"], now["seeds"]) == tuple(finding[name] for name in
                                                                      ("number", "verdict", "seeds"))
        if finding["p_holm"] is not None:
            assert now["p_holm"] == pytest.approx(finding["p_holm"], rel=1e-9)
    later = set(found) - {finding["id"] for finding in told}
    assert verdicts(found, later) <= {findings.NOT_MEASURED}


# --- pieces -----------------------------------------------------------------------------------------------------------
def test_a_coefficient_is_that_of_its_predictor_with_the_others_held():
    source = random.Random(1)
    points = []
    for _ in range(12):
        x, z = source.gauss(0, 1), source.gauss(0, 1)
        points.append([2 + 3 * x - 5e4 * z, x, z])
    assert student.coefficient(points) == pytest.approx(3, rel=1e-6)
    assert student.coefficient([[y, x, 2 * x + 1] for y, x, _ in points]) is None
    assert student.coefficient([[y, 1.0, z] for y, _, z in points]) is None


@pytest.mark.parametrize("shape", open_unit.SHAPES)
def test_a_merge_weighs_every_step_by_what_its_shape_leaves_of_the_rate(shape):
    count, weights = 10, open_unit.merge_weights(shape, 10)
    assert sum(weights) == pytest.approx(1) and min(weights) > 0
    if shape == "linear":
        assert weights == pytest.approx([1 / count] * count)
    for place in range(1, count):  # the step that led to this checkpoint
        assert sum(weights[place:]) == pytest.approx(open_unit.SHAPES[shape](place / count))


# --- endpoints and plan -----------------------------------------------------------------------------------------------
def groups_of(cell):
    if cell.does == "cycles":
        return {open_unit.group_of(name) for name, _ in cell.options}
    if cell.does == "windows":
        windows, shapes = cell.options
        return {f"lawa-{count}" for count in windows} | {f"wsm-{shape}" for shape in shapes}
    return {"trunk": {"constant", "decay", "lawa"}, "optimizer": {"decay"}, "layers": {"constant", "decay"}}[cell.does]


def test_every_endpoint_can_be_computed_from_what_its_cells_measure():
    document, entries = findings.endpoints(PLAN.endpoints)
    assert len({entry["id"] for entry in entries}) == len(entries)
    for entry in entries:
        assert entry["compare"] in findings.COMPARISONS and entry.get("family", "cause") in document["families"]
        for side, where in (("upper", entry["cell"]), ("lower", entry.get("lower_cell", entry["cell"]))):
            assert side not in entry or entry[side] in groups_of(PLAN.cells[where]), entry["id"]
        if entry["compare"] == "added":  # at one token count, which is the same place in both cells
            counts = [cells.ends(PLAN.cells[entry[side]].scale)[entry["branch"] - 1] for side in ("cell", "lower_cell")]
            assert counts[0] == counts[1], entry["id"]
        assert entry.get("branch", 1) <= len(PLAN.cells[entry["cell"]].scale.branches)
    measured = {finding["id"] for finding in judge(made_up_open.DECAY, seeds=3).values() if finding["seeds"]}
    # Made-up rows are of one text.
    assert {entry["id"] for entry in entries} - measured == {"cause-early-other"}


def test_the_plan_has_every_seed_once_and_none_of_the_other_plan():
    plan = cells.plan(PLAN.order)
    wanted = {(cell.name, seed) for cell in PLAN.cells.values() for seed in [*cell.seeds, *cell.more]}
    assert set(plan) == wanted and len(plan) == len(wanted)
    for place, one in enumerate(plan):
        base = PLAN.cells[one.cell].base
        assert base is None or (base, one.seed) in plan[:place], one
    assert not {seed for _, seed in plan} & {seed for _, seed in cells.plan(cells.ORDER)}


def test_cells_that_share_a_constant_run_branch_off_it_and_end_where_they_are_compared():
    base = PLAN.cells["cause"].scale
    trunk = range(cells.step(base) * base.every, cells.ends(base)[-1] + 1, cells.step(base) * base.every)
    for cell in PLAN.cells.values():
        assert set(cells.branch_tokens(cell.scale)) <= set(trunk), cell.name
        if cell.does in ("windows", "layers", "optimizer"):
            assert set(cells.ends(cell.scale)) <= set(cells.ends(base)), cell.name
    assert max(PLAN.cells["windows"].options[0]) <= len(trunk)


def test_plans_share_nothing_but_the_tool():
    digests = [cells.digest(cell) for plan in plans.PLANS.values() for cell in plan.cells.values()]
    assert len(set(digests)) == len(digests)


def test_a_plan_is_named_by_the_environment(monkeypatch):
    monkeypatch.delenv("STUDY_PLAN", raising=False)
    assert plans.of_environment().name == "paper"
    monkeypatch.setenv("STUDY_PLAN", "open")
    assert plans.of_environment() is PLAN
    monkeypatch.setenv("STUDY_PLAN", "other")
    with pytest.raises(plans.Trouble, match="paper, open"):
        plans.of_environment()


def test_the_text_of_another_study_is_shared(tmp_path):
    (tmp_path / "one").mkdir()
    for name in corpus.FILES:
        (tmp_path / "one" / name).write_text(name)
    corpus.share(tmp_path / "one", tmp_path / "two")
    corpus.share(tmp_path / "none", tmp_path / "three")
    assert sorted(file.name for file in (tmp_path / "two").iterdir()) == sorted(corpus.FILES)
    assert not list((tmp_path / "three").iterdir())


# --- report and figures -----------------------------------------------------------------------------------------------
def test_a_report_says_of_its_rows_what_they_say(tmp_path):
    rows = made_up_open.rows(random.Random(4), {**made_up_open.DECAY, "second": {8: 0, 4: 0, 3: 0.7, 2: 1}}, 4)
    facts = {"words": {"command": "none"}, "budget": "1h", "left_out": []}
    found = {finding["id"]: finding for finding in report.write(tmp_path, facts, PLAN, rows, PLAN.cells)}
    text = re.sub(r"\n +", " ", (tmp_path / "REPORT.md").read_text())
    lines = {
        name: next(line for line in text.splitlines() if line.endswith(f"[{found[name]['number']}]."))
        for name in ("cause-sgdr-rate", "curvature-short-3", "curvature-fit-4-decay")
    }
    rate = found["cause-sgdr-rate"]
    assert f"{100 * rate['effect']:+.2f} points from rate zero to the peak" in lines["cause-sgdr-rate"]
    assert "this held; " in lines["cause-sgdr-rate"] and "(the decay)" in lines["cause-sgdr-rate"]
    assert "(logarithm of the ratio)" in lines["curvature-short-3"] and "(R²)" in lines["curvature-fit-4-decay"]
    assert "tests/study/open.toml" in text and "that the paper reports" not in text
    level, premise = found["cause-level"], found["cause-level-loss"]
    line = next(line for line in text.splitlines() if f"[{level['number']}]." in line)
    assert line.endswith(f"{report.SAYS[premise['verdict']]} [{premise['number']}].") and "It presumes that" in line
    assert text.count("It presumes that") == 2
    kept = {row["id"]: row for row in csv.DictReader((tmp_path / "measurements.csv").open())}
    assert {kept[name]["metric"] for name in rate["rows"]} == {"delta", "rate"}
    drawn = sorted(tmp_path.glob("*.svg"))
    assert [file.name for file in drawn] == [
        "cause-losses.svg",
        "cause-sharpness.svg",
        "cause-training.svg",
        "cosine.svg",
        "cycles-oscillating.svg",
        "cycles-sgdr.svg",
        "layers-constant.svg",
        "layers-decay.svg",
        "level-training.svg",
        "mixture-training.svg",
        "states-training.svg",
        "wide-training.svg",
        "windows.svg",
    ]
    for file in drawn:
        xml.etree.ElementTree.parse(file)
        assert "nan" not in file.read_text() and f"]({file.name})" in text


def test_a_cell_is_drawn_beside_its_base_of_the_same_seeds():
    """A mean over other seeds would show the difference of seeds as one of schedules or averages."""
    rows = made_up_open.rows(random.Random(4), made_up_open.DECAY, 4)
    few = [row for row in rows if row["cell"] == "cause" or row["seed"] < open_cells.FIRST + 3]
    same = [row for row in rows if row["seed"] < open_cells.FIRST + 3]
    drawn, wanted = (PLAN.draw(some, PLAN.cells) for some in (few, same))
    for name in ("cosine.svg", "cycles-sgdr.svg", "cycles-oscillating.svg", "windows.svg"):
        assert drawn[name] == wanted[name] and "3 seeds" in drawn[name], name
    assert drawn["cause-training.svg"] != wanted["cause-training.svg"]
    assert "GPTQ at 3 and 4 bits" in drawn["windows.svg"]


def test_a_figure_says_how_many_points_it_has_no_place_for():
    rows = made_up_open.rows(random.Random(4), made_up_open.NOTHING, 3, ("layers",))
    assert "left out" not in PLAN.draw(rows, PLAN.cells)["layers-decay.svg"]
    name = next(row["metric"] for row in rows if row["metric"].startswith("measured."))
    for row in rows:
        if (row["metric"], row["method"], row["group"]) == (name, "rtn-4", "decay"):
            row["value"] = -1.0
    assert "not above zero: 1." in PLAN.draw(rows, PLAN.cells)["layers-decay.svg"]


# --- the whole, at its smallest scale ---------------------------------------------------------------------------------
def parameters_stored(data):
    """{(model_type, width): {numbers of parameters}} of all checkpoints."""
    found = collections.defaultdict(set)
    for file in data.rglob("model.safetensors"):
        content = file.read_bytes()
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        config = json.loads((file.parent / "config.json").read_text())
        shapes = [entry["shape"] for name, entry in header.items() if name != "__metadata__"]
        found[config["model_type"], config["hidden_size"]].add(sum(map(math.prod, shapes)))
    return found


@pytest.mark.skipif(not test_study.BINARY.exists(), reason="build/deltaq is not built")
def test_the_smallest_study_measures_what_every_cell_is_for(tmp_path):
    _, rows = test_study.finished(test_study.study(tmp_path, STUDY_PLAN="open"))
    groups = {name: {row["group"] for row in rows if row["cell"] == name} for name in open_cells.TINY_CELLS}
    for cell in open_cells.TINY_CELLS.values():
        assert groups[cell.name] == groups_of(cell), cell.name
    counted = parameters_stored(tmp_path / "data")
    for cell in open_cells.TINY_CELLS.values():
        kind = {"mixture": "olmoe", "states": "mamba"}.get(cell.name, "llama")
        assert counted[kind, cell.scale.hidden] == {cells.size(cell)}, cell.name
    found = json.loads((tmp_path / "findings.json").read_text())["findings"]
    # Its models know nothing yet: what needs a common loss or a positive prediction may be missing.
    done = {finding["compare"] for finding in found if finding["seeds"]}
    assert {finding["compare"] for finding in found} - done <= {"at_loss", "log_ratio"}
    # What curvature predicts of a linear is what was measured of it, as far as its rounding is small.
    layers = {(row["group"], row["metric"]): float(row["value"]) for row in rows if row["method"] == "rtn-4"}
    pairs = [
        (value, layers[group, metric.replace("predicted.", "measured.")])
        for (group, metric), value in layers.items()
        if metric.startswith("predicted.")
    ]
    assert len(pairs) == 14 and student.pearson(*zip(*pairs)) > 0.95
    ended, critical, preconditioned = (
        [row for row in rows if row["cell"] == "cause" and row["metric"] == metric]
        for metric in ("lambda_max", "critical_sharpness", "preconditioned_sharpness")
    )
    places = [{(row["group"], row["tokens"]) for row in found} for found in (ended, critical, preconditioned)]
    assert places[0] == places[1] == places[2] and len(places[0]) == 6
    assert all(float(row["value"]) > 0 for row in critical + preconditioned)
    shares = {float(row["value"]) for row in rows if row["metric"] == "rate" and row["group"] == "sgdr"}
    assert max(shares) > 0.7 > 0.3 > min(shares)
