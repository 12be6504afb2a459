"""A sweep over a trajectory in a bucket, on a server, Slurm and a second host at once: nodes are killed, drained and
preempted meanwhile, the second host is killed and cut off, and what comes out is what one machine computes."""

import collections
import hashlib
import json
import pathlib

import object_store
import pytest
import second_host
from cluster import NODES, missing
from lab import KEYS, Lab, ask_for_sweep
from second_host import NAME, Cable
from service import Service

ABSENT = object_store.ABSENT if not (object_store.PACKAGES / ".made").exists() else None


@pytest.fixture
def lab(request, tmp_path):
    reason = ABSENT or missing() or second_host.missing()
    if reason:
        pytest.skip(reason)
    slurm = request.getfixturevalue("slurm")
    with Cable() as cable:
        lab = Lab(slurm, cable, tmp_path)
        yield lab
        assert lab.close() == 0


class Faults:
    """What happens to hosts, each while a run there is in its middle. Each fault ends when what was held there is
    no more, and what it broke is mended after it."""

    def __init__(self, lab):
        self.lab, self.done = lab, collections.Counter()

    def strike(self, plan):
        """`plan`: {where: fault}, all at the same time, as soon as a run is held everywhere. Gives the runs that were
        given back by those whom somebody asked to go, and the runs of those who vanished."""
        lab = self.lab
        lab.until(lambda: set(lab.held()) == set(plan), "not every host holds a run")
        held = lab.held()
        struck = {where: lab.leased(worker) for where, (_, _, worker) in held.items()}
        mends = [self.begin(fault, where) for where, fault in plan.items()]
        for where, leases in struck.items():
            lab.until(lambda leases=leases: lab.gone_from(leases), f"{where}, {plan[where]}: it keeps its runs")
        for mend in mends:
            mend()
        asked = [run for where, leases in struck.items() if plan[where] in ("drain", "preempt") for run in leases]
        vanished = [run for leases in struck.values() for run in leases if run not in asked]
        return asked, vanished

    def begin(self, fault, where):
        self.done[fault] += 1
        return getattr(self, fault)(where)

    def lose(self, node):
        """Its power is cut."""
        assert len(self.lab.slurm.lose_node(node)) == 1
        return lambda: self.back(node)

    def back(self, node):
        self.lab.slurm.until(lambda: self.state(node) in ("down", "down*"), f"nobody misses {node}")
        self.lab.slurm.node_up(node)
        self.lab.slurm.until(lambda: "down" not in self.state(node), f"{node} does not come back")

    def drain(self, node):
        """No more jobs, and the one that works there is told to go."""
        self.lab.slurm.call("scontrol", "update", f"nodename={node}", "state=drain", "reason=test")
        self.lab.slurm.cancel(node)
        return lambda: self.lab.slurm.call("scontrol", "update", f"nodename={node}", "state=resume")

    def preempt(self, node):
        """Somebody's job is more urgent, and gets the node."""
        slurm = self.lab.slurm
        job = slurm.call("sbatch", "--parsable", "--partition=urgent", f"--nodelist={node}", "--time=60",
                         "--output=/dev/null", "--wrap=sleep 3000")

        def mend():
            slurm.until(lambda: job in [one for one, *_ in slurm.jobs("RUNNING")], "the urgent job waits")
            slurm.call("scancel", job)

        return mend

    def kill(self, _):
        """The worker of the second host."""
        self.lab.second.kill()
        return self.lab.second.start

    def cut(self, _):
        """The second host's cable is pulled; its worker lives, and holds what is no longer its own."""
        self.lab.second.cable.pull()
        return self.lab.second.cable.plug

    def state(self, node):
        return self.lab.slurm.call("sinfo", "--noheader", f"--nodes={node}", "--partition=work", "--format=%t")


# Each node meets each fault once.
PLANS = [{**dict(zip(NODES, faults)), NAME: second} for faults, second in (
    (("lose", "drain", "preempt"), "kill"), (("preempt", "lose", "drain"), "cut"),
    (("drain", "preempt", "lose"), "kill"))]


