"""The rest of the stand-in's interface: tensors, health and comparisons of checkpoints, posted runs, datasets, recipes,
sweeps, workers. Shapes as the server's, numbers made up but of the runs. Standard library only."""

import json
import re

PARTS = ("self_attn.q_proj", "self_attn.k_proj", "mlp.up_proj", "mlp.down_proj")
DATASETS = ("perl-manual", "perl-manual-validation")
MOMENT = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\dZ)?")
GB = 1 << 30
GONE = object()  # what was deleted


def block(layer=None):
    found = {"elements": 65536, "nan": 0, "infinite": 0, "l1": 512.0, "l2": 8.5, "linf": 0.4, "kurtosis": 3.2,
             "outlier_share": 2e-5, "relative_l2": 0.031, "cosine": 0.9995}  # fmt: skip
    return found if layer is None else {"layer": layer, **found}


def compared(a, b):
    """b − a with an interval of a tenth of it each way."""
    difference = b - a
    return {"a": a, "b": b, "difference": difference, "interval": sorted([0.9 * difference, 1.1 * difference]),
            "interval_method": "bootstrap", "worse": 150, "better": 42, "worse_share": 150 / 192,
            "sign_p": 1e-9}  # fmt: skip


class Service:
    """Handlers that a request handler with `world`, `page(name, items, fields)` and `body` takes in."""

    def checkpoint_part(self, identity, part):
        world = self.world
        if not any(item["id"] == identity for item in world.checkpoints):
            return None
        if part == "tensors":
            names = [f"model.layers.{layer}.{part}.weight" for layer in range(6) for part in PARTS]
            return {"items": [{"name": name, "dtype": "F32", "shape": [128, 128], "bytes": 65536} for name in names],
                    "next": None}
        if part == "health" and identity in world.healths:
            return {"checkpoint": identity, **block(), "sha256": "d" * 64, "tensor_count": 24, "previous": None,
                    "files": [], "tensors": [], "blocks": [block(layer) for layer in range(6)],
                    "created_at": "2026-11-20T08:00:00Z"}  # fmt: skip
        return None

    @staticmethod
    def artifact(name=None, files=()):
        if name is not None:
            return files.get(name)
        return {"items": [{"name": one, "bytes": len(content), "sha256": "f" * 64,
                           "media_type": "application/octet-stream"}
                          for one, content in dict(files).items()], "next": None}

    def prometheus(self):
        runs = self.world.runs
        lines = [f'deltaq_runs{{kind="{kind}",state="{state}"}} '
                 f'{sum((run["kind"], run["state"]) == (kind, state) for run in runs)}'
                 for kind in sorted({run["kind"] for run in runs})
                 for state in ("queued", "running", "succeeded", "failed", "cancelled")]
        lines += ["deltaq_data_directory_free_bytes 751619276800", 'deltaq_stored_bytes{directory="artifacts"} 1048576']
        return "\n".join(["# TYPE deltaq_database_up gauge", "deltaq_database_up 1", *lines,
                          'deltaq_oldest_queued_seconds{kind="quantize"} 75',
                          'deltaq_oldest_queued_seconds{kind="train"} 0',
                          'deltaq_run_crashes_total{kind="quantize"} 0',
                          f'deltaq_workers{{device="cpu"}} {len(self.world.workers)}', ""])

    def get_compare(self, parts, fields):
        runs = {run["id"]: run for run in self.world.runs}
        a, b = (runs.get(fields[name][0]) for name in ("a", "b"))
        if a is None or b is None:
            return None
        return {"a": a["id"], "b": b["id"], "kind": a["kind"], "protocol_id": "00112233aabbccdd",
                "sequences": 192, "tokens": 24576, **{name: compared(a["result"][name], b["result"][name])
                                                      for name in ("loss_fp", "loss_q", "delta", "kl")}}  # fmt: skip

    def narrowed(self, runs, fields):
        """Those of a sweep that read a checkpoint of a name with a tag, and were submitted between two times; or what
        problem() takes."""
        for field in ("created_from", "created_to"):
            text = fields.get(field, ["2026-01-31"])[0]
            if not MOMENT.fullmatch(text):
                return 422, "Invalid request", f'expected a day (2026-01-31), found "{text}"', f"/{field}"
        if fields.get("tag", ["key"])[0].startswith(":"):
            return 422, "Invalid request", "expected KEY or KEY:VALUE, at most 16 times", "/tag"
        name = re.escape(fields.get("name", ["*"])[0]).replace("\\*", ".*")
        key, _, value = fields.get("tag", [""])[0].partition(":")
        known = {item["id"]: item for item in self.world.checkpoints}

        def fits(run):
            read = known.get(run["params"].get("checkpoint"), {"name": "", "tags": {}})
            return (run["sweep"] in fields.get("sweep", [run["sweep"]]) and re.fullmatch(name, read["name"])
                    and (not key or key in read["tags"]) and (not value or str(read["tags"][key]) == value)
                    and fields.get("created_from", [""])[0] <= run["created_at"]
                    < fields.get("created_to", ["9"])[0])

        return [run for run in runs if fits(run)]

    def delete_runs(self, parts, fields):
        world = self.world
        run = next((run for run in world.runs if run["id"] == parts[0]), None)
        if run is None:
            return None
        if run["state"] in ("queued", "running"):
            return 409, "Conflict", f"the run is {run['state']}: cancel it and wait for its end first"
        other = next((one for one in world.runs if one["state"] in ("queued", "running")
                      and run["id"] in (one["params"].get("a"), one["params"].get("b"))), None)
        if other:
            return 409, "Conflict", f"run {other['id']} compares it: wait for its end, or cancel it"
        world.runs.remove(run)
        return GONE

    def create_run(self):
        """What the server does: names become ids, defaults are written back, the same again is the same run."""
        world, body = self.world, self.body
        params = json.loads(json.dumps(body["params"]))
        given = params.get("checkpoint")
        found = next((item for item in world.checkpoints
                      if given in (item["id"], f"{item['trajectory']}/{item['name']}")), None)
        if found is None:
            return 422, "Invalid", f"no checkpoint \"{params.get('checkpoint')}\""
        params["checkpoint"] = found["id"]
        method = params.get("method", {})
        if method.get("bits") == 2 and method.get("name") == "awq":
            return 422, "Invalid", "awq has no 2 bits"
        for part in ("calibration", "evaluation"):
            if part in params:
                params[part] = {"sequence_length": 2048, "packing": "blocks", "max_sequences": None, **params[part]}
        if body.get("dry_run"):
            return {"dry_run": True, "kind": body["kind"], "params": params, "fits": True, "problem": None,
                    "disk": {"peak_bytes": 4096, "available_bytes": 500 * GB}, "fetched_bytes": 0,
                    "memory": {"host": {"peak_bytes": 88 << 20, "available_bytes": GB}, "device": None},
                    "tokens": 24576, "flops": 1e12, "at_most": False, "spilled_tokens": 0, "seconds": 12.5,
                    "seconds_from": "earlier runs"}  # fmt: skip
        run = world.add_run(body["kind"], params, "queued")
        world.posted.append(body)
        return self.visible(run)

    def get_datasets(self, parts, fields):
        documents = [{"id": name, "name": name, "format": "text", "path": f"/data/{name}.txt", "sequences": None,
                      "tokens": None, "sha256": "e" * 64, "created_at": "2026-11-19T08:00:00Z"}
                     for name in DATASETS]  # fmt: skip
        if parts:
            return (next((item for item in documents if item["name"] == parts[0]), None)
                    or {"id": parts[0], "name": parts[0]})
        return self.page("datasets", documents, fields)

    def get_recipes(self, parts, fields):
        return {"items": [{"name": "gptq-w4a16", "recipe_id": "0123456789abcdef",
                           "method": {"name": "gptq", "bits": 4, "group_size": 128, "sym": True}}]}

    def get_workers(self, parts, fields):
        return {"items": self.world.workers, "next": None}

    def get_sweeps(self, parts, fields):
        documents = self.world.sweeps
        if parts:
            return next((item for item in documents if parts[0] in (item["id"], item["name"])), None)
        return self.page("sweeps", documents, fields)

    def delete_sweeps(self, parts, fields):
        sweep = next((item for item in self.world.sweeps if item["id"] == parts[0]), None)
        if sweep is None:
            return None
        if sweep["standing"] or sweep["runs"]["queued"] + sweep["runs"]["running"]:
            return 409, "Conflict", "a run of it has not ended"
        self.world.sweeps.remove(sweep)
        return GONE

    def post_sweeps(self, parts, fields):
        sweep = next((item for item in self.world.sweeps if item["id"] == parts[0]), None)
        if sweep is not None and parts[1] == "retry-failed":
            counts = sweep["runs"]
            sweep["runs"] = {**counts, "queued": counts["queued"] + counts["failed"], "failed": 0}
        elif sweep is not None:
            sweep["standing"] = False
            sweep["runs"] = {**sweep["runs"], "queued": 0, "running": 0,
                             "cancelled": sweep["runs"]["cancelled"] + sweep["runs"]["queued"]}
        return sweep


