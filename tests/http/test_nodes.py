"""Workers on machines of their own: none sees the data directory of the server or of another worker. Checkpoints that
their runs make are found again by a second attempt elsewhere, read by everybody out of a bucket, or where they are."""

import contextlib
import subprocess
import time

import models
import object_store
import pytest
from service import BINARY, Service, quoted
from test_objects import ENVIRONMENT, KEYS, SECRET, store  # noqa: F401
from test_objects import pytestmark as needs_bucket

MODEL = {"model_type": "llama", "vocab_size": 256, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
         "num_attention_heads": 2, "max_position_embeddings": 32, "tie_word_embeddings": True}
STEP = 64  # tokens
PREFIX = "made/here"


class Node:
    """One worker at a time, with a data directory of its own."""

    def __init__(self, service, directory, *options):
        self.service, self.data, self.options = service, directory / "data", options
        self.log, self.process = directory / "log", None
        self.data.mkdir(parents=True)

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [BINARY, "worker", "--data-dir", self.data, "--root", self.service.files, "--threads", "1",
                 "--database-url", "host=/proc/self/cwd dbname=deltaq user=deltaq", *self.options],
                cwd=self.service.data / "pg" / "socket", stderr=log, env=self.service.environment)
        listed = f"select count(*) from workers where pid = {self.process.pid}"
        while self.service.sql(listed) == [["0"]]:
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            assert self.process.wait(60) == 0, self.log.read_text()

    def kill(self):
        self.process.kill()
        self.process.wait()

    @property
    def id(self):
        return str((self.data / "node").readlink())


def text_data(service):
    (service.files / "text").write_text("to be or not to be, that is the question. " * 200)
    assert service.post("/v1/datasets", {"name": "text", "path": "text", "format": "text"}).status == 201
    service.sequences("rows", models.rows(2, 16))


@contextlib.contextmanager
def nodes(service, tmp_path, count, *options):
    made = [Node(service, tmp_path / f"node{i}", *options) for i in range(count)]
    try:
        yield made
    finally:
        service.gate.open()
        for node in made:
            node.stop()


def train(service, trajectory, **more):
    params = {"trajectory": trajectory, "dataset": "text", "tokens": 8 * STEP, "batch_sequences": 2,
              "sequence_length": 32, "model": MODEL, "tokenizer": {"name": "bytes"}, "checkpoint_every": 4 * STEP,
              "schedule": {"name": "constant", "peak": 0.001}, **more}
    answer = service.post("/v1/runs", {"kind": "train", "params": params})
    assert answer.status == 202, answer.body
    return answer.json["id"]


def checkpoints(service, trajectory):
    items = service.get(f"/v1/checkpoints?trajectory={trajectory}").json["items"]
    return sorted(items, key=lambda item: item["step"])


def expire(service, run):
    """As if the lease of a worker that is gone had ended."""
    service.sql(f"update runs set lease_until = now() - interval '1 second' where id = '{run}' and state = 'running'")


def second_attempt(service, first, second, trajectory):
    """A training run whose worker dies behind its first checkpoint and which another machine ends."""
    service.gate.hold("train", 6, "step")
    first.start()
    run = train(service, trajectory)
    service.held(run)
    early = checkpoints(service, trajectory)
    assert [item["step"] for item in early] == [4]
    first.kill()
    service.gate.open()
    second.start()
    expire(service, run)
    document = service.wait(run)
    assert document["state"] == "succeeded", document["error"]
    late = checkpoints(service, trajectory)
    assert [item["step"] for item in late] == [4, 8]
    assert late[0]["id"] == early[0]["id"] and late[0]["sha256"] == early[0]["sha256"]
    assert document["result"]["checkpoints"] == [item["id"] for item in late]
    return early, late


def evaluated(service, checkpoint, **more):
    run = service.run("evaluate", checkpoint=checkpoint, dataset="rows", sequence_length=None, **more)
    assert run["state"] == "succeeded", run["error"]
    return run


# ---- no bucket ----


@pytest.fixture()
def lab(tmp_path):
    service = Service(tmp_path / "server", "--workers", "0")
    text_data(service)
    yield service
    service.stop()


def test_a_second_attempt_elsewhere_finds_the_checkpoints_of_the_first(lab, tmp_path):
    with nodes(lab, tmp_path, 2) as (first, second):
        early, late = second_attempt(lab, first, second, "again")
        assert early[0]["source"]["path"].startswith(str(first.data))
        # the first machine may be gone for good
        assert all(item["source"]["path"].startswith(str(second.data)) for item in late)
        for item in late:
            evaluated(lab, item["id"])


