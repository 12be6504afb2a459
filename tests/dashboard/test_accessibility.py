"""What axe-core finds on every page, wide in light colours and narrow in dark ones: nothing. `make axe` fetches it; the
suite is skipped where it is not."""

import pytest
import stand_in
import stand_in_attribution
import stand_in_gates
import stand_in_geometry
import stand_in_service
from stand_in import PLOTLY, ROOT
from stand_in_tasks import flipped, flips
from stand_in_tokens import keep_tokens, worst_token, worst_tokens
from test_advice import option

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
    "gates": ("#/gates", None),
    "data": ("#/data", None),
    "system": ("#/system", None),
    "runs": ("#/runs", None),
    "refused filter": ("#/runs?created_to=soon", None),
    "run deletion": ("#/runs/r1", "#delete"),
    "quantization": ("#/runs/r1", None),
    "running": ("#/runs/r24", None),
    "failed": ("#/runs/r28", None),
    "sharpness": ("#/runs/sharpness-c7", None),
    "landscape": ("#/runs/landscape", None),
    "interpolation": ("#/runs/line", None),
    "average": ("#/runs/average", None),
    "comparison": ("#/runs/compare", None),
    "attribution": ("#/runs/attribution", None),
    "tasks": ("#/runs/tasks", None),
    "trained": ("#/runs/trained", None),
    "plan": ("#/runs/plan", None),
    "worst tokens": ("#/runs/r1", "#worst-tokens"),
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
def world(monkeypatch):
    if not PLOTLY.is_file():
        pytest.skip("build/static/plotly.js is missing; run `make static`")
    world = stand_in.demonstration()
    stand_in.busy(world)
    stand_in_service.service(world)
    stand_in_gates.gates(world)
    world.spoil("constant", {2: ["jump"]})
    world.healths.update(item["id"] for item in world.checkpoints)
    add_runs(world)
    answers = flips(world, "constant", [flipped(world, "constant")])
    monkeypatch.setattr(stand_in.Handler, "get_flips", lambda handler, parts, fields: answers, raising=False)
    return world


def add_runs(world):
    """One of each kind that has a section of its own, and the tokens of a quantization."""
    last = world.checkpoints[7]
    stand_in_geometry.geometry(world)
    sharp = next(run for run in world.runs if run["id"] == "sharpness-c7")
    sharp["result"]["prediction_in_range"] = False
    stand_in_attribution.attribution(world, last)
    keep_tokens(world, "r1")
    world.worst_tokens["r1"] = {"tokenizer": worst_tokens([worst_token(0, 3, 2, 5, "a", "b", "c")])}
    world.runs[1]["params"]["per_token"] = True
    asked = world.add_run("tasks", {"checkpoint": last["id"], "tasks": ["arc_easy"]}, "succeeded", id="tasks")
    shares = {name: value for field, value in (("accuracy", 0.61), ("accuracy_norm", 0.6), ("accuracy_q", 0.58))
              for name, value in ((field, value), (f"{field}_interval", [value - 0.03, value + 0.03]))}
    change = {"accuracy_change": -0.03, "accuracy_change_interval": [-0.05, -0.01]}
    flips = {"flips_up": 3, "flips_down": 9, "mcnemar_p": 0.15}
    asked["result"] = {**{f"mean_{name}": value for name, value in {**shares, **change}.items()}, "items": 200,
                       "tokens_alone": 9000, "tokens_computed": 4000,
                       "tasks": [{"name": name, "n": 100, **shares, **change, **flips}
                                 for name in ("arc_easy", "piqa")]}
    trained = world.add_run("train", {"trajectory": "constant", "dataset": "perl-manual", "tokens": 8_000_000},
                            "succeeded", id="trained")
    trained["result"] = {"checkpoints": ["c6", "c7"], "final_loss": 2.4, "validation_loss": 2.5, "ema_loss": None,
                         "steps": 1953, "tokens": 4_000_000, "tokens_per_second": 52_000.0}
    plan = world.add_run("plan", {"trajectory": "constant", "budget": 1_000_000}, "succeeded", id="plan")
    plan["result"] = {"checkpoint": "c7", "tokens": 4_000_000, "method": "gptq 3-bit g128", "recommended": 0,
                      "options": [option(2.30, 2.36, 0.0, average=5), option(2.31, 2.42, 0.06, 0.04, decay=2_000_000)],
                      "points": [], "reason": "the average has the lowest quantized loss", "trained_tokens": 990_000,
                      "recipe_id": "a" * 16, "protocol_id": "b" * 16, "calibration_id": None}


@pytest.mark.parametrize("width, dark", [(1280, False), (400, True)], ids=["wide-light", "narrow-dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(axe, visit, name, width, dark):
    address, press = PAGES[name]
    page = visit(address, width, dark, ready=READY)
    page.expected = ["404", "422"]  # of what the stand-in does not have, and of a filter that it refuses
    assert (name in ("missing", "problem")) == page.run(
        "/^(Not found|No such page)/.test(document.querySelector('main h1').innerText)")
    if press:
        page.click(press)
        page.wait(f"document.querySelector('.edit, .run-form, .sure .danger, [aria-label="
                  f"\"Worst tokens\"] tbody') !== null && {READY}")
    page.run(f"{axe};undefined")
    assert page.run(FOUND) == []


def test_axe_finds_what_is_wrong(axe, visit):
    page = visit("#/data")
    page.run(f"{axe};undefined")
    page.run("document.querySelector('main').insertAdjacentHTML('beforeend', "
             "'<img src=\"/icon.svg\"><p style=\"color: #ccc\">hardly to be read</p>')")
    found = page.run(FOUND)
    assert {one.partition(":")[0] for one in found} == {"image-alt", "color-contrast"}
