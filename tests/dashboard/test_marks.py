"""What the curve page marks and names, and that its address holds the whole view."""

import json

import pytest
import stand_in
from looks import DRAWN, THREE, check_looks, traces

BOTH = "#/curves?trajectory=constant&trajectory=decay-3M"


@pytest.fixture
def world():
    """The decays are continued from checkpoints of `constant`, as train runs say."""
    world = stand_in.demonstration()
    for name, parent in (("decay-1M", "c1"), ("decay-3M", "c5")):
        world.add_run("train", {"trajectory": name, "from": parent, "dataset": "perl-manual", "tokens": 4_000_000},
                      "succeeded")
    return world


def range_of(page, axis):
    return page.run(f"[...document.querySelector('#plot')._fullLayout.{axis}.range]")


def test_worst_and_newest_are_marked_and_said(world, visit):
    page = visit("#/curves?trajectory=constant")
    page.wait(DRAWN)
    curves = traces(page, "curve")
    (worst,), (newest,) = traces(page, "worst"), traces(page, "newest")
    assert worst["y"] == [max(curve["y"]) for curve in curves] and newest["x"] == [curve["x"][-1] for curve in curves]
    assert "Worst: step-1953, ΔQL 5.08 % (gptq 3-bit g128)." in page.run("document.querySelector('.summary').innerText")
    assert page.run("document.querySelector('#worst a').getAttribute('href')") == "#/checkpoints/c7"
    page.run("document.querySelectorAll('.legend .key')[1].click()")
    page.wait("document.querySelector('#worst').innerText.includes('gptq 4-bit g128')")


def test_where_the_rate_falls_and_where_branches_come_from(world, visit):
    world.add_trajectory("stable", [4e-3] * 3 + [2e-3, 4e-5])
    page = visit(f"{THREE}&trajectory=stable")
    page.wait(DRAWN)
    segments = traces(page, "branch")
    assert len(segments) == 4
    curve = {name: next(trace for trace in traces(page, "curve") if trace["name"].startswith(name))
             for name in ("constant", "decay-1M")}
    assert (segments[0]["x"] == [curve["constant"]["x"][1], curve["decay-1M"]["x"][0]]
            and segments[0]["y"] == [curve["constant"]["y"][1], curve["decay-1M"]["y"][0]])
    assert page.run("document.querySelector('#plot').layout.shapes.map(shape => shape.x0)") == [1_500_000]
    words = page.run("document.querySelector('.marks').innerText")
    assert "the last checkpoint before the learning rate falls" in words


def test_a_branch_is_drawn_from_a_trajectory_that_is_not_shown(world, visit):
    page = visit("#/curves?trajectory=decay-1M")
    page.wait(DRAWN)
    assert [segment["x"] for segment in traces(page, "branch")] == [[1_000_000, 1_500_000]] * 2


def test_curves_of_several_methods_and_evaluations_have_names_in_words(world, visit):
    """Two quantizers and two evaluations at one width: four names, four looks, no hash."""
    for checkpoint in [item for item in world.checkpoints if item["trajectory"] == "constant"]:
        for method, factor, sequences in (("rtn", 1.9, 192), ("gptq", 1.05, 8)):
            run = world.measure(checkpoint, 4, 0.004 * factor, 3.0)
            run["params"]["evaluation"] = {**run["params"]["evaluation"], "max_sequences": sequences}
            run["result"].update(sequences=sequences, tokens=128 * sequences)
            if sequences == 8:
                world.protocols[run["id"]] = "f00dfeed12345678"
            for place, (metric, at, _, bits, _, *rest) in enumerate(world.points):
                if rest[-1] == run["id"] and metric != "loss_fp":
                    world.points[place] = (metric, at, method, bits, f"{method} 4-bit g128", *rest)
    page = visit("#/curves?trajectory=constant")
    page.wait(DRAWN)
    page.wait("[...document.querySelectorAll('.legend .key')].some(key => key.innerText.includes('8 sequences'))")
    names = page.run("[...document.querySelectorAll('.legend .key')].map(key => key.innerText.trim())")
    assert len(names) == len(set(names)) == 4 and not any("f00d" in name for name in names)
    assert "gptq 4-bit g128, on perl-manual-validation: 8 sequences, 1024 tokens" in names
    looks = {json.dumps([curve["line"]["color"], curve["line"]["dash"], curve["marker"]["symbol"]])
             for curve in traces(page, "curve")}
    assert len(looks) == 4
    assert len(set(page.run("[...document.querySelectorAll('.legend .key path')].map(path => path.getAttribute('d') + "
                            "path.getAttribute('fill') + getComputedStyle(path).stroke)"))) >= 3
    assert len(
        set(page.run("[...document.querySelectorAll('table.checkpoints thead th')].map(cell => cell.innerText)"))) == 9
    check_looks(page, "methods")