def test_other_bits_of_a_second_attempt_are_refused_with_advice(lab, tmp_path):
    with nodes(lab, tmp_path, 2) as (first, second):
        lab.gate.hold("train", 6, "step")
        first.start()
        run = train(lab, "unequal")
        lab.held(run)
        first.kill()
        lab.gate.open()
        lab.sql(f"update checkpoints set sha256 = '{'0' * 64}'")
        second.start()
        expire(lab, run)
        error = lab.wait(run)["error"]
        assert error["code"] == "conflict" and "delete that checkpoint, then retry" in error["detail"]
        assert lab.request("DELETE", f"/v1/checkpoints/{quoted(checkpoints(lab, 'unequal')[0]['id'])}").status == 204
        assert lab.post(f"/v1/runs/{run}/retry").status == 202
        assert lab.wait(run)["state"] == "succeeded"


def test_a_run_goes_to_the_node_that_has_its_checkpoint(lab, tmp_path):
    with nodes(lab, tmp_path, 2, "--affinity-grace", "0") as (first, second):
        first.start()
        assert lab.wait(train(lab, "there"))["state"] == "succeeded"
        made = checkpoints(lab, "there")
        first.stop()
        second.start()
        alone = lab.run("evaluate", checkpoint=made[0]["id"], dataset="rows", sequence_length=None)
        assert alone["state"] == "failed" and alone["error"]["code"] == "not_found"
        assert 'the files of checkpoint "step0000004" are not on this machine' in alone["error"]["detail"]
        assert "--artifacts" in alone["error"]["detail"]
        lab.sql("delete from node_checkpoints")  # no hint: the second may take it first, and finds out
        first.start()
        document = evaluated(lab, made[1]["id"])
        left = lab.sql("select node from node_checkpoints")
        assert left == [[first.id]], "only the machine that has the files has read them"
        assert document["attempt"] == 0
        # while the machine that has them is busy, the other one leaves the run to it
        lab.sql("delete from node_lacks")
        lab.sql(f"insert into node_lacks (node, checkpoint) values ('{second.id}', '{made[1]['id']}')")
        lab.gate.hold("evaluate", 1, "chunk")
        busy = lab.post("/v1/runs", {"kind": "evaluate", "force": True, "params": {
            "checkpoint": made[1]["id"], "dataset": "rows", "sequence_length": None}}).json["id"]
        lab.held(busy)
        waiting = lab.post("/v1/runs", {"kind": "evaluate", "params": {
            "checkpoint": made[0]["id"], "dataset": "rows", "sequence_length": None}}).json["id"]
        released = (f"select data ->> 'evidence' from run_events where run = '{waiting}'"
                    " and data ->> 'reason' = 'released'")
        while not (found := lab.sql(released)):
            assert lab.get(f"/v1/runs/{waiting}").json["state"] in ("queued", "running")
            time.sleep(0.05)
        assert "not on this machine" in found[0][0]
        time.sleep(2)
        assert lab.get(f"/v1/runs/{waiting}").json["state"] == "queued", "it is not tried there again"
        lab.gate.open()
        document = lab.wait(waiting)
        assert document["state"] == "succeeded", document["error"]
        assert document["worker"].endswith(f"/{first.process.pid}")


def test_a_run_that_waits_for_a_node_says_for_which_files(lab, tmp_path):
    with nodes(lab, tmp_path, 1) as (second,):
        second.start()
        models.write_llama(lab.files / "model")
        made = lab.checkpoint(lab.files / "model", "t", "c0", step=0)
        lab.sql(f"insert into node_lacks (node, checkpoint) values ('{second.id}', '{made['id']}')")
        run = lab.post("/v1/runs", {"kind": "evaluate", "params": {"checkpoint": "t/c0", "dataset": "rows",
                                                                   "sequence_length": None}}).json["id"]
        time.sleep(2)
        assert lab.get(f"/v1/runs/{run}").json["waiting"] == (
            "no running worker has all that it needs: the files of c0")
        lab.sql("update node_lacks set noted_at = now() - interval '11 minutes'")
        assert lab.wait(run)["state"] == "succeeded", "what was lacking is looked for again"
        assert lab.sql("select * from node_lacks") == []


def test_text_needs_a_tokenizer_that_the_server_reads(lab, tmp_path):
    with nodes(lab, tmp_path, 1) as (node,):
        node.start()
        assert lab.wait(train(lab, "words"))["state"] == "succeeded"
        node.data.rename(tmp_path / "away")
        params = {"checkpoint": "words/step0000004", "dataset": "text", "sequence_length": 16}
        refused = lab.post("/v1/runs", {"kind": "evaluate", "params": params})
        (tmp_path / "away").rename(node.data)
        assert refused.status == 422 and refused.pointers == ["/params/dataset"]
        assert "not on this machine" in refused.json["detail"] and "--artifacts" in refused.json["detail"]


