"""What the tests of faults share: runs that the gate (gate.py) can hold in their middle,
who works on them, and what must not be left."""

import hashlib
import os
import pathlib
import signal
import time
import uuid

import models
import pytest
from service import BINARY, Service

FINAL = ("succeeded", "failed", "cancelled")
LAYERS = {"num_hidden_layers": 4}  # a middle


def started(directory, *options, **more):
    if not BINARY.exists():
        pytest.skip("build/deltaq is not built")
    return Service(directory, "--threads", "1", *options, **more)


def workers_of(service):
    return service.workers()


def postmaster_of(service):
    return int((service.data / "pg/data/postmaster.pid").read_text().split()[0])


def prepare(service):
    """A checkpoint, ids, and a text to train on."""
    made = service.checkpoint(models.write_llama(service.files / "whole", **LAYERS), "whole", "step1",
                              step=1, tokens=64)
    service.sequences("evaluation", models.rows(16, 64))
    service.sequences("calibration", models.rows(8, 64, seed=2))
    (service.files / "text").write_text("a story that goes on and on, with a turn here and another there. " * 200)
    service.post("/v1/datasets", {"name": "text", "path": "text", "format": "text"})
    return made


def body_of(kind, trajectory="trained"):
    evaluation = {"dataset": "evaluation", "sequence_length": None}
    return {"kind": kind, "force": True, "params": {
        "evaluate": {"checkpoint": "whole/step1", **evaluation},
        "quantize": {"checkpoint": "whole/step1", "method": {"name": "gptq", "bits": 3, "group_size": 32},
                     "evaluation": evaluation, "calibration": {"dataset": "calibration", "sequence_length": None}},
        "train": {"trajectory": trajectory, "model": models.LLAMA, "dataset": "text", "tokenizer": {"name": "bytes"},
                  "tokens": 64 * 4 * 25, "batch_sequences": 4, "sequence_length": 64, "checkpoint_every": 64 * 4 * 5},
    }[kind]}


# of body_of's runs; train has made a checkpoint
MIDDLE = {"evaluate": (2, "chunk"), "quantize": (2, "block"), "train": (7, "step")}


def submit(service, body, limit=120):
    """While the database comes back, or its disk is slow, the answer is 503,
    and asked for again: the key makes it one run."""
    key, end = {"Idempotency-Key": uuid.uuid4().hex}, time.monotonic() + limit
    while (answer := service.post("/v1/runs", body, key)).status == 503 and time.monotonic() < end:
        time.sleep(0.2)
    assert answer.status == 202, answer.body
    return answer.json["id"]


def submit_held(service, body):
    """A run that is held in its middle by the time this returns, under its first lease alone."""
    service.gate.hold(body["kind"], *MIDDLE[body["kind"]])
    run = submit(service, body)
    service.held(run)
    return run


def finished(service, run, limit=300):
    """The run's last document. While the database is away the answer is 503, and asked for again."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        answer = service.get(f"/v1/runs/{run}?wait=10")
        assert answer.status in (200, 503), answer.body
        if answer.status == 200 and answer.json["state"] in FINAL:
            return answer.json
        time.sleep(0.1)
    raise TimeoutError(answer.body)


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def leftovers(service):
    """Work directories, unfinished checkpoints and temporary artifacts."""
    tmp = service.data / "tmp"
    found = [*tmp.glob("run-*"), *tmp.glob("gone-*")] if tmp.exists() else []
    found += [p for p in (service.data / "checkpoints").glob("*/.*")] if (service.data / "checkpoints").exists() else []
    found += [p for p in (service.data / "artifacts").glob(".tmp-*")] if (service.data / "artifacts").exists() else []
    return found


def wait_for_none_left(service, limit=60):
    """A run's leftovers go right after its end has been committed."""
    end = time.monotonic() + limit
    while leftovers(service) and time.monotonic() < end:
        time.sleep(0.05)
    assert leftovers(service) == []


def weights_of(service, run):
    """sha256 of the weights of every checkpoint that a train run has left, by directory."""
    return {d.name: hashlib.sha256((d / "model.safetensors").read_bytes()).hexdigest()
            for d in sorted(pathlib.Path(service.data / "checkpoints" / run).iterdir())}
