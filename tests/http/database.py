"""A database that is made already. Most of what a server does at its first start is to have PostgreSQL make its
database and to lay out the schema; the tests start some sixty. DELTAQ_TEST_DATABASE names a directory (tests/run.py
makes one for its suites): the first test that wants a server has the product make a database there, and each begins
with a copy of it, as do the unit tests of server/store once it is there. Without the variable each makes its own, as
the tests of that first start always do (tests/pool/test_cluster.py, tests/demo, tests/unit/server/postgres)."""

import fcntl
import os
import pathlib
import shutil
import signal
import subprocess


def lay(binary, data):
    """A copy in the data directory `data`, unless it has a database."""
    place = os.environ.get("DELTAQ_TEST_DATABASE")
    if not place or (data / "pg").exists():
        return
    made = pathlib.Path(place) / "made"
    with open(pathlib.Path(place) / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            os.rename(make(binary, pathlib.Path(place)), made)
    data.mkdir(mode=0o700, exist_ok=True)
    subprocess.run(["cp", "-a", made / "pg", data], check=True)


def make(binary, place):
    """A data directory after the first start of a server and its orderly end, with the database alone."""
    data = place / "new"
    shutil.rmtree(data, ignore_errors=True)
    with open(place / "log", "wb") as log:
        server = subprocess.Popen(
            [binary, "serve", "--listen", "127.0.0.1:0", "--data-dir", data, "--workers", "0"],
            stdout=subprocess.PIPE,
            stderr=log,
        )
    line = server.stdout.readline()
    server.send_signal(signal.SIGTERM)
    assert server.wait(timeout=60) == 0 and line.startswith(b"deltaq listening on "), (place / "log").read_text()
    server.stdout.close()
    for entry in (data / "pg").iterdir():
        if entry.name != "data":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    return data
