"""What the tests of the pool share: pool_tool as processes on a temporary data directory, and SQL through psql, so that
nothing that is tested is also what looks."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import database
import pytest
from gate import Gate
from processes import postgres_processes, send

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ROOT / "build" / "release" / "tests" / "pool"


class Process:
    """A pool_tool command that says `ready PID CONNINFO` and runs until it is told to stop."""

    def __init__(self, *arguments, variant="plain", **environment):
        self.errors = tempfile.NamedTemporaryFile("w+", suffix=".log")
        self.handle = subprocess.Popen([TOOLS / f"pool_tool_{variant}", *map(str, arguments)],
                                       stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                       env={**os.environ, **{k: str(v) for k, v in environment.items()}})
        self.pid, self.postmaster, self.conninfo = self.handle.pid, 0, ""

    def ready(self):
        for line in self.handle.stdout:
            if line.startswith("ready "):
                _, postmaster, self.conninfo = line.strip().split(" ", 2)
                self.postmaster = int(postmaster)
                return self
        raise AssertionError(f"not ready: exit {self.handle.wait(30)}: {self.said()}")

    def said(self):
        return pathlib.Path(self.errors.name).read_text()

    def kill(self, number=signal.SIGKILL):
        try:
            self.handle.send_signal(number)
        except ProcessLookupError:
            pass

    def close(self):
        """Of one that has ended: its pipe and its file."""
        self.handle.stdout.close()
        self.errors.close()

    def stop(self, limit=30):
        if self.handle.poll() is None:
            self.kill(signal.SIGCONT)
            self.kill(signal.SIGTERM)
        try:
            return self.handle.wait(limit)
        except subprocess.TimeoutExpired:
            self.kill()
            self.handle.wait()
            raise


class Pool:
    """One data directory and everything that was started on it."""

    def __init__(self, directory):
        self.directory, self.processes, self.conninfo = directory, [], ""
        self.gate = Gate(directory / "gate")

    def start(self, *arguments, **more):
        self.processes.append(Process(*arguments, **self.gate.environment, **more))
        return self.processes[-1]

    def forget(self, process):
        """Of thousands that end no descriptor may stay."""
        process.kill()
        process.handle.wait()
        process.close()
        self.processes.remove(process)

    def cluster(self):
        process = self.start("cluster", self.directory).ready()
        self.conninfo = process.conninfo
        return process

    def serve(self, workers, **environment):
        database.lay(ROOT / "build" / "deltaq", self.directory)
        process = self.start("serve", self.directory, workers, **environment).ready()
        self.conninfo = process.conninfo
        return process

    def migrate(self):
        subprocess.run([TOOLS / "pool_tool_plain", "migrate", self.conninfo], check=True, capture_output=True)

    def worker(self, variant="plain", **environment):
        return self.start("worker", self.directory, variant=variant, DATABASE_URL=self.conninfo, **environment)

    def call(self, verb, what):
        done = subprocess.run([TOOLS / "pool_tool_plain", verb, self.conninfo, what], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def submit(self, **params):
        return self.call("submit", json.dumps(params))["id"]

    def sql(self, query):
        """Rows as a list of objects."""
        text = f"select coalesce(json_agg(q), '[]') from ({query}) q"
        done = subprocess.run(["psql", "-XAtq", "-d", self.conninfo, "-c", text], capture_output=True,
                              text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def execute(self, statement):
        done = subprocess.run(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", self.conninfo], input=statement,
                              capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr

    def submit_held(self, **params):
        """A run that is held in its middle by the time this returns, under its first lease alone."""
        self.gate.hold("pace", 2, "step")
        run = self.submit(steps=5, **params)
        self.gate.wait(run)
        return run

    def wait(self, run, states=("succeeded", "failed", "cancelled"), limit=120):
        end = time.monotonic() + limit
        while time.monotonic() < end:
            document = self.call("get", run)
            if document["state"] in states:
                return document
            time.sleep(0.05)
        raise AssertionError(f"still {document['state']} after {limit} s: {document}")

    def abandon(self):
        """Ends everything without the checkpoint of an orderly stop, which the tests of stopping wait for."""
        for process in self.processes:
            if process.handle.poll() is None:
                process.kill()
                process.handle.wait()
        try:
            postmaster = int((self.directory / "pg/data/postmaster.pid").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            postmaster = 0
        for pid in postgres_processes(self.directory):
            send(pid, signal.SIGQUIT if pid == postmaster else signal.SIGCONT)
        end = time.monotonic() + 10
        while postgres_processes(self.directory) and time.monotonic() < end:
            time.sleep(0.02)
        for pid in postgres_processes(self.directory):
            send(pid, signal.SIGKILL)


@pytest.fixture
def pool():
    directory = pathlib.Path(tempfile.mkdtemp(prefix="deltaq-pool-"))
    pool = Pool(directory)
    yield pool
    pool.abandon()
    shutil.rmtree(directory, ignore_errors=True)
