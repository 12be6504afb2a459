"""What the dashboard changes: trajectories are renamed, annotated, archived and deleted, sweeps retried and deleted,
runs made again and attributed; and that names which others change are shown as they are."""

import pytest
import stand_in
import stand_in_service
from looks import check_looks

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
    assert ("DELETE", "/v1/trajectories/decay-3M") in world.requests
    running, *_ = stand_in.busy(world)
    edit(page, "constant")
    page.click("#edit-delete")
    page.click("#edit-delete-yes")
    page.wait("document.querySelector('.edit .problem')?.innerText.includes('has not ended')")
    page.expected = ["409"]


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
    assert found["constant"]["Worst ΔQL"].split() == ["3-bit", f"{100 * worst[5]:.2f}", "%"]
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
    page.run("new Promise(done => setTimeout(done, 5100))")  # as long as a document is shared by the parts of a page
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
    page.click("#again")
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
