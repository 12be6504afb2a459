"""What the server keeps for itself in its data directory (database, backups, work directories, the hub's cache) is no
input for a client, although the data directory is a root; what runs leave there to be read is one."""

import http.client
import json
import os
import shutil
import ssl
import subprocess

import models
import pytest
from hub_stand_in import StandIn
from service import BINARY, Answer, Service
from test_tls import certificates  # noqa: F401

OPEN = ("artifacts", "checkpoints", "hub/snapshots")
KEPT = "lies in what the server keeps for itself"
MODEL = {"model_type": "llama", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "vocab_size": 256,
         "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 64}
TRAIN = {"trajectory": "trained", "model": MODEL, "dataset": "rows", "tokens": 64, "batch_sequences": 2,
         "sequence_length": 16, "checkpoint_every": 32}


@pytest.fixture(scope="module")
def used(tmp_path_factory):
    """A server with its data directory as a root, in which there is everything that it makes."""
    directory, hub = tmp_path_factory.mktemp("closed"), StandIn()
    files = models.write_llama(directory / "hub", seed=1)
    hub.add("lab/small", "main", {path.name: path.read_bytes() for path in files.iterdir()})
    options = ("--root", str(directory / "data"), "--threads", "1")
    service = Service(directory, *options, environment={"HF_ENDPOINT": hub.url})
    try:
        service.sequences("rows", models.rows(6, 24, seed=2))
        for kind, params in (("fetch", {"repo": "lab/small", "trajectory": "fetched"}), ("train", TRAIN)):
            run = service.run(kind, **params)
            assert run["state"] == "succeeded", run["error"]
        run = service.run("evaluate", checkpoint="fetched/main", dataset="rows", sequence_length=None)
        assert run["state"] == "succeeded", run["error"]
        (service.data / "backups").mkdir()
        backup = [BINARY, "backup", service.data / "backups" / "mine", "--data-dir", service.data]
        subprocess.run(backup, check=True, timeout=180)
        yield service
    finally:
        service.stop()
        hub.close()


def refused(answer, pointer):
    assert answer.status == 422 and answer.pointers == [pointer], answer.body
    assert KEPT in answer.body.decode(), answer.body


def dataset(service, path, name="taken"):
    return service.post("/v1/datasets", {"name": name, "path": str(path), "format": "text"})


def kept_by(data):
    """Each directory below the data directory with two of its files, but for those that hold what may be read. A link
    to nothing (`node`, whose target is an id) is no file."""
    found = []
    for at, directories, files in os.walk(data):
        inner = os.path.relpath(at, data)
        directories[:] = [name for name in directories if os.path.normpath(os.path.join(inner, name)) not in OPEN]
        found += [] if inner == "." else [at]
        found += [os.path.join(at, name) for name in sorted(files)[:2]
                  if os.path.exists(os.path.join(at, name))]
    return found


def test_nothing_that_the_server_keeps_can_be_registered(used):
    paths = kept_by(used.data)
    kept = {os.path.relpath(path, used.data).split("/")[0] for path in paths}
    assert kept - {"cleaned"} == {"pg", "backups", "hub", "tmp"}  # cleaned: two seconds after a worker has started
    for path in [*paths, used.data / "pg/postgres.log", used.data / "pg/data/pg_hba.conf"]:
        refused(dataset(used, path), "/path")


@pytest.mark.parametrize("way", ["{data}/pg/data/pg_hba.conf", "{files}/../data/pg/data/pg_hba.conf",
                                 "../data/pg/data/pg_hba.conf", "pg/data/pg_hba.conf", "{files}/link",
                                 "{files}/way/data/pg_hba.conf", "{data}/checkpoints/../pg/nothing",
                                 "{data}/hub/blobs/nothing"])
def test_no_way_leads_there(used, way):
    for name, target in (("link", used.data / "pg/data/pg_hba.conf"), ("way", used.data / "pg")):
        if not (used.files / name).is_symlink():
            (used.files / name).symlink_to(target)
    path = way.format(data=used.data, files=used.files)
    refused(dataset(used, path), "/path")
    checkpoint = {"trajectory": "taken", "name": "a", "source": {"path": path}}
    refused(used.post("/v1/checkpoints", checkpoint), "/source/path")
    refused(used.post("/v1/tokenize", {"tokenizer": {"path": path}, "texts": ["a"]}), "/tokenizer/path")


def test_logs_of_the_launcher_s_jobs_are_kept_too(used):
    (used.data / "log").mkdir()
    (used.data / "log" / "deltaq-1.log").write_text("what a worker said")
    for path in (used.data / "log", used.data / "log" / "deltaq-1.log", used.data / "log" / "nothing"):
        refused(dataset(used, path), "/path")


def over_tls(service, path, body):
    connection = http.client.HTTPSConnection("127.0.0.1", service.port, timeout=60,
                                             context=ssl._create_unverified_context())
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = Answer(response.status, response.msg, response.read())
    connection.close()
    return answer


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl, which makes certificates, is not here")
def test_keys_and_passwords_below_a_root_are_no_input(certificates, tmp_path):  # noqa: F811
    """By their names, by a link, as another name of the same file, and in a directory; also when they are renewed."""
    service_files = tmp_path / "files"
    service_files.mkdir()
    shutil.copy(certificates / "one.pem", service_files / "cert.pem")
    shutil.copy(certificates / "one.key", service_files / "key.pem")
    home = service_files / "home"
    (home / ".aws").mkdir(parents=True)
    (home / ".aws" / "credentials").write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
    (service_files / "folder").mkdir()
    os.link(home / ".aws" / "credentials", service_files / "folder" / "text.txt")
    os.link(service_files / "key.pem", service_files / "folder" / "key.pem")
    (home / ".pgpass").write_text("*:*:*:*:open-sesame")
    (service_files / "link").symlink_to("key.pem")
    os.link(home / ".pgpass", service_files / "another.txt")
    service = Service(tmp_path, "--workers", "0", "--tls-certificate", service_files / "cert.pem", "--tls-key",
                      service_files / "key.pem", environment={"HOME": str(home)})
    try:
        closed = [service_files / "key.pem", service_files / "link", service_files / "another.txt", home / ".pgpass",
                  home / ".aws" / "credentials"]
        for path in closed:
            refused(over_tls(service, "/v1/datasets", {"name": "taken", "path": str(path), "format": "text"}), "/path")
        refused(over_tls(service, "/v1/datasets", {"name": "taken", "path": str(home / ".aws"), "format": "text"}),
                "/path")
        answer = over_tls(service, "/v1/datasets",
                          {"name": "taken", "path": str(service_files / "folder"), "format": "text"})
        assert answer.status == 422 and "keys or passwords" in answer.body.decode(), answer.body
        (home / ".pgpass").unlink()
        (home / ".pgpass").write_text("*:*:*:*:renewed")
        refused(over_tls(service, "/v1/datasets", {"name": "taken", "path": str(home / ".pgpass"), "format": "text"}),
                "/path")
        certificate = {"name": "taken", "path": str(service_files / "cert.pem"), "format": "text"}
        answer = over_tls(service, "/v1/datasets", certificate)
        assert answer.status == 201, "a certificate is no secret"
    finally:
        service.stop()


AT_HOME = (".ssh/id_ed25519", ".gnupg/private-keys-v1.d/key", ".netrc", ".git-credentials", ".config/git/credentials",
           ".config/gh/hosts.yml", ".kube/config", ".docker/config.json", ".aws/sso/cache/token.json",
           ".azure/msal.json", ".config/gcloud/credentials.db", ".config/gcloud/legacy/a/adc.json", ".pgpass",
           ".postgresql/postgresql.key", ".huggingface/token", ".cache/huggingface/token",
           ".cache/huggingface/stored_tokens", ".kaggle/kaggle.json", ".config/deltaq/client.json", ".pypirc", ".npmrc",
           ".vault-token")
ELSEWHERE = {"NETRC": "netrc", "GNUPGHOME": "keys", "KUBECONFIG": "first:second", "DOCKER_CONFIG": "docker",
             "CLOUDSDK_CONFIG": "cloud", "GOOGLE_APPLICATION_CREDENTIALS": "application.json", "HF_HOME": "hub",
             "XDG_CONFIG_HOME": "config", "XDG_CACHE_HOME": "cache", "XDG_DATA_HOME": "share"}
NAMED = ("netrc", "keys/key", "first", "second", "docker/config.json", "cloud/credentials.db", "application.json",
         "hub/token", "config/deltaq/client.json", "config/git/credentials", "config/gh/hosts.yml",
         "config/containers/auth.json", "config/gcloud/credentials.db", "config/rclone/rclone.conf",
         "cache/huggingface/token", "cache/huggingface/stored_tokens", "share/keyrings/login.keyring")


def test_a_server_started_at_home_gives_nobody_the_keys_there(tmp_path):
    """Without --root the working directory is one."""
    home, at = tmp_path / "home", tmp_path / "home" / "elsewhere"
    for path in [*(home / name for name in AT_HOME), *(at / name for name in NAMED)]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("open-sesame and more words")
    (home / "texts").mkdir()
    (home / "texts" / "own.txt").write_text("words of the user's own")
    (home / ".cache/huggingface/hub").mkdir()
    (home / ".cache/huggingface/hub/text.txt").write_text("words of the hub's")
    environment = {"HOME": str(home)}
    for variable, names in ELSEWHERE.items():
        environment[variable] = ":".join(str(at / name) for name in names.split(":"))
    service = Service(tmp_path, "--workers", "0", "--root", home, environment=environment)
    try:
        for path in [*(home / name for name in AT_HOME), *(at / name for name in NAMED), home / ".ssh"]:
            refused(dataset(service, path), "/path")
        (home / "texts" / "link.txt").symlink_to(home / ".ssh" / "id_ed25519")
        refused(dataset(service, home / "texts" / "link.txt"), "/path")
        assert dataset(service, home / "texts").status == 422
        for name in ("texts/own.txt", ".cache/huggingface/hub/text.txt"):
            assert dataset(service, home / name, name.split("/")[-1]).status == 201
    finally:
        service.stop()


def test_links_in_a_directory_lead_not_there_either(used):
    folder = used.files / "folder"
    folder.mkdir()
    (folder / "text").write_text("words")
    assert dataset(used, folder, "folder").status == 201
    (folder / "more").symlink_to(used.data / "pg/data/pg_hba.conf")
    answer = dataset(used, folder, "folder-2")
    assert answer.status == 422 and "a link in the directory" in answer.body.decode(), answer.body


def test_runs_read_nothing_from_there(used):
    path = str(used.data / "pg/data/pg_hba.conf")
    train = {**TRAIN, "tokenizer": {"name": "file", "path": path}}
    tasks = {"checkpoint": "fetched/main", "tasks": [{"name": "arc_easy", "path": path}]}
    refused(used.post("/v1/runs", {"kind": "train", "params": train}), "/params/tokenizer/path")
    refused(used.post("/v1/runs", {"kind": "tasks", "params": tasks}), "/params/tasks/0/path")


def test_a_scan_of_the_data_directory_passes_it_over(used):
    answer = used.post("/v1/trajectories/scanned/scan", {"path": str(used.data)})
    assert answer.status in (200, 201), answer.body
    paths = [row["source"]["path"] for row in answer.json["registered"]]
    assert not answer.json["failed"], answer.json["failed"]
    assert len(paths) == 2 and all(path.startswith(f"{used.data}/checkpoints/") for path in paths), paths
    refused(used.post("/v1/trajectories/scanned/scan", {"path": str(used.data / "backups")}), "/path")


def test_what_runs_leave_is_read_as_before(used):
    made = used.get("/v1/checkpoints?trajectory=trained").json["items"]
    assert len(made) == 2 and all(row["source"]["path"].startswith(f"{used.data}/checkpoints/") for row in made)
    for name, path in (("run", made[0]["source"]["path"]), ("hub", next((used.data / "hub/snapshots").iterdir()))):
        used.checkpoint(path, "again", name)
    run = used.run("evaluate", checkpoint=made[0]["id"], dataset="rows", sequence_length=None)
    assert run["state"] == "succeeded", run["error"]
    (used.data / "mine.txt").write_text("a text of the user's own")
    assert dataset(used, used.data / "mine.txt", "mine").status == 201


def test_files_that_the_database_s_url_names_are_no_input(used, tmp_path):
    """libpq reads them in place of those in the home directory."""
    passwords = tmp_path / "files" / "passwords.txt"
    passwords.parent.mkdir()
    passwords.write_text("*:*:*:*:open-sesame")
    passwords.chmod(0o600)
    used.sql("create database named")
    place = f"host={used.data}/pg/socket user=deltaq dbname=named passfile={passwords}"
    service = Service(tmp_path, "--workers", "0", "--database-url", place)
    try:
        refused(dataset(service, passwords), "/path")
    finally:
        service.stop()
