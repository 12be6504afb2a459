"""Images and containers without a daemon: buildah makes an image, and what is run of it runs as Docker or a kubelet
would have it, in namespaces of its own: its command as process 1, its user, its environment, its volumes, the root
file system perhaps read-only, a network of its own in which nothing but its own loopback and one address is."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
import uuid

import models

MACHINE = pathlib.Path(__file__).resolve().parents[1] / "fresh" / "machine.sh"
ADDRESS = "10.217.0.2"  # of the "pod", in its own network namespace
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SETTLED = ("succeeded", "failed", "cancelled")
BUILD_SECONDS, START_SECONDS, STOP_SECONDS = 5400, 600, 120


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr}")
    return done.stdout


class Store:
    """Images and working containers below one directory; what was mounted is unmounted at the end."""

    def __init__(self, directory):
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        overlay = "overlay" in pathlib.Path("/proc/filesystems").read_text()
        self.environment = os.environ | {"STORAGE_DRIVER": "overlay" if overlay else "vfs",
                                         "BUILDAH_ISOLATION": "chroot"}
        self.containers = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in self.containers:
            self.buildah("umount", name)
            self.buildah("rm", name)

    def buildah(self, *words, **more):
        where = ("--root", self.directory / "storage", "--runroot", self.directory / "run")
        return run("buildah", *where, *words, env=self.environment, **more).strip()

    def base(self, suite):
        """What stands for Docker's debian:SUITE-slim: debootstrap's minimal system with this machine's archive."""
        name = f"localhost/debian:{suite}-slim"
        if self.buildah("images", "-q", "--filter", f"reference={name}"):
            return
        tarball, root = self.directory / f"{suite}.tar", self.directory / f"{suite}.machine"
        script = (f". {MACHINE}; machine_needs check-images; machine_base {suite} {tarball} ''\n"
                  f"machine_unpack {suite} {tarball} {root}")
        run("bash", "-euc", script, timeout=BUILD_SECONDS)
        container = self.buildah("from", "scratch")
        self.buildah("copy", container, root, "/")
        self.buildah("commit", "-q", container, name)
        self.buildah("rm", container)
        shutil.rmtree(root)

    def build(self, context, target, suite="bookworm", *options):
        name = f"localhost/deltaq:{target}"
        self.buildah("bud", "--layers", "--format", "docker", "--target", target, "-t", name, "--build-arg",
                     f"BASE=localhost/debian:{suite}-slim", *options, context, timeout=BUILD_SECONDS)
        return Image(self, name)


class Image:
    def __init__(self, store, name):
        self.store, self.name = store, name
        self.config = json.loads(store.buildah("inspect", "--type", "image", name))["Docker"]["config"]

    def unpacked(self):
        """A writable copy of its files for one container."""
        container = self.store.buildah("from", "--pull-never", self.name)
        self.store.containers.append(container)
        return pathlib.Path(self.store.buildah("mount", container))


class Network:
    """A network namespace, as the containers of one pod share it."""

    def __init__(self):
        self.name = f"deltaq-{uuid.uuid4().hex[:8]}"

    def __enter__(self):
        run("ip", "netns", "add", self.name)
        run("ip", "-n", self.name, "link", "set", "lo", "up")
        run("ip", "-n", self.name, "addr", "add", f"{ADDRESS}/32", "dev", "lo")
        return self

    def __exit__(self, *_):
        run("ip", "netns", "del", self.name)

    def enter(self):
        return ("nsenter", f"--net=/run/netns/{self.name}")

    def curl(self, *words, token=None, body=None):
        """(HTTP status, body)."""
        command = [*self.enter(), "curl", "-s", "--max-time", "90", "-w", "\n%{http_code}", *words]
        command += ["-H", f"Authorization: Bearer {token}"] if token else []
        command += ["-H", "Content-Type: application/json", "-d", json.dumps(body)] if body is not None else []
        done = subprocess.run(command, capture_output=True, text=True)
        text, _, status = done.stdout.rpartition("\n")
        return int(status or 0), text

    def call(self, path, token, body=None, address="127.0.0.1:8642"):
        status, text = self.curl(f"http://{address}{path}", token=token, body=body)
        assert status in (200, 201, 202), f"{path}: {status} {text}"
        return json.loads(text)


def volume(directory, uid=10001):
    """A new one, as Docker makes it of the image's /data: with its owner and mode."""
    directory.mkdir(mode=0o700, parents=True)
    os.chown(directory, uid, uid)
    return directory


