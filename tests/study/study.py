#!/usr/bin/env python3
"""A longer reproduction of the paper in small, through the HTTP interface alone: peak rates × token budgets × schedules × seeds, LAWA
against decay, weight decay, SAM against AdamW at equal loss; every model quantized by GPTQ at 3 and 4 bits. Ends with report.html and
report.json, which say of each finding whether it held here.

    study.py BINARY DIRECTORY      (make study; STUDY_SCALE=tiny|small|large)

Stop it whenever you like and start it again: what to do is a pure function of the scale, every request carries a key made of its own
content, and the server answers what it has. Kinds of runs that the server lacks are left out and the report says so. Standard library
only."""

import collections
import hashlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import findings
import report

# `every`: steps from a checkpoint to the next. `budgets`: checkpoints before the decay begins; it takes a quarter of that more.
# `window`: checkpoints in a LAWA average. Token counts of all runs together: 0.3 M, about 46 M (an hour on two cores), about 600 M.
Scale = collections.namedtuple("Scale", "hidden layers vocabulary length sequences every budgets warmup window peaks seeds evaluation calibration text")
SCALES = {
    "tiny": Scale(32, 2, 256, 32, 4, 5, (4, 8), 4, 3, (2e-3, 8e-3), (0, 1), 16, 8, "generated"),
    "small": Scale(128, 4, 2048, 128, 16, 50, (8, 16), 50, 4, (1e-3, 3e-3, 9e-3), (0, 1, 2), 128, 64, "perl"),
    "large": Scale(256, 6, 4096, 256, 32, 50, (8, 16, 32), 100, 4, (1e-3, 3e-3, 9e-3), (0, 1, 2, 3, 4), 256, 128, "perl"),
}
BITS = (3, 4)
WEIGHT_DECAYS = {"wd0": 0.0, "wd+": 0.4}
SAM_RHO = 0.05


