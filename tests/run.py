#!/usr/bin/env python3
"""Runs test suites side by side and counts them: the last line reads `N passed, N failed, N skipped`.

    run.py [--jobs N] [--junit DIR] [--seconds N] [--together] [--until TIME] [--under COMMAND] SUITE...

A SUITE is a test program, a pytest path, or `name=command line`. COMMAND starts the test programs (an emulator).
With --until the short suites come first; what has not ended by then is stopped, named, and counted as one skipped.

With --together pytest files that are not in LONG share a process (TOGETHER), and so what their conftest.py makes
once, a server or a browser: to start those costs more than most files' tests.

A test program is a cmocka binary; its groups are counted from what it prints. A directory is as many suites as it has
files test_*.py. A command line counts as one test, passed when it exits with 0. What a failed suite printed is shown.
Temporary files go to memory where there is enough of it: the tests make some fifty databases, and would wait for the
disk. Standard library only."""

import argparse
import concurrent.futures
import contextlib
import fcntl
import math
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as xml

MEMORY, MEMORY_BYTES = "/dev/shm", 4 << 30
PREFIX, IN_USE = "deltaq-", "in-use"  # a run's folder, and the file in it that the run has locked
GRACE = 20  # seconds to stop in


# The long ones, begun first, so that none is left alone at the end: those that compute beside those that wait.
LONG = (
    "demo/test_demo",
    "lint",
    "ptx",
    "cluster/test_sweep",
    "http/test_cuda_device",
    "http/test_server_memory",
    "slurm/test_slurm",
    "http/test_track",
    "pool/test_outages",
    "dashboard/test_dashboard",
    "http/test_generated",
    "faults/test_kills",
    "http/test_webhooks",
    "http/test_backup",
    "http/test_archive",
    "http/test_nodes",
    "pool/test_chaos",
    "faults/test_two_workers",
    "pool/test_workers",
    "dashboard/test_geometry",
    "http/test_hub",
    "faults/test_memory",
    "golden/test_golden",
    "dashboard/test_marks",
    "http/test_watch",
    "study/test_study",
    "dashboard/test_large",
    "dashboard/test_service",
    "http/test_geometry",
)


# Folders of which so many files share a process.
TOGETHER = {"tests/http": 9, "tests/dashboard": 5}


class OutOfTime(Exception):
    """A suite that had not ended by --until."""


def interrupt(process):
    """As Ctrl-C does it, so that suites stop the servers that they started; who does not listen is killed."""
    try:
        os.killpg(process.pid, signal.SIGINT)
        for _ in range(GRACE * 10):
            time.sleep(0.1)
            os.killpg(process.pid, 0)
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:  # all of them are gone
        pass


def execute(command, options, extra_environment=None):
    """(exit status, what it printed, (seconds, seconds of processor time of it and
    of all its children that were waited for))"""
    environment = dict(os.environ, **(extra_environment or {}))
    began, left = time.monotonic(), options.until - time.time()
    if left <= 0:
        raise OutOfTime
    with tempfile.TemporaryFile() as output:  # a pipe would wait for what the suite may have left running
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=math.isfinite(left),
        )
        stop = (left, interrupt, [process]) if left < options.seconds else (options.seconds, process.kill)
        late = threading.Timer(*stop)
        late.start()
        _, status, usage = os.wait4(process.pid, 0)
        late.cancel()
        code = process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - began
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    if code != 0 and seconds >= left:
        raise OutOfTime
    if code != 0 and seconds >= options.seconds:
        text += f"\nstopped after {options.seconds} s\n"
    return code, text, (seconds, usage.ru_utime + usage.ru_stime)


def run_program(path, options):
    code, text, seconds = execute([*shlex.split(options.under), path], options)
    count = {
        word: sum(map(int, re.findall(rf"\[\s+{word}\s+\] (?:[^\n]*: )?(\d+) test\(s\)", text)))
        for word in ("PASSED", "FAILED", "SKIPPED")
    }
    if code != 0 and count["FAILED"] == 0:
        count["FAILED"] = 1  # it crashed, or a sanitizer spoke
    if code == 0 and not any(count.values()):
        count["FAILED"], text = 1, text + "\nit ran no test\n"
    return count["PASSED"], count["FAILED"], count["SKIPPED"], text, seconds


def run_pytest(paths, options, junit, scratch):
    own = tempfile.mkdtemp(dir=scratch)
    try:
        return run_pytest_in(paths, options, junit, own)
    finally:
        shutil.rmtree(own, ignore_errors=True)