def test_hidden_curves_zoom_and_order_are_in_the_address(world, visit):
    page = visit(BOTH)
    page.wait(DRAWN)
    page.click(".legend .key")
    page.run("void Plotly.relayout('plot', {'xaxis.range': [1e6, 3e6], 'yaxis.range': [1, 6]})")
    page.run("document.querySelectorAll('table.checkpoints .sort')[7].click()")
    page.wait("location.hash.includes('sort=') && location.hash.includes('zoomx=1000000%2C3000000')")
    address = page.run("location.hash")
    rows = page.run("document.querySelector('table.checkpoints tbody').innerText")
    again = visit(address)
    again.wait(DRAWN)
    assert (len(traces(again, "curve")) == 3 and range_of(again, "xaxis") == [1e6, 3e6]
            and range_of(again, "yaxis") == [1, 6])
    assert again.run("document.querySelector('table.checkpoints tbody').innerText") == rows
    assert again.run("document.querySelectorAll('.legend .key[aria-pressed=false]').length") == 1
    assert again.run("location.hash") == address
    again.run("void Plotly.relayout('plot', {'xaxis.autorange': true, 'yaxis.autorange': true})")
    again.wait("!location.hash.includes('zoom')")


def test_a_loss_says_who_measured_it(world, visit):
    """Training's validation loss and the loss of the evaluation are two things: the panel's name tells which it is."""
    world.add_trajectory("trained", [1e-3, 1e-3])
    for checkpoint in world.checkpoints[-2:]:
        world.points.append(("validation_loss", checkpoint, None, None, "", 3.0, None, None, "r0"))
    page = visit("#/curves?trajectory=trained")
    page.wait(DRAWN)
    assert page.run("document.querySelector('#plot').layout.annotations[0].text") == "validation loss (nats)"
    page = visit("#/curves?trajectory=trained&trajectory=constant")
    page.wait(DRAWN)
    assert (page.run("document.querySelector('#plot').layout.annotations[1].text")
            == "full-precision loss (nats) or validation loss (nats)")


def test_the_first_sweep_is_calibrated_on_other_data_than_it_is_measured_on(world, visit):
    world.add_trajectory("fresh", [1e-3])
    page = visit("#/curves?trajectory=fresh")
    command = page.run("document.querySelector('.remark code').textContent")
    body = json.loads(command.split("-d '")[1].rstrip("'"))
    assert (body["base"]["calibration"]["dataset"] == "perl-manual"
            and body["base"]["evaluation"]["dataset"] == "perl-manual-validation")
    assert "sequence_length" not in command  # the server takes what the model has positions for


def test_the_scatter_tells_evaluations_apart_without_a_hash(world, visit, monkeypatch):
    answer = stand_in.stand_in_geometry.correlations(world, None, "kl", "delta")
    other = [{**series, "protocol_id": "f00dfeed12345678"} for series in answer["series"]]
    count = len(answer["series"])
    answer["points"] += [{**point, "series": point["series"] + count} for point in answer["points"]]
    answer["series"] += other
    monkeypatch.setattr(stand_in.stand_in_geometry, "correlations", lambda *_: answer)
    page = visit("#/scatter?x=kl", ready="document.querySelectorAll('.caption p').length > 3")
    words = page.run("document.querySelector('.caption').innerText")
    assert "(evaluation no. 1)" in words and "(evaluation no. 2)" in words and "f00d" not in words
