"""What the dashboard changes: trajectories are renamed, annotated, archived and deleted, sweeps retried and deleted,
runs made again and attributed; and that names which others change are shown as they are."""

import threading

import pytest
import stand_in
import stand_in_service
from looks import DRAWN, check_looks

NAMES = "[...document.querySelectorAll('main tbody th .name')].map(name => name.innerText)"


@pytest.fixture
def world():
    world = stand_in.demonstration()
    stand_in_service.service(world)
    return world


def put(page, selector, value):
    page.run(f"(node => {{ node.value = {stand_in.json.dumps(value)}; node.dispatchEvent(new Event('input', "
             f"{{bubbles: true}})); }})(document.querySelector('{selector}'))")


def edit(page, name):
    page.run(f"document.querySelector('button[aria-label=\"Edit {name}\"]').click()")
    page.wait("document.activeElement?.id === 'edit-name'")


# --- Trajectories -----------------------------------------------------------------------------------------------------
def test_a_trajectory_is_renamed_and_annotated(world, visit):
    page = visit()
    edit(page, "decay-1M")
    check_looks(page, "edit")
    put(page, "#edit-name", "constant")
    put(page, "#edit-notes", f"the early decay {stand_in.HOSTILE}")
    page.click("#edit-save")
    page.wait("document.querySelector('.edit .problem')?.innerText.includes('there is a trajectory')")
    page.expected = ["409"]
    put(page, "#edit-name", "early")
    page.click("#edit-save")
    page.wait(f"document.querySelector('.edit') === null && {NAMES}.includes('early')")
    assert "the early decay" in page.run("document.querySelector('.notes').innerText")
    assert page.run("window.hurt") is None
    found = next(item for item in world.trajectories if item["name"] == "early")
    assert found["notes"] == f"the early decay {stand_in.HOSTILE}"


def test_a_trajectory_is_archived_and_comes_back(world, visit):
    page = visit()
    edit(page, "decay-3M")
    page.click("#edit-archive")
    page.wait(f"!{NAMES}.includes('decay-3M') && {NAMES}.length === 2")
    page.click("button[data-value=true]")
    page.wait(f"location.hash === '#/?archived=true' && {NAMES}.join() === 'decay-3M'")
    edit(page, "decay-3M")
    page.click("#edit-archive")
    page.wait("document.querySelector('main').innerText.includes('No trajectory is archived')")
    page.click("button[data-value='']")
    page.wait(f"location.hash === '#/' && {NAMES}.length === 3")


def test_a_trajectory_is_deleted_after_a_question(world, visit):
    page = visit()
    edit(page, "decay-3M")
    page.click("#edit-delete")
    page.wait("document.activeElement?.id === 'edit-delete-no'")  # what a careless Enter does
    assert "2 checkpoints and what was measured of them go" in page.run("document.querySelector('.sure').innerText")
    page.click("#edit-delete-no")
    page.wait("document.activeElement?.id === 'edit-delete'")
    assert len(world.trajectories) == 3
    page.click("#edit-delete")
    page.click("#edit-delete-yes")
    page.wait(f"{NAMES}.length === 2 && document.querySelector('.edit') === null")
    assert ("DELETE", "/v1/trajectories/t2") in world.requests
    running, *_ = stand_in.busy(world)
    edit(page, "constant")
    page.click("#edit-delete")
    page.click("#edit-delete-yes")
    page.wait("document.querySelector('.edit .problem')?.innerText.includes('has not ended')")
    page.expected = ["409"]


def changes(world):
    return [method for method, path in world.requests if method in ("PATCH", "DELETE")]


def test_what_somebody_else_changed_is_shown_and_not_overwritten(world, visit):
    page = visit()
    edit(page, "decay-1M")
    put(page, "#edit-notes", "mine")
    world.trajectories[1].update(notes=f"theirs {stand_in.HOSTILE}")
    page.click("#edit-save")
    said = page.wait("document.querySelector('.edit .problem')?.innerText")
    page.expected = ["412"]
    assert f"Notes: theirs {stand_in.HOSTILE} (before: none)" in said and "Name" not in said
    assert "theirs" in world.trajectories[1]["notes"] and changes(world) == ["PATCH"]
    check_looks(page, "overtaken")
    page.click("#edit-reload")
    page.wait("document.querySelector('#edit-notes').value.startsWith('theirs') "
              "&& document.activeElement.id === 'edit-name'")
    put(page, "#edit-notes", "both")
    page.click("#edit-save")
    page.wait("document.querySelector('.edit') === null")
    assert world.trajectories[1]["notes"] == "both" and page.run("window.hurt") is None


