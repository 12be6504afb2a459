"""What the dashboard's stand-in (stand_in.py) has: trajectories, their checkpoints, curves and runs, with numbers that
are made up but behave. Standard library only."""

import math
import threading
import time

import stand_in_gates

STEP = 2048
HALF = 500_000
HOSTILE = '<img src=x onerror="window.hurt=1">&lt;b&gt;'


def stamp(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_795_000_000 + seconds))


def strings_in(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings_in(inner)


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

    def names_in(self, value):
        """{id: name} of the checkpoints and trajectories in a part of a run."""
        told = set(strings_in(value))
        return {**{one["id"]: f'{one["trajectory"]}/{one["name"]}' for one in self.checkpoints if one["id"] in told},
                **{one["id"]: one["name"] for one in self.trajectories if one["id"] in told}}

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
                     key=lambda item: item["step"] or 0)
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
        steps, tokens = ([item[field] for item in own if item[field] is not None] for field in ("step", "tokens"))
        return {**trajectory, "checkpoints": len(own), "first_step": min(steps, default=None),
                "last_step": max(steps, default=None), "last_tokens": max(tokens, default=None), "runs": states,
                "newest": {field: own[-1][field] for field in ("id", "name", "architecture", "parameters")} if own
                else None}

    def alike(self, checkpoint):
        """Ids of the checkpoints with its content."""
        own = {item["sha256"] for item in self.checkpoints if item["id"] == checkpoint}
        return {item["id"] for item in self.checkpoints if item["sha256"] in own}

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
                      for item in self.checkpoints if item["learning_rate"] is not None]
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
            points, *_ = (entry.pop(field) for field in ("points", "total", "rank"))
            tested = len(points) >= 8
            change = self.changes.get((name, metric, entry["method_label"])) if tested else None
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
