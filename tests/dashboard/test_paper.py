"""Figures as an author takes them: as wide as a column or both, with fonts for that width and a line that says what was
measured on what; averages on their runs, losses along training, shares of training, and legends in words."""

import base64
import json
import re
import struct
import xml.etree.ElementTree as xml

import pytest
import stand_in
import stand_in_geometry
from looks import DRAWN, check_looks, traces
from stand_in import PLOTLY

DELTA, LOSS, FRONTIER = "save", "scatter-plot", "quantized-frontier-plot"


@pytest.fixture(autouse=True)
def drawn():
    if not PLOTLY.is_file():
        pytest.skip("build/static/plotly.js is missing; run `make static`")


@pytest.fixture
def world():
    world = stand_in.demonstration()
    stand_in_geometry.geometry(world)
    return world


def ready(identity):
    return f"Boolean(document.querySelector('#{identity} .main-svg') && document.querySelector('#{identity}').data)"


def data(page, identity, kind):
    return page.run(f"JSON.parse(JSON.stringify(document.querySelector('#{identity}')"
                    f".data.filter(trace => trace.meta.kind === '{kind}')))")


def choose(page, identity, width):
    page.run(f"(select => {{ select.value = '{width}'; select.dispatchEvent(new Event('change')); }})"
             f"(document.querySelector('#{identity}-width'))")