def test_a_checkpoint_that_came_meanwhile_is_not_deleted_unseen(world, visit):
    page = visit()
    edit(page, "decay-3M")
    page.click("#edit-delete")
    world.add_checkpoint("decay-3M", 9, 1e-5)
    page.click("#edit-delete-yes")
    page.expected = ["412"]
    assert "Checkpoints: 3 (before: 2)" in page.wait("document.querySelector('.edit .problem')?.innerText")
    assert len(world.trajectories) == 3


def test_runs_that_go_on_do_not_hinder_a_change(world, visit):
    page = visit()
    page.expected = ["412"]
    edit(page, "decay-1M")
    stand_in.busy(world)
    world.add_run("quantize", {"checkpoint": "c8"}, "running")
    put(page, "#edit-notes", "while it trains")
    page.click("#edit-save")
    page.wait("document.querySelector('.edit') === null")
    assert world.trajectories[1]["notes"] == "while it trains" and changes(world) == ["PATCH", "PATCH"]


def test_the_keyboard_goes_back_to_where_the_panel_came_from(world, visit):
    page = visit()
    edit(page, "decay-1M")
    page.click("#edit-close")
    assert page.run("document.activeElement.id") == "edit-t1"
    edit(page, "decay-1M")
    page.click("#edit-save")
    page.wait("document.querySelector('.edit') === null && document.activeElement.id === 'edit-t1'")


def test_trajectories_say_how_sound_and_how_bad_they_are(world, visit):
    world.spoil("constant", {2: ["jump"]})
    world.spoil("decay-1M", {})
    page = visit()
    page.wait("document.querySelector('main table').innerText.includes('1 marked')")
    heads = page.run("[...document.querySelectorAll('main thead th')].map(cell => cell.innerText)")
    rows = [dict(zip(heads, row)) for row in page.run(
        "[...document.querySelectorAll('main tbody tr')].map(row => [...row.cells].map(cell => cell.innerText))")]
    found = {row["Trajectory"].split()[0]: row for row in rows}
    assert {name: row["Health"] for name, row in found.items()} == {
        "constant": "▲ 1 marked", "decay-1M": "✓ sound", "decay-3M": "not read"}
    worst = max((row for row in world.points if row[0] == "delta" and row[1]["trajectory"] == "constant"),
                key=lambda row: row[5])
    assert found["constant"]["Worst ΔQL"].split() == ["gptq", "3-bit", f"{100 * worst[5]:.2f}", "%"]
    assert page.run("document.querySelector('main tbody a[aria-label*=\"%\"]').getAttribute('href')").startswith(
        "#/checkpoints/")
    sort = "[...document.querySelectorAll('main thead .sort')].find(one => one.innerText.includes('{}')).click()"
    page.run(sort.format("Worst"))
    values = page.run("[...document.querySelectorAll('main tbody tr')]"
                      ".map(row => parseFloat(row.cells[7].innerText.split(' ')[1]))")
    assert values == sorted(values, reverse=True) and "sort=-Worst" in page.run("location.hash")
    page.run(sort.format("Health"))
    assert page.run(f"{NAMES}[0]") == "constant"
    page.call("Page.reload")
    page.wait("document.querySelector('main table')?.innerText.includes('1 marked')")
    assert page.run(f"{NAMES}[0]") == "constant"  # the address has the order
    check_looks(page, "health")


