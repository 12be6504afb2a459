"""The dashboard's curvature panels, scatter page, and the pages of runs of sharpness, average, interpolate and
landscape, against the stand-in. DELTAQ_SCREENSHOTS=DIR keeps pictures, as for test_dashboard.py."""

import json
import math

import pytest
import stand_in
import stand_in_geometry
from looks import DRAWN, THREE, check_looks, traces
from stand_in import HOSTILE


@pytest.fixture
def world():
    world = stand_in.demonstration()
    stand_in_geometry.geometry(world)
    return world


@pytest.fixture
def figure(visit):
    """figure(address, id) -> a tab in which the figure `id` is drawn."""
    if not (stand_in.ROOT / "build" / "static" / "plotly.js").is_file():
        pytest.skip("build/static/plotly.js is missing; run `make static`")

    def go(address, identity):
        page = visit(address)
        page.wait(f"Boolean(document.querySelector('#{identity} .main-svg') "
                  f"&& document.querySelector('#{identity}').data)")
        return page

    return go


def data(page, identity, kind):
    """The traces of a kind, without what Plotly keeps in them as typed arrays or elements."""
    return page.run(f"document.querySelector('#{identity}').data.filter(trace => trace.meta "
                    f"&& trace.meta.kind === {json.dumps(kind)})"
                    ".map(({x, y, z, text, name, line, marker, meta, customdata, error_y}) => "
                    "JSON.parse(JSON.stringify({x, y, z, text, name, line, marker, meta, customdata, error_y})))")


# --- Curves -----------------------------------------------------------------------------------------------------------
def test_measured_curvature_has_panels_between_loss_and_learning_rate(world, visit):
    page = visit(THREE)
    page.wait(DRAWN)
    assert page.run("document.querySelector('#plot').layout.annotations.map(note => note.text)") == [
        "ΔQL (%)", "full-precision loss (nats)", "largest eigenvalue of the Hessian", "trace of the Hessian",
        "learning rate"]
    top = traces(page, "largest_algebraic")
    answer = world.curves(["constant", "decay-1M", "decay-3M"], "largest_algebraic", "tokens")
    assert [trace["y"] for trace in top] == [[point["y"] for point in series["points"]] for series in answer["series"]]
    assert ({trace["yaxis"] for trace in top} == {"y3"}
            and {trace["yaxis"] for trace in traces(page, "trace")} == {"y4"}
            and {trace["yaxis"] for trace in traces(page, "rate")} == {"y5"})
    assert data(page, "plot", "trace")[0]["error_y"]["array"][0] == pytest.approx(
        0.08 * traces(page, "trace")[0]["y"][0])
    # one x axis
    assert page.run("(({range}) => range)(document.querySelector('#plot')._fullLayout.xaxis2 ?? {})") is None


def test_a_metric_in_percent_is_drawn_in_percent_in_its_panel_too(world, visit, monkeypatch):
    monkeypatch.setitem(stand_in.stand_in_metrics.KNOWN["trace"], "format", "percent")
    world.spoil("constant", {7: ["identical"]})
    page = visit("#/curves?trajectory=constant")
    page.wait(DRAWN)
    panel, = data(page, "plot", "trace")
    points = world.curves(["constant"], "trace", "tokens")["series"][0]["points"]
    assert panel["y"] == pytest.approx([100 * point["y"] for point in points])
    assert panel["error_y"]["array"][0] == pytest.approx(100 * (points[0]["high"] - points[0]["y"]))
    marked = page.run("document.querySelector('#plot').data.filter(trace => trace.meta.kind === 'flag' "
                      "&& trace.yaxis === 'y4').map(trace => [...trace.y])")
    assert marked == [pytest.approx([panel["y"][7]])]


def test_averages_are_a_series_of_their_own_and_say_so(visit):
    page = visit("#/curves?trajectory=constant&trajectory=constant-lawa5")
    page.wait(DRAWN)
    assert [len(trace["x"]) for trace in traces(page, "curve")] == [8, 8, 4, 4]
    assert page.run("[...document.querySelectorAll('.chip .badge')].map(badge => badge.innerText)") == ["averages"]
    assert any("average of 5 checkpoints" in text for text in traces(page, "curve")[2]["text"])


