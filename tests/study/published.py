#!/usr/bin/env python3
"""What a study publishes, and how another begins with it.

    published.py FROM TO    copies the report of the study in FROM, its tables, figures and units to TO, a folder of
                            the tree

A study in an empty directory can begin with the published units of its own engine revision and the time that they
took (`adopt`): so a study of many hours may be made in several sittings, also on several machines.
"""

import csv
import gzip
import io
import json
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "demo"))

import cells  # noqa: E402

PUBLISHED = pathlib.Path(__file__).resolve().parents[2] / "docs" / "study"
# Earlier revisions of the engine that gave the same numbers for all that a study asks for, and why. No unit of a
# mixture of experts or a state space model was published before revision 8.
EQUAL = {
    4: (3,),  # 4 is about overrides, rounded inputs, experts, dead inputs, constants, unlike lengths: no study has them
    5: (3, 4),  # 5 is about clips of awq below float precision: a study computes in float
    6: (3, 4, 5),  # 6 is about rare tokenizers, OPT, and errors of eigenvalues that were not found: no study has them
    7: (3, 4, 5, 6),  # 7 is about sgdr with growth, and tied matrices rounded as both ends: no study has them
    8: (3, 4, 5, 6, 7),  # 8 is about absent keys of configurations: a study's llama has none with another default
}
PATTERNS = ("REPORT.md", "findings.csv", "findings.json", "*.svg")
ROWS = "measurements.csv"  # thousands of rows: compressed
UNITS = "units.json"


def optional(kind):
    return lambda text: kind(text) if text else None


# Columns of ROWS that are not text, and those that are made anew from all rows.
KINDS = {
    "seed": int,
    "peak": float,
    "weight_decay": float,
    "branch": int,
    "tokens": int,
    "end": lambda text: text == "True",
    "draw": optional(int),
    "value": float,
    "low": optional(float),
    "high": optional(float),
}
NUMBERED = "id"


# --- publishing -------------------------------------------------------------------------------------------------------
def units(source):
    """{"engine_revision", "by": [version and machine], "commands", "seconds",
    "units": {label: {"digest", "seconds" or null}}} of the study in `source`."""
    kept = json.loads((source / "time.json").read_text())
    facts = json.loads((source / "findings.json").read_text())["facts"]
    names = [file.stem.rpartition("-") for file in sorted((source / "units").glob("*.json"))]
    return {
        "engine_revision": facts["engine_revision"],
        "by": [*kept["by"], f"{facts['words']['version']} on {facts['words']['machine']}"],
        "commands": kept.get("commands", []),
        "seconds": kept["seconds"],
        "units": {label: {"digest": digest, "seconds": kept["units"].get(label)} for label, _, digest in names},
    }


def publish(source, target):
    """Gives the files that were written."""
    files = [file for pattern in PATTERNS for file in sorted(source.glob(pattern))]
    if not (source / "REPORT.md").is_file():
        sys.exit(f"publish: there is no report in {source}; run `make study` first")
    target.mkdir(parents=True, exist_ok=True)
    for old in target.glob("*.svg"):
        old.unlink()
    for file in files:
        shutil.copyfile(file, target / file.name)
    rows = target / f"{ROWS}.gz"
    rows.write_bytes(gzip.compress((source / ROWS).read_bytes(), mtime=0))
    (target / UNITS).write_text(json.dumps(units(source), indent=1) + "\n")
    return [target / file.name for file in files] + [rows, target / UNITS]


# --- adopting ---------------------------------------------------------------------------------------------------------
def rows_of(source):
    """{unit's label: its rows as they were measured}"""
    found = {}
    text = gzip.decompress((source / f"{ROWS}.gz").read_bytes()).decode()
    for row in csv.DictReader(io.StringIO(text)):
        typed = {name: KINDS.get(name, str)(value) for name, value in row.items() if name != NUMBERED}
        found.setdefault(f"{typed['cell']}-s{typed['seed']}", []).append(typed)
    return found


def adopt(source, directory, all_cells, revision):
    """Begins the study in `directory` with the units published in `source`, unless it has begun or the engine computes
    other bits since. Units whose cell is defined otherwise now stay behind. Gives the labels of those adopted."""
    begun = (directory / "time.json").exists() or any((directory / "units").glob("*.json"))
    if begun or not (source / UNITS).is_file():
        return []
    kept = json.loads((source / UNITS).read_text())
    if kept["engine_revision"] not in (revision, *EQUAL.get(revision, ())):
        return []
    defined = {name: cells.digest(cell) for name, cell in all_cells.items()}
    fit = [label for label, unit in kept["units"].items() if defined.get(cells.cell_of(label)) == unit["digest"]]
    if not fit:
        return []
    rows = rows_of(source)
    (directory / "units").mkdir(parents=True, exist_ok=True)
    for label in fit:
        file = directory / "units" / f"{label}-{kept['units'][label]['digest']}.json"
        file.write_text(json.dumps(rows[label]))
    seconds = {label: kept["units"][label]["seconds"] for label in fit if kept["units"][label]["seconds"] is not None}
    spent = kept["seconds"] * len(fit) / len(kept["units"])
    clock = {"seconds": spent, "units": seconds, "begun": {}, "by": kept["by"], "commands": kept.get("commands", [])}
    (directory / "time.json").write_text(json.dumps(clock) + "\n")
    return fit


def main():
    target = pathlib.Path(sys.argv[2])
    files = publish(pathlib.Path(sys.argv[1]), target)
    print(f"{len(files)} files in {target} ({sum(file.stat().st_size for file in files) / 1e6:.1f} MB)")


if __name__ == "__main__":
    main()
