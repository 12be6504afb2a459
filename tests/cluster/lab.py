"""All that a lab has, at once: server, PostgreSQL and a bucket on this host, Slurm with three nodes, a second host."""

import json
import subprocess
import time

import models
import object_store
from launchers import Launchers
from plain_postgres import Database
from second_host import NAME, SecondHost
from service import BINARY, Service

CHECKPOINTS = 14
KEYS = {"access": "AKIDOFTHETESTS", "secret": "SECRETKEYOFTHETESTS", "session": "a/session+token=="}
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": KEYS["access"], "AWS_SECRET_ACCESS_KEY": KEYS["secret"],
               "AWS_SESSION_TOKEN": KEYS["session"], "AWS_EC2_METADATA_DISABLED": "true",
               "AWS_REGION": "eu-central-1", "HF_ENDPOINT": "http://127.0.0.1:9"}
TEXT = json.dumps({"text": "a story that goes on and on, with a turn here and another there. " * 60}) + "\n"
ROLES = {"lab_server": "deltaq_server", "lab_worker": "deltaq_worker"}
PASSWORD = "of-the-tests"
SWEEP = {
    "name": "sweep", "kind": "quantize",
    "base": {"export": "dequantized", "evaluation": {"dataset": "rows", "sequence_length": None},
             "calibration": {"dataset": "text", "sequence_length": 32, "max_sequences": 4}},
    "grid": {"checkpoint": {"trajectory": "run7"},
             "method": [{"name": "gptq", "bits": 3, "group_size": 32}, {"name": "awq", "bits": 4, "group_size": 32}]}}


def ask_for_sweep(service, checkpoints, text):
    """The same requests wherever the bytes lie; {run: (checkpoint's name, method)}, and {id: name} of all that the
    documents name."""
    found = service.post("/v1/trajectories/run7/scan", {"path": checkpoints})
    assert found.status == 200 and len(found.json["registered"]) == CHECKPOINTS, found.body
    names = {made["id"]: made["name"] for made in found.json["registered"]}
    names[service.sequences("rows", models.rows(8, 48))["id"]] = "rows"
    answer = service.post("/v1/datasets", {"name": "text", "format": "jsonl", "path": text})
    assert answer.status == 201, answer.body
    names[answer.json["id"]] = "text"
    answer = service.post("/v1/sweeps", SWEEP)
    assert answer.status == 202 and answer.json["runs"]["total"] == 2 * CHECKPOINTS, answer.body
    items = service.get("/v1/runs?sweep=sweep&limit=100").json["items"]
    runs = {run["id"]: (names[run["params"]["checkpoint"]], run["params"]["method"]["name"]) for run in items}
    return runs, {**names, **{run: "-".join(what) for run, what in runs.items()}}


class Lab(Launchers):
    def __init__(self, slurm, cable, directory):
        self.database = Database(directory / "database", cable.near, cable.network)
        self.store = object_store.ObjectStore(cable.near)
        self.store.bucket("lab")
        done = subprocess.run([BINARY, "migrate", "--roles", "--data-dir", directory / "unused", "--database-url",
                               self.database.url], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        for name, role in ROLES.items():
            self.database.sql(f"create role {name} login password '{PASSWORD}' in role {role}")
        place = [f"postgresql://{name}:{PASSWORD}@{cable.near}:5432/postgres" for name in ROLES]
        bucket = {**ENVIRONMENT, "AWS_ENDPOINT_URL_S3": self.store.url, "DELTAQ_ARTIFACTS": "s3://lab/artifacts"}
        service = Service(directory / "server", "--database-url", place[0], "--workers", "0", environment=bucket)
        super().__init__(slurm, service, place[0])
        self.second = SecondHost(cable, directory / "second", place[1], [service.data, service.files],
                                 service.environment)

    def sql(self, text):
        return self.database.sql(text)

    def close(self):
        self.service.gate.open()
        if self.second.process and self.second.process.poll() is None:
            self.second.kill()
        code = self.service.stop()
        self.store.close()
        self.database.stop()
        return code

    def put_trajectory(self, directory):
        """In the bucket and, for a machine that has all, below `directory`."""
        for step in range(1, CHECKPOINTS + 1):
            made = models.write_llama(directory / "run7" / f"step{step}", seed=700 + step)
            self.store.put_files("lab", f"run7/step{step}", {p.name: p.read_bytes() for p in made.iterdir()})
        self.store.put("lab", "data/text.jsonl", TEXT.encode())
        (directory / "text.jsonl").write_text(TEXT)

    def held(self):
        """{where: (the run that is held there, its lease, its worker)} of runs that the gate holds for the first
        time; where: a node, or the second host."""
        nodes = {job: node for job, _, _, node in self.slurm.jobs("RUNNING")}
        rows = self.sql("select r.id, r.epoch, w.id, w.host, w.slurm_job from runs r join workers w on w.id = r.owner"
                        " where r.state = 'running' and r.epoch = 1")
        found = {}
        for run, lease, worker, host, job in (line.split("|") for line in rows.splitlines()):
            where = NAME if host == NAME else nodes.get(job)
            if where and self.service.gate.reported(run, lease) is not None:
                found[where] = (run, int(lease), worker)
        return found

    def leased(self, worker):
        """{run: lease} of all that it has; a batch may be several."""
        rows = self.sql(f"select id, epoch from runs where state = 'running' and owner = '{worker}'")
        return {run: int(lease) for run, lease in (line.split("|") for line in rows.splitlines())}

    def gone_from(self, leases):
        """Whether none of them is its worker's any more."""
        return all(self.sql(f"select state <> 'running' or epoch > {lease} from runs where id = '{run}'") == "t"
                   for run, lease in leases.items())

    def reasons(self, runs):
        """Why those of these runs that were given back were."""
        names = ", ".join(f"'{run}'" for run in runs)
        return set(self.sql("select distinct data ->> 'reason' from run_events where type = 'state' and"
                            f" data ->> 'from' = 'running' and data ->> 'to' = 'queued' and run in ({names})").split())

    def until(self, condition, complaint, limit=300):
        end = time.monotonic() + limit
        while not condition():
            assert time.monotonic() < end, (
                f"{complaint}: {self.slurm.states()} {self.slurm.jobs()} "
                f"{self.sql('select id, state, epoch, owner, worker from runs')} {self.said()[-4000:]} "
                f"{self.second.log.read_text()[-4000:]}")
            time.sleep(0.2)
