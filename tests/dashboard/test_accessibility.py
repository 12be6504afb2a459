"""What axe-core finds on every page, wide in light colours and narrow in dark ones: nothing. `make axe` fetches it; the
suite is skipped where it is not."""

import pytest
import stand_in
import stand_in_service
from stand_in import PLOTLY, ROOT

AXE = ROOT / "build" / "axe" / "axe.min.js"
READY = "document.querySelector('main h1') && !document.querySelector('.loading')"
# Each page, and what is pressed there before axe looks.
PAGES = {
    "trajectories": ("#/", None),
    "archived": ("#/?archived=true", None),
    "edit": ("#/", "[id^=edit-t]"),
    "curves": ("#/curves?trajectory=constant&trajectory=decay-1M", None),
    "no curves": ("#/curves", None),
    "checkpoint": ("#/checkpoints/c3", None),
    "form": ("#/checkpoints/c3", "#quantize-this"),
    "compare": ("#/compare?a=c2&b=c3", None),
    "scatter": ("#/scatter?x=loss_fp&y=loss_q", None),
    "frontier": ("#/frontier", None),
    "flips": ("#/flips", None),
    "sweeps": ("#/sweeps", None),
    "sweep": ("#/sweeps/constant-bits", None),
    "deletion": ("#/sweeps/decays", "#delete"),
    "data": ("#/data", None),
    "system": ("#/system", None),
    "runs": ("#/runs", None),
    "quantization": ("#/runs/r1", None),
    "running": ("#/runs/r24", None),
    "failed": ("#/runs/r28", None),
    "api": ("#/api", None),
    "missing": ("#/nowhere", None),
    "problem": ("#/runs/none", None),
}
# Swagger UI is somebody else's, with a <main> of its own inside of ours.
FOUND = """axe.run({exclude: ['.swagger-ui']}, {resultTypes: ['violations'],
  rules: {'landmark-no-duplicate-main': {enabled: !document.querySelector('.swagger-ui')}}})
  .then(({violations}) => violations.flatMap(({id, nodes}) =>
    nodes.map(({target, failureSummary}) => `${id}: ${target.join(' ')}: ${failureSummary}`)))"""


@pytest.fixture(scope="module")
def axe():
    if not AXE.is_file():
        pytest.skip("build/axe/axe.min.js is missing; run `make axe`")
    return AXE.read_text()


@pytest.fixture
def world():
    if not PLOTLY.is_file():
        pytest.skip("build/static/plotly.js is missing; run `make static`")
    world = stand_in.demonstration()
    stand_in.busy(world)
    stand_in_service.service(world)
    world.spoil("constant", {2: ["jump"]})
    world.healths.update(item["id"] for item in world.checkpoints)
    return world


@pytest.mark.parametrize("width, dark", [(1280, False), (400, True)], ids=["wide-light", "narrow-dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(axe, visit, name, width, dark):
    address, press = PAGES[name]
    page = visit(address, width, dark, ready=READY)
    page.expected = ["404"]  # of what the stand-in does not have
    assert (name in ("missing", "problem")) == page.run(
        "/^(Not found|No such page)/.test(document.querySelector('main h1').innerText)")
    if press:
        page.click(press)
        page.wait(f"document.querySelector('.edit, .run-form, .sure .danger') !== null && {READY}")
    page.run(f"{axe};undefined")
    assert page.run(FOUND) == []


def test_axe_finds_what_is_wrong(axe, visit):
    page = visit("#/data")
    page.run(f"{axe};undefined")
    page.run("document.querySelector('main').insertAdjacentHTML('beforeend', "
             "'<img src=\"/icon.svg\"><p style=\"color: #ccc\">hardly to be read</p>')")
    found = page.run(FOUND)
    assert {one.partition(":")[0] for one in found} == {"image-alt", "color-contrast"}
