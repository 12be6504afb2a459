#!/usr/bin/env python3
"""make profile-gpu: one program of `make bench-gpu` under Nsight Compute (ncu), and a table of its kernels: launches,
milliseconds in all and their share, microseconds a launch, and GB/s of the device's memory. ncu runs each kernel alone
and waits for it: the sum is the work of the device, not the time that the program takes. Ends with 0 when kernels were
measured, 1 when none was, 2 where ncu or a device is not there.

    profile_kernels.py [--row NAME] [--sequences 2] [--extra 1] [--products KIND] [--launch-skip N]
                       [--launch-count 5000] [--csv FILE] [--tiny]
        --row: the first row of bench.py that this regular expression finds ("evaluate 160M")
        --extra: evaluated sequences of a GPTQ row, steps of training
        --launch-count: no kernel after so many is measured; some 30 ms each
        --csv: the table of what `ncu --csv` printed before, and nothing runs
        --tiny: small shapes, to try the program itself"""

import argparse
import csv
import os
import re
import shutil
import subprocess
import sys

import bench
import machine

PLACE = "/usr/local/cuda/bin/ncu"
TIME, BYTES = "gpu__time_duration.sum", "dram__bytes.sum"
UNITS = {"ns": 1e-9, "nsecond": 1e-9, "us": 1e-6, "usecond": 1e-6, "ms": 1e-3, "msecond": 1e-3, "s": 1, "second": 1,
         "byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
NAME = 80


def kernels(text):
    """(name, launches, seconds, bytes) of each kernel that `ncu --csv` printed, the longest first. Other lines that a
    program printed lie between."""
    found = {}
    for entry in csv.DictReader(each for each in text.splitlines() if each.startswith('"')):
        name = entry["Kernel Name"].split("(")[0].removeprefix("void ")
        kernel = found.setdefault(name, {"launches": 0, TIME: 0.0, BYTES: 0.0})
        kernel[entry["Metric Name"]] += float(entry["Metric Value"].replace(",", "")) * UNITS[entry["Metric Unit"]]
        kernel["launches"] += entry["Metric Name"] == TIME
    rows = [(name, kernel["launches"], kernel[TIME], kernel[BYTES]) for name, kernel in found.items()]
    return sorted(rows, key=lambda row: -row[2])


def table(rows):
    total = sum(row[2] for row in rows) or 1
    lines = ["| kernel | launches | ms | share | µs a launch | GB/s |", "|---|---|---|---|---|---|"]
    for name, launches, seconds, moved in rows:
        shown = name if len(name) <= NAME else name[:NAME - 1] + "…"
        lines.append(f"| {shown} | {launches} | {seconds * 1e3:.3f} | {100 * seconds / total:.1f} % | "
                     f"{seconds / max(launches, 1) * 1e6:.1f} | {moved / max(seconds, 1e-12) / 1e9:.0f} |")
    lines.append(f"| all | {sum(row[1] for row in rows)} | {sum(row[2] for row in rows) * 1e3:.3f} | | | "
                 f"{sum(row[3] for row in rows) / total / 1e9:.0f} |")
    return "\n".join(lines)


def report(text):
    rows = kernels(text)
    if not rows:
        print("profile-gpu: no kernel was measured; what ncu said:\n" + text.strip())
        return 1
    print(table(rows))
    return 0


def command(ncu, wanted):
    """The program under ncu, and its environment."""
    spec = next((each for each in (bench.TINY if wanted.tiny else bench.ROWS) if re.search(wanted.row, each[0])), None)
    if spec is None:
        raise bench.Failed(f"no row is called {wanted.row}")
    _, work, shape, _, _, products, budget = spec
    length = 64 if wanted.tiny else 2048
    ours = bench.ours_command(work, bench.model_of(shape), wanted.sequences, length, wanted.extra, 1)
    bounds = ["--launch-skip", str(wanted.launch_skip), "--launch-count", str(wanted.launch_count)]
    return ([ncu, "--clock-control", "none", "--metrics", f"{TIME},{BYTES}", "--csv", "--print-units", "base", *bounds,
             *ours], bench.ours_environment(wanted.products or products, budget))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--row", default="evaluate")
    parser.add_argument("--sequences", type=int, default=2)
    parser.add_argument("--extra", type=int, default=1)
    parser.add_argument("--products")
    parser.add_argument("--launch-skip", type=int, default=0)
    parser.add_argument("--launch-count", type=int, default=5000)
    parser.add_argument("--csv", type=argparse.FileType())
    parser.add_argument("--tiny", action="store_true")
    wanted = parser.parse_args()
    if wanted.csv:
        return report(wanted.csv.read())
    ncu = shutil.which("ncu") or (PLACE if os.access(PLACE, os.X_OK) else None)
    if ncu is None:
        print("profile-gpu: nothing was run: no ncu (Nsight Compute), on PATH or in /usr/local/cuda/bin")
        return 2
    bench.build("profile-gpu")
    try:
        line, more = command(ncu, wanted)
    except bench.Failed as reason:
        print(f"profile-gpu: {reason}")
        return 1
    print(*(f"{key}={value}" for key, value in more.items()), *line, flush=True)
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=machine.ROOT,
                          env={**machine.environment(), **more})
    return report(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
