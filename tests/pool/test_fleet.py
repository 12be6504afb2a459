"""Workers that differ: which of them takes a run, and what a run says that none may take."""

import json
import time

import pytest
from test_cluster import wait_until

MIB = 1 << 20


def waits(pool, run):
    return pool.call("get", run)["waiting"]


def worker_of(pool, run):
    return int(pool.wait(run)["worker"].split("/")[1])


def appear(pool, count):
    end = time.monotonic() + 30
    while len(pool.sql("select 1 from workers")) < count:
        assert time.monotonic() < end
        time.sleep(0.05)


def database(pool):
    pool.cluster()
    pool.migrate()


def test_a_run_goes_to_a_worker_that_has_all_its_labels(pool):
    database(pool)
    pool.worker(POOL_LABELS=json.dumps(["gpu=h100"]))
    both = pool.worker(POOL_LABELS=json.dumps(["partition=debug", "gpu=h100"]))
    appear(pool, 2)
    runs = [pool.submit(steps=1, seed=i, requires={"labels": ["gpu=h100", "partition=debug"]}) for i in range(6)]
    assert {worker_of(pool, run) for run in runs} == {both.pid}


def test_a_run_that_no_running_worker_may_take_says_so_until_one_comes(pool):
    database(pool)
    run = pool.submit(steps=1, requires={"labels": ["gpu=h100"], "device": "cpu"})
    assert waits(pool, run) == "no worker is running"
    plain = pool.worker(POOL_LABELS=json.dumps(["gpu=a100"]))
    appear(pool, 1)
    assert waits(pool, run) == "no running worker has all that it needs: device cpu, label gpu=h100"
    other = pool.submit(steps=1, seed=1)
    assert pool.wait(other)["worker"].endswith(f"/{plain.pid}") and pool.call("get", run)["state"] == "queued"
    fits = pool.worker(POOL_LABELS=json.dumps(["gpu=h100"]))
    assert worker_of(pool, run) == fits.pid and waits(pool, run) is None


def test_a_run_waits_for_the_device_and_the_memory_that_it_requires(pool):
    database(pool)
    small = pool.worker(POOL_MEMORY=MIB)
    appear(pool, 1)
    cuda = pool.submit(steps=1, requires={"device": "cuda"})
    large = pool.submit(steps=1, seed=1, requires={"memory_bytes": MIB + 1})
    assert waits(pool, cuda) == "no running worker has all that it needs: device cuda"
    assert waits(pool, large).endswith(f"memory of {MIB + 1} bytes")
    assert worker_of(pool, pool.submit(steps=1, seed=2, requires={"device": "cpu", "memory_bytes": MIB})) == small.pid
    more = pool.worker(POOL_MEMORY=2 * MIB)
    assert worker_of(pool, large) == more.pid and pool.call("get", cuda)["state"] == "queued"


def test_a_run_waits_for_a_device_with_the_memory_that_it_requires(pool):
    database(pool)
    pool.worker(POOL_MEMORY=4 * MIB)  # on the CPU
    small = pool.worker(POOL_MEMORY=4 * MIB, POOL_DEVICE_MEMORY=MIB)
    appear(pool, 2)
    large = pool.submit(steps=1, requires={"device_memory_bytes": MIB + 1})
    assert waits(pool, large) == f"no running worker has all that it needs: device memory of {MIB + 1} bytes"
    assert worker_of(pool, pool.submit(steps=1, seed=1, requires={"device_memory_bytes": MIB})) == small.pid
    more = pool.worker(POOL_MEMORY=MIB, POOL_DEVICE_MEMORY=2 * MIB)
    assert worker_of(pool, large) == more.pid