def service(world):
    """Two sweeps and a worker at work."""
    counts = {"queued": 2, "running": 1, "succeeded": 13, "failed": 1, "cancelled": 0, "total": 17}
    world.sweeps += [
        {"id": "s0", "name": "constant-bits", "kind": "quantize", "base": {"method": {"name": "gptq"}},
         "grid": {"checkpoint": {"trajectory": "constant"}, "method.bits": [3, 4]},
         "standing": True, "refused": [], "runs": counts, "created_at": "2026-11-20T08:00:00Z"},
        {"id": "s1", "name": "decays", "kind": "sharpness", "base": {"dataset": "perl-manual-validation"},
         "grid": {"checkpoint": {"trajectory": "decay-1M"}}, "standing": False,
         "refused": [{"checkpoint": "c9", "name": "step-1220",
                      "error": {"status": "invalid", "pointer": "/params/sequence_length",
                                "detail": "2048 is above the model's 512 positions"}}],
         "runs": {**counts, "queued": 0, "running": 0, "failed": 0, "succeeded": 2, "total": 2},
         "created_at": "2026-11-20T09:00:00Z"},
    ]  # fmt: skip
    world.workers.append({"id": "w0", "host": "gpu-7", "pid": 4711, "boot_id": "b", "slurm_job": None,
                          "device": "cpu", "device_state": None, "labels": ["gpu=h100"],
                          "blas": {"verdict": "passed", "library": "OpenBLAS 0.3.21", "core": "SkylakeX",
                                   "reason": None},
                          "threads": 8, "memory_bytes": 64 << 30, "version": "0.9.0",
                          "started_at": "2026-11-20T08:00:00Z",
                          "seen_at": "2026-11-20T09:59:58Z", "run": None})  # fmt: skip
