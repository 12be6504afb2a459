"""A certificate that is renewed while the server runs (server/cli/renewal.h): new connections get it, others go on."""

import contextlib
import hashlib
import os
import shutil
import signal
import socket
import ssl
import time

import pytest
from service import Service
from test_tls import certificates, openssl  # noqa: F401

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl, which makes certificates, is not here")
ASK = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Served:
    """A server whose certificate and key are links, as certbot makes them, to the pair of a name."""

    def __init__(self, directory, pairs):
        self.pairs, self.links = pairs, {kind: directory / f"live.{kind}" for kind in ("pem", "key")}
        for kind in self.links:
            self.point(kind, f"one.{kind}")
        self.service = Service(directory, "--workers", "0", "--allow-host", "localhost", "--tls-certificate",
                               self.links["pem"], "--tls-key", self.links["key"])

    def point(self, kind, name):
        new = self.links[kind].with_suffix(".new")
        new.symlink_to(self.pairs / name)
        os.replace(new, self.links[kind])

    @contextlib.contextmanager
    def connection(self):
        trust = ssl.create_default_context()
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection(("127.0.0.1", self.service.port), 60) as plain:
            with trust.wrap_socket(plain) as client:
                yield client

    def certificate(self):
        with self.connection() as client:
            return client.getpeercert(binary_form=True)

    def get(self, name):
        return ssl.PEM_cert_to_DER_cert((self.pairs / f"{name}.pem").read_text())

    def said(self, text, count=1):
        deadline = time.monotonic() + 60
        while self.service.log.read_text().count(text) < count:
            assert time.monotonic() < deadline, self.service.log.read_text()
            time.sleep(0.1)

    def hang_up(self):
        self.service.process.send_signal(signal.SIGHUP)


@pytest.fixture
def served(certificates, tmp_path):  # noqa: F811
    served = Served(tmp_path, certificates)
    yield served
    assert served.service.stop() == 0


def answers(client):
    client.sendall(ASK)
    data = b""
    while b'"status":"ok"' not in data:
        chunk = client.recv(65536)
        assert chunk, data
        data += chunk
    return data.startswith(b"HTTP/1.1 200")


def test_a_renewed_pair_is_taken_by_new_connections(served):
    """Links that are moved, one after the other, and nobody says anything."""
    assert served.certificate() == served.get("one")
    with served.connection() as before:
        assert answers(before)
        served.point("pem", "two.pem")
        served.point("key", "two.key")
        served.said("new connections get a certificate that ends ")
        assert served.certificate() == served.get("two") != served.get("one")
        assert answers(before), "it goes on"
        assert hashlib.sha256(before.getpeercert(binary_form=True)).digest() == hashlib.sha256(
            served.get("one")).digest()
    serial = openssl("x509", "-in", served.pairs / "two.pem", "-noout", "-serial").stdout.strip().split("=")[1]
    served.said(f"serial number {serial}")


def test_a_pair_that_cannot_be_used_changes_nothing_and_is_told_once(served):
    bad = (("key", "two.key", "is not the key of the first certificate"),
           ("key", "locked.key", "holds no private key in PEM without a password"),
           ("key", "none.key", "No such file"), ("pem", "text.pem", "holds no certificate in PEM"))
    for count, (kind, name, why) in enumerate(bad):
        served.point(kind, name)
        served.said(f"the certificate stays as it was: --tls-{'key' if kind == 'key' else 'certificate'}")
        served.said(why)
        assert served.certificate() == served.get("one")
        served.point(kind, f"one.{kind}")
        served.hang_up()
        served.said("new connections get", count + 1)
    assert served.certificate() == served.get("one")
    assert served.service.log.read_text().count("is not the key of the first") == 1


def test_sighup_reads_the_files_at_once_whatever_they_are(served):
    served.hang_up()
    served.said("new connections get")
    assert served.certificate() == served.get("one")
    served.point("pem", "two.pem")
    served.hang_up()
    served.said("the certificate stays as it was")
    served.point("key", "two.key")
    served.hang_up()
    served.said("new connections get", 2)
    assert served.certificate() == served.get("two")


def test_many_handshakes_while_pairs_change(served):
    """Each connection has one pair or the other, whole."""
    seen = set()
    for i in range(40):
        name = ("two", "one")[i % 2]
        served.point("pem", f"{name}.pem")
        served.point("key", f"{name}.key")
        served.hang_up()
        for _ in range(3):
            with served.connection() as client:
                assert answers(client)
                seen.add(client.getpeercert(binary_form=True))
    assert seen == {served.get("one"), served.get("two")}
