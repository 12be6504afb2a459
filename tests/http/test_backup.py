"""Backups: made while runs go on, whole or nothing, and put back elsewhere with the same answers."""

import contextlib
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import models
import pytest
from earlier import earlier_schema, held, psql, until
from service import BINARY, Service

LISTS = ("trajectories", "checkpoints", "datasets", "runs", "sweeps", "webhooks", "gates")


def tool(*arguments):
    return subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=180)


def done(*arguments):
    ended = tool(*arguments)
    assert ended.returncode == 0, ended.stderr
    return ended


def items(service, path):
    found = []
    while path:
        page = service.get(path).json
        found += page["items"]
        path = page.get("next")
    return found


def documents(service, runs):
    """Of every run its document, its events and the bytes of its artifacts."""
    found = {}
    for run in runs:
        path = f"/v1/runs/{run}"
        found[path] = service.get(path).body
        for artifact in service.get(f"{path}/artifacts").json["items"]:
            body = service.get(f"{path}/artifacts/{artifact['name']}").body
            assert hashlib.sha256(body).hexdigest() == artifact["sha256"]
            found[path, artifact["name"]] = body
    return {key: body.replace(str(service.data).encode(), b"DATA") for key, body in found.items()}


def lists(service):
    found = {name: items(service, f"/v1/{name}?limit=3") for name in LISTS}
    found["measurements"] = items(service, "/v1/measurements?limit=100")
    return json.loads(json.dumps(found).replace(str(service.data), "DATA"))


