"""Ceph's object gateway on this host: one monitor, one store in memory and radosgw, without systemd, a manager and
authentication between them. A second S3 server, and a second STS, that others wrote."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
import uuid

from ports import free_ports

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = pathlib.Path(os.environ.get("DELTAQ_OBJECTS", ROOT / "build" / "objects"))
PROGRAMS = {"ceph-mon": "ceph-mon", "ceph-osd": "ceph-osd", "ceph-common": "ceph", "radosgw": "radosgw"}
KEYS = {"access": "AKIDOFTHEGATEWAY", "secret": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYGATEWAY"}

CONFIGURATION = """
[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{ports[0]},v1:127.0.0.1:{ports[1]}]
public addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
run dir = {directory}
admin socket = {directory}/$name.asok
pid file = {directory}/$name.pid
log file = {directory}/$name.log
crash dir = {directory}
mon data = {directory}/mon
osd data = {directory}/osd
osd objectstore = memstore
memstore device bytes = 2147483648
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pgp num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon warn on pool no redundancy = false
mon data avail crit = 1
mon max pg per osd = 1000
ms bind ipv6 = false
ms mon client mode = crc
keyring = {directory}/keyring
rgw frontends = beast endpoint=127.0.0.1:{ports[2]}
rgw data = {directory}/rgw
rgw sts key = 0123456789abcdef
rgw s3 auth use sts = true
rgw verify ssl = false
rgw dynamic resharding = false
rgw enable usage log = false
rgw thread pool size = 32
"""


def missing():
    """Why there can be no gateway here, or None."""
    absent = [package for package, program in PROGRAMS.items() if not shutil.which(program)]
    if absent:
        return f"needs the packages {', '.join(absent)}"
    return None if (PACKAGES / ".made").exists() else "build/objects is not there: make objects"


class Gateway:
    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="deltaq-radosgw-"))
        self.conf, self.daemons = self.directory / "ceph.conf", []
        self.region = "default"  # the name of a gateway's own zone group
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self):
        fsid, store, ports = uuid.uuid4(), uuid.uuid4(), free_ports(3)
        self.conf.write_text(CONFIGURATION.format(fsid=fsid, ports=ports, directory=self.directory))
        for name in ("mon", "osd", "rgw"):
            (self.directory / name).mkdir()
        (self.directory / "keyring").touch()
        self.url = f"http://127.0.0.1:{ports[2]}"
        map_file = self.directory / "monmap"
        self.call("monmaptool", "--create", "--fsid", fsid, "--addv", "a",
                  f"[v2:127.0.0.1:{ports[0]},v1:127.0.0.1:{ports[1]}]", map_file)
        self.ceph("ceph-mon", "--mkfs", "-i", "a", "--monmap", map_file)
        self.daemon("ceph-mon", "-i", "a")
        self.ceph("ceph", "osd", "new", store)
        self.ceph("ceph", "osd", "crush", "add", "osd.0", "1", "root=default", "host=here")
        self.ceph("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", store)
        self.daemon("ceph-osd", "-i", "0")
        self.ceph("radosgw-admin", "user", "create", "--uid=lab", "--display-name=lab",
                  f"--access-key={KEYS['access']}", f"--secret-key={KEYS['secret']}",
                  "--caps=roles=*;oidc-provider=*")
        self.daemon("radosgw", "-n", "client.rgw")
        self.until_answers()

    def call(self, *words):
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def ceph(self, program, *words):
        return self.call(program, "-c", self.conf, *words)

    def daemon(self, program, *words):
        log = open(self.directory / f"{program}.out", "wb")
        self.daemons.append(subprocess.Popen([program, "-c", str(self.conf), "-f", *words], stdout=log, stderr=log))
        log.close()

    def until_answers(self):
        end = time.monotonic() + 120
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(self.url, timeout=5).close()
                return
            assert all(d.poll() is None for d in self.daemons) and time.monotonic() < end, "the gateway does not answer"
            time.sleep(0.2)

    def ask(self, *calls):
        """[(service, method, arguments), …] by boto3, as the gateway's user: the list of their answers."""
        done = subprocess.run([PACKAGES / "bin" / "python", pathlib.Path(__file__).parent / "client.py"],
                              input=json.dumps({"url": self.url, "region": self.region, "keys": KEYS, "calls": calls}),
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def put_files(self, bucket, prefix, directory):
        self.ask(*[("s3", "upload_file", {"Filename": str(path), "Bucket": bucket, "Key": f"{prefix}/{path.name}"})
                   for path in directory.iterdir()])

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGKILL)  # nothing is kept
            daemon.wait()
        shutil.rmtree(self.directory, ignore_errors=True)