# --- Names that change ------------------------------------------------------------------------------------------------
def test_a_name_that_another_one_changed_is_shown_as_it_is(world, visit):
    page = visit("#/runs/r1")
    page.wait("document.querySelector('h1').innerText.includes('constant/step-244')")
    world.checkpoints[0]["name"] = "warm-up"
    world.trajectories[0]["name"] = world.checkpoints[0]["trajectory"] = "stable"
    # Until then parts of a page share a document.
    page.run("(now => { performance.now = () => now() + 5100; })(performance.now.bind(performance))")
    page.run("location.hash = '#/runs/r0'")
    page.wait("document.querySelector('h1').innerText.includes('stable/warm-up')")


def test_parts_of_a_page_share_a_document(world, visit):
    visit("#/runs/r1").wait("document.querySelector('.params').innerText.includes('perl-manual-validation')")
    asked = [path for _, path in world.requests if path == "/v1/checkpoints/c0"]
    assert len(asked) == 1


# --- Sweeps -----------------------------------------------------------------------------------------------------------
def test_failed_runs_of_a_sweep_are_retried(world, visit):
    page = visit("#/sweeps")
    page.click("#retry-s0")
    page.wait("document.querySelector('#retry-s0') === null")
    assert ("POST", "/v1/sweeps/s0/retry-failed") in world.requests
    world.sweeps[0]["runs"].update(failed=2, queued=0, running=0)
    page = visit("#/sweeps/constant-bits")
    assert page.run("document.querySelector('#retry-failed').innerText") == "Retry 2 failed"
    page.click("#retry-failed")
    page.wait("document.querySelector('#retry-failed') === null")
    assert page.run("document.querySelector('.counts').innerText").startswith("2 queued")


def test_a_sweep_is_deleted_once_it_has_ended(world, visit):
    page = visit("#/sweeps/constant-bits")
    assert page.run("document.querySelector('#delete') === null")  # it goes on
    page = visit("#/sweeps/decays")
    page.expected = ["404"]  # of a reading that had begun when it was deleted
    page.click("#delete")
    assert "its runs and measurements stay" in page.run("document.querySelector('.sure').innerText")
    check_looks(page, "sweep-deletion")
    page.click("#delete-yes")
    page.wait("location.hash === '#/sweeps' && document.querySelector('main h1').innerText === 'Sweeps'")
    assert [sweep["name"] for sweep in world.sweeps] == ["constant-bits"]


def test_sweeps_keep_their_order_in_the_address(world, visit):
    page = visit("#/sweeps?sort=-Runs")
    first = "document.querySelector('main tbody th .name').innerText"
    assert page.run(first) == "constant-bits"
    page.run("[...document.querySelectorAll('main thead .sort')].find(one => one.innerText.includes('Runs')).click()")
    assert page.run(first) == "decays" and page.run("location.hash") == "#/sweeps?sort=Runs"


# --- Runs -------------------------------------------------------------------------------------------------------------
def test_a_run_that_succeeded_is_made_again(world, visit):
    page = visit("#/runs/r1")
    page.run("document.querySelector('#again').click(); document.querySelector('#again').click()")  # once counts
    page.wait("location.hash === '#/runs/r24'")
    assert world.posted == [{"kind": "quantize", "params": world.runs[1]["params"], "force": True}]


def test_a_quantization_is_attributed_from_its_own_page(world, visit):
    page = visit("#/runs/r1")
    page.click("#attribute-this")
    page.wait("document.querySelector('.run-form') !== null")
    check_looks(page, "run-attribution")
    page.click("#send-attribution")
    page.wait("document.querySelector('#queued-run') !== null")
    (body,) = world.posted
    assert body["kind"] == "attribution" and body["params"]["checkpoint"] == "constant/step-244"
    assert body["params"]["method"]["bits"] == 3 and body["params"]["evaluation"]["dataset"] == "perl-manual-validation"
    other = world.add_run("evaluate", {"checkpoint": "c1", "dataset": "perl-manual-validation"}, "succeeded")
    page = visit(f"#/runs/{other['id']}")
    assert page.run("document.querySelector('#attribute-this') === null && document.querySelector('#again') !== null")