def post(service, lab, seed, force=True):
    params = {"checkpoint": lab["checkpoint"], "method": {"name": "gptq", "bits": 3, "group_size": 16},
              "evaluation": {"dataset": "held"}, "calibration": {"dataset": "calibration"}, "seed": seed,
              "export": "gptq" if seed % 2 else "dequantized"}
    answer = service.post("/v1/runs", {"kind": "quantize", "params": params, "force": force})
    assert answer.status in (200, 202), answer.body
    return answer.json["id"]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A server with runs that ended and left artifacts and a checkpoint."""
    service = Service(tmp_path_factory.mktemp("lab"), "--threads", "1")
    try:
        found = {"service": service, "checkpoint": service.checkpoint(models.write_llama(
            service.files / "tiny", seed=3, num_key_value_heads=4), "lab", "one", step=1)["id"]}
        service.sequences("held", models.rows(4, 24, seed=1))
        service.sequences("calibration", models.rows(8, 24, seed=2))
        found["ended"] = [post(service, found, seed) for seed in range(4)]
        for run in found["ended"]:
            document = service.wait(run)
            assert document["state"] == "succeeded", document
        yield found
    finally:
        service.stop()


def restored(directory, backup, *options):
    """A server on what `backup` has; below another data directory."""
    directory.mkdir(exist_ok=True)
    done("restore", backup, "--data-dir", directory / "data")
    return Service(directory, "--threads", "1", *options)


def test_a_backup_while_runs_go_on_gives_the_same_answers_elsewhere(lab, tmp_path):
    service, before = lab["service"], documents(lab["service"], lab["ended"])
    flying = [post(service, lab, 4)]
    service.wait(flying[0])
    with service.gate.holding("quantize", 0):
        flying += [post(service, lab, seed) for seed in range(5, 24)]
        service.held(flying[1])
        done("backup", tmp_path / "copy", "--data-dir", service.data)
    for run in flying:
        assert service.wait(run)["state"] == "succeeded"
    other = restored(tmp_path / "other", tmp_path / "copy", "--root", service.files)
    try:
        assert {run["id"] for run in items(other, "/v1/runs?limit=50")} >= {*lab["ended"], *flying}
        assert documents(other, lab["ended"]) == before
        states = [other.wait(run)["state"] for run in flying]  # those that were in flight run again
        assert states == ["succeeded"] * len(flying)
        assert [other.get(f"/v1/runs/{run}").json["result"]["loss_q"] for run in flying] == [
            service.get(f"/v1/runs/{run}").json["result"]["loss_q"] for run in flying]
        written = [c for c in items(other, "/v1/checkpoints?limit=50") if str(other.data) in json.dumps(c)]
        assert written, "no checkpoint that a run wrote lies below the new data directory"
        loss = other.run("evaluate", checkpoint=written[0]["id"], dataset="held")
        assert loss["state"] == "succeeded", loss["error"]
    finally:
        other.stop()


def test_a_backup_at_rest_gives_every_list_and_document(lab, tmp_path):
    service = lab["service"]
    done("backup", tmp_path / "copy", "--data-dir", service.data)
    expected, every = lists(service), documents(service, [run["id"] for run in items(service, "/v1/runs?limit=50")])
    other = restored(tmp_path / "other", tmp_path / "copy", "--workers", "0")
    try:
        found = lists(other)
        for name, rows in expected.items():
            assert found[name] == rows, name
        assert (documents(other, [run["id"] for run in items(other, "/v1/runs?limit=50")]) == every
                and len(every) > len(lab["ended"]))
    finally:
        other.stop()


@pytest.fixture(scope="module")
def copy(lab, tmp_path_factory):
    directory = tmp_path_factory.mktemp("copy") / "copy"
    done("backup", directory, "--data-dir", lab["service"].data)
    return directory


def flip(path):
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


def first(directory, pattern):
    return sorted(path for path in directory.glob(pattern) if path.is_file())[0]


@pytest.mark.parametrize("damage", ["dump", "artifact", "checkpoint", "manifest", "cut", "lost", "unfinished"])
def test_a_damaged_backup_is_refused_before_anything_is_written(copy, tmp_path, damage):
    spoiled = shutil.copytree(copy, tmp_path / "spoiled")
    if damage == "cut":
        with open(spoiled / "database.dump", "r+b") as dump:
            dump.truncate(dump.seek(0, 2) - 1)
    elif damage in ("lost", "unfinished"):
        (first(spoiled, "artifacts/*") if damage == "lost" else spoiled / "manifest.json").unlink()
    else:
        flip({"dump": spoiled / "database.dump", "artifact": first(spoiled, "artifacts/*"),
              "checkpoint": first(spoiled, "checkpoints/**/*"), "manifest": spoiled / "manifest.json"}[damage])
    ended = tool("restore", spoiled, "--data-dir", tmp_path / "data")
    assert (ended.returncode == 1
            and any(said in ended.stderr for said in ("damaged", "not whole", "not finished"))), ended.stderr
    assert not any((tmp_path / "data").iterdir())


def test_nothing_is_restored_over_what_is_there(lab, copy, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine").write_text("kept")
    ended = tool("restore", copy, "--data-dir", tmp_path / "data")
    assert ended.returncode == 1 and "is not empty" in ended.stderr
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["mine"]
    ended = tool("backup", copy, "--data-dir", lab["service"].data)
    assert ended.returncode == 1 and "is not empty" in ended.stderr and (copy / "manifest.json").exists()


def test_a_database_that_has_tables_is_refused_before_anything_is_written(lab, copy, tmp_path):
    place, data = f"host={lab['service'].data}/pg/socket user=deltaq", tmp_path / "data"
    ended = tool("restore", copy, "--data-dir", data, "--database-url", f"{place} dbname=deltaq")
    assert ended.returncode == 1 and "tables already" in ended.stderr, ended.stderr
    assert not any(data.iterdir())
    psql(lab["service"].data, "create database spare")
    done("restore", copy, "--data-dir", data, "--database-url", f"{place} dbname=spare")
    assert sorted(path.name for path in data.iterdir()) == ["artifacts", "checkpoints"]
    there, backed_up = ({path.name for path in (place / "artifacts").iterdir()} for place in (data, copy))
    assert there == backed_up


def test_a_file_that_is_gone_or_damaged_fails_the_backup_and_is_named(lab, tmp_path):
    service = lab["service"]
    for path in (first(service.data, "artifacts/*"), first(service.data, "checkpoints/**/*.safetensors")):
        raw = path.read_bytes()
        if path.parent.name == "artifacts":
            flip(path)
            ended = tool("backup", tmp_path / "copy", "--data-dir", service.data)
            assert ended.returncode == 1 and path.name in ended.stderr and "damaged" in ended.stderr
            path.unlink()
        else:
            shutil.move(path.parent, tmp_path / "aside")
        ended = tool("backup", tmp_path / "copy", "--data-dir", service.data)
        assert ended.returncode == 1 and (path.name in ended.stderr or path.parent.name in ended.stderr), ended.stderr
        assert not (tmp_path / "copy").exists()
        if path.parent.name == "artifacts":
            path.write_bytes(raw)
        else:
            shutil.move(tmp_path / "aside", path.parent)


def test_a_checkpoint_that_is_a_file_is_copied_with_what_lies_beside_it(tmp_path):
    service = Service(tmp_path, "--workers", "0")
    try:
        whole = models.write_llama(service.data / "checkpoints" / "mine", seed=3, num_key_value_heads=4)
        (whole / "below").mkdir()
        (whole / "below" / "other").write_text("of something else")
        service.checkpoint(whole / "model.safetensors", "mine", "file")
        done("backup", tmp_path / "copy", "--data-dir", service.data)
        listed = sorted(path.relative_to(service.data) for path in whole.iterdir() if path.is_file())
        assert listed == sorted(path.relative_to(tmp_path / "copy") for path in
                                (tmp_path / "copy" / "checkpoints").rglob("*") if path.is_file())
        service.checkpoint(whole, "mine", "directory")  # both: some files are copied twice
        done("backup", tmp_path / "both", "--data-dir", service.data)
    finally:
        service.stop()
    done("restore", tmp_path / "both", "--data-dir", tmp_path / "new")
    assert all((tmp_path / "new" / path).read_bytes() == (service.data / path).read_bytes() for path in listed)


def locked(data, table):
    """Nobody reads the table: pg_dump waits for it."""
    return held(data, f"lock table {table} in access exclusive mode")


@contextlib.contextmanager
def cleaning_worker(data, log):
    command = [BINARY, "worker", "--database-url", f"host={data}/pg/socket user=deltaq dbname=deltaq", "--data-dir",
               data, "--cleanup-after", "0", "--device", "cpu"]
    with open(log, "w") as out:
        worker = subprocess.Popen([*map(str, command)], stderr=out)
    try:
        yield
    finally:
        worker.terminate()
        worker.wait(timeout=60)


def old_artifact(service, run, raw):
    """Of a run that has ended; so old that it is removed as soon as no run has it."""
    path = service.data / "artifacts" / hashlib.sha256(raw).hexdigest()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(raw)
    os.utime(path, (1000, 1000))
    psql(service.data, f"insert into runs (id, kind, state, epoch, finished_at) values ('{run}', 'evaluate',"
         f" 'cancelled', 1, now()); insert into run_specs (run, params) values ('{run}', '{{}}'); insert into artifacts"
         f" (run, epoch, name, sha256, bytes, media_type) values ('{run}', 1, 'x', '{path.name}', {len(raw)}, 'x')")
    return path


def test_what_a_backup_may_copy_outlives_its_run(tmp_path):
    """pg_dump waits after the backup's snapshot; meanwhile the run is deleted, and a worker cleans up."""
    service, log = Service(tmp_path, "--workers", "0"), tmp_path / "worker"
    try:
        kept = old_artifact(service, "r", b"kept" * 100)
        with locked(service.data, "launchers"):
            backup = subprocess.Popen([BINARY, "backup", str(tmp_path / "copy"), "--data-dir", str(service.data)],
                                      stderr=subprocess.PIPE, text=True)
            until(lambda: "t" in psql(service.data, "select true from pg_locks where not granted"))
            assert service.request("DELETE", "/v1/runs/r").status == 204
            with cleaning_worker(service.data, log):
                until(lambda: "a backup is made" in log.read_text() or not kept.exists())
            assert kept.exists()
        _, said = backup.communicate(timeout=120)
        assert backup.returncode == 0, said
        assert (tmp_path / "copy" / "artifacts" / kept.name).read_bytes() == b"kept" * 100
        with cleaning_worker(service.data, log):
            until(lambda: not kept.exists())
        with locked(service.data, "launchers"):  # one that is killed holds up nothing
            kept = old_artifact(service, "s", b"more" * 100)
            backup = subprocess.Popen([BINARY, "backup", str(tmp_path / "killed"), "--data-dir", str(service.data)],
                                      stderr=subprocess.DEVNULL)
            until(lambda: "t" in psql(service.data, "select true from pg_locks where not granted"))
            assert service.request("DELETE", "/v1/runs/s").status == 204
            backup.kill()
            backup.wait()
            until(lambda: "t" not in psql(service.data, "select true from pg_locks where locktype = 'advisory'"
                                          " and mode = 'ShareLock'"))
            with cleaning_worker(service.data, log):
                until(lambda: not kept.exists())
    finally:
        service.stop()


