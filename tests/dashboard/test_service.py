"""The dashboard on the real server: what the stand-in claims of it holds."""

import json
import re

import pytest

pytest.importorskip("jsonschema")
pytest.importorskip("yaml")
import models  # noqa: E402
from looks import APART, CURVES, DRAWN, check_looks, traces  # noqa: E402
from service import BINARY, Service  # noqa: E402
from stand_in import HOSTILE, PLOTLY  # noqa: E402
from test_api import tried  # noqa: E402


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    if not BINARY.exists() or not PLOTLY.is_file():
        pytest.skip("build/deltaq or build/static/plotly.js is missing; run `make all static`")
    running = Service(tmp_path_factory.mktemp("deltaq"), "--threads", "1")
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="module")
def measured(service):
    """Three checkpoints of a trajectory with a hostile name, quantized at 3 and 4 bits; and a run that fails."""
    for index in range(3):
        directory = models.write_llama(service.files / str(index), seed=index)
        service.checkpoint(directory, HOSTILE, f"step{index}", step=index, tokens=1000 * index,
                           learning_rate=0.1 / (index + 1))
    service.sequences("tokens", models.rows(8, 32))
    body = {"name": "sweep", "kind": "quantize", "base": {"method": {"name": "rtn", "group_size": 32},
                                                          "evaluation": {"dataset": "tokens", "sequence_length": None}},
            "grid": {"checkpoint": {"trajectory": HOSTILE}, "method.bits": [3, 4]}}
    assert service.post("/v1/sweeps", body).status == 202
    for run in service.get("/v1/runs?sweep=sweep").json["items"]:
        assert service.wait(run["id"])["state"] == "succeeded"
    return service.get("/v1/runs?sweep=sweep").json["items"]


def test_first_page_curves_and_run(service, measured, visit):
    page = visit(url=service.url)
    text = page.run("document.querySelector('main table').innerText")
    assert HOSTILE in text and "3-bit" in text and "llama" in text
    page.run("document.querySelector('main table a').click()")
    page.wait("location.hash.startsWith('#/curves')")
    page.wait(DRAWN)
    page.wait(CURVES % "'curve'" + ".length === 2")
    trajectory = page.run("encodeURIComponent(" + json.dumps(HOSTILE) + ")")
    answer = service.get(f"/v1/curves?trajectory={trajectory}&metric=delta&x=tokens").json
    for curve, series in zip(traces(page, "curve"), sorted(answer["series"], key=lambda series: -series["bits"])):
        assert curve["x"] == [point["x"] for point in series["points"]]
        assert curve["y"] == pytest.approx([100 * point["y"] for point in series["points"]])
    assert len(traces(page, "loss")) == len(traces(page, "rate")) == 1
    page.click("#save-png")
    assert page.downloaded(".png").read_bytes()[:4] == b"\x89PNG"
    page.click("#save-csv")
    assert len(page.downloaded(".csv").read_text().splitlines()) == 1 + 6
    page.run("document.querySelector('table.checkpoints tbody td a').click()")
    page.wait("location.hash.startsWith('#/runs/') && document.querySelector('#layers-plot .main-svg') !== null")
    assert page.run("document.querySelectorAll('table.layers tbody tr').length") == 14
    page.wait("document.querySelector('.params').innerText.includes('evaluation.dataset\\ntokens')")
    assert page.run("window.hurt") is None


