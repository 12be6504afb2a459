"""The dashboard's integrity panel, the marks in figure and table, and the page of a health run.
DELTAQ_SCREENSHOTS=DIR keeps pictures."""


import pytest
from looks import DRAWN, check_looks, traces

ADDRESS = "#/curves?trajectory=constant&x=step"
PANEL = "document.querySelector('section[aria-label=Integrity]')"


@pytest.fixture
def spoiled(world):
    own = world.references("constant")
    world.spoil("constant", {1: ["mixed", "jump"], 3: ["identical"], 5: ["identical"], 6: ["not_finite"]},
                identical=[{"sha256": "a" * 64, "checkpoints": [own[3], own[5]]}],
                mixed=[{**own[1], "with": own[7], "file": "model-00001-of-00002.safetensors",
                        "matrices": 21, "of": 43, "example": "model.layers.0.mlp.up_proj.weight"}],
                jumps=[{**own[1], "file": "model-00001-of-00002.safetensors",
                        "relative_l2": 0.61, "expected": 0.034, "score": 31.5}],
                not_finite=[{**{"checkpoint": own[6]["checkpoint"], "name": own[6]["name"]},
                             "tensor": f"model.layers.{i}.mlp.<b>up</b>.weight", "nan": 3, "infinite": i}
                            for i in range(20)], gaps=[{"after": own[4], "before": own[5], "missing": 2}])
    world.trajectories[0]["watch"] = "/models/constant"
    world.trajectories[0]["watch_state"] = {"mode": "poll", "detail": None, "pending": ["step-9000"], "failed": [
        {"path": "step-100", "detail": "tensor \"x\" ends behind the file"}]}
    return own


def test_findings_are_listed_and_points_are_marked(world, spoiled, visit):
    page = visit(ADDRESS)
    page.wait(DRAWN)
    words = page.run(f"{PANEL}.innerText")
    for said in ("All 8 checkpoints read, 4 checkpoints marked", "2 hold the same weights",
                 "model-00001-of-00002.safetensors as in " + spoiled[7]["name"], "weights moved by 61",
                 "2 between " + spoiled[4]["name"], "<b>up</b>", "8 more", "looked at every few seconds",
                 "being written: step-9000", "step-100: tensor"):
        assert said in words, (said, words)
    marks = traces(page, "flag")
    assert [trace["yaxis"] for trace in marks] == ["y", "y", "y2", "y3"]
    assert marks[0]["x"] == [spoiled[place]["step"] for place in (1, 3, 5, 6)]
    curve = traces(page, "curve")[0]
    assert marks[0]["y"] == [curve["y"][place] for place in (1, 3, 5, 6)]
    assert "holds part of another checkpoint" in curve["text"][1] and "▲" not in curve["text"][0]
    badges = page.run("[...document.querySelectorAll('.checkpoints tbody th')]"
                      ".map(cell => [...cell.querySelectorAll('.badge')].map(badge => badge.innerText))")
    assert badges == [[], ["mixed", "jump"], [], ["identical"], [], ["identical"], ["not finite"], []]


def test_badges_go_with_their_cause(world, spoiled, visit):
    running = world.add_run("health", {"checkpoint": "c1"}, "running")
    page = visit(ADDRESS)
    page.wait(DRAWN)
    badges = "document.querySelectorAll('.checkpoints tbody .badge').length"
    assert page.run(badges) == 5
    with world.lock:
        world.spoil("constant", {})
    world.advance(running, state="succeeded")
    page.wait(f"{PANEL}.innerText.includes('nothing wrong')")
    page.wait(f"{badges} === 0")
    page.wait("document.querySelector('#plot').data.every(trace => trace.meta.kind !== 'flag')")


def test_what_was_not_read_has_a_command_and_what_is_clean_says_so(world, visit):
    world.spoil("decay-1M", {})
    page = visit("#/curves?trajectory=constant&trajectory=decay-1M")
    page.wait(DRAWN)
    sections = page.run(f"[...{PANEL}.querySelectorAll('section')].map(section => section.innerText)")
    assert '"kind":"health"' in sections[0] and '"standing":true' in sections[0]
    assert "read, nothing wrong" in sections[1] and traces(page, "flag") == []


def test_a_health_run_shows_its_blocks(world, visit):
    block = {"elements": 10, "nan": 0, "infinite": 0, "l1": 12.5, "l2": 3.25, "linf": 1.5, "kurtosis": 3.4,
             "outlier_share": 0.001, "relative_l2": None, "cosine": None}
    run = world.add_run("health", {"checkpoint": "c0", "previous": None}, "succeeded")
    run["result"] = {**block, "sha256": "b" * 64, "tensor_count": 4, "previous": None, "files": [],
                     "blocks": [{**block, "layer": layer} for layer in range(3)]}
    page = visit(f"#/runs/{run['id']}")
    page.wait("document.querySelectorAll('table tbody tr').length === 3")
    assert ("Weights by block" in page.run("document.body.innerText")
            and "3.4" in page.run("document.querySelector('tbody tr').innerText"))


def test_the_panel_fits_and_can_be_read(spoiled, visit):
    page = visit(ADDRESS)
    page.wait(DRAWN)
    page.wait(f"Boolean({PANEL})")
    check_looks(page, "integrity")
