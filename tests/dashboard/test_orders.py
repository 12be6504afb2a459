"""The order of every table of a run or a checkpoint stands in the address: whoever opens it sees the same first line.
DELTAQ_SCREENSHOTS=DIR keeps pictures."""

import pytest
import stand_in
import stand_in_attribution
import stand_in_geometry
from looks import keep_picture
from stand_in import PLOTLY
from stand_in_tokens import keep_tokens, worst_token, worst_tokens
from test_advice import option

# Of each page what is pressed there, and the captions of its tables that can be sorted.
PAGES = {
    "#/runs/r1": ("#worst-tokens", ["Layers", "Predictions that lost most"]),
    "#/runs/sharpness-c7": (None, ["Terms by layer", "Groups"]),
    "#/runs/attribution": (None, ["Units"]),
    "#/runs/search": (None, ["Windows"]),
    "#/runs/plan": (None, ["Forecast of each option"]),
    "#/runs/health": (None, ["Weights by block"]),
    "#/checkpoints/c2": ("section[aria-label=Tensors] summary", ["Weights by block", "Tensors"]),
}


@pytest.fixture
def world():
    if not PLOTLY.is_file():
        pytest.skip("build/static/plotly.js is missing; run `make static`")
    world = stand_in.demonstration()
    world.healths.add("c2")
    stand_in_geometry.geometry(world)
    stand_in_attribution.attribution(world, world.checkpoints[7])
    keep_tokens(world, "r1")
    world.worst_tokens["r1"] = {"tokenizer": worst_tokens(
        [worst_token(sequence, 3, 2, 5 - sequence, "a", "b", "c") for sequence in range(3)])}
    world.runs[1]["params"]["per_token"] = True
    search = world.add_run("average", {"trajectory": "constant", "windows": [1, 2, 3]}, "succeeded", id="search")
    search["result"] = {"trajectory": "constant", "checkpoints": [], "window": 2, "windows": [
        {"window": window, "loss": loss, "loss_q": loss + 0.2, "delta": 0.2 / loss}
        for window, loss in ((1, 2.4), (2, 2.2), (3, 2.3))]}
    plan = world.add_run("plan", {"trajectory": "constant", "budget": 1_000_000}, "succeeded", id="plan")
    plan["result"] = {"checkpoint": "c7", "tokens": 4_000_000, "method": "gptq 3-bit g128", "recommended": 0,
                      "options": [option(2.30, 2.36, 0.0, average=5), option(2.31, 2.42, 0.06, 0.04, decay=2_000_000)],
                      "points": [], "reason": "the average has the lowest quantized loss", "trained_tokens": 990_000}
    health = world.add_run("health", {"checkpoint": "c0", "previous": None}, "succeeded", id="health")
    health["result"] = {"tensor_count": 4, "blocks": [
        {"layer": layer, "nan": 0, "infinite": 0, "l1": 12.5 - layer, "l2": 3.25, "linf": 1.5, "kurtosis": 3.4,
         "outlier_share": 0.001, "relative_l2": None} for layer in range(3)]}
    return world


def tables(captions):
    """All of them, or null as long as one is missing or has no rows."""
    return ("(captions => { const found = captions.map(text => [...document.querySelectorAll('main table')]"
            ".find(one => one.caption?.textContent === text && one.tBodies[0].rows.length > 0)); "
            f"return found.every(Boolean) ? found : null; }})({stand_in.json.dumps(captions)})")


@pytest.mark.parametrize("address", PAGES)
def test_the_order_of_a_table_stands_in_the_address(world, visit, address):
    press, captions = PAGES[address]
    found = tables(captions)

    def come():
        page.wait("document.querySelector('main h1') && !document.querySelector('.loading')")
        if press:
            page.wait(f"document.querySelector('{press}') !== null")
            page.click(press)
        page.wait(f"{found} !== null")

    page = visit(address)
    come()
    sortable = page.run("[...document.querySelectorAll('main table')].filter(one => one.querySelector('.sort'))"
                        ".map(one => one.caption.textContent)")
    assert set(captions) <= set(sortable)
    rows = f"{found}.map(one => [...one.tBodies[0].rows].map(row => row.cells[0].innerText))"
    heads = (f"{found}.map(one => [...one.querySelectorAll('th[aria-sort]')]"
             ".map(head => head.getAttribute('aria-sort')))")
    for _ in range(2):  # descending, then ascending
        page.run(f"{found}.forEach(one => one.querySelectorAll('thead .sort')[1].click())")
    before = page.run(heads), page.run(rows)
    assert all(order[1] in ("ascending", "descending") for order in before[0])
    page.call("Page.reload")
    come()
    assert (page.run(heads), page.run(rows)) == before
    keep_picture(page, "order-" + address.rpartition("/")[2])
