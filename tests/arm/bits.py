#!/usr/bin/env python3
"""Compares, bit for bit, what the primitives of the backends give on two families of processors.

    bits.py NATIVE FOREIGN EMULATOR TEST...     build directories, a command, names of test programs

NATIVE is a build for x86-64, FOREIGN one for aarch64 that EMULATOR runs; each TEST (`engine/backend/test_cpu_rows`)
runs once in either, on kernels without fused products and with our own matrix products, and tells a checksum of each
output (tests/unit/engine/backend/cases.h). DIFFER names the outputs that may differ; one that it does not name, or one
that it names and that does not differ anywhere, fails. Standard library only."""

import collections
import os
import pathlib
import shlex
import subprocess
import sys

# (backend, output): why its bits differ
DIFFER = {}


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
    compared, differing, wrong = collections.Counter(), collections.Counter(), 0
    for test in tests:
        here = outputs([str(native / "tests/unit" / test)], "x86-64-v2")
        there = outputs([*emulator, str(foreign / "tests/unit" / test)], "armv8-portable")
        if not here or [row[:3] for row in here] != [row[:3] for row in there]:
            sys.exit(f"{test}: {len(here)} and {len(there)} outputs, or not the same ones")
        for one, other in zip(here, there):
            backend, name, numbers, _ = one
            compared[backend] += 1
            if one != other:
                differing[backend, name] += 1
                if (backend, name) not in DIFFER:
                    wrong += 1
                    print(f"{test}: {backend}: {name}: other bits ({numbers} numbers)")
    for key in DIFFER.keys() - differing.keys():
        wrong += 1
        print(f"{key[0]}: {key[1]}: does not differ: DIFFER need not name it")
    for backend, count in sorted(compared.items()):
        unlike = sum(number for key, number in differing.items() if key[0] == backend)
        print(f"{backend}: {count} outputs compared, {unlike} with other bits")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
