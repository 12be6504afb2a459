"""The dashboard in a real browser, against a stand-in of the HTTP interface (stand_in.py). DELTAQ_SCREENSHOTS=DIR keeps
a picture of every page, light and dark, wide and narrow."""

import json
import shutil
import struct
import subprocess
import xml.etree.ElementTree as xml

import pytest
import stand_in
from looks import CURVES, DRAWN, THREE, check_looks, traces
from stand_in import HOSTILE, ROOT

MODULES = sorted((ROOT / "static").glob("*.js"))


def axis(page, name):
    return page.run(f"(({{type, title, domain}}) => ({{type, title: title "
                    f"&& title.text, domain}}))(document.querySelector('#plot')._fullLayout.{name})")


# --- The first page ---------------------------------------------------------------------------------------------------
def test_trajectories_are_listed_with_their_size_and_newest_delta(visit):
    page = visit()
    rows = page.run("[...document.querySelectorAll('main table tbody tr')].map(row => row.innerText)")
    assert len(rows) == 3
    constant = next(row for row in rows if "constant" in row)
    for expected in ("8", "llama", "1.44M", "1,953", "4M", "4-bit", "0.672 %", "5.08 %"):
        assert expected in constant
    assert page.run("document.querySelectorAll('.sparkline polyline').length") == 6
    assert page.run("document.querySelector('.live').hidden")
    assert "Plotly" not in page.run("Object.keys(window)")  # 8 MB that this page does not need


def test_ticking_two_trajectories_leads_to_their_comparison_and_back(visit):
    page = visit()
    page.run("[...document.querySelectorAll('input[type=checkbox]')].slice(0, 2).forEach(box => box.click())")
    page.click(".compare a")
    page.wait("location.hash.startsWith('#/curves?trajectory=')")
    assert page.run("new URLSearchParams(location.hash.split('?')[1]).getAll('trajectory').length") == 2
    page.wait(DRAWN)
    page.run("history.back()")
    page.wait("location.hash === '#/' && document.querySelector('main h1')?.textContent === 'Trajectories' "
              "&& document.querySelector('table.cards') !== null")


def test_without_trajectories_the_page_says_how_to_begin(browser, visit):
    empty = stand_in.StandIn(stand_in.World())
    try:
        page = visit(url=empty.url)
        text = page.run("document.querySelector('.empty').innerText")
        assert f"curl '{empty.url}/v1/trajectories/my-run/scan'" in text and "/v1/sweeps" in text
    finally:
        empty.close()


def test_runs_in_progress_move_with_their_events_and_failures_say_why(world, visit):
    running, _, _ = stand_in.busy(world)
    page = visit()
    page.wait("document.querySelectorAll('.live progress').length === 2")
    assert "2,210 of 3,906 steps · 4 min to go" in page.run("document.querySelector('.live').innerText")
    assert "2 runs queued" in page.run("document.querySelector('.live').innerText")
    world.advance(running, done=3000, eta=99.0)
    page.wait("[...document.querySelectorAll('.live progress')].some(bar => bar.value === 3000)")
    assert "use 96 or 128" in page.run("document.querySelector('.problem').innerText")


def test_events_that_cannot_be_had_are_replaced_by_polling(world, visit, monkeypatch):
    running, _, _ = stand_in.busy(world)
    monkeypatch.setattr(stand_in.Handler, "events",
                        lambda handler, identity: handler.problem(503, "Unavailable", "too many streams"))
    page = visit(f"#/runs/{running['id']}")
    page.expected = ["503"]
    world.advance(running, done=3100, eta=90.0)
    page.wait("document.querySelector('progress')?.value === 3100")