def killed_after(seconds, *arguments):
    process = subprocess.Popen([BINARY, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        return process.wait()


def test_a_backup_that_is_killed_leaves_nothing_that_looks_whole(lab, tmp_path):
    began = time.monotonic()
    done("backup", tmp_path / "timed", "--data-dir", lab["service"].data)
    took, chance, killed = time.monotonic() - began, random.Random(7), 0
    for i in range(25):
        copy = tmp_path / f"copy{i}"
        code = killed_after(chance.uniform(0.02, took), "backup", copy, "--data-dir", lab["service"].data)
        if code == 0:
            continue
        killed += 1
        assert not (copy / "manifest.json").exists() or code == -signal.SIGKILL
        ended = tool("restore", copy, "--data-dir", tmp_path / "data")
        if (copy / "manifest.json").exists():  # killed after its last step: it must be whole
            assert ended.returncode == 0, ended.stderr
            shutil.rmtree(tmp_path / "data")
        else:
            assert ended.returncode == 1 and "no backup, or one that was not finished" in ended.stderr
    assert killed >= 5


def test_a_restore_that_is_killed_leaves_a_directory_that_nothing_starts_in(copy, tmp_path):
    chance, killed = random.Random(8), 0
    for i in range(6):
        data = tmp_path / f"data{i}"
        if killed_after(chance.uniform(0.1, 1.5), "restore", copy, "--data-dir", data) == 0:
            continue
        if not data.exists() or not any(data.iterdir()):
            continue
        killed += 1
        for command in (["serve", "--listen", "127.0.0.1:0"], ["migrate"], ["restore", copy], ["token", "list"]):
            ended = tool(*command, "--data-dir", data)
            assert ended.returncode == 1 and "was not finished" in ended.stderr, (command, ended.stderr)
    assert killed >= 2


def test_a_data_directory_of_another_host_is_told(tmp_path):
    service = Service(tmp_path, "--workers", "0")
    service.stop()
    text = "host=elsewhere boot=00000000-0000-0000-0000-000000000000 pid=12 nonce=1\n"
    (service.data / "pg" / "lock").write_text(text)
    commands = [["serve", "--listen", "127.0.0.1:0"], ["token", "list"], ["migrate"], ["backup", tmp_path / "copy"]]
    for command in commands:
        ended = tool(*command, "--data-dir", service.data)
        assert ended.returncode == 1 and "process 12 on host elsewhere" in ended.stderr, (command, ended.stderr)
    ended = tool("doctor", "--data-dir", service.data)
    assert "process 12 on host elsewhere" in ended.stdout, ended.stdout


@pytest.mark.parametrize("name,value", [("PGHOSTADDR", "127.0.0.1"), ("PGOPTIONS", "-c no_such_setting=1")])
def test_what_libpq_reads_for_other_databases_does_not_reach_the_private_one(tmp_path, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    service = Service(tmp_path, "--threads", "1")
    try:
        service.checkpoint(models.write_llama(service.files / "tiny"), "lab", "one")
        service.sequences("held", models.rows(2, 16))
        assert service.run("evaluate", checkpoint="lab/one", dataset="held", sequence_length=None)["result"]["loss"] > 0
        done("backup", tmp_path / "copy", "--data-dir", service.data)
    finally:
        assert service.stop() == 0
    done("restore", tmp_path / "copy", "--data-dir", tmp_path / "new")


# ---- before migrations ----


def test_the_private_database_is_backed_up_before_its_schema_changes(tmp_path):
    service = Service(tmp_path, "--workers", "0")
    made, number = tmp_path / "data" / "backups", None
    try:
        for i in range(4):
            number = earlier_schema(service.data)
            psql(service.data, f"insert into datasets (name, format, definition) values ('before-{i}', 'text', '{{}}')")
            if i == 2:
                (made / "20000101T000000Z-schema-1").mkdir()  # what a killed one leaves
            if i == 3:
                before = sorted(made.iterdir())
                done("migrate", "--data-dir", service.data, "--no-backup")
                assert sorted(made.iterdir()) == before
            else:
                assert "backed the database up" in done("migrate", "--data-dir", service.data).stderr
                time.sleep(1.1)  # its name has seconds
        assert "backed" not in done("migrate", "--data-dir", service.data).stderr
        kept = sorted(made.iterdir())
        assert len(kept) == 2 and all(path.name.endswith(f"Z-schema-{number}") and (path / "manifest.json").exists()
                                      for path in kept)
    finally:
        service.stop()
    ended = tool("restore", kept[-1], "--data-dir", service.data)
    assert ended.returncode == 1 and "move its directory pg away" in ended.stderr
    (service.data / "pg").rename(tmp_path / "pg")
    killed = subprocess.Popen([BINARY, "restore", str(kept[-1]), "--data-dir", str(service.data)],
                              stderr=subprocess.DEVNULL)
    until((service.data / "pg").exists)
    killed.kill()
    killed.wait()
    ended = tool("restore", kept[-1], "--data-dir", service.data)
    assert ended.returncode == 1 and "delete only pg and restore.unfinished" in ended.stderr, ended.stderr
    (service.data / "pg").rename(tmp_path / "killed")  # the artifacts and the backup itself lie beside it
    (service.data / "restore.unfinished").unlink()
    done("restore", kept[-1], "--data-dir", service.data)
    service.start()
    try:
        assert psql(service.data, "select name from datasets").split() == ["before-2"]
        assert service.get("/readyz").status == 200
    finally:
        service.stop()


def test_a_run_that_was_deleted_since_does_not_close_the_way_back(tmp_path):
    service = Service(tmp_path, "--workers", "0")
    try:
        earlier_schema(service.data)
        gone, kept = (old_artifact(service, name, name.encode() * 100) for name in "rs")
        done("migrate", "--data-dir", service.data)
        (made,) = (service.data / "backups").iterdir()
        assert service.request("DELETE", "/v1/runs/r").status == 204
        gone.unlink()  # as the clean-up does
    finally:
        service.stop()
    (service.data / "pg").rename(tmp_path / "pg")
    flip(kept)
    ended = tool("restore", made, "--data-dir", service.data)
    assert ended.returncode == 1 and kept.name in ended.stderr and "damaged" in ended.stderr, ended.stderr
    flip(kept)
    ended = done("restore", made, "--data-dir", service.data)
    assert "names 1 may be gone" in ended.stderr and gone.name in ended.stderr, ended.stderr
    service.start()
    try:
        assert service.get("/v1/runs/s/artifacts/x").body == b"s" * 100
        assert service.get("/v1/runs/r/artifacts/x").status >= 400
    finally:
        service.stop()


def test_the_backup_just_made_is_kept_though_its_name_is_no_later_one(tmp_path):
    """A clock that ran ahead named others after it."""
    service = Service(tmp_path, "--workers", "0")
    made = tmp_path / "data" / "backups"
    try:
        number = earlier_schema(service.data)
        later = [made / f"2099010{i}T000000Z-schema-{number}" for i in (1, 2, 3)]
        for place in later:
            place.mkdir(parents=True)
            (place / "manifest.json").write_text("{}")
        assert "backed the database up" in done("migrate", "--data-dir", service.data).stderr
        kept = sorted(made.iterdir())
        assert len(kept) == 2 and kept[0].name < later[0].name and kept[1] == later[2]
    finally:
        service.stop()


def test_without_a_backup_the_schema_stays(tmp_path):
    service = Service(tmp_path, "--workers", "0")
    try:
        number = earlier_schema(service.data)
        (service.data / "backups").write_text("in the way")
        ended = tool("migrate", "--data-dir", service.data)
        assert ended.returncode == 1 and "--no-backup" in ended.stderr
        assert psql(service.data, "select max(number) from schema_migrations").strip() == str(number)
    finally:
        service.stop()


def track(service, path):
    """Sends what is new; what the tool says, and the steps in the file."""
    ended = subprocess.run([BINARY, "track", "ndjson", path], capture_output=True, text=True, timeout=180,
                           env={**os.environ, "DELTAQ_URL": service.url, "HOME": "/nowhere"})
    assert ended.returncode == 0, ended.stderr
    return ended.stderr, [json.loads(line)["step"] for line in path.read_text().splitlines()]


def measure(service, step):
    service.checkpoint(models.write_llama(service.files / f"restored-{step}", seed=400 + step), "restored", f"s{step}",
                       step=step)
    document = service.run("evaluate", checkpoint=f"restored/s{step}", dataset="held")
    assert document["state"] == "succeeded", document


def test_who_follows_a_restored_server_misses_nothing(tmp_path):
    """Changes after the backup had ids that the restored server would give to others."""
    service, points = Service(tmp_path, "--threads", "1"), tmp_path / "points"
    try:
        service.sequences("held", models.rows(4, 24, seed=1))
        measure(service, 1)
        backed_up = int(service.get("/v1/measurements?updated_since=0").json["cursor"])
        done("backup", tmp_path / "copy", "--data-dir", service.data)
        measure(service, 2)
        assert track(service, points) == ("", [1, 2])
        position = int(service.get("/v1/measurements?updated_since=0").json["cursor"])
        assert position > backed_up
    finally:
        service.stop()
    other = restored(tmp_path / "other", tmp_path / "copy", "--root", service.files)
    try:
        for step in (3, 4, 5):
            measure(other, step)
        for path in (f"measurements?updated_since={position}", f"events?after={position}"):
            answer = other.get(f"/v1/{path}")
            assert answer.status == 410 and "restored" in answer.json["detail"], answer.body
        newer = other.get(f"/v1/measurements?updated_since={backed_up}").json["items"]
        assert [row["step"] for row in newer] == [3, 4, 5]
        said, steps = track(other, points)
        assert "was restored from a backup" in said and steps == [1, 2, 3, 4, 5]
        assert track(other, points) == ("", [1, 2, 3, 4, 5])
    finally:
        other.stop()


def newest_postgresql():
    found = list(pathlib.Path("/usr/lib/postgresql").glob("*/bin/pg_restore"))
    return max(found, key=lambda path: int(path.parts[-3])).parents[1] if found else None


NEWER = """#!/bin/bash
# Sets what PostgreSQL 17 and later have, like the pg_restore of these.
set -euo pipefail
for word; do case $word in --dbname=*)
    echo 'pg_restore: error: could not execute query:' \\
         'ERROR:  unrecognized configuration parameter "transaction_timeout"' >&2
    exit 1;; esac; done
{program} "${{@/#--file=*/--file=-}}" |
    sed 's/^SET lock_timeout = 0;$/&\\nSET transaction_timeout = 0;/' > /proc/self/fd/11
touch {used}
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root puts another PostgreSQL in the place of the system's")
def test_a_pg_restore_that_is_too_new_for_the_server_restores(copy, tmp_path):
    system, seen, used = newest_postgresql(), tmp_path / "seen", tmp_path / "used"
    try_mount = ["unshare", "-m", "mount", "--bind", tmp_path, tmp_path]
    if system is None or subprocess.run(try_mount, stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("no PostgreSQL below /usr/lib/postgresql, or no mounts are allowed here")
    (seen / "99" / "bin").mkdir(parents=True)
    (seen / system.name).mkdir()
    newer = seen / "99" / "bin" / "pg_restore"
    newer.write_text(NEWER.format(program=system / "bin" / "pg_restore", used=used))
    for path in (seen, seen / "99", seen / "99" / "bin", newer):
        path.chmod(0o755)
    mounts = f"mount --bind {system} {seen}/{system.name} && mount --rbind {seen} /usr/lib/postgresql"
    command = f"{mounts} && exec {BINARY} restore {copy} --data-dir {tmp_path}/new/data"
    (tmp_path / "new").mkdir()
    ended = subprocess.run(["unshare", "-m", "sh", "-c", command], capture_output=True, text=True, timeout=180)
    assert ended.returncode == 0, ended.stderr
    assert used.exists()
    other = Service(tmp_path / "new", "--threads", "1")
    try:
        assert len(items(other, "/v1/checkpoints")) > 0
    finally:
        other.stop()
