"""The page of tasks: ΔQL stands beside an accuracy only of a quantizer that is named,
and that the reader can choose."""

import pytest
from stand_in import PLOTLY, Handler

DRAWN = "Boolean(document.querySelector('#accuracy-plot .main-svg') && document.querySelector('#accuracy-plot').data)"


@pytest.fixture
def answered(world, monkeypatch):
    """Every checkpoint of `constant` was asked without quantization."""
    if not PLOTLY.is_file():
        pytest.skip("build/static/plotly.js is missing; run `make static`")
    own = [item for item in world.checkpoints if item["trajectory"] == "constant"]
    answer = {"trajectory": "constant", "items": [],
              "checkpoints": [{"checkpoint": item["id"], "name": item["name"], "step": item["step"],
                               "items": 100, "right": 40 + place, "right_q": None, "up": 0, "down": 0}
                              for place, item in enumerate(own)]}  # fmt: skip
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
