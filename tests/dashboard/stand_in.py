#!/usr/bin/env python3
"""A small stand-in of the HTTP interface for the dashboard's tests: the answers' shapes are the server's, the numbers
are made up but behave: ΔQL grows with tokens, and more when the learning rate decays. Curvature and what lies between
checkpoints: stand_in_geometry.py; what there is: stand_in_world.py. Standard library only.

    stand_in.py [PORT]      serves the demonstration's trajectories, for looking at the dashboard without an engine"""

import hashlib
import http.server
import json
import pathlib
import sys
import threading
import urllib.parse

import stand_in_gates
import stand_in_geometry
import stand_in_metrics
import stand_in_service
from stand_in_world import HALF, HOSTILE, STEP, World, busy, demonstration, stamp  # noqa: F401

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLOTLY = ROOT / "build" / "static" / "plotly.js"
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
POLICY = ("default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; base-uri 'none'; "
          "form-action 'self'; frame-ancestors 'none'")
GONE = stand_in_service.GONE


class Handler(stand_in_service.Service, stand_in_gates.Gates, http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    @property
    def world(self):
        return self.server.world

    def answer(self, status, body, content_type="application/json", more=()):
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        if isinstance(body, dict) and (self.command, status) == ("GET", 200):
            self.server.documents.append((self.path, payload))
        self.send_response(status)
        for name, value in (("Content-Type", content_type), ("Content-Length", len(payload)),
                            ("Content-Security-Policy", POLICY), ("X-Content-Type-Options", "nosniff"),
                            ("Cache-Control", "no-cache"), *more):
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(payload)

    def problem(self, status, title, detail, pointer=None):
        errors = {"errors": [{"pointer": pointer, "detail": detail}]} if pointer else {}
        self.answer(status, {"type": "about:blank", "title": title, "status": status, "detail": detail,
                             "instance": self.path, **errors}, "application/problem+json")

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        if url.path.startswith("/v1/"):
            return self.resource("GET", url)
        if url.path == "/metrics":
            return self.answer(200, self.prometheus().encode(), "text/plain; version=0.0.4")
        path = "index.html" if url.path == "/" else url.path.lstrip("/")
        places = [ROOT] if path == "openapi.yaml" else [ROOT / "static", ROOT / "build" / "static"]
        for directory in places if path not in self.world.missing else ():
            file = (directory / path).resolve()
            if file.is_file() and file.parent == directory.resolve():
                return self.answer(200, file.read_bytes(), TYPES.get(file.suffix, "text/plain"))
        return self.problem(404, "Not found", "no such file")

    def changing(self, method):
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.body = json.loads(sent) if sent else None
        self.resource(method, urllib.parse.urlsplit(self.path))

    def do_POST(self):
        self.changing("POST")

    def do_PATCH(self):
        self.changing("PATCH")

    def do_DELETE(self):
        self.changing("DELETE")

    def resource(self, method, url):
        world, fields = self.world, urllib.parse.parse_qs(url.query)
        parts = [urllib.parse.unquote(part) for part in url.path.split("/")[2:]]
        with world.lock:
            world.requests.append((method, self.path))
        if world.token and self.headers.get("Authorization") != f"Bearer {world.token}":
            return self.problem(401, "Unauthorized", "a bearer token is needed")
        if method == "GET" and len(parts) == 3 and parts[0] == "runs" and parts[2] == "events":
            return self.events(parts[1])
        if method == "GET" and parts == ["events"]:
            return self.changes()
        wanted, tag = self.headers.get("If-Match"), None
        with world.lock:
            if wanted or (method == "GET" and len(parts) == 2 and parts[0] in ("trajectories", "runs")):
                tag = self.tag(getattr(self, f"get_{parts[0]}")(parts[1:], {}))
            if wanted and wanted != tag:
                return self.problem(412, "Changed meanwhile", "it is not what If-Match names any more")
            found = getattr(self, f"{method.lower()}_{parts[0]}", lambda *_: None)(parts[1:], fields)
        if found is None:
            return self.problem(404, "Not found", f'no {parts[0].rstrip("s")} "{parts[1] if len(parts) > 1 else ""}"')
        if found is GONE:
            return self.answer(204, b"")
        if isinstance(found, tuple):
            return self.problem(*found)
        if isinstance(found, bytes):
            return self.answer(200, found, "text/csv; charset=utf-8")
        return self.answer(200, found, more=[("ETag", tag)] if tag and method == "GET" else ())

    @staticmethod
    def tag(document):
        return f'"{hashlib.sha256(json.dumps(document).encode()).hexdigest()[:32]}"'

    @staticmethod
    def listing(items, fields):
        limit = int(fields.get("limit", ["100"])[0])
        start = int(fields.get("cursor", ["0"])[0])
        items = items[::-1]
        rest = {name: value for name, value in fields.items() if name != "cursor"}
        path = None
        if start + limit < len(items):
            path = "?" + urllib.parse.urlencode({**rest, "cursor": start + limit}, doseq=True)
        return items[start:start + limit], path

    def page(self, name, items, fields):
        shown, following = self.listing(items, fields)
        if "fields" in fields:
            shown = [{field: item[field] for field in fields["fields"][0].split(",")} for item in shown]
        elif fields.get("view") == ["summary"]:
            shown = [self.summary(item) for item in shown]
        return {"items": shown, "next": f"/v1/{name}{following}" if following else None}

    @staticmethod
    def summary(item):
        """Of a run's result what is no list and no object, and intervals: lists of two numbers."""
        if not item.get("result"):
            return item
        short = {name: value for name, value in item["result"].items()
                 if not isinstance(value, (list, dict)) or isinstance(value, list) and len(value) == 2
                 and isinstance(value[0], (int, float))}
        return {**item, "result": short}

    def get_trajectories(self, parts, fields):
        documents = [self.world.trajectory_document(item) for item in self.world.trajectories]
        if not parts:
            archived = fields.get("archived") == ["true"]
            return self.page("trajectories", [item for item in documents if item["archived"] == archived], fields)
        if parts[1:] == ["integrity"]:
            name = next((item["name"] for item in self.world.trajectories if item["id"] == parts[0]), parts[0])
            return self.world.integrity_document(name, *fields.get("checkpoint", []))
        if parts[1:] == ["changepoints"]:
            known = any(item["name"] == parts[0] for item in self.world.trajectories)
            return self.world.changepoints(parts[0], fields["metric"][0], fields["x"][0]) if known else None
        return next((item for item in documents if parts[0] in (item["name"], item["id"])), None)

    def patch_trajectories(self, parts, fields):
        world, body = self.world, self.body
        found = next((item for item in world.trajectories if parts[0] in (item["name"], item["id"])), None)
        if found is None:
            return None
        name = body.get("name", found["name"])
        if name != found["name"] and any(item["name"] == name for item in world.trajectories):
            return 409, "Conflict", f'there is a trajectory "{name}"', "/name"
        for checkpoint in world.checkpoints:
            if checkpoint["trajectory"] == found["name"]:
                checkpoint["trajectory"] = name
        found.update(body)
        return world.trajectory_document(found)

    def delete_trajectories(self, parts, fields):
        world = self.world
        found = next((item for item in world.trajectories if parts[0] in (item["name"], item["id"])), None)
        if found is None:
            return None
        name = found["name"]
        if any(run["state"] in ("queued", "running") and world.belongs(run, name) for run in world.runs):
            return 409, "Conflict", "a run that has not ended needs it"
        world.trajectories.remove(found)
        world.points = [point for point in world.points if point[1]["trajectory"] != name]
        world.checkpoints = [item for item in world.checkpoints if item["trajectory"] != name]
        return GONE

    def get_checkpoints(self, parts, fields):
        if len(parts) == 2:
            return self.checkpoint_part(*parts)
        if parts:
            return next((item for item in self.world.checkpoints if item["id"] == parts[0]), None)
        names = fields.get("trajectory")
        return self.page("checkpoints",
                         [item for item in self.world.checkpoints if not names or item["trajectory"] in names], fields)

    def get_metrics(self, parts, fields):
        return None if parts else stand_in_metrics.document()

    def visible(self, run):
        told = {name: value for name, value in run.items() if not name.startswith("_")}
        return {"names": self.world.names_in([run["params"], run["result"]]), **told}

    def get_runs(self, parts, fields):
        if len(parts) > 1 and parts[1] == "artifacts":
            return self.artifact(*parts[2:], files=self.world.artifacts.get(parts[0], {}))
        if len(parts) == 2 and parts[1] == "worst-tokens":
            return self.world.worst_tokens.get(parts[0], {}).get(fields.get("decode", ["tokenizer"])[0])
        if parts:
            return next((self.visible(run) for run in self.world.runs if run["id"] == parts[0]), None)
        state, kind, names, checkpoint = (fields.get(name) for name in ("state", "kind", "trajectory", "checkpoint"))
        chosen = [self.visible(run) for run in self.world.runs if (not state or run["state"] in state)
                  and (not kind or run["kind"] in kind) and (not names or self.world.belongs(run, names[0]))
                  and (not checkpoint or run["params"].get("checkpoint") in self.world.alike(checkpoint[0]))]
        if isinstance(chosen := self.narrowed(chosen, fields), tuple):
            return chosen
        by = fields.get("sort", ["-created"])[0]
        if by.endswith("finished"):
            chosen = [run for run in chosen if run["finished_at"]]
        # page() turns the order round.
        chosen.sort(key=lambda run: run[f"{by.lstrip('-')}_at"], reverse=not by.startswith("-"))
        return self.page("runs", chosen, fields)

    def post_runs(self, parts, fields):
        if not parts:
            return self.create_run()
        run = next((run for run in self.world.runs if run["id"] == parts[0]), None)
        if run is None or len(parts) != 2:
            return None
        allowed = {"cancel": ("queued", "running"), "retry": ("failed", "cancelled")}[parts[1]]
        if run["state"] not in allowed:
            return 409, "Conflict", f"the run is {run['state']}"
        self.world.advance(run, state="cancelled" if parts[1] == "cancel" else "queued")
        if parts[1] == "retry":
            run["error"] = None
        return self.visible(run)

    def get_correlations(self, parts, fields):
        found = stand_in_geometry.correlations(self.world, fields.get("trajectory"), fields["x"][0], fields["y"][0])
        if len(found["points"]) > self.world.most_pairs:
            return 422, "Invalid", f"more than {self.world.most_pairs} pairs: name trajectories, method or bits"
        return found

    def get_curves(self, parts, fields):
        if parts == ["metrics"]:
            return {"metrics": sorted({point[0] for point in self.world.points})}
        names = fields.get("trajectory", [])
        if any(not any(item["name"] == name for item in self.world.trajectories) for name in names):
            return None
        found = self.world.curves(names, fields.get("metric", ["delta"])[0], fields.get("x", ["tokens"])[0],
                                  int(fields.get("points", ["0"])[0]), *fields.get("checkpoint", []))
        if self.headers.get("Accept") != "text/csv":
            return found
        lines = ["trajectory,label,method,bits,dataset,x,y,low,high,checkpoint,run"]
        for entry in found["series"]:
            for point in entry["points"]:
                lines.append(",".join(str(value) for value in (
                    entry["trajectory"], entry["label"], entry["method"], entry["bits"], entry["dataset"],
                    point["x"], point["y"], point["low"], point["high"], point["checkpoint"], point["run"])))
        return "\r\n".join([*lines, ""]).encode()

    def get_measurements(self, parts, fields):
        """Rows of what has the metric, whatever place on an axis it lacks."""
        rows = [{"checkpoint": checkpoint["id"]} for metric, checkpoint, *_ in self.world.points
                if metric in fields["metric"] and checkpoint["trajectory"] in fields["trajectory"]]
        return self.page("measurements", rows, fields)

    def changes(self):
        """The change log's stream, of runs: where it stands, then an event whenever one is in another state."""
        world, number = self.world, 1
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        with world.lock:
            known, out = {run["id"]: run["state"] for run in world.runs}, "id: 1\n\n"
        while not self.server.stopping:
            try:
                self.wfile.write(out.encode())
                self.wfile.flush()
            except OSError:
                return
            out = ""
            with world.lock:
                world.changed.wait(1.0)
                for run in world.runs:
                    if known.get(run["id"]) != run["state"]:
                        number, data = number + 1, {"run": run["id"], "to": run["state"]}
                        out += f"id: {number}\nevent: run\ndata: {json.dumps(data)}\n\n"
                known = {run["id"]: run["state"] for run in world.runs}

    def events(self, identity):
        world = self.world
        run = next((run for run in world.runs if run["id"] == identity), None)
        if run is None:
            return self.problem(404, "Not found", "no such run")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        sent, progress = int(self.headers.get("Last-Event-ID") or 0), None
        while not self.server.stopping:
            with world.lock:
                out = []
                if run["progress"] != progress:
                    progress = dict(run["progress"])
                    out.append(f"event: progress\ndata: {json.dumps(progress)}\n\n")
                for number, (kind, data) in enumerate(run["_events"][sent:], sent + 1):
                    out.append(f"id: {number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n")
                sent = len(run["_events"])
                final = run["state"] in ("succeeded", "failed", "cancelled")
                if not out and not final:
                    world.changed.wait(1.0)
                    continue
            try:
                self.wfile.write("".join(out).encode())
                self.wfile.flush()
            except OSError:
                return None
            if final:
                return None
        return None


class StandIn(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, world, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.world, self.stopping = world, False
        self.documents = []  # that were got: (path, JSON)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # a browser that hung up

    def close(self):
        self.stopping = True
        with self.world.lock:
            self.world.changed.notify_all()
        self.shutdown()
        self.server_close()


if __name__ == "__main__":
    WORLD = demonstration()
    busy(WORLD)
    stand_in_geometry.geometry(WORLD)
    stand_in_service.service(WORLD)
    stand_in_gates.gates(WORLD)
    print(StandIn(WORLD, int(sys.argv[1]) if len(sys.argv) > 1 else 8643).url, flush=True)
    threading.Event().wait()