def test_a_checkpoint_says_why_and_is_quantized_and_compared(service, measured, visit):
    """The pages that the stand-in promises, on the real answers: neighbours, pairs, plans and posted runs."""
    ids = {item["name"]: item["id"] for item in service.get("/v1/checkpoints?limit=1000").json["items"]
           if item["trajectory"] == HOSTILE}
    page = visit(f"#/checkpoints/{ids['step1']}", url=service.url)
    words = page.wait("document.querySelector('#why')?.innerText")
    worst = max((run for run in measured if run["params"]["checkpoint"] == ids["step1"]),
                key=lambda run: run["result"]["delta"])
    assert (f"rtn {worst['params']['method']['bits']}-bit g32" in words and "of 3 checkpoints" in words
            and "Since step0 it changed by" in words)
    assert "8 sequences" in words and "The learning rate fell from 0.1 to 0.05" in words and "95 % paired" in words
    assert page.run("document.querySelectorAll('table.beside tbody tr').length") >= 10
    page.run("document.querySelector('#tensors').open = true")
    page.wait("document.querySelectorAll('#tensors tbody tr').length > 10")
    page.click("#quantize-this")
    page.run("(node => { node.value = '2'; node.dispatchEvent(new Event('input', {bubbles: true})); "
             "})(document.querySelector('#form-method-bits'))")
    page.click("#plan-quantize")
    page.wait("document.querySelector('.run-form')?.innerText.includes('of memory')")
    page.click("#send-quantize")
    page.wait("document.querySelector('#queued-run') !== null")
    run = service.wait(page.run("document.querySelector('#queued-run').getAttribute('href').split('/').pop()"))
    assert (run["state"] == "succeeded" and run["params"]["method"]["bits"] == 2
            and run["params"]["checkpoint"] == ids["step1"])
    page.run(f"location.hash = '#/compare?a={ids['step0']}&b={ids['step2']}'")
    page.wait("document.querySelector('table.measured') !== null")
    pair = [next(run["id"] for run in measured
                 if run["params"]["checkpoint"] == ids[name] and run["params"]["method"]["bits"] == 4)
            for name in ("step0", "step2")]
    found = service.get(f"/v1/compare?a={pair[0]}&b={pair[1]}").json["loss_q"]["difference"]
    cells = page.run("[...document.querySelectorAll('table.measured tbody tr')].map(row => [...row.cells]"
                     ".map(cell => cell.innerText.trim()))")
    shown = next(row[5].split()[0] for row in cells if row[0].startswith("Quantized loss") and "4-bit" in row[1])
    assert float(shown.replace("−", "-")) == pytest.approx(found, abs=6e-5)
    assert page.run("window.hurt") is None


def test_an_attribution_of_the_form_is_planned_by_the_service(service, measured, visit):
    checkpoint = measured[0]["params"]["checkpoint"]
    page = visit(f"#/checkpoints/{checkpoint}", url=service.url)
    page.click("#attribute-this")
    node = "document.querySelector('#form-%s')"

    def put(field, text):
        page.run(f"(node => {{ node.removeAttribute('pattern'); node.value = '{text}'; "
                 f"node.dispatchEvent(new Event('input', {{bubbles: true}})); }})({node % field})")
        page.click("#plan-attribution")

    page.expected = ["422"]
    put("evaluation-max_sequences", "1,000")  # the browser refused it, were it not for the test
    page.wait("document.querySelector('.run-form .problem')?.innerText.includes('/params/evaluation/max_sequences')")
    put("evaluation-max_sequences", "4")
    page.wait("document.querySelector('.run-form')?.innerText.includes('of memory')")
    put("budget", "3.5")
    page.wait("document.querySelector('.run-form .problem')?.innerText.includes('/params/budget')")
    put("bits", "3, 8")
    page.wait("document.querySelector('.run-form')?.innerText.includes('of memory')")
    planned = json.loads(page.run("document.querySelector('pre[aria-label=parameters]').textContent"))
    assert planned["bits"] == [3, 8] and planned["budget"] == 3.5


def test_what_has_no_place_on_the_axis_is_measured_all_the_same(service, measured, visit):
    directory = models.write_llama(service.files / "placeless", seed=9)
    checkpoint = service.checkpoint(directory, "placeless", "step0", step=0, tokens=0)
    service.run("quantize", checkpoint=checkpoint["id"], method={"name": "rtn", "bits": 4, "group_size": 32},
                evaluation={"dataset": "tokens", "sequence_length": None})
    page = visit("#/curves?trajectory=placeless&x=learning_rate", url=service.url)
    told = "ΔQL was measured here, but of no checkpoint with a learning rate."
    page.wait(f"document.querySelector('.remark').innerText.includes('{told}')")


