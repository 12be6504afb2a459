"""Processes of a cluster, found and signalled."""

import os
import pathlib


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def postgres_processes(directory):
    """Processes whose working directory is the cluster's."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "cwd") == str(directory / "pg" / "data"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found
