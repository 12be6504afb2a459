"""An identity provider: a key, its certificate where OpenID Connect has it, and tokens."""

import base64
import http.server
import json
import subprocess
import threading
import time


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        body = json.dumps(self.server.documents.get(self.path)).encode()
        self.send_response(200 if self.path in self.server.documents else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Issuer:
    def __init__(self, directory):
        self.key, certificate = directory / "key.pem", directory / "certificate.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", self.key, "-out",
                        certificate, "-days", "2", "-subj", "/CN=issuer"], check=True, capture_output=True)
        der = subprocess.run(["openssl", "x509", "-in", certificate, "-outform", "DER"], check=True,
                             capture_output=True).stdout
        printed = subprocess.run(["openssl", "x509", "-in", certificate, "-noout", "-fingerprint", "-sha1"], check=True,
                                 capture_output=True, text=True).stdout
        self.thumbprint = printed.strip().split("=")[1].replace(":", "")
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.name = f"127.0.0.1:{self.server.server_address[1]}/lab"
        self.url = f"http://{self.name}"
        key = {"kid": "1", "kty": "RSA", "alg": "RS256", "use": "sig", "x5c": [base64.b64encode(der).decode()]}
        self.server.documents = {
            "/lab/.well-known/openid-configuration": {"issuer": self.url, "jwks_uri": f"{self.url}/keys"},
            "/lab/keys": {"keys": [key]}}
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def token(self, subject, audience, seconds=600):
        head = encoded(json.dumps({"alg": "RS256", "typ": "JWT", "kid": "1"}).encode())
        now = int(time.time())
        body = encoded(json.dumps({"iss": self.url, "sub": subject, "aud": audience, "iat": now - 1000,
                                   "exp": now + seconds}).encode())
        signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.key], input=f"{head}.{body}".encode(),
                                   check=True, capture_output=True).stdout
        return f"{head}.{body}.{encoded(signature)}"

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
