"""What GET /metrics tells of the queue, the disk, the database and webhooks (server/resources/service_metrics.c)."""

import os
import pathlib
import re
import signal
import subprocess
import time

import models
import pytest
from service import Service

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEAD = re.compile(r"# HELP (\S+) (.+)\n# TYPE (\S+) (\S+)\n")
SAMPLE = re.compile(r'([a-z_]+)(?:\{(.*)\})? (\S+)')
LABEL = re.compile(r'([a-z]+)="((?:[^"\\]|\\.)*)"')
KEPT = 5  # seconds


def text_of(service):
    return service.get("/metrics").body.decode()


def samples(text):
    """{(name, label values…): number}, and {name: names of labels}."""
    found, labels = {}, {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, inner, value = SAMPLE.fullmatch(line).groups()
            pairs = LABEL.findall(inner or "")
            found[name, *(value for _, value in pairs)] = float(value)
            labels.setdefault(name, [name for name, _ in pairs])
    return found, labels


def numbers(service):
    return samples(text_of(service))[0]


def eventually(service, name, value, seconds=40):
    """The numbers are read every few seconds: waits until this one is `value`."""
    end = time.monotonic() + seconds
    while (found := numbers(service).get(name)) != value:
        assert time.monotonic() < end, (name, found, service.log.read_text()[-2000:])
        time.sleep(0.3)


@pytest.fixture
def own(tmp_path):
    service = Service(tmp_path, "--threads", "1", "--allow-private-webhooks")
    yield service
    service.stop()


def submit(service, name, count):
    path = service.files / "model"
    if not path.exists():
        models.write_llama(path)
    service.checkpoint(path, "counted", "step0", step=0)
    data = service.sequences(name, models.rows(count, 16))["name"]
    body = {"checkpoint": "counted/step0", "dataset": data, "sequence_length": None}
    answer = service.post("/v1/runs", {"kind": "evaluate", "params": body})
    assert answer.status == 202, answer.body
    return answer.json["id"]


def test_every_metric_has_its_head_and_stands_in_the_documents(service):
    text = text_of(service)
    heads = HEAD.findall(text)
    names = [name for name, *_ in heads]
    assert len(set(names)) == len(names) == text.count("# TYPE")
    assert all(name == again for name, _, again, _ in heads)
    assert all(name.endswith("_total") == (kind == "counter") for name, _, _, kind in heads)
    _, labels = samples(text)
    assert {re.sub("_(bucket|sum|count)$", "", name) for name in labels} <= set(names)
    row = re.compile(r"^\| `(deltaq_\w+?)(?:\{([\w,]+)\})?` \| (\w+) \| (.+) \|$", re.M)
    documented = row.findall((ROOT / "docs" / "running.md").read_text())
    assert [(name, kind, words) for name, _, kind, words in documented] == [
        (name, kind, words) for name, words, _, kind in heads]
    told = {name: given.split(",") if given else [] for name, given, *_ in documented}
    bad = {name: (given, told[name]) for name, given in labels.items() if name in told and told[name] != given}
    assert not bad


def test_there_is_a_number_for_every_kind_and_state(service):
    found = numbers(service)
    kinds = {key[1] for key in found if key[0] == "deltaq_queue_length"}
    assert {"evaluate", "quantize", "train"} <= kinds
    states = {"queued", "running", "succeeded", "failed", "cancelled"}
    held = {key[1:] for key in found if key[0] == "deltaq_runs"}
    assert held == {(kind, state) for kind in kinds for state in states}
    for name in ("run_crashes_total", "run_expiries_total", "run_rescues_total", "run_retries_total"):
        assert {key[1] for key in found if key[0] == "deltaq_" + name} == kinds


def test_the_machine_and_the_database_are_told_of(service):
    eventually(service, ("deltaq_workers", "cpu"), 1)
    found = numbers(service)
    disk = os.statvfs(service.data)
    assert found["deltaq_data_directory_size_bytes",] == disk.f_blocks * disk.f_frsize
    assert 0 < found["deltaq_data_directory_free_bytes",] < found["deltaq_data_directory_size_bytes",]
    assert 2**20 < found["deltaq_database_size_bytes",] < 2**32
    assert 1 < found["deltaq_database_connections",] < found["deltaq_database_connections_max",] == 120
    status = pathlib.Path(f"/proc/{service.process.pid}/status").read_text()
    now = int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) * 1024
    assert now / 2 < found["deltaq_server_resident_memory_bytes",] < 2 * now
    used = int(subprocess.run(["du", "-s", "--block-size=1", service.data / "pg"], capture_output=True,
                              text=True).stdout.split()[0])
    assert used / 2 < found["deltaq_stored_bytes", "pg"] < 2 * used


