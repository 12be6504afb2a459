"""The private database as of any moment: its log archived by `serve --archive`, put back by `restore --archive`."""

import gzip
import json
import os
import shutil
import subprocess
import time

import models
import pytest
from earlier import psql
from service import Service
from small_disk import small_disk
from test_backup import documents, done, flip, items, post, tool
from test_service_metrics import eventually, numbers

long = pytest.mark.skipif("DELTAQ_LONG" not in os.environ, reason="minutes in all: make check-all")
NAME = "the lab's \"$archive\" \\ %p;"  # no part of it is read by a shell


def now(data):
    """Of the database's clock, which commits are told by."""
    form = 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'
    return psql(data, f"select to_char(clock_timestamp() at time zone 'UTC', '{form}')").strip()


def segments(archive):
    return sorted(path for path in (archive / "wal").iterdir() if len(path.name) == 24 + len(".gz"))


def bases(archive):
    return sorted((archive / "base").iterdir())


def archived(data, archive):
    """Everything that was written so far is in the archive."""
    wanted = psql(data, "select pg_walfile_name(pg_switch_wal())").strip()
    end = time.monotonic() + 60
    while not (archive / "wal" / f"{wanted}.gz").exists():
        assert time.monotonic() < end, "not archived"
        time.sleep(0.1)
    return wanted


def copied(archive, to):
    """With whose its files are: PostgreSQL's user reads them."""
    subprocess.run(["cp", "-a", archive, to], check=True)
    return to


def put(service, name):
    service.sequences(name, models.rows(2, 16))


def names(service):
    return sorted(row["name"] for row in items(service, "/v1/datasets?limit=50"))


