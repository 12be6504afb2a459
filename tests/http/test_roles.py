"""The roles that `deltaq migrate --roles` makes: what each may do in the database, and what it may not."""

import subprocess

import models
import pytest
from earlier import earlier_schema
from service import BINARY, Service


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("roles"), "--workers", "0")
    models.write_llama(service.files / "model")
    service.checkpoint(service.files / "model", "t", "c0", step=0)
    service.sequences("rows", models.rows(4, 24))
    assert migrate(service, "--roles").returncode == 0
    for role in ("server", "worker", "reader"):
        sql(service, "deltaq", f"create role {role}1 login in role deltaq_{role}")
    yield service
    assert service.stop() == 0


def migrate(service, *options, **more):
    return subprocess.run([BINARY, "migrate", "--data-dir", service.data, *options], capture_output=True, text=True,
                          **more)


def sql(service, user, text, good=True):
    done = subprocess.run(["psql", "-XAtqv", "ON_ERROR_STOP=1", "-h", service.data / "pg" / "socket", "-U", user,
                           "deltaq", "-c", text], capture_output=True, text=True)
    assert (done.returncode == 0) == good, done.stderr
    return done.stdout if good else done.stderr


def url(service, user):
    return f"host={service.data}/pg/socket dbname=deltaq user={user}"


@pytest.fixture
def worker(lab):
    """A worker that knows nothing but its role's connection."""
    log = open(lab.data / "worker-log", "w+")
    process = subprocess.Popen([BINARY, "worker", "--data-dir", lab.data, "--root", lab.files, "--threads", "1",
                                "--database-url", url(lab, "worker1")], stderr=log, env=lab.environment)
    yield log
    process.terminate()
    assert process.wait(30) == 0
    log.seek(0)
    assert "denied" not in log.read()


MODEL = {"model_type": "llama", "vocab_size": 256, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
         "num_attention_heads": 2, "max_position_embeddings": 32, "tie_word_embeddings": True}


def test_a_worker_with_its_role_alone_does_every_usual_kind_of_run(lab, worker):
    evaluation = {"dataset": "rows", "sequence_length": None}
    (lab.files / "text").write_text("to be or not to be, that is the question. " * 200)
    lab.post("/v1/datasets", {"name": "text", "path": str(lab.files / "text"), "format": "text"})
    runs = [
        lab.run("evaluate", checkpoint="t/c0", **evaluation),
        lab.run("quantize", checkpoint="t/c0", method={"name": "rtn", "bits": 3, "group_size": 16},
                evaluation=evaluation, export="dequantized"),
        lab.run("sharpness", checkpoint="t/c0", estimators=["trace"], probes=1, **evaluation),
        lab.run("health", checkpoint="t/c0"),
        lab.run("train", trajectory="made", dataset="text", tokens=2048, batch_sequences=2, sequence_length=32,
                model=MODEL, tokenizer={"name": "bytes"}, checkpoint_every=1024,
                schedule={"name": "constant", "peak": 0.001}),
        lab.run("average", trajectory="made", window=2),
    ]
    assert [(run["kind"], run["state"], run["error"]) for run in runs] == [
        (run["kind"], "succeeded", None) for run in runs]
    failed = lab.post("/v1/runs", {"kind": "evaluate", "params": {"checkpoint": "t/c0", **evaluation}, "force": True})
    assert lab.wait(failed.json["id"])["state"] == "succeeded"


@pytest.mark.parametrize("text", [
    "select * from tokens", "select * from webhooks", "select * from idempotency_keys", "delete from checkpoints",
    "delete from runs", "delete from trajectories", "delete from measurements", "update measurements set value = 0",
    "update run_results set result = '{}'", "update run_events set data = '{}'", "insert into tokens (scope, sha256)"
    " values ('admin', 'x')", "insert into runs (kind) values ('x')", "update engine_revision set revision = 9",
    "create table more (x int)", "drop table runs", "truncate runs",
])
def test_a_worker_may_not(lab, text):
    assert "permission denied" in sql(lab, "worker1", text, good=False) or "must be owner" in sql(
        lab, "worker1", text, good=False)


@pytest.mark.parametrize("text", [
    "select * from tokens", "select * from webhooks", "delete from checkpoints", "update runs set priority = 1",
    "insert into workers (id, host, pid, boot_id, device, threads) values ('x', 'x', 1, 'x', 'cpu', 1)",
])
def test_a_reader_only_reads(lab, text):
    assert "permission denied" in sql(lab, "reader1", text, good=False)
    assert int(sql(lab, "reader1", "select count(*) from checkpoints")) >= 1


def test_a_server_with_its_role_serves_and_changes_no_table(lab, tmp_path):
    second = Service(tmp_path, "--database-url", url(lab, "server1"), "--workers", "0", "--root", str(lab.files))
    second.checkpoint(lab.files / "model", "second", "c0", step=0)
    assert second.get("/readyz").json["status"] == "ready"
    assert second.request("DELETE", "/v1/trajectories/second").status == 204
    assert second.stop() == 0
    assert "denied" not in second.log.read_text()
    for text in ("create table more (x int)", "drop table runs", "update engine_revision set revision = 9"):
        sql(lab, "server1", text, good=False)


def test_roles_are_made_once_and_given_their_rights_again(lab):
    sql(lab, "deltaq", "grant select on tokens to deltaq_reader")
    done = migrate(lab, "--roles")
    assert done.returncode == 0 and "deltaq_server, deltaq_worker, deltaq_reader" in done.stdout
    sql(lab, "reader1", "select * from tokens", good=False)
    sql(lab, "deltaq", "create table later (x int); grant all on later to deltaq_worker")
    assert migrate(lab).returncode == 0  # tables that came since
    assert sql(lab, "reader1", "select count(*) from later") == "0\n"
    sql(lab, "worker1", "insert into later values (1)", good=False)
    sql(lab, "deltaq", "drop table later")


def test_a_server_that_upgrades_the_schema_gives_the_roles_their_rights(tmp_path_factory):
    """To a role without rights all tables are as new as those that a migration makes."""
    first = Service(tmp_path_factory.mktemp("old"), "--workers", "0")  # a socket's path may have 107 bytes
    may = "select has_table_privilege('deltaq_reader', 'runs', 'select')"
    try:
        assert migrate(first, "--roles").returncode == 0
        earlier_schema(first.data)
        assert sql(first, "deltaq", may) == "f\n"
        second = Service(tmp_path_factory.mktemp("new"), "--database-url", url(first, "deltaq"), "--workers", "0")
        assert second.stop() == 0
        assert sql(first, "deltaq", may) == "t\n"
    finally:
        first.stop()


def test_who_may_not_make_roles_is_told(lab):
    sql(lab, "deltaq", "create role owner1 login")
    sql(lab, "deltaq", "create database bare owner owner1")
    place = f"host={lab.data}/pg/socket dbname=bare user=owner1"
    sql(lab, "deltaq", "drop owned by deltaq_reader; drop role reader1; alter role deltaq_reader rename to kept")
    done = subprocess.run([BINARY, "migrate", "--database-url", place, "--roles"], capture_output=True, text=True)
    sql(lab, "deltaq", "alter role kept rename to deltaq_reader; create role reader1 login in role deltaq_reader")
    assert done.returncode == 1 and "may not make roles" in done.stderr
    assert migrate(lab, "--roles").returncode == 0