def test_worst_tokens_are_those_of_the_service_in_their_text(service, measured, visit):
    text = service.files / "worst.txt"
    text.write_text("A café is what it is.\n" * 12)
    service.post("/v1/datasets", {"name": "worst", "path": str(text), "format": "text"})
    ids = {item["name"]: item["id"] for item in service.get("/v1/checkpoints?limit=1000").json["items"]
           if item["trajectory"] == HOSTILE}
    runs = [service.run("quantize", checkpoint=ids[name], method={"name": "rtn", "bits": 2, "group_size": 32},
                        evaluation={"dataset": "worst", "sequence_length": 32}, per_token=True)
            for name in ("step0", "step2")]
    page = visit(f"#/checkpoints/{ids['step2']}", url=service.url)
    for query, selector in (("", "a.worst-tokens"), (f"?against={runs[0]['id']}", "main a.worst-tokens")):
        if query:
            page.run(f"location.hash = '#/compare?a={ids['step0']}&b={ids['step2']}'")
        page.wait(f"document.querySelector('{selector}') !== null")
        page.click(selector)
        page.wait("document.querySelector('#worst-tokens') !== null")
        page.click("#worst-tokens")
        rows = page.wait("[...document.querySelectorAll('section[aria-label=\"Worst tokens\"] tbody tr')]"
                         ".map(row => [...row.cells].map(cell => cell.innerText.trim()))")
        found = service.get(f"/v1/runs/{runs[1]['id']}/worst-tokens{query}").json
        assert found["against"] == (runs[0]["id"] if query else None) and len(rows) == len(found["items"]) == 50
        for row, item in zip(rows, found["items"]):
            assert row[:2] == [str(item["sequence"]), str(item["position"])]
            assert float(row[5].replace("\u2212", "-")) == pytest.approx(item["difference"], abs=6e-5)
            if item["text"].strip():
                assert row[2] == (item["before"] + item["text"] + item["after"]).replace("\n", "↵").strip()
    check_looks(page, "tokens-of-the-service")


def test_a_request_is_tried_on_the_page_of_the_api(service, measured, visit):
    if service.get("/swagger-ui.js").status == 404:
        pytest.skip("build/static/swagger-ui.js is missing; run `make static`")
    status, body = tried(visit("#/api", url=service.url))
    assert status.startswith("200") and json.dumps(HOSTILE)[1:-1] in body


@pytest.mark.parametrize("address, words", [("#/sweeps", "method.bits: 3, 4"), ("#/sweeps/sweep", "succeeded"),
                                            ("#/data", "tokens"), ("#/system", "cpu, "), ("#/frontier", "✓ yes"),
                                            ("#/runs?sort=-finished", "Ended")])
def test_boards_read_what_the_service_says(service, measured, visit, address, words):
    page = visit(address, url=service.url)
    page.wait(f"document.querySelector('main').innerText.includes({json.dumps(words)})")
    assert page.run("document.querySelectorAll('main tbody tr').length") > 0


def test_what_a_user_meets_first(service, measured, visit):
    """No trajectory goes by its id, every kind can be asked for,
    and the header keeps its words apart on a telephone."""
    service.checkpoint(models.write_llama(service.files / "alone"), "alone", "only", step=1, tokens=10)
    assert service.run("health", checkpoint="alone/only")["state"] == "succeeded"
    page = visit("#/runs", url=service.url)
    page.wait("document.querySelectorAll('.controls select').length > 1")
    kinds = set(page.run("[...document.querySelectorAll('.controls option')].map(option => option.value)"))
    assert {"train", "health", "attribution", "fetch"} <= kinds
    page.wait("document.body.innerText.includes('alone/only')")
    page.open(f"{service.url}/#/curves?trajectory=alone")
    page.wait("document.body.innerText.includes('The only checkpoint is read, nothing wrong.')")
    page.resize(400, 800)
    assert page.run(APART)


