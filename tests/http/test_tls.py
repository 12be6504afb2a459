"""HTTPS (server/http/tls.h): with certificates that openssl makes here."""

import contextlib
import http.client
import json
import re
import shutil
import ssl
import subprocess
import urllib.parse

import echo
import pytest
from ports import free_port
from service import BINARY, Service

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl, which makes certificates, is not here")


def openssl(*arguments, **more):
    return subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, timeout=120, **more)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Three self-signed certificates of this machine with their keys, and the first key with a password."""
    directory = tmp_path_factory.mktemp("certificates")
    elliptic = ("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
    for name, algorithm in (("one", elliptic), ("two", elliptic), ("rsa", ("rsa:2048",))):
        done = openssl("req", "-x509", "-newkey", *algorithm, "-nodes", "-days", "2", "-subj", "/CN=deltaq", "-addext",
                       "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", directory / f"{name}.key", "-out",
                       directory / f"{name}.pem")
        assert done.returncode == 0, done.stderr
    done = openssl("pkcs8", "-topk8", "-in", directory / "one.key", "-passout", "pass:x", "-out",
                   directory / "locked.key")
    assert done.returncode == 0, done.stderr
    (directory / "text.pem").write_text("no certificate\n")
    return directory


@pytest.fixture(scope="module")
def server(certificates):
    server = echo.Server("--tls", certificates / "one.pem", certificates / "one.key")
    server.trust = ssl.create_default_context(cafile=certificates / "one.pem")
    yield server
    server.stop()


def ask(server, method, path, body=None, headers=None):
    connection = http.client.HTTPSConnection("localhost", server.port, timeout=60, context=server.trust)
    with contextlib.closing(connection):
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()


@contextlib.contextmanager
def opened(server):
    with server.connect() as plain, server.trust.wrap_socket(plain, server_hostname="localhost") as client:
        yield client


def test_requests_bodies_and_answers_are_whole(server):
    assert server.url.startswith("https://127.0.0.1:")
    assert ask(server, "GET", "/healthz") == (200, b"ok\n")
    status, body = ask(server, "GET", "/v1/big?items=300000")
    assert status == 200 and json.loads(body)["items"] == list(range(300000))
    sent = json.dumps({"items": list(range(300000))})
    assert ask(server, "POST", "/v1/large", sent, {"Content-Type": "application/json"}) == (200, b'{"items":300000}')
    own = {"Origin": f"https://localhost:{server.port}", "Content-Type": "application/json"}
    assert ask(server, "POST", "/v1/act", "{}", own)[0] == 200
    other = {"Origin": "https://elsewhere.example", "Content-Type": "application/json"}
    assert ask(server, "POST", "/v1/act", "{}", other)[0] == 403


def test_events_and_waits_go_on_while_others_ask(server):
    head = f"GET /v1/events/t4 HTTP/1.1\r\nHost: localhost:{server.port}\r\n\r\n".encode()
    with opened(server) as client:
        client.sendall(head)
        data = b""
        for count in (1, 2):
            assert ask(server, "POST", "/v1/wake/t4")[0] == 200
            while f'{{"value":{count}}}'.encode() not in data:
                data += client.recv(65536)
    assert ask(server, "GET", "/v1/wait/t5?wait=1")[0] == 200


def test_a_body_that_grows_too_long_is_answered(server):
    head = (f"POST /v1/act HTTP/1.1\r\nHost: localhost:{server.port}\r\nContent-Type: application/json\r\n"
            "Transfer-Encoding: chunked\r\n\r\n").encode()
    with opened(server) as client:
        client.sendall(head)
        with contextlib.suppress(OSError):
            for _ in range(80):
                client.sendall(b"4000\r\n" + b" " * 0x4000 + b"\r\n")
        data = b""
        with contextlib.suppress(OSError):
            while chunk := client.recv(65536):
                data += chunk
    assert echo.heads(data) == [413], data


def test_the_grammar_of_heads_is_checked_behind_the_encryption(server):
    """In one record and in many; a good request before the bad one is answered."""
    host = f"Host: localhost:{server.port}\r\n"
    good = f"GET /v1/echo/a?b=1 HTTP/1.1\r\n{host}\r\n"
    post = f"POST /v1/echo HTTP/1.1\r\n{host}Content-Type: application/json\r\n"
    bad = [f"GET /healthz HTTP/1.1\r\n{host}: b\r\n\r\n{good}", f"{post}Content-Length: 2,2\r\n\r\n{{}}",
           f"GET /healthz HTTP/1.1\r\n{host}X: a\r\n b\r\n\r\n",
           f"{post}Transfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n: b\r\n\r\n"]
    for text in bad:
        sent = (good + text).encode()
        for part in (len(sent), 7):
            with opened(server) as client:
                data = b""
                with contextlib.suppress(OSError):
                    for at in range(0, len(sent), part):
                        client.sendall(sent[at:at + part])
                with contextlib.suppress(OSError):
                    while chunk := client.recv(65536):
                        data += chunk
            assert echo.heads(data) == [200, 400] and b'[["b","1"]]' in data, (text, part, data)


def test_no_version_before_1_2(server):
    for version in ("-tls1_2", "-tls1_3"):
        done = openssl("s_client", "-connect", f"localhost:{server.port}", version, input="")
        assert "New, TLSv1" in done.stdout, done.stdout + done.stderr
    for version in ("-tls1", "-tls1_1"):
        done = openssl("s_client", "-connect", f"localhost:{server.port}", version, "-cipher", "ALL:@SECLEVEL=0",
                       input="")
        assert done.returncode != 0
        assert re.search(r"written [1-9]\d+ bytes", done.stdout), "openssl itself would speak it"
        assert "New, (NONE)" in done.stdout, done.stdout


def test_every_connection_has_forward_secrecy_and_no_cbc(certificates):
    """With a certificate of RSA, which alone can be spoken to without a key exchange of its own."""
    rsa = echo.Server("--tls", certificates / "rsa.pem", certificates / "rsa.key")
    try:
        for cipher in ("AES128-SHA", "AES256-SHA256", "AES128-GCM-SHA256", "AES256-GCM-SHA384", "AES128-CCM",
                       "ECDHE-RSA-AES128-SHA", "ECDHE-RSA-AES256-SHA", "ECDHE-RSA-AES128-SHA256"):
            done = openssl("s_client", "-connect", f"localhost:{rsa.port}", "-tls1_2", "-cipher",
                           f"{cipher}:@SECLEVEL=0", input="")
            assert done.returncode != 0 and "New, (NONE)" in done.stdout, (cipher, done.stdout)
            assert re.search(r"written [1-9]\d+ bytes", done.stdout), f"openssl itself would speak {cipher}"
        for version, cipher in ((ssl.TLSVersion.TLSv1_2, "ECDHE-RSA-AES128-GCM-SHA256"),
                                (ssl.TLSVersion.TLSv1_2, "ECDHE-RSA-CHACHA20-POLY1305"),
                                (ssl.TLSVersion.TLSv1_3, None)):
            trust = ssl.create_default_context(cafile=certificates / "rsa.pem")
            trust.minimum_version = trust.maximum_version = version
            if cipher is not None:
                trust.set_ciphers(cipher)
            with rsa.connect() as plain, trust.wrap_socket(plain, server_hostname="localhost") as client:
                assert cipher is None or client.cipher()[0] == cipher
                assert client.version() == ("TLSv1.2" if cipher else "TLSv1.3")
    finally:
        rsa.stop()


def test_what_is_no_tls_is_closed(server):
    data, closed = server.raw(b"GET /healthz HTTP/1.1\r\nHost: @HOST@\r\n\r\n")
    assert closed and b"200" not in data
    assert ask(server, "GET", "/healthz") == (200, b"ok\n")


def test_who_begins_no_handshake_is_not_waited_for(certificates):
    impatient = echo.Server("--short", "--tls", certificates / "one.pem", certificates / "one.key")
    try:
        with impatient.connect() as client:
            assert client.recv(1) == b""
    finally:
        impatient.stop()


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not here")
def test_curl_checks_the_certificate(server, certificates):
    url = f"https://localhost:{server.port}/healthz"
    good = subprocess.run(["curl", "-sS", "--cacert", certificates / "one.pem", url], capture_output=True, text=True)
    assert (good.returncode, good.stdout) == (0, "ok\n"), good.stderr
    assert subprocess.run(["curl", "-sS", url], capture_output=True).returncode == 60


def test_verbs_check_the_certificate(server, certificates, tmp_path):
    url = f"https://localhost:{server.port}"

    def ready(*options):
        return subprocess.run([BINARY, "ready", *options], capture_output=True, text=True, timeout=60,
                              env={"HOME": str(tmp_path), "PATH": "/usr/bin"})

    assert "404" in ready("--url", url, "--cacert", certificates / "one.pem").stderr, "it came through"
    for other in ((), ("--cacert", certificates / "two.pem")):
        refused = ready("--url", url, *other)
        assert refused.returncode == 4 and "certificate" in refused.stderr
    missing = ready("--url", url, "--cacert", tmp_path / "none.pem")
    assert missing.returncode == 2 and "none.pem: No such file" in missing.stderr
    (tmp_path / "client.json").write_text(json.dumps({"url": url, "cacert": str(certificates / "one.pem")}))
    assert "404" in ready("--client-file", tmp_path / "client.json").stderr


def test_what_cannot_be_served_is_told_before_anything_is_made(certificates, tmp_path):
    one, key, locked, text = (str(certificates / name) for name in ("one.pem", "one.key", "locked.key", "text.pem"))
    none, other, data = str(tmp_path / "none.pem"), str(certificates / "two.key"), tmp_path / "data"
    for options, said in (
            (["--tls-certificate", one], "go together"),
            (["--tls-key", key], "go together"),
            (["--tls-certificate", none, "--tls-key", key], f"--tls-certificate {none}: No such file"),
            (["--tls-certificate", one, "--tls-key", none], f"--tls-key {none}: No such file"),
            (["--tls-certificate", one, "--tls-key", str(tmp_path)], f"--tls-key {tmp_path}: is no file"),
            (["--tls-certificate", text, "--tls-key", key], "holds no certificate in PEM"),
            (["--tls-certificate", one, "--tls-key", text], "holds no private key in PEM without a password"),
            (["--tls-certificate", one, "--tls-key", locked], "holds no private key in PEM without a password"),
            (["--tls-certificate", one, "--tls-key", other], "is not the key of the first certificate"),
            (["--token-rate", "100001"], "--token-rate"), (["--address-rate", "-1"], "--address-rate"),
            (["--trust-proxy", "proxy.example"], "--trust-proxy")):
        done = subprocess.run([BINARY, "serve", "--listen", "127.0.0.1:0", "--data-dir", data, *options],
                              capture_output=True, text=True, timeout=120)
        assert done.returncode == 1 and said in done.stderr, done.stderr
        assert not data.exists(), options


def test_serve_over_https_and_probes_without(certificates, tmp_path):
    probes = free_port()
    service = Service(tmp_path, "--workers", "0", "--tls-certificate", certificates / "one.pem", "--tls-key",
                      certificates / "one.key", "--probes", f"127.0.0.1:{probes}")
    try:
        assert urllib.parse.urlsplit(service.url).scheme == "https"
        service.trust = ssl.create_default_context(cafile=certificates / "one.pem")
        done = subprocess.run([BINARY, "ready", "--wait", "--timeout", "60", "--url", service.url, "--cacert",
                               certificates / "one.pem"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert ask(service, "GET", "/v1/runs")[0] == 200, "our own user, while there is no token"
        plain = http.client.HTTPConnection("127.0.0.1", probes, timeout=60)
        plain.request("GET", "/healthz")
        assert plain.getresponse().status == 200
        plain.close()
    finally:
        assert service.stop() == 0
