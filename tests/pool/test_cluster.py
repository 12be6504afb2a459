"""The embedded cluster: what a crash leaves, who may have it, what it refuses."""

import fcntl
import os
import pathlib
import signal
import subprocess
import time

from processes import postgres_processes


def wait_until(condition, limit=60.0):
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.05)


def answers(pool):
    try:
        return pool.sql("select 1 as one") == [{"one": 1}]
    except AssertionError:
        return False


def test_starts_stops_and_starts_again_with_its_rows(pool):
    cluster = pool.cluster()
    pool.execute("create table t (x int); insert into t values (7);")
    assert cluster.stop() == 0 and not postgres_processes(pool.directory)
    pool.cluster()
    assert pool.sql("select x from t") == [{"x": 7}]


def test_runs_below_a_directory_that_only_its_owner_may_search(pool):
    locked = pool.directory / "locked"
    locked.mkdir(mode=0o700)
    inner = locked / "data"
    inner.mkdir()
    process = pool.start("cluster", inner).ready()
    pool.conninfo = process.conninfo
    assert answers(pool)
    assert (locked.stat().st_mode & 0o777) == 0o700
    process.stop()


def test_long_and_odd_paths_get_a_short_socket(pool):
    inner = pool.directory / ("long, odd 'name' " + "x" * 120)
    inner.mkdir()
    process = pool.start("cluster", inner).ready()
    pool.conninfo = process.conninfo
    assert answers(pool) and len(process.conninfo) < 150
    process.stop()


def test_a_killed_postmaster_comes_back_with_every_acknowledged_row(pool):
    cluster = pool.cluster()
    pool.execute("create table t (x int)")
    for x in range(3):
        pool.execute(f"insert into t values ({x})")
        old = int((pool.directory / "pg/data/postmaster.pid").read_text().split()[0])
        os.kill(old, signal.SIGKILL)
        wait_until(lambda: answers(pool))
        assert pool.sql("select count(*) as n from t") == [{"n": x + 1}]
    assert "PostgreSQL ended" in cluster.said()


def test_a_stopped_backend_does_not_keep_a_killed_postmaster_down(pool):
    pool.cluster()
    session = subprocess.Popen(["psql", "-Xq", "-d", pool.conninfo, "-c", "select pg_sleep(600)"],
                               stderr=subprocess.DEVNULL)
    wait_until(lambda: pool.sql("select pid from pg_stat_activity where query like 'select pg_sleep%' "
                                "and pid <> pg_backend_pid()"))
    backend = pool.sql("select pid from pg_stat_activity where query like 'select pg_sleep%' "
                       "and pid <> pg_backend_pid()")[0]["pid"]
    os.kill(backend, signal.SIGSTOP)
    os.kill(int((pool.directory / "pg/data/postmaster.pid").read_text().split()[0]), signal.SIGKILL)
    wait_until(lambda: answers(pool))
    session.wait(10)


def test_a_killed_parent_leaves_nothing_that_blocks_the_next(pool):
    first = pool.cluster()
    first.kill()
    first.handle.wait()
    pool.cluster()
    assert answers(pool)
    wait_until(lambda: first.postmaster not in postgres_processes(pool.directory))


def test_stale_and_empty_postmaster_pids_do_not_block(pool):
    pool.cluster().stop()
    for text in ("", f"{os.getpid()}\n/nowhere\n1\n5432\n\n\n1 1\n", "999999\n"):
        (pool.directory / "pg/data/postmaster.pid").write_text(text)
        cluster = pool.cluster()
        assert answers(pool)
        cluster.stop()


def test_a_second_one_is_refused_by_name(pool):
    first = pool.cluster()
    second = pool.start("cluster", pool.directory)
    assert second.handle.wait(10) == 1
    assert f"process {first.pid} " in second.said()
    assert answers(pool)


def test_what_a_dead_one_started_may_have_the_lock_for_a_moment(pool):
    first = pool.cluster()
    first.kill()
    first.handle.wait()
    with open(pool.directory / "pg/lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = pool.start("cluster", pool.directory)
        time.sleep(0.5)
        assert second.handle.poll() is None
        fcntl.flock(lock, fcntl.LOCK_UN)
        pool.conninfo = second.ready().conninfo
    assert answers(pool)


def test_who_keeps_the_lock_of_a_dead_one_is_not_waited_for_without_end(pool):
    first = pool.cluster()
    first.kill()
    first.handle.wait()
    with open(pool.directory / "pg/lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = pool.start("cluster", pool.directory)
        assert second.handle.wait(60) == 1 and f"process {first.pid} " in second.said()


def test_the_lock_of_another_host_is_respected(pool):
    pool.cluster().stop()
    (pool.directory / "pg/lock").write_text("host=elsewhere boot=00000000-0000-0000-0000-000000000000 pid=12 nonce=1\n")
    other = pool.start("cluster", pool.directory)
    assert other.handle.wait(10) == 1 and "host elsewhere" in other.said()
    (pool.directory / "pg/lock").write_text("")
    pool.cluster()


def test_another_major_version_is_refused_and_nothing_is_touched(pool):
    pool.cluster().stop()
    version = pool.directory / "pg/data/PG_VERSION"
    for text, word in (("9\n", "install postgresql-9"), ("", "never made anew")):
        kept = version.read_text()
        version.write_text(text)
        process = pool.start("cluster", pool.directory)
        assert process.handle.wait(10) == 1 and word in process.said(), process.said()
        assert (pool.directory / "pg/data/global/pg_control").exists()
        version.write_text(kept)
    pool.cluster()


def test_an_interrupted_initdb_is_done_again(pool):
    first = pool.start("cluster", pool.directory)
    wait_until(lambda: (pool.directory / "pg/data.unfinished").exists())
    first.kill()
    first.handle.wait()
    pool.cluster()
    assert answers(pool) and not (pool.directory / "pg/data.unfinished").exists()


def test_works_with_a_broken_locale_and_an_open_umask(pool):
    old = os.umask(0)
    try:
        process = pool.start("cluster", pool.directory, LC_ALL="xx_XX.nothing", LANG="xx_XX",
                             HOME="/nonexistent").ready()
    finally:
        os.umask(old)
    pool.conninfo = process.conninfo
    assert answers(pool)
    assert (pool.directory / "pg").stat().st_mode & 0o777 == 0o700
    assert (pool.directory / "pg/socket").stat().st_mode & 0o777 == 0o700


def test_concurrent_migrations_apply_each_step_once(pool):
    pool.cluster()
    tool = pathlib.Path(__file__).resolve().parents[2] / "build/release/tests/pool/pool_tool_plain"
    processes = [subprocess.Popen([tool, "migrate", pool.conninfo], stdout=subprocess.PIPE, text=True)
                 for _ in range(4)]
    applied = [int(p.communicate(timeout=30)[0].split()[1]) for p in processes]
    steps = len(list((pathlib.Path(__file__).resolve().parents[2] / "sql").glob("*.sql")))
    assert sum(applied) == steps and all(p.returncode == 0 for p in processes)
