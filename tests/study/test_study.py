"""The study's statistics on made-up studies with effects and without, its plan and its report, and the whole of it at
its smallest scale: interrupted, killed, and asked again."""

import csv
import json
import math
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
import types
import xml.etree.ElementTree

import pytest
from gate import Gate
from ports import free_port

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "demo")]

import cells  # noqa: E402
import findings  # noqa: E402
import launch  # noqa: E402
import made_up  # noqa: E402
import pdf  # noqa: E402
import plans  # noqa: E402
import published  # noqa: E402
import report  # noqa: E402
import student  # noqa: E402
import study as program  # noqa: E402
import svg  # noqa: E402
import unit  # noqa: E402

BINARY = pathlib.Path(os.environ.get("DELTAQ_BINARY", HERE.parents[1] / "build" / "deltaq"))
DECIDED = (findings.HELD, findings.OPPOSITE, findings.REFUTED)


# --- statistics -------------------------------------------------------------------------------------------------------
# Of the tables in any textbook.
@pytest.mark.parametrize("freedom, point", [(1, 12.706), (2, 4.303), (9, 2.262), (30, 2.042)])
def test_students_t_has_its_points(freedom, point):
    assert student.quantile(freedom) == pytest.approx(point, abs=5e-4)
    assert student.two_sided(point, freedom) == pytest.approx(0.05, abs=1e-4)


def test_the_interval_of_three_values_is_students():
    centre, low, high, p = student.test([0.010, 0.012, 0.014])
    half = 4.30265 * 0.002 / 3**0.5
    assert (centre, low, high) == pytest.approx((0.012, 0.012 - half, 0.012 + half), rel=1e-5)
    t = 0.012 / (0.002 / 3**0.5)
    assert p == pytest.approx(1 - t / (t * t + 2) ** 0.5, rel=1e-9)  # closed form of two degrees of freedom
    assert student.test([0.3])[1:] == (None, None, None)


def test_holm_counts_what_was_not_measured():
    assert student.holm({"a": 0.01, "b": 0.04, "c": 0.03}, 3) == pytest.approx({"a": 0.03, "c": 0.06, "b": 0.06})
    assert student.holm({"a": 0.01}, 10) == pytest.approx({"a": 0.1})


def small(found):
    return [finding for finding in found if finding.get("family") == "small"]


def test_planted_effects_are_found_with_their_sizes():
    decided, effects = {}, {}
    for number in range(50):
        for finding in small(findings.judge(made_up.rows(random.Random(number), made_up.PLANTED))):
            decided[finding["id"]] = decided.get(finding["id"], 0) + (
                finding["verdict"] in (findings.HELD, findings.REFUTED)
            )
            effects.setdefault(finding["id"], []).append(finding["effect"])
    assert len(decided) == 12 and min(decided.values()) >= 45, decided
    for name, planted in (
        ("C-decay-3", 0.0233),
        ("C-lawa-delta", -0.025),
        ("C-soup-delta", -0.008),
        ("C-peak", -0.015),
    ):
        assert student.mean(effects[name]) == pytest.approx(planted, abs=0.001), name


def test_studies_without_effects_find_one_in_at_most_the_stated_share():
    studies, wrong, uncorrected = 200, 0, 0
    for number in range(studies):
        found = small(findings.judge(made_up.rows(random.Random(number), made_up.NOTHING)))
        wrong += any(finding["verdict"] in DECIDED for finding in found)
        uncorrected += any(finding["p"] < 0.05 for finding in found)
    alpha = 0.05
    assert wrong / studies <= alpha + 3 * math.sqrt(alpha * (1 - alpha) / studies)
    assert uncorrected / studies > 0.2  # what the correction is for


def test_an_effect_against_the_paper_is_said_so_and_one_seed_decides_nothing():
    turned = {**made_up.PLANTED, "decay": (-0.0052, -0.0123, -0.0233)}
    found = {finding["id"]: finding for finding in findings.judge(made_up.rows(random.Random(1), turned))}
    assert found["C-decay-3"]["verdict"] == findings.OPPOSITE
    assert found["A-decay-1"]["verdict"] == findings.NOT_MEASURED
    one = {
        finding["id"]: finding for finding in findings.judge(made_up.rows(random.Random(1), made_up.PLANTED, seeds=1))
    }
    assert (
        one["C-decay-3"]["effect"] > 0.01
        and one["C-decay-3"]["verdict"] == findings.NOT_DECIDED
        and one["C-decay-3"]["low"] is None
    )


