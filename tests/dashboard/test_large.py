"""A trajectory of 25,000 checkpoints at two widths, 50,000 points: the page asks for as many points as its figure can
show and for more of them in a closer look, and no extreme is lost, in the figure or in the table. What is held here are
bytes, requests and nodes, which no busy machine changes; times are printed (pytest -s)."""

import gzip
import json
import statistics
import urllib.parse

import pytest
import stand_in
from looks import DRAWN, check_looks, traces
from stand_in import PLOTLY

CHECKPOINTS, SPIKE = 25_000, 17_321


@pytest.fixture(scope="module")
def large():
    """Made once: 50,000 measurements, one of them a spike that a sample of every n-th point would miss."""
    world = stand_in.World()
    world.add_trajectory("long", [])
    for index in range(CHECKPOINTS):  # from step 0 on
        checkpoint = world.add_checkpoint("long", index, 1e-3)
        for bits, scale in ((4, 0.004), (3, 0.03)):
            delta = scale * (1 + index / CHECKPOINTS) * (1 + 0.05 * ((index * 7919) % 101) / 101) * (
                4 if index == SPIKE and bits == 4 else 1)
            world.points.append(("delta", checkpoint, "gptq", bits, f"gptq {bits}-bit g128", delta, 0.9 * delta,
                                 1.1 * delta, "r0"))
        world.points.append(("loss_fp", checkpoint, None, None, "", 3.0, None, None, "r0"))
    return world


@pytest.fixture
def world(large, monkeypatch):
    """Answers are made once: what is measured is the page and not the stand-in."""
    kept, original = {}, large.curves
    monkeypatch.setattr(large, "flags_of", lambda checkpoint: [])

    def curves(names, metric, axis, most=0, checkpoint=None):
        asked = (*names, metric, axis, most, checkpoint)
        if asked not in kept:
            kept[asked] = original(names, metric, axis, most, checkpoint)
        return kept[asked]

    monkeypatch.setattr(large, "curves", curves)
    for metric in ("delta", "loss_fp", "learning_rate"):
        large.curves(["long"], metric, "tokens", POINTS)
    large.requests.clear()
    return large


POINTS = 1200  # of a curve, that the page asks for
BYTES = "performance.getEntriesByType('resource').filter(one => one.name.includes('/v1/'))" \
        ".reduce((sum, one) => sum + one.decodedBodySize, 0)"


def asked(world, path):
    """The requests for a path, with their fields."""
    found = [urllib.parse.urlsplit(one) for method, one in world.requests if method == "GET"]
    return [urllib.parse.parse_qs(one.query) for one in found if one.path == path]


# From a call to the frame after it; gives the time on the clock.
TIMED = """new Promise(done => {{ const began = performance.now(); {action};
  requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - began))); }})"""


def busy(page):
    """Seconds of processor time of the page's main thread: what other work on the machine does not stretch."""
    return next(one["value"] for one in page.call("Performance.getMetrics")["metrics"] if one["name"] == "TaskDuration")


def steps(page, actions):
    """Medians over steps, in milliseconds: (processor, clock)."""
    found = []
    for action in actions:
        before = busy(page)
        clock = page.run(TIMED.format(action=action))
        found.append((1000 * (busy(page) - before), clock))
    return tuple(statistics.median(column) for column in zip(*found))


def test_a_figure_of_many_points_costs_little_and_keeps_extremes(world, visit):
    page = visit("#/nowhere")
    page.run("performance.setResourceTimingBufferSize(2000)")
    page.call("Performance.enable", timeDomain="threadTicks")
    before = busy(page)
    page.run("location.hash = '#/curves?trajectory=long'")
    clock = page.run("""new Promise(done => { const began = performance.now(); (function look() {
      if (document.querySelector('#plot .scatterlayer .js-line')) done(performance.now() - began);
      else setTimeout(look, 5); })(); })""")
    first = 1000 * (busy(page) - before)
    page.wait("document.querySelector('table.checkpoints') !== null && document.querySelector('#read-integrity')"
              " !== null", seconds=120)
    page.wait(DRAWN)
    # Every curve is asked for with as many points as can be drawn, and nothing that is as long as the trajectory.
    assert {tuple(fields.get("points", ())) for fields in asked(world, "/v1/curves")} == {(str(POINTS),)}
    assert not asked(world, "/v1/trajectories/long/integrity")
    assert all(fields["limit"] == ["1"] for fields in asked(world, "/v1/checkpoints"))
    requests, received = len(world.requests), page.run(BYTES)
    assert requests < 30 and received < 2_500_000, (requests, received)
    whole = len(json.dumps(world.curves(["long"], "delta", "tokens")))
    assert received < whole / 3
    curves, nodes = traces(page, "curve"), page.run("document.querySelectorAll('#plot *').length")
    assert all(len(curve["x"]) <= 1300 for curve in curves) and nodes < 3000
    assert max(curves[0]["y"]) == pytest.approx(max(100 * row[5] for row in world.points
                                                    if row[0] == "delta" and row[3] == 4))
    toggle = steps(page, ["document.querySelector('.legend .key').click()"] * 6)
    assert not world.requests[requests:]  # what is hidden and shown is there already
    zoom = steps(page, [f"Plotly.relayout('plot', {{'xaxis.range': [{low}e9, {low + 2}e9]}})" for low in range(1, 7)])
    print(f"processor (clock): first figure {first:.0f} ms ({clock:.0f}), toggle {toggle[0]:.0f} ({toggle[1]:.0f}), "
          f"zoom {zoom[0]:.0f} ({zoom[1]:.0f}), {nodes} nodes, {requests} requests, {received} bytes")


