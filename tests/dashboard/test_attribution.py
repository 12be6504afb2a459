"""The page of a run of the kind attribution, against the stand-in.
DELTAQ_SCREENSHOTS=DIR keeps pictures, as for test_dashboard.py."""

import json

import pytest
import stand_in
import stand_in_attribution
from looks import check_looks
from stand_in import HOSTILE

DRAWN = ("['units-plot', 'frontier-plot'].every(id => document.querySelector(`#${id} .main-svg`) "
         "&& document.querySelector(`#${id}`).data)")


@pytest.fixture
def world():
    world = stand_in.demonstration()
    stand_in_attribution.attribution(world, world.checkpoints[0])
    return world


@pytest.fixture
def page(visit):
    if not (stand_in.ROOT / "build" / "static" / "plotly.js").is_file():
        pytest.skip("build/static/plotly.js is missing; run `make static`")
    page = visit("#/runs/attribution")
    page.wait(DRAWN)
    return page


def trace(page, identity, kind):
    found = page.run(f"document.querySelector('#{identity}').data.filter(trace => trace.meta.kind === '{kind}')"
                     f".map(({{x, y, text}}) => JSON.parse(JSON.stringify({{x, y, text}})))")
    return found[0]


def test_units_the_frontier_and_the_allocation_are_shown(world, page):
    result = next(run for run in world.runs if run["id"] == "attribution")["result"]
    alone, marginal = trace(page, "units-plot", "alone"), trace(page, "units-plot", "marginal")
    assert alone["x"] == pytest.approx([100 * unit["alone"]["delta"] for unit in result["units"]])
    assert marginal["x"] == pytest.approx([100 * unit["marginal"] for unit in result["units"]])
    assert page.run("document.querySelector('#units-plot').layout.yaxis.ticktext[8]") == "1.self_attn.k_proj"
    assert trace(page, "frontier-plot", "frontier")["y"] == pytest.approx(
        [100 * point["delta"] for point in result["frontier"]])
    assert trace(page, "frontier-plot", "widths")["x"] == [2.125, 3.125, 4.125]
    page.run("document.querySelector('button[data-value=kl]').click()")
    page.wait("document.querySelector('#frontier-plot')._fullLayout.yaxis.type === 'log'")
    assert trace(page, "frontier-plot", "measured")["y"] == [result["allocation"]["measured"]["kl"]]
    body = json.loads(page.run("document.querySelector('.command code').innerText"))
    assert body["kind"] == "quantize" and body["params"]["method"]["overrides"] == result["allocation"]["overrides"]
    assert (body["params"]["method"]["bits"] == 4
            and body["params"]["evaluation"] == {"dataset": "perl-manual-validation"})
    assert page.run("document.querySelectorAll('table.layers tbody tr').length") == 42


def test_the_body_of_an_allocation_has_the_precision_of_its_attribution(world, visit):
    """Else another model is measured than the one that the page speaks of; the default needs no word."""
    params = next(run for run in world.runs if run["id"] == "attribution")["params"]
    for precision, sent in (("bf16", "bf16"), ("f32", None)):
        params["precision"] = precision
        page = visit("#/runs/attribution", ready="document.querySelector('.command code') !== null")
        body = json.loads(page.run("document.querySelector('.command code').innerText"))
        assert body["params"].get("precision") == sent


def test_without_widths_and_left_out_units_there_are_bars_alone(world, visit):
    result = next(run for run in world.runs if run["id"] == "attribution")["result"]
    result.update(frontier=[], allocation=None, widths=[{**result["widths"][2], "bits": None}], delta_marginal=None,
                  additive_share=None)
    for unit in result["units"]:
        unit.update(name=unit["name"] + HOSTILE, left_out=None, marginal=None, interaction=None,
                    widths=unit["widths"][2:])
    result["units"][0]["alone"].update(delta=None, loss_q=None, kl=None, delta_interval=None)
    page = visit("#/runs/attribution")
    page.wait("document.querySelector('#units-plot .main-svg') && document.querySelector('#units-plot').data")
    assert (page.run("document.querySelector('#units-plot').data.length") == 1
            and page.run("document.querySelector('#frontier-plot')") is None)
    assert (page.run("document.querySelectorAll('main img, main script').length") == 0
            and page.run("window.hurt") is None)


def test_it_fits_its_width_and_is_readable_in_light_and_dark(page):
    check_looks(page, "attribution")
