"""The boards: sweeps, datasets and recipes, workers with queue and disk; and what the list of runs says of results."""

import json
import subprocess

import contract
import pytest
import stand_in
import stand_in_service
from looks import check_looks


@pytest.fixture
def world():
    world = stand_in.demonstration()
    stand_in.busy(world)
    stand_in_service.service(world)
    return world


def rows(page):
    return page.run("[...document.querySelectorAll('main tbody tr')].map(row => [...row.cells]"
                    ".map(cell => cell.innerText.trim()))")


def test_sweeps_are_listed_with_their_grid_and_state(world, visit):
    page = visit("#/sweeps")
    found = {row[0].split()[0]: row for row in rows(page)}
    row = found["constant-bits"]
    assert "standing" in row[0] and row[2] == "checkpoint: all of constant; method.bits: 3, 4" and row[3] == "17"
    assert all(words in row[4] for words in ("2 queued", "1 running", "13 succeeded", "1 failed"))
    assert found["decays"][5] == "1"
    world.sweeps[0]["runs"]["succeeded"] = 14
    world.advance(next(run for run in world.runs if run["state"] == "queued"), state="succeeded")
    page.wait("document.querySelector('main').innerText.includes('14 succeeded')")
    check_looks(page, "sweeps")


def test_a_sweep_shows_its_runs_and_is_cancelled(world, visit):
    for run in world.runs[:4]:
        run["sweep"] = "constant-bits"
    page = visit("#/sweeps/constant-bits")
    assert len(rows(page)) == 4 and any("ΔQL" in row[2] for row in rows(page))
    page.click("#cancel")
    page.wait("document.querySelector('#cancel') === null")
    assert ("POST", "/v1/sweeps/s0/cancel") in world.requests
    page = visit("#/sweeps/decays")
    assert "2048 is above the model's 512 positions" in page.run("document.querySelector('main').innerText")
    check_looks(page, "sweep")


def test_commands_of_a_sweep_hold_in_a_shell_whatever_its_name(world, server, visit):
    world.sweeps[0]["name"] = "it's (3)"
    page = visit("#/sweeps/it's%20(3)")
    commands = page.run("[...document.querySelectorAll('.command code')].map(node => node.textContent)")
    assert len(commands) == 2
    told = []
    for text in commands:
        assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0, text
        words = subprocess.run(["bash"], input=f"curl() {{ printf '%s\\0' \"$@\"; }}\n{text}\n", text=True,
                               capture_output=True, check=True)
        told.append(words.stdout.split("\0")[:-1])
    assert told[1] == [f"{server.url}/v1/sweeps/it's%20(3)"]
    assert told[0][0] == f"{server.url}/v1/sweeps" and json.loads(told[0][-1])["name"] == "it's (3)-again"


def test_commands_take_the_token_of_the_reader_where_one_is_needed(world, server, visit):
    page = visit("#/sweeps/decays")
    assert "DELTAQ_TOKEN" not in page.run("document.querySelector('main').textContent")
    page.run("sessionStorage.setItem('deltaq-token', 'the-reader-s-own')")
    page.run("location.reload()")
    page.wait("document.querySelectorAll('.command code').length === 2")
    for text in page.run("[...document.querySelectorAll('.command code')].map(node => node.textContent)"):
        said = subprocess.run(["bash"], input=f"curl() {{ printf '%s\\0' \"$@\"; }}\n{text}\n", text=True,
                              capture_output=True, check=True, env={"DELTAQ_TOKEN": "that of the shell"})
        assert "Authorization: Bearer that of the shell" in said.stdout.split("\0"), text
        assert "the-reader-s-own" not in text


def test_a_sweep_of_which_all_failed_does_not_look_well(world, visit):
    world.sweeps[1]["runs"].update(queued=0, running=0, succeeded=0, cancelled=0, failed=3)
    page = visit("#/sweeps")
    bad = page.run("[...document.querySelectorAll('progress.bad')].map(node => node.getAttribute('aria-label'))")
    assert bad == [f"progress of {world.sweeps[1]['name']}"]