def run_pytest_in(paths, options, junit, own):
    report = pathlib.Path(junit) / (re.sub(r"\W+", "-", paths[0]).strip("-") + ".xml")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        f"--junitxml={report}",
        f"--basetemp={own}/pytest",
        *paths,
    ]
    # No suite wants the plugins that come with what is installed; to load schemathesis costs each two seconds. And what
    # one suite has compiled of pytest and of the tests' modules is there for the next, whatever the shell says.
    extra = {"TMPDIR": own, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": ""}
    code, text, seconds = execute(command, options, extra)
    passed = failed = skipped = 0
    if report.exists():
        for suite in xml.parse(report).getroot().iter("testsuite"):
            bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            failed, skipped = failed + bad, skipped + int(suite.get("skipped", 0))
            passed += int(suite.get("tests", 0)) - bad - int(suite.get("skipped", 0))
    if code not in (0, 5) and failed == 0:
        failed = 1
    return passed, failed, skipped, text, seconds


def run_command(command, options):
    code, text, seconds = execute(shlex.split(command), options)
    return int(code == 0), int(code != 0), 0, text, seconds


def run_suite(suite, options, junit, scratch):
    try:
        if "=" in suite:
            return run_command(suite.split("=", 1)[1], options)
        if suite.endswith(".py"):
            return run_pytest(suite.split(), options, junit, scratch)
        return run_program(suite, options)
    except OutOfTime:
        return 0, 0, 1, "skipped: not ended by --until", (0.0, 0.0)


def name_of(suite):
    """As LONG has it."""
    return suite.split("=", 1)[0].removeprefix("tests/").removesuffix(".py")


def together(suites):
    """The same suites; those that share a process are one, their paths with blanks between. Neighbours in the alphabet
    are dealt to different ones, so that families of slow files are spread."""
    found = []
    for folder, size in TOGETHER.items():
        files = [s for s in suites if s.endswith(".py") and os.path.dirname(s) == folder]
        short = sorted(s for s in files if name_of(s) not in LONG)
        processes = math.ceil(len(short) / size)
        found += [" ".join(short[start::processes]) for start in range(processes)]
        suites = [s for s in suites if s not in short]
    return suites + found


def expand(suites, options):
    """The long ones first, then the other pytest files, then the rest; or the other way round."""
    files = [str(f) for s in suites if pathlib.Path(s).is_dir() for f in sorted(pathlib.Path(s).glob("test_*.py"))]
    place = {name: number for number, name in enumerate(LONG)}
    every = files + [s for s in suites if not pathlib.Path(s).is_dir()]
    return sorted(
        together(every) if options.together else every,
        key=lambda s: (place.get(name_of(s), len(LONG)), not s.endswith(".py")),
        reverse=math.isfinite(options.until),
    )


def fast_directory():
    try:
        return MEMORY if shutil.disk_usage(MEMORY).free >= MEMORY_BYTES and os.access(MEMORY, os.W_OK) else None
    except OSError:
        return None


def remove_leftovers(top):
    """Removes the folders of runs that were killed: nobody holds their lock."""
    for folder in pathlib.Path(top).glob(PREFIX + "*"):
        with contextlib.suppress(OSError), open(folder / IN_USE) as lock:  # in use, just begun, or somebody else's
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def scratch_directory():
    top = fast_directory() or tempfile.gettempdir()
    remove_leftovers(top)
    with (
        tempfile.TemporaryDirectory(prefix=PREFIX, dir=top, ignore_cleanup_errors=True) as scratch,
        open(pathlib.Path(scratch) / IN_USE, "w") as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield scratch


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    jobs = (os.cpu_count() or 1) + 4  # most suites wait more than they compute
    parser.add_argument("--jobs", type=int, default=jobs)
    parser.add_argument("--junit", default=None, help="directory for pytest's reports (default: a temporary one)")
    parser.add_argument("--seconds", type=float, default=1500, help="what a suite may take (default: 1500)")
    parser.add_argument("--together", action="store_true", help="short pytest files share processes (see above)")
    parser.add_argument("--until", type=float, default=math.inf, metavar="TIME", help="seconds since 1970 (see above)")
    parser.add_argument("--under", default="", metavar="COMMAND", help="command that starts each test program")
    parser.add_argument("suites", nargs="+", metavar="SUITE")
    options = parser.parse_args()
    totals, began, processor = [0, 0, 0], time.monotonic(), 0.0
    with (
        scratch_directory() as scratch,
        concurrent.futures.ThreadPoolExecutor(options.jobs) as pool,
    ):
        junit = options.junit or scratch
        pathlib.Path(junit).mkdir(parents=True, exist_ok=True)
        database = pathlib.Path(scratch) / "database"
        database.mkdir()
        os.environ["DELTAQ_TEST_DATABASE"] = str(database)  # tests/http/database.py
        suites = expand(options.suites, options)
        futures = {pool.submit(run_suite, suite, options, junit, scratch): suite for suite in suites}
        for future in concurrent.futures.as_completed(futures):
            passed, failed, skipped, text, (seconds, used) = future.result()
            processor += used
            totals = [a + b for a, b in zip(totals, (passed, failed, skipped))]
            first, *others = futures[future].split("=", 1)[0].split()
            name = " ".join([first, *map(os.path.basename, others)])
            print(
                f"{'FAIL' if failed else ' ok '} {name}: {passed} passed, {failed} failed, "
                f"{skipped} skipped ({seconds:.1f} s, {used:.1f} s of processor)",
                flush=True,
            )
            if failed:
                print(text, flush=True)
            elif skipped:
                for line in sorted(set(re.findall(r"^.*(?:SKIPPED|skipped:|skip:).*$", text, re.M)))[:8]:
                    print("       " + line.strip()[:160], flush=True)
    print(f"{(time.monotonic() - began) / 60:.1f} minutes, {processor / 60:.1f} minutes of processor")
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    return 1 if totals[1] or not (totals[0] or math.isfinite(options.until)) else 0


if __name__ == "__main__":
    sys.exit(main())
