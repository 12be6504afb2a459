"""Backups where artifacts lie in a bucket alone: copied out of it, put into another one, held against their hashes."""

import hashlib
import json
import os
import subprocess

import models
import object_store
import pytest
from earlier import psql
from service import BINARY, Service
from test_backup import documents
from test_objects import ENVIRONMENT, SECRET, pytestmark, signed, store  # noqa: F401

OLD, NEW = "old/artifacts", "new/artifacts"


def tool(*arguments, **variables):
    environment = {key: value for key, value in os.environ.items() if key != "DELTAQ_ARTIFACTS"}
    ended = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=180,
                           env={**environment, **ENVIRONMENT, **variables})
    assert SECRET not in ended.stdout + ended.stderr
    return ended


def place(store, prefix):
    return "--s3-endpoint", store.url, "--artifacts", f"s3://lab/{prefix}"


def keys(store, prefix):
    listed = store.direct("GET", f"/lab?list-type=2&prefix={prefix}/")[1].decode()
    return {part.split("<")[0].rsplit("/", 1)[1] for part in listed.split("<Key>")[1:]}


def bytes_of(store, prefix, sha256):
    return store.direct("GET", f"/lab/{prefix}/{sha256}")[1]


@pytest.fixture(scope="module")
def lab(store, tmp_path_factory):
    """A server whose artifacts all lie in the bucket alone, as those of workers on other machines do."""
    if not BINARY.exists():
        pytest.skip("build/deltaq is not built")
    service = Service(tmp_path_factory.mktemp("lab"), "--threads", "1", *place(store, OLD), environment=ENVIRONMENT)
    try:
        service.checkpoint(models.write_llama(service.files / "small"), "subject", "small")
        service.sequences("data", models.rows(2, 16))
        runs = [service.run("quantize", checkpoint="subject/small", export="dequantized",
                            method={"name": "rtn", "bits": bits, "group_size": 32}, evaluation={"dataset": "data"},
                            calibration={"dataset": "data"})
                for bits in (3, 4)]
        assert [run["state"] for run in runs] == ["succeeded"] * 2, runs
        names = {path.name for path in (service.data / "artifacts").iterdir()}
        for name in names:
            (service.data / "artifacts" / name).unlink()
        yield {"service": service, "runs": [run["id"] for run in runs], "names": names}
    finally:
        service.stop()


@pytest.fixture(scope="module")
def copy(lab, store, tmp_path_factory):
    directory = tmp_path_factory.mktemp("copy") / "copy"
    ended = tool("backup", directory, "--data-dir", lab["service"].data, *place(store, OLD))
    assert ended.returncode == 0, ended.stderr
    return directory


def test_without_the_bucket_the_backup_says_what_to_give(lab, tmp_path):
    ended = tool("backup", tmp_path / "copy", "--data-dir", lab["service"].data)
    assert ended.returncode == 1 and "--artifacts" in ended.stderr and "DELTAQ_ARTIFACTS" in ended.stderr
    assert any(name in ended.stderr for name in lab["names"]) and not (tmp_path / "copy").exists()


def test_the_variable_is_enough(lab, store, tmp_path):
    ended = tool("backup", tmp_path / "copy", "--data-dir", lab["service"].data, "--s3-endpoint", store.url,
                 DELTAQ_ARTIFACTS=f"s3://lab/{OLD}")
    assert ended.returncode == 0, ended.stderr


def test_artifacts_are_copied_out_of_the_bucket(lab, copy):
    found = {path.name: path.read_bytes() for path in (copy / "artifacts").iterdir()}
    assert set(found) == lab["names"] and len(found) >= 2
    assert all(hashlib.sha256(raw).hexdigest() == name for name, raw in found.items())
    listed = json.loads((copy / "manifest.json").read_text())
    assert {file["path"] for file in listed["files"]} >= {f"artifacts/{name}" for name in found}
    assert listed["elsewhere"] == []
    assert not list((lab["service"].data / "artifacts").iterdir())


