"""nginx as docs/deploy.md configures it, before a server of the tests: the recipe verbatim but for the port, the paths
of certificate and key, and where the server is."""

import http.client
import json
import pathlib
import re
import shutil
import socket
import ssl
import subprocess

from ports import free_port
from service import Answer

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
NAME = "deltaq.lab.example"
DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "docs" / "deploy.md"
# What Debian's /etc/nginx/nginx.conf has around a site, with places that a test may write.
FRAME = """daemon off;
master_process off;
pid {directory}/pid;
events {{ worker_connections 768; }}
http {{
sendfile on;
tcp_nopush on;
gzip on;
ssl_prefer_server_ciphers on;
access_log off;
{places}{before}{site}}}
"""


def missing():
    """What a test of the recipe lacks here; None: nothing."""
    return next((f"{name} is not installed" for name, found in (("nginx", NGINX), ("openssl", shutil.which("openssl")))
                 if not found), None)


def recipe(changes):
    text = re.search(r"```nginx\n(.*?)```", DEPLOY.read_text(), re.DOTALL)[1]
    for old, new in changes.items():
        assert text.count(old) == 1, f"docs/deploy.md's recipe has not one {old!r}"
        text = text.replace(old, new)
    return text


class Nginx:
    def __init__(self, directory, upstream, before=""):
        """`upstream`: what follows `proxy_pass`; `before`: lines that stand before the site."""
        self.directory, self.port = directory, free_port()
        key, certificate = directory / "key.pem", directory / "certificate.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-days", "2", "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}",
                        "-keyout", key, "-out", certificate], check=True, capture_output=True)
        site = recipe({"listen 443 ssl;": f"listen 127.0.0.1:{self.port} ssl;", "http://127.0.0.1:8642": upstream,
                       "/etc/ssl/deltaq.pem": str(certificate), "/etc/ssl/deltaq.key": str(key)})
        places = "".join(f"{name}_temp_path {directory}/{name};\n"
                         for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (directory / "nginx.conf").write_text(
            FRAME.format(directory=directory, places=places, before=before, site=site))
        self.trust = ssl.create_default_context(cafile=certificate)
        self.process = subprocess.Popen([NGINX, "-p", directory, "-c", directory / "nginx.conf", "-e",
                                         directory / "errors"])
        while self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=60).close()
                return
            except ConnectionRefusedError:
                continue
        raise AssertionError((directory / "errors").read_text())

    def connect(self, source="127.0.0.2"):
        """A client's connection, from an address that no proxy has."""
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=90, source_address=(source, 0))
        return self.trust.wrap_socket(plain, server_hostname=NAME)

    def open(self, source="127.0.0.2"):
        """The same for requests."""
        connection = http.client.HTTPConnection(NAME, timeout=90)
        connection.sock = self.connect(source)
        return connection

    def ask(self, method, path, body=None, token=None, source="127.0.0.2", **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection = self.open(source)
        try:
            connection.request(method, path, body, {"Host": NAME, **headers})
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
