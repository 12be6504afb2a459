#!/usr/bin/env python3
"""make check-gpu: the first CUDA device held to the CPU. The self-test of a worker's start, with how near each check
came to its bound; every primitive against plain loops in double with the bounds that the CPU's fast backend is held to,
the same bits from repeated calls, whole models and quantizations, and then three small programs under
compute-sanitizer, minutes each: a machine that does not let it work (some virtual ones do not), and a program that it
makes too slow, are said and are no failure. Needs gcc, nvcc and a device; cmocka, PCRE2, utf8proc and zlib only if they
are there. Ends with 0 when all passed, 1 when something failed, 2 when nothing could be run."""

import re
import shutil
import subprocess
import sys

import machine

TESTS = "build/gpu/tests/gpu/engine/"
SMALL = ("backend/test_cpu_inputs", "backend/test_xielu", "backend/cuda/hidden_states")
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
SECONDS, SANITIZED_SECONDS, STOPPED = 1800, 300, -1


def execute(command, seconds):
    """(exit status or STOPPED, what it printed)"""
    try:
        done = subprocess.run(command, cwd=machine.ROOT, env=machine.environment(), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=seconds)
        return done.returncode, done.stdout.decode("utf-8", "replace")
    except subprocess.TimeoutExpired as expired:
        return STOPPED, (expired.stdout or b"").decode("utf-8", "replace") + f"\nstopped after {seconds} s\n"


def verdict(code, text):
    """Whether a program's tests passed, and how many."""
    passed = sum(map(int, re.findall(r"\[\s+PASSED\s+\] (\d+) test", text)))
    return code == 0 and passed > 0, passed


def sanitized_verdict(code, text):
    """"ok", "FAILED", or "skipped" where the sanitizer did not come to look: it prints its summary when it has."""
    if "ERROR SUMMARY" not in text and "RACECHECK SUMMARY" not in text:
        return "skipped"
    return "ok" if verdict(code, text)[0] else "FAILED"


def run(name, command):
    code, text = execute(command, SECONDS)
    good, passed = verdict(code, text)
    print(f"{'ok    ' if good else 'FAILED'} {name}: {passed} passed, exit status {code}", flush=True)
    print("".join(f"       {line}\n" for line in text.splitlines() if line.startswith("| ")), end="", flush=True)
    if not good:
        print(text, flush=True)
    return good


def run_sanitized(name, command):
    """False: it found something. What it did not come to look at is said."""
    code, text = execute(command, SANITIZED_SECONDS)
    said = sanitized_verdict(code, text)
    why = ""
    if said == "skipped":
        why = next((line for line in text.splitlines() if line.startswith("=========") and "COMPUTE" not in line),
                   (text.strip().splitlines() or ["it printed nothing"])[-1])
    print(f"{said:6} {name}: exit status {code} {why}", flush=True)
    if said == "FAILED":
        print(text, flush=True)
    return said != "FAILED"


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
            failed += not run_sanitized(f"{check} {name}", [tool, "--tool", check, "--error-exitcode", "9",
                                                            str(machine.ROOT / TESTS / name)])
    print(f"check-gpu: {failed} failed" if failed else "check-gpu: all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
