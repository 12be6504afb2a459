"""Launchers on the cluster of the tests, for a server that has no workers of its own."""

import contextlib
import subprocess

from service import BINARY


class Launchers:
    def __init__(self, slurm, service, url):
        """`url`: the database's, as jobs reach it."""
        self.slurm, self.service, self.url = slurm, service, url
        self.logs = []

    def command(self, *options):
        usual = {"--interval": "1", "--idle-exit": "4", "--most-jobs": "3", "--time-limit": "600", "--threads": "1"}
        return [str(BINARY), "launcher", "slurm", "--database-url", self.url, "--data-dir", str(self.service.data),
                "--root", str(self.service.files),
                *(word for name, value in usual.items() if name not in options for word in (name, value)), *options]

    @property
    def environment(self):
        return {**self.service.environment, **self.slurm.environment}

    def start(self, *options):
        log = open(self.service.data / f"launcher-{len(self.logs)}.log", "w+")
        self.logs.append(log)
        return subprocess.Popen(self.command(*options), env=self.environment, stderr=log)

    @contextlib.contextmanager
    def launcher(self, *options):
        process = self.start(*options)
        try:
            yield process
        finally:
            process.terminate()
            assert process.wait(30) == 0, self.said()

    def said(self):
        text = ""
        for log in self.logs:
            log.seek(0)
            text += log.read()
        return text + "".join(path.read_text() for path in (self.service.data / "log").glob("slurm-*.log"))

    def sql(self, text):
        done = subprocess.run(["psql", "-XAtq", "-d", self.url, "-c", text], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def counts(self, run):
        return self.sql(f"select tries, crashes, stalls, expiries from runs where id = '{run}'")