def test_what_waits_to_be_archived_is_told_of_an_archive_alone(service, tmp_path):
    assert ("deltaq_archive_waiting_segments",) not in numbers(service)
    archiving = Service(tmp_path, "--workers", "0", "--archive", str(tmp_path / "archive"))
    try:
        eventually(archiving, ("deltaq_archive_waiting_segments",), 0)
        # As PostgreSQL marks a segment, of a name that its archiver does not know and leaves alone.
        waiting = archiving.data / "pg" / "data" / "pg_wal" / "archive_status" / "not-a-segment.ready"
        waiting.touch()
        eventually(archiving, ("deltaq_archive_waiting_segments",), 1)
    finally:
        archiving.stop()


def test_how_long_runs_took_and_what_they_read_is_added_up(own):
    bounds = ["1", "10", "60", "300", "1800", "7200", "28800", "86400", "+Inf"]

    def told(found, kind):
        return [found["deltaq_run_seconds_bucket", kind, bound] for bound in bounds]

    runs = [own.wait(submit(own, name, count)) for name, count in (("one", 1), ("three", 3))]
    eventually(own, ("deltaq_run_seconds_count", "evaluate"), 2)
    found = numbers(own)
    seconds = [run["usage"]["seconds"] for run in runs]
    assert found["deltaq_run_seconds_sum", "evaluate"] == pytest.approx(sum(seconds), rel=1e-6)
    assert told(found, "evaluate") == [sum(s <= float(bound) for s in seconds) for bound in bounds]
    assert found["deltaq_run_tokens_total", "evaluate"] == sum(run["result"]["tokens"] for run in runs) == 4 * 16
    assert told(found, "train") == [0] * len(bounds) and found["deltaq_run_tokens_total", "train"] == 0
    own.request("DELETE", f"/v1/runs/{runs[0]['id']}")
    eventually(own, ("deltaq_runs", "evaluate", "succeeded"), 1)
    assert numbers(own)["deltaq_run_seconds_count", "evaluate"] == 2, "a counter does not fall"


