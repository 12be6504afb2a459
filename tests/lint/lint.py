#!/usr/bin/env python3
"""Checks that the tree keeps its own rules. Each rule is a function that yields complaints; exit status 1 if any did.

Rules: includes point down only; every header compiles alone; a file's exported names start with its own name; banned functions; no
left-over markers; comments laid out by hand; clang-format. Standard library only."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Each room and the rooms whose headers it may include besides its own. "engine" means every room of the engine.
BASE = {"base"}
READING = BASE | {"tensor", "files", "formats", "weights", "tokenizer", "dataset"}
MODELS = READING | {"backend", "model"}
ENGINE = {
    "base": set(),
    "tensor": BASE,
    "files": BASE | {"tensor"},
    "formats": BASE | {"tensor", "files"},
    "weights": BASE | {"tensor", "files", "formats"},
    "tokenizer": BASE | {"tensor", "files", "formats", "weights"},
    "dataset": BASE | {"tensor", "files", "tokenizer"},
    "backend": BASE | {"tensor"},
    "model": READING | {"backend"},
    "eval": MODELS,
    "quant": MODELS | {"eval"},
    "train": MODELS | {"eval"},
    "curvature": MODELS | {"eval"},
    "geometry": MODELS,
    "health": READING,
    "tasks": READING,
    "jobs": MODELS | {"eval", "quant", "train", "curvature", "geometry", "health", "tasks"},
}
ALL_ENGINE = set(ENGINE)
SERVER = {
    "http": BASE,
    "postgres": BASE,
    "store": BASE | {"postgres"},
    "schema": BASE,
    "hub": BASE,
    "inputs": ALL_ENGINE | {"schema", "store", "postgres", "hub"},
    "kinds": ALL_ENGINE | {"inputs", "schema", "store", "postgres", "hub"},
    "runs": ALL_ENGINE | {"inputs", "kinds", "schema", "store", "postgres", "hub"},
    "pool": ALL_ENGINE | {"inputs", "kinds", "runs", "schema", "store", "postgres", "hub"},
    "resources": ALL_ENGINE | {"http", "schema", "inputs", "kinds", "runs", "store", "postgres", "hub", "pool", "watch"},
    "watch": ALL_ENGINE | {"inputs", "kinds", "runs", "schema", "store", "postgres", "hub"},
    "cli": ALL_ENGINE | {"http", "schema", "inputs", "kinds", "runs", "store", "postgres", "hub", "pool", "resources", "watch"},
    "main.c": ALL_ENGINE | {"cli"},
}
ENGINE_FORBIDS = ("jansson.h", "microhttpd.h", "libpq-fe.h", "openssl/")
BANNED = ("strcpy", "strcat", "sprintf", "vsprintf", "gets", "atoi", "atol", "atof", "strtok", "alloca", "system", "popen")
MARKERS = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")


def sources(*endings):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / line for line in listed.stdout.splitlines() if line.endswith(endings) and (ROOT / line).is_file()]


def room_of(path):
    parts = path.relative_to(ROOT).parts
    return parts[0], parts[1] if len(parts) > 1 else ""


def includes(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
        if found:
            yield number, found.group(1), found.group(2)


def rule_layers():
    for path in sources(".c", ".h", ".cu"):
        side, room = room_of(path)
        if side not in ("engine", "server"):
            continue
        allowed = (ENGINE if side == "engine" else SERVER).get(room)
        if allowed is None:
            yield f"{path.relative_to(ROOT)}: room {side}/{room} has no row in tests/lint/lint.py"
            continue
        for number, kind, name in includes(path):
            where = f"{path.relative_to(ROOT)}:{number}"
            if side == "engine" and name.startswith(ENGINE_FORBIDS):
                yield f"{where}: the engine may not include {name}"
            target = name.split("/")[0]
            if kind == '"' and "/" in name and target != room and target not in allowed:
                yield f"{where}: {side}/{room} may not include {name}"


def rule_headers_alone():
    for path in sources(".h"):
        side, _ = room_of(path)
        if side not in ("engine", "server") or "reference" in path.parts or "kernels" in path.parts:
            continue
        command = ["cc", "-std=c11", "-D_GNU_SOURCE", "-Iengine", "-Iserver", "-fsyntax-only", "-x", "c", str(path)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            yield f"{path.relative_to(ROOT)} does not compile alone: {done.stderr.splitlines()[0]}"


def rule_banned():
    pattern = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")
    for path in sources(".c", ".h", ".cu"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = line.split("//")[0]
            if not code.lstrip().startswith(("*", "/*")) and pattern.search(code):
                yield f"{path.relative_to(ROOT)}:{number}: banned function {pattern.search(code).group(1)}"


def rule_markers():
    for path in sources(".c", ".h", ".cu", ".py", ".js", ".sql", ".html", ".css", ".md", ".yaml"):
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if MARKERS.search(line):
                yield f"{path.relative_to(ROOT)}:{number}: left-over marker"


def rule_comments():
    """clang-format leaves comments as they are (ReflowComments: false); what it once did to them may not come back."""
    for path in sources(".c", ".h", ".cu"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            where = f"{path.relative_to(ROOT)}:{number}"
            if re.match(r"\s*/?\*+ ?-{3,}", line) and not line.endswith("*/") or re.match(r"\s*\* ?-{5,}", line):
                yield f"{where}: a section's banner is one line, /* --- Title ---- */"
            if re.match(r"\s*\*/\s*$", line):
                yield f"{where}: */ ends the last line of its comment, not one of its own"


COLUMNS = 120


def rule_columns():
    """Two files side by side on a screen. Characters, not bytes; an address may be longer."""
    for path in sources(".c", ".h", ".cu"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if len(line) > COLUMNS and "://" not in line:
                yield f"{path.relative_to(ROOT)}:{number}: {len(line)} columns; at most {COLUMNS}"


def rule_length():
    for path in sources(".c", ".h", ".cu", ".py", ".js"):
        lines = len(path.read_text(errors="replace").splitlines())
        if lines > 600:
            yield f"{path.relative_to(ROOT)}: {lines} lines; a newcomer would rather find two rooms here"


FORMATTER = 14  # Debian 12's; others lay some lines out in another way


def rule_format():
    version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True).stdout
    if f"version {FORMATTER}." not in version:
        print(f"lint: layout not checked: it is clang-format {FORMATTER}'s, this is {version.strip()}")
        return
    files = [str(path) for path in sources(".c", ".h")]
    for start in range(0, len(files), 50):
        done = subprocess.run(["clang-format", "--dry-run", "-Werror", *files[start : start + 50]], cwd=ROOT, capture_output=True, text=True)
        for line in done.stderr.splitlines():
            if "error:" in line:
                yield f"{line.split(': error')[0].replace(str(ROOT) + '/', '')}: not as clang-format has it (make format)"


def main():
    rules = [value for name, value in sorted(globals().items()) if name.startswith("rule_")]
    complaints = 0
    for rule in rules:
        for complaint in rule():
            complaints += 1
            if complaints <= 60:
                print(complaint)
    print(f"lint: {len(rules)} rules, {complaints} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