def test_a_run_shows_the_zone_of_its_times_and_no_empty_parameters(world, visit):
    page = visit("#/runs/r1", ready="document.querySelector('.params') !== null")
    page.call("Emulation.setTimezoneOverride", timezoneId="Asia/Tokyo")
    page.call("Page.reload")
    page.wait("document.querySelector('.facts')?.innerText.includes('GMT+9')")
    assert "export" not in page.run("document.querySelector('.params').innerText")
    assert page.run("document.querySelector('#unset').innerText") == "Not set: export."


RUNS = "[...document.querySelectorAll('main tbody th a')].map(link => link.getAttribute('href').split('/').pop())"


def test_an_ended_run_is_deleted_after_a_question(world, visit):
    page = visit("#/runs/r1")
    page.expected = ["404"]  # of a reading that had begun when it was deleted
    page.click("#delete")
    page.wait("document.activeElement?.id === 'delete-no'")  # what a careless Enter does
    assert "checkpoints that it made stay" in page.run("document.querySelector('.sure').innerText")
    check_looks(page, "run-deletion")
    page.click("#delete-yes")
    page.wait(f"location.hash === '#/runs' && {RUNS}.includes('r2')")
    assert "r1" not in page.run(RUNS) and ("DELETE", "/v1/runs/r1") in world.requests


def test_a_run_that_goes_on_is_cancelled_and_not_deleted(world, visit):
    running, _, failed = stand_in.busy(world)
    page = visit(f"#/runs/{running['id']}")
    assert page.run("document.querySelector('#cancel') !== null && document.querySelector('#delete') === null")
    page = visit(f"#/runs/{failed['id']}")
    assert page.run("document.querySelector('#retry') !== null && document.querySelector('#delete') !== null")


def test_a_refused_deletion_says_why(world, visit):
    world.add_run("compare", {"a": "r1", "b": "r2"}, "running")
    page = visit("#/runs/r1")
    page.expected = ["409"]
    page.click("#delete")
    page.click("#delete-yes")
    page.wait("document.querySelector('main .problem')?.innerText.includes('run r24 compares it')")
    assert world.runs[1]["id"] == "r1" and page.run("location.hash") == "#/runs/r1"


def test_a_run_that_was_tried_again_meanwhile_is_not_deleted(world, visit):
    *_, failed = stand_in.busy(world)
    page = visit(f"#/runs/{failed['id']}")
    page.expected = ["412"]
    page.click("#delete")
    failed.update(state="succeeded", error=None, finished_at=stand_in.stamp(9000))
    page.click("#delete-yes")
    page.wait("document.querySelector('main .problem')?.innerText.includes('Nothing was deleted') "
              "&& document.querySelector('.badge.succeeded') !== null")
    assert failed in world.runs and changes(world) == ["DELETE"]


def test_names_that_change_meanwhile_do_not_hinder_a_deletion(world, visit):
    page = visit("#/runs/r1")
    page.expected = ["412", "404"]
    world.runs[1]["names"] = {"c0": "constant/renamed"}
    page.click("#delete")
    page.click("#delete-yes")
    page.wait("location.hash === '#/runs'")
    assert changes(world) == ["DELETE", "DELETE"] and not any(run["id"] == "r1" for run in world.runs)


# --- Views in addresses -----------------------------------------------------------------------------------------------
SORTED = [("#/checkpoints/c3?measured=-Value", "Measurements", 1), ("#/compare?a=c2&b=c3&sort=-B%3A+step-976",
                                                                    "What was measured of both", 3),
          ("#/frontier?sort=-Bits+per+weight", "Quantizations", 2)]


@pytest.mark.parametrize("address, caption, column", SORTED, ids=[case[1] for case in SORTED])
def test_the_order_of_a_table_stands_in_the_address(visit, address, caption, column):
    table = f"[...document.querySelectorAll('table')].find(one => one.caption?.innerText === '{caption}')"
    head = f"{table}.querySelectorAll('thead th')[{column}]"
    page = visit(address, ready=f"{table} !== undefined && {table}.tBodies[0].rows.length > 0")
    assert page.run(f"{head}.ariaSort ?? {head}.getAttribute('aria-sort')") == "descending"
    page.run(f"{table}.querySelectorAll('thead .sort')[0].click()")
    page.wait("!location.hash.includes('=-')")
    asked = page.run("location.hash")
    page.call("Page.reload")
    page.wait(f"{table} !== undefined && {table}.tBodies[0].rows.length > 0")
    first = f"{table}.querySelectorAll('thead th')[0]"
    assert page.run(f"{first}.getAttribute('aria-sort')") == "ascending" and page.run("location.hash") == asked


