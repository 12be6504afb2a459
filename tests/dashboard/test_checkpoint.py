"""A checkpoint's page: how bad it is, why, what to do; the way there; and two checkpoints beside each other."""

import json
import time

import browser
import pytest
import stand_in
import stand_in_attribution
from looks import DRAWN, check_looks
from stand_in_tokens import keep_tokens, worst_token, worst_tokens

WHY = "document.querySelector('#why')?.innerText"


@pytest.fixture
def world():
    """The worst checkpoint is the last one of `constant`; c2 is read, and both c6 and c7 have an attribution."""
    world = stand_in.demonstration()
    world.healths.add("c2")
    return world


def point(page, checkpoint):
    """The middle of the drawn point of a checkpoint on the first curve that has it."""
    return page.wait(f"""(() => {{
      const plot = document.querySelector('#plot'), traces = plot.data.filter(trace => trace.meta.kind === 'curve');
      const trace = traces.find(one => one.customdata.includes({json.dumps(checkpoint)})); if (!trace) return null;
      const place = trace.customdata.indexOf({json.dumps(checkpoint)});
      const {{xaxis, yaxis}} = plot._fullLayout, box = plot.getBoundingClientRect();
      return [box.left + xaxis._offset + xaxis.d2p(trace.x[place]),
              box.top + yaxis._offset + yaxis.d2p(trace.y[place])]; }})()""")


def press(page, checkpoint, until):
    """Clicks the point, as often as a reader would: a click upon a figure that is being drawn anew is lost."""
    for attempt in range(10):
        x, y = point(page, checkpoint)
        page.move(x - 8, y)
        page.move(x, y)
        page.wait("document.querySelector('#plot .hovertext') !== null")
        for kind in ("mousePressed", "mouseReleased"):
            page.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        try:
            return page.wait(until, seconds=3)
        except browser.Failure:
            if attempt == 9:
                raise


def test_a_click_on_a_point_leads_to_its_checkpoint(visit):
    page = visit("#/curves?trajectory=constant")
    page.wait(DRAWN)
    press(page, "c4", "location.hash === '#/checkpoints/c4'")
    page.wait("document.querySelector('main h1').innerText === 'step-1220'")


def test_from_a_point_of_a_curve_to_its_worst_tokens_takes_three_clicks(world, visit):
    for run in world.runs:
        if run["kind"] == "quantize" and run["params"]["checkpoint"] == "c4":
            run["params"]["per_token"] = True
            keep_tokens(world, run["id"])
            world.worst_tokens[run["id"]] = {"tokenizer": worst_tokens([worst_token(0, 3, 2, 5, "a", "b", "c")])}
    page = visit("#/curves?trajectory=constant")
    page.wait(DRAWN)
    press(page, "c4", "document.querySelector('a.worst-tokens') !== null")
    page.click("a.worst-tokens")
    page.wait("document.querySelector('#worst-tokens') !== null")
    page.click("#worst-tokens")
    page.wait("document.querySelector('section[aria-label=\"Worst tokens\"] tbody tr') !== null")


def test_which_is_worst_why_and_what_to_do_takes_three_clicks(world, visit):
    """From the first page, and no command: counted and timed.
    The clicks are the links and the button that a reader sees."""
    page = visit()
    began, clicks = time.monotonic(), 0

    def click(selector):
        nonlocal clicks
        page.click(selector)
        clicks += 1

    click("main table a.name")  # the first trajectory is decay-3M: what follows holds of any
    page.wait("document.querySelector('#worst') !== null")
    worst = page.run("document.querySelector('#worst').innerText")
    click("#worst a")
    words = page.wait(WHY)
    click("#attribute-this")
    page.wait("document.querySelector('#send-attribution') !== null")
    seconds = time.monotonic() - began
    assert clicks <= 3 and seconds < 20, (clicks, seconds)
    assert ("worst" in worst.lower() and "ΔQL is" in words and "the worst of 2 checkpoints" in words
            and "The learning rate" in words)
    assert "Largest relative errors: model.layers." in words
    print(f"{clicks} clicks, {seconds:.1f} s")


