#!/usr/bin/env python3
"""Compares, bit for bit, what the primitives of the backends give on two families of processors.

    bits.py NATIVE FOREIGN EMULATOR TEST...     build directories, a command, names of test programs

NATIVE is a build for x86-64, FOREIGN one for aarch64 that EMULATOR runs; each TEST (`engine/backend/test_cpu_rows`)
runs once in either, on kernels without fused products and with our own matrix products, and tells a checksum of each
output (tests/unit/engine/backend/cases.h). One that differs and that MAY_DIFFER does not name fails. Standard library
only."""

import collections
import os
import pathlib
import shlex
import subprocess
import sys

# The plain loops in double take erf and tanh (GELU) from the C library, which is compiled with fused products for one
# family and without for the other.
MAY_DIFFER = {
    ("reference64", name)
    for name in ("activated", "activated in place", "activated_t", "dgate", "dup", "dgate_t", "dup_t")
}


def outputs(command, kernels):
    """[(backend, output's name, its numbers, checksum)], in the order of the test"""
    environment = {
        **os.environ,
        "DELTAQ_SHOW_BITS": "1",
        "DELTAQ_KERNELS": kernels,
        "DELTAQ_OPENBLAS": "/nonexistent",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    lines = [line.split(maxsplit=4) for line in done.stdout.splitlines() if line.startswith("bits ")]
    return [(backend, name, int(numbers), checksum) for _, backend, numbers, checksum, name in lines]


def main():
    native, foreign = map(pathlib.Path, sys.argv[1:3])
    emulator, tests = shlex.split(sys.argv[3]), sys.argv[4:]
    compared, differing = collections.Counter(), collections.Counter()
    for test in tests:
        here = outputs([str(native / "tests/unit" / test)], "x86-64-v2")
        there = outputs([*emulator, str(foreign / "tests/unit" / test)], "armv8-portable")
        if not here or [row[:3] for row in here] != [row[:3] for row in there]:
            sys.exit(f"{test}: {len(here)} and {len(there)} outputs, or not the same ones")
        for one, other in zip(here, there):
            compared[one[:2]] += 1
            differing[one[:2]] += one != other
    wrong = {key for key, count in differing.items() if count > 0} - MAY_DIFFER
    for key, count in sorted(differing.items()):
        if count > 0:
            allowed = "other bits!" if key in wrong else "other bits, as it may have"
            print(f"{key[0]}, {key[1]}: {count} of {compared[key]} outputs have {allowed}")
    for backend in sorted({key[0] for key in compared}):
        count, unlike = (sum(n for key, n in found.items() if key[0] == backend) for found in (compared, differing))
        print(f"{backend}: {count} outputs compared, {unlike} with other bits")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
