"""The server as a whole: health, tokens, idempotency, conditional requests,
what strangers send, stopping and coming back."""

import gzip
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time

import models
import pytest
from earlier import psql
from service import BINARY, Service
from small_disk import small_disk
from test_watch import until


def test_health_and_metrics(service):
    assert service.get("/healthz").json["status"] == "ok"
    assert service.get("/readyz").json["database"] == "ok"
    text = service.get("/metrics").body.decode()
    assert 'deltaq_runs{kind="evaluate",state="succeeded"}' in text and "deltaq_database_up 1" in text
    end = time.monotonic() + 120
    while not (workers := service.get("/v1/workers").json["items"]) and time.monotonic() < end:
        time.sleep(0.05)  # the service listens before its workers do
    assert [w["device"] for w in workers] == ["cpu"]


def test_lists_have_tags_and_links(service):
    for path in ("/v1/trajectories", "/v1/checkpoints", "/v1/datasets", "/v1/runs", "/v1/sweeps"):
        answer = service.get(path + "?limit=1")
        assert set(answer.json) == {"items", "next"}
        assert service.get(path + "?limit=1", {"If-None-Match": answer.headers["ETag"]}).status == 304


def test_answers_are_compressed_when_asked_for(service):
    for i in range(12):
        service.sequences(f"compressed-{i}", [[1, 2, i]])
    plain, small = service.get("/openapi.yaml"), service.get("/openapi.yaml", {"Accept-Encoding": "gzip"})
    assert small.headers["Content-Encoding"] == "gzip" and gzip.decompress(small.body) == plain.body
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=20)
    connection.request("GET", "/v1/datasets", headers={"Accept-Encoding": "gzip"})
    answer = connection.getresponse()
    assert (answer.headers["Content-Encoding"] == "gzip"
            and len(json.loads(gzip.decompress(answer.read()))["items"]) >= 12)
    connection.close()


def test_idempotency_keys(service, name):
    body, key = {"name": name, "sequences": [[1, 2, 3]]}, {"Idempotency-Key": name}
    first, second = (service.post("/v1/datasets", body, key) for _ in range(2))
    assert (first.status, first.body, first.headers["Location"]) == (
        second.status, second.body, second.headers["Location"])
    assert service.post("/v1/datasets", {**body, "sequences": [[4, 5]]}, key).status == 422
    assert service.post("/v1/datasets", {"name": name + "-bad"}, {"Idempotency-Key": name + "-2"}).status == 422
    assert service.post("/v1/datasets", {"name": name + "-bad", "sequences": [[1, 2]]},
                        {"Idempotency-Key": name + "-2"}).status == 201


@pytest.mark.parametrize("body,status", [
    (b"", 400), (b"{", 400), (b"[1,]", 400), (b'{"a": 1, "a": 2}', 400), (b'{"a": "\\ud800"}', 400),
    (b'{"a": "\xff"}', 400), (b"[" * 5000, 400),
    (b'{"a": 1e999}', 400), (b'{"kind": 99999999999999999999}', 400), (b"[]", 422), (b"3", 422), (b'"x"', 422),
    (b"null", 422),
    (b'{"kind": "evaluate", "params": {"checkpoint": "a\\u0000b"}}', 400), (b" " * (1 << 20) + b"{}", 413),
])
def test_bad_bodies(service, body, status):
    assert service.post("/v1/runs", body).status == status


def test_a_gigabyte_is_refused_before_it_is_sent(service):
    connection = socket.create_connection(("127.0.0.1", service.port), timeout=10)
    connection.sendall(f"POST /v1/runs HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\nContent-Type: application/json\r\n"
                       "Content-Length: 1073741824\r\n\r\n".encode())
    assert b" 413 " in connection.recv(4096).split(b"\r\n")[0]
    connection.close()