def named(document, names):
    """With names in the place of ids, which each database has its own of."""
    text = json.dumps(document, sort_keys=True)
    for identity, name in names.items():
        text = text.replace(identity, name)
    return json.loads(text)


def outcome(service, runs, names):
    """{(checkpoint, method): all that its run found and left}."""
    found = {}
    for run, what in runs.items():
        document = service.wait(run)
        assert document["state"] == "succeeded", document["error"]
        files = service.get(f"/v1/runs/{run}/artifacts").json["items"]
        made = {document["result"]["export"]["checkpoint"]: "exported"} if document["result"].get("export") else {}
        found[what] = {**named(document["result"], {**names, **made}),
                       "files": {file["name"]: file["sha256"] for file in files}}
    return found


def curves(service, names):
    asked = "/v1/curves?trajectory=run7&metric={}&x=step"
    return [named(service.get(asked.format(metric)).json, names) for metric in ("delta", "loss_q", "loss_fp")]


def test_a_sweep_ends_as_on_one_machine(lab, tmp_path):
    lab.put_trajectory(tmp_path / "one" / "files")
    lab.store.rule("GET", "/run7/step[0-9]+/model.safetensors$", 3, skip=2, cut=5000)
    lab.store.rule("GET", "/run7/", 3, skip=9, answer=object_store.refusal(503, "SlowDown"))
    lab.store.rule("PUT", "/artifacts/", 2, skip=5, answer=object_store.refusal(500, "InternalError"))
    lab.service.gate.hold("quantize", 1, "block")
    runs, names = ask_for_sweep(lab.service, "s3://lab/run7/", "s3://lab/data/text.jsonl")
    faults, asked, vanished = Faults(lab), [], []
    lab.second.start()
    with lab.launcher():
        for plan in PLANS:
            back, lost = faults.strike(plan)
            asked += back
            vanished += lost
        lab.service.gate.open()
        together = outcome(lab.service, runs, names)
        lab.slurm.until(lambda: not lab.slurm.jobs(), "jobs do not end")
    assert faults.done == {"lose": 3, "drain": 3, "preempt": 3, "kill": 2, "cut": 1}
    assert lab.sql("select count(*) from runs") == str(len(runs))
    assert lab.reasons(runs) == {"released", "expired"}
    assert lab.reasons(set(asked) - set(vanished)) == {"released"}
    print(f"{len(runs)} runs, {dict(faults.done)}; given back: {len(asked)}, vanished: {len(vanished)}")
    assert lab.second.process.poll() is None and lab.second.stop() == 0
    told = lab.second.log.read_text() + lab.said() + lab.service.log.read_text()
    assert "denied" not in told and KEYS["secret"] not in told
    assert object_store.wrong_signatures(KEYS, lab.store.requests) == []
    for run, what in runs.items():
        for name, digest in together[what]["files"].items():
            body = lab.service.get(f"/v1/runs/{run}/artifacts/{name}").body
            assert hashlib.sha256(body).hexdigest() == digest, f"{what} {name}"

    one = Service(tmp_path / "one", "--threads", "1")
    runs_alone, names_alone = ask_for_sweep(one, str(one.files / "run7"), str(one.files / "text.jsonl"))
    alone = outcome(one, runs_alone, names_alone)
    assert set(together) == set(alone)
    for what, expected in alone.items():
        found = together[what]
        assert {key: (found[key], value) for key, value in expected.items() if found[key] != value} == {}, what
    assert curves(lab.service, names) == curves(one, names_alone)
    assert one.stop() == 0


def test_the_second_host_has_no_disk_of_the_first(lab):
    """What the test above stands on."""
    lab.second.start()
    lab.until(lambda: lab.sql(f"select count(*) from workers where host = '{NAME}'") == "1", "no worker there")
    root = f"/proc/{lab.second.process.pid}/root"
    for place in (lab.service.data, lab.service.files):
        (place / "sign").write_text("x")
        assert not list((pathlib.Path(root + str(place))).iterdir())
    assert lab.second.stop() == 0
