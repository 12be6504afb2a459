#!/usr/bin/env python3
"""Compares what quantization costs whole models, ΔQL = loss_q / loss_fp - 1, in deltaq and in the libraries whose
methods it has: the same checkpoints, calibration and evaluation tokens.      (make bench-methods)

    methods.py [--build build] [--peers PYTHON] [--peers-compressor PYTHON] [--peers-awq PYTHON]
               [--markdown FILE] [--only REGEX] [--models DIRECTORY] [--tiny]

`--peers` is a Python with torch, transformers, GPTQModel and bitsandbytes; `--peers-compressor` one with
llm-compressor, `--peers-awq` one with AutoAWQ and the Transformers of its time (`make bench-peers` makes all three). A
library that is not there is left out, and the table says so. The model and its text lie beside the project
($DELTAQ_SHARED, default ../shared): stories260K, a trained llama of width 64, and two checkpoints that make_equal.py
makes of it: one with an inner width that groups of 64 divide, one with planted outliers besides. Standard library only.
Fails when a difference is beyond its band.

`--tiny` tries the comparison itself, in seconds: every method of deltaq on a tiny model of random weights and random
tokens (numpy and safetensors make them), and of the libraries those that are there. It fails when a method has no
result; no band is held there.

Bands. `float`: both round the same weights to the same codes, so that losses may differ by what a float32 engine may be
off by, 1e-5. `maxima`: bitsandbytes looks the code of a maximum up in a way that takes a farther one for two in a
thousand, deltaq takes the nearest: 1e-4. `codes`: a code that flips changes every later Hessian or scale; 0.01 at 4
bits and 0.03 at 3, as for GPTQ's published runs. `noise`: inputs are rounded too, and whatever changes them in the last
place flips codes everywhere; two such models differ by independent roundings of the same size: three standard errors of
the mean over N predictions, each with a variance of 2 KL: 3 sqrt(2 * 2 KL / N) / loss_fp. `other`: the library computes
something else by the same name; there is no band."""

import argparse
import json
import math
import os
import pathlib
import re
import subprocess
import sys

import tiny

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
LENGTH, GROUP, CALIBRATION, EVALUATION = 128, 64, 128, 80

# ours, library, theirs, band
PAIRS = (
    ("nf4", "bitsandbytes", "nf4", "float"),
    ("nf4-double", "bitsandbytes", "nf4-double", "maxima"),
    ("fp4", "bitsandbytes", "fp4", "float"),
    ("fp4-double", "bitsandbytes", "fp4-double", "maxima"),
    ("llm_int8", "bitsandbytes", "llm_int8", "noise"),
    ("llm_int8", "bitsandbytes", "llm_int8-half", "noise"),
    ("llm_int8-whole", "bitsandbytes", "llm_int8-whole", "noise"),
    ("llm_int8-whole", "bitsandbytes", "llm_int8-whole-half", "noise"),
    ("gptq4", "gptqmodel", "gptq4", "codes"),
    ("gptq3", "gptqmodel", "gptq3", "codes"),
    ("awq4-unclipped", "autoawq", "awq4-linears", "codes"),
    ("awq3-unclipped", "autoawq", "awq3-linears", "codes"),
    ("awq4-unclipped", "autoawq", "awq4-unclipped", "other"),
    ("awq3-unclipped", "autoawq", "awq3-unclipped", "other"),
    ("awq4-unclipped", "llmcompressor", "awq4-unclipped", "other"),
    ("awq3-unclipped", "llmcompressor", "awq3-unclipped", "other"),
    ("awq4-unclipped", "llmcompressor", "awq4-duo", "other"),
    ("rtn4", "llmcompressor", "rtn4", "codes"),
    ("rtn3", "llmcompressor", "rtn3", "codes"),
    ("smoothquant", "llmcompressor", "smoothquant-all", "other"),
    ("smoothquant", "llmcompressor", "smoothquant", "other"),
)
# These want columns that groups divide.
EVEN_ONLY = ("gptqmodel", "autoawq", "llmcompressor")

