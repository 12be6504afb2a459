#!/usr/bin/env python3
"""make bench-gpu: our work on the first CUDA device beside the same work in plain PyTorch on the same device, on random
weights in real shapes (model.py), which are made below build/gpu/models when a row first wants them. Every run is
printed when it has ended, and build/gpu/bench.json is written after each program, so that a stop loses nothing. Prints
a table for BENCHMARKS.md at the end. Ends with 0 when all rows ran, 1 when one failed, 2 when nothing could be run.

    bench.py [--rows REGEX] [--runs 3] [--limit SECONDS] [--calibration N] [--evaluated N] [--ours-alone] [--tiny]
        --limit: no program of a row takes longer; what it measured until then counts, and the next one begins
        --calibration, --evaluated: sequences of the GPTQ rows in place of 128 and 288
        --tiny: small shapes, to try the program itself
    bench.py --products [--tiny]    what the device makes of each kind of product, of copies and launches, as a table:
                                    it needs no PyTorch, and decides which kind is worth asking for"""

import argparse
import importlib.util
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading

import machine

MODELS = machine.ROOT / "build/gpu/models"
RESULTS = machine.ROOT / "build/gpu/bench.json"
PROGRAMS = "build/gpu/tests/bench/bench_"
PEER = "tests/gpu/peer.py"
BYTES = {"pythia-160m": 4e8, "olmo2-1b": 3e9, "olmo2-7b": 15e9, "olmo2-13b": 28e9, "olmo2-32b": 65e9}

# name, work, shape, sequences, evaluated sequences or steps, products, MiB of the device that ours may take (0: all)
ROWS = [
    ("evaluate 160M", "evaluate", "pythia-160m", 64, 0, "bf16", 0),
    ("evaluate 160M in f32", "evaluate", "pythia-160m", 64, 0, "f32", 0),
    ("evaluate 1B", "evaluate", "olmo2-1b", 32, 0, "bf16", 0),
    ("evaluate 7B", "evaluate", "olmo2-7b", 32, 0, "bf16", 0),
    ("GPTQ + ΔQL 160M", "quantize", "pythia-160m", 128, 288, "bf16", 0),
    ("GPTQ + ΔQL 160M in tf32", "quantize", "pythia-160m", 128, 288, "tf32", 0),
    ("GPTQ + ΔQL 1B", "quantize", "olmo2-1b", 128, 288, "bf16", 0),
    ("GPTQ + ΔQL 7B", "quantize", "olmo2-7b", 128, 288, "bf16", 0),
    ("GPTQ + ΔQL 13B", "quantize", "olmo2-13b", 128, 288, "bf16", 0),
    ("GPTQ + ΔQL 32B", "quantize", "olmo2-32b", 128, 288, "bf16", 0),
    ("HVP 160M", "hvp", "pythia-160m", 16, 0, "f32", 0),
    ("HVP 1B", "hvp", "olmo2-1b", 16, 0, "f32", 0),
    ("train 160M", "train", "pythia-160m", 8, 10, "bf16", 0),
]
TINY = [("evaluate tiny", "evaluate", "tiny-olmo2", 2, 0, "f32", 0),
        ("GPTQ + ΔQL tiny", "quantize", "tiny-pythia", 2, 2, "f32", 64),
        ("HVP tiny", "hvp", "tiny-olmo2", 2, 0, "f32", 0), ("train tiny", "train", "tiny-pythia", 2, 1, "f32", 0)]
# The first evaluation of ours starts the device and reads the file from the disk. The peers and our other programs
# leave such runs out themselves.
UNCOUNTED = {"evaluate": 1}
INTERRUPTED = "stopped from outside"


class Failed(Exception):
    pass