def test_the_run_of_an_average_leads_to_what_it_made(world, visit):
    made = world.add_run("average", {"trajectory": "constant", "window": 3}, "succeeded")
    made["result"] = {"trajectory": "constant-lawa3", "checkpoints": ["c1", "c2"]}
    page = visit(f"#/runs/{made['id']}")
    page.wait("document.querySelector('.crumbs .name') !== null")
    assert page.run("document.querySelector('.crumbs .name').getAttribute('href')") == (
        "#/curves?trajectory=constant-lawa3")


def test_data_sets_and_recipes(visit):
    page = visit("#/data")
    text = page.run("document.querySelector('main').innerText")
    for expected in ("perl-manual-validation", "/data/perl-manual.txt", "by tokenizer", "gptq-w4a16",
                     "gptq 4-bit g128"):
        assert expected in text
    check_looks(page, "data")


def test_workers_queue_and_disk(world, visit):
    page = visit("#/system")
    text = page.run("document.querySelector('main').innerText")
    for expected in ("gpu-7, process 4711", "cpu: 0 of 1 busy", "the oldest since 75 s", "Free disk for a run\n500 GiB",
                     "Free memory for a run\n1 GiB", "Free on the data directory's disk\n700 GiB",
                     "Stored there\n1 MiB"):
        assert expected in text, expected
    assert not any(run["state"] == "queued" and run["kind"] == "quantize" and run["params"].get("evaluation")
                   for run in world.runs[24:])  # a dry run makes none
    world.workers.clear()
    page.wait("document.querySelector('main').innerText.includes('No worker was seen')")
    check_looks(page, "system")


def test_workers_say_how_their_devices_are(world, visit):
    aside = {"state": "aside", "faults": 3, "reason": "an illegal address", "name": "H200", "uuid": "GPU-0123abcd",
             "bus_id": "0000:18:00.0"}
    own = {"verdict": "own_products", "library": None, "core": None, "reason": "OpenBLAS hangs as SkylakeX"}
    world.workers.append({**world.workers[0], "id": "w1", "pid": 4712, "device": "cuda:0", "device_state": aside})
    world.workers.append({**world.workers[0], "id": "w2", "pid": 4713, "device_state": None, "blas": own})
    passed = {"checks": 41, "seconds": 1.5, "rates": [{"name": "products f32", "rate": 51234.5, "unit": "GFLOP/s"}]}
    for pid, state in ((4714, {"state": "failed", "faults": 0, "reason": "cuda:1 failed its self-test: a crash"}),
                       (4715, {"state": "in_use", "faults": 0, "reason": None, "selftest": passed,
                               "memory_bytes": 74 << 30})):
        world.workers.append({**world.workers[0], "id": f"w{pid}", "pid": pid, "device_state": {**aside, **state}})
    page = visit("#/system?sort=-Worker")
    heads = page.run("[...document.querySelectorAll('main thead th')]"
                     ".map(cell => cell.innerText.replace(/ [↓↑]/, ''))")
    found = [dict(zip(heads, row)) for row in rows(page)]
    assert [row["Worker"][-4:] for row in found] == ["4715", "4714", "4713", "4712", "4711"]  # the order of the address
    used, failed, products, cuda, cpu = found
    assert cuda["Device's state"] == "▲ set aside (3 faults): an illegal address" and cuda["UUID"] == "GPU-0123abcd"
    assert cpu["Device's state"] == cpu["UUID"] == "–" and cpu["Matrix products"] == "OpenBLAS, SkylakeX"
    assert products["Matrix products"] == "▲ deltaq's own"
    assert used["Device's state"] == "in use" and used["Memory for a run"] == "64 GiB, device 74 GiB"
    assert cpu["Memory for a run"] == cuda["Memory for a run"] == "64 GiB"
    assert failed["Device's state"] == "▲ failed, the CPU works: cuda:1 failed its self-test: a crash"
    assert "products f32 51,235 GFLOP/s" in page.run(
        "[...document.querySelectorAll('main tbody [title]')].map(one => one.title)")
    page.run("[...document.querySelectorAll('main thead .sort')].find(one => one.innerText.includes('UUID')).click()")
    assert "sort=UUID" in page.run("location.hash")
    check_looks(page, "devices")


