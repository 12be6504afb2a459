"""GET /v1/runs/{run}/worst-tokens: which predictions lost most, against numpy on the losses that the run left and the
text that was measured."""

import http.client
import io
import json
import re
import shutil
import subprocess
import time

import models
import numpy
import pytest

LENGTH = 24
TEXT = ("The quick brown fox jumps over the lazy dog, and the dog does not care. "
        "Déjà vu: 3 € for a café crème. A naïve coöperation of 12 œuvres! ") * 6
IDS = list(TEXT.encode())


@pytest.fixture(scope="module")
def subject(service):
    def checkpoint(name, seed, **more):
        path = models.write_llama(service.files / f"worst-{name}", seed=seed, **more)
        return service.checkpoint(path, "worst", name, step=seed)["id"]

    text = service.files / "worst.txt"
    text.write_text(TEXT)
    assert service.post("/v1/datasets", {"name": "worst", "path": str(text), "format": "text"}).status == 201
    rows = [row[:length] for row, length in zip(models.rows(3, 30, seed=3), (30, 7, 19))]
    return {
        "one": checkpoint("one", 1),
        "two": checkpoint("two", 2),
        "plain": checkpoint("plain", 3, tokenizer=False, vocab_size=300),
        "text": "worst",
        "bytes": service.sequences("worst-bytes", rows)["name"],
        "wide": service.sequences("worst-wide", [[*rows[0], 299], rows[1]])["name"],
    }


def evaluate(service, checkpoint, data, **more):
    run = service.run("evaluate", checkpoint=checkpoint, dataset=data, per_token=True,
                      sequence_length=LENGTH if data == "worst" else None, **more)
    assert run["state"] == "succeeded", run["error"]
    return run


def quantize(service, checkpoint, data, **more):
    evaluation = {"dataset": data, "sequence_length": LENGTH if data == "worst" else None}
    run = service.run("quantize", checkpoint=checkpoint, method={"name": "rtn", "bits": 2, "group_size": 16},
                      evaluation=evaluation, **{"per_token": True, **more})
    assert run["state"] == "succeeded", run["error"]
    return run


def tokens_of(service, run, name):
    raw = service.get(f"/v1/runs/{run['id']}/artifacts/{name}").body
    return numpy.load(io.BytesIO(raw), allow_pickle=False).astype(numpy.float64)


def worst(service, run, query=""):
    return service.get(f"/v1/runs/{run['id']}/worst-tokens{query}")


def sequences_of_text():
    return [IDS[at:at + LENGTH] for at in range(0, len(IDS) - LENGTH + 1, LENGTH)]


def places_of(sequences):
    """Of each prediction in the order of the files: its sequence and its position."""
    return [(s, position) for s, ids in enumerate(sequences) for position in range(1, len(ids))]


def hold(found, sequences, losses, before, kl, limit, context):
    """Every item of the answer, from the losses and the sequences of ids."""
    places, key = places_of(sequences), losses if before is None else losses - before
    order = sorted(range(len(places)), key=lambda place: (-key[place], place))[:limit]
    assert found["predictions"] == len(places) and len(found["items"]) == len(order)
    for item, place in zip(found["items"], order):
        sequence, position = places[place]
        ids, start = sequences[sequence], place - position
        low, high = max(position - context, 0), min(position + context + 1, len(sequences[sequence]))
        assert (item["sequence"], item["position"], item["token"]) == (sequence, position, ids[position])
        assert item["from"] == low and item["tokens"] == ids[low:high]
        assert item["loss"] == losses[place]
        assert item["reference_loss"] == (None if before is None else before[place])
        assert item["difference"] == (None if before is None else key[place])
        assert item["kl"] == (None if kl is None else kl[place])
        for name, values in (("losses", losses), ("reference_losses", before)):
            assert item[name] == [None if values is None or p == 0 else values[start + p] for p in range(low, high)]


def hold_text(item):
    """A character stands with the byte that completes it."""
    at = item["position"] - item["from"]
    whole = bytes(item["tokens"]).decode(errors="replace").replace("\0", "\ufffd")
    assert item["before"] + item["text"] + item["after"] == whole
    if all(byte < 128 for byte in item["tokens"][at:at + 2]):
        assert item["text"] == chr(item["token"] or 0xFFFD)
    if item["token"] >= 0xC2 and "\ufffd" not in whole:
        assert item["text"] == ""  # the first byte of several