def measured(command, more, limit, show):
    """(the dictionary of each line of JSON that a program printed, why it did not end well or None). `show` is called
    with each while the program runs."""
    found, late = [], threading.Event()
    with (tempfile.TemporaryFile("w+", errors="replace") as said,
          subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True, cwd=machine.ROOT,
                           env={**machine.environment(), **more}) as process):

        def stop():
            late.set()
            process.kill()

        timer = threading.Timer(limit or 0, stop)
        if limit:
            timer.start()
        try:
            for text in process.stdout:
                if text.startswith("{"):
                    found.append(json.loads(text))
                    show(found)
            code = process.wait()
        except KeyboardInterrupt:
            return found, INTERRUPTED
        finally:
            timer.cancel()
            process.kill()
        said.seek(0)
        complaint = (said.read().strip().splitlines() or [f"exit status {code}, and no reason"])[-1]
    if late.is_set():
        return found, f"stopped after {limit:g} s"
    return found, complaint if code != 0 or not found else None


def python_device(tried_without):
    """Where PyTorch runs the same work, or why it does not."""
    if importlib.util.find_spec("torch") is None:
        return None, "PyTorch is not here: ours alone is timed, nothing beside it"
    import torch
    if torch.cuda.is_available():
        return "cuda", None
    return ("cpu", None) if tried_without else (None,
                                                "PyTorch finds no CUDA device: ours alone is timed, nothing beside it")


def model_of(shape):
    directory = MODELS / shape
    if not (directory / "config.json").exists():
        MODELS.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(MODELS).free < 1.1 * BYTES.get(shape, 0):
            raise Failed(f"{shape} takes {BYTES[shape] / 1e9:.0f} GB of disk below build/gpu/models, "
                         "which are not free")
        command = [sys.executable, str(machine.ROOT / "tests/gpu/model.py"), shape, str(directory)]
        if subprocess.run(command).returncode != 0:
            raise Failed(f"{shape} could not be made")
    return os.path.relpath(directory, machine.ROOT)


def ours_command(work, model, sequences, length, extra, runs):
    last = {"evaluate": [runs], "quantize": [runs, extra, length],
            "hvp": ["values", runs, "products"], "train": [extra, runs]}[work]
    return [str(part) for part in (PROGRAMS + work, model, sequences, length, *last)]


def ours_environment(products, budget):
    return {"DELTAQ_BENCH_DEVICE": "cuda:0", "DELTAQ_CUDA_PRODUCTS": products,
            **({"DELTAQ_CUDA_MEMORY": str(budget)} if budget else {})}


def side(name, command, more, limit, uncounted=0):
    """One program of a row: its runs as they end, and their median."""
    print("   ", *(f"{key}={value}" for key, value in more.items()), *command, flush=True)

    def show(found):
        rate = f", {found[-1]['gflops'] / 1e3:.2f} TFLOP/s" if "gflops" in found[-1] else ""
        print(f"    {name} {found[-1]['seconds']:.3f} s{rate}{' (not counted)' * (len(found) <= uncounted)}",
              flush=True)

    found, ended = measured(command, more, limit, show)
    if ended:
        print(f"    {name} {ended}", flush=True)
    counted = found[uncounted:] or found
    result = {"command": " ".join(command), "environment": more, "ended": ended, "lines": found}
    if counted:
        result["seconds"] = statistics.median(run["seconds"] for run in counted)
        result["what"] = counted[-1]["what"]
    if counted and "gflops" in counted[0]:
        result["gflops"] = statistics.median(run["gflops"] for run in counted)
    return result


def sizes(work, sequences, extra, wanted):
    if work == "quantize":
        return wanted.calibration or sequences, wanted.evaluated or extra
    return sequences, extra


def row(spec, wanted, peer, found, save):
    """Fills `found`, and saves it after each program."""
    name, work, shape, sequences, extra, products, budget = spec
    sequences, extra = sizes(work, sequences, extra, wanted)
    length = 64 if wanted.tiny else 2048
    model = model_of(shape)
    evaluated = f" + {extra * length}" if work == "quantize" else ""
    found.update(name=name, tokens=f"{sequences * length}{evaluated}", products=products, budget=budget)
    uncounted = UNCOUNTED.get(work, 0)
    found["ours"] = side("deltaq ", ours_command(work, model, sequences, length, extra, wanted.runs + uncounted),
                         ours_environment(products, budget), wanted.limit, uncounted)
    save()
    if not peer or found["ours"]["ended"] == INTERRUPTED:
        return
    command = [sys.executable, PEER, work, model, str(sequences), str(length), "--device", peer,
               "--runs", str(wanted.runs), "--evaluated", str(extra or 1), "--steps", str(extra or 1),
               *(["--f32"] if products == "f32" else [])]
    found["peer"] = side("PyTorch", command, {}, wanted.limit)
    save()