@pytest.mark.parametrize("has, end, needs", [
    ("POOL_MEMORY", "large", "memory_bytes"),
    ("POOL_DEVICE_MEMORY", "large on the device", "device_memory_bytes"),
])
def test_what_does_not_fit_one_worker_goes_to_one_with_more_memory(pool, has, end, needs):
    database(pool)
    pool.worker(**{has: MIB})
    appear(pool, 1)
    alone = pool.submit(steps=1, end=end)
    document = pool.wait(alone)
    assert document["state"] == "failed" and document["error"]["code"] == "too_large"
    more = pool.worker(**{has: 2 * MIB})
    appear(pool, 2)
    held = pool.submit_held(requires={needs: 2 * MIB})  # the other worker alone is free
    run = pool.submit(steps=1, end=end, seed=1)
    released = f"select 1 from run_events where run = '{run}' and data ->> 'evidence' = 'it needs 2 MiB'"
    wait_until(lambda: pool.sql(released))
    assert pool.call("get", run)["state"] == "queued"
    pool.gate.open()
    assert worker_of(pool, held) == more.pid
    document = pool.wait(run)
    assert document["state"] == "succeeded" and document["worker"].endswith(f"/{more.pid}")
    assert document["attempt"] == 0 and len(pool.sql(released)) == 1  # the other one did not take it again


def test_a_worker_older_than_the_database_is_refused_and_ends(pool):
    database(pool)
    pool.execute("update engine_revision set revision = revision + 1")
    run = pool.submit(steps=1)
    worker = pool.worker()
    assert worker.handle.wait(30) == 78
    assert "takes no work: the database has engine revision" in worker.said()
    assert "use a newer deltaq" in worker.said() and pool.call("get", run)["state"] == "queued"


def test_a_worker_newer_than_the_database_waits_for_it(pool):
    database(pool)
    pool.execute("update engine_revision set revision = revision - 1")
    run = pool.submit(steps=1)
    worker = pool.worker()
    wait_until(lambda: "run `deltaq migrate`" in worker.said())
    assert not pool.sql("select 1 from workers") and pool.call("get", run)["state"] == "queued"
    pool.migrate()
    assert worker_of(pool, run) == worker.pid


def test_a_database_that_is_upgraded_under_a_worker_gives_it_no_more_runs(pool):
    database(pool)
    worker = pool.worker(POOL_LEASE=3)
    held = pool.submit_held()
    pool.execute("update engine_revision set revision = revision + 1")
    later = pool.submit(steps=1, seed=1)
    pool.gate.open()
    assert pool.wait(held)["state"] == "succeeded"
    assert worker.handle.wait(30) == 78
    assert pool.call("get", later)["state"] == "queued" and not pool.sql("select 1 from workers")


def test_a_worker_gives_its_run_back_before_its_time_limit(pool):
    database(pool)
    began = time.monotonic()
    worker = pool.worker(POOL_LIMIT=16)
    run = pool.submit_held()
    assert worker.handle.wait(30) == 0 and time.monotonic() - began < 16
    row = pool.sql(f"select state, tries, crashes, expiries, epoch from runs where id = '{run}'")[0]
    assert row == {"state": "queued", "tries": 0, "crashes": 0, "expiries": 0, "epoch": 1}
    assert "its time limit is near" in worker.said() and not pool.sql("select 1 from workers")


def test_a_worker_begins_no_run_shortly_before_its_time_limit(pool):
    database(pool)
    worker = pool.worker(POOL_LIMIT=200)  # the last twenty seconds and ten: no new run
    appear(pool, 1)
    assert worker_of(pool, pool.submit(steps=1)) == worker.pid
    short = pool.worker(POOL_LIMIT=1)
    assert short.handle.wait(30) == 0


def test_an_idle_worker_ends_and_a_busy_one_does_not(pool):
    database(pool)
    worker = pool.worker(POOL_IDLE=2)
    run = pool.submit_held()
    time.sleep(3)
    assert worker.handle.poll() is None
    pool.gate.open()
    assert pool.wait(run)["state"] == "succeeded"
    assert worker.handle.wait(30) == 0 and "there is nothing to do" in worker.said()