def test_of_quantize_what_quantization_added_in_the_text_around(service, subject):
    run = quantize(service, subject["one"], subject["text"])
    full, quantized, kl = (tokens_of(service, run, f"token_{name}.npy") for name in ("losses_fp", "losses_q", "kl"))
    answer = worst(service, run, "?limit=200&context=5")
    found = answer.json
    hold(found, sequences_of_text(), quantized, full, kl, 200, 5)
    for item in found["items"]:
        hold_text(item)
    assert any("é" in item["before"] + item["after"] for item in found["items"])
    assert any(item["text"] == "" for item in found["items"]), "no character of several tokens was tried"
    assert ([found[name] for name in ("run", "against", "kind", "checkpoint", "dataset", "reference", "decode")]
            == [run["id"], None, "quantize", subject["one"], "worst", "full_precision", "tokenizer"])
    etag = {"If-None-Match": answer.headers["ETag"]}
    assert service.get(f"/v1/runs/{run['id']}/worst-tokens?limit=200&context=5", headers=etag).status == 304


def test_of_evaluate_the_greatest_losses_and_of_two_runs_their_differences(service, subject):
    one, two = (evaluate(service, subject[name], subject["text"]) for name in ("one", "two"))
    losses, others = (tokens_of(service, run, "token_losses.npy") for run in (one, two))
    alone = worst(service, one).json
    assert alone["reference"] == "nothing" and len(alone["items"]) == 50
    hold(alone, sequences_of_text(), losses, None, None, 50, 16)
    pair = worst(service, one, f"?against={two['id']}&limit=7&context=0").json
    assert (pair["reference"], pair["against"]) == ("run", two["id"])
    hold(pair, sequences_of_text(), losses, others, None, 7, 0)
    assert all(item["before"] == item["after"] == "" for item in pair["items"])
    first, second = (quantize(service, subject[name], subject["text"]) for name in ("one", "two"))
    pair = worst(service, second, f"?against={first['id']}&limit=9").json
    hold(pair, sequences_of_text(), *(tokens_of(service, run, "token_losses_q.npy") for run in (second, first)),
         tokens_of(service, second, "token_kl.npy"), 9, 16)


def test_without_a_tokenizer_ids_are_bytes_only_when_that_is_said(service, subject):
    run = quantize(service, subject["plain"], subject["bytes"])
    answer = worst(service, run)
    assert answer.status == 422 and answer.pointers == ["/decode"] and "decode=bytes" in answer.json["detail"]
    found = worst(service, run, "?decode=bytes&limit=200&context=3").json
    assert found["decode"] == "bytes" and len(found["items"]) == 30 + 7 + 19 - 3
    for item in found["items"]:
        hold_text(item)
    plain = worst(service, run, "?decode=ids&limit=200&context=3").json
    assert {item[name] for item in plain["items"] for name in ("before", "text", "after")} == {None}
    assert [item["tokens"] for item in plain["items"]] == [item["tokens"] for item in found["items"]]
    wide = worst(service, quantize(service, subject["plain"], subject["wide"]), "?decode=bytes&limit=200")
    assert wide.status == 422 and wide.pointers == ["/decode"] and "299" in wide.json["detail"]


def test_what_has_no_losses_of_tokens_is_refused_with_the_reason(service, subject):
    plain = quantize(service, subject["one"], subject["text"], per_token=False)
    answer = worst(service, plain)
    assert answer.status == 422 and answer.pointers == ["/run"] and '"per_token": true' in answer.json["detail"]
    average = service.run("average", checkpoints=["worst/one", "worst/two"], name="worst-average")
    answer = worst(service, average)
    assert answer.status == 422 and answer.pointers == ["/run"] and "of the kind average" in answer.json["detail"]
    assert worst(service, {"id": "0" * 8 + "-0000-4000-8000-" + "0" * 12}).status == 404
    run, other = (evaluate(service, subject["one"], subject[name]) for name in ("text", "bytes"))
    answer = worst(service, run, f"?against={other['id']}")
    assert answer.status == 422 and answer.pointers == ["/against"] and "other sequences" in answer.json["detail"]
    answer = worst(service, run, f"?against={plain['id']}")
    assert answer.status == 422 and answer.pointers == ["/against"]
    for query in ("?limit=0", "?limit=201", "?context=65", "?context=-1", "?decode=words", "?window=3"):
        answer = worst(service, run, query)
        assert answer.status == 422 and answer.pointers == ["/" + query[1:].split("=")[0]], answer.body
    params = {"checkpoint": subject["one"], "dataset": subject["text"], "sequence_length": LENGTH, "per_token": True}
    with service.gate.holding("evaluate", 1):
        unfinished = service.post("/v1/runs", {"kind": "evaluate", "force": True, "params": params}).json
        service.held(unfinished["id"])
        answer = worst(service, unfinished)
        assert answer.status == 409 and answer.pointers == ["/run"] and "running" in answer.json["detail"]
    service.wait(unfinished["id"])


