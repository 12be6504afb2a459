#!/usr/bin/env python3
"""Breaks the program in many small ways, one after the other, and says which of them the tests see.

    run.py [--jobs N] [--only TEXT] [--table FILE]... [--part N/M] [--results FILE [--sum]]

The tables are tests/mutants/*.toml. A row is one mutation:

    [[mutant]]
    name  = "adamw: the second moment is not corrected"  # unique; what precedes the colon is the area
    file  = "engine/train/adamw.c"
    old   = "text of the source"                         # occurs once in the file, in whatever layout
    new   = "what stands there instead"
    tests = ["engine/train/test_optimizer"]              # at least one of them must fail
    lives = "why no test can see it"                     # only for an accepted survivor
    needs = "avx512_bf16"                                # only where one kind of processor runs this source

A test is a C test below tests/unit (`emulated:` before its name: built over the emulated CUDA device), or an id of
pytest. The sources are never changed where they lie: each job works in a copy below build/mutants. A mutant is caught
when a test that passes without it fails, crashes or takes too long. The last line reads `N caught, N live, N broken of
N`; the exit status is 1 when a row is broken, when a survivor has no reason, when an accepted survivor is caught, or
when fewer than 97 % are caught.

The whole takes many hours. In several sittings, or on several machines whose files are then put together:

    run.py --results FILE              what FILE has is not run again: stop it whenever you like, and start it again
    run.py --results FILE --part 2/8   the second eighth of the rows alone
    run.py --results FILE --sum        runs nothing: sums up what FILE has, and says how many rows it lacks

A line of FILE is a verdict with its seconds. It counts while the row, its source and its tests are what they were.
`make mutants` keeps verdicts.jsonl beside the tables this way, and runs what has changed since; ARGUMENTS= runs all.
Standard library only."""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import queue
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib

import mutation

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPIES = ROOT / "build" / "mutants"
TABLES = ROOT / "tests" / "mutants"
COPIED_BUILDS = ("release/engine", "release/server", "release/libdeltaq-engine.a", "release/libdeltaq-server.a",
                 "generated", "static", "deltaq", "cuda", "libdeltaq-cuda.so", "emulated")
KEYS = {"name", "file", "old", "new", "tests"}
MORE_KEYS = {"lives", "needs"}
LEAST_CAUGHT = 0.97
BUILD_SECONDS = 600
# A mutant that allocates without end dies by itself. The emulated device may have 32 GiB of addresses opened.
TEST_BYTES = 48 << 30


class Broken(Exception):
    """The row cannot be run: that is an error of the table, and no mutant that was caught."""


def environment():
    of_make = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")
    variables = {name: value for name, value in os.environ.items() if name not in of_make}
    variables.setdefault("DELTAQ_SHARED", str(ROOT.parent / "shared"))
    return variables


def limit():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Not of addresses: the emulated device reserves more.
    resource.setrlimit(resource.RLIMIT_DATA, (TEST_BYTES, TEST_BYTES))


def execute(command, where, seconds, variables=None):
    """Exit status and output; the status is None when the time ran out. What the command started ends with it."""
    with subprocess.Popen(command, cwd=where, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", start_new_session=True, preexec_fn=limit,
                          env=dict(environment(), **(variables or {}))) as process:
        try:
            text, _ = process.communicate(timeout=seconds)
            return process.returncode, text
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return None, ""
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise


def is_pytest(test):
    return ".py" in test


def source_of(test):
    return test.split("::")[0] if is_pytest(test) else f"tests/unit/{test.removeprefix('emulated:')}.c"


def target_of(test):
    """What make must build before the test can run."""
    if not is_pytest(test):
        return [f"build/release/tests/{test.replace(':', '/') if test.startswith('emulated:') else 'unit/' + test}"]
    return ["build/deltaq", "pool-tools" if test.startswith("tests/pool") else "echo-server"]


def build(where, targets, jobs):
    status, text = execute(["make", "-s", "--no-print-directory", f"-j{jobs}", *targets], where, BUILD_SECONDS)
    if status != 0:
        lines = text.splitlines()
        told = [line for line in lines if "error" in line] or lines[-3:] or ["it took too long"]
        raise Broken("it does not compile: " + told[0].strip())


def run_test(where, test, seconds):
    """None when it passes, else how it failed."""
    if not is_pytest(test):
        status, text = execute([str(pathlib.Path(where) / target_of(test)[0])], where, seconds)
    else:
        with tempfile.TemporaryDirectory(prefix="deltaq-mutant-", ignore_cleanup_errors=True) as scratch:
            command = ["build/venv/bin/python", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
                       f"--basetemp={scratch}/pytest", test]
            status, text = execute(command, where, seconds, {"TMPDIR": scratch})
        if status == 0 and " passed" not in text:
            return f"{test} was skipped"  # and sees nothing
    if status == 0:
        return None
    if status is None:
        return f"{test} took longer than {seconds:.0f} s"
    return f"{test} crashed, signal {-status}" if status < 0 else test