def test_a_branch_adds_no_tokens_of_its_trunk(own):
    step = 2 * 16
    (own.files / "letters.txt").write_text("".join(chr(97 + i * i % 23) for i in range(2000)))
    own.post("/v1/datasets", {"name": "letters", "path": "letters.txt", "format": "text"})
    common = {"dataset": "letters", "batch_sequences": 2, "sequence_length": 16,
              "schedule": {"name": "constant", "peak": 0.01}}
    model = {"model_type": "llama", "vocab_size": 256, "hidden_size": 16, "intermediate_size": 24,
             "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 32}
    trunk = own.run("train", trajectory="trunk", tokens=4 * step, model=model, tokenizer={"name": "bytes"}, **common)
    assert trunk["state"] == "succeeded", trunk["error"]
    made, = own.get("/v1/checkpoints?trajectory=trunk").json["items"]
    branch = own.run("train", trajectory="branch", tokens=6 * step, **{"from": made["id"]}, **common)
    assert branch["state"] == "succeeded" and branch["result"]["tokens"] == 6 * step, branch["error"]
    eventually(own, ("deltaq_run_seconds_count", "train"), 2)
    assert numbers(own)["deltaq_run_tokens_total", "train"] == 6 * step, "4 of the trunk and 2 of the branch"


def test_runs_are_counted_and_counters_survive_a_restart(own):
    run = submit(own, "first", 1)
    assert own.wait(run)["state"] == "succeeded"
    eventually(own, ("deltaq_runs", "evaluate", "succeeded"), 1)
    own.gate.hold("evaluate", 1)
    run = submit(own, "second", 2)
    own.held(run)
    waiting = submit(own, "third", 3)
    eventually(own, ("deltaq_queue_length", "evaluate"), 1)
    found = numbers(own)
    assert found["deltaq_leases",] == found["deltaq_runs", "evaluate", "running"] == 1
    assert found["deltaq_runs_unfinished",] == 2
    assert 0 < found["deltaq_oldest_beat_seconds",] < 30
    assert 0 < found["deltaq_oldest_queued_seconds", "evaluate"] < 60
    assert found["deltaq_oldest_queued_seconds", "train"] == 0
    os.kill(own.workers()[0], signal.SIGKILL)
    eventually(own, ("deltaq_run_crashes_total", "evaluate"), 1)
    assert numbers(own)["deltaq_run_rescues_total", "evaluate"] == 1
    own.gate.open()
    assert own.wait(run)["state"] == own.wait(waiting)["state"] == "succeeded"
    assert own.request("DELETE", f"/v1/runs/{waiting}").status == 204
    eventually(own, ("deltaq_runs", "evaluate", "succeeded"), 2)
    assert own.stop() == 0
    own.start()
    eventually(own, ("deltaq_runs_ended_total", "evaluate", "succeeded"), 3)  # what is not yet added up comes later
    found = numbers(own)
    assert found["deltaq_run_crashes_total", "evaluate"] == found["deltaq_run_rescues_total", "evaluate"] == 1
    assert found["deltaq_queue_length", "evaluate"] == found["deltaq_leases",] == 0


def test_numbers_are_read_every_few_seconds_at_most(own):
    """What is asked for in between is the same, to the byte, however often."""
    def age(text):
        return samples(text)[0]["deltaq_oldest_queued_seconds", "evaluate"]

    own.gate.hold("evaluate", 1)
    own.held(submit(own, "running", 1))
    submit(own, "queued", 2)
    eventually(own, ("deltaq_queue_length", "evaluate"), 1)
    began, seen = time.monotonic(), set()
    while (spent := time.monotonic() - began) < 2 * KEPT:
        seen.add(age(text_of(own)))
    own.gate.open()
    assert 2 <= len(seen) <= spent / KEPT + 1


def test_a_database_that_is_away_is_said_to_be(own):
    postmaster = int((own.data / "pg" / "data" / "postmaster.pid").read_text().split()[0])
    assert numbers(own)["deltaq_database_up",] == 1
    os.kill(postmaster, signal.SIGSTOP)
    try:
        for line in subprocess.run(["ps", "-o", "pid=", "--ppid", str(postmaster)], capture_output=True,
                                   text=True).stdout.split():
            os.kill(int(line), signal.SIGSTOP)
        time.sleep(KEPT)
        found = numbers(own)
        assert found["deltaq_database_up",] == 0 and ("deltaq_leases",) not in found
        assert found["deltaq_data_directory_free_bytes",] > 0
    finally:
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(postmaster)], capture_output=True,
                                  text=True).stdout
        for pid in [postmaster, *map(int, children.split())]:
            os.kill(pid, signal.SIGCONT)
    eventually(own, ("deltaq_database_up",), 1)


def test_webhooks_that_cannot_be_reached_are_failing(own):
    answer = own.post("/v1/webhooks", {"url": "http://127.0.0.1:9/", "events": ["checkpoint"], "secret": "s" * 32})
    assert answer.status == 201, answer.body
    models.write_llama(own.files / "model")
    own.checkpoint(own.files / "model", "told", "step0", step=0)
    eventually(own, ("deltaq_webhooks_failing",), 1)
    found = numbers(own)
    assert found["deltaq_webhooks",] == found["deltaq_webhooks_waiting",] == 1
    assert found["deltaq_webhook_tries_total", "retry"] >= 1 and found["deltaq_webhook_tries_total", "delivered"] == 0
