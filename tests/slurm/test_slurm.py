"""The launcher on a real Slurm of three nodes: what it submits, and that nothing is lost when nodes, jobs and the
launcher itself go away."""

import re
import subprocess
import time

import models
import pytest
from launchers import Launchers
from service import BINARY, Service

MODEL = {"model_type": "llama", "vocab_size": 256, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
         "num_attention_heads": 2, "max_position_embeddings": 32, "tie_word_embeddings": True}
EVALUATION = {"checkpoint": "t/c0", "dataset": "rows", "sequence_length": None}


class Lab(Launchers):
    """A server without workers of its own, and launchers on the cluster."""

    def __init__(self, slurm, directory):
        service = Service(directory, "--workers", "0", environment={"HF_ENDPOINT": "http://127.0.0.1:9"})
        super().__init__(slurm, service, f"host={service.data}/pg/socket user=deltaq dbname=deltaq")
        models.write_llama(self.service.files / "model")
        self.service.checkpoint(self.service.files / "model", "t", "c0", step=0)
        self.service.sequences("rows", models.rows(2, 12))
        (self.service.files / "text").write_text("to be or not to be, that is the question. " * 300)
        self.service.post("/v1/datasets", {"name": "text", "path": str(self.service.files / "text"),
                                           "format": "text"})

    def post(self, kind="evaluate", params=None, **more):
        answer = self.service.post("/v1/runs", {"kind": kind, "params": params or EVALUATION, "force": True, **more})
        assert answer.status == 202, answer.body
        return answer.json["id"]

    def train(self, name):
        return self.post("train", {
            "trajectory": name, "dataset": "text", "tokens": 16384, "batch_sequences": 2, "sequence_length": 32,
            "model": MODEL, "tokenizer": {"name": "bytes"}, "checkpoint_every": 2048, "seed": 3,
            "schedule": {"name": "constant", "peak": 0.001}})

    def resumed_at(self, run):
        """The step from which the second worker of a training run went on; a run that began again says nothing."""
        lines = self.sql("select data ->> 'line' from run_events where type = 'log' and epoch = 2"
                         f" and run = '{run}'")
        return [int(step) for step in re.findall(r"going on from step (\d+)", lines)]

    def ended(self, run):
        document = self.service.wait(run)
        assert document["state"] == "succeeded", f"{document['error']} {self.said()}"
        return document

    def empty(self):
        self.slurm.until(lambda: not self.slurm.jobs(), "jobs do not end")


@pytest.fixture
def lab(slurm, tmp_path):
    lab = Lab(slurm, tmp_path)
    yield lab
    lab.service.gate.open()
    lab.slurm.call("scancel", "--user=root")
    lab.empty()
    assert lab.service.stop() == 0


def submissions(lab):
    return [line for line in lab.said().splitlines() if "submitted job" in line]