def read_tables(paths):
    rows, names = [], set()
    for path in paths:
        for row in tomllib.loads(path.read_text()).get("mutant", []):
            where = f"{path.name}: {row.get('name', '(no name)')}"
            if not KEYS <= set(row) <= KEYS | MORE_KEYS:
                sys.exit(f"{where}: a row has {', '.join(sorted(KEYS))} and may have {', '.join(sorted(MORE_KEYS))}")
            if row["name"] in names:
                sys.exit(f"{where}: the name is taken")
            if not row["tests"] or any(not (ROOT / source_of(test)).is_file() for test in row["tests"]):
                sys.exit(f"{where}: a test is not there: {', '.join(row['tests']) or 'none is named'}")
            names.add(row["name"])
            rows.append(row)
    return rows


def processor_can():
    """The flags of this machine's processor, as Linux names them."""
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return {flag for line in lines if line.startswith(("flags", "Features")) for flag in line.split(":")[1].split()}


def part_of(rows, part):
    """Neighbours stay together, for they have tests in common."""
    number, parts = map(int, part.split("/"))
    if not 1 <= number <= parts:
        raise ValueError(part)
    return rows[(number - 1) * len(rows) // parts:number * len(rows) // parts]


def digest(row):
    """Of the row, its source and its tests: a verdict on other ones says nothing."""
    found = hashlib.sha256(json.dumps(row, sort_keys=True).encode())
    for path in [row["file"], *map(source_of, row["tests"])]:
        found.update((ROOT / path).read_bytes() if (ROOT / path).is_file() else b"")
    return found.hexdigest()[:16]


def read_results(path):
    """{digest: line} of an earlier run; the last line of a row counts."""
    if path is None or not path.exists():
        return {}
    return {line["digest"]: line for line in map(json.loads, path.read_text().splitlines())}


def note_result(path, row, verdict, note, seconds):
    if path is not None:
        with path.open("a") as file:
            print(json.dumps({"digest": digest(row), "name": row["name"], "verdict": verdict, "note": note,
                              "seconds": round(seconds, 1)}), file=file)


def tidy_results(path):
    """Leaves the last verdict of each name, in the order of names, so that a change of the file shows what is new."""
    last = {line["name"]: line for line in map(json.loads, path.read_text().splitlines())}
    path.write_text("".join(json.dumps(last[name]) + "\n" for name in sorted(last)))


def check_unbroken(rows, jobs):
    """Builds the named tests where the sources lie and runs each: {test: seconds}. All of them must pass."""
    tests = sorted({test for row in rows for test in row["tests"]})
    targets = sorted({target for test in tests for target in target_of(test)})
    try:
        build(ROOT, [*targets, *(["venv", "static"] if any(map(is_pytest, tests)) else [])], jobs)
    except Broken as broken:
        sys.exit(f"without any mutation {broken}")
    seconds = {}

    def timed(test):
        began = time.monotonic()
        failure = run_test(ROOT, test, BUILD_SECONDS)
        seconds[test] = time.monotonic() - began
        return failure

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        failures = [failure for failure in pool.map(timed, tests) if failure is not None]
    if failures:
        sys.exit("without any mutation these tests fail: " + "; ".join(failures))
    return seconds


def make_copy(name):
    """The tree as it lies there, with its objects and their times, so that make builds only what a mutation touches."""
    copy = COPIES / name
    shutil.rmtree(copy, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True,
                            check=True)
    for line in filter(None, listed.stdout.split("\0")):
        if (ROOT / line).is_file():
            (copy / line).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / line, copy / line, follow_symlinks=False)
    for part in COPIED_BUILDS:
        source, target = ROOT / "build" / part, copy / "build" / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        elif source.exists():
            shutil.copy2(source, target)
    for name in ("venv", "objects"):  # packages from PyPI; those of objects are object stores
        if (ROOT / "build" / name).exists():
            (copy / "build" / name).symlink_to(ROOT / "build" / name)
    return copy


def files_of(tree):
    """{path: (time, size)} of everything that was built."""
    found = {}
    for folder, folders, files in os.walk(tree / "build"):
        folders[:] = [name for name in folders if not os.path.islink(os.path.join(folder, name))]
        for name in files:
            status = os.stat(os.path.join(folder, name))
            found[os.path.relpath(os.path.join(folder, name), tree)] = status.st_mtime_ns, status.st_size
    return found


def restore(copy, pristine, file):
    """Takes what was built of a mutant out of the copy again, times and all."""
    shutil.copy2(pristine / file, copy / file)
    built, wanted = files_of(copy), files_of(pristine)
    for path in built.keys() - wanted.keys():
        os.unlink(copy / path)
    for path, status in wanted.items():
        if built.get(path) != status:
            put_back(pristine / path, copy / path)


def put_back(source, target):
    """Beside the old file, which may still be executed: a server may outlive its test by a moment."""
    beside = target.with_name(target.name + ".put-back")
    shutil.copy2(source, beside)
    beside.replace(target)