def test_reasons_and_advice_have_numbers_behind_them(world, visit):
    run = next(run for run in world.runs
               if run["params"].get("checkpoint") == "c7" and run["params"]["method"]["bits"] == 3)
    other = world.add_run("quantize", {**run["params"], "method": {"name": "awq", "bits": 3}}, "succeeded")
    other["result"] = {**run["result"], "delta": 0.03}
    page = visit("#/checkpoints/c7")
    words = page.wait(WHY)
    assert (f"ΔQL is {100 * run['result']['delta']:.2f} %" in words and "gptq 3-bit g128" in words
            and "the worst of 8 checkpoints" in words)
    assert "perl-manual-validation, 192 sequences of 128 tokens" in words and "Since step-1708 it changed by +" in words
    assert "95 % paired" in words and "The learning rate stayed at 0.004" in words
    advice = page.run("document.querySelector('section[aria-label=\"What to do\"]').innerText")
    assert "awq 3-bit costs ΔQL 3.00 %" in advice and "were not read yet" in advice
    assert "gptq 4-bit" not in advice  # costs less still, for more bits


def test_every_number_stands_with_its_protocol_and_beside_its_neighbours(world, visit):
    page = visit("#/checkpoints/c2")
    page.wait(WHY)
    rows = page.run("[...document.querySelectorAll('table.measured tbody tr')].map(row => [...row.cells]"
                    ".map(cell => cell.innerText.trim()))")
    assert len(rows) == 12 and {row[3] for row in rows} == {"gptq 3-bit g128", "gptq 4-bit g128"}
    assert {row[4] for row in rows} == {"perl-manual-validation, 192 sequences of 128 tokens"}
    assert {row[5] for row in rows} == {"perl-manual, 64 sequences of 128 tokens"}
    delta = next(row for row in rows if row[0] == "ΔQL" and "3-bit" in row[3])
    assert " to " in delta[2] and "%" in delta[1]
    beside = page.run("[...document.querySelectorAll('table.beside tbody tr')].map(row => [...row.cells]"
                      ".map(cell => cell.innerText.trim()))")
    before, own, after = (next(run["result"]["delta"] for run in world.runs
                               if run["params"].get("checkpoint") == name and run["params"]["method"]["bits"] == 3)
                          for name in ("c1", "c2", "c3"))  # fmt: skip
    row = next(row for row in beside if row[0].startswith("ΔQL") and "3-bit" in row[0])
    assert [float(text.split()[0]) for text in row[1:4]] == pytest.approx(
        [100 * value for value in (before, own, after)], rel=6e-3)
    assert float(row[4]) == pytest.approx(100 * (own / before - 1), rel=6e-3) and " to " in row[5]
    assert "Kurtosis" in page.run("document.querySelector('section[aria-label=Weights]').innerText")
    page.run("document.querySelector('#tensors').open = true")
    page.wait("document.querySelectorAll('#tensors tbody tr').length === 24")
    assert "curl" in page.run("[...document.querySelectorAll('details .command code')]"
                              ".map(node => node.textContent).join('')")


def test_attributions_of_neighbours_are_compared_by_layer(world, visit):
    for checkpoint, scale in ((world.checkpoints[6], 1.0), (world.checkpoints[7], 2.0)):
        run = stand_in_attribution.attribution(world, checkpoint)
        run["id"] = f"attribution-{checkpoint['id']}"
        for unit in run["result"]["units"]:
            unit["alone"]["delta"] *= scale
    page = visit("#/checkpoints/c7")
    page.wait("document.querySelector('#unit-changes .main-svg') !== null")
    changes = page.run("document.querySelector('#unit-changes').data[0].z.map(row => [...row])")
    first = world.runs[-2]["result"]["units"][0]["alone"]["delta"]
    assert changes[0][0] == pytest.approx(100 * first)  # twice as much as before
    assert "At gptq 4-bit g128, quantized alone, these cost most" in page.run(WHY)  # that is of gptq 3-bit
    assert "Its attribution (gptq 4-bit g128) names" in page.run("document.querySelector('main').innerText")
    assert "ΔQL alone by layer, gptq 4-bit g128" in page.run("document.querySelector('main').innerText")


