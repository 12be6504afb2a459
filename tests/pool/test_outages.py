"""A worker that lives is not a crash: outages of the database, suspended workers and nodes that are taken away."""

import signal
import time

import pytest

from outage import Network
from test_cluster import wait_until

LEASE = 2.0


@pytest.fixture
def networks():
    made = []

    def make(pool):
        made.append(Network(pool.conninfo))
        return made[-1]

    yield make
    for network in made:
        network.close()


def counts(pool, run):
    return pool.sql(f"select state, epoch, tries, crashes, stalls, expiries, attempts from runs where id = '{run}'")[0]


def outage(network, worker, times):
    """Cut until the worker has noticed, and past the end of the lease."""
    network.cut.set()
    wait_until(lambda: worker.said().count("waits: the database did not answer") == times)
    time.sleep(2 * LEASE)
    network.cut.clear()
    wait_until(lambda: worker.said().count("goes on") == times)


def test_four_outages_of_the_database_cost_a_run_nothing(pool, networks):
    pool.cluster()
    pool.migrate()
    network = networks(pool)
    pool.gate.hold("pace", 2, "step", lease="*")
    run = pool.submit(steps=5, seed=3)
    pool.conninfo, direct = network.conninfo, pool.conninfo
    workers = [pool.worker(POOL_LEASE=LEASE), pool.worker(POOL_LEASE=LEASE)]  # the second one might rescue it
    pool.conninfo = direct
    pool.gate.wait(run)
    holder = next(w for w in workers
                  if pool.sql(f"select worker from runs where id = '{run}'")[0]["worker"].endswith(f"/{w.pid}"))
    for times in range(1, 5):
        outage(network, holder, times)
        assert counts(pool, run) == {"state": "running", "epoch": 1, "tries": 0, "crashes": 0, "stalls": 0,
                                     "expiries": 0, "attempts": 0}
    pool.gate.open()
    assert pool.wait(run)["result"] == {"seed": 3, "epoch": 1}


def test_nobody_is_rescued_right_after_an_outage(pool, networks):
    """The database is back; a worker that hears of it a little later than another one keeps its run."""
    lease = 6.0
    pool.cluster()
    pool.migrate()
    network = networks(pool)
    pool.gate.hold("pace", 2, "step", lease="*")
    run = pool.submit(steps=5, seed=8)
    pool.conninfo, direct = network.conninfo, pool.conninfo
    holder = pool.worker(POOL_LEASE=lease)
    pool.gate.wait(run)
    other = pool.worker(POOL_LEASE=lease)
    wait_until(lambda: len(pool.sql("select pid from workers")) == 2)
    pool.conninfo = direct
    network.cut.set()
    time.sleep(1.2 * lease)
    holder.kill(signal.SIGSTOP)
    back = pool.sql("select clock_timestamp() as now")[0]["now"]
    network.cut.clear()
    wait_until(lambda: pool.sql(f"select 1 from workers where pid = {other.pid} and seen_at > '{back}'"))
    time.sleep(0.2)  # its next question would be the one about leases that have ended
    holder.kill(signal.SIGCONT)
    wait_until(lambda: "goes on" in holder.said())
    assert counts(pool, run)["epoch"] == 1 and counts(pool, run)["attempts"] == 0
    pool.gate.open()
    assert pool.wait(run)["result"] == {"seed": 8, "epoch": 1}