# --- Scatter ----------------------------------------------------------------------------------------------------------
def test_scatter_shows_points_by_trajectory_with_fit_and_correlation(world, figure):
    page = figure("#/scatter", "scatter-plot")
    points, fits = data(page, "scatter-plot", "points"), data(page, "scatter-plot", "fit")
    assert (sum(len(trace["x"]) for trace in points) == 32
            and len({trace["marker"]["line"]["color"] for trace in points}) == 4)
    assert ([fit["meta"]["label"] for fit in fits] == ["gptq 4-bit g128", "gptq 3-bit g128"]
            and fits[0]["line"]["dash"] == "solid" and fits[1]["line"]["dash"] == "dash")
    answer = stand_in_geometry.correlations(world, None, "largest_algebraic", "delta")
    pairs = [(point["x"], 100 * point["y"]) for point in answer["points"] if "3-bit" in point["label"]]
    x, y = stand_in_geometry.mean([a for a, _ in pairs]), stand_in_geometry.mean([b for _, b in pairs])
    slope = sum((a - x) * (b - y) for a, b in pairs) / sum((a - x) ** 2 for a, _ in pairs)
    assert (fits[1]["y"][-1] - fits[1]["y"][0]) / (fits[1]["x"][-1] - fits[1]["x"][0]) == pytest.approx(slope)
    caption = page.run("document.querySelector('.caption').innerText")
    found = answer["series"][0]
    assert (f"gptq 3-bit g128: n = 16, Pearson {found['pearson']:.2f} (95 %: "
            f"{found['interval'][0]:.2f} to {found['interval'][1]:.2f}), Spearman" in caption)
    assert (f"within trajectories and token budgets {found['within']['pearson']:.2f} (95 %" in caption
            and "correlation of the 11 changes between neighbouring checkpoints: " in caption)


def test_scatter_choices_are_drawn_and_kept_in_the_address(world, figure):
    page = figure("#/scatter?trajectory=constant", "scatter-plot")
    assert {trace["meta"]["trajectory"] for trace in data(page, "scatter-plot", "points")} == {"constant"}
    page.run("document.querySelectorAll('button[data-value=log]').forEach(button => button.click())")
    page.wait("document.querySelector('#scatter-plot')._fullLayout.xaxis.type === 'log' "
              "&& document.querySelector('#scatter-plot')._fullLayout.yaxis.type === 'log'")
    fit = data(page, "scatter-plot", "fit")[0]
    middle = len(fit["x"]) // 2
    # straight as drawn
    assert math.log(fit["y"][middle]) == pytest.approx((math.log(fit["y"][0]) + math.log(fit["y"][-1])) / 2)
    page.run("(select => { select.value = 'gptq 4-bit g128'; select.dispatchEvent(new Event('change')); "
             "})(document.querySelector('select[aria-label=Quantizer]'))")
    page.wait("document.querySelector('#scatter-plot').data.filter(trace => trace.meta.kind === 'fit').length === 1")
    page.run("(select => { select.value = 'trace'; select.dispatchEvent(new Event('change')); "
             "})(document.querySelector('select[aria-label=x]'))")
    page.wait("document.querySelector('#scatter-plot')._fullLayout.xaxis.title.text === 'trace of the Hessian'")
    assert (page.run("location.hash")
            == "#/scatter?trajectory=constant&x=trace&xscale=log&yscale=log&label=gptq+4-bit+g128")
    page.run("[...document.querySelectorAll('.legend .key')].find(key => key.innerText === 'decay-3M').click()")
    page.wait(
        "new Set(document.querySelector('#scatter-plot').data.map(trace => trace.meta.trajectory)).has('decay-3M')")


def test_scatter_of_full_precision_alone_can_be_chosen(world, figure):
    """Its label is empty, and so was the choice of every quantizer by itself."""
    for checkpoint in world.checkpoints:
        for label, bits, value in (("", None, 0.5), ("gptq 3-bit g128", 3, 0.4)):
            value += 1e-4 * checkpoint["step"]
            world.points.append(("mean_accuracy", checkpoint, bits and "gptq", bits, label, value, None, None, None))
    page = figure("#/scatter?y=mean_accuracy", "scatter-plot")
    fits = "document.querySelector('#scatter-plot').data.filter(trace => trace.meta.kind === 'fit')"
    assert page.run(f"{fits}.length") == 2
    page.run("(select => { select.value = [...select.options].find(one => one.text === 'full precision').value; "
             "select.dispatchEvent(new Event('change')); })(document.querySelector('select[aria-label=Quantizer]'))")
    page.wait(f"{fits}.length === 1")
    assert page.run(f"{fits}[0].meta.label") == ""
    assert page.run("location.hash") == "#/scatter?y=mean_accuracy&label=full+precision"
    page = figure("#/scatter?y=mean_accuracy&label=full+precision", "scatter-plot")
    chosen = "document.querySelector('select[aria-label=Quantizer]').selectedOptions[0].text"
    assert page.run(chosen) == "full precision" and page.run(f"{fits}.map(({{meta}}) => meta.label)") == [""]


