"""Errors and differences of percentages are points: a percentage of a percentage would be read as a relative change."""

import pytest
from looks import DRAWN, check_looks


def sharpness(world):
    """A run of c7 that predicts ΔQL, with the trace and both standard errors."""
    run = world.add_run("sharpness", {"checkpoint": "c7", "dataset": "perl-manual-validation",
                                      "direction": {"method": {"name": "rtn", "bits": 4}}, "random_directions": 4},
                        "succeeded")
    run["result"] = {"loss": 2.5, "trace": 310.0, "trace_stderr": 12.25, "predicted_delta": 0.00879,
                     "predicted_delta_stderr": 0.00197, "prediction_in_range": True}
    return run


@pytest.mark.parametrize("width", [1280, 400])
def test_a_standard_error_of_a_percentage_is_in_points(world, visit, width):
    run = sharpness(world)
    page = visit(f"#/runs/{run['id']}", width=width)
    tiles = page.run("[...document.querySelectorAll('.tiles > div')].map(tile => tile.innerText.replace(/\\n/g, ' '))")
    assert "Predicted ΔQL 0.879 % ± 0.197 points (standard error)" in tiles
    assert "Trace 310 ± 12.3 (standard error)" in tiles  # no percentage
    page = visit("#/checkpoints/c7", width=width)
    rows = page.run("[...document.querySelectorAll('table.measured tbody tr')].map(row => [...row.cells]"
                    ".map(cell => cell.innerText.trim()))")
    assert {row[0]: row[1:3] for row in rows if "standard error" in row[2]} == {
        "Predicted ΔQL": ["0.879 %", "± 0.197 points (standard error)"],
        "Trace": ["310", "± 12.3 (standard error)"]}
    check_looks(page, f"points-{width}")


def cells(page, table):
    return page.run(f"[...document.querySelectorAll('{table} tbody tr')].map(row => [...row.cells]"
                    ".map(cell => cell.innerText.trim()))")


def points(share):
    return f"{100 * share:.4f} points".replace("-", "−")


@pytest.mark.parametrize("width", [1280, 400])
def test_differences_of_percentages_are_in_points(world, visit, width):
    """On the page of a comparison, of two checkpoints and of one beside its neighbours, and in words."""
    b, a = (next(run["result"]["delta"] for run in world.runs if run["params"].get("checkpoint") == name
                 and run["params"]["method"]["bits"] == 4) for name in ("c3", "c2"))  # fmt: skip
    page = visit("#/compare?a=c2&b=c3", width=width)
    page.wait("document.querySelector('table.measured') !== null")
    found = {row[0]: row[5] for row in cells(page, "table.measured") if "4-bit" in row[1]}
    assert found["ΔQL"].startswith(points(b - a)) and found["ΔQL"].endswith(" points") and " to " in found["ΔQL"]
    assert "points" not in found["Full-precision loss (nats)"]
    page = visit("#/checkpoints/c3", width=width)
    page.wait("document.querySelector('table.beside') !== null")
    row = next(row for row in cells(page, "table.beside") if row[0].startswith("ΔQL gptq 4-bit"))
    assert row[5].startswith(points(b - a)) and row[5].endswith(" points") and row[1].endswith("%")
    words = page.run("document.querySelector('#why').innerText")
    assert "points, 95 % paired: " in words and "points)" in words
    difference = world.add_run("compare", {"a": "r0", "b": "r1"}, "succeeded")
    side = {"a": 0.01, "b": 0.01448, "difference": 0.00448, "interval": [0.004, 0.005], "interval_method": "bootstrap",
            "worse": 9, "better": 1, "sign_p": 0.02}  # fmt: skip
    difference["result"] = {"kind": "quantize", "a": {"checkpoint": "c0"}, "b": {"checkpoint": "c1"}, "delta": side,
                            "sequences": 10}
    page = visit(f"#/runs/{difference['id']}", width=width)
    page.wait("document.querySelector('section[aria-label=Result] tbody tr') !== null")
    (row,) = cells(page, "section[aria-label=Result] table")
    assert row[:5] == ["ΔQL", "1.00 %", "1.45 %", "0.448 points", "0.400 to 0.500 points"]
    check_looks(page, f"difference-{width}")


def test_the_size_of_a_change_is_in_points(world, visit):
    world.changes[("constant", "delta", "gptq 4-bit g128")] = ("level", 3, 2, 4, 0.002)
    page = visit("#/curves?trajectory=constant")
    page.wait("document.querySelector('.changes') !== null")
    assert "jumps up by 0.200 points after" in page.run("document.querySelector('.changes').innerText")


def test_the_change_of_an_accuracy_is_in_points(world, visit):
    run = world.add_run("tasks", {"checkpoint": "c7", "tasks": [], "method": {"name": "rtn", "bits": 3}}, "succeeded")
    run["result"] = {"tasks": [], "mean_accuracy": 0.6, "mean_accuracy_change": -0.0167,
                     "mean_accuracy_change_interval": [-0.0841, 0.0502]}  # fmt: skip
    world.points += [("mean_accuracy_change", world.checkpoints[place], "rtn", 3, "rtn 3-bit", -0.0167, -0.0841, 0.0502,
                      run["id"]) for place in (6, 7)]  # fmt: skip
    page = visit("#/checkpoints/c7")
    rows = {row[0]: row[1:3] for row in cells(page, "table.measured")}
    assert rows["Change of Mean accuracy"] == ["−1.67 points", "−8.41 to 5.02 points"]
    assert rows["Mean accuracy"][0] == "60.0 %"
    page = visit("#/curves?trajectory=constant&metric=mean_accuracy_change")
    page.wait(DRAWN)
    summary = page.run("document.querySelector('.summary').innerText")
    assert "Change of Mean accuracy −1.67 points (rtn 3-bit)" in summary
    assert page.run("document.querySelector('#plot').layout.annotations[0].text") == "Change of Mean accuracy (points)"
    assert page.run("document.querySelector('table.checkpoints tbody tr:last-child .interval').innerText") == (
        "−8.41 – 5.02")
    assert page.run("[...document.querySelectorAll('table.checkpoints thead th')].at(-1).innerText") == (
        "rtn 3-bit · Change of Mean accuracy (points)")


def test_a_gate_limits_a_change_in_points(visit):
    page = visit("#/runs")
    words = page.run("import('/gates.js').then(({ruleWords}) => "
                     "ruleWords({metric: 'delta', max_change: 0.005, against_last: 1}))")
    assert words == "ΔQL minus that of the last measured checkpoint before it is at most 0.500 points"