def test_text_that_is_not_what_was_measured_is_not_shown(service, subject):
    """Another tokenizer, another text, and no files at all."""
    directory = models.write_llama(service.files / "worst-changing", seed=9)
    text = service.files / "worst-changing.txt"
    text.write_text(TEXT)
    service.post("/v1/datasets", {"name": "worst-changing", "path": str(text), "format": "text"})
    made = service.checkpoint(directory, "worst", "changing", step=9)["id"]
    run = service.run("evaluate", checkpoint=made, dataset="worst-changing", sequence_length=LENGTH, per_token=True)
    assert worst(service, run).status == 200
    tokenizer = models.byte_tokenizer()
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["e"], vocabulary["o"] = vocabulary["o"], vocabulary["e"]
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer))
    answer = worst(service, run)
    assert answer.status == 409 and answer.pointers == ["/run"] and "other tokens" in answer.json["detail"]
    (directory / "tokenizer.json").write_text(json.dumps(models.byte_tokenizer()))
    assert worst(service, run).status == 200
    text.write_text(TEXT.replace("fox", "cat"))
    answer = worst(service, run)
    assert answer.status == 409 and answer.pointers == ["/run"] and "worst-changing" in answer.json["detail"]
    text.write_text(TEXT)
    shutil.rmtree(directory)
    answer = worst(service, run)
    assert answer.status in (409, 422) and answer.pointers == ["/run"], answer.body


def test_losses_that_were_cut_are_not_ranked(service, subject):
    run = evaluate(service, subject["one"], subject["text"])
    path = f"/v1/runs/{run['id']}/artifacts"
    (item,) = [item for item in service.get(path).json["items"] if item["name"] == "token_losses.npy"]
    file = service.data / "artifacts" / item["sha256"]
    kept = file.read_bytes()
    file.write_bytes(kept[:-1])
    answers = [worst(service, run), service.get(f"{path}/token_losses.npy")]
    file.write_bytes(kept)
    for answer in answers:
        assert (answer.status, answer.json["code"]) == (422, "corrupt") and "retry the run" in answer.json["detail"]
    assert worst(service, run).status == 200


class Lock:
    """Keeps everybody else from a table of the server's database. A request waits five seconds for an answer from
    there: all goes through one session, which needs no process for a question."""

    def __init__(self, service, table):
        self.table = table
        self.process = subprocess.Popen(["psql", "-XAtq", "-h", "/proc/self/cwd", "-U", "deltaq", "deltaq"],
                                        cwd=service.data / "pg" / "socket", stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert self.ask("set idle_in_transaction_session_timeout = 0; select 'there'") == "there"

    def take(self):
        self.send(f"begin; lock table {self.table} in access exclusive mode")
        assert self.ask("select 'held'") == "held"

    def send(self, text):
        self.process.stdin.write(text + ";\n")
        self.process.stdin.flush()

    def ask(self, text):
        self.send(text)
        return self.process.stdout.readline().strip()

    def waited_for(self):
        count = "select count(*) from pg_locks where not granted and relation = '{}'::regclass"
        return self.ask(count.format(self.table)) != "0"

    def release(self):
        if self.process.poll() is None:
            self.process.communicate("rollback;\n")


def until(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def connections(service):
    """Those that are open, this request's too. One whose client has left is open until its work has ended."""
    text = service.get("/metrics").body.decode()
    return int(float(re.search(r"^deltaq_http_connections (\S+)$", text, re.M).group(1)))


@pytest.mark.parametrize("leaves", [False, True])
def test_work_ends_when_the_client_has_left(service, subject, leaves):
    """The request is held where it asks what the run left, after it has read the run. After that its losses are read,
    its checkpoint and its dataset: when the client has left, it never comes to the dataset."""
    run = quantize(service, subject["one"], subject["text"])
    until(lambda: connections(service) == 1)
    artifacts, datasets = Lock(service, "artifacts"), Lock(service, "datasets")
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=90)
    try:
        artifacts.take()
        connection.request("GET", f"/v1/runs/{run['id']}/worst-tokens")
        until(artifacts.waited_for)
        datasets.take()
        if leaves:
            connection.close()
        artifacts.release()
        until(lambda: datasets.waited_for() or (leaves and connections(service) == 1))
        assert leaves != datasets.waited_for()
        datasets.release()
        if not leaves:
            assert connection.getresponse().status == 200
    finally:
        artifacts.release()
        datasets.release()
        connection.close()
