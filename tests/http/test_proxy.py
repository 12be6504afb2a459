"""The server behind a proxy: nginx as docs/deploy.md configures it, where that is installed, and behind a small
one that does the same."""

import http.client
import http.server
import json
import pathlib
import re
import shutil
import socket
import subprocess
import threading

import models
import pytest
from service import Service
from test_tokens import tool

NAME = "deltaq.lab.example"
DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "docs" / "deploy.md"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("behind"), "--workers", "0", "--log-format", "json", "--allow-host", NAME,
                      "--trust-proxy", "127.0.0.1", "--address-rate", "1")
    service.token = tool(service, "create", "--scope", "admin", "--name", "admin")
    yield service
    assert service.stop() == 0


class Passing(http.server.BaseHTTPRequestHandler):
    """Passes requests on as nginx does: Host as it came, the client's address at the end."""

    def do_GET(self):
        onward = http.client.HTTPConnection("127.0.0.1", self.server.upstream, timeout=90)
        length = int(self.headers.get("Content-Length", 0))
        headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
        before = self.headers.get("X-Forwarded-For")
        headers["X-Forwarded-For"] = ", ".join(filter(None, [before, self.client_address[0]]))
        onward.request(self.command, self.path, self.rfile.read(length) if length else None, headers)
        answer = onward.getresponse()
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in ("connection", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        while chunk := answer.read1(65536):
            self.wfile.write(chunk)
            self.wfile.flush()
        onward.close()

    do_POST = do_DELETE = do_GET

    def log_message(self, *_):
        pass


class Listening(http.server.ThreadingHTTPServer):
    daemon_threads = True


def small(service, directory):
    proxy = Listening(("127.0.0.1", 0), Passing)
    proxy.upstream = service.port
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    yield proxy.server_address[1]
    proxy.shutdown()
    proxy.server_close()


def nginx(service, directory):
    """The documented configuration, without what a test has not: a certificate and port 443."""
    if NGINX is None:
        pytest.skip("nginx is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = re.search(r"```nginx\n(.*?)```", DEPLOY.read_text(), re.DOTALL)[1]
    text = re.sub(r"    ssl_certificate.*\n", "", text.replace("listen 443 ssl", f"listen 127.0.0.1:{port}"))
    text = text.replace("http://127.0.0.1:8642", f"http://127.0.0.1:{service.port}")
    places = "".join(f"{name}_temp_path {directory}/{name};\n" for name in
                     ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (directory / "nginx.conf").write_text(f"daemon off;\nmaster_process off;\npid {directory}/pid;\nevents {{}}\n"
                                          f"http {{\naccess_log off;\n{places}{text}}}\n")
    process = subprocess.Popen([NGINX, "-p", directory, "-c", directory / "nginx.conf", "-e", directory / "errors"])
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=60).close()
            break
        except ConnectionRefusedError:
            continue
    assert process.poll() is None, (directory / "errors").read_text()
    yield port
    process.terminate()
    process.wait(60)


@pytest.fixture(params=[small, nginx], ids=["small", "nginx"])
def ask(request, service, tmp_path):
    proxy = request.param(service, tmp_path)
    port = next(proxy)

    def ask(method, path, body=None, token=service.token, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=90)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection.request(method, path, json.dumps(body) if body is not None else None, {"Host": NAME, **headers})
        answer = connection.getresponse()
        answer.connection = connection
        return answer

    yield ask
    next(proxy, None)


def test_requests_pass_and_count_for_the_clients_address(service, ask, name):
    made = ask("POST", "/v1/datasets", {"name": name, "sequences": [[1, 2, 3]]},
               **{"X-Forwarded-For": "192.0.2.1, 127.0.0.1"})
    assert made.status == 201
    lines = [json.loads(line) for line in service.log.read_text().splitlines()]
    (line,) = [line for line in lines if line.get("request") == made.headers["X-Request-Id"]]
    assert (line["token_name"], line["from"], line["object"]) == ("admin", "192.0.2.1", json.loads(made.read())["id"])
    assert ask("GET", "/v1/runs", token=None).status == 401
    other = [ask("GET", "/v1/runs", token=None, **{"X-Forwarded-For": "192.0.2.2"}).status for _ in range(3)]
    assert other == [401] * 3


def test_events_come_as_they_happen(service, ask, name):
    events = ask("GET", "/v1/events", Accept="text/event-stream")
    assert events.status == 200
    models.write_llama(service.files / name)
    made = ask("POST", "/v1/checkpoints", {"trajectory": name, "name": "step0", "step": 0,
                                           "source": {"path": str(service.files / name)}})
    assert made.status == 201
    made, data = json.loads(made.read())["id"], b""
    while made.encode() not in data:
        chunk = events.read1(65536)
        assert chunk, data
        data += chunk
    events.connection.close()
