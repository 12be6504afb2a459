"""Requests that compute: they hold up nobody else, and end when their client has left."""

import contextlib
import http.client
import json
import socket
import subprocess
import threading
import time

import models
import pytest
from bucket_stand_in import Bucket
from service import Service


@pytest.fixture(scope="module")
def wordy(service):
    """A tokenizer with 100,000 added tokens that all begin alike."""
    tokenizer = models.byte_tokenizer()
    tokenizer["added_tokens"] = [{"id": 256 + i, "content": f"<{'a' * (i % 40)}{i}>", "special": True}
                                 for i in range(100_000)]
    path = service.files / "wordy.json"
    path.write_text(json.dumps(tokenizer))
    return path


def post(service, body):
    text = json.dumps(body).encode()
    connection = socket.create_connection(("127.0.0.1", service.port))
    connection.sendall(b"POST /v1/tokenize HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
                       b"Content-Length: %d\r\n\r\n" % (service.port, len(text)))
    connection.sendall(text)
    return connection


def test_added_tokens_are_found_whatever_their_number(service, wordy):
    text = "x<aaa3>y<" + "a" * 50 + "<a1><a41>"
    ids = service.post("/v1/tokenize", {"tokenizer": {"path": wordy.name}, "texts": [text]}).json["ids"][0]
    assert ids == [ord("x"), 256 + 3, ord("y"), ord("<"), *[ord("a")] * 50, 256 + 1, 256 + 41]


def test_work_for_clients_that_have_left_ends_and_holds_up_nobody(service, wordy):
    """Four texts of 13 MB, in which an added token seems to begin at every word."""
    heavy = [post(service, {"tokenizer": {"path": wordy.name}, "texts": ["<aaaaaaaaaaa " * 1_050_000]})
             for _ in range(4)]
    began = time.monotonic()
    for path in ("/readyz", "/v1/runs", "/v1/datasets"):
        assert service.get(path).status == 200
    assert time.monotonic() - began < 10, "requests that compute held up others"
    for connection in heavy:
        connection.close()
    answer = service.post("/v1/tokenize", {"tokenizer": {"path": wordy.name}, "texts": ["a"]})
    assert answer.status == 200 and time.monotonic() - began < 20, "work for clients that have left went on"


# ---- an artifact that lies in a bucket alone ----


@pytest.fixture
def remote(tmp_path):
    """A server with an artifact of a run that its data directory does not have, and the bucket that has it."""
    bucket = Bucket()
    service = Service(tmp_path, "--threads", "1", "--s3-endpoint", bucket.url, "--artifacts", "s3://lab/artifacts",
                      environment=bucket.environment)
    try:
        service.checkpoint(models.write_llama(service.files / "model"), "t", "c0", step=0)
        service.sequences("rows", models.rows(2, 12))
        run = service.run("evaluate", checkpoint="t/c0", dataset="rows", sequence_length=None)
        assert run["state"] == "succeeded", run["error"]
        (item, *_) = service.get(f"/v1/runs/{run['id']}/artifacts").json["items"]
        path = service.data / "artifacts" / item["sha256"]
        item["content"] = path.read_bytes()
        path.unlink()
        yield service, bucket, f"/v1/runs/{run['id']}/artifacts/{item['name']}", item
    finally:
        bucket.flows.set()
        assert service.stop() == 0
        bucket.close()


