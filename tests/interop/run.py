#!/usr/bin/env python3
"""Loads what `export` writes with the libraries that people deploy with, and compares logits.

    run.py --build build --peers PYTHON --peers-compressor PYTHON [--only REGEX]        (make check-interop)

For every case the server quantizes a random model twice, into the format and "dequantized": the latter holds exactly
the numbers whose loss was measured. Transformers reads that one in float32; its loss has to be ours (to 1e-5 of it),
and its logits are what the library's own reading of the packed files is held to. Python with numpy."""

import argparse
import json
import math
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "tests" / "bench"))
sys.path.insert(0, str(ROOT / "tests" / "http"))
import make_model
import models

UNIT = {"float32": 2.0 ** -24, "float16": 2.0 ** -11, "gptqmodel": 2.0 ** -11, "gguf": 2.0 ** -24}
SEQUENCES, LENGTH = 4, 64
ASTRAY = 0.03  # of the tokens of a mixture
# roundings in a block; its linears; how far the largest of the logits' errors lies out
TENSORS, LINEARS, SIGMAS = 12, 7, 6

MODELS = {
    "llama": lambda: make_model.llama(256, 4, 8, 2, 512, 1024, 256, False),
    "llama_mha": lambda: make_model.llama(256, 4, 8, 8, 512, 1024, 256, False),
    "gpt_neox": lambda: make_model.gpt_neox(128, 3, 4, 1024, 256),
    "gpt2": lambda: make_model.gpt2(128, 3, 4, 1024, 256),
    "olmoe": lambda: make_model.olmoe(128, 3, 4, 64, 8, 2, 1024, 256),
}
GPTQ, RTN = {"name": "gptq", "group_size": 64}, {"name": "rtn", "group_size": 64}
SKIP = {"overrides": [{"pattern": "layers.1..*(down_proj|dense_4h_to_h)$", "skip": True}]}
MIXED = {"overrides": [{"pattern": "layers.2..*o_proj$", "skip": True}, {"pattern": "down_proj$", "bits": 8},
                       {"pattern": "v_proj$", "bits": 8, "group_size": 32}]}

# name, model, method, format, who reads it
CASES = [
    *((f"gptq-{bits}bit", "llama", {**GPTQ, "bits": bits}, "gptq", "gptqmodel") for bits in (2, 3, 4, 8)),
    ("gptq-act-order", "llama", {**GPTQ, "desc_act": True}, "gptq", "gptqmodel"),
    ("gptq-asymmetric", "llama", {**GPTQ, "sym": False}, "gptq", "gptqmodel"),
    ("gptq-whole-rows", "llama", {**GPTQ, "bits": 8, "group_size": -1}, "gptq", "gptqmodel"),
    ("gptq-skip", "llama", {**GPTQ, **SKIP}, "gptq", "gptqmodel"),
    # GPTQModel 7.7's own loader looks for embed_out where Transformers 5 has lm_head
    ("gptq-neox", "gpt_neox", {**GPTQ, "group_size": 32}, "gptq", "float16"),
    ("gptq-mixed", "llama", {**GPTQ, **MIXED}, "gptq", "gptqmodel"),
    ("gptq-gpt2", "gpt2", {**GPTQ, "group_size": 32}, "gptq", "gptqmodel"),
    ("gptq-olmoe", "olmoe", {**GPTQ, "group_size": 32}, "gptq", "gptqmodel"),
    ("gptq-transformers", "llama", GPTQ, "gptq", "float16"),
    ("awq", "llama", {**GPTQ, "sym": False}, "awq", "gptqmodel"),
    ("awq-symmetric-skip", "llama", {**RTN, **SKIP}, "awq", "gptqmodel"),
    ("awq-method", "llama_mha", {"name": "awq", "group_size": 64}, "awq", "gptqmodel"),
    ("awq-method-compressed", "llama_mha", {"name": "awq", "group_size": 64}, "compressed-tensors", "float32"),
    ("awq-gpt2", "gpt2", {**RTN, "group_size": 32}, "awq", "gptqmodel"),
    ("awq-olmoe", "olmoe", {**GPTQ, "group_size": 32}, "awq", "gptqmodel"),
    ("awq-transformers", "llama", {**GPTQ, "sym": False}, "awq", "float16"),
    ("compressed-4bit", "llama", GPTQ, "compressed-tensors", "float32"),
    ("compressed-asymmetric", "llama", {**GPTQ, "sym": False}, "compressed-tensors", "float32"),
    ("compressed-8bit-rows", "llama", {**RTN, "bits": 8, "group_size": -1}, "compressed-tensors", "float32"),
    ("compressed-mixed", "llama", {**GPTQ, **MIXED}, "compressed-tensors", "float32"),
    ("compressed-olmoe", "olmoe", {**GPTQ, "group_size": 32}, "compressed-tensors", "float32"),
    ("compressed-skip", "llama", {**GPTQ, **SKIP}, "compressed-tensors", "float32"),
    ("gguf-q8_0", "llama", {**RTN, "bits": 8, "group_size": 32}, "gguf", "gguf"),
    ("gguf-q4_0", "llama", {**GPTQ, "group_size": 32}, "gguf", "gguf"),
    ("gguf-q4_1-skip", "llama", {**RTN, "group_size": 32, "sym": False, **SKIP}, "gguf", "gguf"),
    ("gguf-mixed", "llama", {**GPTQ, "group_size": 32, "overrides": [{"pattern": "down_proj$|k_proj$", "bits": 8}]},
     "gguf", "gguf"),
    ("compressed-neox", "gpt_neox", {**GPTQ, "group_size": 32}, "compressed-tensors", "float32"),
]


