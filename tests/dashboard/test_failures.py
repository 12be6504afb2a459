"""A part of a page that cannot be read is no fact: it is asked for again, or said to be missing."""

import pytest
import stand_in
from looks import DRAWN, check_looks

WHY = "document.querySelector('#why')?.innerText"
BUSY = 503, "Busy", "the workers of this server are busy"


def failing(monkeypatch, name, refuse):
    """The requests that a method of the server answers are refused while refuse(given) says so."""
    usual = getattr(stand_in.Handler, name)
    monkeypatch.setattr(stand_in.Handler, name, lambda handler, *given: (
        BUSY if refuse(*given) else usual(handler, *given)))


def test_a_comparison_that_failed_is_asked_for_again(visit, monkeypatch):
    asked = set()

    def first(parts, fields):
        key = str(fields)
        return key not in asked and not asked.add(key)

    failing(monkeypatch, "get_compare", first)
    page = visit("#/checkpoints/c7")
    page.expected.append("503")
    assert "95 % paired" in page.wait(WHY) and asked


def test_a_comparison_that_cannot_be_had_is_not_told_as_one(visit, monkeypatch):
    failing(monkeypatch, "get_compare", lambda parts, fields: True)
    page = visit("#/checkpoints/c7")
    page.expected.append("503")
    assert "(not compared by sequence)" in page.wait(WHY)
    page = visit("#/compare?a=c6&b=c7")
    page.expected.append("503")
    table = page.wait("document.querySelector('table.measured')?.innerText")
    assert "not compared" in table and "not paired" not in table
    assert "pairs of runs 2 were not compared by sequence" in page.run("document.querySelector('main').innerText")


def test_a_refresh_that_failed_comes_again(world, visit, monkeypatch):
    running, _, _ = stand_in.busy(world)
    left = []
    failing(monkeypatch, "get_curves", lambda parts, fields: bool(left) and bool(left.pop()))
    page = visit("#/curves?trajectory=constant")
    page.expected.append("503")
    page.wait(DRAWN)
    with world.lock:
        left.append(True)
        checkpoint = world.add_checkpoint("constant", 9, 4e-3)
        world.measure(checkpoint, 4, 0.0105, 2.37)
        world.advance(running, state="succeeded")
    page.wait("document.querySelector('table.checkpoints')?.innerText.includes('step-2197')")
    assert not left


def test_files_that_cannot_be_listed_are_said_and_asked_for_again(world, visit, monkeypatch):
    away = [True]
    failing(monkeypatch, "get_runs", lambda parts, fields: parts[1:] == ["artifacts"] and away[0])
    page = visit("#/runs/r1")
    page.expected.append("503")
    page.wait("document.querySelector('main .problem')?.innerText.includes('are busy')")
    away.clear()
    away.append(False)
    again = "[...document.querySelectorAll('main button')].find(one => one.innerText === 'Try again')"
    page.run(f"{again}.click()")
    page.wait(f"{again} === undefined && document.querySelector('main .problem') === null")


def test_recent_failures_are_those_that_ended_last(world, visit):
    """A training that was submitted before all others and failed after them."""
    long = world.add_run("train", {"trajectory": "constant", "dataset": "perl-manual"}, "failed")
    for _ in range(6):
        world.add_run("quantize", {"checkpoint": "c7", "method": {"name": "rtn", "bits": 4}}, "failed")
    long["finished_at"] = stand_in.stamp(9000)
    page = visit()
    kinds = "[...document.querySelectorAll('section[aria-label=\"Recent failures\"] .kind')].map(one => one.innerText)"
    assert page.wait(f"{kinds}.length && {kinds}") == ["train", *["quantize"] * 4]
    page.run("[...document.querySelectorAll('main a')].find(link => link.innerText === 'All failed runs').click()")
    page.wait("document.querySelector('.runs-table tbody tr')?.innerText.startsWith('train constant')")


@pytest.mark.parametrize("address", ["#/", "#/runs", "#/curves?trajectory=constant"])
def test_a_page_that_goes_on_says_when_the_server_is_away(world, visit, address):
    """What it shows stays, and is not taken for what is true now."""
    stand_in.busy(world)
    page = visit(address)
    page.expected.append("ERR_INTERNET_DISCONNECTED")
    notice = "(notice => !notice.hidden && notice.innerText)(document.querySelector('#away'))"
    assert page.run(notice) is False

    def offline(is_so):
        page.call("Network.emulateNetworkConditions", offline=is_so, latency=0, downloadThroughput=-1,
                  uploadThroughput=-1)  # fmt: skip

    heading = page.run("document.querySelector('h1').innerText")
    offline(True)
    assert "The server cannot be reached. What is shown is what it said last" in page.wait(notice)
    assert page.run("document.querySelector('h1').innerText") == heading
    check_looks(page, "away")
    offline(False)
    page.wait("document.querySelector('#away').hidden")