@pytest.mark.parametrize("address, plot", [("#/scatter?x=loss_fp&y=loss_q", "scatter-plot"),
                                           ("#/frontier?which=all", "quantized-frontier-plot")])
def test_the_zoom_of_a_figure_stands_in_the_address(visit, address, plot):
    drawn = f"Boolean(document.querySelector('#{plot} .main-svg') && document.querySelector('#{plot}').data)"
    page = visit(address, ready=drawn)
    page.run(f"void Plotly.relayout('{plot}', {{'yaxis.range': [2.5, 3]}})")
    page.wait("location.hash.includes('zoomy=2.5%2C3')")
    page.call("Page.reload")
    page.wait(drawn)
    assert page.run(f"document.querySelector('#{plot}')._fullLayout.yaxis.range") == [2.5, 3]
    page.run(f"document.querySelector('#{plot}').emit('plotly_doubleclick')")
    page.wait(f"!location.hash.includes('zoom') && document.querySelector('#{plot}')._fullLayout.yaxis.autorange")


def test_only_the_axis_that_was_zoomed_stands_in_the_address(visit):
    """Of a logarithmic axis the page knows a range of its own, which is no zoom, and goes back to it."""
    page = visit("#/curves?trajectory=constant&yscale=log")
    page.wait(DRAWN)
    usual = page.run("[...document.querySelector('#plot')._fullLayout.yaxis.range]")
    page.run("void Plotly.relayout('plot', {'xaxis.range': [1e6, 2e6]})")
    page.wait("location.hash.includes('zoomx=1000000%2C2000000')")
    assert "zoomy" not in page.run("location.hash")
    page.run("void Plotly.relayout('plot', {'yaxis.range': [0, 0.5]})")
    page.wait("location.hash.includes('zoomy=0%2C0.5')")
    page.call("Page.reload")
    page.wait(DRAWN)
    page.run("document.querySelector('#plot').emit('plotly_doubleclick')")
    page.wait("!location.hash.includes('zoom') && document.querySelector('#plot')._fullLayout.xaxis.autorange")
    assert page.run("[...document.querySelector('#plot')._fullLayout.yaxis.range]") == pytest.approx(usual)


@pytest.mark.parametrize("text", ["1%2C", "%2C", "1", "a%2C2", "1%2C2%2C3"])
def test_half_a_range_is_none(visit, text):
    page = visit(f"#/curves?trajectory=constant&zoomx={text}")
    page.wait(DRAWN)
    assert page.run("document.querySelector('#plot')._fullLayout.xaxis.autorange")


# --- Answers that come late -------------------------------------------------------------------------------------------
def test_an_answer_that_comes_late_does_not_replace_a_newer_one(world, visit, monkeypatch):
    answered, original = threading.Event(), stand_in.Handler.resource

    def resource(handler, method, url):
        if url.path == "/v1/curves" and "metric=kl" in url.query:
            answered.wait(60)
        original(handler, method, url)
        if url.path == "/v1/checkpoints" and "limit=1000" in url.query and choice:
            answered.set()

    choice = []
    monkeypatch.setattr(stand_in.Handler, "resource", resource)
    page = visit("#/curves?trajectory=constant")
    page.wait(DRAWN)
    listed = "performance.getEntriesByType('resource').filter(one => one.name.includes('limit=1000')).length"
    page.wait(f"{listed} === 1")
    choice.append("loss_q")
    for metric in ("kl", "loss_q"):
        page.run(f"(select => {{ select.value = '{metric}'; select.dispatchEvent(new Event('change')); }})"
                 "(document.querySelector('select[aria-label=Measure]'))")
    page.wait(f"{listed} === 3")
    page.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.run("document.querySelector('#plot').layout.annotations[0].text") == "quantized loss (nats)"
    assert "Quantized loss" in page.run("document.querySelector('.summary').innerText")