def test_a_clock_that_is_set_ahead_takes_no_run_from_its_worker(pool):
    """By it every lease is over at once. Its worker, which is slow to renew here, keeps its run."""
    lease = 6.0
    pool.cluster()
    pool.migrate()
    # The database's clock, as everything in it reads it.
    pool.execute("create table clock_set (by interval)")
    pool.execute("insert into clock_set values ('0')")
    pool.execute("set allow_system_table_mods = on; alter function pg_catalog.clock_timestamp() rename to true_clock; "
                 "create function pg_catalog.clock_timestamp() returns timestamptz language sql volatile as "
                 "$$ select pg_catalog.true_clock() + (select by from public.clock_set) $$")
    pool.gate.hold("pace", 2, "step", lease="*")
    run = pool.submit(steps=5, seed=9)
    holder = pool.worker(POOL_LEASE=lease)
    pool.gate.wait(run)
    other = pool.worker(POOL_LEASE=lease)
    wait_until(lambda: len(pool.sql("select pid from workers")) == 2)
    time.sleep(1.2 * lease)  # long enough for it to rescue what it finds
    holder.kill(signal.SIGSTOP)
    pool.execute("update clock_set set by = '1 hour'")
    wait_until(lambda: pool.sql(f"select 1 from workers where pid = {other.pid} "
                                "and seen_at > clock_timestamp() - interval '1 minute'"))
    time.sleep(0.2)  # its next question would be the one about leases that have ended
    holder.kill(signal.SIGCONT)
    time.sleep(lease)
    assert counts(pool, run)["epoch"] == 1 and counts(pool, run)["attempts"] == 0
    holder.kill(signal.SIGKILL)  # of a worker that is gone the run is taken as ever
    holder.handle.wait()
    pool.gate.open()
    assert pool.wait(run)["result"] == {"seed": 9, "epoch": 2}


def test_a_suspended_worker_goes_on_with_its_run(pool):
    pool.cluster()
    pool.migrate()
    pool.gate.hold("pace", 2, "step", lease="*")
    run = pool.submit(steps=5, seed=4)
    worker = pool.worker(POOL_LEASE=LEASE)
    pool.gate.wait(run)
    for times in range(1, 5):
        worker.kill(signal.SIGSTOP)
        time.sleep(1.5 * LEASE)
        worker.kill(signal.SIGCONT)
        wait_until(lambda: worker.said().count("goes on") == times)
    pool.gate.open()
    assert pool.wait(run)["result"] == {"seed": 4, "epoch": 1}
    assert counts(pool, run)["attempts"] == 0


def test_a_suspended_worker_is_not_taken_for_standing_still(pool):
    """For longer than an engine may be silent, within its lease, while the engine gives no sign of life."""
    pool.cluster()
    pool.migrate()
    run = pool.submit(steps=1, step_ms=8000, seed=6)
    worker = pool.worker(POOL_LEASE=30, POOL_STALL=4)
    wait_until(lambda: counts(pool, run)["state"] == "running")
    time.sleep(1)  # its main thread has seen the last sign of life
    worker.kill(signal.SIGSTOP)
    time.sleep(5)
    worker.kill(signal.SIGCONT)
    assert pool.wait(run)["result"] == {"seed": 6, "epoch": 1}
    assert counts(pool, run)["stalls"] == 0


def test_nodes_that_are_taken_away_do_not_end_a_run(pool):
    """Killed outright, with nobody beside them who could say so."""
    pool.cluster()
    pool.migrate()
    pool.gate.hold("pace", 2, "step", lease="*")
    run = pool.submit(steps=5, seed=5)
    for lease in range(1, 6):
        worker = pool.worker(POOL_LEASE=0.9)
        wait_until(lambda: rush(pool, run) or pool.gate.reported(run, lease) is not None)
        worker.kill()
        worker.handle.wait()
    row = counts(pool, run)
    assert row["crashes"] == 0 and row["attempts"] >= 4, row
    pool.gate.open()
    pool.worker(POOL_LEASE=0.9)
    wait_until(lambda: rush(pool, run) or counts(pool, run)["state"] == "succeeded")


def rush(pool, run):
    """Without the delay between two tries."""
    pool.execute(f"update runs set run_at = clock_timestamp() where id = '{run}' and state = 'queued'")
    return False


def test_a_worker_that_was_cut_off_and_overtaken_lets_go(pool, networks):
    pool.cluster()
    pool.migrate()
    network = networks(pool)
    pool.gate.hold("pace", 2, "step", lease="*")
    run = pool.submit(steps=5, seed=6)
    pool.conninfo, direct = network.conninfo, pool.conninfo
    first = pool.worker(POOL_LEASE=LEASE)
    pool.conninfo = direct
    pool.gate.wait(run)
    network.cut.set()
    pool.worker(POOL_LEASE=LEASE)
    pool.gate.wait(run, 2)
    network.cut.clear()
    wait_until(lambda: "lease lost" in first.said())
    pool.gate.open()
    assert pool.wait(run)["result"] == {"seed": 6, "epoch": 2}
    row = counts(pool, run)
    assert row["crashes"] == 0 and row["attempts"] == 1, row
