"""Workers that differ: which of them takes a run, and what a run says that none may take."""

import json
import time

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


def test_what_does_not_fit_one_worker_goes_to_one_with_more_memory(pool):
    database(pool)
    pool.worker(POOL_MEMORY=MIB)
    appear(pool, 1)
    alone = pool.submit(steps=1, end="large")
    document = pool.wait(alone)
    assert document["state"] == "failed" and document["error"]["code"] == "too_large"
    more = pool.worker(POOL_MEMORY=2 * MIB)
    appear(pool, 2)
    for seed in range(1, 9):  # each worker has some of them first
        document = pool.wait(pool.submit(steps=1, end="large", seed=seed))
        assert document["state"] == "succeeded" and document["worker"].endswith(f"/{more.pid}")
        assert document["attempt"] == 0
    assert pool.sql("select 1 from run_events where data ->> 'evidence' = 'it needs 2 MiB'")
