#!/usr/bin/env python3
"""make check-gpu: the first CUDA device held to the CPU. Every primitive against plain loops in double with the bounds
that the CPU's fast backend is held to, the same bits from repeated calls, whole models and quantizations, and then the
smaller programs under compute-sanitizer. Needs gcc, nvcc and a device; cmocka, PCRE2, utf8proc and zlib only if they
are there. Ends with 0 when all passed, 1 when something failed, 2 when nothing could be run."""

import re
import shutil
import subprocess
import sys

import machine

TESTS = "build/gpu/tests/gpu/engine/"
SMALL = ("backend/test_cpu_inputs", "backend/test_cpu_scan", "backend/test_experts", "backend/test_xielu",
         "model/test_tangent", "backend/cuda/hidden_states", "backend/cuda/whole_models")
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
SECONDS = 3600


def run(name, command):
    try:
        done = subprocess.run(command, cwd=machine.ROOT, env=machine.environment(), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=SECONDS)
        code, text = done.returncode, done.stdout.decode("utf-8", "replace")
    except subprocess.TimeoutExpired as expired:
        code, text = -1, (expired.stdout or b"").decode("utf-8", "replace") + f"\nstopped after {SECONDS} s\n"
    passed = sum(map(int, re.findall(r"\[\s+PASSED\s+\] (\d+) test", text)))
    good = code == 0 and passed > 0
    print(f"{'ok    ' if good else 'FAILED'} {name}: {passed} passed, exit status {code}", flush=True)
    if not good:
        print(text, flush=True)
    return good


def sanitizer():
    found = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    return found if shutil.which(found) else None


def main():
    machine.need_device("check-gpu")
    if not machine.make("CONFIG=gpu", "gpu-tests", *sys.argv[1:]):
        print("check-gpu: the tests do not build; what the compiler said is above")
        return 1
    programs = sorted(path for path in (machine.ROOT / TESTS).rglob("*") if path.is_file() and not path.suffix)
    failed = sum(not run(str(path.relative_to(machine.ROOT / TESTS)), [str(path)]) for path in programs)
    tool = sanitizer()
    if tool is None:
        print("skipped compute-sanitizer: it is not here, so races and stray accesses were not looked for")
    for check in TOOLS if tool else ():
        for name in SMALL:
            failed += not run(f"{check} {name}",
                              [tool, "--tool", check, "--error-exitcode", "9", str(machine.ROOT / TESTS / name)])
    print(f"check-gpu: {failed} failed" if failed else "check-gpu: all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
