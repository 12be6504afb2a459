"""Errors and differences of percentages are points: a percentage of a percentage would be read as a relative change."""

import pytest
from looks import check_looks


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
    tiles = page.run("[...document.querySelectorAll('.tiles > div')].map(tile => tile.innerText.split('\\n').join(' '))")
    assert "Predicted ΔQL 0.879 % ± 0.197 points (standard error)" in tiles
    assert "Trace 310 ± 12.3 (standard error)" in tiles  # no percentage
    page = visit("#/checkpoints/c7", width=width)
    rows = page.run("[...document.querySelectorAll('table.measured tbody tr')].map(row => [...row.cells]"
                    ".map(cell => cell.innerText.trim()))")
    assert {row[0]: row[1:3] for row in rows if "standard error" in row[2]} == {
        "Predicted ΔQL": ["0.879 %", "± 0.197 points (standard error)"],
        "Trace": ["310", "± 12.3 (standard error)"]}
    check_looks(page, f"points-{width}")
