#!/usr/bin/env python3
"""A small stand-in of the HTTP interface for the dashboard's tests: the answers' shapes are the server's, the numbers
are made up but behave: ΔQL grows with tokens, and more when the learning rate decays. Curvature and what lies between
checkpoints: stand_in_geometry.py. Standard library only.

    stand_in.py [PORT]      serves the demonstration's trajectories, for looking at the dashboard without an engine"""

import hashlib
import http.server
import json
import math
import pathlib
import sys
import threading
import time
import urllib.parse

import stand_in_gates
import stand_in_geometry
import stand_in_metrics
import stand_in_service

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLOTLY = ROOT / "build" / "static" / "plotly.js"
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
POLICY = ("default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; base-uri 'none'; "
          "form-action 'self'; frame-ancestors 'none'")
STEP = 2048
HALF = 500_000
GONE = stand_in_service.GONE
HOSTILE = '<img src=x onerror="window.hurt=1">&lt;b&gt;'


def stamp(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_795_000_000 + seconds))


class World:
    """What is stored. The tests change it while the dashboard looks on."""

    def __init__(self):
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.trajectories, self.checkpoints, self.runs, self.points = [], [], [], []
        self.token = None
        self.integrities = {}
        self.protocols = {}  # run -> protocol_id, of those that are not on the usual evaluation
        self.datasets = {}  # run -> dataset, of those that are not measured on the usual one
        self.artifacts = {}  # run -> {name: bytes}
        self.worst_tokens = {}  # run -> {decode: document, or what problem() takes}
        self.healths, self.posted, self.sweeps, self.workers = set(), [], [], []
        self.changes, self.gates, self.verdicts = {}, [], {}  # of gates: stand_in_gates.py
        self.most_pairs = 5000  # of two metrics, in one answer
        self.requests, self.missing = [], set()  # `missing`: files that are not served

    def add_trajectory(self, name, rates, first=1):
        with self.lock:
            number = len(self.trajectories)
            self.trajectories.append({"id": f"t{number}", "name": name, "watch": None, "watch_state": None,
                                      "notes": None, "archived": False, "created_at": stamp(100 * number)})
            for index, rate in enumerate(rates, first):
                self.add_checkpoint(name, index, rate)

    def add_checkpoint(self, trajectory, index, rate):
        tokens = index * HALF
        number = len(self.checkpoints)
        checkpoint = {"id": f"c{number}", "name": f"step-{tokens // STEP}", "trajectory": trajectory,
                      "step": tokens // STEP, "tokens": tokens, "learning_rate": rate,
                      "source": {"path": f"runs/{number}"}, "architecture": "llama", "parameters": 1_442_432,
                      "dtype": "F32", "bytes": 5_769_728, "sha256": f"{number:064x}", "derived_from": None, "tags": {},
                      "created_at": stamp(1000 + number)}
        self.checkpoints.append(checkpoint)
        return checkpoint

    def measure(self, checkpoint, bits, delta, loss, spread=0.12):
        run = self.add_run("quantize", {"checkpoint": checkpoint["id"],
                                        "method": {"name": "gptq", "bits": bits, "group_size": 128, "sym": True,
                                                   "desc_act": False, "act_group_aware": True, "damp_percent": 0.05},
                                        "calibration": {"dataset": "perl-manual", "sequence_length": 128,
                                                        "packing": "blocks", "max_sequences": 64},
                                        "evaluation": {"dataset": "perl-manual-validation", "sequence_length": 128,
                                                       "packing": "blocks", "max_sequences": 192},
                                        "export": None, "precision": "f32", "seed": 0}, "succeeded")
        parts = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
                 "mlp.up_proj", "mlp.down_proj")
        layers = [{"name": f"model.layers.{block}.{part}", "rows": 384 if "mlp" in part else 128,
                   "columns": 128, "damp": 0.05, "dead_columns": 0,
                   "proxy_error": 3.1e-4 * (1 + block) * (1 + place) / bits,
                   "relative_error": (0.4 ** bits * (1 + 0.2 * block) * (1.2 + math.sin(3 * place + block))
                                      * (1 + delta * (1 + block)))}
                  for block in range(6) for place, part in enumerate(parts)]
        low, high = delta * (1 - spread) - 2e-4, delta * (1 + spread) + 2e-4
        run["result"] = {"loss_fp": loss, "loss_q": loss * (1 + delta), "delta": delta, "delta_interval": [low, high],
                         "kl": 0.6 * delta, "top1_agreement": 1 - 2.2 * delta, "bits_per_weight": bits + 0.15,
                         "sequences": 192, "tokens": 24576, "calibration_sequences": 64, "calibration_tokens": 8192,
                         "layers": layers, "artifact": None}
        label = f"gptq {bits}-bit g128"
        for metric in ("delta", "loss_q", "kl", "top1_agreement", "bits_per_weight"):
            bounds = (low, high) if metric == "delta" else (None, None)
            self.points.append((metric, checkpoint, "gptq", bits, label, run["result"][metric], *bounds, run["id"]))
        if not any(point[0] == "loss_fp" and point[1] is checkpoint for point in self.points):
            self.points.append(("loss_fp", checkpoint, None, None, "", loss, None, None, run["id"]))
        return run

    def add_run(self, kind, params, state, **more):
        with self.lock:
            number = len(self.runs)
            started = None if state == "queued" else stamp(5000 + 10 * number)
            finished = stamp(5007 + 10 * number) if state in ("succeeded", "failed", "cancelled") else None
            run = {"id": f"r{number}", "kind": kind, "state": state, "params": params, "result": None,
                   "error": None, "progress": {"done": 0, "total": 0, "unit": "block", "eta_seconds": None},
                   "attempt": 0, "worker": "worker-1" if started else None, "device": "cpu" if started else None,
                   "created_at": stamp(4990 + 10 * number), "started_at": started, "finished_at": finished,
                   "usage": {"seconds": 7.25 if finished else None, "peak_host_bytes": 88_000_000 if finished else None,
                             "peak_device_bytes": None}, "sweep": None, "cancel_requested": False, **more}
            self.runs.append(run)
            run_events = [("state", {"from": None, "to": "queued"})]
            if started:
                run_events += [("state", {"from": "queued", "to": "running"}),
                               ("log", {"line": "model opened: 6 blocks"}), ("log", {"line": f"note: {HOSTILE}"})]
            if finished:
                run_events.append(("state", {"from": "running", "to": state}))
            run["_events"] = run_events
            self.changed.notify_all()
            return run

    def advance(self, run, done=None, total=None, eta=None, state=None, line=None):
        with self.lock:
            if done is not None:
                run["progress"] = {"done": done, "total": total or run["progress"]["total"],
                                   "unit": run["progress"]["unit"], "eta_seconds": eta}
            if line:
                run["_events"].append(("log", {"line": line}))
            if state:
                run["_events"].append(("state", {"from": run["state"], "to": state}))
                run["state"] = state
            self.changed.notify_all()

    def spoil(self, trajectory, flags, **findings):
        """Says that the weights of a trajectory were read, which checkpoints have which flags
        ({index: [flags]}), and what was found."""
        self.integrities[trajectory] = (flags, findings)

    def references(self, trajectory):
        own = sorted((item for item in self.checkpoints if item["trajectory"] == trajectory),
                     key=lambda item: item["step"])
        return [{"checkpoint": item["id"], "name": item["name"], "step": item["step"]} for item in own]

    def flags_of(self, checkpoint):
        flags, _ = self.integrities.get(checkpoint["trajectory"], ({}, {}))
        place = [one["checkpoint"] for one in self.references(checkpoint["trajectory"])].index(checkpoint["id"])
        return flags.get(place, [])

    def integrity_document(self, trajectory, checkpoint=None):
        if not any(item["name"] == trajectory for item in self.trajectories):
            return None
        known = trajectory in self.integrities
        flags, findings = self.integrities.get(trajectory, ({}, {}))
        own = self.references(trajectory)
        points = [{**one, "tokens": None, "sha256": one["checkpoint"].ljust(64, "0") if known else None,
                   "flags": flags.get(place, []), "identical_to": None, "previous": None, "relative_l2": None,
                   "cosine": None, "not_finite": 0 if known or one["checkpoint"] in self.healths else None}
                  for place, one in enumerate(own)]
        if checkpoint:
            place = [one["checkpoint"] for one in points].index(checkpoint)
            points = points[max(0, place - 1):place + 2]
        return {"trajectory": trajectory, "checkpoints": len(own), "measured": len(own) if known else 0,
                "marked": sum(1 for place in flags if flags[place]),
                "clean": False if flags else True if known else None, "constant_matrices": 0, "points": points,
                "identical": [], "mixed": [], "jumps": [], "not_finite": [], "gaps": [], **findings}

    def trajectory_document(self, trajectory):
        own = [item for item in self.checkpoints if item["trajectory"] == trajectory["name"]]
        runs = [run for run in self.runs if self.belongs(run, trajectory["name"])]
        states = {state: sum(run["state"] == state for run in runs)
                  for state in ("queued", "running", "succeeded", "failed", "cancelled")}
        steps, tokens = [item["step"] for item in own], [item["tokens"] for item in own]
        return {**trajectory, "checkpoints": len(own), "first_step": min(steps, default=None),
                "last_step": max(steps, default=None), "last_tokens": max(tokens, default=None), "runs": states,
                "newest": {field: own[-1][field] for field in ("id", "name", "architecture", "parameters")} if own
                else None}

    def belongs(self, run, name):
        if run["params"].get("trajectory") == name:
            return True
        return any(item["id"] == run["params"].get("checkpoint") and item["trajectory"] == name
                   for item in self.checkpoints)

    @staticmethod
    def thinned(points, most, checkpoint=None):
        """The first and the last point, and of each part of the curve the lowest and the highest, as the server's; and
        that of the checkpoint."""
        if not most or len(points) <= most:
            return points
        parts, kept = max(1, (most - 2) // 2), {0, len(points) - 1}
        for part in range(parts):
            places = range(-(-part * len(points) // parts), -(-(part + 1) * len(points) // parts))
            if places:
                kept |= {place for place in places if points[place]["checkpoint"] == checkpoint}
                kept |= {min(places, key=lambda at: points[at]["y"]), max(places, key=lambda at: points[at]["y"])}
        return [points[place] for place in sorted(kept)]

    def evaluated_on(self, dataset, run):
        result = next((one["result"] for one in self.runs if one["id"] == run), None) or {}
        if dataset is None or not {"sequences", "tokens"} <= result.keys():
            return dataset
        return f"{dataset}: {result['sequences']} sequences, {result['tokens']} tokens"

    @staticmethod
    def measured_on(entry, series):
        """What the server's label goes on with where series of an answer differ in nothing but their evaluation."""
        alike = [one for one in series if one["method_label"] == entry["method_label"]]
        own = [one for one in alike if one["dataset"] == entry["dataset"]]
        evaluations = len({one["protocol_id"] for one in own}) > 1
        if not evaluations and len({one["dataset"] for one in alike}) < 2:
            return ""
        words = entry["evaluated_on"] if evaluations else entry["dataset"]
        return f"{'' if entry['method_label'] else 'full precision'}, on {words}"

    def curves(self, names, metric, axis, most=0, kept=None):
        points = list(self.points)
        if metric == "learning_rate":
            points = [("learning_rate", item, None, None, "", item["learning_rate"], None, None, None)
                      for item in self.checkpoints]
        series = {}
        for which, checkpoint, method, bits, label, value, low, high, run in points:
            if which != metric or checkpoint["trajectory"] not in names or checkpoint[axis] is None:
                continue
            dataset = None if metric == "learning_rate" else self.datasets.get(run, "perl-manual-validation")
            protocol = self.protocols.get(run)
            key = (names.index(checkpoint["trajectory"]), -(bits or 0), label, protocol or "", dataset or "")
            if key not in series:
                series[key] = {"trajectory": checkpoint["trajectory"], "label": label, "method_label": label,
                               "method": method, "bits": bits, "dataset": dataset, "protocol_id": protocol,
                               "evaluated_on": self.evaluated_on(dataset, run), "points": []}
            series[key]["points"].append({"x": checkpoint[axis], "y": value, "low": low, "high": high,
                                    "checkpoint": checkpoint["id"], "checkpoint_name": checkpoint["name"],
                                    "step": checkpoint["step"], "run": run,
                                    "flags": self.flags_of(checkpoint)})
        for entry in series.values():
            entry["label"] += self.measured_on(entry, series.values())
            entry["points"].sort(key=lambda point: point["x"])
            entry["total"] = len(entry["points"])
            own = [point["y"] for point in entry["points"] if point["checkpoint"] == kept]
            entry["rank"] = 1 + sum(point["y"] > own[0] for point in entry["points"]) if own else None
            entry["points"] = self.thinned(entry["points"], most, kept)
        return {"metric": metric, "x": axis, "series": [series[key] for key in sorted(series)]}

    def changepoints(self, name, metric, axis):
        """The changes that `changes` holds, {(trajectory, metric, label): (kind, place, low, high, size)};
        8 points or more are tested."""
        def place(points, index):
            return {"x": points[index]["x"], "checkpoint": points[index]["checkpoint"],
                    "checkpoint_name": points[index]["checkpoint_name"]}

        curves = self.curves([name], metric, axis)
        found = {**curves, "series": [dict(entry) for entry in curves["series"]]}
        for entry in found["series"]:
            points, change = entry.pop("points"), self.changes.get((name, metric, entry["method_label"]))
            tested = len(points) >= 8
            p = (0.002 if change else 0.4) if tested else None
            entry.update({"points": len(points), "p_value": p, "adjusted_p_value": p and min(1, 2 * p), "change": None})
            if change:
                kind, at, low, high, size = change
                entry["change"] = {"kind": kind, "after": place(points, at), "before": place(points, at + 1),
                                   "interval": [points[low]["x"], points[high]["x"]], "size": size}
        return found


def demonstration():
    """A run of constant learning rate with 8 checkpoints and two decays that branch from it."""
    world = World()
    peak = 4e-3
    world.add_trajectory("constant", [peak] * 8)
    world.add_trajectory("decay-1M", [peak / 2, 4e-5], first=3)
    world.add_trajectory("decay-3M", [peak / 2, 4e-5], first=7)
    for checkpoint in list(world.checkpoints):
        tokens, decayed = checkpoint["tokens"] / 1e6, 1 - checkpoint["learning_rate"] / peak
        loss = 2.35 + 3.1 * math.exp(-tokens / 1.1) - 0.16 * decayed
        for bits, scale in ((4, 0.0041), (3, 0.031)):
            world.measure(checkpoint, bits, scale * (1 + 0.16 * tokens) * (1 + 0.9 * decayed), loss)
    return world


def busy(world):
    """Adds runs in progress, a queue and a failure."""
    running = world.add_run("train", {"trajectory": "constant", "dataset": "perl-manual", "tokens": 8_000_000,
                                      "schedule": {"name": "constant", "peak": 4e-3}}, "running")
    running["progress"] = {"done": 2210, "total": 3906, "unit": "step", "eta_seconds": 212.0}
    quantizing = world.add_run("quantize", {"checkpoint": "c7",
                                            "method": {"name": "gptq", "bits": 2, "group_size": 128}}, "running")
    quantizing["progress"] = {"done": 2, "total": 6, "unit": "block", "eta_seconds": 9.4}
    for checkpoint in ("c5", "c6"):
        world.add_run("quantize", {"checkpoint": checkpoint, "method": {"name": "gptq", "bits": 2, "group_size": 128}},
                      "queued")
    failed = world.add_run("quantize",
                           {"checkpoint": "c3", "method": {"name": "gptq", "bits": 3, "group_size": 96}}, "failed")
    failed["error"] = {
        "type": "/problems/invalid", "title": "Invalid", "status": 422, "code": "invalid",
        "detail": "model.layers.0.mlp.down_proj has 384 columns, not a multiple of group_size 100; use 96 or 128",
        "errors": [{"pointer": "/params/method/group_size", "detail": "must divide the columns of every layer"}]}
    return running, quantizing, failed


class Handler(stand_in_service.Service, stand_in_gates.Gates, http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    @property
    def world(self):
        return self.server.world

    def answer(self, status, body, content_type="application/json", more=()):
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
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

    @staticmethod
    def visible(run):
        return {name: value for name, value in run.items() if not name.startswith("_")}

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
                  and (not checkpoint or run["params"].get("checkpoint") in checkpoint)]
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
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

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
