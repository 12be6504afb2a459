#!/usr/bin/env python3
"""make bench-gpu: our work on the first CUDA device beside the same work in plain PyTorch on the same device, on random
weights in real shapes (model.py), which are made below build/gpu/models when a row first wants them. Prints a table for
BENCHMARKS.md; every row names its commands. Ends with 0 when all rows ran,
1 when one failed, 2 when nothing could be run.

    bench.py [--rows REGEX] [--runs 3] [--ours-alone] [--tiny]      --tiny: small shapes, to try the program itself
    bench.py --products [--tiny]    what the device makes of each kind of product, of copies and launches, as a table:
                                    it needs no PyTorch, and decides which kind is worth asking for"""

import argparse
import importlib.util
import json
import re
import shutil
import statistics
import subprocess
import sys

import machine

MODELS = machine.ROOT / "build/gpu/models"
PROGRAMS = "build/gpu/tests/bench/bench_"
BYTES = {"pythia-160m": 4e8, "olmo2-1b": 3e9, "olmo2-7b": 15e9, "olmo2-13b": 28e9, "olmo2-32b": 65e9}

# name, work, shape, sequences, evaluated sequences or steps, products, MiB of the device that ours may take (0: all)
ROWS = [
    ("evaluate 160M", "evaluate", "pythia-160m", 64, 0, "bf16", 0),
    ("evaluate 160M in f32", "evaluate", "pythia-160m", 64, 0, "f32", 0),
    ("evaluate 7B", "evaluate", "olmo2-7b", 32, 0, "bf16", 0),
    ("GPTQ + ΔQL 160M", "quantize", "pythia-160m", 128, 288, "tf32", 0),
    ("GPTQ + ΔQL 1B", "quantize", "olmo2-1b", 128, 288, "tf32", 0),
    ("GPTQ + ΔQL 7B", "quantize", "olmo2-7b", 128, 288, "tf32", 0),
    ("GPTQ + ΔQL 13B", "quantize", "olmo2-13b", 128, 288, "tf32", 0),
    ("GPTQ + ΔQL 32B", "quantize", "olmo2-32b", 128, 288, "tf32", 0),
    ("HVP 160M", "hvp", "pythia-160m", 16, 0, "f32", 0),
    ("HVP 1B", "hvp", "olmo2-1b", 16, 0, "f32", 0),
    ("train 160M", "train", "pythia-160m", 8, 10, "bf16", 0),
]
TINY = [("evaluate tiny", "evaluate", "tiny-olmo2", 2, 0, "f32", 0),
        ("GPTQ + ΔQL tiny", "quantize", "tiny-pythia", 2, 2, "f32", 64),
        ("HVP tiny", "hvp", "tiny-olmo2", 2, 0, "f32", 0), ("train tiny", "train", "tiny-pythia", 2, 1, "f32", 0)]


class Failed(Exception):
    pass


def last_json(command, more):
    done = subprocess.run(command, capture_output=True, text=True, cwd=machine.ROOT,
                          env={**machine.environment(), **more})
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        raise Failed((done.stderr.strip().splitlines() or done.stdout.strip().splitlines()
                      or [f"exit status {done.returncode}"])[-1])
    return [json.loads(line) for line in lines]


def python_device(tried_without):
    """Where PyTorch runs the same work, or why it does not."""
    if importlib.util.find_spec("torch") is None:
        return None, "PyTorch is not here: ours alone is timed, nothing beside it"
    import torch
    if torch.cuda.is_available():
        return "cuda", None
    return ("cpu", None) if tried_without else (None,
                                                "PyTorch finds no CUDA device: ours alone is timed, nothing beside it")


def model_of(shape, device):
    directory = MODELS / shape
    if not (directory / "config.json").exists():
        MODELS.mkdir(parents=True, exist_ok=True)
        if importlib.util.find_spec("torch") is None:
            raise Failed("PyTorch is not here, which makes the random weights")
        if shutil.disk_usage(MODELS).free < 1.1 * BYTES.get(shape, 0):
            raise Failed(f"{shape} takes {BYTES[shape] / 1e9:.0f} GB of disk below build/gpu/models, "
                         "which are not free")
        command = [sys.executable, str(machine.ROOT / "tests/gpu/model.py"), shape, str(directory),
                   "--device", device or "cpu"]
        if subprocess.run(command).returncode != 0:
            raise Failed(f"{shape} could not be made")
    return str(directory.relative_to(machine.ROOT))


def ours_command(work, model, sequences, length, extra, runs):
    last = {"evaluate": [runs], "quantize": [runs, extra, length], "hvp": ["values", runs],
            "train": [extra, runs]}[work]
    return [PROGRAMS + work, model, sequences, length, *last]