def test_the_disk_is_told_before_anything_was_quantized(world, visit):
    world.runs.clear()
    page = visit("#/system")
    text = page.run("document.querySelector('main').innerText")
    assert "Free on the data directory's disk\n700 GiB" in text and "Memory is known once" in text


def test_lists_ask_for_what_they_show(world, visit):
    """Results are long: the layers of a quantization, the grid of a landscape. A list shows a line of each."""
    page = visit("#/runs?kind=quantize")
    (listed,) = [path for _, path in world.requests if path.startswith("/v1/runs?")]
    assert "view=summary" in listed and "limit=50" in listed
    received = page.run("performance.getEntriesByType('resource').find(one => one.name.includes('/v1/runs?'))"
                        ".decodedBodySize")
    assert received < 50_000 < len(stand_in.json.dumps([run["result"] for run in world.runs]))
    assert not any(path.startswith("/v1/checkpoints/") for _, path in world.requests)  # runs tell their names
    for path in (path for _, path in world.requests if path.startswith("/v1/trajectories?")):
        assert "fields=" in path
    modules = page.run("performance.getEntriesByType('resource').map(one => one.name.split('/').pop())"
                       ".filter(name => name.startsWith('page_'))")
    assert modules == ["page_runs.js"]  # the other pages are fetched when they are shown
    page.run("location.hash = '#/data'")
    page.wait("document.querySelector('main h1').innerText === 'Datasets and recipes'")


def test_the_first_page_asks_for_what_is_on_screen_and_for_nothing_twice(world, visit):
    """The list tells the newest checkpoints; integrity is asked for where a row is seen, and again where it changed."""
    for number in range(60):
        world.add_trajectory(f"many-{number}", [1e-3, 5e-4])
    world.spoil("many-59", {1: ["identical"]})
    world.spoil("many-58", {})
    world.requests.clear()

    def told(name):
        return (f"[...document.querySelectorAll('main tbody tr')].find(row => row.innerText.includes('{name}\\n')"
                f" || row.innerText.includes('{name}\\t')).innerText")

    def integrities():
        return [path for _, path in world.requests if "/integrity" in path]

    page = visit()
    page.wait(f"{told('many-59')}.includes('1 marked') && {told('many-58')}.includes('sound')")
    page.wait(f"{told('many-50')}.includes('not read')")
    asked = integrities()
    assert [path for _, path in world.requests if path.startswith("/v1/checkpoints?")] == []
    assert len(asked) == len(set(asked)) < 40 and all("?checkpoint=" in path for path in asked)
    assert "…" in page.run(told("many-0"))
    # One trajectory changes: no other one is asked for again.
    world.add_checkpoint("many-57", 3, 1e-4)
    run = world.add_run("evaluate", {"checkpoint": world.checkpoints[0]["id"]}, "running")
    page.wait("document.querySelector('.live').hidden === false")
    world.requests.clear()
    world.advance(run, state="failed")
    page.wait("document.querySelector('section[aria-label=\"Recent failures\"]').hidden === false")
    page.wait("document.querySelector('main').innerText.includes('127 checkpoints')"
              " || document.querySelector('main').innerText.includes('133 checkpoints')")
    changed = next(item["id"] for item in world.trajectories if item["name"] == "many-57")
    page.wait(f"{told('many-57')}.includes('not read')")
    # (a row that came into view meanwhile is asked for the first time)
    assert {path.split("/")[3] for path in integrities()} & {path.split("/")[3] for path in asked} <= {changed}
    page.run("[...document.querySelectorAll('main tbody tr')].at(-1).scrollIntoView()")
    page.wait(f"!{told('many-0')}.includes('…')")


def test_runs_name_their_checkpoints_themselves(world, visit):
    run = next(run for run in world.runs if run["kind"] == "quantize")
    run["names"] = {run["params"]["checkpoint"]: "renamed/yesterday"}
    page = visit("#/runs?sort=created")
    page.wait("document.querySelector('main tbody tr').innerText.includes('renamed/yesterday')")