WRITE_TOKENS = """
import sys, numpy
from tokenizers import Tokenizer
tokenizer, text, length, calibration, evaluation, out = sys.argv[1:]
ids = Tokenizer.from_file(tokenizer).encode(open(text, encoding="utf-8").read(), add_special_tokens=False).ids
ids = numpy.array(ids, numpy.uint32)
edge, end = int(calibration) * int(length), (int(calibration) + int(evaluation)) * int(length)
assert len(ids) >= end, f"{text}: {len(ids)} tokens, {end} are needed"
ids[:edge].tofile(out + ".calibration"); ids[edge:end].tofile(out + ".evaluation")
"""


def lines(command, environment=None):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          env=dict(os.environ, **(environment or {})))
    found = [json.loads(line) for line in re.split(r"[\r\n]+", done.stdout) if line.startswith('{"method"')]
    if done.returncode != 0:
        print(f"{' '.join(map(str, command))} failed:\n{done.stdout[-1000:]}{done.stderr[-2000:]}", file=sys.stderr)
    return {line["method"]: line for line in found}


def has(python, module):
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)"
    return python is not None and subprocess.run([python, "-c", code]).returncode == 0


class Comparison:
    def __init__(self, options, shared):
        self.options, self.model = options, shared / "models" / "stories260K"
        self.models = pathlib.Path(options.models or ROOT / options.build / "bench")
        self.pythons = {"bitsandbytes": options.peers, "gptqmodel": options.peers, "autoawq": options.peers_awq,
                        "llmcompressor": options.peers_compressor}
        modules = {"autoawq": "awq"}
        self.there = {library: has(python, modules.get(library, library)) for library, python in self.pythons.items()}
        self.rows, self.versions, self.beyond = [], {}, 0

    def equal(self, *how):
        path = self.models / "-".join(("stories260K-192", *how))
        if not (path / "config.json").exists():
            subprocess.run([self.options.peers, HERE / "make_equal.py", self.model, path, *how], check=True)
        return path

    def tokens(self, text):
        out = self.models / "tokens"
        out.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([self.options.peers, "-c", WRITE_TOKENS, self.model / "tokenizer.json", text, str(LENGTH),
                        str(CALIBRATION), str(EVALUATION), out], check=True)
        return [f"{out}.calibration", f"{out}.evaluation"]

    def compare(self, path, tokens, even):
        pairs = [pair for pair in PAIRS
                 if re.search(self.options.only, f"{pair[1]} {pair[2]}") and (even or pair[1] not in EVEN_ONLY)]
        name = path.name
        ours = lines([ROOT / self.options.build / "release" / "tests" / "bench" / "bench_methods", path, *tokens,
                      LENGTH, GROUP, *dict.fromkeys(pair[0] for pair in pairs)])
        theirs = {}
        for library in dict.fromkeys(pair[1] for pair in pairs):
            wanted = [pair[2] for pair in pairs if pair[1] == library]
            if self.there[library]:
                theirs[library] = lines([self.pythons[library], HERE / "peer_methods.py", library, path, *tokens,
                                         LENGTH, GROUP, *wanted])
            else:
                print(f"{name}: {library} skipped: it is not installed (make bench-peers)", flush=True)
        for pair in pairs:
            self.row(name, pair, ours.get(pair[0]), theirs.get(pair[1], {}).get(pair[2]))
        return ours

    def row(self, name, pair, ours, theirs):
        method, library, variant, kind = pair
        if ours is None or theirs is None:
            if self.there[library]:
                self.beyond += 1
                print(f"{name}: {method} beside {library}'s {variant}: no result", flush=True)
            return
        self.versions[library] = theirs["what"]
        noise = math.sqrt(4 * ours["kl"] / (EVALUATION * (LENGTH - 1))) / ours["loss_fp"]
        band = {"float": 1e-5 / ours["loss_fp"] * (2 + ours["delta"]), "maxima": 1e-4,
                "codes": 0.03 if "3" in method else 0.01, "noise": 3 * noise, "other": math.inf}[kind]
        off = abs(ours["delta"] - theirs["delta"])
        fits = self.options.tiny or off <= band and abs(ours["loss_fp"] - theirs["loss_fp"]) <= 1e-5
        self.beyond += not fits
        cells = (name, method, library, variant, f"{ours['delta']:.6f}", f"{theirs['delta']:.6f}", f"{off:.1e}",
                 "—" if kind == "other" else f"{band:.1e} ({kind})", "" if fits else "**beyond**")
        self.rows.append(cells)
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(cells, (24, 15, 14, 19, 9, 9, 8, 16, 10))),
              flush=True)

    def markdown(self, path):
        head = ("| model | deltaq | library | its method | ΔQL deltaq | ΔQL library | difference | band | "
                "|\n|---|---|---|---|---|---|---|---|---|\n")
        pathlib.Path(path).write_text("; ".join(sorted(self.versions.values())) + "\n\n" + head
                                      + "".join("| " + " | ".join(row) + " |\n" for row in self.rows))


