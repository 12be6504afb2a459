"""The disk is full, or a file may not grow: 507 or 503 while it lasts, the server alive all through,
and work as before once there is room again."""

import resource
import time

import models
import pytest
from faults import body_of, prepare, finished, started, submit, submit_held, wait_for_none_left, workers_of
from small_disk import small_disk


@pytest.fixture
def small(tmp_path):
    """A server whose data directory is a file system of its own, a small one."""
    data = tmp_path / "data"
    data.mkdir()
    with small_disk(data, "size=300m"):
        service = started(tmp_path)
        yield service
        if service.process.poll() is None:
            assert service.stop() == 0


def fill(service):
    """Takes all that is left, down to the last byte; again and again, as what is freed is taken too."""
    size = 1 << 22
    with open(service.data / "filler", "ab", buffering=0) as file:
        while size >= 1:
            try:
                file.write(b"x" * size)
            except OSError:
                size //= 4


def try_dataset(service, number):
    rows = models.rows(40, 400, seed=number)
    return service.post("/v1/datasets", {"name": f"d{number}", "sequences": rows})


def test_a_full_data_directory(small):
    prepare(small)
    run = submit_held(small, body_of("train"))
    accepted, refused = [], []
    end = time.monotonic() + 120
    number = 0
    while len(refused) < 3 and time.monotonic() < end:
        fill(small)
        number += 1
        answer = try_dataset(small, number)
        assert answer.status in (201, 503, 507), answer.body
        (accepted if answer.status == 201 else refused).append((number, answer))
        assert small.get("/healthz").status == 200
    assert len(refused) >= 3, "the disk never became full"
    assert {a.json["code"] for _, a in refused} <= {"disk_full", "unavailable"}, refused
    fill(small)
    ready = small.get("/readyz")
    assert ready.status == 503 and "disk" in ready.json["detail"], ready.body
    assert all(a.status == 507 or a.headers["Retry-After"] for _, a in refused)
    small.gate.open()  # the run comes to a full disk
    end = time.monotonic() + 5
    while time.monotonic() < end:
        fill(small)
        time.sleep(0.1)
    (small.data / "filler").unlink()
    end = time.monotonic() + 120
    while (answer := try_dataset(small, number + 1)).status != 201:
        assert time.monotonic() < end, answer.body
        time.sleep(0.2)
    for number, _ in accepted:
        assert small.get(f"/v1/datasets/d{number}").status == 200, "an acknowledged row is lost"
    document = finished(small, run)
    if document["state"] == "failed":
        assert document["error"]["code"] == "disk_full", document["error"]
        assert small.post(f"/v1/runs/{run}/retry").status == 202
        document = finished(small, run)
    assert document["state"] == "succeeded" and len(document["result"]["checkpoints"]) == 5, document
    wait_for_none_left(small)


def test_a_limit_on_the_size_of_files(own):
    """RLIMIT_FSIZE on the worker: its signal does not kill it;
    the run says what happened, is tried again, and leaves nothing."""
    prepare(own)
    (worker,) = workers_of(own)
    soft, hard = resource.prlimit(worker, resource.RLIMIT_FSIZE)
    resource.prlimit(worker, resource.RLIMIT_FSIZE, (20000, hard))
    document = finished(own, submit(own, body_of("train")))
    assert document["state"] == "failed" and document["error"]["code"] == "disk_full", document
    assert "size limit" in document["error"]["detail"] and str(own.data) not in document["error"]["detail"]
    assert workers_of(own) == [worker], "it lives"
    wait_for_none_left(own)
    assert own.get("/v1/checkpoints?trajectory=trained").json["items"] == []
    resource.prlimit(worker, resource.RLIMIT_FSIZE, (soft, hard))
    assert own.post(f"/v1/runs/{document['id']}/retry").status in (200, 202)
    assert finished(own, document["id"])["state"] == "succeeded"


def test_a_limit_on_the_size_of_the_servers_files(own):
    """Bodies beyond a few KiB lie in files: those are refused, and nothing else."""
    soft, hard = resource.prlimit(own.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(own.process.pid, resource.RLIMIT_FSIZE, (1000, hard))
    for number in range(3):
        answer = try_dataset(own, number)
        assert answer.status == 507 and answer.json["code"] == "disk_full", answer.body
        small = {"name": f"small{number}", "sequences": models.rows(2, 40, seed=number)}
        assert own.post("/v1/datasets", small).status == 201
    assert own.get("/healthz").status == 200 and own.process.poll() is None
    resource.prlimit(own.process.pid, resource.RLIMIT_FSIZE, (soft, hard))
    assert try_dataset(own, 3).status == 201