def test_peaks_are_compared_at_equal_loss_and_never_beyond_what_was_measured():
    rows = made_up.rows(random.Random(2), made_up.PLANTED)
    for row in rows:
        if row["cell"] == "C-peak" and row["metric"] == "loss_fp":
            row["value"] += 5
    found = {finding["id"]: finding for finding in findings.judge(rows)}
    assert found["C-peak"]["seeds"] == 0 and found["C-peak"]["verdict"] == findings.NOT_MEASURED


def test_calibration_evaluation_and_seed_noise_are_told_apart():
    source, rows = random.Random(3), []

    def add(seed, value, **more):
        rows.append(
            {
                "id": f"m{len(rows)}",
                "cell": "C",
                "seed": seed,
                "group": "constant",
                "peak": 4e-3,
                "weight_decay": 0.1,
                "tokens": 1,
                "end": True,
                "method": "gptq-3",
                "text": "validation",
                "metric": "delta",
                "value": value,
                "draw": None,
                "low": None,
                "high": None,
                **more,
            }
        )

    for seed in range(40):
        own = source.gauss(0.05, 0.004)
        for draw in range(1, 5):
            add(seed, own + source.gauss(0, 0.001), draw=draw)
        add(seed, own, low=own - 0.5, high=own + 0.5, metric="delta_mean")  # which holds the spread of the draws
        add(seed, own, low=own - 1.96 * 0.002, high=own + 1.96 * 0.002, end=False)
    noisy = findings.noise(rows)
    found = {row["source"]: row["deviation"] for row in noisy}
    counts = {row["source"]: row["count"] for row in noisy}
    assert counts == {"calibration sample": 40, "evaluation text": 40, "seed": 40}
    assert found["calibration sample"] == pytest.approx(0.001, rel=0.15) and found["evaluation text"] == pytest.approx(
        0.002
    )
    assert found["seed"] == pytest.approx(0.004, rel=0.3)


# --- endpoints and plan -----------------------------------------------------------------------------------------------
def test_every_endpoint_can_be_computed_from_what_its_cell_measures():
    document, entries = findings.endpoints()
    assert len({entry["id"] for entry in entries}) == len(entries)
    for entry in entries:
        cell = cells.CELLS[entry["cell"]]
        assert entry["compare"] in findings.COMPARISONS and entry.get("family", "small") in document["families"]
        groups = {"constant", "decay", "lawa"} | ({"soup"} if cell.soups else set())
        assert {entry.get("upper", "decay"), entry.get("lower", "decay")} <= groups, entry["id"]
        if isinstance(entry.get("branch"), int):
            assert entry["branch"] <= len(cell.scale.branches)


def test_the_plan_has_every_seed_once_and_the_base_of_a_comparison_first():
    plan = cells.plan(cells.ORDER)
    wanted = {(cell.name, seed) for cell in cells.CELLS.values() for seed in [*cell.seeds, *cell.more]}
    assert set(plan) == wanted and len(plan) == len(wanted)
    for place, one in enumerate(plan):
        base = cells.CELLS[one.cell].base
        assert base is None or (base, one.seed) in plan[:place], one


def test_small_models_are_trained_for_at_least_the_tokens_a_parameter_that_the_effect_needs():
    for cell in cells.CELLS.values():
        assert cells.ends(cell.scale)[-1] / cells.parameters(cell.scale) > 20, cell.name


@pytest.mark.parametrize("names, found", [("C-decay-s0", ["C-decay-s0"]), ("C-s1,C-peak", ["C-s1", "C-peak-s0"]),
                                          ("C", ["C-s0", "C-s1"])])
def test_cells_and_single_units_can_be_chosen(names, found):
    units = cells.plan(cells.TINY_ORDER)
    assert [cells.label(unit) for unit in cells.chosen(units, names.split(","))] == found


