"""What pages say where there is nothing to show, or not all of it."""

import pytest
import stand_in
import stand_in_service
from looks import DRAWN, check_looks


@pytest.fixture
def world():
    return stand_in.demonstration()


def note(page):
    return page.run("document.querySelector('.remark').innerText")


def height(page, identity):
    return page.run(f"document.querySelector('#{identity}').offsetHeight")


@pytest.mark.parametrize("width", [1280, 400])
def test_a_trajectory_without_checkpoints_says_how_its_training_ended(world, visit, width):
    world.add_trajectory("diverged", [])
    earlier = world.add_run("train", {"trajectory": "diverged", "dataset": "perl-manual"}, "succeeded")
    earlier["created_at"] = stand_in.stamp(0)
    page = visit("#/curves?trajectory=diverged", width=width)
    assert "appear as training goes on" in note(page) and height(page, "plot") == 0
    failed = world.add_run("train", {"trajectory": "diverged", "dataset": "perl-manual"}, "failed")
    failed["error"] = {"title": "Not finite", "status": 422, "detail": "training diverged at step 7"}
    page = visit("#/curves?trajectory=diverged", width=width)
    page.wait("document.querySelector('.remark .problem') !== null")
    assert "training diverged at step 7" in note(page) and "failed" in note(page)
    assert "goes on" not in note(page)
    assert page.run("document.querySelector('.remark a').getAttribute('href')") == f"#/runs/{failed['id']}"
    check_looks(page, f"diverged-{width}")
    world.add_run("train", {"trajectory": "diverged", "dataset": "perl-manual"}, "cancelled")
    page = visit("#/curves?trajectory=diverged", width=width)
    page.wait("document.querySelector('.remark .cancelled') !== null")
    assert page.run("document.querySelector('.remark .problem')") is None


@pytest.mark.parametrize("x, fields, words", [
    ("learning_rate", ["learning_rate"], "learning rate"), ("tokens", ["tokens"], "token count"),
    ("step", ["step"], "step"), ("share", ["step", "tokens"], "share of training")])
def test_what_has_no_place_on_the_axis_is_not_called_unmeasured(world, visit, x, fields, words):
    for checkpoint in world.checkpoints:
        checkpoint.update(dict.fromkeys(fields))
    page = visit(f"#/curves?trajectory=constant&x={x}")
    page.wait("document.querySelector('.remark').innerText !== ''")
    assert f"ΔQL was measured here, but of no checkpoint with a {words}." in note(page)
    assert "Nothing is quantized" not in note(page) and height(page, "plot") == 0
    check_looks(page, f"placeless-{x}")
    if x != "share":
        page.click(f"button[data-value={'step' if x == 'tokens' else 'tokens'}]")
        page.wait(DRAWN)
        page.wait("document.querySelector('.remark').hidden")
    world.points[:] = [point for point in world.points if point[0] != "kl"]
    page = visit(f"#/curves?trajectory=constant&x={x}&metric=kl")
    page.wait("document.querySelector('.remark').innerText !== ''")
    assert "KL divergence was not measured here yet." in note(page)


def test_pages_along_steps_speak_of_checkpoints_with_a_step(world, visit):
    for checkpoint in world.checkpoints:
        checkpoint["step"] = None
    page = visit()
    cells = page.run("[...document.querySelectorAll('td[data-label^=Newest]')].map(cell => cell.innerText)")
    assert cells == 3 * ["no measurement of a checkpoint with a step"]
    check_looks(page, "placeless-newest")
    page = visit("#/frontier")
    assert "have no measurement of a quantized checkpoint with a step" in note(page)


def test_a_frontier_without_points_has_no_axes(world, visit):
    world.points[:] = [point for point in world.points if point[2] is None]
    page = visit("#/frontier")
    assert "no measurement of a quantized checkpoint" in note(page) and height(page, "quantized-frontier-plot") == 0


def test_a_frontier_of_an_unknown_trajectory_says_so(visit):
    """And leaves no promise behind that nobody caught: visit() fails for such."""
    page = visit("#/frontier?trajectory=nope")
    page.expected = ["404"]
    page.wait("document.querySelector('.remark .problem') !== null")
    assert height(page, "quantized-frontier-plot") == 0


def test_the_suggested_sweep_measures_on_what_was_held_out(world, visit, monkeypatch):
    monkeypatch.setattr(stand_in_service, "DATASETS", ["held-out", "text"])  # the newest comes first
    world.add_trajectory("fresh", [1e-3])
    command = visit("#/curves?trajectory=fresh").run("document.querySelector('.remark code').textContent")
    assert '"evaluation":{"dataset":"held-out"}' in command


@pytest.mark.parametrize("names, inline, expected", [
    (["other", "mixed-validation", "mixed-train"], [], ["mixed-train", "mixed-validation"]),
    (["samples", "held-out", "text"], ["samples"], ["text", "held-out"]),
    (["samples", "text"], ["samples"], ["samples", "text"]), (["training"], [], [None, "training"]),
    (["training", "more"], [], ["training", "more"]), ([], [], [None, None])])
def test_what_to_calibrate_on_is_not_what_was_held_out(visit, names, inline, expected):
    """Nor samples that were given inline, while there is a text."""
    page = visit("#/runs")
    given = [{"name": name, "format": "sequences" if name in inline else "text"} for name in names]
    assert page.run("import('/notice.js').then(({suggested}) => (({calibration, evaluation}) => [calibration ?? null,"
                    f" evaluation ?? null])(suggested({stand_in.json.dumps(given)})))") == expected


def test_the_example_of_a_recipe_is_calibrated_on_other_data_than_it_is_measured_on(visit):
    command = visit("#/data").run("[...document.querySelectorAll('.command code')].at(-1).textContent")
    assert ('"calibration":{"dataset":"perl-manual"},"evaluation":{"dataset":"perl-manual-validation"}') in command


def test_curves_say_which_trajectories_they_leave_out(world, visit):
    for number in range(7):
        world.add_trajectory(f"more-{number}", [4e-3])
    names = [one["name"] for one in world.trajectories]  # ten
    page = visit("#/curves?" + "&".join(f"trajectory={name}" for name in names))
    page.wait(DRAWN)
    assert "2 more are chosen and left out" in note(page)
    assert page.run("document.querySelectorAll('.chip').length") == 8
    page.click(".chip a")
    page.wait("document.querySelector('.remark')?.innerText.includes('1 more is chosen')")
    shown = page.run("[...document.querySelectorAll('.chip .name')].map(chip => chip.innerText)")
    assert shown == names[1:9]
