#!/usr/bin/env python3
"""Times deltaq and the libraries people use today on the same work, in turn, and prints medians and ratios.

    run.py [--runs 5] [--only REGEX] [--peers PYTHON] [--peers-compressor PYTHON] [--peers-harness PYTHON] [--markdown FILE]       (make bench)

`--peers` is a Python with torch, transformers and GPTQModel; `--peers-compressor` one with llm-compressor (the two disagree about versions);
`--peers-harness` one with lm-eval. Tasks need their records and a tokenizer beside the project ($DELTAQ_SHARED, default ../shared).
`make bench-peers` makes both below build/. Without them only our side is timed. Ours and theirs alternate, so that a machine whose speed
drifts is fair to both. Whole processes, but the time that counts is taken inside, around the work: no imports, no loading of models for
the peers; for deltaq reading the weights is part of the work. Standard library only."""

import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent


def last_json(command, environment=None):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=dict(os.environ, **(environment or {})))
    lines = [line for line in re.split(r"[\r\n]+", done.stdout) if line.startswith("{")]
    if done.returncode != 0 or not lines:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return json.loads(lines[-1])


class Bench:
    def __init__(self, options):
        self.options = options
        self.programs = ROOT / options.build / "release" / "tests" / "bench"
        self.models = ROOT / options.build / "bench"
        self.rows, self.limit = [], None

    def model(self, shape, python, tokenizer=None):
        path = self.models / (f"{shape}-text" if tokenizer else shape)
        if not (path / "config.json").exists():
            subprocess.run([python, str(HERE / "make_model.py"), shape, str(path), *([str(tokenizer)] if tokenizer else [])], check=True)
        return path

    def measure_limit(self):
        text = subprocess.run([str(self.programs / "bench_backend"), "limit"], capture_output=True, text=True).stdout
        found = re.search(r"([\d.]+) GFLOP/s", text)
        self.limit = float(found.group(1)) if found else None
        print(f"limit: {self.limit} GFLOP/s, the best large single-precision product on this machine\n", flush=True)

    def compare(self, name, ours, peers, goal, runs=None):
        """`ours` a command; `peers` a list of (label, command, environment, runs)."""
        if not re.search(self.options.only, name):
            return
        sides = [("deltaq", ours, None, runs or self.options.runs)]
        sides += [(label, command, environment, count or self.options.runs) for label, command, environment, count in peers if command]
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
        if share and self.limit:
            share += f" = {100 * ours['flop'] / median['deltaq'] * 1e-9 / self.limit:.0f} % of the limit"
        for label, runs in results.items():
            tokens = f", {runs[0]['tokens']} tokens computed" if "processor_seconds" in runs[0] else ""
            if tokens:
                tokens += f", {statistics.median(run['processor_seconds'] for run in runs):.1f} s of processor time"
            spread = f"{min(r['seconds'] for r in runs):.2f}–{max(r['seconds'] for r in runs):.2f}"
            ratio = "" if label == "deltaq" else f"{median[label] / median['deltaq']:.2f}×"
            peak = f"{max(r.get('peak_mib', 0) for r in runs):.0f}"
            row = (name, label, len(runs), f"{median[label]:.2f}", spread, ratio, peak, (tokens[2:] or (share[2:] if label == "deltaq" else "")), goal)
            self.rows.append(row)
            print(f"{name:<34} {label:<14} median {row[3]:>8} s ({spread}, {len(runs)} runs) {ratio:>7} peak {peak} MiB {row[7]}", flush=True)
        print(flush=True)

    def markdown(self, path):
        head = "| work | program | runs | median s | min–max s | deltaq is faster by | peak MiB | rate | goal |\n|---|---|---|---|---|---|---|---|---|\n"
        body = "".join("| " + " | ".join(map(str, row)) + " |\n" for row in self.rows)
        with open("/proc/cpuinfo") as info:
            processor = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), platform.machine())
        pathlib.Path(path).write_text(f"{processor}, {os.cpu_count()} processors; limit {self.limit} GFLOP/s.\n\n{head}{body}")


TASKS = ("arc_challenge", "arc_easy", "openbookqa", "piqa", "hellaswag", "winogrande", "mathqa", "pubmedqa", "sciq", "social_iqa",
         "commonsense_qa", "mmlu")


def compare_tasks(bench, python, harness, records):
    """Both over the same records of every task; the counts of tokens are of all of them, the times of the first `records`."""
    shared = pathlib.Path(os.environ.get("DELTAQ_SHARED", ROOT.parent / "shared")).resolve() / "data"
    if not (shared / "tasks").is_dir():
        print(f"tasks: skipped, there is no {shared.name}/tasks in $DELTAQ_SHARED")
        return
    model = bench.model("llama-135m", python, shared / "tokenizers" / "smollm2.tokenizer.json.gz")
    bench.compare(f"twelve tasks llama-135m, 5 shots, {records} records each", [bench.programs / "bench_tasks", model, shared / "tasks", 5, records, *TASKS],
                  [("lm-eval", harness and [harness, HERE / "peer_tasks.py", model, shared / "tasks", 5, records, 1, *TASKS], None, None)],
                  "≥ 4×, ≥ 3× fewer tokens", 1 if records > 20 else None)


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
    parser.add_argument("--markdown")
    options = parser.parse_args()
    bench, peer = Bench(options), options.peers
    python = peer or sys.executable
    bench.measure_limit()

    def script(name, *arguments):
        return [peer, HERE / name, *arguments] if peer else None

    def compressor(*arguments):
        return [options.peers_compressor, HERE / "peer_gptq.py", "llmcompressor", *arguments] if options.peers_compressor else None

    pythia, small = bench.model("pythia-160m", python), bench.model("llama-3m", python)
    middle = bench.model("llama-135m", python)
    bench.compare(f"evaluate pythia-160m {options.sequences}x2048", [bench.programs / "bench_evaluate", pythia, options.sequences, 2048],
                  [("PyTorch", script("peer_evaluate.py", pythia, options.sequences, 2048), None, None)], "≥ 2×, ≥ 70 % of the limit")
    bench.compare("train llama-3m 8x256", [bench.programs / "bench_train", small, 8, 256, 20],
                  [("PyTorch", script("peer_train.py", small, 8, 256, 20), None, None)], "≥ 2.5×")
    bench.compare("gptq 4-bit llama-135m 32x512", [bench.programs / "bench_quantize", middle, 32, 512],
                  [("GPTQModel", script("peer_gptq.py", "gptqmodel", middle, 32, 512), {"GPTQMODEL_CPU_WORKERS": "2"}, options.slow_runs),
                   ("llm-compressor", compressor(middle, 32, 512), None, options.slow_runs)], "≥ 5× and ≥ 4×")
    if (HERE / "peer_hessian.py").exists():
        for shape, path, sequences, length in (("llama-3m", small, 8, 256), ("pythia-160m", pythia, 4, 512)):
            bench.compare(f"Hessian-vector product {shape} {sequences}x{length}", [bench.programs / "bench_hvp", path, sequences, length],
                          [("PyTorch/PyHessian", script("peer_hessian.py", path, sequences, length), None, None)], "≥ 3×, ≤ 1/4 peak")
    if re.search(options.only, "twelve tasks"):
        compare_tasks(bench, options.peers_harness or python, options.peers_harness, options.records)
    if options.markdown:
        bench.markdown(options.markdown)


if __name__ == "__main__":
    main()