def test_of_many_runs_the_costliest_is_compared_and_the_rest_is_told(world, visit):
    """The one of which the page speaks is the oldest: the others come before it in the list."""
    costliest = next(run for run in world.runs
                     if run["params"].get("checkpoint") == "c7" and run["params"]["method"]["bits"] == 3)
    for size in range(50):
        for checkpoint in ("c6", "c7"):
            params = {**costliest["params"], "checkpoint": checkpoint,
                      "method": {"name": "rtn", "bits": 4, "group_size": 8 * (size + 1)}}
            run = world.add_run("quantize", params, "succeeded")
            run["result"] = {**costliest["result"], "delta": 0.001}
    page = visit("#/checkpoints/c7")
    assert "95 % paired" in page.wait(WHY)
    note = "Of 52 pairs of runs 4 were not compared by sequence."
    assert note in page.run("document.querySelector('section[aria-label=Neighbours]').innerText")
    page = visit("#/compare?a=c6&b=c7")
    page.wait("document.querySelector('table.measured') !== null")
    assert note in page.run("document.querySelector('main').innerText")


def test_what_was_measured_of_the_same_weights_is_shown(world, visit):
    """A request for them is answered with the run of the checkpoint that was measured first."""
    here, there = (next(item for item in world.checkpoints if item["id"] == one) for one in ("c3", "c4"))
    world.runs = [run for run in world.runs if run["params"].get("checkpoint") != "c3"]
    page = visit("#/checkpoints/c3")
    assert "No quantization of this checkpoint was measured yet" in page.run("document.querySelector('main').innerText")
    here["sha256"] = there["sha256"]
    page = visit("#/checkpoints/c3")
    assert "gptq 3-bit g128" in page.run("document.querySelector('table.measured').innerText")
    text = page.run("document.querySelector('main').innerText")
    assert (f"Measured of {there['trajectory']}/{there['name']}, which has the same weights: gptq 3-bit g128, "
            "gptq 4-bit g128.") in text


def test_a_run_is_posted_with_the_defaults_left_to_the_server(world, visit):
    page = visit("#/checkpoints/c3")
    page.click("#quantize-this")
    page.run("(node => { node.value = 'awq'; node.dispatchEvent(new Event('input', {bubbles: true})); "
             "})(document.querySelector('#form-method-name'))")
    page.run("(node => { node.value = ''; node.dispatchEvent(new Event('input', {bubbles: true})); "
             "})(document.querySelector('#form-method-group_size'))")
    page.click("#plan-quantize")
    page.wait("document.querySelector('.run-form')?.innerText.includes('88 MiB of memory')")
    page.click("#send-quantize")
    page.wait("document.querySelector('#queued-run') !== null")
    params = world.posted[-1]["params"]
    assert params["checkpoint"] == "constant/step-976" and params["method"] == {"name": "awq", "bits": 3}
    assert params["evaluation"]["dataset"] == "perl-manual-validation" and params["evaluation"]["max_sequences"] == 192
    assert json.loads(page.run("document.querySelector('.run-form .command code').textContent")
                      .split("-d '")[1].rstrip("'")) == world.posted[-1]
    page.run("(node => { node.value = '2'; node.dispatchEvent(new Event('input', {bubbles: true})); "
             "})(document.querySelector('#form-method-bits'))")
    page.expected = ["422"]
    page.click("#send-quantize")
    page.wait("document.querySelector('.run-form .problem')?.innerText.includes('awq has no 2 bits')")