@pytest.mark.parametrize("damage", ["other bytes", "gone"])
def test_an_object_that_is_damaged_or_gone_fails_the_backup_and_is_named(lab, store, tmp_path, damage):
    name = sorted(lab["names"])[0]
    kept = bytes_of(store, OLD, name)
    if damage == "gone":
        store.direct("DELETE", f"/lab/{OLD}/{name}")
    else:
        store.put("lab", f"{OLD}/{name}", kept[::-1])
    try:
        ended = tool("backup", tmp_path / "copy", "--data-dir", lab["service"].data, *place(store, OLD))
    finally:
        store.put("lab", f"{OLD}/{name}", kept)
    assert ended.returncode == 1 and name in ended.stderr, ended.stderr
    assert ("other bytes" in ended.stderr) == (damage == "other bytes")
    assert not (tmp_path / "copy").exists()


def test_a_restore_fills_another_bucket_and_the_server_answers_from_it(lab, store, copy, tmp_path):
    before = documents(lab["service"], lab["runs"])
    data = tmp_path / "other" / "data"
    ended = tool("restore", copy, "--data-dir", data, *place(store, NEW))
    assert ended.returncode == 0, ended.stderr
    assert keys(store, NEW) == lab["names"]
    assert all(hashlib.sha256(bytes_of(store, NEW, name)).hexdigest() == name for name in lab["names"])
    assert not (data / "artifacts").exists()
    other = Service(tmp_path / "other", "--workers", "0", *place(store, NEW), environment=ENVIRONMENT)
    try:
        assert documents(other, lab["runs"]) == before
    finally:
        other.stop()
    again = tool("restore", copy, "--data-dir", tmp_path / "again", *place(store, NEW))  # what is there is read back
    assert again.returncode == 0, again.stderr


def test_without_the_option_a_restore_fills_the_data_directory(lab, copy, tmp_path):
    ended = tool("restore", copy, "--data-dir", tmp_path / "data")
    assert ended.returncode == 0, ended.stderr
    assert {path.name for path in (tmp_path / "data" / "artifacts").iterdir()} == lab["names"]


def test_an_object_with_other_bytes_is_not_taken_for_the_artifact(lab, store, copy, tmp_path):
    name = sorted(lab["names"])[-1]
    store.put("lab", f"spoiled/{name}", bytes_of(store, OLD, name)[::-1])
    ended = tool("restore", copy, "--data-dir", tmp_path / "data", *place(store, "spoiled"))
    assert ended.returncode == 0, ended.stderr
    assert hashlib.sha256(bytes_of(store, "spoiled", name)).hexdigest() == name  # written anew


def test_a_bucket_that_refuses_fails_the_restore(store, copy, tmp_path):
    store.rule("PUT", "refused/", 99, answer=object_store.refusal(403, "AccessDenied"))
    ended = tool("restore", copy, "--data-dir", tmp_path / "data", *place(store, "refused"))
    assert ended.returncode == 1 and "AccessDenied" in ended.stderr, ended.stderr


def before_a_migration(service):
    """The backup that a schema of an earlier number makes; the step itself fails, since it is there already."""
    row = psql(service.data, "select number, name, sha256 from schema_migrations order by number desc limit 1")
    number, name, sha256 = row.strip().split("|")
    psql(service.data, f"delete from schema_migrations where number = {number}")
    try:
        tool("migrate", "--data-dir", service.data)
    finally:
        psql(service.data, "insert into schema_migrations (number, name, sha256) values "
                           f"({number}, '{name}', '{sha256}') on conflict do nothing")
    (made,) = (service.data / "backups").iterdir()
    return made


def test_a_backup_of_the_database_alone_is_held_against_the_bucket(lab, store, tmp_path):
    made = before_a_migration(lab["service"])
    assert {file["path"].split("/")[1] for file in json.loads((made / "manifest.json").read_text())["elsewhere"]} == (
        lab["names"])
    ended = tool("restore", made, "--data-dir", tmp_path / "data")
    assert ended.returncode == 1 and "--artifacts" in ended.stderr, ended.stderr
    assert not any((tmp_path / "data").iterdir())
    name = sorted(lab["names"])[0]
    kept = bytes_of(store, OLD, name)
    store.put("lab", f"{OLD}/{name}", kept[::-1])
    ended = tool("restore", made, "--data-dir", tmp_path / "data", *place(store, OLD))
    assert ended.returncode == 1 and name in ended.stderr and not any((tmp_path / "data").iterdir()), ended.stderr
    store.put("lab", f"{OLD}/{name}", kept)
    ended = tool("restore", made, "--data-dir", tmp_path / "data", *place(store, OLD))
    assert ended.returncode == 0, ended.stderr