def test_runs_say_what_they_found(world, visit):
    evaluated = world.add_run("evaluate", {"checkpoint": "c1", "dataset": "perl-manual-validation"}, "succeeded")
    evaluated["result"] = {"loss": 2.5, "sequences": 8}
    made = world.add_run("average", {"trajectory": "constant", "window": 3}, "succeeded")
    made["result"] = {"trajectory": "constant-lawa3", "checkpoints": ["c1", "c2"]}
    line = world.add_run("interpolate", {"from": "c1", "to": "c2"}, "succeeded")
    line["result"] = {"alphas": [-1, 0, 0.5, 1], "losses": [9, 2.5, 2.75, 2.25]}
    part = world.add_run("interpolate", {"from": "c1", "to": "c2"}, "succeeded")
    part["result"] = {"alphas": [0.25, 0.5, 0.75], "losses": [2.5, 2.75, 2.5]}
    broken = world.add_run("interpolate", {"from": "c1", "to": "c2"}, "succeeded")
    broken["result"] = {"alphas": [0, 0.5, 1], "losses": [2.5, None, 2.25]}
    one = world.add_run("average", {"checkpoints": ["c1", "c2"], "window": None}, "succeeded")
    one["result"] = {"trajectory": "constant-mean", "checkpoints": ["c3"], "checkpoint": "c3"}
    plane = world.add_run("landscape", {"trajectory": "constant", "grid": [20, 15]}, "succeeded")
    plane["result"] = {"x": [0] * 20, "y": [0] * 15, "losses": [], "explained_variance": [0.613, 0.184]}
    trained = world.add_run("train", {"trajectory": "constant", "dataset": "perl-manual"}, "succeeded")
    trained["result"] = {"checkpoints": ["c1", "c2"], "validation_loss": 2.25, "final_loss": 2.5}
    sharp = world.add_run("sharpness", {"checkpoint": "c1"}, "succeeded")
    sharp["result"] = {"predicted_delta": 0.45, "prediction_in_range": False}
    world.requests.clear()
    page = visit("#/runs?state=succeeded")
    found = [row[2] for row in rows(page)]
    # The summaries have the words of the other kinds.
    assert {path for _, path in world.requests if path.startswith("/v1/runs/")} == {
        f"/v1/runs/{run['id']}" for run in (made, line, part, broken)}
    assert [found.pop(0) for _ in range(4)] == [
        "Predicted ΔQL 45.0 % (out of range); 7.3 s", "Validation loss (nats) 2.2500; 7.3 s",
        "20 × 15 grid, 80 % of the variance; 7.3 s", "1 average made; 7.3 s"]
    assert [found.pop(0) for _ in range(2)] == [
        "a loss between the checkpoints is not finite; 7.3 s", "3 points, without both checkpoints; 7.3 s"]
    assert found[:3] == ["barrier 0.25 nats over 3 points; 7.3 s", "2 averages made; 7.3 s",
                         "Loss (nats) 2.5000; 7.3 s"]
    assert all(text.startswith("ΔQL ") and "bits per weight" in text.lower() for text in found[3:])


def test_runs_can_be_filtered_by_every_kind_and_state_of_the_interface(visit):
    interface = contract.OPENAPI
    kinds = interface["components"]["schemas"]["RunRequest"]["discriminator"]["mapping"]
    fields = {field.get("name"): field for field in interface["paths"]["/v1/runs"]["get"]["parameters"]}
    page = visit("#/runs")
    for label, expected in (("Kind", kinds), ("State", fields["state"]["schema"]["enum"])):
        offered = f"[...document.querySelectorAll('select[aria-label={label}] option')].map(option => option.value)"
        assert sorted(page.run(offered)) == sorted(["", *expected])


