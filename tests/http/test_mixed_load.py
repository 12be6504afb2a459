"""Requests of every sort at once, while a worker computes: readers, writers, cancels, waits, event streams, clients
that hang up. No answer may be an error of the server. `make check-tsan` runs it with the server and its worker built
for ThreadSanitizer; DELTAQ_LOAD_ROUNDS: how often each client goes round."""

import os
import random
import socket
import threading

import models
import pytest
from service import BINARY, Service

ROUNDS = int(os.environ.get("DELTAQ_LOAD_ROUNDS", "6"))
REPORTS = ("ThreadSanitizer", "AddressSanitizer", "runtime error")


@pytest.fixture
def service(tmp_path):
    service = Service(tmp_path, "--workers", "1", "--threads", "2", "--access-log", "--probes", "127.0.0.1:0",
                      environment={"TSAN_OPTIONS": os.environ.get("TSAN_OPTIONS", "exitcode=66")})
    yield service
    code = service.stop()
    log = service.log.read_text(errors="replace")
    assert not any(report in log for report in REPORTS), log[-20000:]
    assert code == 0, log[-5000:]


def evaluate(ready, **more):
    return {"kind": "evaluate", "force": True,
            "params": {"checkpoint": ready["checkpoint"], "dataset": ready["dataset"], "sequence_length": None, **more}}


def reader(service, ready, rng):
    for path in ("/v1/runs", "/v1/runs?state=succeeded&limit=2", "/v1/checkpoints", "/v1/trajectories", "/v1/datasets",
                 "/v1/workers", "/v1/metrics", "/healthz", "/readyz", "/metrics", "/v1/nothing",
                 f"/v1/checkpoints/{ready['checkpoint']}", "/v1/curves/metrics", "/", "/openapi.yaml"):
        assert service.get(path, {"Accept-Encoding": "identity"}).status < 500, path


def writer(service, ready, rng):
    name = f"rows-{rng.getrandbits(40)}"
    body = {"name": name, "sequences": [[rng.randrange(30) for _ in range(200)] for _ in range(rng.choice((1, 400)))]}
    key = {"Idempotency-Key": name}
    answers = [service.post("/v1/datasets", body, key) for _ in range(2)]
    assert [answer.status for answer in answers] == [201, 201] and answers[0].json["id"] == answers[1].json["id"]
    assert service.request("DELETE", f"/v1/datasets/{answers[0].json['id']}").status == 204
    assert service.post("/v1/datasets", b'{"name": "x", "sequences": [[1,').status == 400


def runner(service, ready, rng):
    made = service.post("/v1/runs", evaluate(ready, max_sequences=rng.randint(1, 6)))
    assert made.status == 202, made.body
    run = made.json["id"]
    if rng.random() < 0.4:
        assert service.post(f"/v1/runs/{run}/cancel").status in (200, 202, 409)
    assert service.get(f"/v1/runs/{run}?wait=2").status == 200
    assert service.get(f"/v1/runs/{run}/events").status < 500


def leaver(service, ready, rng):
    """Sends a part of a request, or does not read the answer."""
    head = f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\n\r\n".encode()
    for data in (head, head[:20], head.replace(b"/v1/events", b"/v1/runs?limit=100"), b"\x00\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", service.port), 60) as client:
            client.sendall(data)
            if rng.random() < 0.5:
                client.settimeout(60)
                if data is head:
                    client.recv(100)


def test_a_mixed_load(service):
    checkpoint = service.checkpoint(models.write_llama(service.files / "load"), "load", "step1", step=1)["id"]
    ready = {"checkpoint": checkpoint, "dataset": service.sequences("load", models.rows(6, 32))["id"]}
    faults = []

    def client(what, seed):
        rng = random.Random(seed)
        try:
            for _ in range(ROUNDS):
                what(service, ready, rng)
        except BaseException as fault:  # noqa: B902: told by the test, whatever it is
            faults.append(fault)

    threads = [threading.Thread(target=client, args=(what, seed))
               for seed, what in enumerate((reader, reader, writer, writer, runner, runner, leaver))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    method = {"name": "rtn", "bits": 4, "group_size": 16}
    run = service.run("quantize", checkpoint=checkpoint, method=method,
                      evaluation={"dataset": ready["dataset"], "sequence_length": None})
    assert run["state"] == "succeeded", (run["error"], str(BINARY))