def test_training_is_followed_and_cancelled(service, visit):
    service.sequences("much", models.rows(64, 33))
    body = {"kind": "train", "params": {"trajectory": "live", "model": models.LLAMA, "dataset": "much",
                                        "tokens": 40_000, "batch_sequences": 4, "sequence_length": 32,
                                        "tokenizer": {"name": "bytes"}, "checkpoint_every": 1000,
                                        "schedule": {"name": "constant", "peak": 1e-3, "warmup": 1000}}}
    service.gate.hold("train", 20, "step")  # it has made a checkpoint
    answer = service.post("/v1/runs", body)
    assert answer.status == 202, answer.body
    page = visit(f"#/runs/{answer.json['id']}", url=service.url)
    page.wait("document.querySelector('h1').innerText === 'Train live' "
              "&& document.querySelector('.crumbs').innerText.endsWith('live')")
    page.wait("document.querySelector('.params').innerText.includes('trajectory\\nlive')")
    page.wait("document.querySelector('progress')?.value > 0")
    page.click("#cancel")
    page.wait("document.querySelector('.badge.cancelled') !== null")
    page.run("location.hash = '#/'")
    page.wait("document.querySelector('main table')?.innerText.includes('live')")


def test_missing_things_are_problems(service, visit):
    page = visit("#/runs/none", url=service.url)
    page.expected = ["404"]
    assert "no run" in page.run("document.querySelector('.problem').innerText")


def test_tasks_show_accuracy_and_the_questions_that_flip(service, visit):
    question = {"sol1": "with fire", "sol2": "with ice"}
    path = service.files / "piqa.jsonl"
    path.write_text("".join(json.dumps({"goal": f"{HOSTILE} {k}", "label": k % 2, **question}) + "\n"
                            for k in range(12)))
    for step in (1, 2):
        directory = models.write_llama(service.files / f"asked{step}", seed=step, max_position_embeddings=160)
        service.checkpoint(directory, "asked", f"step{step}", step=step)
    body = {"name": "asking", "kind": "tasks", "base": {"tasks": [{"name": "piqa", "path": str(path)}], "shots": 0},
            "grid": {"checkpoint": {"trajectory": "asked"},
                     "method": [{"name": "rtn", "bits": bits, "group_size": 16} for bits in (2, 8)]}}
    assert service.post("/v1/sweeps", body).status == 202
    runs = [service.wait(run["id"]) for run in service.get("/v1/runs?sweep=asking").json["items"]]
    assert {run["state"] for run in runs} == {"succeeded"}
    page = visit("#/flips?trajectory=asked", url=service.url, ready=DRAWN_ACCURACY)
    assert page.run("[...document.querySelectorAll('[aria-label=Method] option')].map(option => option.value)") == [
        "rtn 2-bit g16", "rtn 8-bit g16"]
    for label in ("rtn 2-bit g16", "rtn 8-bit g16"):
        page.run(f"location.hash = '#/flips?trajectory=asked&label={label}'")
        page.wait(f"document.querySelector('[aria-label=Method]')?.value === {json.dumps(label)}")
        page.wait(DRAWN_ACCURACY)
        flips = service.get(f"/v1/flips?trajectory=asked&label={label.replace(' ', '%20')}").json
        rows = "document.querySelectorAll('[aria-label=\"Questions that flip most\"] tbody tr').length"
        assert page.run(rows) == len(flips["items"])
        assert page.run("[...document.querySelector('#accuracy-plot').data[1].y]") == pytest.approx(
            [100 * at["right_q"] / at["items"] for at in flips["checkpoints"]])
    check_looks(page, "flips")
    page.run(f"location.hash = '#/runs/{runs[0]['id']}'")
    page.wait("document.querySelector('[aria-label=Tasks] tbody tr') !== null "
              "&& document.querySelector('.params').innerText.includes('tasks.piqa.path')")
    check_looks(page, "tasks")
    assert page.run("window.hurt") is None


