"""The demo's sentences on made-up measurements, its lines of progress on a made-up clock, and its questions to a server
that does not answer."""

import http.server
import pathlib
import random
import sys
import threading

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import ask  # noqa: E402
import sentences  # noqa: E402

COUNTS = (2_500_000, 6_300_000)


def at(delta, half=0.001, loss=3.0):
    return {"delta": delta, "interval": [delta - half, delta + half], "loss_fp": loss,
            "loss_q": loss * (1 + delta), "draws": 1}


def both(*deltas, **more):
    return {count: at(delta, **more) for count, delta in zip(COUNTS, deltas)}


def test_a_clear_rise_is_said_with_its_interval_and_where_the_intervals_are_apart():
    found = sentences.decay(both(0.0305, 0.06), both(0.03, 0.05), COUNTS)
    assert found["holds"] is True and found["apart"] == [COUNTS[1]]
    assert found["text"].startswith("Decay raises ΔQL: ") and "0.52 points (95 %: 0.38 to 0.67)" in found["text"]
    assert "+0.05 at 2.5 M, +1.00 at 6.3 M" in found["text"] and "at 1 of 2 counts" in found["text"]


@pytest.mark.parametrize("decayed, holds, words", [((0.0301, 0.0501), None, "includes zero"),
                                                   ((0.02, 0.04), False, "on the other side of zero")])
def test_what_the_decay_does_not_do_is_said_plainly(decayed, holds, words):
    found = sentences.decay(both(*decayed), both(0.03, 0.05), COUNTS)
    assert found["holds"] is holds and found["apart"] == []
    assert found["text"].startswith("That decay raises ΔQL does not hold in these numbers: ") and words in found["text"]


def test_peak_rates_are_compared_at_the_same_loss_and_never_beyond_what_was_measured():
    large = {1: at(0.03, loss=2.9), 2: at(0.05, loss=2.7)}
    found = sentences.peak(large, {1: at(0.06, loss=2.8), 2: at(0.5, loss=2.6)}, (4e-3, 1e-3))
    assert found["holds"] is True and found["losses"] == [2.8]
    assert (found["effect"].value == pytest.approx(-0.02) and "2.00 points" in found["text"]
            and "2.800 nats" in found["text"])
    found = sentences.peak(large, {1: at(0.02, loss=2.8)}, (4e-3, 1e-3))
    assert found["holds"] is False and "does not hold" in found["text"] and "-2.00 points" in found["text"]
    found = sentences.peak(large, {1: at(0.06, loss=2.6)}, (4e-3, 1e-3))
    assert found["holds"] is None and found["effect"] is None and "cannot be told" in found["text"]


def test_averaging_is_held_against_the_decay_with_both_losses():
    found = sentences.average(both(0.02, 0.04, loss=3.1), both(0.03, 0.05), COUNTS)
    assert (found["holds"] is True and "1.00 points (95 %: 0.86 to 1.14) less" in found["text"]
            and "3.224 and 3.150 nats" in found["text"])
    assert "does not hold" in sentences.average(both(0.03, 0.05), both(0.03, 0.05), COUNTS)["text"]


def test_the_interval_of_a_difference_covers_it():
    source, inside = random.Random(3), 0
    for _ in range(2000):
        a, b = source.gauss(0.06, 0.002), source.gauss(0.05, 0.001)
        found = sentences.minus(sentences.Estimate(a, a - 1.96 * 0.002, a + 1.96 * 0.002),
                                sentences.Estimate(b, b - 1.96 * 0.001, b + 1.96 * 0.001))
        inside += found.low <= 0.01 <= found.high
    assert 0.935 <= inside / 2000 <= 0.965


def test_a_measurement_is_the_servers_mean_and_interval():
    result = {"delta": 0.055, "delta_interval": [0.047, 0.063], "loss_fp": 3.0, "loss_q": 3.165,
              "calibration_draws": {"delta": [0.05, 0.052, 0.058, 0.06]}}
    assert sentences.measurement(result) == {"delta": 0.055, "interval": [0.047, 0.063], "loss_fp": 3.0,
                                             "loss_q": 3.165, "draws": 4}
    assert sentences.measurement({**result, "calibration_draws": None})["draws"] == 1


def lines(shares, seconds=1.0, runs=1):
    said, now = [], [0.0]
    line = ask.Line("training", runs, clock=lambda: now[0], say=said.append)
    for share in shares:
        now[0] += seconds
        line.show(share, 0)
    return said


def test_progress_is_a_line_a_tenth_with_a_calm_estimate():
    said = lines([k / 100 for k in range(101)])
    assert len(said) == 11 and said[0] == "  training: 0 %" and said[-1] == "  training: 100 % in 101 s"
    assert said[5] == "  training: 50 %, about 55 s to go"
    assert len(lines([0.0001 * k for k in range(100)])) == 1  # nothing new to say
    assert lines([1.0, 1.0]) == ["  training: 100 % in 1 s"]
    assert [text for text in lines([0.5 + k / 200 for k in range(100)]) if "60 %" in text] == [
        "  training: 60 %, about 90 s to go"]


def test_a_branch_counts_from_its_own_start():
    run = ask.Run("id", "decay", weight=3, start=300)
    run.look({"state": "queued", "progress": {"done": 0, "total": 0}})
    assert run.share == 0
    run.look({"state": "running", "progress": {"done": 330, "total": 400}})
    assert run.share == pytest.approx(0.3)


class Answers(http.server.BaseHTTPRequestHandler):
    """What the server of the test has for each request, in turn; no status: it says nothing at all."""

    def answer(self):
        self.server.asked.append(self.command)
        status = self.server.statuses.pop(0)
        if status is not None:
            self.send_response(status)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


class Asked:
    """The server that a client asks, which runs."""

    def __init__(self, *statuses):
        self.stand_in = http.server.HTTPServer(("127.0.0.1", 0), Answers)
        self.stand_in.statuses, self.stand_in.asked = list(statuses), []
        self.url = f"http://127.0.0.1:{self.stand_in.server_port}"
        threading.Thread(target=self.stand_in.serve_forever, daemon=True).start()

    def alive(self):
        return True

    def last_lines(self):
        return ""


def test_a_server_that_does_not_answer_for_a_while_is_asked_again():
    server = Asked(503, None, 200)
    assert ask.Client(server).get("/v1/runs/1") == {} and server.stand_in.asked == ["GET"] * 3


@pytest.mark.parametrize("method, status, kind", [("POST", 503, ask.NoAnswer), ("GET", 404, ask.Trouble)])
def test_a_refusal_and_a_change_are_not_tried_again(method, status, kind):
    server = Asked(status)
    with pytest.raises(kind, match=f"was answered {status}"):
        ask.Client(server).request(method, "/v1/runs")
    assert server.stand_in.asked == [method]


def test_a_server_that_never_answers_ends_it(monkeypatch):
    monkeypatch.setattr(ask, "AGAIN_SECONDS", 0.5)
    server = Asked(*[503] * 10)
    with pytest.raises(ask.Trouble):
        ask.Client(server).get("/v1/runs/1")
    assert 1 <= len(server.stand_in.asked) < 10
