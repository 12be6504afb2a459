"""A PostgreSQL of its own for tests that want more than the private one."""

import os
import pathlib
import pwd
import subprocess
import time

import pytest


def newest_postgres():
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name))
    return found[-1] if found else None


class Database:
    """A plain PostgreSQL as somebody else would run it: made and started by its own tools. `address`: of this host, at
    which those of `network` reach it, too, with passwords."""

    def __init__(self, directory, address="", network=None):
        self.binaries, self.directory = newest_postgres(), directory
        if self.binaries is None:
            pytest.skip("no PostgreSQL server is installed")
        directory.mkdir()
        self.as_user = {}
        if os.geteuid() == 0:
            entry = pwd.getpwnam("postgres")
            os.chown(directory, entry.pw_uid, entry.pw_gid)
            for parent in directory.parents:
                if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
                    parent.chmod(parent.stat().st_mode | 0o011)
            self.as_user = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        run = {"check": True, "capture_output": True, "cwd": "/", **self.as_user}
        subprocess.run([self.binaries / "initdb", "-D", directory / "data", "-U", "deltaq", "-A", "trust", "--no-sync",
                        "--locale=C", "-E", "UTF8"], **run)
        if network:
            with open(directory / "data" / "pg_hba.conf", "a") as rules:
                rules.write(f"host all all {network} scram-sha-256\n")
        self.log = open(directory / "log", "wb")
        self.process = subprocess.Popen([self.binaries / "postgres", "-D", directory / "data",
                                         "-k", directory, "-c", f"listen_addresses={address}", "-c", "fsync=off"],
                                        stdout=self.log, stderr=self.log, cwd="/", **self.as_user)
        self.url = f"postgresql:///postgres?host={directory}&user=deltaq"
        end = time.monotonic() + 120
        while self.sql("select 1") != "1":
            assert time.monotonic() < end and self.process.poll() is None, (directory / "log").read_text()
            time.sleep(0.1)

    def sql(self, query):
        return subprocess.run(["psql", "-XAtq", "-d", self.url, "-c", query], capture_output=True, text=True,
                              timeout=30).stdout.strip()

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.send_signal(3)  # SIGQUIT
            self.process.wait(10)
        self.log.close()
