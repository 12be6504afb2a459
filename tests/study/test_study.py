"""The study's verdicts on made-up measurements, its figures, and the whole of it at its smallest scale, twice."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import pytest
from gate import Gate

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import findings  # noqa: E402
import report  # noqa: E402

BINARY = pathlib.Path(os.environ.get("DELTAQ_BINARY", HERE.parents[1] / "build" / "deltaq"))


def point(group, seed, delta, peak=1e-3, budget=100, loss=3.0, bits=3):
    return {"group": group, "peak": peak, "seed": seed, "budget": budget, "tokens": budget, "bits": bits, "delta": delta, "loss_fp": loss}


def row_of(points, name, bits=3):
    return next(row for row in findings.judge(points, [bits]) if row["name"] == name)


def paired_points(group, other, differences):
    return [p for seed, d in enumerate(differences) for p in (point(group, seed, 0.02 + 0.01 * seed + d), point(other, seed, 0.02 + 0.01 * seed))]


@pytest.mark.parametrize("group, other, name, sign", [("decay", "constant", "decay", 1), ("lawa", "decay", "lawa", -1),
                                                     ("wd+", "wd0", "weight_decay", -1)])
def test_a_clear_difference_is_held_or_not_and_an_unclear_one_not_decided(group, other, name, sign):
    assert row_of(paired_points(group, other, [sign * d for d in (0.010, 0.011, 0.009)]), name)["verdict"] == findings.HELD
    assert row_of(paired_points(group, other, [-sign * d for d in (0.010, 0.011, 0.009)]), name)["verdict"] == findings.NOT_HELD
    assert row_of(paired_points(group, other, [0.01, -0.008, 0.002]), name)["verdict"] == findings.NOT_DECIDED
    assert row_of(paired_points(group, other, [sign * 0.01]), name)["verdict"] == findings.NOT_DECIDED  # one seed decides nothing
    assert row_of([], name)["effect"] is None


def test_the_interval_is_students():
    row = row_of(paired_points("decay", "constant", [0.010, 0.012, 0.014]), "decay")
    assert row["effect"] == pytest.approx(0.012) and row["high"] - row["effect"] == pytest.approx(4.303 * 0.002 / 3**0.5)


def test_budgets_and_peaks_of_one_seed_are_one_observation():
    points = [point(group, 0, delta, peak, budget) for peak in (1e-3, 2e-3) for budget in (100, 200)
              for group, delta in (("decay", 0.03), ("constant", 0.02))]
    row = row_of(points, "decay")
    assert (row["seeds"], row["pairs"], row["verdict"]) == (1, 4, findings.NOT_DECIDED)


def test_the_largest_peak_is_held_against_the_smallest():
    points = [point("decay", seed, delta + 1e-4 * seed, peak) for seed in range(3) for peak, delta in ((1e-3, 0.05), (3e-3, 0.9), (9e-3, 0.02))]
    row = row_of(points, "peak")
    assert row["effect"] == pytest.approx(-0.03) and row["verdict"] == findings.HELD


def test_sam_is_compared_at_equal_loss_and_never_beyond_what_was_measured():
    points = [p for seed in range(3) for p in (point("decay", seed, 0.02, loss=3.2), point("decay", seed, 0.04, loss=3.0, budget=200),
                                               point("sam", seed, 0.025 + 1e-4 * seed, loss=3.1, budget=200))]
    row = row_of(points, "sam")
    assert row["effect"] == pytest.approx(-0.005 + 1e-4) and row["verdict"] == findings.HELD
    outside = [{**p, "loss_fp": 2.9} if p["group"] == "sam" else p for p in points]
    row = row_of(outside, "sam")
    assert (row["effect"], row["left_out"], row["verdict"]) == (None, 3, findings.NOT_DECIDED)


def test_ranks_share_ties_and_spearman_sees_order_alone():
    assert findings.ranks([3, 1, 3, 2]) == [2.5, 0, 2.5, 1]
    assert findings.spearman([1, 2, 3, 4], [1, 8, 27, 64]) == pytest.approx(1)
    assert findings.spearman([1, 2, 3], [5, 5, 5]) is None


@pytest.mark.parametrize("low, high", [(0, 1), (-0.0131, 0.0007), (1e-9, 2e-9), (2.9, 3.31), (1e5, 9e6)])
def test_axes_have_a_few_round_ticks_inside(low, high):
    ticks = report.ticks(low, high)
    assert 3 <= len(ticks) <= 8 and all(low - 1e-12 * abs(high) <= t <= high * (1 + 1e-12) for t in ticks)


def study(directory, **more):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = dict(os.environ, STUDY_SCALE="tiny", STUDY_THREADS="1", STUDY_URL=f"http://127.0.0.1:{port}", **more)
    def heed_interrupts():  # which a shell turns off for what it starts in the background, and with it this test
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    return subprocess.Popen([sys.executable, str(HERE / "study.py"), str(BINARY), str(directory)], env=environment, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, preexec_fn=heed_interrupts)


def test_the_smallest_study_survives_an_interruption_and_reports(tmp_path):
    if not BINARY.exists():
        pytest.skip("build/deltaq is not built")
    gate = Gate(tmp_path / "gate")
    gate.hold("train", 6, "step")
    first = study(tmp_path, **gate.environment)
    end = time.monotonic() + 300
    while not list(gate.directory.glob("held-*")):
        assert first.poll() is None and time.monotonic() < end, "its first run has not begun"
        time.sleep(0.05)
    first.send_signal(2)  # Ctrl-C, in the middle of its first run
    text, _ = first.communicate(timeout=120)
    assert first.returncode != 0 and "interrupted" in text and not (tmp_path / "report.json").exists(), text
    second = study(tmp_path)
    text, _ = second.communicate(timeout=900)
    assert second.returncode == 0, text
    document = json.loads((tmp_path / "report.json").read_text())
    assert not [p for p in document["problems"] if "has no" not in p], document["problems"]
    groups = {p["group"] for p in document["points"]}
    assert {"constant", "decay", "cosine", "sam", "wd0", "wd+"} <= groups
    keys = [(p["group"], p["peak"], p["seed"], p["budget"], p["bits"]) for p in document["points"]]
    assert len(keys) == len(set(keys))
    assert {row["verdict"] for row in document["findings"]} <= {findings.HELD, findings.NOT_HELD, findings.NOT_DECIDED}
    assert all(row["seeds"] == 2 for row in document["findings"] if row["name"] in ("decay", "peak", "weight_decay"))
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") >= 6 and "nan" not in re.sub("<title>.*?</title>", "", page).lower() and "<script" not in page
