#!/usr/bin/env python3
"""How the cost of a run grows: times evaluations, quantizations and training steps of one shape while its width, its
depth, the number of tokens, their length or the number of recipes is doubled, and prints the measured exponents beside
the counted ones.

    growth.py [--runs 3] [--only REGEX] [--build DIR] [--markdown FILE] [--tiny]   (make bench-growth)

An exponent is the slope of the logarithm of the seconds (of the counted FLOPs) over that of the size, by least squares:
1 is proportional. Below the counted one something does not grow with the size, or larger products come nearer to the
processor's limit. Models of random weights are made below the build directory. Needs numpy and safetensors."""

import argparse
import math
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

from run import last_json

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
BASE = {"width": 256, "depth": 4, "sequences": 8, "length": 512, "recipes": 1}
SIZES = {"width": (128, 256, 512, 1024), "depth": (2, 4, 8, 16), "sequences": (4, 8, 16, 32),
         "length": (128, 256, 512, 1024, 2048), "recipes": (1, 2, 4, 8)}
TINY = {"width": (64, 128), "depth": (1, 2), "sequences": (2, 4), "length": (16, 32), "recipes": (1, 2)}
BITS = (4, 3, 2, 8, 4, 3, 2, 8)  # of as many recipes; bits make no difference to what they cost
TOKENS = BASE["sequences"] * BASE["length"]  # of every length
STEPS = 3
WORDS = {"width": "width (columns of a hidden state)", "depth": "depth (blocks)", "sequences": "sequences",
         "length": "length of a sequence, the same tokens", "recipes": "recipes on one walk"}


def commands(place, model):
    """Of each kind of work; its program prints lines of JSON."""
    sequences, length = place["sequences"], place["length"]
    return {
        "evaluate": ["bench_evaluate", model, sequences, length],
        "quantize (GPTQ)": ["bench_quantize", model, sequences, length, 1, 1, 16, *BITS[:place["recipes"]]],
        "train": ["bench_train", model, sequences, length, STEPS],
    }


def run(programs, command):
    found = last_json([programs / command[0], *command[1:]])
    return found["seconds"], found["gflops"] * found["seconds"], found["peak_mib"]


def slope(sizes, values):
    return statistics.linear_regression([math.log(size) for size in sizes], [math.log(value) for value in values]).slope


def model_of(place, folder):
    """Made by another process, because the memory of this one counts for the programs that it starts."""
    shape = f"llama-{place['width']}x{place['depth']}"
    if not (folder / shape).exists():
        subprocess.run([sys.executable, HERE / "make_model.py", shape, folder / shape], check=True,
                       stdout=subprocess.DEVNULL)
    return folder / shape


def measure(options, axis, work, sizes, folder):
    """[size, median seconds, counted GFLOP, peak MiB] of each size."""
    rows = []
    for size in sizes:
        place = {**BASE, **({"width": 64, "depth": 1, "sequences": 2, "length": 16} if options.tiny else {}),
                 axis: size}
        if axis == "length" and not options.tiny:
            place["sequences"] = TOKENS // size
        command = commands(place, model_of(place, folder))[work]
        times = [run(ROOT / options.build / "release" / "tests" / "bench", command) for _ in range(options.runs)]
        rows.append((size, statistics.median(seconds for seconds, *_ in times), times[0][1],
                     max(peak for *_, peak in times)))
        print(f"  {work}, {axis} {size}: {rows[-1][1]:.3f} s, {rows[-1][2] / rows[-1][1]:.0f} GFLOP/s,"
              f" {rows[-1][3]:.0f} MiB", flush=True)
    return rows


def table_row(axis, work, rows):
    sizes, seconds, flop, peaks = zip(*rows)
    rates = [f / s for f, s in zip(flop, seconds)]
    cells = (work, WORDS[axis], ", ".join(map(str, sizes)), ", ".join(f"{s:.3g}" for s in seconds),
             f"{slope(sizes, seconds):.2f}", f"{slope(sizes, flop):.2f}", f"{rates[0]:.0f}–{rates[-1]:.0f}",
             f"{peaks[0]:.0f}–{peaks[-1]:.0f}")
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="", help="of 'WORK, AXIS'")
    parser.add_argument("--build", default="build")
    parser.add_argument("--markdown")
    parser.add_argument("--tiny", action="store_true", help="try the program itself, in seconds")
    options = parser.parse_args()
    options.runs = 1 if options.tiny else options.runs
    table = ["| work | what grows | sizes | median s | exponent | counted | GFLOP/s | peak MiB |",
             "|---|---|---|---|---|---|---|---|"]
    (ROOT / options.build / "bench").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / options.build / "bench", prefix="growth-") as folder:
        for axis, sizes in (TINY if options.tiny else SIZES).items():
            for work in commands(BASE, ""):
                if re.search(options.only, f"{work}, {axis}") and (axis != "recipes" or work.startswith("quantize")):
                    table.append(table_row(axis, work, measure(options, axis, work, sizes, pathlib.Path(folder))))
                    print(table[-1] + "\n", flush=True)
    print("\n".join(table))
    if options.markdown:
        pathlib.Path(options.markdown).write_text("\n".join(table) + "\n")


if __name__ == "__main__":
    main()