@pytest.mark.parametrize("name", ["C-s9", "c", "", "C-s"])
def test_what_is_neither_cell_nor_unit_is_refused(name):
    with pytest.raises(launch.Trouble, match="cells are C, C-peak, C-decay, a unit is C-s0"):
        cells.chosen(cells.plan(cells.TINY_ORDER), ["C", name])


class Trunk:
    """Stands in for the server: the constant run stores one more checkpoint at each look, `last` of them in all."""

    def __init__(self, scale, last):
        self.every, self.last, self.stored, self.asked = scale.every * cells.step(scale), last, 0, []

    def post(self, kind, params):
        self.asked.append((kind, self.stored, params))
        return str(len(self.asked))

    def checkpoints(self, trajectory):
        return {number * self.every: f"checkpoint {number}" for number in range(1, self.stored + 1)}

    def finish(self, stage, runs, meanwhile=None):
        while self.stored < self.last:
            self.stored += 1
            if meanwhile is not None:
                meanwhile()

    def of(self, kind, name):
        return [(stored, params[name]) for asked, stored, params in self.asked if asked == kind and name in params]


def decays_of(last):
    cell = cells.TINY_CELLS["C"]
    trunk = Trunk(cell.scale, last)
    _, runs = unit.UnitOfStudy(trunk, cell, 0).decays()
    return cell.scale, trunk, runs


def test_a_decay_begins_as_soon_as_the_checkpoint_that_it_begins_with_is_stored():
    scale, trunk, runs = decays_of(10)
    assert trunk.of("train", "from") == [
        (branch, f"checkpoint {branch}") for branch in (*scale.branches, scale.branches[-1])  # two parts of a soup
    ]
    assert len({run.id for run in runs.values()}) == len(scale.branches) + 1


def test_a_constant_run_is_measured_while_it_goes_on_and_once():
    scale, trunk, _ = decays_of(10)
    ends = [branch + branch // scale.share for branch in scale.branches]
    along = [number for number in range(1, 11) if number % scale.curve == 0 and number not in ends]
    sharp = trunk.of("sharpness", "checkpoint")
    assert sharp == [(number, f"checkpoint {number}") for number in sorted({*ends, *along, *scale.branches})]
    quantized = trunk.of("quantize", "checkpoint")
    assert {stored for stored, _ in quantized} == {stored for stored, _ in sharp}
    assert len(quantized) == len(ends) * (len(unit.METHODS) + 1) + len(sharp) - len(ends)


def test_a_constant_run_without_a_checkpoint_that_a_decay_needs_ends_the_study():
    with pytest.raises(launch.Trouble, match="have not stored"):
        decays_of(cells.TINY_CELLS["C"].scale.branches[-1] - 1)


@pytest.mark.parametrize("text, seconds", [("20m", 1200), ("1h", 3600), ("1.5h", 5400), ("90s", 90)])
def test_budgets_are_times(text, seconds):
    assert cells.seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "1", "h", "-1h", "0m", "1d"])
def test_other_budgets_are_refused(text):
    with pytest.raises(program.Trouble, match="STUDY_BUDGET"):
        cells.seconds_of(text)


def guesses():
    return {name: cells.guess(cell) for name, cell in cells.CELLS.items()}


def test_estimates_follow_units_of_like_size_and_no_others():
    guess = guesses()
    estimate = program.Estimate(cells.CELLS, {"C-s0": 2 * guess["C"], "C-s1": 4 * guess["C"], "gone-s0": 1.0})
    assert estimate.seconds(cells.Unit("C", 2)) == pytest.approx(3 * guess["C"])
    assert estimate.seconds(cells.Unit("C-decay", 0)) == pytest.approx(3 * guess["C-decay"])
    for name in ("A", "B", "D"):
        assert estimate.seconds(cells.Unit(name, 0)) == guess[name]
    estimate.measured["A-s0"] = 1.5 * guess["A"]
    assert estimate.seconds(cells.Unit("B", 0)) == pytest.approx(1.5 * guess["B"])
    assert estimate.seconds(cells.Unit("D", 0)) == guess["D"]
    assert estimate.seconds(cells.Unit("C-peak", 0)) == pytest.approx(3 * guess["C-peak"])


