"""The dashboard's change points and the newest plan of a trajectory. DELTAQ_SCREENSHOTS=DIR keeps pictures."""

import pytest
from looks import DRAWN, check_looks, traces

ADDRESS = "#/curves?trajectory=constant&x=step"
CHANGES = "document.querySelector('section[aria-label=\"Change points\"]')"
ADVICE = "document.querySelector('section.advice')"
ROWS = ("[...document.querySelectorAll('section.advice tbody tr')].map(row => [...row.children]"
        ".map(cell => cell.innerText))")


def option(loss_fp, loss_q, behind, width=0.0, **act):
    delta = loss_q / loss_fp - 1
    return {"decay": None, "average": None, "continue": None, **act, "tokens": 5_000_000, "measured": not width,
            "behind": behind, "behind_interval": [behind - width, behind + width] if behind else [0, 0],
            "loss_fp": loss_fp, "loss_q": loss_q, "delta": delta,
            **{f"{name}_interval": [value - width / 2, value + width / 2]
               for name, value in (("loss_fp", loss_fp), ("loss_q", loss_q), ("delta", delta))}}


@pytest.fixture
def planned(world):
    run = world.add_run("plan", {"trajectory": "constant", "budget": 1_000_000}, "succeeded")
    options = [option(2.31, 2.42, 0.06, 0.04, decay=2_000_000), option(2.30, 2.36, 0.0, average=5),
               option(2.38, 2.47, 0.11, 0.02, **{"continue": 2_000_000})]
    points = [{"decay": None, "average": None, "continue": None, "checkpoint": "c7", "tokens": 4_000_000,
               "loss_fp": 2.4, "loss_q": 2.5, "delta": 0.0417}]
    run["result"] = {"checkpoint": "c7", "tokens": 4_000_000, "method": "gptq 3-bit g128",
                     "options": options, "recommended": 1, "points": points,
                     "reason": "the average of the last 5 checkpoints has the lowest quantized loss, 2.3600",
                     "trained_tokens": 990_000, "recipe_id": "a" * 16, "protocol_id": "b" * 16, "calibration_id": None}
    return run


def test_a_change_is_marked_and_told_in_words(world, planned, visit):
    world.changes["constant", "delta", "gptq 3-bit g128"] = ("slope", 4, 3, 6, 2e-9)
    page = visit(ADDRESS)
    page.wait(DRAWN)
    (mark,), (_, curve) = traces(page, "change"), traces(page, "curve")
    assert mark["x"] == [curve["x"][4]] and mark["y"] == [curve["y"][4]] and mark["text"] == ["bends up"]
    words = page.run(f"{CHANGES}.innerText")
    name = world.references("constant")[4]["name"]
    for said in ("constant, gptq 3-bit g128: ΔQL bends up after " + name, "likely from step ", "p = 0.004"):
        assert said in words, (said, words)
    check_looks(page, "advice")
    page.run("[...document.querySelectorAll('.legend .key')].find(key => key.innerText.includes('3-bit')).click()")
    page.wait("document.querySelector('#plot').data.every(trace => trace.meta.kind !== 'change')")


def test_a_change_is_marked_where_labels_name_the_evaluation(world, visit):
    """Two evaluations of one method: the label of the answer is then not that of the curve on the page."""
    world.changes["constant", "delta", "gptq 3-bit g128"] = ("slope", 4, 3, 6, 2e-9)
    for checkpoint in [item for item in world.checkpoints if item["trajectory"] == "constant"][:2]:
        run = world.measure(checkpoint, 3, 0.02, 3.0)
        world.datasets[run["id"]] = "wiki"
    page = visit(ADDRESS)
    page.wait(DRAWN)
    assert [mark["text"] for mark in traces(page, "change")] == [["bends up"]]
    assert "gptq 3-bit g128, on perl-manual-validation: " in page.run(f"{CHANGES}.innerText")


def test_no_change_and_no_test_are_told_apart(world, visit):
    page = visit(ADDRESS)
    page.wait(DRAWN)
    assert "No change of ΔQL beyond a smooth trend" in page.run(f"{CHANGES}.innerText") and traces(page, "change") == []
    assert page.run(f"{ADVICE} === null")
    page = visit("#/curves?trajectory=decay-1M&x=step")  # two checkpoints
    page.wait(DRAWN)
    assert page.run(f"{CHANGES} === null")
    page = visit("#/curves?trajectory=constant&x=learning_rate")
    page.wait(DRAWN)
    assert page.run(f"{CHANGES} === null") and not any("changepoints" in path and "learning_rate" in path
                                                       for _, path in world.requests)


def test_the_newest_plan_is_a_table_with_its_recommendation(world, planned, visit):
    page = visit(ADDRESS)
    page.wait(DRAWN)
    assert ("The average of the last 5 checkpoints has the lowest "
            "quantized loss, 2.3600." in page.run(f"{ADVICE}.innerText"))
    rows = page.run(ROWS)
    assert [row[0] for row in rows] == ["decay over 2M tokens", "average of the last 5 checkpoints recommended",
                                        "go on for 2M tokens"]
    assert ("2.4000 to 2.4400" in rows[0][3] and "measured" in rows[1][3] and rows[1][5] == "lowest"
            and "0.0200 to 0.1000" in rows[0][5])
    page.run(f"{ADVICE}.querySelectorAll('thead .sort')[0].click()")
    assert [row[0] for row in page.run(ROWS)][0] == "average of the last 5 checkpoints recommended"
    page.call("Page.reload")
    page.wait(DRAWN)
    assert [row[0] for row in page.run(ROWS)][0] == "average of the last 5 checkpoints recommended"
    planned["result"].update(recommended=None, reason="the options cannot be told apart: they are alike")
    page = visit(ADDRESS)
    page.wait(DRAWN)
    assert "The options cannot be told apart: they are alike." in page.run(f"{ADVICE}.innerText")
    assert page.run("document.querySelector('section.advice .badge') === null")
    page.run(f"{ADVICE}.querySelector('a').click()")
    page.wait(f"location.hash === '#/runs/{planned['id']}' && document.querySelectorAll('table tbody tr').length === 3")
    check_looks(page, "plan-run")