# --- Curves -----------------------------------------------------------------------------------------------------------
def test_curves_are_drawn_with_the_values_of_the_interface(world, visit):
    page = visit(THREE)
    page.wait(DRAWN)
    curves = traces(page, "curve")
    assert (len(curves) == 6 and len(traces(page, "band")) == 6 and len(traces(page, "loss")) == 3
            and len(traces(page, "rate")) == 3)
    answer = world.curves(["constant", "decay-1M", "decay-3M"], "delta", "tokens")
    for curve, series in zip(curves, answer["series"]):
        assert curve["x"] == [point["x"] for point in series["points"]]
        assert curve["y"] == pytest.approx([100 * point["y"] for point in series["points"]])
        assert curve["line"]["dash"] == {4: "solid", 3: "dash"}[series["bits"]]
    assert [len(curve["x"]) for curve in curves] == [8, 8, 2, 2, 2, 2]
    assert len({curve["line"]["color"] for curve in curves}) == 3
    band = traces(page, "band")[0]
    lows = [100 * point["low"] for point in answer["series"][0]["points"]]
    assert band["y"][:8] == pytest.approx(lows) and len(band["y"]) == 16
    assert traces(page, "rate")[1]["y"] == [0.002, 4e-05] and traces(page, "loss")[0]["yaxis"] == "y2"


def test_panels_share_one_axis_and_say_their_units(visit):
    page = visit(THREE)
    page.wait(DRAWN)
    assert axis(page, "xaxis")["title"] == "tokens"
    assert page.run("document.querySelector('#plot').layout.annotations.map(note => note.text)") == [
        "ΔQL (%)", "full-precision loss (nats)", "learning rate"]
    left = page.run("[...document.querySelectorAll('#plot .plot')]"
                    ".map(panel => Math.round(panel.getBoundingClientRect().left / 8)).filter(Boolean).length")
    assert left == 3