def test_slow_small_units_do_not_keep_the_larger_cells_from_beginning(tmp_path):
    """At four times their guess, as the published ones took, the small family leaves room for A in four hours."""
    study = program.Study(None, tmp_path, cells.CELLS, cells.plan(cells.ORDER), 4 * 3600, 2, None)
    small = [unit for unit in study.plan if cells.CELLS[unit.cell].scale == cells.SMALL]
    study.clock.units = {cells.label(unit): 4 * guesses()[unit.cell] for unit in small if unit.seed < 5}
    study.clock.before = 2.25 * 3600
    study.left = [unit for unit in study.left if unit.cell not in ("C", "C-peak", "C-decay")]
    assert [study.take(lane) for lane in study.lanes] == [cells.Unit("A", 0), cells.Unit("A", 1)]
    study.clock.before = 3 * 3600
    assert study.take(study.lanes[0]) is None


# --- figures and report -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("low, high", [(0, 1), (-0.0131, 0.0007), (1e-9, 2e-9), (2.9, 3.31), (1e5, 9e6)])
def test_axes_have_a_few_round_ticks_inside(low, high):
    ticks = svg.ticks(low, high)
    assert 3 <= len(ticks) <= 8 and all(low - 1e-9 * (high - low) <= t <= high + 1e-9 * (high - low) for t in ticks)


def test_a_report_says_of_its_rows_what_they_say(tmp_path):
    rows = made_up.rows(random.Random(4), made_up.PLANTED)
    facts = {"words": {"command": "none"}, "budget": "1h", "left_out": ["A-s0"]}
    found = report.write(tmp_path, facts, plans.PLANS["paper"], rows, cells.CELLS)
    text = re.sub(r"\n +", " ", (tmp_path / "REPORT.md").read_text())  # an item of a list in one line
    by_id = {finding["id"]: finding for finding in found}
    decay = by_id["C-decay-3"]
    line = next(line for line in text.splitlines() if line.endswith(f"[{decay['number']}]."))
    assert "this held; " in line and f"{100 * decay['effect']:+.2f} points" in line and "10 seeds" in line
    assert "Not computed within 1h: A-s0." in text
    assert "of the 11 effects among them that the paper reports held" in text
    measured = list(csv.DictReader((tmp_path / "measurements.csv").open()))
    kept = {row["id"]: row for row in measured}
    assert len(kept) == len(rows) and set(decay["rows"]) <= set(kept)
    values = {
        group: [float(kept[name]["value"]) for name in decay["rows"] if kept[name]["group"] == group]
        for group in ("decay", "constant")
    }
    assert student.mean(values["decay"]) - student.mean(values["constant"]) == pytest.approx(decay["effect"])
    drawn = sorted(tmp_path.glob("*.svg"))
    assert [file.name for file in drawn] == [
        "C-budgets.svg",
        "C-losses.svg",
        "C-progress.svg",
        "C-sharpness.svg",
        "C-training.svg",
    ]
    for file in drawn:
        xml.etree.ElementTree.parse(file)
        assert "nan" not in file.read_text() and f"]({file.name})" in text


def test_a_second_set_of_seeds_is_told_from_the_first(tmp_path):
    facts = {"words": {}, "budget": "1h", "left_out": []}
    rows = made_up.rows(random.Random(4), made_up.PLANTED, seeds=13)
    for row in rows:
        if row["seed"] >= 10 and (row["group"], row["metric"], row["tokens"]) == ("decay", "delta", made_up.COUNTS[0]):
            row["value"] -= 2 * made_up.PLANTED["decay"][0] + 0.01
    findings_of = report.write(tmp_path, facts, plans.PLANS["paper"], rows, cells.CELLS)
    found = {finding["id"]: finding for finding in findings_of}
    for name, other in (("C-decay-1", True), ("C-decay-3", False)):
        first, second = found[name]["sets"]
        assert sorted(first["by_seed"]) == list(range(10)) and sorted(second["by_seed"]) == [10, 11, 12]
        assert (first["effect"] * second["effect"] < 0) == other
        by_seed = found[name]["by_seed"]
        assert second["effect"] == pytest.approx(student.mean([by_seed[seed] for seed in (10, 11, 12)]))
    text = (tmp_path / "REPORT.md").read_text()
    of_cell = [finding for finding in found.values() if finding.get("family") and finding["sets"]]
    line = next(line for line in text.splitlines() if line.startswith(f"| {found['C-decay-1']['number']} | "))
    assert line.endswith("| the other |") and text.count("| the same |") + text.count("| the other |") == len(of_cell)
    first_alone = report.judge(made_up.rows(random.Random(4), made_up.PLANTED))
    assert all(finding["sets"] is None for finding in first_alone)


