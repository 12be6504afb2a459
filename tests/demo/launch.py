"""The server of the demo or the study: found when it runs already, started on a free port,
ended with everything that it started.

DIRECTORY/server.json names the server by its process id and the time at which the kernel started that process. A number
that another process has got since then is therefore never taken for the server. Standard library only.
"""

import contextlib
import errno
import json
import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.request

HOST = "127.0.0.1"
PORTS_TRIED = 100
START_SECONDS = 600  # a slow disk needs minutes for the first database
STOP_SECONDS = 7  # asked kindly for so long, then ended


class Trouble(Exception):
    """What went wrong and what to do, in words for the person in front of the terminal."""


class Interrupts:
    """SIGINT, SIGTERM and SIGHUP become KeyboardInterrupt,
    but for the lines under `held`, which are never cut in two."""

    def __init__(self):
        self.holding = self.pending = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._arrived)

    def _arrived(self, *_):
        if self.holding:
            self.pending = True
        else:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def held(self):
        self.holding = True
        try:
            yield
        finally:
            self.holding = False
        if self.pending:
            self.pending = False
            raise KeyboardInterrupt


def started_at(pid):
    """The kernel's start time of a living process, in clock ticks; None when there is none."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def descendants(roots):
    """{pid: start time} of these processes, all that they started, directly or not, and their sessions: what a process
    that ended has left behind keeps its session, though not its parent."""
    parents, sessions = {}, {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, IndexError):
                fields = pathlib.Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()
                parents[int(entry)], sessions[int(entry)] = int(fields[1]), int(fields[3])
    family = set(roots)
    while True:
        more = {child for child, parent in parents.items() if parent in family or sessions[child] in family} - family
        if not more:
            return {member: at for member in family if (at := started_at(member)) is not None}
        family |= more


def end(pid, seconds=STOP_SECONDS):
    """Ends a server, its workers and its PostgreSQL: SIGTERM to the server, SIGKILL to what is left of them later."""
    family = descendants([pid])
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    limit = time.monotonic() + seconds
    while True:
        for member, at in descendants(family).items():
            family.setdefault(member, at)
        left = [member for member, at in family.items() if started_at(member) == at]
        if not left:
            return
        if time.monotonic() > limit:
            for member in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)
        time.sleep(0.05)


def free_port(first):
    for port in range(first, min(first + PORTS_TRIED, 65536)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
                return port
            except OSError as error:
                if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    raise
    raise Trouble(f"no port from {first} on is free; name one with --port")


class Server:
    """`ours`: this process started the server, so that Ctrl-C ends it."""

    def __init__(self, directory, whose="demo"):
        self.whose = whose
        self.directory, self.note, self.log = directory, directory / "server.json", directory / "server.log"
        self.pid, self.url, self.ours, self.child = None, None, False, None
        self.began = 0  # bytes of the log before its process
        self.elsewhere = None  # starts it at the next free port

    def find(self):
        """Whether the server of this directory runs already."""
        try:
            note = json.loads(self.note.read_text())
            command = pathlib.Path(f"/proc/{note['pid']}/cmdline").read_bytes().split(b"\0")
            same = started_at(note["pid"]) == note["started_at"]
        except (OSError, ValueError, KeyError, TypeError):
            return False
        if not same or b"serve" not in command or os.fsencode(self.directory / "data") not in command:
            return False
        self.pid, self.url = note["pid"], note["url"]
        return True

    def start(self, interrupts, binary, port, workers):
        own = free_port(port)
        if own != port:
            print(f"port {port} is taken; the {self.whose}'s server uses {own}", flush=True)
        self.url = f"http://{HOST}:{own}"
        self.elsewhere = lambda: self.start(interrupts, binary, own, workers)
        command = [str(binary), "serve", "--listen", f"{HOST}:{own}", "--data-dir", str(self.directory / "data"),
                   "--root", str(self.directory), "--workers", str(workers), "--threads", "1"]
        with interrupts.held(), open(self.log, "ab") as log:
            self.began = log.tell()
            self.child = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                          start_new_session=True)
            self.pid, self.ours = self.child.pid, True
            self.note.write_text(json.dumps({"pid": self.pid, "started_at": started_at(self.pid), "url": self.url})
                                 + "\n")

    def wait(self, say=print):
        """Until the server is ready, as long as its process lives."""
        began = time.monotonic()
        told = began - 10
        while not (self.listening() and self.ready()):
            now = time.monotonic()
            if not self.alive():
                if f"{self.url.removeprefix('http://')} is in use" in self.said():  # since it was looked at
                    self.elsewhere()
                    continue
                raise Trouble("the server stopped while it started; "
                              f"its last lines:\n{self.last_lines()}\n(all of them: {self.log})")
            if now - began > START_SECONDS:
                raise Trouble(f"the server is not ready after {START_SECONDS} s; see {self.log}")
            if now - told > 15:
                say(f"waiting for the server: {now - began:.0f} s so far (the first start makes a database)")
                told = now
            time.sleep(0.1)

    def said(self):
        with open(self.log, "rb") as log:
            log.seek(self.began)
            return log.read().decode(errors="replace")

    def listening(self):
        """By its own word, since another server may answer at its port."""
        return self.child is None or f"listening on {self.url}" in self.said()

    def alive(self):
        if self.child is not None and self.child.poll() is not None:
            return False
        return started_at(self.pid) is not None

    def ready(self):
        try:
            with urllib.request.urlopen(self.url + "/readyz", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def last_lines(self):
        try:
            return "\n".join("  " + line for line in self.log.read_text(errors="replace").splitlines()[-5:])
        except OSError:
            return "  (no log)"

    def stop(self):
        if self.pid is not None and self.alive():
            end(self.pid)
        if self.child is not None:
            self.child.wait()
        self.note.unlink(missing_ok=True)
