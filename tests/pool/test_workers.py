"""Workers and their supervisor: stopping, cancelling, crashing, stalling, and the death of everybody."""

import os
import signal
import time

from test_cluster import answers, wait_until


LEASE = 30  # seconds; renewed each third of it


def worker_pids(pool):
    return [row["pid"] for row in pool.sql("select pid from workers order by started_at")]


def seconds_between(pool, run, first, second):
    """By the database's clock, so that what this test's own processes take does not count."""
    return pool.sql(f"select extract(epoch from ({second}) - ({first}))::float8 as s from runs "
                    f"where id = '{run}'")[0]["s"]


def gone(pid):
    try:
        os.kill(pid, 0)
        return False
    except ProcessLookupError:
        return True


def test_a_run_succeeds_with_result_artifact_and_log(pool):
    pool.serve(1)
    run = pool.submit(seed=5, steps=3)
    document = pool.wait(run)
    assert document["state"] == "succeeded" and document["result"] == {"seed": 5, "epoch": 1}
    assert document["progress"]["done"] == document["progress"]["total"] == 3
    assert document["usage"]["seconds"] > 0 and document["usage"]["peak_host_bytes"] > 0
    assert ([e["data"]["line"] for e in pool.sql("select data from run_events where type = 'log'")]
            == ["attempt 0 did 3 steps"])
    assert not list((pool.directory / "tmp").iterdir())


def test_a_clean_up_begins_some_time_after_the_start_and_removes_all_parts(pool):
    pool.cluster()
    pool.migrate()
    artifacts = pool.directory / "artifacts"
    artifacts.mkdir()
    unused = [artifacts / f"{number:064x}" for number in range(2500)]
    for path in unused:
        path.touch()
        os.utime(path, (1, 1))
    young = pool.worker(POOL_CLEANUP=3600)
    for seed in (1, 2):  # between two runs a worker cleans up if it is time to
        assert pool.wait(pool.submit(seed=seed))["state"] == "succeeded"
    assert all(path.exists() for path in unused)
    assert young.stop() == 0
    pool.worker()
    wait_until(lambda: not any(path.exists() for path in unused))
    assert len(list(artifacts.iterdir())) == 2
    assert pool.wait(pool.submit(seed=3))["state"] == "succeeded"


def test_a_short_worker_cleans_up_where_nobody_has_for_two_hours(pool):
    pool.cluster()
    pool.migrate()
    unused, note = pool.directory / "artifacts" / f"{7:064x}", pool.directory / "cleaned"
    unused.parent.mkdir()
    unused.touch()
    os.utime(unused, (1, 1))
    first = pool.worker(POOL_CLEANUP=3600)
    wait_until(note.exists)  # the directory counts as clean until then
    assert pool.wait(pool.submit(seed=1))["state"] == "succeeded"
    for seed, ago in ((2, 7000), (3, -90000)):  # not long enough; and a clock that was set back says nothing
        os.utime(note, (time.time() - ago,) * 2)
        assert first.stop() == 0
        first = pool.worker(POOL_CLEANUP=3600)
        time.sleep(3.5)
        assert pool.wait(pool.submit(seed=seed))["state"] == "succeeded" and unused.exists()
    os.utime(note, (time.time() - 7300,) * 2)
    assert first.stop() == 0
    pool.worker(POOL_CLEANUP=3600)
    wait_until(lambda: not unused.exists())
    assert abs(time.time() - note.stat().st_mtime) < 60


def test_sigterm_gives_the_run_back_uncounted(pool):
    serve = pool.serve(1)
    run = pool.submit_held()
    began = time.monotonic()
    assert serve.stop() == 0
    assert time.monotonic() - began < LEASE
    pool.cluster()
    row = pool.sql(f"select state, tries, crashes, stalls, epoch, owner from runs where id = '{run}'")[0]
    assert row == {"state": "queued", "tries": 0, "crashes": 0, "stalls": 0, "epoch": 1, "owner": None}


def test_sigterm_does_not_wait_for_a_deaf_engine(pool):
    serve = pool.serve(1)
    run = pool.submit(steps=10000, step_ms=50, end="deaf")
    pool.wait(run, ["running"])
    began = time.monotonic()
    assert serve.stop() == 0
    assert time.monotonic() - began < LEASE
    pool.cluster()
    assert pool.sql(f"select state, crashes from runs where id = '{run}'")[0] == {"state": "queued", "crashes": 0}


def test_a_second_sigterm_hurries(pool):
    serve = pool.serve(1)
    run = pool.submit(steps=10000, step_ms=50, end="deaf")
    pool.wait(run, ["running"])
    serve.kill(signal.SIGTERM)
    time.sleep(0.5)
    began = time.monotonic()
    serve.kill(signal.SIGTERM)
    assert serve.handle.wait(10) == 0
    assert time.monotonic() - began < 5, "without the second one it waits for eight seconds"