def test_the_dry_run_of_the_system_page_is_asked_for_once(world, visit):
    """It is work for the server; the rest of the page is read again."""
    page = visit("#/system")
    assert "Free disk for a run\n500 GiB" in page.run("document.querySelector('main').innerText")
    world.workers[0]["threads"] = 1
    page.wait("document.querySelector('main').innerText.match(/cpu, 1 thread\\s/) !== null")
    assert "Free disk for a run\n500 GiB" in page.run("document.querySelector('main').innerText")
    assert [method for method, path in world.requests if path == "/v1/runs"] == ["POST"]


def test_the_dry_run_of_the_system_page_has_the_precision_of_the_run(world, visit, monkeypatch):
    asked, original = [], stand_in.Handler.create_run

    def create(handler):
        asked.append(handler.body)
        return original(handler)

    monkeypatch.setattr(stand_in.Handler, "create_run", create)
    newest = [run for run in world.runs if run["kind"] == "quantize" and run["state"] == "succeeded"][-1]
    newest["params"]["precision"] = "bf16"
    visit("#/system").wait("document.querySelector('main').innerText.includes('would take')")
    assert [body["params"]["precision"] for body in asked] == ["bf16"] and asked[0]["dry_run"]


def test_runs_stand_in_the_order_of_the_address(world, visit):
    world.runs[3]["finished_at"] = stand_in.stamp(9000)  # a long one
    page = visit("#/runs?kind=quantize")
    links = "[...document.querySelectorAll('main tbody th a')].map(link => link.getAttribute('href').split('/').pop())"
    assert page.run(links)[0] == [run["id"] for run in world.runs if run["kind"] == "quantize"][-1]
    page.run("(select => { select.value = '-finished'; select.dispatchEvent(new Event('change')); })"
             "(document.querySelector('select[aria-label=Order]'))")
    page.wait("location.hash === '#/runs?kind=quantize&sort=-finished'")
    page.wait(f"{links}[0] === 'r3'")
    ended = [run["id"] for run in sorted(world.runs, key=lambda run: run["finished_at"] or "", reverse=True)
             if run["finished_at"] and run["kind"] == "quantize"]
    assert page.run(links) == ended and "Ended" in page.run("document.querySelector('main thead').innerText")
    page = visit("#/runs?sort=created")
    assert page.run(links)[:3] == ["r0", "r1", "r2"]
    check_looks(page, "runs-in-order")


def type_in(page, selector, text, key="Enter"):
    """As a reader does: in place of what the field holds, and then a key."""
    page.run(f"(field => {{ field.focus(); field.select(); }})(document.querySelector('{selector}'))")
    page.call("Input.insertText", text=text)
    page.key(key)


def test_runs_are_filtered_by_checkpoint_and_tag_as_they_are_typed(world, visit):
    world.checkpoints[2]["tags"] = {"phase": "decay"}
    page = visit("#/runs?kind=quantize")
    count, focused = "document.querySelectorAll('main tbody tr').length", "document.activeElement.id"
    type_in(page, "#filter-name", "step-7*")  # two checkpoints, each at two widths
    page.wait(f"location.hash === '#/runs?kind=quantize&name=step-7*' && {count} === 4")
    assert page.wait(f"{focused} === 'filter-name' && document.activeElement.value") == "step-7*"
    type_in(page, "#filter-tag", "phase:decay", "Tab")
    page.wait(f"location.hash.endsWith('&name=step-7*&tag=phase%3Adecay') && {count} === 2")
    page.wait(f"{focused} === 'filter-created_from'")  # where Tab leads
    assert any(path.startswith("/v1/runs?kind=quantize&name=step-7*&tag=phase%3Adecay&sort=")
               for _, path in world.requests)
    check_looks(page, "runs-filtered")
    page.run("history.back()")
    page.wait(f"{count} === 4 && document.querySelector('#filter-tag').value === ''")


def test_runs_are_filtered_by_when_they_were_submitted(world, visit):
    moments = [world.runs[place]["created_at"] for place in (5, 9)]
    page = visit(f"#/runs?created_from={moments[0]}&created_to={moments[1]}&sort=created")
    links = "[...document.querySelectorAll('main tbody th a')].map(link => link.getAttribute('href').split('/').pop())"
    assert page.run(links) == ["r5", "r6", "r7", "r8"]
    assert page.run("document.querySelector('#filter-created_to').value") == moments[1]


