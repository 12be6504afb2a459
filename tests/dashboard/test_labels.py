"""Runs and curves are called by what they are of: the method with its options, and what else tells them apart."""

import contract
import pytest
import stand_in
import stand_in_geometry
from looks import check_looks


@pytest.fixture
def world():
    return stand_in.demonstration()


def newest(page, trajectory):
    return page.run("(row => [...row.querySelectorAll('td[data-label^=Newest] .deltas > *')]"
                    ".map(line => [line.innerText, line.getBoundingClientRect().top]))"
                    "([...document.querySelectorAll('main tbody tr')].find(row => row.querySelector('th .name')"
                    f".innerText === '{trajectory}'))")


@pytest.mark.parametrize("width", [1280, 400])
def test_the_newest_values_name_their_methods_a_line_each(world, visit, width):
    page = visit("#/", width=width)
    lines = newest(page, "constant")
    assert [text.rsplit(" ", 2)[0] for text, _ in lines] == ["gptq 4-bit", "gptq 3-bit"]
    assert len({top for _, top in lines}) == 2
    last = next(item for item in world.checkpoints if item["name"] == "step-1953" and item["trajectory"] == "constant")
    for method, label in (("gptq", "gptq 4-bit g128 desc_act"), ("rtn", "rtn 4-bit g128"), ("awq", "awq 4-bit g128")):
        run = world.measure(last, 4, 0.02, 3.0)
        for place, (metric, at, _, bits, _, *rest) in enumerate(world.points):
            if rest[-1] == run["id"] and metric != "loss_fp":
                world.points[place] = (metric, at, method, bits, label, *rest)
    page = visit("#/", width=width)
    names = [text for text, _ in newest(page, "constant")]
    assert [text.rsplit(" ", 2)[0] for text in names[:4]] == [
        "awq 4-bit", "gptq 4-bit g128", "gptq 4-bit g128 desc_act", "rtn 4-bit"]
    assert names[4:] == ["1 more"]
    check_looks(page, f"newest-{width}")


# --- Methods ----------------------------------------------------------------------------------------------------------
SEEN = {"name", "bits", "group_size", "overrides"}  # told in ways of their own
LABELS = [
    # as server/kinds/method.c writes them
    ({"name": "rtn", "bits": 4, "group_size": 128, "sym": True}, "rtn 4-bit g128"),
    ({"name": "rtn", "bits": 3, "group_size": -1, "sym": False, "rotation": "hadamard", "rotation_seed": 7},
     "rtn 3-bit g-1 no sym hadamard rotation_seed 7"),
    ({"name": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": True, "act_group_aware": False,
      "damp_percent": 0.01}, "gptq 4-bit g128 desc_act no act_group_aware damp_percent 0.01"),
    ({"name": "nf4", "block_size": 64, "double_quant": False, "keep_outliers": 4},
     "nf4 4-bit no double_quant keep_outliers 4"),
    ({"name": "awq", "bits": 4, "group_size": 32, "sym": False, "duo_scaling": True, "judge": "block"},
     "awq 4-bit g32 duo_scaling block"),
    ({"name": "smoothquant", "bits": 8, "activation_bits": 8, "alpha": 0.75, "embedding_bits": 4},
     "smoothquant 8-bit alpha 0.75 embedding_bits 4"),
    ({"name": "llm_int8", "threshold": 6, "variant": "paper", "rotation": None}, "llm_int8 8-bit paper"),
]  # fmt: skip


def test_methods_are_called_as_curves_call_them(visit):
    page = visit("#/runs")
    for method, label in LABELS:
        assert page.run("import('/method_label.js').then(({methodIn}) => "
                        f"methodIn({stand_in.json.dumps(method)}))") == label
    overrides = [{"pattern": "lm_head", "bits": 8, "group_size": None, "skip": False},
                 {"pattern": "down", "bits": None, "group_size": 32, "skip": False}, {"pattern": "up", "skip": True}]
    more = {"name": "rtn", "bits": 4, "overrides": overrides}
    assert page.run("import('/method_label.js').then(({methodIn}) => "
                    f"methodIn({stand_in.json.dumps(more)}))") == "rtn 4-bit overrides lm_head 8-bit; down g32; 1 more"
    assert page.run("import('/method_label.js').then(({methodIn}) => methodIn({recipe: 'awq-duo', bits: 3}))") == (
        "recipe awq-duo 3-bit")


def test_the_defaults_are_those_of_the_interface(visit):
    schemas = contract.OPENAPI["components"]["schemas"]
    mapping = schemas["MethodNamed"]["discriminator"]["mapping"]
    expected = {name: [[field, about["default"]] for field, about in
                       schemas[place.split("/")[-1]]["properties"].items() if field not in SEEN]
                for name, place in mapping.items()}  # fmt: skip
    found = visit("#/runs").run("import('/method_label.js').then(({DEFAULTS}) => Object.fromEntries("
                                "Object.entries(DEFAULTS).map(([name, own]) => [name, Object.entries(own)])))")
    assert found == expected