# --- what is published, and a study that begins with it --------------------------------------------------------------
def made_up_study(directory, revision):
    """A finished study of made-up rows, as study.py leaves it."""
    facts = {"words": {"version": "v", "machine": "m"}, "budget": "1h", "left_out": [], "engine_revision": revision}
    (directory / "units").mkdir(parents=True)
    numbered = made_up.rows(random.Random(4), made_up.PLANTED)
    rows = [{name: value for name, value in row.items() if name != "id"} for row in numbered]
    labels = sorted({(row["cell"], row["seed"]) for row in rows})
    for cell, seed in labels:
        file = directory / "units" / f"{cell}-s{seed}-{cells.digest(cells.CELLS[cell])}.json"
        file.write_text(json.dumps([row for row in rows if (row["cell"], row["seed"]) == (cell, seed)]))
    seconds = {f"{cell}-s{seed}": 60.0 for cell, seed in labels}
    clock = program.Clock(directory / "time.json")
    clock.before, clock.units, clock.by, clock.now = 7200.0, seconds, ["w"], lambda: clock.began
    for budget in ("20m", "20m", "2h"):
        clock.told(program.command(plans.PLANS["paper"], budget))
    clock.save()
    report.write(directory, facts, plans.PLANS["paper"], rows, cells.CELLS)
    return seconds


def test_a_study_begins_with_the_published_units_of_its_revision(tmp_path):
    seconds = made_up_study(tmp_path / "made", 3)
    published.publish(tmp_path / "made", tmp_path / "tree")
    assert published.adopt(tmp_path / "tree", tmp_path / "other", cells.CELLS, 2) == []
    equal = published.adopt(tmp_path / "tree", tmp_path / "equal", cells.CELLS, 4)
    assert 3 in published.EQUAL[4] and sorted(equal) == sorted(seconds)
    assert sorted(published.adopt(tmp_path / "tree", tmp_path / "new", cells.CELLS, 3)) == sorted(seconds)
    made = {file.name: json.loads(file.read_text()) for file in (tmp_path / "made" / "units").iterdir()}
    kept = {file.name: json.loads(file.read_text()) for file in (tmp_path / "new" / "units").iterdir()}

    def ordered(units):
        return {name: sorted(json.dumps(row, sort_keys=True) for row in unit) for name, unit in units.items()}

    assert ordered(kept) == ordered(made)
    clock = json.loads((tmp_path / "new" / "time.json").read_text())
    commands = ["make study STUDY_BUDGET=20m", "make study STUDY_BUDGET=2h"]
    assert clock == {"seconds": 7200, "units": seconds, "begun": {}, "by": ["w", "v on m"], "commands": commands}
    assert published.adopt(tmp_path / "tree", tmp_path / "new", cells.CELLS, 3) == []  # it has begun


def test_a_study_is_measured_here_unless_another_one_is_named(tmp_path):
    """Else a budget that the published study has spent already would end with its report and measure nothing."""
    made_up_study(tmp_path / "made", 3)
    published.publish(tmp_path / "made", tmp_path / "tree")
    program.adopt("", tmp_path / "new", cells.CELLS, 3)
    assert not (tmp_path / "new").exists()
    with pytest.raises(launch.Trouble, match="has no units.json"):
        program.adopt(str(tmp_path), tmp_path / "new", cells.CELLS, 3)
    program.adopt(str(tmp_path / "tree"), tmp_path / "new", cells.CELLS, 3)
    assert list((tmp_path / "new" / "units").iterdir())