@pytest.mark.parametrize("method,path,headers,status", [
    ("GET", "/v1/nothing", {}, 404), ("DELETE", "/v1/curves", {}, 405),
    ("POST", "/v1/runs", {"Content-Type": "text/plain"}, 415),
    ("GET", "/v1/runs", {"Host": "evil.example"}, 421), ("GET", "/v1/runs/%00", {}, 400),
    ("GET", "/v1/runs/%zz", {}, 400),
    ("POST", "/v1/runs", {"Origin": "http://evil.example"}, 403),
])
def test_strangers(service, method, path, headers, status):
    answer = service.request(method, path, b"{}" if method == "POST" else None, headers)
    assert answer.status == status
    if status == 405:
        assert "GET" in answer.headers["Allow"]


def test_it_is_alive_after_all_that(service):
    assert service.get("/readyz").status == 200


@pytest.fixture
def own(tmp_path):
    service = Service(tmp_path, "--threads", "1")
    yield service
    service.stop()


def token(service, scope):
    done = subprocess.run([BINARY, "token", "create", "--scope", scope, "--data-dir", service.data],
                          capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_tokens_and_their_scopes(own):
    body = {"name": "d", "sequences": [[1, 2]]}
    assert own.get("/v1/runs").status == 200
    made = {scope: token(own, scope) for scope in ("read", "write")}
    assert own.get("/v1/runs").status == 401
    assert own.get("/healthz").status == 200
    own.token = "dq_" + "x" * 43
    assert own.get("/v1/runs").status == 401
    own.token = made["read"]
    assert (own.get("/v1/runs").status, own.post("/v1/datasets", body).status) == (200, 403)
    discover = "/v1/trajectories/x/discover"  # asks the hub with the server's token
    assert own.get(f"{discover}?repo=lab/private").status == 403
    own.token = made["write"]
    assert own.get(discover).pointers == ["/repo"]
    assert own.post("/v1/datasets", body).status == 201


def test_it_does_not_listen_to_the_world_without_a_token(tmp_path):
    done = subprocess.run([BINARY, "serve", "--listen", "0.0.0.0:0", "--data-dir", tmp_path], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 1 and "token" in done.stderr


@pytest.mark.parametrize("arguments,status",
                         [(["dance"], 2), (["serve", "--colour", "red"], 2), (["serve", "--workers", "x"], 1), ([], 2),
                          (["token", "create"], 2), (["serve", "--device", "cuda:0,9000"], 1),
                          (["serve", "--device", "cuda:0,"], 1), (["serve", "--device", "tpu"], 1),
                          (["serve", "--root", "/nowhere/at/all"], 1)])
def test_wrong_command_lines(tmp_path, arguments, status):
    more = ["--listen", "127.0.0.1:0", "--data-dir", str(tmp_path)] if arguments[:1] == ["serve"] else []
    done = subprocess.run([BINARY, *arguments, *more], capture_output=True, text=True, timeout=60)
    assert done.returncode == status and done.stderr


@pytest.mark.parametrize("command", ["serve", "worker", "migrate", "token", "version", "doctor"])
def test_every_command_has_help(command):
    done = subprocess.run([BINARY, command, "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.startswith(f"usage: deltaq {command}")


def test_what_was_made_is_there_after_a_restart(own):
    made = own.sequences("kept", [[1, 2, 3]])
    assert own.stop() == 0
    own.start()
    assert own.get("/v1/datasets/kept").json == made


def test_a_killed_worker_costs_no_run(own):
    (own.files / "text").write_text("a story that goes on and on. " * 3000)
    own.post("/v1/datasets", {"name": "text", "path": "text", "format": "text"})
    params = {"trajectory": "t", "model": models.LLAMA, "dataset": "text", "tokenizer": {"name": "bytes"},
              "tokens": 64 * 4 * 40, "batch_sequences": 4, "sequence_length": 64, "checkpoint_every": 64 * 4 * 10}
    own.gate.hold("train", 12, "step")
    run = own.post("/v1/runs", {"kind": "train", "params": params}).json["id"]
    own.held(run)
    (worker,) = own.workers()
    os.kill(worker, signal.SIGKILL)
    document = own.wait(run)
    assert document["state"] == "succeeded" and document["attempt"] == 1, document["error"]
    assert len(document["result"]["checkpoints"]) == 4
    assert len(own.get("/v1/checkpoints?trajectory=t").json["items"]) == 4


def test_a_killed_server_loses_nothing(own):
    made = own.checkpoint(models.write_llama(own.files / "m"), "t", "a")
    data = own.sequences("d", models.rows(2, 16))
    own.process.send_signal(signal.SIGKILL)
    own.process.wait()
    own.process.stdout.close()
    own.start()
    assert own.get(f"/v1/checkpoints/{made['id']}").json == made
    assert own.run("evaluate", checkpoint=made["id"], dataset=data["id"], sequence_length=None)["state"] == "succeeded"


def test_a_full_disk_fails_the_run_and_nothing_else(own):
    (own.files / "text").write_text("a story that goes on and on. " * 3000)
    own.post("/v1/datasets", {"name": "text", "path": "text", "format": "text"})
    with small_disk(own.data / "checkpoints", "size=256k"):
        model = {**models.LLAMA, "hidden_size": 128}
        params = {"trajectory": "t", "model": model, "dataset": "text", "tokenizer": {"name": "bytes"}, "tokens": 2560,
                  "sequence_length": 64}
        document = own.run("train", **params)
        assert document["state"] == "failed" and document["error"]["type"].endswith("disk_full"), document
        assert own.get("/v1/checkpoints?trajectory=t").json["items"] == []
        left = [f for f in (own.data / "checkpoints").rglob("*") if f.is_file()]
        assert not [f for f in left if f.name == "model.safetensors"], left
        assert own.get("/readyz").status == 200
    assert own.run("train", **params)["state"] == "succeeded"


ROUTES = (subprocess.run([BINARY, "routes"], capture_output=True, text=True).stdout.splitlines()
          if BINARY.exists() else [])


@pytest.mark.parametrize("route", [" ".join(line.split()[:2]) for line in ROUTES])
def test_unknown_query_fields_are_refused_everywhere(service, route):
    method, pattern = route.split()
    answer = service.request(method, re.sub(r"{.*?}", "x", pattern) + "?foo=1")
    assert (answer.status == 422 and answer.pointers == ["/foo"]
            and answer.json["detail"].startswith("/foo: unknown query parameter")), answer.body


@pytest.mark.parametrize("query,pointer,words", [
    ("/v1/curves?trajectory=a&metric=dleta", "/metric", 'did you mean "delta"?'),
    ("/v1/curves?trajectory=a&metric=top_eigenvalues", "/metric", 'did you mean "top_eigenvalue"?'),
    ("/v1/curves?trajectory=a&metric=nothing-like-it", "/metric", "GET /v1/curves/metrics"),
    ("/v1/curves?trajectory=a&x=steps", "/x", "step, tokens, learning_rate"),
    ("/v1/curves", "/trajectory", "is missing"),
    ("/v1/correlations?x=tokens&y=detla", "/y", 'did you mean "delta"?'),
    ("/v1/correlations?x=tokens", "/y", "is missing"),
    ("/v1/correlations?x=delta&y=step&bits=4", "/bits", "means nothing for y=step, which no run measures"),
    ("/v1/curves?trajectory=a&metric=learning_rate&method=rtn", "/method", "means nothing for metric=learning_rate"),
    ("/v1/curves?trajectory=a&metric=learning_rate&calibration=x", "/calibration", "which no run measures"),
    ("/v1/trajectories/a/changepoints?metric=learning_rate&protocol=x", "/protocol", "which no run measures"),
    ("/v1/runs?state=done", "/state", "queued, running"),
    ("/v1/runs?limit=0", "/limit", "from 1 to 1000"),
    ("/v1/runs?cursor=x", "/cursor", "follow `next`"),
])
def test_details_name_the_query_field(service, query, pointer, words):
    answer = service.get(query)
    assert answer.status == 422 and answer.pointers == [pointer] and answer.json["detail"].startswith(pointer + ": "), (
        answer.body)
    assert words in answer.json["detail"]


def test_a_worker_that_was_taken_for_dead_is_listed_again(tmp_path):
    """A server in another PID namespace does not see its process and removes it."""
    service = Service(tmp_path, "--threads", "1")
    try:
        until("the worker", lambda: service.get("/v1/workers").json["items"])
        psql(service.data, "delete from workers")
        until("it again", lambda: service.get("/v1/workers").json["items"])
    finally:
        service.stop()