def texts(svg):
    return [" ".join(node.itertext()) for node in xml.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def sizes(svg):
    return {float(size) for size in re.findall(r"font-size: ([\d.]+)px", svg)}


FIGURES = [("#/curves?trajectory=constant", "plot", DELTA), ("#/scatter?x=loss_fp&y=loss_q", LOSS, LOSS),
           ("#/frontier", FRONTIER, FRONTIER)]


@pytest.mark.parametrize("address, plot, identity", FIGURES, ids=[figure[1] for figure in FIGURES])
def test_a_saved_figure_has_the_width_and_the_fonts_of_a_column(visit, address, plot, identity):
    page = visit(address, dark=True, ready=ready(plot))
    for width, inches, pixels in (("single", 3.5, 2100), ("double", 7.2, 4320)):
        choose(page, identity, width)
        page.click(f"#{identity}-svg")
        path = page.downloaded(".svg")
        svg, root = path.read_text(), xml.fromstring(path.read_text())
        assert root.get("width") == f"{inches}in" and root.get("viewBox").split()[2] == str(96 * inches).removesuffix(
            ".0")
        assert float(root.get("height").removesuffix("in")) / inches == pytest.approx(
            float(root.get("viewBox").split()[3]) / (96 * inches))
        assert "rgb(255, 255, 255)" in svg and "vector-effect" not in svg  # white on a dark page, too
        # 12 pixels of the screen are 8 points (10.67 pixels) on paper; nothing is larger but the mark of the worst.
        assert 32 / 3 in {round(size * 3) / 3 for size in sizes(svg)} and max(sizes(svg) - {16}) < 10.7
        path.unlink()
        page.click(f"#{identity}-png")
        path = page.downloaded(".png")
        assert struct.unpack(">I", path.read_bytes()[16:20]) == (pixels,)
        path.unlink()
    page.call("Page.reload")  # the browser keeps the choice
    page.wait(ready(plot))
    assert page.run(f"document.querySelector('#{identity}-width').value") == "double"


def test_a_saved_figure_says_what_was_measured_on_what(world, visit):
    page = visit("#/curves?trajectory=constant&trajectory=decay-1M")
    page.wait(DRAWN)
    choose(page, DELTA, "single")
    page.click("#save-svg")
    svg = page.downloaded(".svg").read_text()
    said = " ".join(texts(svg))
    for expected in ("ΔQL along training.", "perl-manual-validation, 192 sequences of 128 tokens.",
                     "Calibrated on perl-manual, 64 sequences of 128 tokens.", "Shaded and bars: 95 % interval.",
                     "▾ worst of a curve; ○ newest",
                     "constant · gptq 3-bit g128"):
        assert all(word in said for word in expected.split()), expected
        assert expected.replace(" ", "") in said.replace(" ", ""), expected
    page = visit("#/frontier", ready=ready(FRONTIER))
    page.click(f"#{FRONTIER}-svg")
    said = "".join(texts(page.downloaded(".svg").read_text())).replace(" ", "")
    assert "192sequencesof128tokens" in said and "Hollowmarkers:fewerthan4bits" in said.replace("hollow", "Hollow")


def test_legend_and_caption_lie_apart(visit):
    """However many entries the legend has: drawn as it is saved, no text of one lies on a text of the other."""
    page = visit("#/curves?trajectory=constant&trajectory=decay-1M&trajectory=decay-3M")
    page.wait(DRAWN)
    for width in ("single", "double", "screen"):
        choose(page, DELTA, width)
        page.click("#save-svg")
        path = page.downloaded(".svg")
        boxes = page.run("""(svg => { const place = document.createElement('div');
          const parsed = new DOMParser().parseFromString(svg, 'image/svg+xml').documentElement;
          place.append(document.importNode(parsed, true)); document.body.append(place);
          const box = (node) => node.getBoundingClientRect();
          const found = {whole: box(place.querySelector('svg')).bottom, title: box(place.querySelector('.gtitle')),
                         legend: box(place.querySelector('.legend')), axis: box(place.querySelector('.xtitle'))};
          const out = {title: [found.title.top, found.title.bottom], legend: [found.legend.top, found.legend.bottom],
                       axis: found.axis.bottom, whole: found.whole};
          place.remove(); return out; })(%s)""" % json.dumps(path.read_text()))
        path.unlink()
        assert boxes["axis"] <= boxes["legend"][0] + 1 and boxes["legend"][1] <= boxes["title"][0] + 1
        assert boxes["title"][1] <= boxes["whole"]


def test_a_figure_is_printed_alone_on_a_page_of_its_size(visit):
    page = visit("#/frontier", ready=ready(FRONTIER))
    page.run("window.print = () => { window.printed = (window.printed ?? 0) + 1; }")
    choose(page, FRONTIER, "single")
    assert "Save as PDF" in page.run(f"document.querySelector('#{FRONTIER}-pdf').title")
    page.click(f"#{FRONTIER}-pdf")
    page.wait("window.printed === 1")
    pdf = base64.b64decode(page.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"])
    (box,) = re.findall(rb"/MediaBox \[([\d.]+) ([\d.]+) ([\d.]+) ([\d.]+)\]", pdf)
    assert len(re.findall(rb"/Type /Page\b", pdf)) == 1 and float(box[2]) == pytest.approx(252, abs=1)
    page.wait("document.querySelector('.on-paper') === null && document.adoptedStyleSheets.length === 0")


def test_a_figure_that_cannot_be_printed_leaves_the_page_as_it_was(visit):
    page = visit("#/frontier", ready=ready(FRONTIER))
    page.run("HTMLImageElement.prototype.decode = () => Promise.reject(new Error('no such picture'))")
    page.click(f"#{FRONTIER}-pdf")
    page.wait("document.querySelector('.saving .problem')?.innerText.includes('no such picture')")
    assert page.run("document.querySelector('.on-paper') === null && document.adoptedStyleSheets.length === 0")


def test_a_name_that_is_longer_than_a_line_is_broken(visit):
    lines = visit().run("import('/paper.js').then(({wrapped}) => wrapped(`on ${'x'.repeat(100)} and more`, 30, 1, "
                        "(text) => text.length))")
    assert lines == ["on", "x" * 30, "x" * 30, "x" * 30, "x" * 10 + " and more"]


def test_the_line_of_a_logarithmic_axis_is_not_taken_for_the_correlation(visit):
    page = visit("#/scatter?x=loss_fp&y=delta&xscale=log", ready=ready(LOSS))
    page.click(f"#{LOSS}-svg")
    said = "".join(texts(page.downloaded(".svg").read_text())).replace(" ", "")
    assert "Thefitisofthelogarithmsasdrawn,thecorrelationofthenumbers." in said


# --- Averages, losses, shares -----------------------------------------------------------------------------------------
def test_averages_are_stars_on_their_runs(world, visit):
    page = visit("#/curves?trajectory=constant")
    page.wait(DRAWN + " && document.querySelector('#plot').data.some(trace => trace.meta.kind === 'average')")
    four, three = traces(page, "average")
    made = [item for item in world.checkpoints if item["trajectory"] == "constant-lawa5"]
    assert four["x"] == three["x"] == [item["tokens"] for item in made]
    assert four["marker"]["symbol"] == "star"
    curves = traces(page, "curve")
    assert four["marker"]["line"]["color"] == curves[0]["line"]["color"]
    assert four["marker"]["color"] != three["marker"]["color"] == "#ffffff"  # below 4 bits they are hollow
    answer = world.curves(["constant-lawa5"], "delta", "tokens")["series"]
    assert four["y"] == pytest.approx([100 * point["y"] for point in answer[0]["points"]])
    assert "★ average of checkpoints of the run" in page.run("document.querySelector('.marks').innerText")
    page.click(".legend .key")  # hidden with its curve
    page.wait("document.querySelector('#plot').data.filter(trace => trace.meta.kind === 'average').length === 1")
    check_looks(page, "averages")
    page.run("[...document.querySelectorAll('.legend .key')][1].click()")
    page.run("location.hash += '&trajectory=decay-1M'")  # another one is shown, whose checkpoints are not averaged
    page.wait("document.querySelectorAll('.legend .key').length === 4")
    page.wait(DRAWN)
    page.wait("document.querySelector('.marks')?.innerText.includes('worst')")
    assert traces(page, "average") == [] and "★" not in page.run("document.querySelector('.marks').innerText")
    page.click("#save-svg")
    assert "★" not in page.downloaded(".svg").read_text()


def test_no_quantizer_has_the_mark_of_an_average(visit):
    symbols = visit().run(
        "Promise.all([import('/palette.js'), import('/metrics.js')]).then("
        "async ([{symbol}, {loadMetrics, quantizers}]) => { await loadMetrics(); return quantizers().map(symbol) })"
    )
    assert symbols[:2] == ["square", "circle"], "rtn, gptq: places in QUANTIZERS do not change"
    assert "star" not in symbols and len(symbols) == len(set(symbols))


def test_the_line_before_the_rate_falls_is_on_top_of_the_grid(world, visit):
    world.add_trajectory("stable", [4e-3] * 3 + [2e-3, 4e-5])
    page = visit("#/curves?trajectory=stable")
    page.wait(DRAWN + " && document.querySelector('#plot').layout.shapes.length === 1")
    assert page.run("document.querySelector('#plot').layout.shapes[0].layer") == "above"


def test_curves_against_the_share_of_training(world, visit):
    page = visit("#/curves?trajectory=constant&trajectory=decay-1M")
    page.wait(DRAWN)
    page.click("button[data-value=share]")
    page.wait("document.querySelector('#plot')._fullLayout.xaxis.title.text"
              " === 'share of training so far (by tokens)'")
    assert "x=share" in page.run("location.hash")
    curves = traces(page, "curve")
    assert curves[0]["x"] == pytest.approx([place / 8 for place in range(1, 9)])
    assert curves[2]["x"] == pytest.approx([3 / 4, 1]) and traces(page, "rate")[1]["x"] == pytest.approx([3 / 4, 1])
    assert [text for text in page.run("[...document.querySelectorAll('#plot .xtick text')].map(one => one.textContent)")
            if text.endswith("%")]
    page.wait("document.querySelector('#plot').data.some(trace => trace.meta.kind === 'average')")
    assert traces(page, "average")[0]["x"] == pytest.approx([5 / 8, 6 / 8, 7 / 8, 1])
    page.click("#save-csv")
    assert len(page.downloaded(".csv").read_text().splitlines()) == 1 + 20
    check_looks(page, "share")


def test_a_change_stands_at_its_share_of_training(world, visit):
    world.changes[("constant", "delta", "gptq 4-bit g128")] = ("level", 3, 2, 4, 0.002)
    page = visit("#/curves?trajectory=constant&x=share")
    page.wait(DRAWN + " && document.querySelector('#plot').data.some(trace => trace.meta.kind === 'change')")
    (change,) = traces(page, "change")
    assert change["x"] == pytest.approx([0.5])
    assert "50.0 % of training; likely from 37.5 % of training to 62.5 % of training" in page.run(
        "document.querySelector('.changes').innerText")


def test_quantized_over_full_precision_loss_is_a_path_along_training(world, visit):
    page = visit("#/scatter", ready=ready(LOSS))
    page.click("#losses")
    page.wait(f"location.hash.includes('path=1') && {ready(LOSS)} "
              f"&& document.querySelector('#{LOSS}').data.some(trace => trace.meta.kind === 'path')")
    paths = {(path["meta"]["trajectory"], path["meta"]["label"]): path for path in data(page, LOSS, "path")}
    own = [item for item in world.checkpoints if item["trajectory"] == "constant"]
    loss = {(row[0], row[1]["id"], row[3]): row[5] for row in world.points if row[0] in ("loss_fp", "loss_q")}
    path = paths[("constant", "gptq 3-bit g128")]
    assert path["x"] == [loss[("loss_fp", item["id"], None)] for item in own]
    assert path["y"] == [loss[("loss_q", item["id"], 3)] for item in own] and path["line"]["dash"] == "dash"
    assert len(page.run(f"document.querySelector('#{LOSS}').layout.annotations")) == len(paths)  # arrows
    (equal,) = data(page, LOSS, "equal")
    assert equal["x"] == equal["y"] and data(page, LOSS, "fit") == []
    page.click("button[data-value=fit]")
    page.wait(f"document.querySelector('#{LOSS}').data.some(trace => trace.meta.kind === 'fit')")
    assert "path" not in page.run("location.hash")
    page.click("button[data-value=path]")
    check_looks(page, "losses")


def test_legends_say_what_hollow_and_dashed_mean(visit):
    page = visit("#/scatter?x=loss_fp&y=delta", ready=ready(LOSS))
    said = page.wait("document.querySelector('.marks').innerText")
    assert said == "hollow markers: fewer than 4 bits · lines: least-squares fit (3-bit dashed, 4-bit solid)"
    page = visit("#/frontier", ready=ready(FRONTIER))
    said = page.wait("document.querySelector('.marks').innerText")
    assert "hollow markers: fewer than 4 bits" in said and "shape of a marker: the method" in said


def test_without_hollow_markers_nothing_is_said_of_them(world, visit):
    world.points = [row for row in world.points if row[3] != 3]
    page = visit("#/scatter?x=loss_fp&y=delta", ready=ready(LOSS))
    assert page.wait("document.querySelector('.marks').innerText") == "lines: least-squares fit (4-bit solid)"
