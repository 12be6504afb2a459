"""Who may come in without a token: on a loopback address the server's own user and root, and nobody else of the
machine. And the listener for probes."""

import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import models
import pytest
from ports import free_port
from service import BINARY, Service

NOBODY = 65534
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    directory = tmp_path_factory.mktemp("shared")
    public = tempfile.TemporaryDirectory(prefix="deltaq-public-", dir="/tmp")  # $TMPDIR may be closed to others
    os.chmod(public.name, 0o755)
    probes = free_port()
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


class Strangers:
    """Two network namespaces in which 127.0.0.1 is the server and 127.0.0.2 a client in the other one: its address is
    a loopback address, and the server's kernel knows no socket there."""

    def __init__(self):
        if shutil.which("ip") is None:
            pytest.skip("there is no ip(8) here (apt-get install iproute2)")
        self.names = [f"dq{os.getpid() % 100000}{side}" for side in "sc"]
        for name in self.names:
            if self.ip("netns", "add", name).returncode != 0:
                self.close()
                pytest.skip("making network namespaces is not permitted here")
        server, client = self.names
        self.ip("link", "add", server, "netns", server, "type", "veth", "peer", "name", client, "netns", client)
        for name, own, other, address in ((server, "127.0.0.1", "127.0.0.2", 1), (client, "127.0.0.2", "127.0.0.1", 2)):
            settings = [f"/proc/sys/net/ipv4/conf/{which}/{key}" for which in ("all", name)
                        for key in ("route_localnet", "rp_filter")]
            for path in settings:
                self.within(name, "sh", "-c", f"echo {int('localnet' in path)} > {path}")
            self.ip("-n", name, "link", "set", "lo", "up")
            self.ip("-n", name, "addr", "del", "127.0.0.1/8", "dev", "lo")
            self.ip("-n", name, "addr", "add", f"{own}/32", "dev", "lo")
            self.ip("-n", name, "addr", "add", f"10.99.98.{address}/24", "dev", name)
            self.ip("-n", name, "link", "set", name, "up")
            self.ip("-n", name, "route", "add", f"{other}/32", "via", f"10.99.98.{3 - address}", "dev", name, "src",
                    own)

    @staticmethod
    def ip(*words):
        return subprocess.run(["ip", *words], capture_output=True, text=True)

    def within(self, name, *words):
        return subprocess.run(["ip", "netns", "exec", name, *words], capture_output=True, text=True, timeout=60)

    def ask(self, name, url, path):
        done = self.within(name, "curl", "-s", "--noproxy", "*", "-m", "20", "-o", "/dev/null", "-w",
                           "%{http_code} %{local_ip}", f"{url}{path}")
        return done.stdout.split()

    def close(self):
        for name in self.names:
            self.ip("netns", "del", name)


@pytest.fixture
def strangers():
    made = Strangers()
    yield made
    made.close()


def test_a_client_in_another_network_namespace_needs_a_token(tmp_path, strangers):
    """It is root there, too, and comes from a loopback address: whose its socket is, no table here says."""
    server, client = strangers.names
    service = Service(tmp_path, "--workers", "0", prefix=("ip", "netns", "exec", server))
    try:
        assert strangers.ask(server, service.url, "/v1/runs") == ["200", "127.0.0.1"]
        assert strangers.ask(client, service.url, "/healthz") == ["200", "127.0.0.2"]
        assert strangers.ask(client, service.url, "/v1/runs") == ["401", "127.0.0.2"]
    finally:
        assert service.stop() == 0


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


GUESS = """
import http.client, sys
c = http.client.HTTPConnection(sys.argv[1])
for _ in range(2000):
    c.request("GET", "/v1/runs", headers={"Authorization": "Bearer dq_wrong"})
    answer = c.getresponse()
    if b"this address" in answer.read() and answer.status == 429:
        break
print(answer.status)
"""


def test_another_user_does_not_empty_the_bucket_of_this_one(tmp_path):
    """All have the address 127.0.0.1; the kernel tells them apart."""
    service = Service(tmp_path, "--workers", "0", "--address-rate", "1")
    try:
        assert as_nobody(GUESS, f"127.0.0.1:{service.port}") == ["429"]
        service.token = "dq_mistyped"
        assert service.get("/v1/runs").status == 401
    finally:
        service.token = None
        service.stop()


ASK_OFTEN = GUESS.replace(', headers={"Authorization": "Bearer dq_wrong"}', "")


def test_another_user_who_is_trusted_has_a_bucket(tmp_path):
    """And the server's own user has none."""
    service = Service(tmp_path, "--workers", "0", "--address-rate", "1", "--trust-loopback")
    try:
        assert as_nobody(ASK_OFTEN, f"127.0.0.1:{service.port}") == ["429"]
        assert {service.get("/v1/runs").status for _ in range(100)} == {200}
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
