"""A server of the real product for the tests, and a client that holds every answer to openapi.yaml."""

import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import urllib.parse

import contract
import database
from contract import ROOT, resolve
from gate import Gate

BINARY = pathlib.Path(os.environ.get("DELTAQ_BINARY", ROOT / "build" / "deltaq"))


def check_against_openapi(method, path, answer):
    operation = contract.operation_of(method, path)
    if operation is None:
        assert answer.status >= 400 or not path.startswith("/v1"), f"{method} {path} is not in openapi.yaml"
        return
    responses = operation["responses"]
    declared = resolve(responses.get(str(answer.status)) or responses["default"])
    assert str(answer.status) in responses or answer.status >= 400, (
        f"{method} {path}: {answer.status} is not in openapi.yaml")
    if method == "GET" and path.startswith("/v1") and "ETag" in answer.headers:
        assert "ETag" in declared.get("headers", {}), f"{method} {path} {answer.status}: its ETag is not declared"
    if answer.status == 304 or not answer.body:
        return
    kind = answer.headers.get_content_type()
    assert kind in declared["content"] or "application/octet-stream" in declared["content"], (
        f"{method} {path}: {kind} is not declared")
    schema = contract.schema_of(operation, answer.status, kind)
    if schema:
        faults = contract.misfits(schema, answer.json)
        assert not faults, (f"{method} {path} {answer.status} is not as openapi.yaml says (after a change of a table: "
                            f"tests/http/schemas.py --write): {faults}")
        unknown = list(contract.undeclared([schema], answer.json))
        assert not unknown, f"{method} {path} {answer.status} has fields that openapi.yaml does not name: {unknown}"


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def pointers(self):
        return [e["pointer"] for e in self.json.get("errors", [])]


class Service:
    def __init__(self, directory: pathlib.Path, *options, environment=None, prefix=()):
        """`prefix`: words before the command, of a program that goes on as it."""
        self.prefix = list(prefix)
        self.data, self.files = directory / "data", directory / "files"
        self.files.mkdir(parents=True, exist_ok=True)
        self.gate = Gate(directory / "gate")
        self.options, self.environment = list(options), dict(os.environ, **self.gate.environment, **(environment or {}))
        self.token = None
        self.log = directory / "log"
        if "--database-url" not in options:
            database.lay(BINARY, self.data)
        self.start()

    def start(self):
        command = [*self.prefix, BINARY, "serve", "--listen", "127.0.0.1:0", "--data-dir", self.data,
                   "--root", self.files, *self.options]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log,
                                            env=self.environment, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("deltaq listening on "), self.log.read_text()
        self.url = line.split()[-1]
        self.port = urllib.parse.urlsplit(self.url).port

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=40)
        self.process.stdout.close()
        return code

    def workers(self):
        """The pids of its worker processes."""
        found = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(self.process.pid)], capture_output=True,
                               text=True).stdout
        return [int(line.split()[0]) for line in found.splitlines() if " worker " in line]

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=90)
        sent = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        if self.token:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        try:
            try:
                connection.request(method, path, body, sent)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused before all of it was sent: the answer is there
            response = connection.getresponse()
            answer = Answer(response.status, response.msg, response.read())
        finally:
            connection.close()
        if answer.status >= 400:
            assert answer.headers.get_content_type() == "application/problem+json", answer.body
            assert str(self.files) not in answer.body.decode() and str(self.data) not in answer.body.decode(), (
                answer.body)
        check_against_openapi(method, path, answer)
        return answer

    def get(self, path, headers=None):
        return self.request("GET", path, headers=headers)

    def post(self, path, body=None, headers=None):
        return self.request("POST", path, body, headers)

    # What most tests need first.
    def checkpoint(self, path, trajectory, name, **more):
        answer = self.post("/v1/checkpoints",
                           {"trajectory": trajectory, "name": name, "source": {"path": str(path)}, **more})
        assert answer.status in (200, 201), answer.body
        return answer.json

    def sequences(self, name, rows):
        answer = self.post("/v1/datasets", {"name": name, "sequences": rows})
        assert answer.status in (200, 201), answer.body
        return answer.json

    def sql(self, text):
        """The rows that its database answers with, as lists of texts. A socket's path has at most 107 bytes."""
        done = subprocess.run(["psql", "-XAtqc", text, "-h", "/proc/self/cwd", "-U", "deltaq", "deltaq"],
                              cwd=self.data / "pg" / "socket", capture_output=True, text=True, check=True)
        return [line.split("|") for line in done.stdout.splitlines()]

    def run(self, kind, **params):
        answer = self.post("/v1/runs", {"kind": kind, "params": params})
        assert answer.status in (200, 202), answer.body
        return self.wait(answer.json["id"])

    def held(self, run, lease=1):
        """Waits until the gate holds the run, and gives what it had done by then."""
        def still_to_come():
            answer = self.get(f"/v1/runs/{run}")  # 503: the database is away
            assert answer.status == 503 or answer.json["state"] in ("queued", "running"), answer.body

        return self.gate.wait(run, lease, watch=still_to_come)

    def wait(self, run):
        for _ in range(12):
            document = self.get(f"/v1/runs/{run}?wait=30").json
            if document["state"] not in ("queued", "running"):
                return document
        raise TimeoutError(document)


def quoted(name):
    return urllib.parse.quote(name, safe="")


def slug(text):
    return re.sub(r"[^a-z0-9]+", "-", text.lower())