WORST_FIRST = ("[...document.querySelectorAll('table.checkpoints .sort')]"
               ".find(button => button.innerText.includes('4-bit')).click()")
ROWS = "document.querySelectorAll('table.checkpoints tbody tr').length"


def test_a_closer_look_asks_for_more_and_has_all_points(world, visit):
    page = visit("#/curves?trajectory=long", ready="document.querySelector('table.checkpoints') !== null")
    page.wait(DRAWN)
    centre = SPIKE * stand_in.HALF
    page.run(f"void Plotly.relayout('plot', {{'xaxis.range': [{centre - 2e8}, {centre + 2e8}]}})")
    near = (f"document.querySelector('#plot').data.find(trace => trace.meta.kind === 'curve')"
            f".x.filter(x => Math.abs(x - {centre}) <= 2e8).length")
    page.wait(f"{near} > 700", seconds=120)
    assert page.run(near) == pytest.approx(2 * 2e8 / stand_in.HALF, abs=4)
    levels = [int(fields["points"][0]) for fields in asked(world, "/v1/curves") if fields["metric"] == ["delta"]]
    assert levels[0] == POINTS and levels[-1] >= CHECKPOINTS and all(
        level == POINTS or level in [POINTS * 2 ** place for place in range(1, 7)] + [100_000] for level in levels)


def test_the_table_knows_the_worst_and_reads_the_rest_on_request(world, visit):
    page = visit("#/curves?trajectory=long", ready="document.querySelector('table.checkpoints') !== null")
    page.wait("document.querySelector('#read-all') !== null")
    assert "of 25,000" in page.run("document.querySelector('#rows-read').innerText")
    page.run(WORST_FIRST)
    worst = f"step-{SPIKE * stand_in.HALF // stand_in.STEP}"
    assert page.run("document.querySelector('table.checkpoints tbody th').innerText") == worst
    assert page.run(ROWS) == 200
    page.click("#read-all")
    page.wait("document.querySelector('#read-all') === null && document.querySelector('table.checkpoints') !== null",
              seconds=120)
    pages = [fields for fields in asked(world, "/v1/checkpoints") if fields["limit"] != ["1"]]
    assert len(pages) == CHECKPOINTS // 1000
    assert {fields["fields"][0] for fields in pages} == {
        "id,name,trajectory,step,tokens,learning_rate,derived_from"}
    assert page.run("document.querySelector('table.checkpoints tbody th').innerText") == worst  # the order stays
    page.run("[...document.querySelectorAll('.more button')].find(button => button.innerText.includes('more')).click()")
    page.wait(f"{ROWS} === 1200")


def test_a_checkpoints_page_is_not_as_long_as_its_trajectory(world, visit):
    """Its neighbours, its place among all and the best one, of a few hundred points."""
    before, middle, after = world.checkpoints[11_999:12_002]
    run = world.add_run("quantize", {"checkpoint": middle["id"], "method": {"name": "gptq", "bits": 4},
                                     "evaluation": {"dataset": "text", "sequence_length": 128}}, "succeeded")
    point = next(row for row in world.points if row[1] is middle and row[0] == "delta" and row[3] == 4)
    run["result"], place = {"delta": point[5], "bits_per_weight": 4.15}, world.points.index(point)
    world.points[place] = (*point[:-1], run["id"] + "-middle")
    run["id"] += "-middle"  # all others are of one run
    try:
        page = visit("#/nowhere")
        page.run("performance.setResourceTimingBufferSize(2000)")
        page.run(f"location.hash = '#/checkpoints/{middle['id']}'")
        page.wait("document.querySelector('#why') !== null", seconds=120)
        values = [row[5] for row in world.points if row[0] == "delta" and row[3] == 4]
        rank = 1 + sum(value > point[5] for value in values)
        assert f"place {rank:,} of 25,000 checkpoints" in page.run("document.querySelector('#why').innerText")
        around = page.run("[...document.querySelectorAll('.heading a[title]')].map(link => link.title)")
        assert around == [before["name"], after["name"]]
        assert page.run(BYTES) < 300_000, page.run(BYTES)
    finally:
        world.runs.remove(run)
        world.points[place] = point


