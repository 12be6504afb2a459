"""GET /v1/events: the change log as server-sent events, replayed from the database."""

import os
import pathlib
import random
import signal
import subprocess
import tempfile
import threading

import models
import numpy
import pytest
from service import Service
from streaming import Stream
from test_watch import until

LIMIT = 120


@pytest.fixture(scope="module")
def measured(service):
    """A trajectory with one checkpoint and one evaluation, and what the log told of it."""
    path = models.write_llama(service.files / "events", seed=5)
    checkpoint = service.checkpoint(path, "events told", "step10", step=10, tokens=1000)
    service.sequences("events-data", numpy.random.default_rng(1).integers(0, 256, (4, 32)).tolist())
    run = service.run("evaluate", checkpoint="events told/step10", dataset="events-data", sequence_length=32)
    return checkpoint, run


def told(service, query, last=None, done="measurement"):
    with Stream(service.port, f"/v1/events?{query}", last) as stream:
        return stream.until(lambda kind, data: kind == done)


def test_a_run_is_told_from_its_post_to_its_measurements(service, measured):
    checkpoint, run = measured
    events = told(service, "after=0&trajectory=events%20told")
    assert [kind for _, kind, _ in events] == ["checkpoint", "run", "run", "run", "measurement"]
    ids = [i for i, _, _ in events]
    assert ids == sorted(set(ids))
    registered, queued, running, succeeded, measurement = (data for _, _, data in events)
    assert registered["action"] == "registered" and registered["checkpoint"] == checkpoint["id"]
    assert (registered["checkpoint_name"], registered["trajectory"]) == ("step10", "events told")
    assert (registered["step"], registered["tokens"]) == (10, 1000)
    assert [(d["from"], d["to"]) for d in (queued, running, succeeded)] == [
        (None, "queued"), ("queued", "running"), ("running", "succeeded")]
    named = {"checkpoint": checkpoint["id"], "checkpoint_name": "step10", "trajectory": "events told"}
    for data in (queued, running, succeeded):
        assert (data["run"], data["run_kind"], data["checkpoints"]) == (run["id"], "evaluate", [named])
    assert {key: measurement[key] for key in named} == named and measurement["run"] == run["id"]
    assert "loss" in measurement["metrics"] and measurement["step"] == 10
    assert all(data["at"].endswith("Z") for _, _, data in events)


def test_a_client_goes_on_after_the_last_event_that_it_saw(service, measured):
    events = told(service, "after=0&trajectory=events%20told")
    for header, query in ((None, f"after={events[1][0]}"), (events[1][0], ""), (events[1][0], "after=0")):
        assert told(service, f"trajectory=events%20told&{query}", header) == events[2:]


def test_filters_by_kind_and_trajectory(service, measured):
    events = told(service, "after=0&kind=checkpoint&kind=measurement&trajectory=events+told")
    assert [kind for _, kind, _ in events] == ["checkpoint", "measurement"]
    service.checkpoint(models.write_llama(service.files / "events-other", seed=6), "events untold", "step1")
    with Stream(service.port, "/v1/events?after=0&kind=checkpoint&trajectory=events+untold") as stream:
        assert stream.take(1)[0][2]["trajectory"] == "events untold"


def test_without_a_position_it_begins_now_and_says_where(service, measured):
    with Stream(service.port, "/v1/events?trajectory=events%20told") as stream:
        while stream.text.count("id: ") == 0:
            assert stream.more()
        renamed = service.request("PATCH", f"/v1/checkpoints/{measured[0]['id']}", {"tags": {"seen": "yes"}})
        assert renamed.status == 200
        (number, kind, data), = stream.take(1)
        assert (kind, data["action"]) == ("checkpoint", "changed")
    with Stream(service.port, "/v1/events?trajectory=events%20told", number - 1) as again:
        assert again.take(1) == [(number, kind, data)]


def test_deleted_checkpoints_are_told(service):
    made = service.checkpoint(models.write_llama(service.files / "events-gone", seed=7), "events gone", "step1")
    assert service.request("DELETE", f"/v1/checkpoints/{made['id']}").status == 204
    with Stream(service.port, "/v1/events?after=0&trajectory=events%20gone") as stream:
        assert [data["action"] for _, _, data in stream.take(2)] == ["registered", "deleted"]


