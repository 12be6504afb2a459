"""What serve and its workers write to stderr (server/log/log.h): as text and as JSON, and from which level on."""

import datetime
import json
import os
import re
import signal
import socket
import subprocess
import time

import models
import pytest
from service import BINARY, Service
from test_counts import sql

LEVELS = {"error", "warning", "info"}


def eventually(service, fits, seconds=60):
    """The first line of the log that `fits`."""
    end = time.monotonic() + seconds
    while True:
        for line in service.log.read_text().splitlines():
            if fits(line):
                return line
        assert time.monotonic() < end, service.log.read_text()
        time.sleep(0.1)


def lose_lease(service):
    """A run whose lease another one took, while it is held in the middle."""
    models.write_llama(service.files / "model")
    service.checkpoint(service.files / "model", "logged", "step0", step=0)
    service.sequences("logged", models.rows(2, 16))
    with service.gate.holding("evaluate", 1):
        params = {"checkpoint": "logged/step0", "dataset": "logged", "sequence_length": None}
        run = service.post("/v1/runs", {"kind": "evaluate", "params": params}).json["id"]
        service.held(run)
        sql(service, f"update runs set epoch = epoch + 1 where id = '{run}'")
        eventually(service, lambda line: "lease lost" in line)
    return run


@pytest.fixture
def start(tmp_path):
    started = []

    def make(*options):
        started.append(Service(tmp_path, "--threads", "1", *options))
        return started[-1]

    yield make
    for service in started:
        service.stop()


def test_json_is_an_object_a_line_with_ids(start):
    service = start("--log-format", "json", "--access-log")
    eventually(service, lambda line: "DELTAQ_TEST_GATE" in line)
    asked = service.get("/v1/runs?limit=1").headers["X-Request-Id"]
    run = lose_lease(service)
    worker = service.workers()[0]
    os.kill(worker, signal.SIGKILL)
    eventually(service, lambda line: "worker process" in line)
    ended = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
    assert service.stop() == 0
    lines = [json.loads(line) for line in service.log.read_text().splitlines()]
    for line in lines:
        assert set(line) >= {"time", "level", "component", "pid", "message"} and line["level"] in LEVELS, line
        written = datetime.datetime.strptime(line["time"], "%Y-%m-%dT%H:%M:%S.%fZ")
        assert abs(ended - written) < datetime.timedelta(minutes=10)
    of = {name: [line for line in lines if line["component"] == name] for name in ("http", "worker", "supervisor")}
    request = next(line for line in of["http"] if line["request"] == asked)
    assert {name: request[name] for name in ("level", "method", "path", "status")} == {
        "level": "info", "method": "GET", "path": "/v1/runs", "status": 200}
    assert request["bytes"] > 0 <= request["milliseconds"] and request["pid"] == service.process.pid
    lost = next(line for line in of["worker"] if "lease lost" in line["message"])
    assert (lost["run"], lost["level"], lost["pid"]) == (run, "error", worker)
    dead = next(line for line in of["supervisor"] if str(worker) in line["message"])
    assert dead["message"] == f"worker process {worker} ended: killed by signal 9 (Killed)"


def test_text_says_who_and_what(start):
    service = start("--access-log")
    asked = service.get("/healthz").headers["X-Request-Id"]
    with socket.create_connection(("127.0.0.1", service.port), timeout=60) as client:  # cut off in its middle
        client.sendall(f"POST /v1/runs HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\nContent-Type: application/json\r\n"
                       "Transfer-Encoding: chunked\r\n\r\nno size\r\n".encode())
        assert b" 400 " in client.recv(1000)
    worker = service.workers()[0]
    run = lose_lease(service)
    lines = service.log.read_text().splitlines()
    assert any(re.fullmatch(f'http {asked} GET "/healthz" 200 \\d+ bytes \\d+ ms', line) for line in lines), lines
    assert any(re.fullmatch('http \\w+ POST "/v1/runs" 400 \\d+ bytes \\d+ ms', line) for line in lines), lines
    lost = f"deltaq worker {worker}: lease lost on run {run}: the run belongs to another worker, or has ended"
    assert lost in lines, lines
    os.kill(worker, signal.SIGSEGV)
    eventually(service, lambda line: f"worker process {worker} ended: killed by signal 11" in line)
    crashed = eventually(service, lambda line: "crashed" in line)
    assert re.fullmatch(f"deltaq {worker}: crashed by signal 11 \\(Segmentation fault\\) in \\S+\\+0x\\S+", crashed)
    called = eventually(service, lambda line: line.startswith(f"deltaq {worker}: called from "))
    assert "deltaq+0x" in called


def test_what_is_below_the_level_is_not_written(start):
    service = start("--log-level", "error", "--access-log")
    lose_lease(service)
    lines = service.log.read_text().splitlines()
    assert [re.sub(r"\d+", "N", line.split(": ")[1].split(" on run")[0]) for line in lines] == ["lease lost"]


def test_a_failed_start_is_told_in_the_form_asked_for(tmp_path):
    def serve(*options, **environment):
        return subprocess.run([BINARY, "serve", "--data-dir", tmp_path / "none", "--listen", "127.0.0.1:0", *options],
                              capture_output=True, text=True, env={**os.environ, **environment}, timeout=60)

    done = serve("--workers", "many", DELTAQ_LOG_FORMAT="json")
    line = json.loads(done.stderr)
    assert done.returncode == 1 and (line["level"], line["component"]) == ("error", "serve")
    assert "--workers" in line["message"]
    for flag, value in (("--log-format", "xml"), ("--log-level", "loud")):
        done = serve(flag, value)
        assert done.returncode == 1 and done.stderr.startswith(f'deltaq serve: {flag}: "{value}" is n'), done.stderr
    assert not (tmp_path / "none").exists()
