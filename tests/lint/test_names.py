"""Every name that a Python file uses is defined there or imported: a line that is seldom reached would not tell."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def undefined(*files):
    done = subprocess.run([sys.executable, "-m", "pyflakes", *files], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode in (0, 1) and not done.stderr, done.stderr
    return [line for line in done.stdout.splitlines() if "undefined name" in line]


def test_no_file_uses_an_undefined_name():
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a clone: git knows no files here")
    assert undefined(*listed.stdout.split()) == []


def test_an_undefined_name_is_found(tmp_path):
    (tmp_path / "uses.py").write_text("import os\n\n\ndef path():\n    return os.sep + hashlib.name\n")
    assert len(undefined(tmp_path / "uses.py")) == 1