def test_scatter_says_which_trajectories_are_left_out_and_saves_what_it_shows(world, figure):
    """The interface takes 32 names at once: figure and file are of the same ones, and a press brings in another."""
    for number in range(31):
        world.add_trajectory(f"many-{number}", [])
    names = [item["name"] for item in world.trajectories]
    address = "#/scatter?" + "&".join(f"trajectory={name}" for name in names)
    page = figure(address, "scatter-plot")
    left = len(names) - 32
    assert f"At most 32 trajectories are shown at once: {left} more are" in page.run(
        "document.querySelector('.remark').innerText")
    pressed = "[...document.querySelectorAll('.legend .key[aria-pressed=true]')].map(key => key.innerText)"
    assert sorted(page.run(pressed)) == sorted(names[:32])
    page.click("#save-csv")
    page.downloaded(".csv")
    asked = [stand_in.urllib.parse.parse_qs(path.split("?")[1])["trajectory"]
             for _, path in world.requests if path.startswith("/v1/correlations")]
    assert len(asked) == 2 and asked[0] == asked[1] == names[:32]
    page.run(f"[...document.querySelectorAll('.legend .key')].find(key => key.innerText === '{names[-1]}').click()")
    page.wait(f"{pressed}.includes('{names[-1]}')")
    assert page.run(f"{pressed}.length") == 32
    for name in [names[-1], *names[:left + 1]]:
        page.run(f"[...document.querySelectorAll('.legend .key')].find(key => key.innerText === '{name}').click()")
        page.wait(f"!{pressed}.includes('{name}')")
    page.wait("document.querySelector('.remark').hidden || !document.querySelector('.remark').innerText.includes('32')")


PRESSED = "[...document.querySelectorAll('.legend .key[aria-pressed=true]')].map(key => key.innerText)"


def test_scatter_of_more_than_the_server_takes_shows_the_newest_trajectories(world, figure):
    """32 pairs: 16 of `constant`, 4 of each decay, 8 of the averages, which are the newest."""
    world.most_pairs = 12
    page = figure("#/scatter", "scatter-plot")
    page.expected = ["422"]
    note = page.run("document.querySelector('.remark').innerText")
    assert "more than 12 pairs: name trajectories, method or bits" in note and "The newest 2 are shown" in note
    newest = [item["name"] for item in world.trajectories][:-3:-1]
    assert page.run(PRESSED) == newest and page.run("location.hash") == "#/scatter?" + "&".join(
        f"trajectory={name}" for name in newest)
    assert {trace["meta"]["trajectory"] for trace in data(page, "scatter-plot", "points")} == set(newest)
    # A choice that is too large keeps the buttons; the one before is a press away.
    key = "[...document.querySelectorAll('.legend .key')].find(key => key.innerText === 'constant')"
    page.run(f"{key}.click()")
    page.wait("document.querySelector('.remark .problem') !== null")
    assert "more than 12 pairs" in page.run("document.querySelector('.remark').innerText")
    assert page.run(f"{PRESSED}.length") == 3
    assert page.run("document.querySelector('#scatter-plot').offsetHeight") == 0
    page.run(f"{key}.click()")
    page.wait("document.querySelector('.remark').hidden")
    assert page.run(PRESSED) == newest


def test_scatter_that_the_server_refuses_keeps_its_controls(world, visit):
    world.most_pairs = 1
    page = visit("#/scatter?label=gptq+3-bit+g128")
    page.expected = ["422"]
    assert "more than 1 pairs" in page.run("document.querySelector('.remark').innerText")
    assert page.run("document.querySelectorAll('.legend .key').length") == len(world.trajectories)
    assert "label=gptq" in page.run("location.hash")


def test_scatter_without_pairs_says_where_they_come_from(world, visit):
    world.points[:] = [point for point in world.points if point[0] != "largest_algebraic"]
    page = visit("#/scatter")
    assert page.run("document.querySelector('#scatter-plot').offsetHeight") == 0  # no axes without points
    assert "runs of the kind sharpness" in page.run("document.querySelector('.remark').innerText")


