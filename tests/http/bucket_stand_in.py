"""A bucket that keeps what is put into it, checks no signature, and stalls on request: enough for artifacts, without
the packages that object_store.py needs."""

import http.server
import re
import threading
import urllib.parse


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except ConnectionError:
            pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def key(self):
        bucket = self.server.bucket
        bucket.asked.append((self.command, self.path))
        return urllib.parse.unquote(self.path.split("?")[0])

    def do_PUT(self):
        self.server.bucket.objects[self.key()] = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.answer(200, ETag='"1"')

    def do_HEAD(self):
        body = self.server.bucket.objects.get(self.key())
        self.answer(404) if body is None else self.answer(200, Content_Length=len(body), ETag='"1"')

    def do_GET(self):
        bucket = self.server.bucket
        body = bucket.objects.get(self.key())
        if body is None:
            return self.answer(404)
        if not bucket.flows.is_set():
            bucket.stalled.release()
            bucket.flows.wait()
        span = re.match(r"bytes=(\d+)-(\d+)$", self.headers.get("Range", ""))
        if not span:
            return self.answer(200, body, ETag='"1"')
        first, last = int(span[1]), min(int(span[2]), len(body) - 1)
        return self.answer(206, body[first:last + 1], ETag='"1"', Content_Range=f"bytes {first}-{last}/{len(body)}")


class Bucket:
    environment = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true",
                   "HF_ENDPOINT": "http://127.0.0.1:9"}

    def __init__(self):
        self.objects, self.asked = {}, []
        self.flows, self.stalled = threading.Event(), threading.Semaphore(0)
        self.flows.set()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads, self.server.bucket = True, self
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def wait_for_stalled(self, count):
        for _ in range(count):
            assert self.stalled.acquire(timeout=60), "the bucket was not asked"

    def close(self):
        self.flows.set()
        self.server.shutdown()
        self.server.server_close()