DRAWN_ACCURACY = "document.querySelector('#accuracy-plot .main-svg') !== null"


# --- What pages change ------------------------------------------------------------------------------------------------
def typed(page, selector, value):
    page.run(f"document.querySelector('{selector}').value = {json.dumps(value)}")


def test_a_trajectory_is_renamed_archived_and_deleted_by_the_service(service, visit):
    service.checkpoint(models.write_llama(service.files / "kept"), "kept", "one", step=1, tokens=10)
    named = "[...document.querySelectorAll('main tbody th .name')].map(name => name.innerText)"
    edit = "document.querySelector('button[aria-label=\"Edit {}\"]').click()"
    page = visit(url=service.url)
    page.run(edit.format("kept"))
    page.wait("document.querySelector('#edit-notes') !== null")
    assert service.request("PATCH", "/v1/trajectories/kept", {"notes": "the second seed"}).status == 200
    typed(page, "#edit-name", "renamed")
    page.click("#edit-save")  # somebody else was there before: nothing is overwritten
    page.wait("document.querySelector('.edit .problem')?.innerText.includes('Notes: the second seed (before: none)')")
    page.expected = ["412"]
    page.click("#edit-reload")
    page.wait("document.querySelector('#edit-notes').value === 'the second seed'")
    typed(page, "#edit-name", "renamed")
    typed(page, "#edit-notes", "the third seed")
    page.click("#edit-save")
    page.wait(f"document.querySelector('.edit') === null && {named}.includes('renamed')")
    assert service.get("/v1/trajectories/renamed").json["notes"] == "the third seed"
    page.run(edit.format("renamed"))
    page.click("#edit-archive")
    page.wait(f"!{named}.includes('renamed')")
    page.open(f"{service.url}/#/?archived=true")
    page.wait(f"{named}.join() === 'renamed'")
    page.run(edit.format("renamed"))
    page.click("#edit-delete")
    page.click("#edit-delete-yes")
    page.wait("document.querySelector('main').innerText.includes('No trajectory is archived')")
    assert service.get("/v1/trajectories/renamed").status == 404


def test_a_run_is_made_again_by_the_service(service, measured, visit):
    run = next(run for run in measured if run["params"]["method"]["bits"] == 3)
    page = visit(f"#/runs/{run['id']}", url=service.url)
    page.click("#again")
    page.wait(f"!location.hash.includes('{run['id']}')")
    again = service.wait(page.run("location.hash.split('/').pop()"))
    assert again["id"] != run["id"] and again["state"] == "succeeded" and again["params"] == run["params"]
    assert again["result"]["delta"] == run["result"]["delta"]


def test_an_ended_run_is_deleted_by_the_service(service, measured, visit):
    checkpoint = measured[0]["params"]["checkpoint"]
    run = service.run("evaluate", checkpoint=checkpoint, dataset="tokens", sequence_length=None)
    page = visit(f"#/runs/{run['id']}", url=service.url)
    page.expected = ["404"]  # of a reading that had begun when it was deleted
    page.click("#delete")
    page.click("#delete-yes")
    page.wait("location.hash === '#/runs' && document.querySelector('main tbody tr') !== null")
    assert service.get(f"/v1/runs/{run['id']}").status == 404


def test_runs_are_filtered_by_the_service(service, measured, visit):
    links = "[...document.querySelectorAll('main tbody th a')].map(link => link.getAttribute('href').split('/').pop())"
    page = visit("#/runs?kind=quantize&name=step1&created_from=2020-01-01", url=service.url)
    expected = service.get("/v1/runs?kind=quantize&name=step1&limit=50").json["items"]
    assert page.run(links) == [run["id"] for run in expected] and len(expected) >= 2
    page.expected = ["422"]
    for field, text, words in (("created_to", "soon", "expected a day"), ("tag", ":x", "expected KEY or KEY:VALUE")):
        page.run(f"location.hash = '#/runs?{field}={text}'")
        page.wait(f"document.querySelector('#filter-{field}-wrong')?.innerText.includes('{words}')")


