#!/usr/bin/env python3
"""Copies the report of a study, its tables and figures into a folder of the tree: publish.py FROM TO."""

import pathlib
import shutil
import sys

PATTERNS = ("REPORT.md", "*.csv", "findings.json", "*.svg")  # measurements.csv has what measurements.json has


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
    print(f"{len(files)} files in {target} ({sum(file.stat().st_size for file in files) / 1e6:.1f} MB)")


if __name__ == "__main__":
    main()