def test_axis_and_scale_choices_are_drawn_and_kept_in_the_address(visit):
    page = visit(THREE)
    page.wait(DRAWN)
    page.click("button[data-value=step]")
    page.wait("document.querySelector('#plot')._fullLayout.xaxis.title.text === 'step'")
    assert traces(page, "curve")[0]["x"] == [index * stand_in.HALF // stand_in.STEP for index in range(1, 9)]
    page.run("document.querySelectorAll('button[data-value=log]').forEach(button => button.click())")
    page.wait("document.querySelector('#plot')._fullLayout.yaxis.type === 'log' "
              "&& document.querySelector('#plot')._fullLayout.xaxis.type === 'log'")
    assert page.run("location.hash").endswith("x=step&xscale=log&yscale=log")
    page.call("Page.reload")
    page.wait(DRAWN)
    page.wait("document.querySelector('#plot')._fullLayout.yaxis.type === 'log'")
    page.click("button[data-value=learning_rate]")
    page.wait("document.querySelector('#plot')._fullLayout.xaxis.title.text === 'learning rate'")
    assert traces(page, "rate") == [] and traces(page, "band") == []


def test_another_measure_changes_axis_and_table(visit):
    page = visit("#/curves?trajectory=constant&metric=kl")
    page.wait(DRAWN)
    assert page.run("document.querySelector('#plot').layout.annotations[0].text") == "KL divergence (nats)"
    assert "KL divergence (nats)" in page.run("document.querySelector('table.checkpoints thead').innerText")


def test_a_metric_that_no_code_knows_is_drawn_as_the_server_tells(world, visit):
    """A new metric is a row of the server's: the list of measures, the axis, the table, the hover text, the tiles and
    the scatter take it from there."""
    run = next(run for run in world.runs if run["id"] == "r0")
    run["result"]["made_up"] = 1234.5678
    for place, checkpoint in enumerate(world.checkpoints):
        world.points.append(("made_up", checkpoint, "gptq", 4, "gptq 4-bit g128", 0.5 + place, 0.25 + place,
                             1.0 + place, "r0"))
    page = visit("#/curves?trajectory=constant")
    page.wait(DRAWN)
    assert "Made-up cost" in page.run("[...document.querySelector('select[aria-label=Measure]').options]"
                                      ".map(option => option.text)")
    page.run("(select => { select.value = 'made_up'; select.dispatchEvent(new Event('change')); "
             "})(document.querySelector('select[aria-label=Measure]'))")
    page.wait("document.querySelector('#plot').layout.annotations[0].text === 'cost that was made up (apples)'")
    assert "Made-up cost (apples)" in page.run("document.querySelector('table.checkpoints thead').innerText")
    curve = traces(page, "curve")[0]
    assert curve["y"][:3] == [0.5, 1.5, 2.5] and "Made-up cost <b>1.5</b> (95 %: 1.25 to 2)" in curve["text"][1]
    page = visit("#/scatter?x=made_up")
    page.wait(
        "document.querySelector('#scatter-plot')?._fullLayout?.xaxis.title.text === 'cost that was made up (apples)'")
    page = visit("#/runs/r0")
    page.wait("document.querySelector('.tiles') !== null")
    assert "Made-up cost (apples)\n1235" in page.run("document.querySelector('.tiles').innerText")
    assert page.run("[...document.querySelectorAll('.tiles div')]"
                    ".find(tile => tile.innerText.startsWith('Made-up')).title") == "What made_up is; higher is better"


def test_legend_hides_and_shows_a_curve_with_its_band(visit):
    page = visit("#/curves?trajectory=constant")
    page.wait(DRAWN)
    page.click(".legend .key")
    page.wait(CURVES % "'curve'" + ".length === 1 && " + CURVES % "'band'" + ".length === 1")
    assert page.run("document.querySelector('.legend .key').getAttribute('aria-pressed')") == "false"
    page.click(".legend .key")
    page.wait(CURVES % "'curve'" + ".length === 2")


def test_hover_tells_all_values_of_a_checkpoint(visit):
    page = visit("#/curves?trajectory=constant")
    page.wait(DRAWN)
    place = page.wait("""(() => {
      const node = document.querySelectorAll('#plot .scatterlayer .trace.scatter .point')[3];
      const point = node?.getBoundingClientRect();
      return point && [point.left + point.width / 2, point.top + point.height / 2]; })()""")
    page.move(place[0] - 30, place[1])
    page.move(*place)
    text = page.wait("[...document.querySelectorAll('#plot .hovertext text')].map(node => node.textContent).join(' ')")
    for expected in ("step-976", "constant", "gptq 4-bit g128", "ΔQL 0.541 %", "95 %: 0.456 to 0.626 %", "2M tokens",
                     "step 976", "full-precision loss 2.85", "learning rate 0.004"):
        assert expected in text


def test_curves_grow_when_runs_finish(world, visit):
    running, _, _ = stand_in.busy(world)
    page = visit("#/curves?trajectory=constant")
    page.wait(DRAWN)
    page.wait("document.querySelector('.live progress') !== null")
    with world.lock:
        checkpoint = world.add_checkpoint("constant", 9, 4e-3)
        world.measure(checkpoint, 4, 0.0105, 2.37)
        world.advance(running, state="succeeded")
    page.wait(CURVES % "'curve'" + "[0].x.length === 9")
    assert "step-2197" in page.run("document.querySelector('table.checkpoints').innerText")


def test_table_has_the_numbers_of_the_plot_and_sorts(world, visit):
    page = visit(THREE)
    cells = ("[...document.querySelectorAll('table.checkpoints tbody tr')].map(row => [...row.cells]"
             ".map(cell => cell.innerText.trim()))")
    rows = page.run(cells)
    assert len(rows) == 12 and rows[0][:5] == ["step-244", "constant", "244", "500k", "0.004"]
    assert rows[7][6].split() == ["0.672", "0.572", "–", "0.773"]
    page.run("document.querySelectorAll('table.checkpoints .sort')[6].click()")
    values = [float(row[6].split()[0]) for row in page.run(cells)]
    assert values == sorted(values, reverse=True)
    assert page.run("document.querySelectorAll('table.checkpoints th[aria-sort=descending]').length") == 1
    page.run("document.querySelector('table.checkpoints tbody td a').click()")
    page.wait("location.hash.startsWith('#/runs/r')")


def test_exports_give_files_that_hold_the_figure(world, visit):
    page = visit(THREE)
    page.wait(DRAWN)
    page.click("#save-png")
    head = page.downloaded(".png").read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", head[16:20] + head[16:20])[0] == 2200
    page.click("#save-svg")
    text = page.downloaded(".svg").read_text()
    xml.fromstring(text)
    for expected in ("ΔQL (%)", "full-precision loss (nats)", "decay-3M · gptq 3-bit g128"):
        assert expected in text
    page.click("#save-csv")
    lines = page.downloaded(".csv").read_text().splitlines()
    assert lines[0].startswith("trajectory,label,method") and len(lines) == 1 + 24


def test_values_at_or_below_zero_are_announced_on_a_log_axis(world, visit):
    world.measure(world.add_checkpoint("constant", 9, 4e-3), 4, -0.001, 2.37)
    page = visit("#/curves?trajectory=constant&yscale=log")
    page.wait(DRAWN)
    assert "1 value at or below zero" in page.run("document.querySelector('.remark').innerText")


def test_a_trajectory_without_measurements_says_what_to_do(world, visit):
    world.add_trajectory("fresh", [1e-3])
    page = visit("#/curves?trajectory=fresh&x=step")
    assert "/v1/sweeps" in page.run("document.querySelector('.remark').innerText")
    page.wait(DRAWN)


def test_without_plotly_the_table_still_stands(visit, monkeypatch):
    original = stand_in.Handler.do_GET
    monkeypatch.setattr(
        stand_in.Handler, "do_GET",
        lambda handler: (handler.problem(404, "Not found", "gone") if handler.path == "/plotly.js"
                         else original(handler)))
    page = visit("#/curves?trajectory=constant")
    page.expected = ["plotly.js"]
    assert "make static" in page.wait("document.querySelector('#plot .problem')?.innerText")
    assert page.run("document.querySelectorAll('table.checkpoints tbody tr').length") == 8


# --- A run ------------------------------------------------------------------------------------------------------------
def test_a_run_shows_result_layers_log_and_parameters(visit):
    page = visit("#/runs/r1")
    page.wait("document.querySelector('#layers-plot .main-svg') !== null")
    text = page.wait("document.querySelector('.log').innerText.length && document.querySelector('main').innerText")
    for expected in ("constant/step-244", "gptq 3-bit g128", "3.35 %", "95 %: 2.93 to 3.77 %", "4.3177", "92.6 %",
                     "model opened: 6 blocks", "method.damp_percent"):
        assert expected in text
    heat = page.run("(({type, x, y, z}) => ({type, x, y, z}))(document.querySelector('#layers-plot').data[0])")
    assert heat["type"] == "heatmap" and heat["x"] == list("012345") and len(heat["y"]) == 7 and len(heat["z"]) == 7
    errors = page.run("[...document.querySelectorAll('table.layers tbody tr')]"
                      ".map(row => Number(row.cells[1].innerText))")
    assert len(errors) == 42 and errors == sorted(errors, reverse=True)
    page.run("document.querySelector('table.layers .sort').click()")
    assert page.run("document.querySelector('table.layers tbody th').innerText") == "model.layers.0.mlp.down_proj"


def test_a_running_run_is_followed_to_its_end(world, visit):
    _, run, _ = stand_in.busy(world)
    page = visit(f"#/runs/{run['id']}")
    world.advance(run, done=5, eta=1.2, line="block 4 of 6: 1.2 s")
    page.wait("document.querySelector('progress').value === 5 "
              "&& document.querySelector('.log').innerText.includes('block 4 of 6')")
    page.wait("document.querySelector('.progress').innerText.includes('1.2 s to go')")
    with world.lock:
        run["result"] = {"delta": 0.21, "delta_interval": [0.2, 0.22], "loss_fp": 2.4, "loss_q": None, "layers": []}
        world.advance(run, state="succeeded")
    page.wait("document.querySelector('.badge.succeeded') "
              "&& document.querySelector('.tiles')?.innerText.includes('21.0 %')")
    assert "not finite" in page.run("document.querySelector('.tiles').innerText")
    assert not page.run("document.querySelector('progress')")


def test_a_queued_run_says_what_it_waits_for(world, visit):
    """Also when its stream, which begins with the progress so far, has told that there is none."""
    run = world.add_run("health", {"checkpoint": "c3"}, "queued", waiting="for a worker with 2 GB")
    page = visit(f"#/runs/{run['id']}")
    world.advance(run, line="heard")
    page.wait("document.querySelector('.log').innerText.includes('heard')")
    assert page.run("document.querySelector('.progress').innerText") == "waits: for a worker with 2 GB"
    world.advance(run, done=1, total=4, state="running")
    page.wait("document.querySelector('.badge.running') && "
              "document.querySelector('.progress').innerText.includes('1 of 4 blocks')")


def test_a_document_that_comes_late_does_not_undo_the_progress(world, visit):
    """A stream's first states make the page read the run again; progress may be told before that answer is there."""
    _, run, _ = stand_in.busy(world)
    page = visit("#/api")
    page.hold(f"/v1/runs/{run['id']}$", first=2)
    page.run(f"location.hash = '#/runs/{run['id']}'")
    page.wait("held.come === 2")
    world.advance(run, done=5, eta=1.2)
    page.wait("document.querySelector('progress')?.value === 5")
    page.release()
    assert page.run("document.querySelector('progress').value") == 5


def test_a_document_that_comes_late_does_not_undo_the_end(world, visit):
    run = world.add_run("health", {"checkpoint": "c3"}, "queued")
    page = visit("#/api")
    page.hold(f"/v1/runs/{run['id']}$", first=2, last=2)
    page.run(f"location.hash = '#/runs/{run['id']}'")
    page.wait("document.querySelector('.badge.queued') !== null")
    world.advance(run, state="running")
    page.wait("held.come === 2")
    world.advance(run, state="succeeded")
    page.wait("document.querySelector('.badge.succeeded') && held.come >= 4")
    page.release()
    assert page.run("document.querySelector('.badge').innerText") == "succeeded"


def test_a_run_that_was_left_while_it_was_read_does_not_come_back(world, visit):
    _, run, _ = stand_in.busy(world)
    page = visit("#/api")
    page.hold("/checkpoints/")
    page.run(f"location.hash = '#/runs/{run['id']}'")
    page.wait("held.come > 0")
    page.run("location.hash = '#/system'")
    page.wait("document.querySelector('main h1').innerText === 'System' && !document.querySelector('.loading')")
    page.release()
    assert page.run("document.querySelector('main h1').innerText") == "System"
    assert ("GET", f"/v1/runs/{run['id']}/events") not in world.requests


def test_cancel_and_retry(world, visit):
    _, run, failed = stand_in.busy(world)
    page = visit(f"#/runs/{run['id']}")
    page.click("#cancel")
    page.wait("document.querySelector('.badge.cancelled') && document.querySelector('#retry') !== null")
    assert ("POST", f"/v1/runs/{run['id']}/cancel") in world.requests
    page.open(f"{page.run('location.origin')}/#/runs/{failed['id']}")
    page.wait("document.querySelector('.problem')?.innerText.includes('/params/method/group_size')")
    page.click("#retry")
    page.wait("document.querySelector('.badge.queued') && !document.querySelector('.problem')")


def test_runs_are_filtered_by_address(world, visit):
    stand_in.busy(world)
    page = visit("#/runs?state=failed")
    assert page.run("document.querySelectorAll('tbody tr').length") == 1
    page.run("(select => { select.value = 'running'; select.dispatchEvent(new Event('change')); "
             "})(document.querySelector('select[aria-label=State]'))")
    page.wait("location.hash === '#/runs?state=running' && document.querySelectorAll('tbody tr').length === 2")
    page.run("history.back()")
    page.wait("location.hash === '#/runs?state=failed' && document.querySelectorAll('tbody tr').length === 1")


def test_older_runs_come_on_demand(world, visit):
    for _ in range(40):
        world.add_run("evaluate", {"checkpoint": "c1"}, "succeeded")
    page = visit("#/runs")
    assert page.run("document.querySelectorAll('tbody tr').length") == 50
    page.click("#more")
    page.wait("document.querySelectorAll('tbody tr').length === 64 && !document.querySelector('#more')")


# --- Names, tokens, errors --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("address", ["#/", "#/curves", "#/runs", "#/runs/hostile"])
def test_hostile_names_stay_text(world, visit, address):
    world.add_trajectory(HOSTILE, [1e-3] * 2)
    first, second = world.checkpoints[-2:]
    first["name"] = second["name"] = HOSTILE
    first["architecture"] = second["architecture"] = HOSTILE
    for checkpoint in (first, second):
        world.measure(checkpoint, 4, 0.01, 3.0)
    for point in range(len(world.points)):
        metric, checkpoint, method, bits, label, *rest = world.points[point]
        if checkpoint in (first, second) and label:
            world.points[point] = (metric, checkpoint, method, bits, HOSTILE, *rest)
    run = world.add_run(HOSTILE, {"checkpoint": first["id"], HOSTILE: HOSTILE, "method": {"name": HOSTILE}},
                        "failed", id="hostile")
    run["error"] = {"title": HOSTILE, "status": 500, "detail": HOSTILE,
                    "errors": [{"pointer": HOSTILE, "detail": HOSTILE}]}
    run["result"] = {HOSTILE: HOSTILE,
                     "layers": [{"name": HOSTILE, "rows": 1, "columns": 1, "proxy_error": 1, "relative_error": 1}]}
    if address == "#/curves":
        address += "?trajectory=" + stand_in.urllib.parse.quote(HOSTILE)
    page = visit(address)
    if "curves" in address:
        page.wait(DRAWN)
        place = page.wait("""(() => {
          const node = document.querySelectorAll('#plot .scatterlayer .trace.scatter .point')[0];
          const point = node?.getBoundingClientRect();
          return point && [point.left + point.width / 2, point.top + point.height / 2]; })()""")
        page.move(place[0] - 9, place[1])
        page.move(*place)
        assert HOSTILE in page.wait("[...document.querySelectorAll('#plot .hovertext text')]"
                                    ".map(node => node.textContent).join(' ')")
        page.click("#save-svg")
        xml.fromstring(page.downloaded(".svg").read_text())
    page.wait(f"document.querySelector('main').innerText.includes({json.dumps(HOSTILE)})")
    assert page.run("document.querySelectorAll('main img, main script, main b:not(.hovertext b)').length") == 0
    assert page.run("window.hurt") is None


def test_a_token_is_asked_for_once_and_kept_in_the_tab(world, visit):
    world.token = "secret"
    page = visit(ready="document.querySelector('#token') !== null")
    page.expected = ["401"]
    page.run("document.querySelector('#token').value = 'wrong'")
    page.click("form button")
    page.wait("document.querySelector('.problem')?.innerText.includes('does not accept')")
    page.run("document.querySelector('#token').value = 'secret'")
    page.click("form button")
    page.wait("document.querySelectorAll('tbody tr').length === 3")
    assert page.run("[sessionStorage.length, localStorage.length, document.cookie]") == [1, 0, ""]
    running, _, _ = stand_in.busy(world)
    refused = len(page.complaints)
    page.run(f"location.hash = '#/runs/{running['id']}'")
    world.advance(running, done=3300, eta=60.0)
    page.wait("document.querySelector('progress')?.value === 3300")
    assert len(page.complaints) == refused  # the event stream carries the token too


@pytest.mark.parametrize("address", ["#/runs/none", "#/curves?trajectory=none", "#/curves", "#/nowhere"])
def test_what_is_not_there_is_said(visit, address):
    page = visit(address)
    page.expected = ["404"]
    assert page.run("document.querySelector('main h1').innerText") in (
        "Not found", "No such page", "No trajectory chosen")


def test_a_server_that_is_away_is_said(visit):
    page = visit("#/runs")
    page.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1)
    page.expected = ["ERR_INTERNET_DISCONNECTED"]
    page.run("location.hash = '#/'")
    page.wait("document.querySelector('.problem')?.innerText.includes('cannot be reached')")