# Mounts what a container has, then becomes the command. $1 root, $2 read-only or "", $3 uid:gid, $4 working directory.
# Then pairs SOURCE TARGET of mounts (SOURCE "tmpfs": an empty directory of its own) up to "--".
ENTER = r"""
set -e
root=$1 read_only=$2 user=$3 directory=$4; shift 4
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777,size=64m tmpfs "$root/dev/shm"
while [ "$1" != -- ]; do
    mkdir -p "$root$2"
    if [ "$1" = tmpfs ]; then mount -t tmpfs -o mode=1777 tmpfs "$root$2"; else mount --bind "$1" "$root$2"; fi
    shift 2
done
shift
[ -z "$read_only" ] || mount -o remount,bind,ro "$root"
exec setpriv --no-new-privs chroot --userspec="$user" "$root" env -i -C "$directory" "$@"
"""


class Container:
    """A command of an image that runs. `mounts`: {target: directory on this machine, or "tmpfs"}."""

    def __init__(self, image, network, log, *arguments, entrypoint=None, environment=None, mounts=None, user=None,
                 read_only=False):
        config = image.config
        self.log, self.user = log, (user or config["User"])
        variables = dict(entry.split("=", 1) for entry in config["Env"]) | (environment or {})
        self.variables = [f"{name}={value}" for name, value in variables.items()]
        command = [*(entrypoint or config["Entrypoint"]), *(arguments or config["Cmd"])]
        pairs = [str(word) for target, source in (mounts or {}).items() for word in (source, target)]
        with open(log, "ab") as output:
            self.process = subprocess.Popen(
                [*network.enter(), "unshare", "--mount", "--propagation", "private", "--pid", "--fork",
                 "--kill-child", "bash", "-c", ENTER, "container", image.unpacked(), "yes" if read_only else "",
                 self.user, config["WorkingDir"], *pairs, "--", *self.variables, *command],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        self.stop_signal = signal.Signals[config.get("StopSignal") or "SIGTERM"]

    def pid(self):
        """Of the command on this machine, which is process 1 in its own namespace."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        while self.process.poll() is None:
            found = children.read_text().split()
            if found:
                return int(found[0])
            time.sleep(0.05)
        raise AssertionError(f"it ended with {self.process.returncode}: {self.output()}")

    def output(self):
        return pathlib.Path(self.log).read_text(errors="replace")

    def execute(self, *command, user=None):
        """Another command in the container, as its user, as `docker exec` and health checks run one."""
        uid, gid = (user or self.user).split(":")
        return subprocess.run(["nsenter", f"--target={self.pid()}", "--mount", "--pid", "--net", "--root", "--wd",
                               f"--setuid={uid}", f"--setgid={gid}", "env", "-i", *self.variables, *command],
                              capture_output=True, text=True, timeout=START_SECONDS)

    def wait_for(self, ready, what):
        """Until `ready()` is true; fails when the command ends before."""
        limit = time.monotonic() + START_SECONDS
        while not ready():
            assert self.process.poll() is None, f"it ended with {self.process.returncode}: {self.output()}"
            assert time.monotonic() < limit, f"{what}: not after {START_SECONDS} s: {self.output()}"
            time.sleep(0.5)

    def stop(self):
        """The exit status after the image's stop signal."""
        os.kill(self.pid(), self.stop_signal)
        return self.process.wait(STOP_SECONDS)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.kill(self.pid(), signal.SIGKILL)  # process 1, and with it the namespace
            self.process.wait()


def submit(network, token, data):
    """A tiny model is registered, and a run to quantize it submitted, through the port; the run."""
    models.write_llama(data / "models/tiny", seed=5)
    subprocess.run(["chown", "-R", "10001:10001", data / "models"], check=True)
    network.call("/v1/checkpoints", token, {"trajectory": "tiny", "name": "step0", "step": 0,
                                            "source": {"path": "/data/models/tiny"}})
    network.call("/v1/datasets", token, {"name": "rows", "sequences": models.rows(4, 32)})
    method = {"name": "gptq", "bits": 3, "group_size": 32}
    use = {"dataset": "rows", "sequence_length": None}
    return network.call("/v1/runs", token, {"kind": "quantize", "params": {
        "checkpoint": "tiny/step0", "method": method, "calibration": use, "evaluation": use}})


def settled(network, token, run):
    """The run once it has succeeded."""
    while run["state"] not in SETTLED:
        run = network.call(f"/v1/runs/{run['id']}?wait=60", token)
    assert run["state"] == "succeeded", run["error"]
    return run
