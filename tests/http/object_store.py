"""An S3 server that others wrote (moto's), behind a proxy that does to requests what networks and servers do."""

import base64
import contextlib
import hashlib
import http.client
import http.server
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = pathlib.Path(os.environ.get("DELTAQ_OBJECTS", ROOT / "build" / "objects"))
# moto's own account: it verifies nothing, and takes who is unknown for nobody.
ACCOUNT = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
ABSENT = "build/objects is not there: make objects"


def refusal(status, code, message="no", region=None, **headers):
    """What S3 answers when it refuses."""
    where = f"<Region>{region}</Region>" if region else ""
    body = (f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{message}</Message>{where}'
            "<RequestId>1</RequestId></Error>")
    return {"status": status, "body": body.encode(), "headers": {"Content-Type": "application/xml", **headers}}


class Rule:
    """Does something to the next `times` requests whose method and target (unescaped) match."""

    def __init__(self, method, pattern, times=1, *, answer=None, cut=None, slow=None, flip=None, headers=None,
                 then=None, skip=0, more=""):
        self.method, self.pattern, self.times, self.skip = method, pattern, times, skip
        self.answer = answer  # this instead of what the server says
        self.cut = cut  # the connection ends after so many bytes of the body
        self.slow = slow  # seconds between two halves of the body
        self.flip = flip  # the byte at this place of the body is another one
        self.headers = headers or {}  # others than the server's
        self.more = more  # behind the query, for the server alone
        self.then = then  # called before the request goes on

    def fits(self, method, target):
        if self.times <= 0 or not re.search(self.method, method) or not re.search(self.pattern, target):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.times -= 1
        return True


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle_one_request(self):
        with contextlib.suppress(ConnectionError):
            super().handle_one_request()

    def forward(self):
        store = self.server.store
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        for_role = self.command == "POST" and self.path == "/"  # STS, at the same address
        noted = {"method": self.command, "target": self.path, "headers": list(self.headers.items()), "bytes": len(body)}
        if for_role:
            noted |= {"service": "sts", "body": body.decode()}
        with store.lock:
            (store.roles if for_role else store.requests).append(noted)
            rule = next((r for r in store.rules if r.fits(self.command, urllib.parse.unquote(self.path))), Rule("", ""))
        if rule.then:
            rule.then()
        if rule.answer:
            return self.send(rule.answer["status"], rule.answer["headers"], rule.answer["body"], rule)
        upstream = http.client.HTTPConnection("127.0.0.1", store.upstream, timeout=60)
        kept = {n: v for n, v in self.headers.items() if n.lower() not in ("authorization", "expect")}
        if not for_role:
            kept["Authorization"] = ACCOUNT
        elif "Authorization" in self.headers:
            kept["Authorization"] = self.headers["Authorization"]
        upstream.request(self.command, self.path + rule.more, body, kept)
        answer = upstream.getresponse()
        data = answer.read()
        noted["answer"] = data.decode() if for_role else None
        dropped = ("connection", "transfer-encoding", "date", "server", *(n.lower() for n in rule.headers))
        headers = [(n, v) for n, v in answer.getheaders() if n.lower() not in dropped]
        length = [v for n, v in headers if n.lower() == "content-length"]
        headers = {n: v for n, v in headers if n.lower() != "content-length"}
        upstream.close()
        self.send(answer.status, {**headers, **rule.headers}, data, rule,
                  length[0] if length and self.command == "HEAD" else None)

    def send(self, status, headers, body, rule, length=None):
        if rule.flip is not None and rule.flip < len(body):
            body = body[:rule.flip] + bytes([body[rule.flip] ^ 1]) + body[rule.flip + 1:]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if rule.slow:
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            time.sleep(rule.slow)
            self.wfile.write(body[len(body) // 2 :])
        else:
            self.wfile.write(body if rule.cut is None else body[: rule.cut])
        with self.server.store.lock:
            self.server.store.served += len(body) if rule.cut is None else min(rule.cut, len(body))
        if rule.cut is not None:
            self.wfile.flush()
            self.close_connection = True

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward


class ObjectStore:
    def __init__(self, address="127.0.0.1"):
        """`address`: of this host, at which others reach the proxy."""
        self.process = subprocess.Popen([PACKAGES / "bin" / "moto_server", "-H", "127.0.0.1", "-p", "0"],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        env={**os.environ, "PYTHONUNBUFFERED": "1"})
        for line in self.process.stdout:
            found = re.search(r"Running on http://127\.0\.0\.1:(\d+)", line)
            if found:
                break
        self.upstream = int(found[1])
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        self.lock, self.rules, self.requests, self.roles, self.served = threading.Lock(), [], [], [], 0
        self.proxy = http.server.ThreadingHTTPServer((address, 0), Handler)
        self.proxy.daemon_threads, self.proxy.store = True, self
        threading.Thread(target=self.proxy.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://{address}:{self.proxy.server_address[1]}"

    def close(self):
        self.proxy.shutdown()
        self.proxy.server_close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def direct(self, method, target, body=None, headers=None):
        """Past the proxy."""
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream, timeout=300)
        sent = {"Authorization": ACCOUNT, **(headers or {})}
        connection.request(method, target, body, sent)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        assert answer.status < 400, (method, target, answer.status, data)
        return dict(answer.getheaders()), data

    def bucket(self, name):
        self.direct("PUT", f"/{name}")

    def put(self, bucket, key, data, **headers):
        answer, _ = self.direct("PUT", f"/{bucket}/{urllib.parse.quote(key, safe='/~')}", data, headers)
        return answer["ETag"].strip('"')

    def put_summed(self, bucket, key, data):
        """With a SHA-256 that the server keeps."""
        digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
        return self.put(bucket, key, data,
                        **{"x-amz-checksum-sha256": digest, "x-amz-sdk-checksum-algorithm": "SHA256"})

    def put_files(self, bucket, prefix, files):
        for name, data in files.items():
            self.put(bucket, f"{prefix}/{name}", data)

    def rule(self, *arguments, **details):
        rule = Rule(*arguments, **details)
        with self.lock:
            self.rules.append(rule)
        return rule

    def clear(self):
        with self.lock:
            self.rules, self.requests, self.roles, self.served = [], [], [], 0

    def asked(self, method="", pattern=""):
        with self.lock:
            return [r for r in self.requests if re.search(method, r["method"])
                    and re.search(pattern, urllib.parse.unquote(r["target"]))]


def wrong_signatures(credentials, requests):
    """Those that botocore signs otherwise, as lines."""
    done = subprocess.run([PACKAGES / "bin" / "python", ROOT / "tests" / "objects" / "signatures.py"],
                          input=json.dumps({"credentials": credentials, "requests": requests}), capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