def test_a_sharpness_run_is_called_by_its_method_and_direction(world, visit):
    """Its method is a name, and no quantizer's options."""
    sharp = stand_in_geometry.sharpness(world, world.checkpoints[-1], 38.0, 1200.0)
    words = "sharpness decay-3M/step-1953 lanczos along gptq 3-bit g128"
    page = visit("#/runs?kind=sharpness")
    assert titles(page) == [words]
    page = visit(f"#/runs/{sharp['id']}")
    assert page.run("document.querySelector('h1').innerText.replace(/\\s+/g, ' ').trim()").lower() == words.lower()
    page = visit(f"#/checkpoints/{sharp['params']['checkpoint']}")
    rows = page.run("[...document.querySelectorAll('table.measured tbody tr')].map(row => row.innerText)")
    assert any("lanczos along gptq 3-bit g128" in row for row in rows)
    world.add_run("sharpness", {**sharp["params"], "method": "power", "direction": None}, "queued")
    assert titles(visit("#/runs?state=queued")) == ["sharpness decay-3M/step-1953 power"]


def test_a_training_run_leads_to_the_trajectory_of_its_checkpoints(world, visit):
    trained = world.add_run("train", {"trajectory": "constant", "dataset": "perl-manual"}, "succeeded")
    trained["result"] = {"checkpoints": ["c1", "c2"], "validation_loss": 2.25, "final_loss": 2.5}
    page = visit(f"#/runs/{trained['id']}")
    page.wait("document.querySelector('section[aria-label=Result] p a')?.innerText === 'constant'")
    assert "2 checkpoints registered in constant" in page.run("document.querySelector('main').innerText")
    assert not any("undefined" in url for url in page.requests)


# --- Lists ------------------------------------------------------------------------------------------------------------
def titles(page):
    return page.run("[...document.querySelectorAll('main tbody .run-title')].map(title => title.innerText"
                    ".replace(/\\s+/g, ' ').trim())")


@pytest.mark.parametrize("width", [1280, 400])
def test_lists_tell_runs_apart_by_options_and_calibration(world, visit, width):
    base = world.runs[-1]["params"]
    methods = [{"name": "rtn", "bits": 4, "group_size": 128, "sym": sym, "rotation": rotation}
               for sym in (True, False) for rotation in ("none", "hadamard")]
    calibrated = [{**base["calibration"], "max_sequences": most} for most in (16, 64)]
    tried = [{**base, "method": method, "calibration": None} for method in methods]
    tried += [{**base, "method": {"name": "awq", "bits": 4, "group_size": 128}, "calibration": given}
              for given in calibrated]
    elsewhere = {**base["evaluation"], "dataset": "wiki"}
    tried.append({**tried[0], "evaluation": elsewhere})
    for params in tried:
        run = world.add_run("quantize", params, "succeeded", sweep="options")
        run["result"] = {"delta": 0.01, "bits_per_weight": 4.15, "sequences": 192}
    world.sweeps.append({
        "id": "s9", "name": "options", "kind": "quantize", "base": {}, "standing": False, "refused": [],
        "grid": {"method": [*methods[:3], {"name": "awq", "bits": 4, "clip": False}, {"recipe": "awq-duo"}],
                 "optimizer": [{"name": "sam", "rho": 0.05}, {"name": "sam", "rho": 0.1}]},
        "runs": {"queued": 0, "running": 0, "succeeded": 7, "failed": 0, "cancelled": 0, "total": 7},
        "created_at": "2026-11-20T10:00:00Z"})  # fmt: skip
    usual = "measured on perl-manual-validation, 192 sequences of 128 tokens"
    expected = [
        f"rtn 4-bit g128 {usual}", "rtn 4-bit g128 hadamard", "rtn 4-bit g128 no sym", "rtn 4-bit g128 no sym hadamard",
        "awq 4-bit g128 calibrated on perl-manual, at most 16 sequences of 128 tokens",
        "awq 4-bit g128 calibrated on perl-manual, at most 64 sequences of 128 tokens",
        "rtn 4-bit g128 measured on wiki, 192 sequences of 128 tokens"]  # fmt: skip
    for address in ("#/sweeps/options", "#/runs?sweep=options"):
        page = visit(address, width=width)
        page.wait("[...document.querySelectorAll('main tbody .run-title')]"
                  ".every(title => !title.innerText.includes('…'))")
        assert sorted(titles(page)) == sorted(f"quantize decay-3M/step-1953 {words}" for words in expected)
        check_looks(page, f"labels-{address.split('/')[1][:4]}-{width}")
    page = visit("#/sweeps", width=width)
    row = page.run("[...document.querySelectorAll('main tbody tr')].find(row => row.innerText.includes('options'))"
                   ".innerText")
    assert ("method: rtn 4-bit g128, rtn 4-bit g128 hadamard, rtn 4-bit g128 no sym, awq 4-bit no clip, "
            "recipe awq-duo; optimizer: sam rho 0.05, sam rho 0.1") in row
    check_looks(page, f"grids-{width}")