# --- How it looks -----------------------------------------------------------------------------------------------------
PAGES = {"trajectories": "#/", "curve": "#/curves?trajectory=constant", "curves": THREE + "&yscale=log",
         "by-rate": THREE + "&x=learning_rate", "runs": "#/runs", "run": "#/runs/r1", "running": "#/runs/r24",
         "failed": "#/runs/r28", "missing": "#/runs/none"}


@pytest.mark.parametrize("name", PAGES)
def test_pages_fit_their_width_and_are_readable_in_light_and_dark(world, visit, name):
    stand_in.busy(world)
    page = visit(PAGES[name])
    page.expected = ["404"]
    if name in ("curve", "curves", "by-rate"):
        page.wait(DRAWN)
    if name == "run":
        page.wait("document.querySelector('#layers-plot .main-svg') !== null")
    page.wait("![...document.querySelectorAll('.run-title .name')].some(name => name.textContent === '…')")
    check_looks(page, name)


def test_the_colour_scheme_button_overrules_the_system_and_recolours_the_figure(visit):
    page = visit("#/curves?trajectory=constant")
    page.wait(DRAWN)
    light = traces(page, "curve")[0]["line"]["color"]
    page.click("#theme")
    page.wait(f"document.querySelector('#plot').data.some(trace => trace.line.color && trace.line.color !== '{light}' "
              "&& trace.meta.kind === 'curve')")
    assert page.run("document.querySelector('#plot').layout.paper_bgcolor") != "#ffffff"
    page.call("Page.reload")
    page.wait(DRAWN)
    assert page.run("document.documentElement.dataset.theme") == "dark"