class Server:
    def __init__(self, binary, directory):
        command = [binary, "serve", "--listen", "127.0.0.1:0", "--data-dir", directory / "data", "--root", directory]
        self.log = open(directory / "server.log", "ab")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.url = self.process.stdout.readline().split()[-1]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self.log.close()

    def raw(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data,
                                         headers={"Content-Type": "application/json"} if data else {})
        try:
            with urllib.request.urlopen(request, timeout=90) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            sys.exit(f"interop: {path}: {error.read().decode()}")

    def json(self, path, body=None):
        return json.loads(self.raw(path, body))

    def run(self, params):
        document = self.json("/v1/runs", {"kind": "quantize", "params": params})
        while document["state"] in ("queued", "running"):
            document = self.json(f"/v1/runs/{document['id']}?wait=30")
        if document["state"] != "succeeded":
            sys.exit(f"interop: {params}: {document['error']}")
        return document


def loss_of(logits, tokens):
    shifted = logits[:, :-1].astype(numpy.float64)
    shifted -= shifted.max(-1, keepdims=True)
    picked = numpy.take_along_axis(shifted, tokens[:, 1:, None], -1)[..., 0]
    return float((numpy.log(numpy.exp(shifted).sum(-1)) - picked).mean())


def tolerance(logits, layers, inner, loader, scales):
    """Of the largest difference. Each of a block's tensors is rounded to the library's type once, which adds an
    independent relative error of its unit roundoff u; each linear's scales to `scales`; they add up as squares over
    blocks. In float32 it is the sums of `inner` products that count, each with a rounding, again as squares. The
    largest of many normal numbers lies SIGMAS out."""
    unit = UNIT[loader]
    grown = unit ** 2 * (inner if unit < 2.0 ** -20 else 1)
    return SIGMAS * math.sqrt(layers * (TENSORS * grown + LINEARS * scales ** 2) + 4 * grown) * float(
        numpy.sqrt((logits ** 2).mean()))