# --- Runs -------------------------------------------------------------------------------------------------------------
def test_a_sharpness_run_shows_spectrum_and_the_terms_of_the_prediction(world, figure):
    page = figure("#/runs/sharpness-c7", "spectrum-plot")
    run = next(run for run in world.runs if run["id"] == "sharpness-c7")
    density = data(page, "spectrum-plot", "density")[0]
    widths = [b - a for a, b in zip(density["x"], density["x"][1:])]
    assert sum(y * w for y, w in zip(density["y"], widths)) == pytest.approx(1, rel=0.01)  # the weights sum to one
    assert len(data(page, "spectrum-plot", "nodes")[0]["x"]) == 64
    page.wait("Boolean(document.querySelector('#terms-plot')?.data && document.querySelector('#blocks-plot')?.data)")
    heat = page.run("(({type, z}) => ({type, z}))(document.querySelector('#terms-plot').data[0])")
    first = run["result"]["by_layer"][0]
    assert (heat["type"] == "heatmap"
            and heat["z"][0][0] == pytest.approx(first["gradient_term"] + first["curvature_term"])
            and len(heat["z"]) == 7)
    assert len(data(page, "blocks-plot", "curvature_term")[0]["y"]) == 6
    text = page.run("document.querySelector('main').innerText")
    for expected in ("Top eigenvalue", "Predicted ΔQL", "± 69.7", "Smallest eigenvalue", "embeddings",
                     "constant/step-1953"):
        assert expected in text


def test_a_prediction_beyond_its_range_is_marked(world, figure):
    run = next(run for run in world.runs if run["id"] == "sharpness-c7")
    run["result"].update(predicted_delta=0.45, prediction_in_range=True)
    page = figure("#/runs/sharpness-c7", "terms-plot")
    assert "out of range" not in page.run("document.querySelector('main').innerText").lower()
    run["result"].update(prediction_in_range=False)
    page.call("Page.reload")
    page.wait("document.querySelector('.tiles') !== null && document.querySelector('#terms-plot') !== null")
    words = "Out of range: beyond 20 % the second order was found 1.8 to 3.3 times too small."
    assert words in page.run("document.querySelector('.tiles').innerText")
    assert words in page.run("document.querySelector('#terms-plot').closest('section').innerText")
    page.run("location.hash = '#/checkpoints/c7'")
    page.wait("document.querySelector('table.measured') !== null")
    assert "45.0 %\nout of range" in page.run("document.querySelector('table.measured').innerText")


def test_estimators_that_were_not_asked_for_have_no_tiles(world, figure):
    run = next(run for run in world.runs if run["id"] == "sharpness-c7")
    run["result"].update(trace=None, trace_stderr=None, spectrum=None)
    page = figure("#/runs/sharpness-c7", "terms-plot")
    tiles = page.run("document.querySelector('.tiles').innerText")
    assert ("Trace" not in tiles and "not finite" not in tiles
            and page.run("document.querySelector('#spectrum-plot')") is None)


def test_a_landscape_is_an_even_plane_with_the_path(world, figure):
    page = figure("#/runs/landscape", "landscape-plot")
    found = next(run for run in world.runs if run["id"] == "landscape")["result"]
    shape = "document.querySelector('#landscape-plot')._fullLayout"
    contour, path = data(page, "landscape-plot", "landscape")[0], data(page, "landscape-plot", "path")[0]
    assert (len(contour["z"]) == 15 and len(contour["z"][0]) == 20 and contour["z"][14][19] is None
            and [list(pair) for pair in zip(path["x"], path["y"])] == found["points"])
    assert page.run(f"[{shape}.xaxis.title.text, {shape}.yaxis.title.text]") == [
        "direction 1 (61.3 % of variance)", "direction 2 (18.4 % of variance)"]
    assert page.run(f"Math.abs({shape}.xaxis._m) / Math.abs({shape}.yaxis._m)") == pytest.approx(1, rel=0.01)
    page.wait("document.querySelector('#landscape-plot').data[1].text[0].includes('step-244')")
    page.click("button[data-value=deltas]")
    page.wait("document.querySelector('#landscape-plot').data[0].z[0][0] < 10")
    assert "1 of 300 losses is not finite" in page.run("document.querySelector('main').innerText")


