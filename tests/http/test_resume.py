"""Runs that are interrupted on one machine and go on on another, which shares no disk with it: what they saved travels
through the bucket of --artifacts, and the results are those of a run that nobody disturbed, bit for bit."""

import json
import re
import threading
import time

import models
import object_store
import pytest
from test_nodes import STEP, checkpoints, expire, nodes, shared, text_data, train  # noqa: F401
from test_objects import pytestmark as needs_bucket
from test_objects import store  # noqa: F401

pytestmark = needs_bucket
LAYERS = 6
LISTS = r"^/lab/made/here/resume/[0-9a-f-]{36}/\d{10}/\d{10}-[0-9a-f]{64}$"
FILES = r"^/lab/made/here/resume/[0-9a-f-]{36}/\d{10}/[0-9a-f]{64}$"
OFTEN = ("--save-every", "1", "--cleanup-after", "0")


def lines(service, run):
    return [row[0] for row in service.sql(f"select data ->> 'line' from run_events where run = '{run}'"
                                          " and type = 'log' order by id")]


def left(store):
    """What the bucket has of interrupted runs."""
    _, body = store.direct("GET", "/lab?list-type=2&prefix=made/here/resume/")
    return re.findall(r"<Key>([^<]*)</Key>", body.decode())


@pytest.fixture(autouse=True)
def nothing_left(store):  # noqa: F811
    """The bucket is shared by the tests of this file, and one that failed may have left something."""
    for key in left(store):
        store.direct("DELETE", f"/lab/{key}")


def until(true):
    end = time.monotonic() + 300
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def uploaded(store, count=1):
    """Until so many lists have been uploaded since the store was cleared."""
    until(lambda: len(store.asked("PUT", LISTS)) >= count)


def quantized(service, **more):
    params = {"checkpoint": "t/c0", "method": {"name": "gptq", "bits": 3, "group_size": 16},
              "calibration": {"dataset": "rows"}, "evaluation": {"dataset": "rows"}, **more}
    answer = service.post("/v1/runs", {"kind": "quantize", "params": params, "force": True})
    assert answer.status == 202, answer.body
    return answer.json["id"]


def deep_model(service):
    models.write_llama(service.files / "deep", num_hidden_layers=LAYERS)
    service.checkpoint(service.files / "deep", "t", "c0", step=0)


def numbers(document):
    return json.dumps(document["result"], sort_keys=True)


def saved_and_held(service, store, run, kind, unit, first, then, lease=1):
    """The run is held long enough that its next saving is due, goes on over it, and is held when that is uploaded."""
    service.held(run, lease)
    time.sleep(1.1)
    service.gate.hold(kind, then, unit, lease=lease)
    uploaded(store)
    service.held(run, lease)


def test_a_quantization_goes_on_at_its_last_block(shared, store, tmp_path):
    deep_model(shared)
    with nodes(shared, tmp_path, 2, *shared.node_options, *OFTEN) as (first, second):
        first.start()
        # it leaves its full-precision stream on this machine, where the interrupted run then reads it
        alone = shared.wait(quantized(shared))
        assert alone["state"] == "succeeded", alone["error"]
        until(lambda: left(store) == [])
        store.clear()
        shared.gate.hold("quantize", 1, "block")
        run = quantized(shared)
        saved_and_held(shared, store, run, "quantize", "block", 1, 3)
        first.kill()
        assert len(left(store)) == 2, "one file and the list of it"
        shared.gate.open()
        second.start()
        expire(shared, run)
        document = shared.wait(run)
        assert document["state"] == "succeeded", document["error"]
        assert numbers(document) == numbers(alone)
        said = [line for line in lines(shared, run) if "goes on behind block" in line]
        assert len(said) == 1 and int(re.search(r"behind block (\d+) of 6", said[0])[1]) >= 1, lines(shared, run)
        until(lambda: left(store) == [])  # nothing stays of a run that has ended


BATCH = [{"name": "gptq", "bits": bits, "group_size": 16} for bits in (2, 3, 4)]


def batch_that_saved(shared, store, node):
    """The runs of a batch on the node, all of which have saved state in the bucket."""
    shared.gate.hold("quantize", 1, "block")
    runs = [quantized(shared, method=method) for method in BATCH]
    node.start()
    shared.held(runs[0])
    time.sleep(1.1)
    shared.gate.hold("quantize", 3, "block")
    uploaded(store, len(runs))
    return runs