def compare_tiny(comparison, vocabulary=272):
    """Ours must all be there, with numbers; random weights:
    the loss is near that of guessing, and quantization changes it."""
    models = comparison.models
    models.mkdir(parents=True, exist_ok=True)
    path = models / "tiny-llama"
    if not (path / "config.json").exists():
        subprocess.run([sys.executable, HERE / "make_model.py", path.name, path], check=True)
    tokens = [tiny.write_tokens(models / f"tiny.{part}", 4 * LENGTH, vocabulary, seed)
              for seed, part in enumerate(("calibration", "evaluation"))]
    ours = comparison.compare(path, tokens, True)
    for method in dict.fromkeys(pair[0] for pair in PAIRS
                                if re.search(comparison.options.only, f"{pair[1]} {pair[2]}")):
        result = ours.get(method)
        if (result is None or not abs(result["loss_fp"] - math.log(vocabulary)) < 0.5 or not abs(result["delta"]) < 0.5
            or not result["kl"] > 0):
            comparison.beyond += 1
            print(f"{path.name}: {method}: no result that could be: {result}")
        else:
            print(f"{path.name}: {method}: loss {result['loss_fp']:.4f}, ΔQL {result['delta']:.6f}, "
                  f"KL {result['kl']:.2e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--models", help="where models are made, default build/bench")
    parser.add_argument("--only", default="", help="pairs whose library and method fit")
    parser.add_argument("--peers")
    parser.add_argument("--peers-compressor")
    parser.add_argument("--peers-awq")
    parser.add_argument("--markdown")
    parser.add_argument("--tiny", action="store_true", help="try the comparison itself, in seconds")
    options = parser.parse_args()
    shared = pathlib.Path(os.environ.get("DELTAQ_SHARED", ROOT.parent / "shared")).resolve() / "data"
    comparison = Comparison(options, shared)
    if options.tiny:
        compare_tiny(comparison)
        sys.exit(f"{comparison.beyond} without a result" if comparison.beyond else 0)
    if options.peers is None or not (shared / "models" / "stories260K").is_dir():
        print("methods: skipped: " + ("no libraries to compare with (make bench-peers)" if options.peers is None
                                      else f"there is no {shared.name}/models in $DELTAQ_SHARED"))
        return
    tokens = comparison.tokens(shared / "corpora" / "tinystories_a.txt")
    comparison.compare(comparison.model, tokens, False)
    for how in ((), ("outliers",)):
        comparison.compare(comparison.equal(*how), tokens, True)
    if options.markdown:
        comparison.markdown(options.markdown)
    sys.exit(f"{comparison.beyond} differences beyond their bands, or without a result" if comparison.beyond else 0)


if __name__ == "__main__":
    main()
