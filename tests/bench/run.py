#!/usr/bin/env python3
"""Times deltaq and the libraries people use today on the same work, in turn, and prints medians and ratios.

    run.py [--runs 5] [--only REGEX] [--peers PYTHON] [--peers-compressor PYTHON] [--peers-harness PYTHON]
           [--precision bf16] [--markdown FILE] [--tiny]   (make bench)

`--peers` is a Python with torch, transformers and GPTQModel; `--peers-compressor` one with llm-compressor (the two
disagree about versions); `--peers-harness` one with lm-eval. Tasks need their records and a tokenizer beside the
project ($DELTAQ_SHARED, default ../shared). `make bench-peers` makes both below build/. Without them only our side is
timed. Ours and theirs alternate, so that a machine whose speed drifts is fair to both. Whole processes, but the time
that counts is taken inside, around the work: no imports, no loading of models for the peers; for deltaq reading the
weights is part of the work. Fails when a row of the table has no result.

`--precision bf16` makes products in bf16 on both sides, of the rows that both have: PyTorch's models with weights in
bf16, and training by its autocast, which keeps weights in float32 as ours does.

`--tiny` tries the benches themselves, in seconds: every row once, in both precisions, on the smallest models and on
records made here (tiny.py), bench_backend and bench_tangent with it; nothing beside the project is needed, and the
times say nothing. Making models needs numpy and safetensors; else standard library only."""

import argparse
import json
import math
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys

import tiny

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent

# What the rows measure: shapes of models; numbers of sequences, tokens in each, steps.
FULL = {"pythia": "pythia-160m", "small": "llama-3m", "middle": "llama-135m", "length": 2048, "train": (8, 256, 20),
        "gptq": (32, 512), "products": ((8, 256), (4, 512))}
TINY = {"pythia": "tiny-pythia", "small": "tiny-llama", "middle": "tiny-llama", "length": 64, "train": (2, 32, 2),
        "gptq": (4, 32), "products": ((2, 32), (2, 32))}
ROWS = {"f32": ("evaluate", "train", "gptq", "Hessian-vector product", "twelve tasks"),
        "bf16": ("evaluate", "train", "gptq")}
PRODUCTS = "DELTAQ_BENCH_PRODUCTS"  # what our programs and the peers' scripts read


def last_json(command, environment=None):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          env=dict(os.environ, **(environment or {})))
    lines = [line for line in re.split(r"[\r\n]+", done.stdout) if line.startswith("{")]
    if done.returncode != 0 or not lines:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    result = json.loads(lines[-1])
    unfit = [name for name, value in result.items() if isinstance(value, float) and not math.isfinite(value)]
    if unfit or result["seconds"] <= 0:
        sys.exit(f"{' '.join(map(str, command))} gave no numbers for {', '.join(unfit) or 'seconds'}: {lines[-1]}")
    return result