def test_cancel_stops_a_running_run_without_waiting_for_a_beat(pool):
    pool.serve(1)
    run = pool.submit_held()
    pool.call("cancel", run)
    document = pool.wait(run)
    assert document["state"] == "cancelled"
    assert seconds_between(pool, run, "cancel_requested_at", "finished_at") < LEASE / 6


def test_a_killed_worker_loses_its_run_to_another_before_its_lease_ends(pool):
    serve = pool.serve(1)
    run = pool.submit_held()
    killed_at = time.time()
    os.kill(worker_pids(pool)[0], signal.SIGKILL)
    document = pool.wait(run)
    assert document["state"] == "succeeded" and document["attempt"] == 1
    taken = "select extract(epoch from at)::float8 as s from run_events where data->>'to' = 'running' and epoch = 2"
    assert pool.sql(taken)[0]["s"] - killed_at < LEASE - LEASE / 3
    evidence = pool.sql("select data->>'evidence' as e from run_events where data->>'reason' = 'crashed'")
    assert "signal 9" in evidence[0]["e"] and serve.handle.poll() is None


def test_a_poison_run_kills_three_workers_and_no_more(pool):
    pool.serve(2)
    run, healthy = pool.submit(steps=1, end="crash"), pool.submit(steps=100, step_ms=10)
    document = pool.wait(run, limit=40)
    assert document["state"] == "failed" and "signal 6" in document["error"]["detail"]
    assert len(pool.sql("select 1 from run_events where data->>'reason' = 'crashed'")) == 3
    assert pool.wait(healthy)["state"] == "succeeded"


def test_an_engine_that_stands_still_is_ended_and_counted(pool):
    pool.serve(1, POOL_STALL=1)
    run = pool.submit(steps=1, end="hang")
    wait_until(lambda: pool.sql(f"select stalls from runs where id = '{run}'")[0]["stalls"] >= 1)
    assert (pool.sql("select data->>'reason' as r from run_events where data->>'reason' is not null")[0]["r"]
            == "stalled")


def test_an_engine_that_reads_slowly_is_not_taken_for_standing_still(pool):
    pool.serve(1, POOL_STALL=1)
    run = pool.submit(steps=1, end="read")
    assert pool.wait(run)["state"] == "succeeded"
    row = pool.sql(f"select stalls, epoch from runs where id = '{run}'")[0]
    assert row == {"stalls": 0, "epoch": 1}


def test_a_run_that_the_gate_holds_keeps_its_lease_and_is_not_taken_for_stalled(pool):
    pool.serve(1, POOL_STALL=1, POOL_LEASE=3)
    run = pool.submit_held()
    time.sleep(4)
    held = pool.sql("select state, epoch, stalls, (lease_until > clock_timestamp()) as leased from runs "
                    f"where id = '{run}'")[0]
    assert held == {"state": "running", "epoch": 1, "stalls": 0, "leased": True} and pool.gate.reported(run) == 2
    pool.gate.open()
    assert pool.wait(run)["result"]["epoch"] == 1


def test_errors_are_final_or_tried_again_by_their_status(pool):
    pool.serve(1)
    first, second = pool.submit(steps=1, end="fail"), pool.submit(steps=1, end="again")
    document = pool.wait(first)
    assert document["state"] == "failed" and document["error"]["code"] == "invalid" and document["attempt"] == 0
    document = pool.wait(second)
    assert document["state"] == "failed" and document["attempt"] == 3


def test_killing_the_server_ends_its_workers_and_the_run_goes_on_in_the_next(pool):
    serve = pool.serve(2)
    run = pool.submit_held()
    pids = worker_pids(pool)
    serve.kill()
    serve.handle.wait()
    wait_until(lambda: all(map(gone, pids)), 30)
    pool.gate.open()
    pool.serve(1)
    assert pool.wait(run)["state"] == "succeeded"


def test_a_killed_postmaster_costs_no_run(pool):
    serve = pool.serve(2)
    pool.gate.hold("pace", 2, "step")
    runs = [pool.submit(steps=60, step_ms=20, seed=i) for i in range(4)]
    wait_until(lambda: sum(pool.gate.reported(run) is not None for run in runs) == 2)
    pool.gate.open()
    os.kill(int((pool.directory / "pg/data/postmaster.pid").read_text().split()[0]), signal.SIGKILL)
    wait_until(lambda: "PostgreSQL ended" in serve.said() and answers(pool))
    for run in runs:
        document = pool.wait(run)
        assert document["state"] == "succeeded" and document["attempt"] == 0
    assert len(pool.sql("select 1 from run_results")) == 4
