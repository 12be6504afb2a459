"""The scatter page: what its points, words and links are of."""

import json

import pytest
from stand_in import PLOTLY

READY = "Boolean(document.querySelector('#scatter-plot .main-svg') && document.querySelector('#scatter-plot').data)"


@pytest.fixture(autouse=True)
def drawn():
    if not PLOTLY.is_file():
        pytest.skip("build/static/plotly.js is missing; run `make static`")


def answer(*methods):
    """Of each method a series of one width with three points."""
    points = [{"series": place, "trajectory": "a", "checkpoint": f"c{step}", "x": 2 + step, "y": 0.01 * (1 + place)}
              for place in range(len(methods)) for step in range(3)]  # fmt: skip
    return {"points": points, "series": [{"label": f"{method} 3-bit", "method": method, "bits": 3, "n": 3}
                                         for method in methods]}  # fmt: skip


def figure(page, *methods, paper="null"):
    given = json.dumps(answer(*methods))
    return page.run("import('/scatter.js').then((module) => ((groups, options) => ({"
                    "data: module.scatterFigure(groups, options).data, key: module.scatterKey(groups, options)}))"
                    f"(module.groupsOf({given}, null), {{ink: {{paper: '#fff', muted: '#555', text: '#000'}},"
                    f" x: 'loss_fp', y: 'delta', paper: {paper}, colour: () => '#123456'}}))")  # fmt: skip


def test_the_shape_of_a_point_tells_its_method(visit):
    """Two methods of one width in one trajectory have one colour and one dash."""
    page = visit("#/runs")
    found = figure(page, "gptq", "rtn")
    shapes = {trace["meta"]["label"]: trace["marker"]["symbol"] for trace in found["data"]
              if trace["meta"]["kind"] == "points"}  # fmt: skip
    assert shapes == {"gptq 3-bit": "circle", "rtn 3-bit": "square"}
    legend = [(trace["name"], trace["marker"]["symbol"]) for trace in found["data"] if trace.get("showlegend", True)]
    assert sorted(legend) == [("gptq", "circle"), ("rtn", "square")]
    assert "shape of a marker: the method" in found["key"]
    alone = figure(page, "gptq")
    assert not [trace for trace in alone["data"] if trace.get("showlegend", True)] and len(alone["key"]) == 2
    named = [trace["name"] for trace in figure(page, "gptq", "rtn", paper="{}")["data"]
             if trace.get("showlegend", True)]  # fmt: skip
    assert named == ["a", "gptq", "rtn"]  # a file has no buttons that have the colours


def test_links_to_other_views_are_of_what_is_chosen_now(visit):
    page = visit("#/scatter?x=loss_fp&y=delta&trajectory=constant", ready=READY)
    address = "document.querySelector('#curves').getAttribute('href')"
    assert page.run(address) == "#/curves?trajectory=constant"
    keys = "[...document.querySelectorAll('.legend .key')].find(key => key.innerText === '{}').click()"
    page.run(keys.format("decay-1M"))
    page.wait(f"{address}.includes('decay-1M')")
    assert "trajectory=decay-1M" in page.run("document.querySelector('#losses').getAttribute('href')")
    page.run("(menu => { menu.value = 'loss_q'; menu.dispatchEvent(new Event('change')); })"
             "(document.querySelectorAll('.controls select')[1])")
    page.wait("document.querySelector('#losses') === null")  # these it shows already


def test_notes_name_no_fields_of_the_answer(visit):
    page = visit("#/runs")
    note = 'few trajectories; "differences" is about changes from checkpoint to checkpoint'
    words = page.run("import('/scatter.js').then(({intervalWords}) => "
                     f"intervalWords([{{found: {{note: {json.dumps(note)}}}}}]))")  # fmt: skip
    assert words == "Few trajectories; the correlation of changes is about changes from checkpoint to checkpoint."