@pytest.mark.parametrize("query,status,pointer", [
    ("kind=weather", 422, "/kind"), ("after=x", 422, "/after"), ("after=-1", 422, "/after"), ("after=", 422, "/after"),
    ("follow=perhaps", 422, "/follow"), ("trajectory=nowhere", 404, None), ("since=1", 422, "/since"),
    ("after=99999999999", 410, None)])
def test_bad_queries_are_refused(service, query, status, pointer):
    answer = service.get(f"/v1/events?{query}")
    assert answer.status == status and (pointer is None or answer.pointers == [pointer])


def test_a_last_event_id_that_is_no_id_is_refused(service):
    assert service.get("/v1/events", {"Last-Event-ID": "yesterday"}).status == 422


# ---- what only SQL can bring about: writers that commit late, much that is old ----


class Outside:
    """Servers over one database, and psql."""

    def __init__(self, directory):
        self.first = Service(directory, "--workers", "0")
        self.conninfo = f"host={self.first.data}/pg/socket port=5432 user=deltaq dbname=deltaq"

    def command(self):
        return ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", self.conninfo]

    def sql(self, text):
        done = subprocess.run([*self.command(), "-c", text], capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def change(self, words):
        return ("insert into changes_pending (kind, data) values ('checkpoint',"
                f" jsonb_build_object('word', '{words}'))")


@pytest.fixture
def outside():
    with tempfile.TemporaryDirectory(prefix="dq-") as directory:
        outside = Outside(pathlib.Path(directory))
        yield outside
        outside.first.stop()


def words(events):
    return [data["word"] for _, _, data in events]


def test_a_writer_that_commits_late_gets_a_larger_id(outside):
    """The first writer writes first and commits last: with a sequence, who had seen the second would miss it."""
    with Stream(outside.first.port, "/v1/events?after=0") as stream:
        late = subprocess.Popen(outside.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        late.stdin.write(f"begin; {outside.change('late')}; select 'written';\n")
        late.stdin.flush()
        assert late.stdout.readline() == "written\n"
        outside.sql(outside.change("early"))
        events = stream.events()
        first = next(events)
        late.communicate("commit;\n", timeout=LIMIT)
        second = next(events)
    assert words([first, second]) == ["early", "late"] and second[0] == first[0] + 1
    assert outside.sql("select count(*) from changes_pending") == "0"


def test_nothing_is_missed_or_doubled_with_many_writers_two_servers_and_kills(outside):
    """The reader comes again with the last id it saw. One of two servers that give ids is killed again and again."""
    writers, each = 6, 40

    def write(number):
        random.seed(number)
        lines = []
        for i in range(each):
            lines.append(f"begin; {outside.change(f'{number}.{i}')}; select pg_sleep({random.random() / 20}); "
                         + ("rollback;" if i % 10 == 9 else "commit;"))
        psql, text = outside.command(), "\n".join(lines)
        subprocess.run(psql, input=text, text=True, check=True, stdout=subprocess.DEVNULL, timeout=LIMIT)

    wanted = {f"{n}.{i}" for n in range(writers) for i in range(each) if i % 10 != 9}
    directory = outside.first.data.parent / "second"
    second = Service(directory, "--workers", "0", "--database-url", outside.conninfo)
    found, ports, ended = [], {"port": second.port}, threading.Event()

    def read():
        last = 0
        while len(found) < len(wanted):
            try:
                with Stream(ports["port"], "/v1/events?after=0", last, limit=LIMIT) as stream:
                    for event in stream.events():
                        found.append(event)
                        last = event[0]
                        if len(found) >= len(wanted):
                            break
            except (ConnectionRefusedError, ConnectionResetError, AssertionError):
                if ended.wait(0.05):
                    return

    reader = threading.Thread(target=read)
    threads = [threading.Thread(target=write, args=(n,)) for n in range(writers)]
    for thread in [reader, *threads]:
        thread.start()
    kills = 0
    while any(thread.is_alive() for thread in threads) or kills < 3:
        ended.wait(random.random())
        os.kill(second.process.pid, signal.SIGKILL)
        second.process.wait()
        second.process.stdout.close()
        second.start()
        ports["port"] = second.port
        kills += 1
    reader.join(LIMIT)
    ended.set()
    second.stop()
    ids = [i for i, _, _ in found]
    assert ids == sorted(set(ids))
    assert sorted(words(found)) == sorted(wanted)
    for n in range(writers):  # one writer's own changes keep their order
        mine = [word for word in words(found) if word.startswith(f"{n}.")]
        assert mine == sorted(mine, key=lambda word: int(word.split(".")[1]))
    assert outside.sql("select max(id) = count(*) and max(id) = (select last from change_log) from changes") == "t"


def test_a_long_replay_goes_at_the_readers_pace(outside):
    """Much more than may wait for a slow reader: it is neither dropped nor held in memory."""
    outside.sql("insert into changes_pending (kind, data) select 'checkpoint',"
                " jsonb_build_object('word', n::text, 'long', repeat('x', 2000)) from generate_series(1, 6000) n")
    with Stream(outside.first.port, "/v1/events?after=0", limit=LIMIT) as stream:
        events = stream.take(6000)
    assert words(events) == [str(n) for n in range(1, 6001)]
    assert [i for i, _, _ in events] == list(range(1, 6001))


@pytest.mark.parametrize("follow", ["true", "false"])
def test_changes_that_are_large_together_are_all_told(outside, follow):
    """200 of 12 kB, as those of runs with many checkpoints are, and one of 3 MB, which is more than one call sends."""
    outside.sql("insert into changes_pending (kind, data) select 'checkpoint', jsonb_build_object('word', n::text,"
                " 'long', repeat('x', case when n = 250 then 3000000 else 12000 end)) from generate_series(1, 300) n")
    with Stream(outside.first.port, f"/v1/events?after=0&follow={follow}", limit=LIMIT) as stream:
        events = stream.take(300) if follow == "true" else list(stream.events())
    assert words(events) == [str(n) for n in range(1, 301)] and len(events[249][2]["long"]) == 3000000


def test_a_change_that_is_too_large_is_left_out_and_said(outside):
    outside.sql("insert into changes_pending (kind, data) select 'checkpoint', jsonb_build_object('word', n::text,"
                " 'long', repeat('x', case when n = 2 then 9000000 else 1 end)) from generate_series(1, 3) n")
    for last in (0, 1):
        with Stream(outside.first.port, "/v1/events?follow=false", last) as stream:
            assert words(stream.events()) == ["1", "3"][last:]
    assert "leaves checkpoint 2 out" in outside.first.log.read_text()


def test_who_reads_late_misses_nothing(outside):
    """12 MB in twenty pieces, each told before the next one: far more than the socket takes while nobody reads. Where
    writing them takes longer than the server waits for a reader (15 s), the client comes again, as browsers do."""
    told = []
    with Stream(outside.first.port, "/v1/events?after=0", limit=LIMIT) as stream:
        for n in range(20):
            outside.sql("insert into changes_pending (kind, data) select 'checkpoint', jsonb_build_object('word',"
                        f" n::text, 'long', repeat('x', 4000)) from generate_series({150 * n + 1}, {150 * n + 150}) n")
            while outside.sql("select last from change_log") != str(150 * n + 150):
                pass
            with Stream(outside.first.port, f"/v1/events?after={150 * n + 149}") as other:
                other.take(1)  # so the broadcaster, which serves one after another, was here
        told += stream.up_to(3000)
    while len(told) < 3000:
        with Stream(outside.first.port, "/v1/events?after=0", told[-1][0] if told else 0, limit=LIMIT) as stream:
            told += stream.take(3000 - len(told))
    assert words(told) == [str(n) for n in range(1, 3001)]


def test_an_ended_runs_lines_are_all_told(outside):
    """3,000 lines of 2 kB: one call reads 500, and sends fewer. With Last-Event-ID those behind it."""
    outside.sql("insert into runs (id, kind, state, epoch, finished_at) values ('r', 'evaluate', 'cancelled', 1,"
                " now()); insert into run_specs (run, params) values ('r', '{}'); "
                "insert into run_events (run, epoch, type, data) select 'r', 1, 'log', jsonb_build_object('line',"
                " n || repeat(' of many lines', 150)) from generate_series(1, 3000) n")
    with Stream(outside.first.port, "/v1/runs/r/events", limit=LIMIT) as stream:
        lines = [(i, data["line"].split()[0]) for i, kind, data in stream.events() if kind == "log"]
    assert [line for _, line in lines] == [str(n) for n in range(1, 3001)]
    with Stream(outside.first.port, "/v1/runs/r/events", lines[999][0], limit=LIMIT) as stream:
        assert [i for i, kind, _ in stream.events() if kind == "log"] == [i for i, _ in lines[1000:]]


def test_a_filter_that_nothing_fits_moves_the_position_on(outside):
    outside.sql("insert into changes_pending (kind, data)"
                " select 'checkpoint', '{\"word\": \"\"}' from generate_series(1, 12000)")
    outside.sql("insert into changes_pending (kind, data) values ('alert', '{\"word\": \"fire\"}')")
    with Stream(outside.first.port, "/v1/events?after=0&kind=alert") as stream:
        assert words(stream.take(1)) == ["fire"] and stream.last == 12001
    with Stream(outside.first.port, "/v1/events?after=0&kind=run&follow=false") as stream:
        assert list(stream.events()) == [] and stream.last == 12001


def test_a_number_beyond_64_bits_does_not_end_the_stream(outside):
    """PostgreSQL prints such a number as an integer, however it was written."""
    outside.sql("insert into changes_pending (kind, data) values"
                " ('verdict', '{\"word\": \"large\", \"max\": 1e308, \"min\": -1e20, \"bits\": 4}')")
    outside.sql(outside.change("after"))
    with Stream(outside.first.port, "/v1/events?after=0") as stream:
        (_, _, large), (_, _, after) = stream.take(2)
    assert (large["max"], large["min"], large["bits"], after["word"]) == (1e308, -1e20, 4, "after")
    assert isinstance(large["bits"], int)


def test_a_change_that_cannot_be_read_is_left_out_and_logged(outside):
    outside.sql(outside.change("before"))
    outside.sql("insert into changes_pending (kind, data) values ('checkpoint', '{\"word\": \"no\", \"max\": 1e400}')")
    outside.sql(outside.change("after"))
    with Stream(outside.first.port, "/v1/events?after=0") as stream:
        assert words(stream.take(2)) == ["before", "after"]
    assert "change 2 cannot be read" in outside.first.log.read_text()


def test_what_is_too_old_is_removed_and_a_cursor_before_it_is_told_so(outside):
    for word in ("old", "older than allowed", "new"):
        outside.sql(outside.change(word))
    with Stream(outside.first.port, "/v1/events?after=0") as stream:
        stream.take(3)
    outside.sql("update changes set at = at - interval '31 days' where id <= 2")
    outside.first.stop()
    outside.first.start()  # what is old is removed at the start and every hour
    for _ in range(LIMIT):
        if outside.sql("select count(*) from changes") == "1":
            break
        threading.Event().wait(0.1)
    gone = outside.first.get("/v1/events?after=1")
    assert gone.status == 410 and gone.json["code"] == "gone" and "2" in gone.json["detail"]
    assert outside.first.get("/v1/events", {"Last-Event-ID": "1"}).status == 410
    for after in ("after=2", "after=0"):  # 0: from the beginning of what is kept
        with Stream(outside.first.port, f"/v1/events?{after}") as stream:
            assert words(stream.take(1)) == ["new"]


def test_a_deletion_that_takes_long_holds_up_nobody(outside):
    """While a checkpoint of one trajectory is being deleted and a change of it waits for its id, other trajectories
    have their events, their new rows and their verdicts."""
    outside.sql("""
        insert into trajectories (id, name) values ('a', 'other'), ('b', 'going');
        insert into checkpoints (id, trajectory, name, source, step) values
            ('a1', 'a', 'step1', '{}', 1), ('b1', 'b', 'step1', '{}', 1), ('b2', 'b', 'step2', '{}', 2);
        insert into gates (name, trajectory, rules) select t, t,
            '[{"metric": "loss", "max": 2, "straddle": "value"}]' from unnest(array['a', 'b']) t;
        insert into runs (id, kind, state, epoch, result_epoch, finished_at)
            values ('r', 'evaluate', 'succeeded', 1, 1, now());
        insert into run_specs (run, params) values ('r', '{}');
        select change_of_checkpoint('changed', c) from checkpoints c""")
    followed = "select f.after = l.last and not exists (select from changes_pending) from followers f, change_log l"
    until("all is judged", lambda: outside.sql(followed) == "t")
    deleting = subprocess.Popen(outside.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deleting.stdin.write("set idle_in_transaction_session_timeout = 0; begin;"
                         " delete from checkpoints where id = 'b1'; select 'deleted';\n")
    deleting.stdin.flush()
    assert deleting.stdout.readline() == "deleted\n"
    outside.sql("select change_of_checkpoint('changed', c) from checkpoints c where id = 'b1';"
                " insert into measurements (run, epoch, checkpoint, metric, value, label)"
                " values ('r', 1, 'a1', 'loss', 1, '')")
    answer = outside.first.get("/v1/measurements?trajectory=other&updated_since=0")
    assert answer.status == 200 and [row["loss"] for row in answer.json["items"]] == [1]
    with Stream(outside.first.port, "/v1/events?after=0&kind=verdict") as stream:
        (_, _, told), = stream.take(1)
    assert (told["trajectory"], told["verdict"]) == ("other", "pass")
    until("all is judged", lambda: outside.sql(followed) == "t")
    left = ("select (select count(*) from change_marks where checkpoint = c),"
            " (select count(*) from gate_verdicts where checkpoint = c) from unnest(array['b1', 'b2']) c order by c")
    assert outside.sql(left) == "1|1\n1|1"
    deleting.communicate("commit;\n", timeout=LIMIT)
    until("all is judged", lambda: outside.sql(followed) == "t")
    assert outside.sql(left) == "0|0\n1|1"  # what was kept of it goes with it


def test_counts_are_folded_beside_a_deletion_that_takes_long(outside):
    """A fold takes rows of all trajectories, but none of one that is being deleted."""
    outside.sql("""
        insert into trajectories (id, name) values ('a', 'other'), ('b', 'going');
        insert into checkpoints (id, trajectory, name, source) values
            ('a1', 'a', 'step1', '{}'), ('b1', 'b', 'step1', '{}')""")
    deleting = subprocess.Popen(outside.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deleting.stdin.write("set idle_in_transaction_session_timeout = 0; begin;"
                         " select 'locked' from trajectories where id = 'b' for update;"
                         " delete from checkpoints where trajectory = 'b'; select 'deleted';\n")
    deleting.stdin.flush()
    assert [deleting.stdout.readline() for _ in range(2)] == ["locked\n", "deleted\n"]
    # One of a hundred inserts folds.
    outside.sql("""
        set lock_timeout = '1s';
        do $$ begin
            for i in 1 .. 3000 loop insert into trajectory_counts values ('a', 'queued', 1); end loop;
        end $$""")
    counted = "select sum(change), count(*) < 3000 from trajectory_counts where trajectory = 'a' and what = 'queued'"
    assert outside.sql(counted) == "3000|t"
    deleting.communicate("delete from trajectories where id = 'b'; commit;\n", timeout=LIMIT)
    assert deleting.returncode == 0
    assert outside.sql("select count(*) from trajectory_counts where trajectory = 'b'") == "0"


def test_what_there_was_before_the_log_begins_it(outside):
    """A database of an earlier schema: its checkpoints and measurements are the first changes."""
    outside.sql("""
        drop table changes_pending, changes, change_log, change_marks cascade;
        drop function changes_of_run_events, changes_of_deleted_runs, changes_of_checkpoints, changes_of_measurements,
            change_of_measurements, change_of_checkpoint cascade;
        delete from schema_migrations where number = 14;
        insert into trajectories (id, name) values ('t', 'before');
        insert into checkpoints (id, trajectory, name, source)
            values ('c', 't', 'step1', '{}'), ('d', 't', 'step2', '{}');
        insert into runs (id, kind, state, epoch, result_epoch, finished_at)
            values ('r', 'evaluate', 'succeeded', 1, 1, now());
        insert into measurements (run, epoch, checkpoint, metric, value, label)
            values ('r', 1, 'c', 'loss', 1, ''), ('r', 1, 'c', 'delta', 1, 'rtn 4-bit')""")
    outside.first.stop()
    outside.first.start()
    with Stream(outside.first.port, "/v1/events?after=0&follow=false") as stream:
        events = list(stream.events())
    assert [(i, kind, data["checkpoint_name"]) for i, kind, data in events] == [
        (1, "checkpoint", "step1"), (2, "checkpoint", "step2"), (3, "measurement", "step1")]
    assert (events[2][2]["metrics"], events[2][2]["labels"]) == (["delta", "loss"], ["rtn 4-bit"])