def test_text_that_is_no_number_is_neither_sent_nor_taken_for_all(world, visit):
    page = visit("#/checkpoints/c3")
    page.click("#quantize-this")
    node = "document.querySelector('#form-evaluation-max_sequences')"
    for text, fits in (("1,000", False), ("1.2.3", False), (".", False), ("64", True), ("-1", True), ("3.5", True),
                       ("", True)):
        page.run(f"{node}.value = '{text}'; {node}.dispatchEvent(new Event('input', {{bubbles: true}}))")
        assert page.run(f"{node}.checkValidity()") is fits, text
        command = page.run("document.querySelector('.run-form .command code').textContent")
        params = json.loads(command.split("-d '")[1].rstrip("'"))["params"]
        sent = text if not fits else float(text) if text else None
        assert params["evaluation"].get("max_sequences") == sent
        assert ("max_sequences" in params["evaluation"]) is bool(text)
    for button in ("#plan-quantize", "#send-quantize"):
        page.run(f"{node}.value = '1,000'")
        page.click(button)
        page.settle()
    assert [one for one in world.requests if one[0] == "POST"] == []
    assert page.run("document.querySelector('.run-form [role=status]').innerText") == ""


@pytest.mark.parametrize("typed", ["3, 4", "3,4", "3 4"])
def test_an_attribution_is_posted_with_the_widths_of_its_budget(world, visit, typed):
    page = visit("#/checkpoints/c3")
    page.click("#attribute-this")
    for field, text in (("bits", typed), ("budget", "3.5")):
        page.run(f"(node => {{ node.value = '{text}'; node.dispatchEvent(new Event('input', {{bubbles: true}})); "
                 f"}})(document.querySelector('#form-{field}'))")
    page.click("#send-attribution")
    page.wait("document.querySelector('#queued-run') !== null")
    params = world.posted[-1]["params"]
    assert params["bits"] == [3, 4] and params["budget"] == 3.5


def test_two_checkpoints_are_pinned_and_compared_in_pairs(world, visit):
    page = visit("#/checkpoints/c3")
    page.click("#pin")
    page.run("location.hash = '#/checkpoints/c7'")
    page.wait("document.querySelector('#compare-pinned')?.innerText === 'Compare with step-976'")
    page.click("#compare-pinned")
    page.wait("location.hash === '#/compare?a=c3&b=c7' && document.querySelector('table.measured') !== null")
    rows = page.run("[...document.querySelectorAll('table.measured tbody tr')].map(row => [...row.cells]"
                    ".map(cell => cell.innerText.trim()))")
    a, b = (next(run["result"]["delta"] for run in world.runs
                 if run["params"].get("checkpoint") == name and run["params"]["method"]["bits"] == 4)
            for name in ("c3", "c7"))
    row = next(row for row in rows if row[0] == "ΔQL" and "4-bit" in row[1])
    assert float(row[5].split()[0]) == pytest.approx(100 * (b - a), rel=6e-3) and " to " in row[5] and row[6] == "78"
    assert next(row for row in rows if row[0] == "Bits per weight")[5] == "not paired"


@pytest.mark.parametrize("address", ["#/checkpoints/c7", "#/compare?a=c3&b=c7"])
def test_pages_fit_their_width_and_are_readable(world, visit, address):
    page = visit(address)
    page.wait("document.querySelector('#layer-changes .main-svg') !== null")
    if "checkpoints" in address:
        page.click("#quantize-this")
        page.wait("document.querySelector('.run-form') !== null")
    check_looks(page, address.strip("#/").split("/")[0].split("?")[0])


@pytest.mark.parametrize("address", ["#/compare?a=c6&b=c7", "#/checkpoints/c7"])
def test_errors_of_layers_say_which_quantization_they_are_of(visit, address):
    page = visit(address)
    page.wait("document.querySelector('#layer-changes') !== null")
    assert page.run("document.querySelector('section[aria-label=\"By layer\"] h3').innerText") == (
        "Relative error by layer, gptq 3-bit g128")


def test_a_checkpoint_as_curl_asks_for_nothing_that_is_not_there(world, visit):
    commands = "[...document.querySelectorAll('details .command code')].map(one => one.textContent)"
    assert not any("/health" in one for one in visit("#/checkpoints/c7").run(commands))
    world.healths.add("c7")
    assert any("/health" in one for one in visit("#/checkpoints/c7").run(commands))