@pytest.mark.parametrize("field, wrong, right", [("created_from", "yesterday", "2026-01-31"),
                                                 ("tag", ":decay", "phase")])
def test_a_filter_that_the_server_refuses_is_told_where_it_was_typed(world, visit, field, wrong, right):
    world.checkpoints[2]["tags"] = {"phase": "decay"}
    page = visit("#/runs")
    page.expected = ["422"]
    type_in(page, f"#filter-{field}", wrong)
    assert "expected" in page.wait(f"document.querySelector('#filter-{field}-wrong')?.innerText")
    assert page.run(f"(one => [one.value, one.getAttribute('aria-invalid'), one.getAttribute('aria-describedby')])"
                    f"(document.querySelector('#filter-{field}'))") == [wrong, "true", f"filter-{field}-wrong"]
    assert page.run("document.querySelector('main h1').innerText") == "Runs"
    assert page.run("document.querySelector('.problem') === null && document.querySelectorAll('tbody tr').length === 0")
    check_looks(page, f"runs-refused-{field}")
    type_in(page, f"#filter-{field}", right)
    page.wait(f"document.querySelector('#filter-{field}-wrong') === null "
              "&& document.querySelectorAll('tbody tr').length > 0")


def asked(world, path):
    return sum(one.startswith(path) for _, one in world.requests)


def test_boards_read_when_something_changes(world, visit):
    """And not before: the change log tells them. Progress is not logged: a page with running runs goes on asking."""
    page = visit("#/sweeps")
    page.wait("performance.getEntriesByType('resource').filter(one => one.name.includes('/v1/sweeps')).length === 2")
    page.run("new Promise(done => setTimeout(done, 7000))")
    assert asked(world, "/v1/sweeps") == 2 and asked(world, "/v1/events?kind=run") == 1
    world.sweeps[0]["runs"]["succeeded"] = 15
    world.advance(next(run for run in world.runs if run["state"] == "queued"), state="succeeded")
    page.wait("document.querySelector('main').innerText.includes('15 succeeded')")
    page = visit("#/runs?state=running")
    world.runs[24]["progress"]["done"] = 2345
    page.wait("document.querySelector('main').innerText.includes('2,345 of')", seconds=20)


def test_boards_poll_when_changes_cannot_be_had(world, visit, monkeypatch):
    monkeypatch.setattr(stand_in.Handler, "changes", lambda handler: handler.problem(503, "Unavailable", "too many"))
    page = visit("#/sweeps")
    page.expected = ["503"]
    page.wait("performance.getEntriesByType('resource').filter(one => one.name.includes('/v1/sweeps')).length > 1")
    world.sweeps[0]["runs"]["succeeded"] = 15
    page.wait("document.querySelector('main').innerText.includes('15 succeeded')", seconds=20)


def test_a_list_goes_on_behind_a_proxy(world, visit, monkeypatch):
    """The server knows itself by another host than the page does: its links are followed on the page's own."""
    original = stand_in.Handler.page

    def page_of(handler, name, items, fields):
        found = original(handler, name, items, {**fields, "limit": ["2"]})
        return {**found, "next": found["next"] and f"http://inside.example:8642{found['next']}"}

    monkeypatch.setattr(stand_in.Handler, "page", page_of)
    page = visit("#/")
    assert "3 training runs" in page.run("document.querySelector('.intro').innerText")


def test_a_refused_dry_run_is_not_asked_for_again(world, visit, monkeypatch):
    monkeypatch.setattr(stand_in.Handler, "create_run", lambda handler: (403, "Forbidden", "read only"))
    page = visit("#/system")
    page.expected = ["403"]
    readings = "/v1/workers"
    before = sum(path == readings for _, path in world.requests)
    page.wait("document.querySelector('main').innerText.includes('a dry run of it tells')")
    world.workers.clear()
    page.wait("document.querySelector('main').innerText.includes('No worker was seen')")
    assert sum(path == readings for _, path in world.requests) > before
    assert [method for method, path in world.requests if path == "/v1/runs"] == ["POST"]