def judge(row, copy, pristine, seconds):
    """('caught', by what), ('lives', '') or ('BROKEN', why)."""
    path = copy / row["file"]
    try:
        text = path.read_text() if path.is_file() else ""
        try:
            path.write_text(mutation.replaced(text, row["old"], row["new"]))
        except ValueError as error:
            raise Broken(f"{error} in {row['file']}") from error
        for test in sorted(row["tests"], key=seconds.get):
            build(copy, target_of(test), 1)
            failure = run_test(copy, test, 30 + 5 * seconds[test])
            if failure is not None:
                return "caught", failure
        return "lives", ""
    except Broken as broken:
        return "BROKEN", str(broken)
    finally:
        if path.is_file():
            restore(copy, pristine, row["file"])


def judge_all(rows, seconds, jobs):
    pristine, free = make_copy("pristine"), queue.Queue()
    for number in range(jobs):
        free.put(make_copy(str(number)))

    def one(row):
        copy, began = free.get(), time.monotonic()
        try:
            return row, *judge(row, copy, pristine, seconds), time.monotonic() - began
        finally:
            free.put(copy)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for done in concurrent.futures.as_completed([pool.submit(one, row) for row in rows]):
            yield done.result()


def summarise(results):
    """Prints the summary; True when all is as it must be."""
    areas = collections.defaultdict(collections.Counter)
    unexplained, stale = [], []
    for row, verdict, _ in results:
        areas[row["name"].split(":")[0]][verdict] += 1
        if verdict == "lives" and not row.get("lives"):
            unexplained.append(row["name"])
        if verdict == "caught" and row.get("lives"):
            stale.append(row["name"])
    figures = (f"{area} {count['caught']} of {count.total()}" for area, count in sorted(areas.items()))
    print("\nby area: " + ", ".join(figures))
    for row, verdict, _ in results:
        if verdict == "lives" and row.get("lives"):
            print(f"accepted: {row['name']}: {row['lives']}")
    for name in unexplained:
        print(f"no test sees this, and no reason is given: {name}")
    for name in stale:
        print(f"listed as a survivor, but caught: {name}")
    total = collections.Counter(verdict for _, verdict, _ in results)
    print(f"{total['caught']} caught, {total['lives']} live, {total['BROKEN']} broken of {len(results)}")
    enough = total["caught"] >= LEAST_CAUGHT * len(results) > 0
    return enough and not unexplained and not stale and not total["BROKEN"]


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", metavar="TEXT", help="only the rows whose name contains TEXT")
    parser.add_argument("--table", action="append", type=pathlib.Path, metavar="FILE",
                        help="this table alone (may be given again)")
    parser.add_argument("--part", default="1/1", metavar="N/M", help="the Nth of M parts of the rows")
    parser.add_argument("--results", type=pathlib.Path, metavar="FILE",
                        help="add each verdict to FILE, and run no row again whose verdict it has")
    parser.add_argument("--sum", action="store_true", help="run nothing: sum up what --results has")
    options = parser.parse_args()
    if options.sum and options.results is None:
        parser.error("--sum sums up a file: give --results")
    return parser, options


def choose(parser, options):
    rows = read_tables(options.table or sorted(TABLES.glob("*.toml")))
    rows = [row for row in rows if options.only in row["name"]]
    flags = processor_can()
    for row in [row for row in rows if row.get("needs", "") not in flags | {""}]:
        print(f"{row['name']}: left out, for this processor has no {row['needs']}")
        rows.remove(row)
    try:
        rows = part_of(rows, options.part)
    except ValueError:
        parser.error(f"--part is N/M, N from 1 to M, not {options.part}")
    if not rows:
        sys.exit("no row has that name")
    return rows


def main():
    parser, options = options_of()
    rows, began, results, rest = choose(parser, options), time.monotonic(), [], []
    before = read_results(options.results)
    for row in rows:
        line = before.get(digest(row))
        if line is not None:
            results.append((row, line["verdict"], line["note"]))
        else:
            rest.append(row)
    if rest and not options.sum:
        seconds = check_unbroken(rest, options.jobs)
        print(f"{len(seconds)} tests pass without any mutation ({time.monotonic() - began:.0f} s)", flush=True)
        for row, verdict, note, took in judge_all(rest, seconds, options.jobs):
            results.append((row, verdict, note))
            note_result(options.results, row, verdict, note, took)
            lives = "lives, accepted" if row.get("lives") else "LIVES"
            label = {"caught": "caught by", "lives": lives}.get(verdict, verdict)
            print(f"{row['name']}: {' '.join(filter(None, (label, note)))} ({took:.0f} s)", flush=True)
        shutil.rmtree(COPIES, ignore_errors=True)
        if options.results is not None:
            tidy_results(options.results)
    good = summarise(results)
    if len(results) < len(rows):
        print(f"{len(rows) - len(results)} rows have no verdict yet")
    print(f"in {time.monotonic() - began:.0f} s", file=sys.stderr)
    return 0 if good and len(results) == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