def test_a_report_names_all_commands_that_spent_its_time(tmp_path, monkeypatch):
    plan = plans.PLANS["open"]
    for budget, chosen in (("20m", ""), ("1h", ""), ("1h", "cause"), ("1h", "cause"), ("20m", "")):
        monkeypatch.setenv("STUDY_CELLS", chosen)
        clock = program.Clock(tmp_path / "time.json")
        clock.told(program.command(plan, budget))
        clock.save()
    begun = "make study STUDY_PLAN=open STUDY_BUDGET="
    study = types.SimpleNamespace(clock=clock, plan=[], lanes=[], left_out=list)
    told = program.facts(study, "/bin/true", "20m", tmp_path, 3)
    assert told["words"]["command"] == (
        f"{begun}20m, then {begun}1h, then {begun}1h STUDY_CELLS=cause, then {begun}20m")


# --- PDF --------------------------------------------------------------------------------------------------------------
def test_figures_are_printed_as_pdf_of_their_size(tmp_path):
    if pdf.chromium.executable() is None:
        pytest.skip("chromium-headless-shell is not installed")
    panel = {"y": "ΔQL in %", "height": 100, "series": [{"label": "one", "colour": "#222", "points": [(1, 2, None),
                                                                                                   (2, 3, 0.5)]}]}
    (tmp_path / "one.svg").write_text(svg.figure("A figure", "tokens", [panel], "Said of it. " * 20))
    (tmp_path / "gone.pdf").write_text("of an earlier report")
    assert pdf.write(tmp_path) == "Its 1 figures are there as SVG and as PDF."
    assert [file.name for file in tmp_path.glob("*.pdf")] == ["one.pdf"]
    made = (tmp_path / "one.pdf").read_bytes()
    (box,) = re.findall(rb"/MediaBox \[([\d.]+) ([\d.]+) ([\d.]+) ([\d.]+)\]", made)
    root = xml.etree.ElementTree.parse(tmp_path / "one.svg").getroot()
    assert made.startswith(b"%PDF") and len(re.findall(rb"/Type /Page\b", made)) == 1
    assert float(box[2]) == pytest.approx(0.75 * float(root.get("width")), abs=1)
    assert float(box[3]) == pytest.approx(0.75 * float(root.get("height")), abs=2)


def test_without_a_browser_the_report_is_whole_and_says_why_there_is_no_pdf(tmp_path, monkeypatch):
    (tmp_path / "one.svg").write_text("<svg/>")
    monkeypatch.setattr(pdf.chromium, "executable", lambda: None)
    assert "there is no chromium-headless-shell" in pdf.write(tmp_path)
    monkeypatch.setattr(pdf.chromium, "executable", lambda: "/no/such/browser")
    assert "only in part" in pdf.write(tmp_path)
    assert not list(tmp_path.glob("*.pdf"))


def test_publishing_is_a_program_of_its_own(tmp_path):
    made_up_study(tmp_path / "made", 3)
    command = [sys.executable, published.__file__, tmp_path / "made", tmp_path / "tree"]
    said = subprocess.run(command, cwd=tmp_path, check=True, text=True, stdout=subprocess.PIPE).stdout
    files = sorted(file.name for file in (tmp_path / "tree").iterdir())
    assert said.startswith(f"{len(files)} files in {tmp_path / 'tree'}") and {"REPORT.md", "units.json"} <= set(files)
    (tmp_path / "empty").mkdir()
    refused = subprocess.run([*command[:2], tmp_path / "empty", tmp_path / "tree"], text=True, stderr=subprocess.PIPE)
    assert refused.returncode == 1 and "run `make study` first" in refused.stderr


def test_units_of_a_cell_that_is_defined_otherwise_now_stay_behind(tmp_path):
    seconds = made_up_study(tmp_path / "made", 3)
    published.publish(tmp_path / "made", tmp_path / "tree")
    changed = {**cells.CELLS, "C": cells.CELLS["C"]._replace(text="mixed")}
    fit = published.adopt(tmp_path / "tree", tmp_path / "new", changed, 3)
    assert fit and sorted(fit) == sorted(label for label in seconds if not label.startswith("C-s"))


