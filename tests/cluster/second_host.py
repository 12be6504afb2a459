"""A second host on this one: a network namespace with an address of its own at the end of a cable that can be pulled,
and workers in it that see neither the server's data directory nor its checkpoints."""

import contextlib
import os
import shutil
import subprocess

from service import BINARY

NAME = "second-host"


def missing():
    """Why there can be no such host here, or None."""
    if os.geteuid() != 0:
        return "needs root: a network namespace for the second host"
    if not shutil.which("ip"):
        return "needs the package iproute2"
    with contextlib.suppress(subprocess.CalledProcessError), Cable():
        return None
    return "needs the right to make network namespaces and links between them"


class Cable:
    """A link between this host (`near`) and a namespace (`far`). Pulled at this end, what the other sends goes nowhere,
    and nobody tells it; the address of this end stays."""

    def __init__(self):
        pid = os.getpid()
        self.name, self.link = f"deltaq-{pid}", f"dq{pid}"
        part, first = (pid >> 6) & 255, (pid & 63) << 2
        self.network = f"10.219.{part}.{first}/30"
        self.near, self.far = (f"10.219.{part}.{first + host}" for host in (1, 2))

    def __enter__(self):
        self.ip("netns", "add", self.name)
        try:
            self.ip("link", "add", f"{self.link}n", "type", "veth", "peer", "name", f"{self.link}f", "netns", self.name)
            self.ip("addr", "add", f"{self.near}/30", "dev", f"{self.link}n")
            self.ip("link", "set", f"{self.link}n", "up")
            self.ip("-n", self.name, "addr", "add", f"{self.far}/30", "dev", f"{self.link}f")
            self.ip("-n", self.name, "link", "set", f"{self.link}f", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        # at once: the namespace goes later, and the link with it, whose name the next cable takes
        subprocess.run(["ip", "link", "del", f"{self.link}n"], capture_output=True, check=False)
        self.ip("netns", "del", self.name)

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def pull(self):
        self.ip("link", "set", f"{self.link}n", "down")

    def plug(self):
        self.ip("link", "set", f"{self.link}n", "up")


class SecondHost:
    """One worker at a time, which knows the database's address and the bucket's, and a data directory of its own."""

    def __init__(self, cable, directory, url, hidden, environment):
        """`hidden`: directories of the first host."""
        self.cable, self.data, self.url, self.hidden = cable, directory / "data", url, hidden
        self.environment = {**environment, "DATABASE_URL": url}
        self.data.mkdir(parents=True)
        self.log = directory / "log"
        self.process = None

    def start(self):
        script = f"hostname {NAME}; " + "".join(f"mount -t tmpfs none '{place}'; " for place in self.hidden)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", self.cable.name, "unshare", "--mount", "--uts", "--propagation", "private",
                 "sh", "-euc", script + 'exec "$@"', "sh", BINARY, "worker", "--data-dir", self.data, "--threads", "2"],
                stderr=log, env=self.environment)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """As its administrator does."""
        self.process.terminate()
        return self.process.wait(60)