def cell(found):
    """The seconds of a program, with a mark where it did not end well."""
    if found is None:
        return ""
    seconds = f"{found['seconds']:.3f}" if "seconds" in found else ""
    return f"{seconds} ({found['ended']})".strip() if found["ended"] else seconds


def line(found, rates):
    ours, peer = found["ours"], found.get("peer")
    rate = f"{ours['gflops'] / 1e3:.1f} TFLOP/s" if "gflops" in ours else ""
    limit = rates.get(f"{found['products']}_tflops")
    if rate and limit:
        rate += f" = {ours['gflops'] / 10 / limit:.0f} % of the product rate"
    faster = f"{peer['seconds'] / ours['seconds']:.2f}×" if peer and "seconds" in peer and "seconds" in ours else ""
    return (f"| {found['name']} | {found['tokens']} | {found['products']} | {cell(ours)} | {cell(peer)} | {faster} | "
            f"{rate} | {found['budget'] or ''} |")


def ran(rows):
    return [found for found in rows if "ours" in found]


def bench(wanted, peer, rates):
    """The rows that ran, some perhaps in part, and how many failed."""
    done, failed = [], 0

    def save():
        beside = RESULTS.with_suffix(".new")
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(json.dumps({"rates": rates, "rows": ran(done)}, indent=1))
        beside.replace(RESULTS)

    for spec in TINY if wanted.tiny else ROWS:
        if not re.search(wanted.rows, spec[0]):
            continue
        print(spec[0], flush=True)
        found = {}
        done.append(found)
        try:
            row(spec, wanted, peer, found, save)
        except Failed as reason:
            print(f"    failed: {reason}", flush=True)
        except KeyboardInterrupt:
            print(f"    {INTERRUPTED}", flush=True)
            return ran(done), failed + 1
        ends = [found[key]["ended"] for key in ("ours", "peer") if key in found]
        failed += not ends or any(end and not end.startswith("stopped after") for end in ends)
        if INTERRUPTED in ends:
            break
    return ran(done), failed


def product_rates(peer, wanted):
    """What PyTorch makes of one large product on the device, in TFLOP/s."""
    small = ["--side", "256"] if wanted.tiny else []
    found, ended = measured([sys.executable, PEER, "rate", "-", "0", "0", "--runs", "1", "--device", peer, *small], {},
                            wanted.limit, lambda _: None)
    if not found:
        print(f"one large product: {ended}")
        return {}
    print(f"one large product: {found[-1]['bf16_tflops']:.1f} TFLOP/s in bfloat16, "
          f"{found[-1]['f32_tflops']:.1f} in float32", flush=True)
    return found[-1]


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


def build(what):
    """Ends with 2 where there is no device or the programs do not build."""
    machine.need_device(what)
    if not machine.make("CONFIG=gpu", "gpu-bench"):
        print(f"{what}: the programs do not build; what the compiler said is above")
        sys.exit(2)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--rows", default="")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--limit", type=float)
    parser.add_argument("--calibration", type=int)
    parser.add_argument("--evaluated", type=int)
    parser.add_argument("--ours-alone", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--products", action="store_true")
    wanted = parser.parse_args()
    build("bench-gpu")
    if wanted.products:
        return products(wanted.tiny)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    peer, reason = (None, None) if wanted.ours_alone else python_device(wanted.tiny)
    if reason:
        print(reason)
    rates = product_rates(peer, wanted) if peer else {}
    done, failed = bench(wanted, peer, rates)
    if done:
        print(f"\n{done[0]['ours'].get('what', '')}\n\n| work | tokens | products | deltaq s | PyTorch s "
              "| deltaq is faster by | rate | budget MiB |\n|---|---|---|---|---|---|---|---|")
        print("\n".join(line(found, rates) for found in done))
    print(f"bench-gpu: {len(done)} rows ran, {failed} failed")
    return 1 if failed else 0 if done else 2


if __name__ == "__main__":
    sys.exit(main())