def test_the_published_study_can_be_gone_on_with(tmp_path):
    """By this engine, unless EQUAL says that its numbers are others: whoever raises the revision has to decide that."""
    header = (HERE.parents[1] / "engine" / "base" / "version.h").read_text()
    current = int(re.search(r"#define ENGINE_REVISION (\d+)", header)[1])
    kept = json.loads((published.PUBLISHED / "units.json").read_text())
    assert current == kept["engine_revision"] or current in published.EQUAL
    goes_on = kept["engine_revision"] in (current, *published.EQUAL.get(current, ()))
    fit = published.adopt(published.PUBLISHED, tmp_path, cells.CELLS, current)
    assert sorted(fit) == (sorted(kept["units"]) if goes_on else [])
    assert not goes_on or len(list((tmp_path / "units").iterdir())) == len(fit)


# --- the whole, at its smallest scale ---------------------------------------------------------------------------------
def study(directory, **more):
    environment = dict(
        os.environ, STUDY_SCALE="tiny", STUDY_BUDGET="1h", STUDY_WORKERS="2", STUDY_PORT=str(free_port()), **more
    )

    def heed_interrupts():  # which a shell turns off for what it starts in the background, and with it this test
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    return subprocess.Popen(
        [sys.executable, str(HERE / "study.py"), str(BINARY), str(directory)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=heed_interrupts,
    )


def until(found, process):
    end = time.monotonic() + 300
    while not found():
        assert process.poll() is None and time.monotonic() < end, (
            process.communicate()[0] if process.poll() is not None else "too long"
        )
        time.sleep(0.02)


def finished(process):
    text, _ = process.communicate(timeout=900)
    assert process.returncode == 0, text
    return text, list(csv.DictReader((pathlib.Path(process.args[3]) / "measurements.csv").open()))


@pytest.mark.skipif(not BINARY.exists(), reason="build/deltaq is not built")
def test_the_smallest_study_survives_an_interruption_and_a_kill_and_computes_nothing_twice(tmp_path):
    gate = Gate(tmp_path / "gate")
    gate.hold("train", 6, "step")
    first = study(tmp_path, **gate.environment)
    until(lambda: list(gate.directory.glob("held-*")), first)
    first.send_signal(signal.SIGINT)  # Ctrl-C, in the middle of its first run
    text, _ = first.communicate(timeout=120)
    assert (
        first.returncode == 130 and "goes on where it stopped" in text and not (tmp_path / "REPORT.md").exists()
    ), text

    second = study(tmp_path)
    until(lambda: list((tmp_path / "units").glob("*.json")), second)
    second.kill()  # its server lives, and is found
    second.communicate()
    done = {file: file.stat().st_mtime_ns for file in (tmp_path / "units").glob("*.json")}
    text, rows = finished(study(tmp_path))
    assert (
        "of an earlier study runs already" in text
        and done
        and all(file.stat().st_mtime_ns == at for file, at in done.items())
    )

    assert {row["group"] for row in rows} == {"constant", "decay", "lawa", "soup", "cosine"}
    assert {row["method"] for row in rows if row["metric"] == "delta"} == set(unit.METHODS)
    assert {row["metric"] for row in rows} == {
        "delta",
        "delta_mean",
        "loss_q",
        "loss_fp",
        "kl",
        "trace",
        "lambda_max",
    } and {row["text"] for row in rows} == {"validation", "other"}
    page = (tmp_path / "REPORT.md").read_text()
    assert (
        re.search(r"Of 12 primary endpoints \d+ were measured", page)
        and "Left out for time" not in page
        and len(list(tmp_path.glob("*.svg"))) == 5
    )

    for file in (tmp_path / "units").glob("*.json"):
        file.unlink()
    _, again = finished(study(tmp_path))  # every unit is asked again, and every run found again
    assert again == rows


def test_a_report_of_a_single_seed_decides_nothing(tmp_path):
    rows = made_up.rows(random.Random(4), made_up.PLANTED, seeds=1)
    report.write(tmp_path, {"words": {"command": "none"}, "budget": "1h", "left_out": []}, plans.PLANS["paper"], rows,
                 cells.CELLS)
    text = re.sub(r"\n *", " ", (tmp_path / "REPORT.md").read_text())
    told = re.findall(r"measured(.*?) of the 11 effects among them that the paper reports (held|have that sign)", text)
    assert told and {end for _, end in told} == {"have that sign"}
    assert all(", by a single seed, which decides none; " in between for between, _ in told)
