"""Workers killed and stopped at random while they work through a queue, and then the checker. The same with the
worker's own grace switched off (the fence of the database alone must do). And one overtaken worker without the fence:
then the checker must find something. DELTAQ_CHAOS_SEED repeats a run; DELTAQ_CHAOS_JOBS makes it longer: 80 in `make
check`, 600 in `make check-all`, 24,000 in `make chaos`."""

import json
import os
import random
import signal
import time
import uuid

import pytest

from checker import violations
from test_cluster import wait_until

LEASE = 0.9
BATCH = 1000


def submit_many(pool, rng, count):
    submitted = {str(uuid.UUID(int=rng.getrandbits(128))): i for i in range(count)}
    rows, specs, events = [], [], []
    for run, seed in submitted.items():
        params = json.dumps({"seed": seed, "steps": rng.randint(1, 40), "step_ms": 20})
        rows.append(f"('{run}', 'pace')")
        specs.append(f"('{run}', '{params}')")
        events.append(f"('{run}', 0, 'state', '{{\"from\": null, \"to\": \"queued\"}}')")
    for at in range(0, count, BATCH):
        pool.execute(f"begin; insert into runs (id, kind) values {','.join(rows[at:at + BATCH])}; "
                     f"insert into run_specs (run, params) values {','.join(specs[at:at + BATCH])};"
                     f"insert into run_events (run, epoch, type, data) values {','.join(events[at:at + BATCH])}; "
                     "commit;")
    return submitted


def unfinished(pool):
    return pool.sql("select count(*) as n from runs where finished_at is null")[0]["n"]


def chaos(pool, variant, jobs, limit, workers=5):
    seed = int(os.environ.get("DELTAQ_CHAOS_SEED", time.time_ns() % 1_000_000))
    print(f"seed {seed}")
    rng = random.Random(seed)
    pool.cluster()
    pool.migrate()
    submitted = submit_many(pool, rng, jobs)
    start = lambda: pool.worker(variant, POOL_LEASE=LEASE)
    alive, stopped, kills, stops = [start() for _ in range(workers)], [], 0, 0
    end = time.monotonic() + limit
    looked = 0.0
    while time.monotonic() < end:
        time.sleep(rng.uniform(0.02, 0.15))
        stopped = [(at, p) for at, p in stopped if at > time.monotonic() or p.kill(signal.SIGCONT)]
        index = rng.randrange(len(alive))
        victim = alive[index]
        what = rng.random()
        if what < 0.25:
            pool.forget(victim)
            stopped = [(at, p) for at, p in stopped if p is not victim]
            alive[index], kills = start(), kills + 1
        elif what < 0.5 and all(p is not victim for _, p in stopped) and len(stopped) < workers - 2:
            victim.kill(signal.SIGSTOP)
            stopped.append((time.monotonic() + rng.uniform(1.2, 2.5) * LEASE, victim))
            stops += 1
        elif what < 0.55:
            pool.execute("with changed as (update runs set cancel_requested_at = clock_timestamp(), "
                         "state = 'cancelled', finished_at = clock_timestamp()"
                         " where id = (select id from runs where state = 'queued' order by random() limit 1) "
                         "and state = 'queued' returning id, epoch)"
                         " insert into run_events (run, epoch, type, data) select id, epoch, 'state', "
                         "'{\"from\": \"queued\", \"to\": \"cancelled\"}' from changed;")
        if time.monotonic() > looked + 1:
            looked = time.monotonic()
            if unfinished(pool) == 0:
                break
    for _, process in stopped:
        process.kill(signal.SIGCONT)
    deadline = time.monotonic() + 120
    while unfinished(pool) and time.monotonic() < deadline:
        time.sleep(0.2)
    for process in alive:
        process.stop()
    print(f"{variant}: {jobs} jobs, {kills} kills, {stops} stops")
    return submitted


@pytest.mark.parametrize("variant", ["plain", "patient"])
def test_nothing_is_lost_or_doubled(pool, variant):
    jobs = int(os.environ.get("DELTAQ_CHAOS_JOBS", "80"))
    submitted = chaos(pool, variant, jobs, limit=max(400, 2 * jobs))
    assert violations(pool, submitted) == []
    succeeded = pool.sql("select count(*) as n from runs where state = 'succeeded'")[0]["n"]
    assert succeeded > jobs / 2


def overtaken(pool, variant):
    """A worker is stopped in the middle of a run; when its lease has ended another one takes the run and
    is stopped too; the first one goes on."""
    pool.gate.hold("pace", 2, "step", lease="*")
    run = pool.submit(steps=5, seed=7)
    workers = []
    for lease in (1, 2):
        workers.append(pool.worker(variant, POOL_LEASE=LEASE))
        pool.gate.wait(run, lease)
        workers[-1].kill(signal.SIGSTOP)
    pool.gate.open()
    workers[0].kill(signal.SIGCONT)
    wait_until(lambda: pool.sql(f"select 1 from runs where id = '{run}' and finished_at is not null"), 60)
    return run


@pytest.mark.parametrize("variant", ["by_id", "by_state"])
def test_without_the_fence_the_checker_finds_something(pool, variant):
    pool.cluster()
    pool.migrate()
    run = overtaken(pool, variant)
    for process in pool.processes[1:]:
        process.kill()
        process.handle.wait()
    assert any("epoch" in sentence for sentence in violations(pool, {run: 7})), "the mutant lives"


def test_an_overtaken_worker_ends_nothing(pool):
    """The same with the fence: the first worker finds its lease lost, and the second one ends the run."""
    pool.cluster()
    pool.migrate()
    pool.gate.hold("pace", 2, "step", lease="*")
    run = pool.submit(steps=5, seed=7)
    first = pool.worker("patient", POOL_LEASE=LEASE)
    pool.gate.wait(run)
    first.kill(signal.SIGSTOP)
    pool.worker("patient", POOL_LEASE=LEASE)
    pool.gate.wait(run, 2)
    first.kill(signal.SIGCONT)
    wait_until(lambda: "lease lost" in first.said(), 60)
    pool.gate.open()
    assert pool.wait(run)["result"] == {"seed": 7, "epoch": 2}
    assert violations(pool, {run: 7}) == []