def test_members_of_a_batch_go_on_each_for_itself(shared, store, tmp_path):
    deep_model(shared)
    with nodes(shared, tmp_path, 2, *shared.node_options, *OFTEN) as (first, second):
        runs = batch_that_saved(shared, store, first)
        first.kill()
        shared.gate.open()
        second.start()
        for run in runs:
            expire(shared, run)
        ended = [shared.wait(run) for run in runs]
        assert [document["state"] for document in ended] == ["succeeded"] * 3, ended
        for run in runs:
            assert any("goes on behind block" in line for line in lines(shared, run)), lines(shared, run)
        until(lambda: left(store) == [])
        for document, method in zip(ended, BATCH):
            assert numbers(shared.wait(quantized(shared, method=method))) == numbers(document)


def test_a_silent_bucket_keeps_no_end_of_a_batch_waiting(shared, store, tmp_path):
    """All ends are committed before the bucket is asked, and the worker does not wait for it once for each member."""
    deep_model(shared)
    answer, seen = threading.Event(), []
    with nodes(shared, tmp_path, 2, *shared.node_options, *OFTEN) as (first, second):
        second.options = (*shared.node_options, "--save-every", "3600")  # it uploads nothing: it only removes
        runs = batch_that_saved(shared, store, first)
        first.stop()
        shared.gate.hold("quantize", 5, "block", lease=2)
        second.start()
        shared.held(runs[0], lease=2)

        def silence():
            seen.append([row[0] for row in shared.sql("select state from runs order by number limit 3")])
            answer.wait(120)

        store.rule("GET|DELETE", "/?resume", 99, then=silence)
        shared.gate.open()
        try:
            ended = [shared.wait(run) for run in runs]
            assert [(document["state"], document["attempt"]) for document in ended] == [("succeeded", 0)] * 3, ended
            assert shared.wait(quantized(shared, method={"name": "rtn", "bits": 4}))["state"] == "succeeded"
        finally:
            answer.set()
        assert seen == [["succeeded"] * 3], "one question, after all ends"


def test_a_training_goes_on_back_and_forth(shared, store, tmp_path):
    with nodes(shared, tmp_path, 2, *shared.node_options, *OFTEN) as (first, second):
        first.start()
        whole = shared.wait(train(shared, "whole", tokens=12 * STEP, ema={"decay": 0.5}))
        assert whole["state"] == "succeeded", whole["error"]
        store.clear()
        shared.gate.hold("train", 6, "step")
        run = train(shared, "parts", tokens=12 * STEP, ema={"decay": 0.5})
        shared.held(run)
        uploaded(store)
        first.kill()
        shared.gate.hold("train", 10, "step", lease=2)
        store.clear()
        second.start()
        expire(shared, run)
        shared.held(run, 2)
        uploaded(store)
        until(lambda: all("/0000000002/" in key for key in left(store)))  # what it went on from is not kept
        second.kill()
        assert not list(second.data.glob(f"checkpoints/{run}/step0000004*")), "it lies where it was made"
        shared.gate.open()
        first.start()
        expire(shared, run)
        document = shared.wait(run)
        assert document["state"] == "succeeded", document["error"]
        said = [line for line in lines(shared, run) if line.startswith("going on from step")]
        assert said == ["going on from step 4", "going on from step 8"], lines(shared, run)
        for key in ("final_loss", "ema_loss", "steps", "tokens"):
            assert document["result"][key] == whole["result"][key]
        for suffix in ("", "-ema"):
            made, again = ([item["sha256"] for item in checkpoints(shared, name + suffix)] for name in
                           ("whole", "parts"))
            assert made == again and len(made) == 3
        assert len(document["result"]["checkpoints"]) == 3
        until(lambda: left(store) == [])
        curves = [shared.get(f"/v1/runs/{made['id']}/artifacts").json["items"] for made in (whole, document)]
        assert [[item["name"] for item in items] for items in curves] == [["training.csv"]] * 2
        assert curves[0][0]["sha256"] == curves[1][0]["sha256"]


def test_a_worker_that_stops_uploads_what_it_has_not_yet(shared, store, tmp_path):
    with nodes(shared, tmp_path, 2, *shared.node_options, "--save-every", "3600") as (first, second):
        shared.gate.hold("train", 6, "step")
        first.start()
        run = train(shared, "stopped")
        shared.held(run)
        assert left(store) == [], "an hour has not passed"
        first.stop()
        shared.gate.open()
        assert len(left(store)) == 2
        second.start()
        document = shared.wait(run)
        assert document["state"] == "succeeded" and document["attempt"] == 0, document
        assert "going on from step 4" in lines(shared, run)
        until(lambda: left(store) == [])


