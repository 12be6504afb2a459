"""A small file system in memory, mounted over a directory, for disks that are full or read only."""

import contextlib
import os
import subprocess

import pytest


@contextlib.contextmanager
def small_disk(directory, *options):
    """`options`: mount's, such as size=4m. Where mounting is not permitted the test is skipped."""
    command = ["mount", "-t", "tmpfs", "-o", ",".join(["mode=700", *options]), "tmpfs", directory]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("mounting a file system is not permitted here")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", directory], check=True)
