"""The measurement of docs/scale.md in small: it works, and no run is leased twice."""

import pathlib
import subprocess

import pytest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "build" / "release" / "tests" / "bench" / "queue_scale"


def test_many_workers_share_a_queue(tmp_path):
    if not TOOL.exists():
        pytest.skip("make pool-tools builds what this needs")
    done = subprocess.run([TOOL, "--workers", "20", "--runs", "300", "--seconds", "1"], capture_output=True, text=True,
                          env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)}, timeout=300)
    assert done.returncode == 0, done.stderr
    row = done.stdout.splitlines()[-1].split("|")
    assert [cell.strip() for cell in row[1:3]] == ["20", "300"] and float(row[6]) > 0, done.stdout
    assert list(tmp_path.iterdir()) == [], "its database is removed"