def ask(service, path):
    connection = socket.create_connection(("127.0.0.1", service.port))
    connection.sendall(b"GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % (path.encode(), service.port))
    return connection


def test_an_artifact_for_a_client_that_has_left_is_not_waited_for(remote):
    """As many as may wait for a bucket at a time: their places are free again when they leave."""
    service, bucket, path, item = remote
    bucket.flows.clear()
    waiting = [ask(service, path) for _ in range(2)]
    bucket.wait_for_stalled(2)
    assert service.get("/readyz").status == 200 and service.get("/v1/runs").status == 200
    assert service.post("/v1/tokenize", {"tokenizer": {"name": "bytes"}, "texts": ["a"]}).status in (200, 422)
    refused = service.get(path)
    assert refused.status == 429, "a third would have to wait as well"
    for connection in waiting:
        connection.close()
    bucket.flows.set()
    end = time.monotonic() + 20
    while (answer := service.get(path)).status == 429 and time.monotonic() < end:
        time.sleep(0.05)
    assert answer.status == 200 and answer.body == item["content"]


def test_a_server_stops_while_it_waits_for_a_bucket(remote):
    service, bucket, path, _ = remote
    bucket.flows.clear()
    connection = ask(service, path)
    bucket.wait_for_stalled(1)
    began = time.monotonic()
    assert service.stop() == 0 and time.monotonic() - began < 20
    connection.close()


def test_nothing_is_read_of_an_artifact_whose_bytes_nobody_is_sent(remote):
    service, bucket, path, item = remote
    before = len(bucket.asked)
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
    connection.request("HEAD", path)
    head = connection.getresponse()
    assert head.status == 200 and int(head.headers["Content-Length"]) == item["bytes"] and head.read() == b""
    assert head.headers["ETag"] == f'"{item["sha256"]}"'
    connection.request("GET", "/v1/runs")  # on the same connection: nothing was sent behind the head
    assert connection.getresponse().status == 200
    connection.close()
    known = service.get(path, {"If-None-Match": head.headers["ETag"]})
    assert known.status == 304 and len(bucket.asked) == before
    other = service.get(path, {"If-None-Match": '"other"'})
    assert other.status == 200 and other.body == item["content"] and len(bucket.asked) == before + 1


# ---- requests that compute or read files wait for nobody but their like ----

COMPARED = "/v1/compare?a=00000000-0000-4000-8000-000000000000&b=00000000-0000-4000-8000-000000000001"
CHECKPOINT = {"trajectory": "held", "name": "c1", "source": {"path": "held"}}


@contextlib.contextmanager
def locked(service, tables):
    """Nobody reads these tables or writes to them meanwhile."""
    lock = subprocess.Popen(
        ["psql", "-XAtq", "-h", "/proc/self/cwd", "-U", "deltaq", "deltaq"], cwd=service.data / "pg" / "socket",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        lock.stdin.write(f"begin; lock table {tables} in access exclusive mode; select 'held';\n")
        lock.stdin.flush()
        assert lock.stdout.readline() == "held\n"
        yield
    finally:
        lock.stdin.close()
        lock.wait(20)
        lock.stdout.close()


@pytest.mark.parametrize("method, path, body", [
    ("GET", "/v1/correlations?x=step&y=loss", None), ("GET", "/v1/trajectories/held/changepoints?metric=loss", None),
    ("GET", COMPARED, None), ("GET", "/v1/checkpoints/held%2Fc0/tensors", None),
    ("POST", "/v1/checkpoints", CHECKPOINT),
])
def test_they_have_threads_of_their_own(tmp_path, method, path, body):
    """More of them than there are threads for other requests, held by a lock on what they read; another request is
    answered before the first of them."""
    service = Service(tmp_path, "--workers", "0")
    try:
        service.checkpoint(models.write_llama(service.files / "held"), "held", "c0", step=0)
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(service.request(method, path, body).status))
                   for _ in range(12)]
        with locked(service, "runs, checkpoints, measurements, series, trajectories"):
            for thread in threads:
                thread.start()
            time.sleep(0.5)
            assert service.get("/v1/webhooks").status == 200
            assert answers == [], "they were not held, or were waited for"
        for thread in threads:
            thread.join()
        assert len(answers) == 12 and not {500} & set(answers), answers
    finally:
        assert service.stop() == 0


def test_a_scan_ends_when_its_client_has_left(tmp_path):
    """It is held while it registers the first of three checkpoints; what it has registered stays."""
    service = Service(tmp_path, "--workers", "0")
    try:
        for step in range(3):
            models.write_llama(service.files / "held" / f"step{step}", seed=step)
        text = b'{"path": "held"}'
        with locked(service, "checkpoints"):
            connection = socket.create_connection(("127.0.0.1", service.port))
            connection.sendall(b"POST /v1/trajectories/t/scan HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type:"
                               b" application/json\r\nContent-Length: %d\r\n\r\n%s" % (service.port, len(text), text))
            waiting = "select count(*) from pg_locks where not granted and mode = 'RowExclusiveLock'"
            end = time.monotonic() + 60
            while service.sql(waiting) == [["0"]]:
                assert time.monotonic() < end
                time.sleep(0.02)
            connection.close()
        assert service.stop() == 0  # what is under way ends first
        service.start()
        names = [item["name"] for item in service.get("/v1/checkpoints?trajectory=t").json["items"]]
        assert names in (["step0"], []), names
    finally:
        service.stop()