def row(name, work, shape, sequences, extra, products, budget, wanted, peer):
    length = 64 if wanted.tiny else 2048
    model = model_of(shape, peer)
    more = {"DELTAQ_BENCH_DEVICE": "cuda:0", "DELTAQ_CUDA_PRODUCTS": products,
            **({"DELTAQ_CUDA_MEMORY": str(budget)} if budget else {})}
    command = [str(part) for part in ours_command(work, model, sequences, length, extra, wanted.runs)]
    found = last_json(command, more)
    ours = {"seconds": statistics.median(run["seconds"] for run in found), "gflops": found[-1].get("gflops"),
            "what": found[-1]["what"]}
    print("   ", " ".join(f"{k}={v}" for k, v in more.items()), " ".join(command), flush=True)
    theirs = None
    if peer and not wanted.ours_alone:
        command = [sys.executable, "tests/gpu/peer.py", work, model, str(sequences), str(length),
                   "--device", peer, "--evaluated", str(extra or 1), "--steps", str(extra or 1),
                   *(["--f32"] if products == "f32" else [])]
        repeats = 1 if work == "hvp" else wanted.runs
        theirs = statistics.median(last_json(command, {})[-1]["seconds"] for _ in range(repeats))
        print("   ", " ".join(command[1:]), flush=True)
    return {"name": name, "tokens": sequences * length, "products": products, "budget": budget, **ours,
            "peer_seconds": theirs}


def line(found, rates):
    rate = f"{found['gflops'] / 1e3:.1f} TFLOP/s" if found["gflops"] else ""
    limit = rates.get("f32_tflops" if found["products"] == "f32" else "bf16_tflops")
    if rate and limit:
        rate += f" = {found['gflops'] / 10 / limit:.0f} % of the product rate"
    theirs = found["peer_seconds"]
    beside = " | | " if theirs is None else f" {theirs:.3f} | {theirs / found['seconds']:.2f}× | "
    return (f"| {found['name']} | {found['tokens']} | {found['products']} | {found['seconds']:.3f} |{beside}{rate} | "
            f"{found['budget'] or ''} |")


KINDS = ("f32", "tf32", "bf16, rounded by cuBLAS", "bf16 operands")


def products(tiny):
    """A table of rates, a row for each shape. 1 when a product was wrong or failed."""
    done = subprocess.run([PROGRAMS + "products", *(["tiny"] if tiny else [])], capture_output=True, text=True,
                          cwd=machine.ROOT, env=machine.environment())
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    rates = {}
    for row in found:
        rates.setdefault((row["what"], row["shape"]), {})[row["kind"]] = row
    print(done.stderr.strip())
    print(f"\nTFLOP/s{' (of tiny shapes: no rates)' if tiny else ''}\n")
    print(f"| product | shape | {' | '.join(KINDS)} |\n|---|---|{'---|' * len(KINDS)}")
    others = []
    for (what, shape), kinds in rates.items():
        if any("tflops" not in row for row in kinds.values()):
            others.append((what, shape, kinds["f32"]))
            continue
        cells = [f"{kinds[kind]['tflops']:.1f}" + ("" if kinds[kind]["right"] else " WRONG") if kind in kinds else ""
                 for kind in KINDS]
        print(f"| {what} | {shape} | {' | '.join(cells)} |")
    print("\n| else | of | |\n|---|---|---|")
    for what, shape, row in others:
        print(f"| {what} | {shape} | " + (f"{row['gbytes']:.1f} GB/s |" if "gbytes" in row else
                                         f"{row['milliseconds'] * 1e3:.1f} µs |"))
    wrong = sum(not row["right"] for row in found)
    print(f"bench-gpu: {len(found)} measured, {wrong} wrong" + (", and then it failed" if done.returncode else ""))
    return 1 if done.returncode or wrong else 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--rows", default="")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--ours-alone", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--products", action="store_true")
    wanted = parser.parse_args()
    machine.need_device("bench-gpu")
    if not machine.make("CONFIG=gpu", "gpu-bench"):
        print("bench-gpu: the programs do not build; what the compiler said is above")
        return 2
    if wanted.products:
        return products(wanted.tiny)
    peer, reason = python_device(wanted.tiny)
    if reason:
        print(reason)
    rates = {}
    if peer and not wanted.ours_alone:
        side = ["--side", "256"] if wanted.tiny else []
        rates = last_json([sys.executable, "tests/gpu/peer.py", "rate", "-", "0", "0", "--device", peer, *side], {})[-1]
        print(f"one large product: {rates['bf16_tflops']:.1f} TFLOP/s in bfloat16, "
              f"{rates['f32_tflops']:.1f} in float32")
    done, failed = [], 0
    for spec in TINY if wanted.tiny else ROWS:
        if not re.search(wanted.rows, spec[0]):
            continue
        print(spec[0], flush=True)
        try:
            done.append(row(*spec, wanted, peer))
        except Failed as reason:
            failed += 1
            print(f"    failed: {reason}", flush=True)
    if done:
        print(f"\n{done[0]['what']}\n\n| work | tokens | products | deltaq s | PyTorch s | deltaq is faster by | rate "
              f"| budget MiB |\n|---|---|---|---|---|---|---|---|")
        print("\n".join(line(found, rates) for found in done))
        (machine.ROOT / "build/gpu/bench.json").write_text(json.dumps({"rates": rates, "rows": done}, indent=1))
    print(f"bench-gpu: {len(done)} rows ran, {failed} failed")
    return 1 if failed else 0 if done else 2


if __name__ == "__main__":
    sys.exit(main())