def test_a_dry_run_prints_what_would_be_submitted_and_submits_nothing(lab):
    for _ in range(2):
        lab.post()
    lab.post(requires={"labels": ["gpu=h100"], "device": "cuda"})
    lab.post(requires={"memory_bytes": 3 << 30})
    done = subprocess.run(lab.command("--dry-run", "--memory", "600", "--most-memory", "8000", "--most-jobs", "9",
                                      "--template", ": --partition=work",
                                      "--template", "device=cuda,gpu=h100: --partition=gpu --gres=gpu:1"),
                          env=lab.environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    jobs = [line.split(" ") for line in done.stdout.splitlines() if line.startswith("sbatch ")]
    assert len(jobs) == 3 and all("--requeue" in words and "--time=10" in words for words in jobs)
    assert {"--mem=3072M", "--partition=work"} <= set(jobs[0])
    two = next(words for words in jobs if "--array=0-1" in words)
    assert {"--mem=600M", "--partition=work", "--cpus-per-task=1"} <= set(two)
    cuda = next(words for words in jobs if "--gres=gpu:1" in words)
    assert "--partition=gpu" in cuda
    scripts = done.stdout.split("\nEND\n")
    assert sum("'--device' 'cuda:0' '--label' 'launcher=deltaq,gpu=h100'" in script for script in scripts) == 1
    assert "password" not in done.stdout and not lab.slurm.jobs() and lab.sql("select count(*) from launchers") == "0"


def test_queued_runs_bring_workers_which_end_when_there_is_nothing_left(lab):
    with lab.launcher():
        runs = [lab.post() for _ in range(5)]
        documents = [lab.ended(run) for run in runs]
        assert len({document["result"]["loss"] for document in documents}) == 1
        lab.empty()
    assert 1 <= len(submissions(lab)) and "there is nothing to do" in lab.said()
    assert lab.sql("select count(*) from workers") == "0" and lab.sql("select count(*) from launchers") == "0"


def test_a_launcher_that_was_killed_and_one_beside_it_submit_nothing_twice(lab):
    with lab.service.gate.holding("evaluate", 0, lease="*"):
        first, run = lab.start(), lab.post()
        lab.service.held(run)
        first.kill()
        first.wait()
        with lab.launcher(), lab.launcher():
            lab.slurm.until(lambda: "waits: another launcher" in lab.said(), "none waits")
            time.sleep(16)  # the place of the one that was killed is free by then
            assert len(lab.slurm.jobs()) == 1 and len(submissions(lab)) == 1, lab.said()
            second = lab.post()
            lab.slurm.until(lambda: len(lab.slurm.jobs("RUNNING")) == 2, "no worker for the second run")
            lab.service.gate.open()
            lab.ended(run), lab.ended(second)
            assert len(submissions(lab)) == 2


def test_a_preempted_run_goes_on_at_its_last_block_and_ends_the_same(lab):
    with lab.launcher("--most-jobs", "1"):
        lab.service.gate.hold("train", 150, "step")
        run = lab.train("preempted")
        lab.service.held(run)
        urgent = lab.slurm.call("sbatch", "--parsable", "--partition=urgent", "--nodes=3", "--time=2",
                                "--output=/dev/null", "--wrap=sleep 8")
        lab.slurm.until(lambda: lab.sql(f"select state from runs where id = '{run}'") == "queued", "it keeps its run")
        assert lab.counts(run) == "0|0|0|0"
        lab.slurm.until(lambda: urgent in [job[0] for job in lab.slurm.jobs("RUNNING")], "the urgent job waits")
        lab.service.gate.open()
        document = lab.ended(run)
        assert document["attempt"] == 0 and lab.sql(f"select epoch from runs where id = '{run}'") == "2"
        lab.ended(again := lab.train("undisturbed"))
        losses = [lab.service.get(f"/v1/runs/{one}").json["result"]["final_loss"] for one in (run, again)]
        assert losses[0] == losses[1] and lab.resumed_at(run) == [128]  # a checkpoint each 32 steps


def test_a_lost_node_a_drained_one_and_a_cancelled_job_lose_no_run(lab):
    with lab.launcher():
        with lab.service.gate.holding("evaluate", 0):
            runs = [lab.post() for _ in range(3)]
            for run in runs:
                lab.service.held(run)
            assert sorted(node for *_, node in lab.slurm.jobs("RUNNING")) == ["n1", "n2", "n3"]
            assert len(lab.slurm.lose_node("n1")) == 1
            lab.slurm.call("scontrol", "update", "nodename=n2", "state=drain", "reason=test")
            lab.slurm.cancel("n3")
        documents = [lab.ended(run) for run in runs]
        assert len({document["result"]["loss"] for document in documents}) == 1
        lab.slurm.until(lambda: "any more" in lab.sql("select data ->> 'evidence' from run_events") or
                        "without a sign of life" in lab.sql("select data ->> 'evidence' from run_events"),
                        "nobody noticed the lost node")
        assert lab.sql("select sum(crashes) from runs") == "0"
        lab.slurm.call("scontrol", "update", "nodename=n2", "state=resume")
        lab.slurm.node_up("n1")
        lab.slurm.until(lambda: "down*" not in lab.slurm.states() and "down" not in lab.slurm.states(),
                        "the lost node does not come back")
        lab.ended(lab.post())


def test_what_the_last_worker_of_all_had_goes_back_to_the_queue(lab):
    """No worker is left that would rescue its run, and no run waits that a job would be submitted for."""
    other = subprocess.Popen([BINARY, "worker", "--database-url", lab.url, "--data-dir", lab.service.data, "--root",
                              lab.service.files, "--threads", "1"], env=lab.environment, stderr=subprocess.DEVNULL)
    with lab.service.gate.holding("evaluate", 0):
        run = lab.post()
        lab.service.held(run)
        other.kill()
        other.wait()
    with lab.launcher():
        lab.ended(run)
    assert "rescued 1 run of workers that are gone" in lab.said()


def test_a_job_at_its_time_limit_hands_its_run_to_the_next(lab):
    with lab.launcher("--time-limit", "60", "--most-time", "60", "--most-jobs", "1"):
        lab.service.gate.hold("train", 150, "step")
        run = lab.train("long")
        lab.service.held(run)
        lab.slurm.until(lambda: "its time limit is near" in lab.said(), "it does not drain", 90)
        assert lab.counts(run) == "0|0|0|0"
        lab.service.gate.open()
        assert lab.ended(run)["attempt"] == 0 and lab.resumed_at(run) == [128]  # a checkpoint each 32 steps


def test_jobs_that_end_without_a_run_are_not_submitted_for_ever(lab):
    with lab.launcher("--template", ": --partition=work --output=/absent/log"):  # so Slurm cannot start them
        lab.post()
        lab.slurm.until(lambda: "ended without taking a run" in lab.said(), "it does not notice")
        time.sleep(6)
        assert len(submissions(lab)) <= 4


def test_what_no_template_serves_is_said_once(lab):
    with lab.launcher():
        lab.post(requires={"labels": ["nowhere"]})
        lab.slurm.until(lambda: "nowhere" in lab.said(), "it says nothing")
        time.sleep(3)
        assert lab.said().count("nowhere") == 1 and not lab.slurm.jobs()


def test_a_server_with_a_launcher_needs_no_worker_of_its_own(lab, tmp_path):
    server = Service(tmp_path / "second", "--database-url", lab.url, "--workers", "0", "--launcher", "slurm",
                     "--root", str(lab.service.files),
                     environment={**lab.slurm.environment, "DELTAQ_LAUNCHER_INTERVAL": "1",
                                  "DELTAQ_LAUNCHER_IDLE_EXIT": "3", "DELTAQ_LAUNCHER_THREADS": "1"})
    try:
        run = server.post("/v1/runs", {"kind": "evaluate", "params": EVALUATION}).json
        document = server.wait(run["id"])
        assert document["state"] == "succeeded", (document["error"], server.log.read_text())
        lab.empty()
    finally:
        assert server.stop() == 0
    assert lab.sql("select count(*) from launchers") == "0"


def test_a_launcher_without_a_database_that_others_reach_is_refused(lab):
    done = subprocess.run([BINARY, "launcher", "slurm", "--data-dir", lab.service.data], capture_output=True, text=True)
    assert done.returncode == 1 and "needs --database-url" in done.stderr
    done = subprocess.run([BINARY, "serve", "--listen", "127.0.0.1:0", "--launcher", "slurm",
                           "--data-dir", lab.service.data], capture_output=True, text=True)
    assert done.returncode == 1 and "--launcher needs --database-url" in done.stderr