def test_gates_of_the_service_are_told_in_words(service, measured, visit):
    checkpoint = service.get("/v1/checkpoints?name=step2").json["items"]
    checkpoint = next(item["id"] for item in checkpoint if item["trajectory"] == HOSTILE)
    limits = {"metric": "delta", "series": {"method.bits": 4}}
    rules = [{**limits, "max": 1e3}, {**limits, "max": -1e3}, {**limits, "against_last": 2, "max_change": 1e3},
             {**limits, "changepoint": 3}, {"integrity": "clean"}]
    assert service.post("/v1/gates", {"name": "told", "trajectory": HOSTILE, "rules": rules}).status == 201
    answer = service.get(f"/v1/gates/told/verdict?checkpoint={checkpoint}").json
    words = {"pass": "✓ pass", "fail": "▲ fail", "pending": "pending"}
    page = visit(f"#/checkpoints/{checkpoint}", url=service.url)
    lines = "[...document.querySelectorAll('section[aria-label=Gates] li')].map(line => line.innerText)"
    page.wait(f"{lines}.length === 5")
    for line, told in zip(page.run(lines), answer["rules"], strict=True):
        assert line.startswith(words[told["verdict"]]) and (told["reason"] or "it is ") in line
    assert "ΔQL (bits 4) minus the median of the last 2 measured checkpoints before it" in page.run(lines)[2]
    assert page.run("document.querySelector('section[aria-label=Gates] li a').getAttribute('href')") == (
        f"#/runs/{answer['rules'][0]['run']}")
    page.run("location.hash = '#/gates'")
    page.wait("document.querySelector('main tbody .verdict') !== null")
    row = page.run("document.querySelector('main tbody tr').innerText")
    assert "▲ fail" in row and "step2" in row and HOSTILE in row and "finds nothing wrong" in row
    assert service.request("DELETE", "/v1/gates/told").status == 204
    assert page.run("window.hurt") is None


def test_averages_of_the_service_are_stars_and_its_figures_say_their_data(service, measured, visit):
    made = service.run("average", trajectory=HOSTILE, window=2, into="averages")
    assert made["state"] == "succeeded"
    body = {"name": "of-averages", "kind": "quantize", "base": measured[0]["params"], "grid": {
        "checkpoint": {"trajectory": "averages"}, "method.bits": [3, 4]}}
    del body["base"]["checkpoint"], body["base"]["method"]["bits"]
    assert service.post("/v1/sweeps", body).status == 202
    for run in service.get("/v1/runs?sweep=of-averages").json["items"]:
        assert service.wait(run["id"])["state"] == "succeeded"
    trajectory = visit(url=service.url).run("encodeURIComponent(" + json.dumps(HOSTILE) + ")")
    page = visit(f"#/curves?trajectory={trajectory}&x=share", url=service.url)
    page.wait(DRAWN)
    page.wait(CURVES % "'average'" + ".length === 2")
    answer = service.get("/v1/curves?trajectory=averages&metric=delta&x=tokens").json
    stars = {tuple(star["y"]) for star in traces(page, "average")}
    assert stars == {tuple(100 * point["y"] for point in one["points"]) for one in answer["series"]}
    assert traces(page, "average")[0]["x"] == [0.5, 1]
    page.click("#save-svg")
    said = "".join(re.sub("<[^>]*>", "", page.downloaded(".svg").read_text()).split())
    assert "Data:tokens,8sequences" in said and "95%interval." in said and "averageofcheckpoints" in said
    page = visit(f"#/scatter?x=loss_fp&y=loss_q&path=1&trajectory={trajectory}", url=service.url)
    paths = "document.querySelector('#scatter-plot')?.data?.filter(trace => trace.meta.kind === 'path')"
    page.wait(f"{paths}?.filter(path => path.x.length === 3).length >= 2")  # other tests measure single checkpoints
