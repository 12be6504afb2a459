"""A stand-in for the hub: the part of its HTTP interface that deltaq speaks,
and the ways in which the real one and the network fail.

Two servers: the hub itself, and the store of large files that it redirects to, on another address. Small files are
redirected within the hub first, large ones to a signed address at the store, as the real one does. Every request is
remembered, and so is a token that reaches the store."""

import contextlib
import hashlib
import http.server
import json
import re
import threading
import time
import urllib.parse

LARGE = 4096  # larger files are kept by their SHA-256


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def git_hash(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Rule:
    """Does `what` to the next `times` requests whose path and range match `pattern` and `ranges` (regular expressions),
    at `server` ("hub" or "store")."""

    def __init__(self, server, pattern, what, times=1, ranges="", **details):
        self.server, self.pattern, self.what, self.times, self.details = server, pattern, what, times, details
        self.ranges = ranges
        self.reached, self.released, self.dropped = threading.Event(), threading.Event(), False


class StandIn:
    def __init__(self):
        self.lock = threading.Lock()
        self.repos, self.rules, self.requests, self.blobs = {}, [], [], {}
        self.served = 0  # bytes of bodies of files
        self.page = 1000
        self.signatures = set()
        self.servers = [self.listen("127.0.0.1", "hub"), self.listen("127.0.0.2", "store")]
        self.url, self.store_url = (f"http://{s.server_address[0]}:{s.server_address[1]}" for s in self.servers)

    def listen(self, host, role):
        server = http.server.ThreadingHTTPServer((host, 0),
                                                 type("Handler", (Handler,), {"stand_in": self, "role": role}))
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return server

    def close(self):
        for rule in self.rules:
            rule.released.set()
        for server in self.servers:
            server.shutdown()
            server.server_close()

    # What is on it.
    def add(self, repo, revision, files, tag=False, token=None, gated=False):
        """`files`: path -> bytes. The commit is a hash of them. Answers the commit."""
        commit = hashlib.sha1(json.dumps({p: sha256(d) for p, d in sorted(files.items())}).encode()
                              + repo.encode()).hexdigest()
        entry = self.repos.setdefault(repo, {"branches": {}, "tags": {}, "commits": {}, "token": token, "gated": gated})
        entry["commits"][commit] = dict(files)
        entry["tags" if tag else "branches"][revision] = commit
        self.blobs.update({sha256(d): d for d in files.values()})
        return commit

    def fail(self, *arguments, **details):
        rule = Rule(*arguments, **details)
        with self.lock:
            self.rules.append(rule)
        return rule

    def clear(self):
        """Forgets rules and requests; connections that a rule holds are closed."""
        with self.lock:
            for rule in self.rules:
                rule.dropped = True
                rule.released.set()
            self.rules, self.requests, self.served = [], [], 0

    def asked(self, pattern="", server=None):
        with self.lock:
            return [r for r in self.requests if re.search(pattern, r["path"]) and server in (None, r["server"])]

    def leaked(self):
        """Requests to the store that carry a token."""
        return [r for r in self.asked(server="store") if r["token"] is not None]

    def rule_for(self, server, path, range_asked):
        with self.lock:
            for rule in self.rules:
                if (rule.server == server and rule.times > 0 and re.search(rule.pattern, path)
                    and re.search(rule.ranges, range_asked or "")):
                    rule.times -= 1
                    return rule
        return None


class Refusal(Exception):
    def __init__(self, status, code=None, message="", headers=None):
        self.status, self.headers = status, dict(headers or {})
        if code:
            self.headers.update({"X-Error-Code": code, "X-Error-Message": message})


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stand_in, role = None, ""

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        authorization = self.headers.get("Authorization")
        with self.stand_in.lock:
            self.stand_in.requests.append({"server": self.role, "path": self.path, "token": authorization,
                                           "range": self.headers.get("Range"), "agent": self.headers.get("User-Agent"),
                                           "encoding": self.headers.get("Accept-Encoding")})
        self.rule = self.stand_in.rule_for(self.role, self.path, self.headers.get("Range"))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            try:
                if self.rule and self.rule.what == "status":
                    raise Refusal(self.rule.details["status"], headers=self.rule.details.get("headers"))
                if self.rule and self.rule.what == "answer":
                    return self.answer(200, self.rule.details["body"], {"Content-Type": "application/json"})
                if self.rule and self.rule.what == "redirect":
                    return self.answer(302, b"", {"Location": self.rule.details["location"]})
                self.route()
            except Refusal as refusal:
                self.answer(refusal.status, b"refused", refusal.headers)

    def answer(self, status, body, headers):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def route(self):
        path, _, query = self.path.partition("?")
        query = dict(urllib.parse.parse_qsl(query))
        if self.role == "store":
            return self.from_store(path, query)
        found = re.fullmatch(r"/api/models/((?:[^/]+/)?[^/]+)/(revision|refs|tree)(?:/(.+))?", path)
        if found:
            return self.api(found[1], found[2], urllib.parse.unquote(found[3] or ""), query)
        found = re.fullmatch(r"/api/resolve-cache/models/((?:[^/]+/)?[^/]+)/([0-9a-f]{40})/(.+)", path)
        if found:
            commit, data = self.file(found[1], found[2], urllib.parse.unquote(found[3]))
            return self.body(data, {"ETag": f'"{git_hash(data)}"', "X-Repo-Commit": commit})
        found = re.fullmatch(r"/((?:[^/]+/)?[^/]+)/resolve/([^/]+)/(.+)", path)
        if not found:
            raise Refusal(404)
        return self.resolve(found[1], urllib.parse.unquote(found[2]), found[3])

    def repo(self, name):
        repo = self.stand_in.repos.get(name)
        given = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
        if repo is None or (repo["token"] and not repo["gated"] and given != repo["token"]):
            raise Refusal(404 if given else 401, "RepoNotFound", "Repository not found")
        if repo["gated"] and given != repo["token"]:
            raise Refusal(403 if given else 401, "GatedRepo", "Access to this model is restricted")
        return repo

    def commit(self, repo, revision):
        commit = (repo["branches"].get(revision) or repo["tags"].get(revision)
                  or (revision if revision in repo["commits"] else None))
        if commit is None:
            raise Refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit

    def file(self, name, revision, path):
        repo = self.repo(name)
        commit = self.commit(repo, revision)
        if path not in repo["commits"][commit]:
            raise Refusal(404, "EntryNotFound", "Entry not found")
        return commit, repo["commits"][commit][path]

    def api(self, name, verb, revision, query):
        repo = self.repo(name)
        if verb == "refs":
            document = {kind: [{"name": n, "ref": f"refs/{'heads' if kind == 'branches' else 'tags'}/{n}",
                                "targetCommit": c} for n, c in repo[kind].items()] for kind in ("branches", "tags")}
            return self.json({**document, "converts": [{"name": "parquet", "ref": "refs/convert/parquet",
                                                        "targetCommit": "0" * 40}]})
        commit = self.commit(repo, revision)
        files = repo["commits"][commit]
        if verb == "revision":
            return self.json({"_id": "1", "id": name, "modelId": name, "private": False, "gated": False, "sha": commit,
                              "siblings": [{"rfilename": p} for p in files], "tags": ["pytorch"]})
        entries, folders = [], set()
        for path, data in sorted(files.items()):
            parents = path.split("/")[:-1]
            folders.update("/".join(parents[: i + 1]) for i in range(len(parents)))
            entry = {"type": "file", "oid": git_hash(data), "size": len(data), "path": path}
            if len(data) > LARGE:
                pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n" % (
                    sha256(data).encode(), len(data))
                entry.update(oid=git_hash(pointer),
                             lfs={"oid": sha256(data), "size": len(data), "pointerSize": len(pointer)})
            entries.append(entry)
        entries = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": f} for f in sorted(folders)] + entries
        if query.get("recursive") != "true":
            entries = [e for e in entries if "/" not in e["path"]]
        begin = int(query.get("cursor", 0))
        headers = {}
        if begin + self.stand_in.page < len(entries):
            # the real hub names itself here, whatever endpoint was asked
            headers["Link"] = (
                f'<https://huggingface.co/api/models/{name}/tree/{commit}'
                f'?recursive={query.get("recursive")}&cursor={begin + self.stand_in.page}>; rel="next"')
        return self.json(entries[begin : begin + self.stand_in.page], headers)

    def json(self, document, headers=None):
        self.answer(200, json.dumps(document).encode(),
                    {"Content-Type": "application/json; charset=utf-8", **(headers or {})})

    def resolve(self, name, revision, escaped):
        commit, data = self.file(name, revision, urllib.parse.unquote(escaped))
        headers = {"X-Repo-Commit": commit}
        if self.rule and self.rule.what == "headers":
            headers.update(self.rule.details["headers"])
        if len(data) <= LARGE:
            return self.answer(307, b"",
                               {**headers, "Location": f"/api/resolve-cache/models/{name}/{commit}/{escaped}"})
        signature = sha256(f"{data[:64]}{time.monotonic_ns()}".encode())[:16]
        self.stand_in.signatures.add(signature)
        self.answer(302, b"", {"X-Linked-Etag": f'"{sha256(data)}"', "X-Linked-Size": str(len(data)), **headers,
                               "Location": f"{self.stand_in.store_url}/blobs/{sha256(data)}?signature={signature}"})

    def from_store(self, path, query):
        data = self.stand_in.blobs.get(path.rsplit("/", 1)[-1])
        if data is None or query.get("signature") not in self.stand_in.signatures:
            raise Refusal(403)
        self.body(data, {"ETag": f'"{sha256(data)}"'})

    def body(self, data, headers):
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
        what, details = (self.rule.what, self.rule.details) if self.rule else (None, {})
        first, last, status = 0, len(data) - 1, 200
        if asked and what != "no-ranges":
            first, last, status = int(asked[1]), min(int(asked[2]), len(data) - 1), 206
            if first >= len(data):
                raise Refusal(416)
            if what == "other-range":
                first, last = first + 1, min(last + 1, len(data) - 1)
            headers = {**headers, "Content-Range": f"bytes {first}-{last}/{len(data)}"}
        part = bytearray(data[first : last + 1])
        if what == "wrong":
            part[len(part) // 2] ^= 1
        if what == "encoded":
            headers = {**headers, "Content-Encoding": "gzip"}
        if what == "longer":
            part += b"x" * 100
        self.send_response(status)
        self.send_header("Accept-Ranges", "bytes")
        for name, value in headers.items():
            self.send_header(name, value)
        if what == "longer":
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        stop = len(part)
        if what in ("cut", "hold"):
            stop = min(details.get("after", 0), len(part))
        self.write(part[:stop])
        if what == "hold":
            self.rule.reached.set()
            self.rule.released.wait(60)
            if not self.rule.dropped:
                self.write(part[stop:])
        if what in ("cut", "longer") or (what == "hold" and self.rule.dropped):
            self.close_connection = True
            self.connection.close()

    def write(self, part):
        for at in range(0, len(part), 1 << 16):
            self.wfile.write(part[at : at + (1 << 16)])
            with self.stand_in.lock:
                self.stand_in.served += len(part[at : at + (1 << 16)])
