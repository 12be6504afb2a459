"""The figure of curves where little was measured: no panel is empty or drawn twice, and one point has its interval."""

import pytest
from looks import DRAWN, check_looks, traces
from stand_in import PLOTLY


@pytest.fixture(autouse=True)
def drawn():
    if not PLOTLY.is_file():
        pytest.skip("build/static/plotly.js is missing; run `make static`")


TITLES = "document.querySelector('#plot').layout.annotations.map(one => one.text)"
HEIGHT = "document.querySelector('#plot').offsetHeight"


def add(world, metric, value, *checkpoints, low=None, high=None):
    world.points += [(metric, checkpoint, None, None, "", value, low, high, "r0") for checkpoint in checkpoints]


@pytest.mark.parametrize("width", [1280, 400])
def test_a_training_in_which_nothing_is_quantized_has_no_empty_panels(world, visit, width):
    world.add_trajectory("fresh", [1e-3] * 3)
    page = visit("#/curves?trajectory=fresh", width=width)
    page.wait(DRAWN)
    assert page.run(TITLES) == ["learning rate"] and page.run(HEIGHT) < 300
    check_looks(page, f"fresh-{width}")
    add(world, "validation_loss", 4.5, *world.checkpoints[-3:])
    page = visit("#/curves?trajectory=fresh", width=width)
    page.wait(DRAWN)
    assert page.run(TITLES) == ["validation loss (nats)", "learning rate"] and page.run(HEIGHT) < 500
    assert [trace["y"] for trace in traces(page, "loss")] == [[4.5] * 3]
    top, bottom = (page.run(f"document.querySelector('#plot')._fullLayout.yaxis{place}.domain") for place in (2, 3))
    assert top[1] == 1 and bottom[0] == 0 and top[0] > bottom[1]
    check_looks(page, f"fresh-loss-{width}")
    world.measure(world.checkpoints[-1], 4, 0.01, 4.5)
    page = visit("#/curves?trajectory=fresh", width=width)
    page.wait(DRAWN)
    assert page.run(TITLES)[0] == "ΔQL (%)"


@pytest.mark.parametrize("metric, title", [
    ("largest_algebraic", "largest eigenvalue of the Hessian"), ("trace", "trace of the Hessian"),
    ("learning_rate", "learning rate"), ("loss_fp", "full-precision loss (nats)")])
def test_what_is_the_measure_is_not_drawn_again_below_it(world, visit, metric, title):
    add(world, "largest_algebraic", 3.0, *world.checkpoints[:8])
    add(world, "trace", 40.0, *world.checkpoints[:8])
    page = visit(f"#/curves?trajectory=constant&metric={metric}")
    page.wait(DRAWN)
    titles = page.run(TITLES)
    assert titles[0] == title and len(titles) == 4 and len(set(titles)) == 4


def test_a_single_point_has_its_interval_and_its_place(world, visit):
    world.add_trajectory("single", [1e-3], first=3)
    world.measure(world.checkpoints[-1], 4, 0.01, 4.5)
    metric, *rest, _, _, run = next(point for point in world.points[::-1] if point[0] == "delta")
    world.points[:] = [point for point in world.points if not (point[0] == "delta" and point[-1] == run)]
    world.points.append((metric, *rest, 0.008, 0.013, run))
    page = visit("#/curves?trajectory=single")
    page.wait(DRAWN)
    reach = page.run("(({array, arrayminus}) => [array[0], arrayminus[0]])"
                     "(document.querySelector('#plot').data.find(trace => trace.meta.kind === 'curve').error_y)")
    assert reach == pytest.approx([0.3, 0.2])
    ticks = "[...document.querySelectorAll('#plot .xaxislayer-above .xtick, #plot .xtick')].map(one => one.textContent)"
    assert set(page.run(ticks)) - {""} == {"1.5M"}
    page = visit("#/curves?trajectory=constant")  # of several points they are a band
    page.wait(DRAWN)
    assert page.run("document.querySelector('#plot').data.filter(trace => trace.meta.kind === 'curve')"
                    ".every(trace => !trace.error_y?.array)")