def test_a_line_shows_both_losses_and_their_damage(world, figure):
    page = figure("#/runs/line", "line-plot")
    found = next(run for run in world.runs if run["id"] == "line")["result"]
    assert (data(page, "line-plot", "losses")[0]["y"] == found["losses"]
            and data(page, "line-plot", "losses_q")[0]["y"] == found["losses_q"])
    assert data(page, "line-plot", "deltas")[0]["y"] == pytest.approx([100 * delta for delta in found["deltas"]])
    page.wait("document.querySelector('#line-plot').layout.annotations.map(note => note.text).join() "
              "=== 'step-976,step-1953'")
    assert "constant/step-976 → constant/step-1953" in page.run("document.querySelector('h1').innerText")
    del found["losses_q"], found["deltas"], found["delta_intervals"]
    page.call("Page.reload")
    page.wait("document.querySelector('#line-plot')?.data?.length === 1")


def test_a_comparison_tells_differences_by_sequence_and_by_token(world, visit):
    page = visit("#/runs/compare")
    page.wait("document.querySelectorAll('main table').length === 2")
    page.wait("document.querySelector('h1').innerText.includes(' and ')")
    text = page.run("document.querySelector('main').innerText")
    run = next(run for run in world.runs if run["id"] == "compare")
    for expected in ("1.25 to 1.67 points", "3.9", "63.4 %", "61.0 to 66.0 %", "8,255 predictions",
                     "Quantized loss (nats)"):
        assert expected in text, expected
    assert page.run("document.querySelectorAll('main table strong').length") == 3  # the divergences' interval holds 0
    run["result"].update(by_token=None, note="calibrated on different samples")
    page.call("Page.reload")
    page.wait("document.querySelector('main').innerText.includes('different samples')")
    assert page.run("document.querySelectorAll('main table').length") == 1


def test_a_comparison_calls_its_numbers_as_the_server_does(world, visit, monkeypatch):
    figure = next(one for one in stand_in.stand_in_metrics.FIGURES
                  if (one["kind"], one["name"]) == ("quantize", "kl"))
    for field, value in (("label", "Divergence of tokens"), ("unit", "bits"), ("format", "percent")):
        monkeypatch.setitem(figure, field, value)
    page = visit("#/runs/compare")
    page.wait("document.querySelectorAll('main table').length === 2")
    cells = "[...document.querySelectorAll('main tbody tr')].map(row => [...row.cells].map(cell => cell.innerText))"
    found = [row for row in page.run(cells) if row[0] == "Divergence of tokens"]
    assert len(found) == 2 and found[0][1:3] == ["6.10 %", "6.11 %"]


def test_an_average_leads_to_what_it_made(world, visit):
    page = visit("#/runs/average")
    page.wait("document.querySelectorAll('ul.plain a').length === 4")
    assert page.run("document.querySelector('ul.plain a').innerText") == "constant-lawa5/step-1220"
    run = next(run for run in world.runs if run["id"] == "average")
    run["result"].update(window=3,
                         windows=[{"window": window, "loss": 2.4, "loss_q": 2.45, "delta": 0.02, "delta_interval": None}
                                  for window in (1, 3)])
    page.call("Page.reload")
    page.wait("document.querySelector('main').innerText.includes('3 (best)')")


@pytest.mark.parametrize("address, identity", [("#/scatter", "scatter-plot"), ("#/runs/landscape", "landscape-plot"),
                                               ("#/runs/line", "line-plot")])
def test_hostile_names_stay_text(world, figure, address, identity):
    for checkpoint in world.checkpoints:
        checkpoint["name"] = HOSTILE
    for trajectory in world.trajectories:
        trajectory["name"] += HOSTILE
    for checkpoint in world.checkpoints:
        checkpoint["trajectory"] += HOSTILE
    page = figure(address, identity)
    page.wait(f"JSON.stringify([document.querySelector('#{identity}').data.map(trace => trace.text), "
              f"document.querySelector('#{identity}').layout.annotations]).includes('&lt;img')")
    assert (page.run("document.querySelectorAll('main img, main script').length") == 0
            and page.run("window.hurt") is None)


# --- How it looks -----------------------------------------------------------------------------------------------------
PAGES = {"curvature": (THREE + "&trajectory=constant-lawa5", "plot"), "scatter": ("#/scatter", "scatter-plot"),
         "sharpness": ("#/runs/sharpness-c7", "terms-plot"), "landscape": ("#/runs/landscape", "landscape-plot"),
         "line": ("#/runs/line", "line-plot"), "average": ("#/runs/average", None), "compare": ("#/runs/compare", None)}


@pytest.mark.parametrize("name", PAGES)
def test_pages_fit_their_width_and_are_readable_in_light_and_dark(visit, figure, name):
    address, identity = PAGES[name]
    page = figure(address, identity) if identity else visit(address)
    check_looks(page, name)