def run_ids(service):
    return sorted(run["id"] for run in items(service, "/v1/runs?limit=50"))


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Runs before and after three moments, a backup between them; the server has stopped."""
    directory = tmp_path_factory.mktemp("lab")
    archive, found = directory / NAME, {"directory": directory}
    service = Service(directory, "--threads", "1", "--archive", str(archive))
    try:
        found.update(service=service, archive=archive, checkpoint=service.checkpoint(models.write_llama(
            service.files / "tiny", seed=3, num_key_value_heads=4), "lab", "one", step=1)["id"])
        service.sequences("held", models.rows(4, 24, seed=1))
        service.sequences("calibration", models.rows(8, 24, seed=2))
        found["bases"] = [bases(archive)]
        for part in range(3):
            for seed in (2 * part, 2 * part + 1):
                ended = service.wait(post(service, found, seed))
                assert ended["state"] == "succeeded", ended
            ids = run_ids(service)
            found[part] = {"runs": ids, "documents": documents(service, ids), "until": now(service.data)}
            archived(service.data, archive)
            if part == 1:
                done("backup", directory / "backup", "--data-dir", service.data)
                found["bases"].append(bases(archive))
    finally:
        service.stop()
    return found


def restored(lab, tmp_path, *options):
    """The same server on what the archive has, below another data directory."""
    tmp_path.mkdir(exist_ok=True)
    done("restore", "--archive", lab["archive"], "--data-dir", tmp_path / "data", *options)
    return Service(tmp_path, "--threads", "1", "--root", str(lab["service"].files))


@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_restore_to_a_moment_has_exactly_what_was_there_then(lab, tmp_path, part):
    other = restored(lab, tmp_path, "--until", lab[part]["until"])
    try:
        assert run_ids(other) == lab[part]["runs"]
        assert documents(other, lab[part]["runs"]) == lab[part]["documents"]
        written = [c for c in items(other, "/v1/checkpoints?limit=50") if str(other.data) in json.dumps(c)]
        assert len(written) == part + 1  # what runs wrote lies below the new data directory
        loss = other.run("evaluate", checkpoint=written[0]["id"], dataset="held")
        assert loss["state"] == "succeeded", loss["error"]
    finally:
        other.stop()


@long
def test_without_a_moment_all_of_the_archive_is_restored(lab, tmp_path):
    other = restored(lab, tmp_path)
    try:
        assert documents(other, run_ids(other)) == lab[2]["documents"]
        assert not (other.data / "pg" / "archive").exists()  # it is another life of the database
    finally:
        other.stop()


def everything_in(archive):
    return sorted(path.relative_to(archive).as_posix() for path in archive.rglob("*"))


def test_what_pruning_leaves_is_all_that_later_moments_need(lab, tmp_path):
    """The copy that a backup made, without the first one and the log before it."""
    first, both = lab["bases"]
    assert len(first) == 1 and len(both) == 2
    cut = copied(lab["archive"], tmp_path / "cut")
    before = everything_in(cut)
    begins = json.loads((cut / "base" / both[1].name / "manifest.json").read_text())["segment"]
    older = [path.name for path in segments(cut) if path.name < begins]
    assert older and segments(cut)[-1].name > begins
    told = done("archive", "prune", "--archive", cut, "--keep-copies", 1).stdout
    assert "would remove" in told and "1 copies" in told and "--delete" in told and everything_in(cut) == before
    done("archive", "prune", "--archive", cut, "--keep-copies", 1, "--delete")
    assert [path.name for path in bases(cut)] == [both[1].name] and segments(cut)[0].name == f"{begins}.gz"
    assert not set(older) & set(everything_in(cut / "wal"))
    since = done("archive", "list", "--archive", cut).stdout.splitlines()[-1].split()[-2]
    assert lab[0]["until"] < since < lab[2]["until"]
    other = restored({**lab, "archive": cut}, tmp_path / "later", "--until", lab[2]["until"])
    try:
        assert run_ids(other) == lab[2]["runs"]
        assert documents(other, lab[2]["runs"]) == lab[2]["documents"]
    finally:
        other.stop()
    ended = tool("restore", "--archive", cut, "--data-dir", tmp_path / "early", "--until", lab[0]["until"])
    assert ended.returncode == 1 and f"goes back to {since}" in ended.stderr and not any((tmp_path / "early").iterdir())


@long
def test_what_was_restored_archives_anew_and_is_restored_again(lab, tmp_path):
    """Its log is of another timeline."""
    again = tmp_path / "again"
    done("restore", "--archive", lab["archive"], "--data-dir", tmp_path / "data")
    other = Service(tmp_path, "--workers", "0", "--archive", str(again), "--root", str(lab["service"].files))
    put(other, "later")
    until = now(other.data)
    put(other, "latest")
    archived(other.data, again)
    done("archive", "copy", "--data-dir", other.data)
    put(other, "after the copy")
    other.stop()
    assert {path.name[:8] for path in segments(again)} == {"00000002"}
    for place, options, wanted in (("one", ["--until", until], {"later"}),
                                   ("all", [], {"later", "latest", "after the copy"})):
        done("restore", "--archive", again, "--data-dir", tmp_path / place / "data", *options)
        third = Service(tmp_path / place, "--workers", "0", "--root", str(lab["service"].files))
        assert set(names(third)) == wanted | {"held", "calibration"}
        third.stop()


@long
def test_files_come_from_where_the_data_directory_is_now_or_from_a_backup(lab, tmp_path):
    moved, former, options = tmp_path / "moved", lab["service"].data, lab["service"].options
    former.rename(moved)
    lab["service"].options = ["--workers", "0"]  # it is another life of the database, and not the archive's any more
    try:
        ended = tool("restore", "--archive", lab["archive"], "--data-dir", former, "--until", lab[1]["until"])
        assert ended.returncode == 1 and "files that the database names" in ended.stderr, ended.stderr
        shutil.rmtree(former)
        for source in (moved, lab["directory"] / "backup"):  # at the place of the one that was lost
            done("restore", source, "--archive", lab["archive"], "--data-dir", former, "--until", lab[1]["until"])
            lab["service"].start()
            assert documents(lab["service"], run_ids(lab["service"])) == lab[1]["documents"]
            lab["service"].stop()
            shutil.rmtree(former)
    finally:
        shutil.rmtree(former, ignore_errors=True)
        moved.rename(former)
        lab["service"].options = options


def test_checkpoints_from_before_and_after_a_move_of_the_data_directory_are_restored(tmp_path):
    archive, moved = tmp_path / "archive", tmp_path / "moved"
    service = Service(tmp_path, "--threads", "1", "--archive", str(archive))
    try:
        found = {"checkpoint": service.checkpoint(models.write_llama(
            service.files / "tiny", seed=3, num_key_value_heads=4), "lab", "one", step=1)["id"]}
        service.sequences("held", models.rows(4, 24, seed=1))
        service.sequences("calibration", models.rows(8, 24, seed=2))
        assert service.wait(post(service, found, 0))["state"] == "succeeded"
        service.stop()
        service.data.rename(moved)
        service.data.symlink_to(moved)  # so that what was written is found
        service.start()
        assert service.wait(post(service, found, 2))["state"] == "succeeded"
        done("backup", tmp_path / "copy", "--data-dir", moved)
        archived(moved, archive)
    finally:
        service.stop()
    service.data.unlink()
    for name, words in (("backup", [tmp_path / "copy"]), ("archive", [moved, "--archive", archive])):
        done("restore", *words, "--data-dir", tmp_path / name / "data")
        other = Service(tmp_path / name, "--workers", "0", "--root", str(service.files))
        try:
            paths = [c["source"]["path"] for c in items(other, "/v1/checkpoints?limit=50") if c["derived_from"]]
            assert len(paths) == 2 and all(path.startswith(f"{other.data}/checkpoints/") for path in paths), paths
            assert psql(other.data, "select count(*) from checkpoints where path = source ->> 'path'").strip() == "3"
            assert all(os.path.exists(f"{path}/config.json") for path in paths)
        finally:
            other.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root restores as another user than PostgreSQL's")
def test_an_archive_that_postgresql_cannot_read_is_told_before_its_log_is_wanted(lab, tmp_path):
    taken = copied(lab["archive"], tmp_path / "taken")
    os.chown(taken / "wal", 0, 0)
    ended = tool("restore", "--archive", taken, "--data-dir", tmp_path / "data")
    assert ended.returncode == 1 and "chown -R" in ended.stderr and str(taken) in ended.stderr, ended.stderr


@pytest.mark.parametrize("options, said", [
    (["--until", "2001-01-01T00:00:00Z"], "goes back to"), (["--until", "yesterday"], "expected a time like"),
    (["--until", "2026-11-23T15:04:05"], "expected a time like"),
    (["--until", "2199-02-29T00:00:00Z"], "expected a time like"),
    (["--until", "2199-12-24T25:00:00Z"], "expected a time like"), (["--database-url", "host=x"], "private database"),
])
def test_what_cannot_be_is_refused_before_anything_is_written(lab, tmp_path, options, said):
    ended = tool("restore", "--archive", lab["archive"], "--data-dir", tmp_path / "data", *options)
    assert ended.returncode == 1 and said in ended.stderr, ended.stderr
    assert not (tmp_path / "data").exists() or not any((tmp_path / "data").iterdir())


def test_a_moment_without_an_archive_or_another_directory_is_refused(lab, tmp_path):
    ended = tool("restore", lab["directory"] / "backup", "--until", lab[0]["until"], "--data-dir", tmp_path / "data")
    assert ended.returncode == 1 and "give --archive" in ended.stderr
    ended = tool("restore", "--archive", lab["directory"] / "backup", "--data-dir", tmp_path / "data")
    assert ended.returncode == 1 and "is no archive" in ended.stderr
    (tmp_path / "data" / "mine").write_text("kept")
    ended = tool("restore", "--archive", lab["archive"], "--data-dir", tmp_path / "data")
    assert ended.returncode == 1 and "is not empty" in ended.stderr


def test_a_moment_after_the_archives_end_is_told(lab, tmp_path):
    ended = tool("restore", "--archive", lab["archive"], "--data-dir", tmp_path / "data", "--until",
                 "2199-01-01T00:00:00Z")
    assert ended.returncode == 1 and "ends before that time" in ended.stderr, ended.stderr
    ended = tool("serve", "--listen", "127.0.0.1:0", "--data-dir", tmp_path / "data")
    assert ended.returncode == 1 and "was not finished" in ended.stderr


@pytest.mark.parametrize("damage", [*(pytest.param(damage, marks=long) for damage in (
    "base", "segment", "gap", "no base")), "unreadable"])
def test_a_damaged_archive_is_told_and_named(lab, tmp_path, damage):
    spoiled = copied(lab["archive"], tmp_path / "spoiled")
    first = json.loads((bases(spoiled)[-1] / "manifest.json").read_text())["segment"]
    victim = [path for path in segments(spoiled) if path.name > f"{first}.gz"][0]
    if damage == "base":
        victim = bases(spoiled)[-1] / "base.tar.gz"
        flip(victim)
    elif damage == "segment":  # its checksum: a bit of how zeros are packed may not matter
        raw = bytearray(victim.read_bytes())
        raw[-6] ^= 1
        victim.write_bytes(raw)
    elif damage == "unreadable":  # its name is there; the archive does not end before it
        victim.unlink()
        victim.symlink_to("nowhere")
    elif damage == "gap":
        assert victim != segments(spoiled)[-1]
        victim.unlink()
    else:
        for path in bases(spoiled):
            shutil.rmtree(path)
    ended = tool("restore", "--archive", spoiled, "--data-dir", tmp_path / "data")
    said = {"base": "is damaged", "segment": "is damaged or cannot be read", "gap": "lacks wal/",
            "no base": "has no copy of the database", "unreadable": "is damaged or cannot be read"}[damage]
    assert ended.returncode == 1 and said in ended.stderr, ended.stderr
    assert damage == "no base" or victim.name.split(".gz")[0] in ended.stderr
    assert damage in ("segment", "unreadable") or not any((tmp_path / "data").iterdir())
    assert damage != "base" or f"move {victim.parent} away" in ended.stderr.replace("\n", " ")
    if damage == "gap":
        ended = tool("restore", "--archive", spoiled, "--data-dir", tmp_path / "later", "--until", lab[2]["until"])
        assert ended.returncode == 1 and f"lacks wal/{victim.name}" in ended.stderr, ended.stderr


# ---- while it archives ----


@pytest.fixture
def own(tmp_path):
    service = Service(tmp_path, "--workers", "0", "--archive", str(tmp_path / "archive"))
    yield service
    if service.process.poll() is None:
        service.stop()


def refused(service, *options):
    ended = tool("serve", "--listen", "127.0.0.1:0", "--workers", "0", "--data-dir", service.data, *options)
    assert ended.returncode == 1, ended.stderr
    return ended.stderr


@long
def test_every_start_archives_until_it_is_ended(own, tmp_path):
    put(own, "first")
    own.stop()
    own.options = ["--workers", "0"]  # not asked for again
    own.start()
    put(own, "second")
    own.stop()
    done("token", "create", "--name", "third", "--scope", "read", "--data-dir", own.data)  # a start of its own
    done("restore", "--archive", tmp_path / "archive", "--data-dir", tmp_path / "other" / "data")
    other = Service(tmp_path / "other", "--workers", "0")
    other.token = own.token
    assert psql(other.data, "select name from datasets order by name").split() == ["first", "second"]
    assert psql(other.data, "select name from tokens").split() == ["third"]
    other.stop()
    (tmp_path / "archive").rename(tmp_path / "away")
    assert "is that directory mounted" in refused(own) and str(tmp_path / "archive") in refused(own)
    (tmp_path / "archive").mkdir()  # what a directory is where nothing is mounted
    assert "is that directory mounted" in refused(own)
    (tmp_path / "archive").rmdir()
    (tmp_path / "away").rename(tmp_path / "archive")
    assert "ends it" in refused(own, "--archive", tmp_path / "another")
    assert "another" not in {path.name for path in tmp_path.iterdir()} or not any((tmp_path / "another").iterdir())
    before = segments(tmp_path / "archive")
    own.options = ["--workers", "0", "--archive", "off"]
    own.start()
    assert psql(own.data, "show wal_level").strip() == "minimal"
    own.stop()
    assert segments(tmp_path / "archive") == before
    assert "is not empty" in refused(own, "--archive", tmp_path / "archive")  # it would have a gap


def test_an_archive_is_of_one_database(own, tmp_path):
    other = Service(tmp_path / "other", "--workers", "0")
    other.stop()
    assert "is not empty" in refused(other, "--archive", tmp_path / "archive")
    assert "--database-url" in refused(other, "--archive", tmp_path / "new", "--database-url", "host=nowhere")
    other.start()
    assert psql(other.data, "show archive_mode").strip() == "off"
    other.stop()
    own.stop()
    copy = tmp_path / "copy"
    copied(own.data, copy)
    before = segments(tmp_path / "archive")
    ended = tool("serve", "--listen", "127.0.0.1:0", "--workers", "0", "--data-dir", copy)
    assert ended.returncode == 1 and f"is a copy of {own.data}" in ended.stderr and "--archive off" in ended.stderr
    for command in (["token", "list"], ["migrate"], ["backup", tmp_path / "backup"], ["archive", "copy"]):
        ended = tool(*command, "--data-dir", copy)
        assert ended.returncode == 1 and f"is a copy of {own.data}" in ended.stderr, (command, ended.stderr)
    assert segments(tmp_path / "archive") == before


def test_a_copy_is_added_and_old_ones_go_while_the_server_runs(own, tmp_path):
    archive, here = tmp_path / "archive", ["--data-dir", own.data]
    lines = done("archive", "list", *here).stdout.splitlines()
    assert lines[0] == f"{archive}, of {own.data}" and lines[1].startswith("copy\t")
    assert [line.split("\t")[0] for line in lines[2:3]] == [path.name for path in bases(archive)]
    put(own, "before")
    assert str(archive) in done("archive", "copy", *here).stdout
    assert len(bases(archive)) == 2
    newest = bases(archive)[-1]
    done("archive", "prune", *here, "--keep-copies", 1, "--keep-days", 1, "--delete")
    assert len(bases(archive)) == 2, "yesterday needs what there is"
    done("archive", "prune", *here, "--keep-copies", 1, "--delete")
    assert bases(archive) == [newest]
    put(own, "after")
    own.stop()
    done("restore", "--archive", archive, "--data-dir", tmp_path / "other" / "data")
    other = Service(tmp_path / "other", "--workers", "0")
    assert names(other) == ["after", "before"]
    other.stop()


@pytest.mark.parametrize("arguments, code, said", [
    ([], 2, "archive list"), (["remove"], 2, "archive prune"), (["prune"], 1, "what shall stay"),
    (["prune", "--keep-copies", "-1"], 1, "--keep-copies must be"), (["list"], 1, "has no archive"),
    (["copy"], 1, "has no archive"), (["copy", "--archive", "x"], 1, "the archive of the data directory"),
    (["prune", "--keep-days", "1", "--archive", "."], 1, "is no archive"),
])
def test_what_cannot_be_done_with_an_archive_is_told(tmp_path, arguments, code, said):
    (tmp_path / "data").mkdir()
    options = ["--data-dir", tmp_path / "data"] if arguments else []
    ended = tool("archive", *arguments, *options)
    assert ended.returncode == code and said in ended.stderr, ended.stderr
    assert not any((tmp_path / "data").iterdir())


@long
def test_a_first_copy_that_was_not_finished_is_made_at_the_next_start(own, tmp_path):
    own.stop()
    (whole,) = bases(tmp_path / "archive")
    whole.rename(whole.with_name(f"{whole.name}.unfinished"))  # what a killed server leaves
    ended = tool("restore", "--archive", tmp_path / "archive", "--data-dir", tmp_path / "other")
    assert ended.returncode == 1 and "has no copy of the database" in ended.stderr
    own.start()
    assert [path.name.endswith("Z") for path in bases(tmp_path / "archive")] == [False, True]
    own.stop()
    done("restore", "--archive", tmp_path / "archive", "--data-dir", tmp_path / "other")


@long
def test_nothing_in_the_archive_is_written_over(own, tmp_path):
    archive = tmp_path / "archive"
    archived(own.data, archive)
    # One byte on: of the border between two segments the name is that of the one before.
    current = psql(own.data, "select pg_walfile_name(pg_current_wal_lsn() + 1)").strip()
    mine = archive / "wal" / f"{current}.gz"
    mine.write_bytes(gzip.compress(b"another segment"))
    kept = mine.read_bytes()
    os.chmod(mine, 0o644)
    put(own, "more")
    psql(own.data, "select pg_switch_wal()")
    end = time.monotonic() + 60
    while f"the archive has another {current}" not in (own.data / "pg" / "postgres.log").read_text():
        assert time.monotonic() < end
        time.sleep(0.1)
    assert mine.read_bytes() == kept
    mine.unlink()
    archived(own.data, archive)  # it goes on by itself
    with gzip.open(mine) as file:
        assert len(file.read()) == 16 << 20
    # As after a crash between the segment's name and PostgreSQL's note of it: the same segment once more is no fault.
    done_note = sorted((own.data / "pg" / "data" / "pg_wal" / "archive_status").glob("*.done"))[-1]
    done_note.rename(done_note.with_suffix(".ready"))
    put(own, "again")
    archived(own.data, archive)
    assert done_note.exists() and not list((archive / "wal").glob("*.part"))


@pytest.fixture
def small_archive(tmp_path):
    archive = tmp_path / "archive"
    archive.mkdir()
    with small_disk(archive, "size=64m"):
        yield archive


@long
def test_a_full_archive_is_told_and_goes_on_when_there_is_room(small_archive, tmp_path):
    archive, service = small_archive, None
    try:
        service = Service(tmp_path, "--workers", "0", "--archive", str(archive))
        archived(service.data, archive)
        (archive / "filler").write_bytes(b"x" * (os.statvfs(archive).f_bavail * 4096 - 8192))
        for number in range(6):
            put(service, f"d{number}")
            psql(service.data, "create table noise as select random() from generate_series(1, 20000); "
                               "drop table noise; select pg_switch_wal()")
        end = time.monotonic() + 120
        while "wait to be archived" not in service.log.read_text():
            assert time.monotonic() < end, service.log.read_text()
            time.sleep(0.5)
        assert f"into {archive}: it is full" in service.log.read_text()
        end = time.monotonic() + 60
        while numbers(service)["deltaq_archive_waiting_segments",] < 4:
            assert time.monotonic() < end
            time.sleep(0.5)
        put(service, "last")  # the server goes on
        failed = tool("backup", tmp_path / "copy", "--data-dir", service.data)
        assert failed.returncode == 1 and str(archive) in failed.stderr and "No space left" in failed.stderr
        assert (tmp_path / "copy" / "manifest.json").exists() and "itself is whole" in failed.stderr
        assert len(bases(archive)) == 1
        (archive / "filler").unlink()
        archived(service.data, archive)
        eventually(service, ("deltaq_archive_waiting_segments",), 0)
        assert not list((archive / "wal").glob("*.part"))
        service.stop()
        done("restore", "--archive", archive, "--data-dir", tmp_path / "other" / "data")
        other = Service(tmp_path / "other", "--workers", "0")
        assert names(other) == [*(f"d{number}" for number in range(6)), "last"]
        other.stop()
    finally:
        if service is not None and service.process.poll() is None:
            service.stop()


@long
def test_artifacts_that_earlier_moments_name_are_kept(own):
    own.stop()
    own.environment["DELTAQ_CLEANUP_AFTER"] = "0"
    artifacts = own.data / "artifacts"
    artifacts.mkdir(exist_ok=True)

    def cleaned(*options):
        for name in (".tmp-old", "a" * 64):
            (artifacts / name).write_text("of no run")
            os.utime(artifacts / name, (time.time() - 86400 * 2,) * 2)
        own.options = ["--workers", "1", "--threads", "1", *options]
        own.start()
        end = time.monotonic() + 120
        while (artifacts / ".tmp-old").exists():
            assert time.monotonic() < end
            time.sleep(0.05)
        time.sleep(0.5)
        own.stop()
        return not (artifacts / ("a" * 64)).exists()

    assert not cleaned()
    assert cleaned("--archive", "off")
