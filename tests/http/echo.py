"""A running echo_server (echo_server.c) and what the tests of the HTTP layer need around it. Standard library only."""

import gzip
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = os.environ.get("CONFIG", "release")
BINARY = ROOT / os.environ.get("BUILD", "build") / CONFIG / "tests" / "http" / "echo_server"


class Server:
    def __init__(self, *arguments):
        self.process = subprocess.Popen([BINARY, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        assert self.url, self.process.stderr.read()
        self.port = int(self.url.rsplit(":", 1)[1])
        self.host = f"127.0.0.1:{self.port}"

    def connect(self, timeout=60):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def raw(self, data, timeout=60):
        """Sends bytes, returns all that comes until the server closes (or the time is up: then `closed` is False)."""
        with self.connect(timeout) as client:
            try:
                client.sendall(data.replace(b"@HOST@", self.host.encode()))
            except (ConnectionResetError, BrokenPipeError):
                pass
            return read_all(client)

    def request(self, method, path, body=None, headers=None, timeout=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        headers = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        kind = answer.headers.get_content_type()
        encoded = answer.headers.get("Content-Encoding") == "gzip"
        document = json.loads(gzip.decompress(data) if encoded else data) if kind.endswith("json") and data else data
        return answer.status, answer.headers, document

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        errors = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        assert code == 0, errors
        assert "Sanitizer" not in errors, errors
        return errors


def read_all(client):
    data = b""
    try:
        while chunk := client.recv(65536):
            data += chunk
        return data, True
    except ConnectionResetError:
        return data, True
    except TimeoutError:
        return data, False


def heads(data):
    return [int(code) for code in re.findall(rb"HTTP/1\.[01] (\d{3})", data)]


def problem(answer, status, code):
    got, headers, document = answer
    assert got == status, answer
    assert headers.get_content_type() == "application/problem+json"
    assert {"type", "title", "status", "detail", "instance", "code", "request_id"} <= set(document)
    assert document["code"] == code and document["type"] == "/problems/" + code and document["status"] == status
    assert document["request_id"] == headers["X-Request-Id"]
    return document


def wait_for_metric(server, line, limit=50):
    end = time.monotonic() + limit
    while line not in server.request("GET", "/metrics")[2]:
        assert time.monotonic() < end, line
        time.sleep(0.05)


class Events:
    def __init__(self, server, topic, last=None, token=None):
        self.client = server.connect()
        head = (f"GET /v1/events/{topic} HTTP/1.1\r\nHost: {server.host}\r\n"
                + (f"Last-Event-ID: {last}\r\n" if last else "")
                + (f"Authorization: Bearer {token}\r\n" if token else "") + "\r\n")
        self.client.sendall(head.encode())
        self.data = b""

    def until(self, needle, seconds=60):
        end = time.monotonic() + seconds
        while needle not in self.data:
            self.client.settimeout(max(0.01, end - time.monotonic()))
            chunk = self.client.recv(65536)
            if not chunk:
                return False
            self.data += chunk
        return True

    def close(self):
        self.client.close()
