"""The page of tasks: ΔQL stands beside an accuracy only of a quantizer that is named,
and that the reader can choose."""

import pytest
from stand_in import PLOTLY, Handler
from stand_in_tasks import flips

DRAWN = "Boolean(document.querySelector('#accuracy-plot .main-svg') && document.querySelector('#accuracy-plot').data)"


@pytest.fixture
def answered(world, monkeypatch):
    """Every checkpoint of `constant` was asked without quantization."""
    if not PLOTLY.is_file():
        pytest.skip("build/static/plotly.js is missing; run `make static`")
    answer = flips(world, "constant")
    monkeypatch.setattr(Handler, "get_flips", lambda handler, parts, fields: answer, raising=False)
    return answer


def test_no_quantizer_is_made_up_and_one_can_be_chosen(world, answered, visit):
    page = visit("#/flips?trajectory=constant", ready=DRAWN)
    names = "document.querySelector('#accuracy-plot').data.map(trace => trace.name)"
    assert page.run(names) == ["full precision", "quantized"]
    rows = page.run("[...document.querySelectorAll('main tbody tr')].map(row => [...row.cells]"
                    ".map(cell => cell.innerText.trim()))")
    assert len(rows[0]) == 6 and rows[0][4:] == ["–", "–"]
    choice = "document.querySelector('[aria-label=\"ΔQL of\"]')"
    assert page.run(f"[...{choice}.options].map(option => option.text)") == [
        "none", "gptq 4-bit g128", "gptq 3-bit g128"]
    page.run(f"(select => {{ select.value = 'gptq 3-bit g128'; "
             f"select.dispatchEvent(new Event('change')); }})({choice})")
    page.wait(f"{DRAWN} && {names}.includes('ΔQL of gptq 3-bit g128')")
    curve = next(series for series in world.curves(["constant"], "delta", "step")["series"] if series["bits"] == 3)
    assert page.run("[...document.querySelector('#accuracy-plot').data[2].y]") == pytest.approx(
        [100 * point["y"] for point in curve["points"]])
    assert "delta=gptq+3-bit+g128" in page.run("location.hash")
    assert page.run("document.querySelector('#accuracy-plot').layout.xaxis.ticktext").count("1,953") == 1


def choose(page, name, value):
    page.run(f"(select => {{ select.value = '{value}'; select.dispatchEvent(new Event('change')); }})"
             f"(document.querySelector('[aria-label=\"{name}\"]'))")


def test_an_answer_that_comes_late_does_not_replace_a_newer_one(world, answered, visit):
    page = visit("#/flips?trajectory=constant", ready=DRAWN)
    page.hold("trajectory=decay-1M")
    choose(page, "Trajectory", "decay-1M")
    choose(page, "Trajectory", "decay-3M")
    page.wait("location.hash.includes('decay-3M')")
    page.release(3)  # its quantizers, its ΔQL, its answers
    assert "trajectory=decay-3M" in page.run("location.hash")
    assert page.run("document.querySelector('[aria-label=Trajectory]').value") == "decay-3M"


def test_a_view_of_tasks_stands_in_its_address(world, answered, visit):
    page = visit("#/flips?trajectory=constant&zoomx=500%2C1500&answers=-Accuracy", ready=DRAWN)
    span = "[...document.querySelector('#accuracy-plot')._fullLayout.xaxis.range]"
    first = "document.querySelector('main tbody tr').innerText"
    assert page.run(span) == [500, 1500] and "step-1953" in page.run(first)
    page.run("void Plotly.relayout('accuracy-plot', {'xaxis.range': [600, 1200]})")
    page.wait("location.hash.includes('zoomx=600%2C1200')")
    page.run("[...document.querySelectorAll('main .sort')].find(one => one.innerText.startsWith('Checkpoint')).click()")
    choose(page, "ΔQL of", "gptq 3-bit g128")
    page.wait("location.hash.includes('delta=gptq')")
    kept = page.run("location.hash")
    assert "answers=Checkpoint" in kept and "zoomx=600%2C1200" in kept
    page.call("Page.reload")
    page.wait(DRAWN)
    assert page.run(span) == [600, 1200] and "step-244" in page.run(first)
    choose(page, "Trajectory", "decay-1M")
    page.wait("location.hash.includes('decay-1M')")
    assert "zoomx" not in page.run("location.hash")
