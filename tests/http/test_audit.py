"""Who changed what, and who was refused: lines of the log (server/http/audit.h)."""

import json
import os
import time

import pytest
from service import Service


@pytest.fixture
def service(tmp_path):
    service = Service(tmp_path, "--workers", "0", "--log-format", "json", "--trust-proxy", "127.0.0.1")
    yield service
    service.token = None
    assert service.stop() == 0


def lines(service, event=None):
    found = [json.loads(line) for line in service.log.read_text().splitlines()]
    return [line for line in found if line["component"] == "audit" and event in (None, line["event"])]


def of(service, answer):
    """The line of that request: it is written before the answer is sent."""
    (line,) = [line for line in lines(service) if line["request"] == answer.headers["X-Request-Id"]]
    return line


def test_every_change_says_who_from_where_and_what(service):
    made = service.post("/v1/datasets", {"name": "mine", "sequences": [[1, 2, 3]]})
    line = of(service, made)
    assert {name: line[name] for name in ("event", "actor", "uid", "from", "method", "route", "path", "status",
                                          "level")} == {
        "event": "change", "actor": "local", "uid": os.getuid(), "from": "127.0.0.1", "method": "POST",
        "route": "/v1/datasets", "path": "/v1/datasets", "status": 201, "level": "info"}
    assert line["object"] == made.json["id"] and "token" not in line
    first = service.post("/v1/tokens", {"scope": "admin", "name": "first admin"})
    service.token = secret = first.json["token"]
    writer = service.post("/v1/tokens", {"scope": "write", "name": "writer"}).json
    line = of(service, service.request("DELETE", "/v1/datasets/mine"))
    assert (line["actor"], line["token"], line["token_name"], line["object"], line["status"]) == (
        "token", first.json["id"], "first?admin", "mine", 204)
    assert "uid" not in line and (line["path"], line["route"]) == ("/v1/datasets/mine", "/v1/datasets/{dataset}")
    failed = of(service, service.request("DELETE", "/v1/datasets/mine"))
    assert (failed["event"], failed["status"], failed["object"]) == ("change", 404, "mine")
    before = len(lines(service))
    assert service.get("/v1/tokens").status == 200 and len(lines(service)) == before, "an administrator who only reads"
    service.token = writer["token"]
    through = service.post("/v1/datasets", {"name": "a", "sequences": [[1]]}, {"X-Forwarded-For": "192.0.2.7"})
    assert of(service, through)["from"] == "192.0.2.7"
    before = len(lines(service))
    assert service.get("/v1/runs").status == 200 and service.get("/healthz").status == 200
    assert len(lines(service)) == before, "who only reads changes nothing"
    text = service.log.read_text()
    assert secret not in text and writer["token"] not in text


def test_a_repeated_request_is_no_second_change(service):
    key = {"Idempotency-Key": "one"}
    made = service.post("/v1/datasets", {"name": "mine", "sequences": [[1, 2, 3]]}, key)
    again = service.post("/v1/datasets", {"name": "mine", "sequences": [[1, 2, 3]]}, key)
    assert made.status == again.status == 201 and again.headers["Idempotency-Replayed"] == "true"
    assert made.json["id"] == again.json["id"]
    assert [line["request"] for line in lines(service, "change")] == [made.headers["X-Request-Id"]]
    other = service.post("/v1/datasets", {"name": "other", "sequences": [[1]]}, key)
    assert other.status == 422 and of(service, other)["status"] == 422, "it was tried"


def test_every_refusal_is_told_and_many_are_bounded(service):
    service.token = admin = service.post("/v1/tokens", {"scope": "admin", "name": "admin"}).json["token"]
    reader = service.post("/v1/tokens", {"scope": "read", "name": "reader"}).json
    for token, status, actor in ((None, 401, "local"), ("dq_guess", 401, "nobody"), (reader["token"], 403, "token")):
        service.token = token
        answer = service.post("/v1/tokens", {"scope": "admin", "name": "more"})
        line = of(service, answer)
        assert (answer.status, line["status"]) == (status, status) and line["level"] == "warning"
        assert (line["event"], line["actor"], line["route"]) == ("refused", actor, "/v1/tokens")
    assert line["token_name"] == "reader" and line["token"] == reader["id"]
    service.token = None
    for _ in range(300):
        assert service.get("/v1/runs", {"X-Forwarded-For": "192.0.2.9"}).status == 401
    told = [line for line in lines(service, "refused") if line["from"] == "192.0.2.9"]
    assert 20 <= len(told) < 300
    service.token = "dq_another"
    last = of(service, service.get("/v1/runs", {"X-Forwarded-For": "192.0.2.10"}))
    assert sum(line.get("left_out", 0) for line in [*told, last]) == 300 - len(told)
    assert not any(token in service.log.read_text() for token in ("dq_guess", "dq_another", admin, reader["token"]))


def test_wrong_tokens_that_must_wait_are_refusals_too(service):
    service.token = service.post("/v1/tokens", {"scope": "admin", "name": "admin"}).json["token"]
    service.token = "dq_guess"
    statuses = [service.get("/v1/runs", {"X-Forwarded-For": "192.0.2.11"}).status for _ in range(25)]
    told = [line["status"] for line in lines(service, "refused") if line["from"] == "192.0.2.11"]
    assert statuses[:len(told)] == told and 429 in statuses and len(told) >= 20


def test_who_asks_too_often_is_told_once_a_minute_and_counted(tmp_path):
    service = Service(tmp_path, "--workers", "0", "--log-format", "json", "--trust-proxy", "127.0.0.1", "--token-rate",
                      "1", "--address-rate", "1")
    try:
        made = service.post("/v1/tokens", {"scope": "admin", "name": "admin"}).json
        began, refused = time.monotonic(), {}
        for reason, token, address in (("token-rate", made["token"], None), ("address-rate", None, "192.0.2.20")):
            service.token = token
            headers = {"X-Forwarded-For": address} if address else {}
            statuses = []
            while statuses.count(429) < 20:
                statuses.append(service.get("/v1/runs", headers).status)
            refused[reason] = statuses.count(429)
        told = [line for line in lines(service, "refused") if line["status"] == 429]
        assert [line["actor"] for line in told[:2]] == ["token", "nobody"] and told[0]["token"] == made["id"]
        assert told[1]["from"] == "192.0.2.20" and told[1]["route"] == "/v1/runs"
        assert len(told) <= 2 + (time.monotonic() - began) // 60 * 2
        metrics = service.get("/metrics").body.decode()
        for reason, count in refused.items():
            assert f'deltaq_http_refused_total{{reason="{reason}"}} {count}\n' in metrics, metrics
        assert 'deltaq_http_refused_total{reason="not-allowed"}' in metrics
        assert made["token"] not in service.log.read_text()
    finally:
        service.token = None
        service.stop()