def test_everything_is_reached_with_the_tab_key(world, visit):
    page = visit("#/curves?trajectory=constant")
    page.wait(DRAWN)
    seen = set()
    for _ in range(80):
        page.key("Tab")
        seen.add(page.run("(node => node.id || node.dataset.value || node.className "
                          "|| node.tagName)(document.activeElement)"))
    for expected in ("skip", "brand", "theme", "tokens", "log", "save-png", "save-csv", "key", "scroll", "sort-"):
        assert any(found.startswith(expected) for found in seen), expected
    assert page.run("[...document.querySelectorAll('button, a, input, select')].filter(node => !(node.innerText "
                    "|| node.ariaLabel || node.getAttribute('aria-label') || node.id)).length") == 0


# --- The source -------------------------------------------------------------------------------------------------------
PARSE = """
const { readFileSync } = require("fs"), { Script, SourceTextModule } = require("vm"), faults = {};
for (const path of process.argv.slice(1)) {
    const text = readFileSync(path, "utf8");
    try {
        path.endsWith("/theme.js") ? new Script(text) : new SourceTextModule(text);
    } catch (fault) {
        faults[path] = fault.stack;
    }
}
console.log(JSON.stringify(faults));
"""


@pytest.fixture(scope="module")
def faults():
    """What node finds wrong, by path: one process reads all modules. theme.js is none."""
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    done = subprocess.run(["node", "--experimental-vm-modules", "-e", PARSE, *MODULES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_modules_parse(module, faults):
    assert str(module) not in faults, faults[str(module)]


def test_nothing_is_written_as_markup_or_from_elsewhere():
    for module in MODULES:
        text = module.read_text()
        for banned in ("innerHTML =", "outerHTML =", "insertAdjacentHTML", "document.write", "eval(",
                       "new Function", "https://"):
            assert banned not in text, f"{module.name}: {banned}"
        assert len(text.splitlines()) <= 400
    page = (ROOT / "static" / "index.html").read_text()
    assert "<script>" not in page and " on" + "click" not in page and "http" not in page
