"""A real Slurm on this host: munged, slurmctld and three slurmd of one core each, without systemd, cgroups and
accounting. Two partitions have the same nodes: `work`, and `urgent`, whose jobs make those of `work` go back to their
queue."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest
from ports import free_ports

PROGRAMS = {"munge": ["munged"], "slurmctld": ["slurmctld"], "slurmd": ["slurmd"],
            "slurm-client": ["sbatch", "squeue", "scancel", "scontrol"]}
NODES = ("n1", "n2", "n3")

CONFIGURATION = """
ClusterName=deltaq
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge/socket
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd-%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
SlurmdTimeout=10
KillWait=15
MpiDefault=none
{nodes}
PartitionName=work Nodes=n[1-3] Default=YES State=UP MaxTime=120 PriorityTier=1
PartitionName=urgent Nodes=n[1-3] State=UP MaxTime=120 PriorityTier=9
"""


def missing():
    """Why there can be no Slurm here, or None."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    absent = [package for package, programs in PROGRAMS.items()
              if not all(shutil.which(program, path=path) for program in programs)]
    if absent:
        return f"needs the packages {', '.join(absent)}"
    return None if os.geteuid() == 0 else "needs root: slurmd starts jobs as their users"


class Cluster:
    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="deltaq-slurm-"))
        self.directory.chmod(0o755)
        self.conf = self.directory / "slurm.conf"
        self.environment = {"SLURM_CONF": str(self.conf), "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self):
        munge, ports = self.directory / "munge", free_ports(1 + len(NODES))
        munge.mkdir(mode=0o755)
        (self.directory / "state").mkdir()
        (munge / "key").write_bytes(os.urandom(1024))
        (munge / "key").chmod(0o400)
        self.daemon("munged", f"--key-file={munge}/key", f"--socket={munge}/socket", f"--pid-file={munge}/pid",
                    f"--log-file={munge}/log", f"--seed-file={munge}/seed", "--force")
        nodes = "\n".join(f"NodeName={node} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={port} CPUs=1"
                          " RealMemory=1500 State=UNKNOWN" for node, port in zip(NODES, ports[1:]))
        self.conf.write_text(CONFIGURATION.format(host=socket.gethostname(), ports=ports, directory=self.directory,
                                                  nodes=nodes))
        self.daemon("slurmctld", "-f", self.conf)
        for node in NODES:
            self.node_up(node)
        self.until(lambda: self.states().count("idle") == len(NODES), "the nodes are not idle")

    def daemon(self, *words):
        subprocess.run(list(map(str, words)), check=True, env={**os.environ, **self.environment},
                       capture_output=True, timeout=60)

    def call(self, *words, **more):
        done = subprocess.run(list(map(str, words)), env={**os.environ, **self.environment}, capture_output=True,
                              text=True, timeout=60, **more)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout.strip()

    def until(self, condition, complaint, limit=120):
        end = time.monotonic() + limit
        while not condition():
            assert time.monotonic() < end, f"{complaint}: {self.states()} {self.jobs()}"
            time.sleep(0.2)

    def states(self):
        return self.call("sinfo", "--noheader", "--Node", "--partition=work", "--format=%t").split()

    def jobs(self, state=None):
        """[(id, name, state, node)] of all that have not ended."""
        lines = self.call("squeue", "--noheader", "--array", "--format=%A|%j|%T|%N").splitlines()
        found = [tuple(line.split("|")) for line in lines]
        return [job for job in found if state in (None, job[2])]

    def cancel(self, node):
        """What works there. An array's tasks go by their handles: by the number of its first, all of them would."""
        handles = self.call("squeue", "--noheader", "--array", f"--nodelist={node}", "--states=RUNNING", "--format=%i")
        assert handles, f"nothing works on {node}"
        self.call("scancel", *handles.split())

    def node_up(self, node):
        (self.directory / f"spool-{node}").mkdir(exist_ok=True)
        self.daemon("slurmd", "-f", self.conf, "-N", node)

    def lose_node(self, node):
        """As if the power was cut: its slurmd and all processes of its jobs are gone at once."""
        os.kill(int((self.directory / f"slurmd-{node}.pid").read_text()), signal.SIGKILL)
        lost = {job for job, _, _, where in self.jobs() if where == node}
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                words = (entry / "environ").read_bytes().split(b"\0") if entry.name.isdigit() else []
                name = (entry / "comm").read_text().strip() if words else ""
                steps = f"slurmstepd: [{next(iter(lost), '')}." in (entry / "cmdline").read_text() if words else False
                if any(f"SLURM_JOB_ID={job}".encode() in words for job in lost) or (name == "slurmstepd" and steps):
                    os.kill(int(entry.name), signal.SIGKILL)
        return lost

    def stop(self):
        with contextlib.suppress(Exception):
            self.call("scancel", "--user=root", "--signal=KILL", "--full")
            self.call("scancel", "--user=root")
            self.until(lambda: not self.jobs(), "jobs do not end", 20)
        for file in [*self.directory.glob("slurmd-*.pid"), self.directory / "slurmctld.pid",
                     self.directory / "munge" / "pid"]:
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(file.read_text()), signal.SIGTERM)
        end = time.monotonic() + 20
        while time.monotonic() < end and any(self.directory.glob("slurm*.pid")):
            time.sleep(0.1)
        shutil.rmtree(self.directory, ignore_errors=True)


@pytest.fixture(scope="session")
def slurm():
    if missing():
        pytest.skip(missing())
    cluster = Cluster()
    yield cluster
    cluster.stop()