class Interop:
    def __init__(self, options):
        self.options = options
        self.directory = ROOT / options.build / "interop"
        shutil.rmtree(self.directory, ignore_errors=True)  # a server that remembers runs would answer with old exports
        self.directory.mkdir(parents=True)
        self.server = Server(ROOT / options.build / "deltaq", self.directory)
        random = numpy.random.default_rng(7)
        self.data = {}
        self.tokens = random.integers(0, 1024, (SEQUENCES, LENGTH))
        numpy.save(self.directory / "tokens.npy", self.tokens)
        for name, rows in (("evaluation", self.tokens), ("calibration", random.integers(0, 1024, (16, LENGTH)))):
            self.data[name] = self.server.json("/v1/datasets",
                                               {"name": f"interop-{name}", "sequences": rows.tolist()})["id"]
        self.models, self.failed = {}, 0

    def model(self, name):
        if name not in self.models:
            path = self.directory / name
            config = make_model.write(path, *MODELS[name]())
            (path / "tokenizer.json").write_text(json.dumps(models.byte_tokenizer()))
            made = self.server.json("/v1/checkpoints",
                                    {"trajectory": "interop", "name": name, "source": {"path": str(path)}})
            self.models[name] = (made["id"], config)
        return self.models[name]

    def export(self, name, model, method, form):
        run = self.server.run({"checkpoint": self.model(model)[0], "method": method, "export": form,
                               "calibration": {"dataset": self.data["calibration"], "sequence_length": None},
                               "evaluation": {"dataset": self.data["evaluation"], "sequence_length": None}})
        path = self.directory / f"{name}.{form}"
        path.mkdir(exist_ok=True)
        for artifact in run["result"]["export"]["artifacts"]:
            (path / artifact).write_bytes(self.server.raw(f"/v1/runs/{run['id']}/artifacts/{artifact}"))
        if not (path / "tokenizer.json").exists():
            sys.exit(f"interop: {path} has no tokenizer")
        return path, run["result"]

    def prepare(self, case):
        name, model, method, form, _ = case
        plain, result = self.export(name, model, method, "dequantized")
        packed, other = self.export(name, model, method, form)
        if other["loss_q"] != result["loss_q"]:
            sys.exit(f"interop: {name}: one method, two losses")
        return case, plain, packed, result["loss_q"]

    def load(self, python, jobs):
        """[(loader, directory)]: one process for all of them."""
        arguments = []
        for loader, path in dict.fromkeys(jobs):
            out = self.out(loader, path)
            for old in (out, pathlib.Path(f"{out}.txt")):
                old.unlink(missing_ok=True)
            arguments += [loader, path, out]
        if arguments:
            with open(self.directory / "peers.log", "ab") as log:
                subprocess.run([python, HERE / "peer_logits.py", self.directory / "tokens.npy", *arguments], stdout=log,
                               stderr=log, check=True)

    def out(self, loader, path):
        return path.with_name(f"{path.name}.{loader}.npy")

    def read(self, loader, path):
        out = self.out(loader, path)
        return numpy.load(out) if out.exists() else None, pathlib.Path(f"{out}.txt").read_text()

    def all(self):
        prepared = [self.prepare(case) for case in CASES if re.search(self.options.only, case[0])]
        compressor = [(case[4], packed) for case, _, packed, _ in prepared if case[3] == "compressed-tensors"]
        others = [(case[4], packed) for case, _, packed, _ in prepared if case[3] != "compressed-tensors"]
        self.load(self.options.peers, [("float32", plain) for _, plain, *_ in prepared] + others)
        self.load(self.options.peers_compressor, compressor)
        for row in prepared:
            self.compare(*row)

    def compare(self, case, plain, packed, measured):
        name, model, _, form, loader = case
        expected, said = self.read("float32", plain)
        got, kinds = self.read(loader, packed)
        if expected is None or got is None:
            return self.report(False, f"{name}: did not load\n{said if expected is None else kinds}")
        _, config = self.model(model)
        inner = config.get("intermediate_size", 4 * config.get("n_embd", 0))
        scales = 0.0 if form == "compressed-tensors" else UNIT["float16"]
        bound = tolerance(expected, config.get("num_hidden_layers", config.get("n_layer")), inner, loader, scales)
        largest = numpy.abs(got - expected).max(-1).ravel()  # of each token
        # where experts tie, a rounding in half precision may send a token to another one:
        # that token's logits are not held to anything
        astray = int((largest > bound).sum()) if "num_experts" in config and UNIT[loader] > 2.0 ** -20 else 0
        worst, loss = float(numpy.sort(largest)[-1 - astray]), loss_of(expected, self.tokens)
        good = (worst <= bound and astray <= ASTRAY * len(largest) and abs(loss / measured - 1) < 1e-5
                and (kinds != "plain" or form == "gguf"))
        return self.report(good, f"{name:<22} {form:<19} {loader:<10} largest difference {worst:.1e} (bound "
                           f"{bound:.1e}{f', {astray} of {len(largest)} astray' if astray else ''}), "
                           f"loss {loss_of(got, self.tokens):.6f}, measured {measured:.6f}; {kinds}")

    def report(self, good, text):
        self.failed += not good
        print("ok  " if good else "FAIL", text, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--peers", required=True)
    parser.add_argument("--peers-compressor", required=True)
    parser.add_argument("--only", default=".")
    interop = Interop(parser.parse_args())
    try:
        interop.all()
    finally:
        interop.server.stop()
    sys.exit(1 if interop.failed else 0)


if __name__ == "__main__":
    main()
