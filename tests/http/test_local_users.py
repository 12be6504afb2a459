"""Who may come in without a token: on a loopback address the server's own user and root, and nobody else of the
machine. And the listener for probes."""

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

import models
import pytest
from service import BINARY, Service

NOBODY = 65534
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    directory = tmp_path_factory.mktemp("shared")
    public = tempfile.TemporaryDirectory(prefix="deltaq-public-", dir="/tmp")  # $TMPDIR may be closed to others
    os.chmod(public.name, 0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        probes = free.getsockname()[1]
    service = Service(directory, "--workers", "0", "--socket", f"{public.name}/http", "--probes", f"127.0.0.1:{probes}")
    service.probes, service.socket = probes, f"{public.name}/http"
    yield service
    assert service.stop() == 0
    assert not os.path.exists(service.socket)
    public.cleanup()


def as_nobody(script, *arguments):
    """Runs Python as another user of this machine."""
    done = subprocess.run(["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", sys.executable,
                           "-c", script, *map(str, arguments)], capture_output=True, text=True, timeout=60, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


ASK = """
import http.client, socket, sys
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sys.argv[1])
for line in sys.argv[2:]:
    method, path = line.split()
    c = Unix("localhost") if sys.argv[1].startswith("/") else http.client.HTTPConnection(sys.argv[1])
    c.request(method, path, *([b"{}", {"Content-Type": "application/json"}] if method == "POST" else []))
    print(c.getresponse().status)
"""


def test_another_user_of_the_machine_needs_a_token(shared, name):
    dataset = shared.sequences(name, models.rows(2, 8))["id"]
    place = f"127.0.0.1:{shared.port}"
    asked = ["GET /v1/runs", f"DELETE /v1/datasets/{dataset}", "POST /v1/runs", "GET /healthz"]
    assert as_nobody(ASK, place, *asked) == ["401", "401", "401", "200"]
    answer = json.loads(subprocess.run(["setpriv", f"--reuid={NOBODY}", "curl",
                                        "-s", f"{shared.url}/v1/runs"], capture_output=True).stdout)
    assert "--trust-loopback" in answer["detail"]
    assert shared.get(f"/v1/datasets/{dataset}").status == 200


HIT_AND_RUN = """
import socket, sys
for _ in range(300):
    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    s.sendall(b"DELETE /v1/datasets/%s HTTP/1.1\\r\\nHost: 127.0.0.1:%s\\r\\n\\r\\n"
              % (sys.argv[2].encode(), sys.argv[1].encode()))
    s.close()
"""


def test_a_socket_that_is_closed_at_once_does_not_pass_for_root(shared, name):
    """The kernel tells the user of a socket that nobody holds any more as 0."""
    dataset = shared.sequences(name, models.rows(2, 8))["id"]
    as_nobody(HIT_AND_RUN, shared.port, dataset)
    time.sleep(1)
    assert shared.get(f"/v1/datasets/{dataset}").status == 200


def test_a_unix_socket_goes_by_the_credentials_of_its_peer(shared):
    assert as_nobody(ASK, shared.socket, "GET /v1/runs", "GET /healthz") == ["401", "200"]
    done = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", shared.socket,
                           "http://anything/v1/runs"], capture_output=True, text=True)
    assert done.stdout == "200"


def test_a_token_lets_another_user_in(tmp_path):
    service = Service(tmp_path, "--workers", "0")
    try:
        token = subprocess.run([BINARY, "token", "create", "--scope", "read",
                                "--data-dir", service.data], capture_output=True, text=True, check=True).stdout.strip()
        done = subprocess.run(["setpriv", f"--reuid={NOBODY}", "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}",
                               "-H", f"Authorization: Bearer {token}", f"{service.url}/v1/runs"],
                              capture_output=True, text=True)
        assert done.stdout == "200"
        assert service.get("/v1/runs").status == 401, "with a token everybody needs one"
    finally:
        service.stop()


def test_every_user_of_the_machine_can_be_trusted(tmp_path):
    service = Service(tmp_path, "--workers", "0", "--trust-loopback")
    try:
        assert as_nobody(ASK, f"127.0.0.1:{service.port}", "GET /v1/runs") == ["200"]
    finally:
        service.stop()


def ask_probe(service, path):
    connection = http.client.HTTPConnection("127.0.0.1", service.probes, timeout=3)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return connection.getresponse().status


def test_probes_have_a_listener_of_their_own(shared):
    assert [ask_probe(shared, path) for path in ("/healthz", "/readyz", "/metrics", "/v1/runs", "/", "/nothing")] == [
        200, 200, 200, 404, 404, 404]


def test_probes_answer_while_the_other_listener_has_no_connection_left(shared):
    held = [socket.create_connection(("127.0.0.1", shared.port)) for _ in range(1100)]
    try:
        assert [ask_probe(shared, path) for path in ("/readyz", "/healthz", "/metrics")] == [200, 200, 200]
    finally:
        for connection in held:
            connection.close()


def test_an_address_that_cannot_be_had_is_named_and_nothing_is_left(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        probes, path = f"127.0.0.1:{taken.getsockname()[1]}", tmp_path / "http"
        serve = [BINARY, "serve", "--listen", "127.0.0.1:0", "--data-dir", tmp_path / "data", "--workers", "0"]
        for asked, told in ((["--probes", probes, "--socket", path], probes),
                            (["--socket", tmp_path / "no" / "http"], "no/http")):
            done = subprocess.run([*serve, *asked], capture_output=True, text=True, timeout=60)
            assert done.returncode == 1 and told in done.stderr and not path.exists()