def test_a_run_that_is_soon_done_uploads_nothing(shared, store, tmp_path):
    with nodes(shared, tmp_path, 1, *shared.node_options) as (node,):
        node.start()
        run = train(shared, "short")
        assert shared.wait(run)["state"] == "succeeded"
        assert store.asked("", f"resume/{run}") == [], "not even a question"


def test_what_a_cancelled_run_left_is_removed_by_any_worker(shared, store, tmp_path):
    with nodes(shared, tmp_path, 2, *shared.node_options, *OFTEN) as (first, second):
        shared.gate.hold("train", 6, "step")
        first.start()
        run = train(shared, "dropped")
        shared.held(run)
        uploaded(store)
        first.stop()
        store.put("lab", f"made/here/resume/{run[:-1]}{'0' if run[-1] != '0' else '1'}/0000000001/{'a' * 64}", b"new")
        assert shared.post(f"/v1/runs/{run}/cancel").status in (200, 202)
        assert shared.wait(run)["state"] == "cancelled" and len(left(store)) == 3
        shared.gate.open()
        second.start()
        until(lambda: not any(run in key for key in left(store)))
        assert len(left(store)) == 1, "a run that this database does not know may be another server's"


@pytest.mark.parametrize("harm", ["changed", "lost", "refused"])
def test_what_cannot_be_fetched_is_done_again(shared, store, tmp_path, harm):
    with nodes(shared, tmp_path, 2, *shared.node_options, *OFTEN) as (first, second):
        shared.gate.hold("train", 6, "step")
        first.start()
        run = train(shared, "harmed")
        shared.held(run)
        uploaded(store)
        first.kill()
        shared.gate.open()
        (file,) = (key for key in left(store) if re.search(FILES, "/lab/" + key))
        if harm == "changed":
            _, data = store.direct("GET", f"/lab/{file}")
            store.put("lab", file, data[:100] + bytes([data[100] ^ 1]) + data[101:])
        elif harm == "lost":
            store.direct("DELETE", f"/lab/{file}")
        else:
            store.rule("GET", FILES, 9, answer=object_store.refusal(403, "AccessDenied"))
        second.start()
        expire(shared, run)
        document = shared.wait(run)
        assert document["state"] == "succeeded", document["error"]
        said = lines(shared, run)
        assert any(line.startswith("what an earlier attempt uploaded is left where it is") for line in said), said
        assert "going on from step 4" not in said
        until(lambda: left(store) == [])


def test_an_upload_that_is_refused_is_said_once_and_costs_nothing_else(shared, store, tmp_path):
    with nodes(shared, tmp_path, 1, *shared.node_options, *OFTEN) as (node,):
        refused = store.rule("PUT", "/resume/", 9, answer=object_store.refusal(403, "AccessDenied"))
        shared.gate.hold("train", 6, "step")
        node.start()
        run = train(shared, "refused")
        shared.held(run)
        until(lambda: refused.times < 9)
        shared.gate.open()
        assert shared.wait(run)["state"] == "succeeded"
        said = [line for line in lines(shared, run) if line.startswith("what this run saves is not uploaded")]
        assert len(said) == 1 and left(store) == []


def test_an_export_begins_again_and_uploads_nothing(shared, store, tmp_path):
    """Its files are written in place and as large as the model: they stay on their machine, and so does the rest."""
    deep_model(shared)
    with nodes(shared, tmp_path, 2, *shared.node_options, *OFTEN) as (first, second):
        shared.gate.hold("quantize", 1, "block")
        first.start()
        run = quantized(shared, export="compressed-tensors", method={"name": "gptq", "bits": 4, "group_size": 16})
        shared.held(run)
        time.sleep(1.1)
        shared.gate.hold("quantize", 3, "block")
        shared.held(run)
        time.sleep(2.1)  # the uploads look every second
        first.kill()
        assert left(store) == [] and list(first.data.glob(f"tmp/run-{run}/streams.state"))
        shared.gate.open()
        second.start()
        expire(shared, run)
        document = shared.wait(run)
        assert document["state"] == "succeeded", document["error"]
        assert not any("goes on behind block" in line for line in lines(shared, run))