# --- Frontier ---------------------------------------------------------------------------------------------------------
FRONTIER = "document.querySelector('#quantized-frontier-plot')"
MARKERS = (f"{FRONTIER}.data.filter(({{meta}}) => meta.kind === 'points').flatMap(({{customdata}}) => [...customdata])")
SHOWN = "[...document.querySelectorAll('.legend .key[aria-pressed=true]')].map(key => key.innerText)"


@pytest.fixture
def lab(large, monkeypatch):
    """Beside the long trajectory a newer one of three checkpoints; all of both have their bits."""
    points, checkpoints = list(large.points), list(large.checkpoints)
    for metric, checkpoint, method, bits, label, value, _, _, _ in points:
        if metric == "delta":
            place = f"{checkpoint['id']}-{bits}"
            large.points += [("loss_q", checkpoint, method, bits, label, 3 * (1 + value), None, None, place),
                             ("bits_per_weight", checkpoint, method, bits, label, bits + 0.15, None, None, place)]
    trajectories = list(large.trajectories)
    large.add_trajectory("short", [])
    for index in range(3):
        checkpoint = large.add_checkpoint("short", index, 1e-3)
        for metric, value in (("loss_q", 3.0 - index / 10), ("bits_per_weight", 4.15)):
            large.points.append((metric, checkpoint, "gptq", 4, "gptq 4-bit g128", value, None, None, f"short-{index}"))
    yield large
    large.points[:], large.checkpoints[:], large.trajectories[:] = points, checkpoints, trajectories


def test_the_frontier_reads_the_newest_of_each_trajectory_and_no_more(lab, world, visit):
    page = visit("#/frontier", ready=f"{FRONTIER}?.data && {MARKERS}.length > 0")
    last = {name: [one["id"] for one in lab.checkpoints if one["trajectory"] == name][-1] for name in ("long", "short")}
    assert sorted(page.run(MARKERS)) == sorted([last["long"], last["long"], last["short"]])
    assert page.run(BYTES) < 30_000, "of 50,000 points only the ends are read"


def test_where_a_curve_ends_without_bits_the_frontier_reads_it_whole(lab, world, visit):
    """The last checkpoint's loss is not finite, so that its curve ends earlier than that of its bits."""
    own = [one for one in lab.checkpoints if one["trajectory"] == "short"]
    lab.points[:] = [one for one in lab.points if one[0] != "loss_q" or one[1]["id"] != own[-1]["id"]]
    for index, (metric, checkpoint, *rest) in enumerate(lab.points):  # and the bits' own ends leave out the middle
        if metric == "bits_per_weight" and checkpoint["id"] == own[1]["id"]:
            before = (metric, own[0], *rest[:-1], "older")
            lab.points[index:index] = [before] * 3
            break
    page = visit("#/frontier?trajectory=short", ready=f"{FRONTIER}?.data && {MARKERS}.length > 0")
    assert page.run(MARKERS) == [own[1]["id"]]


def test_all_of_a_lab_are_as_many_as_a_figure_draws(lab, world, visit):
    """The newest trajectories first; the others can be chosen."""
    page = visit("#/frontier?which=all", ready=f"{FRONTIER}?.data && {MARKERS}.length > 0")
    assert page.run(f"{MARKERS}.length") == 3 and page.run(SHOWN) == ["short"]
    assert "more than 10,000 points: the newest one is shown" in page.run("document.querySelector('.remark').innerText")
    check_looks(page, "frontier-lab")
    page.click("button[data-value=newest]")
    page.wait(f"{MARKERS}.length === 3 && {SHOWN}.length === 2 && document.querySelector('.remark').hidden")


def test_the_plots_bundle_is_small():
    if not PLOTLY.is_file():
        pytest.skip("build/static/plotly.js is missing; run `make static`")
    assert len(gzip.compress(PLOTLY.read_bytes(), 6)) <= 500_000
    assert b"Plotly, Inc" in PLOTLY.read_bytes()[:400]