def output(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def limit_of(programs, *options):
    """GFLOP/s of the best large product in single precision."""
    text = output(programs / "bench_backend", "limit", *options)
    found = re.search(r"limits: ([\d.]+) GFLOP/s", text)
    if not found:
        sys.exit(f"bench_backend told no limit:\n{text}")
    return float(found.group(1))


class Bench:
    def __init__(self, options):
        self.options = options
        self.programs = ROOT / options.build / "release" / "tests" / "bench"
        self.models = ROOT / options.build / "bench"
        self.rows, self.limit = [], None

    def model(self, shape, python, tokenizer=None):
        path = self.models / (f"{shape}-text" if tokenizer else shape)
        if not (path / "config.json").exists():
            subprocess.run([python, str(HERE / "make_model.py"), shape, str(path),
                            *([str(tokenizer)] if tokenizer else [])], check=True)
        return path

    def measure_limit(self):
        self.limit = limit_of(self.programs, *(["tiny"] if self.options.tiny else []))
        print(f"limit: {self.limit} GFLOP/s, the best large single-precision product on this machine\n", flush=True)

    def compare(self, name, ours, peers, goal, runs=None):
        """`ours` a command; `peers` a list of (label, command, environment, runs)."""
        if not re.search(self.options.only, name) or not name.startswith(ROWS[self.options.precision]):
            return
        name += "" if self.options.precision == "f32" else f" {self.options.precision}"
        products = {PRODUCTS: self.options.precision}
        sides = [("deltaq", ours, products, runs or self.options.runs)]
        sides += [(label, command, {**products, **(environment or {})}, count or self.options.runs)
                  for label, command, environment, count in peers if command]
        results = {label: [] for label, *_ in sides}
        for turn in range(max(count for *_, count in sides)):
            for label, command, environment, count in sides:
                if turn < count:
                    results[label].append(last_json(command, environment))
                    print(f"  {name}: {label} {results[label][-1]['seconds']:.2f} s", flush=True)
        self.report(name, results, goal)

    def report(self, name, results, goal):
        median = {label: statistics.median(run["seconds"] for run in runs) for label, runs in results.items()}
        ours = results["deltaq"][0]
        share = f", {ours['flop'] / median['deltaq'] * 1e-9:.0f} GFLOP/s" if "flop" in ours else ""
        if share and self.limit and self.options.precision == "f32":
            share += f" = {100 * ours['flop'] / median['deltaq'] * 1e-9 / self.limit:.0f} % of the limit"
        for label, runs in results.items():
            rate = share[2:] if label == "deltaq" else ""
            if "processor_seconds" in runs[0]:
                rate = f"{statistics.median(run['processor_seconds'] for run in runs):.1f} s of processor time"
                rate = f"{runs[0]['tokens']} tokens computed, {rate}" if "tokens" in runs[0] else rate
            if "gradients" in runs[0]:
                rate += f", {statistics.median(run['gradients'] for run in runs):.2f} gradients"
            spread = f"{min(r['seconds'] for r in runs):.2f}–{max(r['seconds'] for r in runs):.2f}"
            ratio = "" if label == "deltaq" else f"{median[label] / median['deltaq']:.2f}×"
            peak = f"{max(r.get('peak_mib', 0) for r in runs):.0f}"
            row = (name, label, len(runs), f"{median[label]:.2f}", spread, ratio, peak, rate, goal)
            self.rows.append(row)
            print(f"{name:<34} {label:<14} median {row[3]:>8} s ({spread}, "
                  f"{len(runs)} runs) {ratio:>7} peak {peak} MiB {row[7]}", flush=True)
        print(flush=True)

    def markdown(self, path):
        head = ("| work | program | runs | median s | min–max s | deltaq is faster by | peak MiB | rate | goal "
                "|\n|---|---|---|---|---|---|---|---|---|\n")
        body = "".join("| " + " | ".join(map(str, row)) + " |\n" for row in self.rows)
        with open("/proc/cpuinfo") as info:
            processor = next((line.split(":")[1].strip() for line in info if line.startswith("model name")),
                             platform.machine())
        pathlib.Path(path).write_text(f"{processor}, {os.cpu_count()} processors; "
                                      f"limit {self.limit} GFLOP/s.\n\n{head}{body}")


TASKS = ("arc_challenge", "arc_easy", "openbookqa", "piqa", "hellaswag", "winogrande", "mathqa", "pubmedqa", "sciq",
         "social_iqa", "commonsense_qa", "mmlu")


def compare_tasks(bench, python, harness, records):
    """Both over the same records of every task; the counts of tokens are of all of them,
    the times of the first `records`."""
    if bench.options.tiny:
        shape, folder, tokenizer = ("tiny-llama", bench.models / "tiny-tasks",
                                    tiny.write_tokenizer(bench.models / "tiny-tokenizer.json"))
        tiny.write_tasks(folder)
    else:
        shared = pathlib.Path(os.environ.get("DELTAQ_SHARED", ROOT.parent / "shared")).resolve() / "data"
        shape, folder, tokenizer = "llama-135m", shared / "tasks", shared / "tokenizers" / "smollm2.tokenizer.json.gz"
        if not folder.is_dir():
            print(f"tasks: skipped, there is no {shared.name}/tasks in $DELTAQ_SHARED")
            return
    model, shots = bench.model(shape, python, tokenizer), 1 if bench.options.tiny else 5
    bench.compare(f"twelve tasks {shape}, {shots} shots, {records} records each",
                  [bench.programs / "bench_tasks", model, folder, shots, records, *TASKS],
                  [("lm-eval", harness and [harness, HERE / "peer_tasks.py", model, folder, shots, records, 1, *TASKS],
                    None, None)], "≥ 4×, ≥ 3× fewer tokens", 1 if records > 20 else None)


def compare_all(bench, python):
    options, peer, sizes = bench.options, bench.options.peers, TINY if bench.options.tiny else FULL

    def script(name, *arguments):
        return [peer, HERE / name, *arguments] if peer else None

    def compressor(*arguments):
        return ([options.peers_compressor, HERE / "peer_gptq.py", "llmcompressor", *arguments]
                if options.peers_compressor else None)

    pythia, small, middle = (bench.model(sizes[name], python) for name in ("pythia", "small", "middle"))
    count, length = options.sequences, sizes["length"]
    bench.compare(f"evaluate {sizes['pythia']} {count}x{length}",
                  [bench.programs / "bench_evaluate", pythia, count, length],
                  [("PyTorch", script("peer_evaluate.py", pythia, count, length), None, None)],
                  "≥ 2×, ≥ 70 % of the limit")
    sequences, length, steps = sizes["train"]
    bench.compare(f"train {sizes['small']} {sequences}x{length}",
                  [bench.programs / "bench_train", small, sequences, length, steps],
                  [("PyTorch", script("peer_train.py", small, sequences, length, steps), None, None)], "≥ 2.5×")
    sequences, length = sizes["gptq"]
    bench.compare(f"gptq 4-bit {sizes['middle']} {sequences}x{length}",
                  [bench.programs / "bench_quantize", middle, sequences, length],
                  [("GPTQModel", script("peer_gptq.py", "gptqmodel", middle, sequences, length),
                    {"GPTQMODEL_CPU_WORKERS": "2"}, options.slow_runs),
                   ("llm-compressor", compressor(middle, sequences, length), None, options.slow_runs)], "≥ 5× and ≥ 4×")
    for shape, path, (sequences, length) in zip((sizes["small"], sizes["pythia"]), (small, pythia), sizes["products"]):
        bench.compare(f"Hessian-vector product {shape} {sequences}x{length}",
                      [bench.programs / "bench_hvp", path, sequences, length],
                      [("PyTorch/PyHessian", script("peer_hessian.py", path, sequences, length), None, None)],
                      "≥ 3×, ≤ 1/4 peak")
    if re.search(options.only, "twelve tasks") and options.precision == "f32":
        compare_tasks(bench, options.peers_harness or python, options.peers_harness, options.records)


OWN_TABLES = {
    ("bench_backend", "", "tiny"): ("limits:", "team_run", "gemm", "syrk", "inverse_cholesky",
                                    "attention", "norm rms", "activation silu up", "activation gelu",
                                    "activation gelu_tanh", "cross_entropy", "compare", "adamw", "sum_rows"),
    ("bench_tangent", "tiny"): ("block forward", "block backward", "block backward_tangent", "head backward",
                                "head backward_tangent", "block: product", "head: product", "product / gradient",
                                "norm", "linear", "rope", "attention", "activation", "add"),
}


def try_own_tables(bench):
    """The two benches that have tables of their own: each kind of row, with numbers."""
    for command, kinds in OWN_TABLES.items():
        lines = output(bench.programs / command[0], *command[1:]).splitlines()
        for kind in kinds:
            rows = [line for line in lines if line.startswith(kind)]
            if not rows or any(re.search(r"\b(nan|inf)\b", row) or not re.search(r"\d", row.removeprefix(kind))
                               for row in rows):
                sys.exit(f"{' '.join(command)}: no row of {kind}, or one without numbers:\n" + "\n".join(lines))
        print(f"{command[0]}: {len(lines)} rows")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--slow-runs", type=int, default=5, help="of the peers that take minutes")
    parser.add_argument("--sequences", type=int, default=16, help="of 2048 tokens, in the evaluation")
    parser.add_argument("--records", type=int, default=4, help="of each task: 100 are all")
    parser.add_argument("--only", default="")
    parser.add_argument("--build", default="build")
    parser.add_argument("--peers")
    parser.add_argument("--peers-compressor")
    parser.add_argument("--peers-harness")
    parser.add_argument("--precision", choices=tuple(ROWS), default="f32", help="of products, on both sides")
    parser.add_argument("--markdown")
    parser.add_argument("--tiny", action="store_true", help="try the benches themselves, in seconds")
    options = parser.parse_args()
    if options.tiny:
        options.runs, options.slow_runs, options.sequences, options.records = 1, 1, 2, 2
    bench = Bench(options)
    bench.measure_limit()
    for options.precision in ROWS if options.tiny else (options.precision,):
        compare_all(bench, options.peers or sys.executable)
    if options.tiny:
        try_own_tables(bench)
        without = [f"{row} in {precision}" for precision, rows in ROWS.items() for row in rows
                   if re.search(options.only, row) and not any(
                       name.startswith(row) and name.endswith(" bf16") == (precision == "bf16")
                       for name, *_ in bench.rows)]
        if without:
            sys.exit(f"no result for {', '.join(without)}")
    if options.markdown:
        bench.markdown(options.markdown)


if __name__ == "__main__":
    main()