# ---- with a bucket ----

@pytest.fixture()
def shared(store, tmp_path):
    """A server, and what its nodes need besides: the bucket for what runs make."""
    store.clear()
    options = ["--s3-endpoint", store.url, "--artifacts", f"s3://lab/{PREFIX}"]
    service = Service(tmp_path / "server", "--workers", "0", *options, environment=ENVIRONMENT)
    service.node_options = options
    text_data(service)
    yield service
    assert service.stop() == 0
    assert SECRET not in service.log.read_text()
    assert object_store.wrong_signatures(KEYS, store.requests) == []


@needs_bucket
def test_what_a_run_made_is_read_everywhere(shared, store, tmp_path):
    models.write_llama(shared.files / "model")
    shared.checkpoint(shared.files / "model", "t", "c0", step=0)
    with nodes(shared, tmp_path, 2, *shared.node_options) as (first, second):
        first.start()
        assert shared.wait(train(shared, "made", ema={"decay": 0.5}))["state"] == "succeeded"
        average = shared.run("average", trajectory="made", window=2)
        exported = shared.run("quantize", checkpoint="t/c0", export="dequantized", evaluation={"dataset": "rows"},
                              method={"name": "rtn", "bits": 4, "group_size": 16})
        assert [run["error"] for run in (average, exported)] == [None, None]
        items = shared.get("/v1/checkpoints?limit=100").json["items"]
        made = [item for item in items if item["derived_from"]]
        assert len(made) == 6, [item["name"] for item in items]
        for item in made:
            source = item["source"]
            run = item["derived_from"]["run"]
            assert source["path"].startswith(f"s3://lab/{PREFIX}/checkpoints/{run}/") and len(source["commit"]) == 40
        here = [evaluated(shared, item["id"])["result"]["loss"] for item in made]
        assert not list(first.data.glob("hub/snapshots/*")), "who made them reads its own files"
        first.stop()
        store.clear()
        second.start()
        for item, loss in zip(made, here):
            again = shared.post("/v1/runs", {"kind": "evaluate", "force": True, "params": {
                "checkpoint": item["id"], "dataset": "rows", "sequence_length": None}}).json["id"]
            run = shared.wait(again)
            assert run["state"] == "succeeded" and run["result"]["loss"] == loss, run["error"]
        assert not store.asked("GET", "training.state"), "only who goes on from it fetches the state"
        # text: the tokenizer comes with it; and training goes on from the state
        assert shared.run("evaluate", checkpoint="made/step0000008", dataset="text", sequence_length=16,
                          max_sequences=4)["state"] == "succeeded"
        branch = shared.wait(train(shared, "branch", tokens=10 * STEP, model=None, tokenizer=None,
                                   **{"from": "made/step0000008"}))
        assert branch["state"] == "succeeded", branch["error"]
        assert store.asked("GET", "step0000008-[0-9a-f]{12}/training.state")
        assert checkpoints(shared, "branch")[-1]["step"] == 10


@needs_bucket
def test_a_second_attempt_elsewhere_uploads_nothing_twice(shared, store, tmp_path):
    with nodes(shared, tmp_path, 2, *shared.node_options) as (first, second):
        early, late = second_attempt(shared, first, second, "again")
        assert late[0]["source"] == early[0]["source"]
        sent = [request["target"] for request in store.asked("PUT", "/checkpoints/")]
        assert len(sent) == len(set(sent))
        for item in late:
            evaluated(shared, item["id"])


@needs_bucket
def test_an_upload_that_was_interrupted_goes_on_with_what_is_missing(shared, store, tmp_path):
    with nodes(shared, tmp_path, 1, *shared.node_options) as (node,):
        refusal = store.rule("PUT", "/checkpoints/.*model.safetensors", 1,
                             answer=object_store.refusal(403, "AccessDenied"))
        node.start()
        run = train(shared, "cut", tokens=4 * STEP)
        failed = shared.wait(run)
        assert failed["state"] == "failed" and failed["error"]["code"] == "forbidden" and refusal.times == 0
        assert checkpoints(shared, "cut") == [], "what is not there whole is not registered"
        sent = {request["target"] for request in store.asked("PUT", "/checkpoints/")}
        store.clear()
        assert shared.post(f"/v1/runs/{run}/retry").status == 202
        assert shared.wait(run)["state"] == "succeeded"
        again = {request["target"] for request in store.asked("PUT", "/checkpoints/")}
        assert {target.rsplit("/", 1)[-1] for target in again & sent} == {"model.safetensors"}
        evaluated(shared, checkpoints(shared, "cut")[0]["id"])
