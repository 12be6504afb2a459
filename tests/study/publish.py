#!/usr/bin/env python3
"""Copies the report of a study, its tables and figures into a folder of the tree: publish.py FROM TO."""

import gzip
import pathlib
import shutil
import sys

PATTERNS = ("REPORT.md", "findings.csv", "findings.json", "*.svg")
ROWS = "measurements.csv"  # thousands of rows: compressed


def main():
    source, target = map(pathlib.Path, sys.argv[1:])
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
    files.append(rows)
    print(f"{len(files)} files in {target} ({sum(file.stat().st_size for file in files) / 1e6:.1f} MB)")


if __name__ == "__main__":
    main()