class Server:
    """The binary on a port of its own, with its data below the study's directory; stopped with the study, its data kept."""

    def __init__(self, binary, directory, threads):
        self.url = os.environ.get("STUDY_URL", "http://127.0.0.1:8643")
        if self.ready():
            sys.exit(f"study: a server answers on {self.url} already; stop it, or give another STUDY_URL")
        command = [binary, "serve", "--listen", self.url.split("//")[1], "--data-dir", str(directory / "data"), "--root", str(directory)]
        with open(directory / "server.log", "ab") as log:
            self.process = subprocess.Popen([*command, "--threads", threads], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            self.wait(directory)
        except BaseException:  # Ctrl-C too: a server that is left behind would hold the data directory
            self.stop()
            raise

    def wait(self, directory):
        for _ in range(600):
            if self.ready():
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        sys.exit(f"study: the server did not become ready; see {directory / 'server.log'}")

    def ready(self):
        try:
            with urllib.request.urlopen(self.url + "/readyz", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()

    def request(self, method, path, body=None):
        data = None if body is None else json.dumps(body, sort_keys=True).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": "study-" + hashlib.sha256(data).hexdigest()[:40]} if data else {}
        call = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(call, timeout=90) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            sys.exit(f"study: {method} {path}: {error.read().decode()}")

    def kinds(self):
        with urllib.request.urlopen(self.url + "/openapi.yaml", timeout=30) as answer:
            text = answer.read().decode()
        return {kind for kind in ("train", "quantize", "average", "sharpness") if re.search(rf"\bconst: {kind}\b", text)}


class Study:
    def __init__(self, server, name, scale, directory):
        self.server, self.scale, self.directory = server, scale, directory
        self.step = scale.length * scale.sequences
        self.every = scale.every * self.step
        self.model = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": scale.hidden, "num_hidden_layers": scale.layers,
                      "num_attention_heads": scale.hidden // 32 or 1, "num_key_value_heads": scale.hidden // 32 or 1,
                      "intermediate_size": 3 * scale.hidden, "hidden_act": "silu", "max_position_embeddings": scale.length, "rms_norm_eps": 1e-5,
                      "rope_theta": 10000.0, "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False, "initializer_range": 0.02,
                      "vocab_size": scale.vocabulary}
        digest = hashlib.sha256(json.dumps([scale, self.model, WEIGHT_DECAYS, SAM_RHO]).encode()).hexdigest()[:6]
        self.prefix = f"study-{name}-{digest}"
        self.middle = scale.peaks[len(scale.peaks) // 2]
        self.kinds = server.kinds()
        self.problems = [f"the server has no {kind} runs" for kind in ("average", "sharpness") if kind not in self.kinds]
        self.texts = {}

    # --- asking --------------------------------------------------------------------------------------------------------------------
    def post(self, kind, params):
        run = self.server.request("POST", "/v1/runs", {"kind": kind, "params": params})
        run = self.server.request("GET", f"/v1/runs/{run['id']}")
        if run["state"] == "cancelled":
            run = self.server.request("POST", f"/v1/runs/{run['id']}/retry")
        return run["id"]

    def finish(self, runs, what):
        """Waits for all of {key: id}; gives {key: result} of those that succeeded."""
        results, left, said = {}, dict(runs), 0.0
        while left:
            key, run_id = next(iter(left.items()))
            run = self.server.request("GET", f"/v1/runs/{run_id}?wait=10")
            if run["state"] in ("succeeded", "failed", "cancelled"):
                del left[key]
                if run["state"] == "succeeded":
                    results[key] = run["result"]
                else:
                    self.problems.append(f"{what} {' '.join(map(str, key))} {run['state']}: {(run['error'] or {}).get('detail', '')}")
            if time.monotonic() - said > 10 or not left:
                said = time.monotonic()
                print(f"  {what}: {len(runs) - len(left)} of {len(runs)}", flush=True)
        return results

    def checkpoints(self, trajectory):
        """{tokens: id}"""
        query = urllib.parse.urlencode({"trajectory": trajectory, "limit": 100})
        return {entry["tokens"]: entry["id"] for entry in self.server.request("GET", f"/v1/checkpoints?{query}")["items"]}

    # --- training ------------------------------------------------------------------------------------------------------------------
    def name_of(self, group, peak, seed, budget=None):
        return f"{self.prefix}-{group.replace('+', 'x')}-{peak:g}-s{seed}" + (f"-{budget}" if budget else "")

    def total(self, budget):
        """Tokens at the end of a run that decays after `budget` checkpoints."""
        return (budget + budget // 4) * self.every

    def train(self, group, peak, seed, tokens, schedule, budget=None, **more):
        scale = self.scale
        params = {"trajectory": self.name_of(group, peak, seed, budget), "dataset": self.prefix, "validation": f"{self.prefix}-validation",
                  "tokens": tokens, "batch_sequences": scale.sequences, "sequence_length": scale.length, "checkpoint_every": self.every,
                  "schedule": {"peak": peak, "warmup": scale.warmup * self.step, **schedule}, "seed": seed, "validation_sequences": 16, **more}
        if "from" not in more:
            words = {"name": "bytes"} if scale.vocabulary == 256 else {"name": "train", "vocabulary_size": scale.vocabulary}
            params.update(model=self.model, tokenizer=words)
        return self.post("train", params)

    def decaying(self, budget):
        return {"name": "wsd", "decay": self.total(budget) - budget * self.every}

    def train_all(self):
        scale, runs = self.scale, {}
        first, last = scale.budgets[0], scale.budgets[-1]
        for seed in scale.seeds:
            for peak in scale.peaks:
                runs["constant", peak, seed, 0] = self.train("constant", peak, seed, self.total(last), {"name": "constant"})
            peak = self.middle
            runs["cosine", peak, seed, first] = self.train("cosine", peak, seed, self.total(first), {"name": "cosine"}, first, keep_state=False)
            for group, decay in WEIGHT_DECAYS.items():
                runs[group, peak, seed, first] = self.train(group, peak, seed, self.total(first), self.decaying(first), first, keep_state=False,
                                                            optimizer={"name": "adamw", "weight_decay": decay})
            runs["sam", peak, seed, last] = self.train("sam", peak, seed, self.total(last), self.decaying(last), last, keep_state=False,
                                                       optimizer={"name": "sam", "rho": SAM_RHO})
        done = self.finish(runs, "training")
        runs = {}
        for group, peak, seed, _ in done:
            if group != "constant":
                continue
            at = self.checkpoints(self.name_of("constant", peak, seed))
            for budget in scale.budgets:
                runs["decay", peak, seed, budget] = self.train("decay", peak, seed, self.total(budget), self.decaying(budget), budget,
                                                               keep_state=False, **{"from": at[budget * self.every]})
        return {**done, **self.finish(runs, "decaying")}

    # --- measuring -----------------------------------------------------------------------------------------------------------------
    def models(self, trained):
        """{(group, peak, seed, budget): checkpoint} of all that is to be measured, averages made on the way."""
        found, averages = {}, {}
        for group, peak, seed, budget in trained:
            at = self.checkpoints(self.name_of(group, peak, seed, budget or None))
            if group != "constant":
                found[group, peak, seed, budget] = at[self.total(budget)]
                continue
            for own in self.scale.budgets:
                found["constant", peak, seed, own] = at[self.total(own)]
                window = [at[self.total(own) - k * self.every] for k in reversed(range(self.scale.window))]
                averages["lawa", peak, seed, own] = {"checkpoints": window, "name": self.name_of("lawa", peak, seed, own)}
        if "average" in self.kinds:
            runs = {key: self.post("average", params) for key, params in averages.items()}
            for key, result in self.finish(runs, "averaging").items():
                found[key] = result["checkpoint"]
        return found

    def measure(self, models):
        scale, runs, curvature = self.scale, {}, {}
        evaluation = {"dataset": f"{self.prefix}-validation", "sequence_length": scale.length, "max_sequences": scale.evaluation}
        calibration = {"dataset": self.prefix, "sequence_length": scale.length, "packing": "blocks", "max_sequences": scale.calibration}
        for key, checkpoint in models.items():
            for bits in BITS:
                method = {"name": "gptq", "bits": bits, "group_size": 32}
                runs[(*key, bits)] = self.post("quantize", {"checkpoint": checkpoint, "method": method, "calibration": calibration,
                                                            "evaluation": evaluation})
            if "sharpness" in self.kinds:
                curvature[key] = self.post("sharpness", {"checkpoint": checkpoint, "dataset": self.prefix, "sequence_length": scale.length,
                                                         "max_sequences": min(16, scale.calibration), "estimators": ["top_eigenvalue"]})
        measured = self.finish(runs, "quantizing")
        sharp = self.finish(curvature, "measuring sharpness")
        points = []
        for (group, peak, seed, budget, bits), result in sorted(measured.items()):
            points.append({"group": group, "peak": peak, "seed": seed, "budget": budget * self.every, "tokens": self.total(budget), "bits": bits,
                           "delta": result["delta"], "loss_fp": result["loss_fp"], "loss_q": result["loss_q"],
                           "top_eigenvalue": sharp.get((group, peak, seed, budget), {}).get("top_eigenvalue")})
        return points

    def run(self, texts):
        for name, file in ((self.prefix, texts[0]), (f"{self.prefix}-validation", texts[1])):
            self.server.request("POST", "/v1/datasets", {"name": name, "path": str(file), "format": "text"})
        points = self.measure(self.models(self.train_all()))
        rows = findings.judge(points, BITS)
        scale = self.scale
        configuration = {"scale": self.prefix, "peaks": scale.peaks, "seeds": scale.seeds, "model": self.model, **scale._asdict(),
                         "parameters": f"{scale.layers} layers of width {scale.hidden}, vocabulary {scale.vocabulary}, budgets of "
                                       f"{' and '.join(f'{self.total(b) / 1e6:.3g}' for b in scale.budgets)} M tokens"}
        report.write(self.directory, configuration, points, rows, self.problems)
        return rows


def generated_text(directory):
    """Sentences with a grammar and a skewed vocabulary: enough to learn from in seconds."""
    source = random.Random(0)
    words = ["".join(source.choice("aeioubdklmnprst") for _ in range(source.randint(2, 7))) for _ in range(300)]
    for name, count in (("train.txt", 60000), ("validation.txt", 4000)):
        text, k = [], 0
        for _ in range(count):
            k = (7 * k + int(source.expovariate(0.4))) % len(words)
            text.append(words[k] + (".\n" if source.random() < 0.1 else " "))
        (directory / name).write_text("".join(text))
    return directory / "train.txt", directory / "validation.txt"


def texts_of(scale, directory):
    corpus = directory / "corpus"
    corpus.mkdir(exist_ok=True)
    if scale.text != "generated":
        subprocess.run([str(pathlib.Path(__file__).parents[1] / "demo" / "corpus.sh"), str(corpus)], check=True)
    elif not (corpus / "validation.txt").exists():
        generated_text(corpus)
    return corpus / "train.txt", corpus / "validation.txt"


def main():
    binary, directory = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    name = os.environ.get("STUDY_SCALE", "small")
    if name not in SCALES:
        sys.exit(f"study: STUDY_SCALE is {name!r}; it may be {', '.join(SCALES)}")
    directory.mkdir(parents=True, exist_ok=True)
    texts = texts_of(SCALES[name], directory)
    began = time.monotonic()
    server = Server(binary, directory, os.environ.get("STUDY_THREADS", "0"))
    try:
        rows = Study(server, name, SCALES[name], directory).run(texts)
    finally:
        server.stop()
    print(f"\n  {'finding':<14} {'bits':>4} {'effect':>9}  verdict")
    for row in rows:
        print(f"  {row['name']:<14} {row['bits']:>4} {report.percent(row['effect']):>9}  {row['verdict']}")
    print(f"\n{time.monotonic() - began:.0f} s. The report: {directory / 'report.html'}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("study: interrupted; the same command goes on where it stopped")
