"""The command line: what is not understood is refused, and everything is checked before anything is made or started."""

import json
import os
import pathlib
import signal
import socket
import stat
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import pytest
from service import BINARY, Service

LIMIT = 60  # a refusal takes milliseconds: with a database made first it took a minute on a slow disk


def run(*arguments, **more):
    return subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT, **more)


@pytest.mark.parametrize("command",
                         ["serve", "worker", "migrate", "doctor", "version", "routes", "schema", "--version", "-V"])
def test_a_stray_word_is_refused(tmp_path, command):
    data = [] if command in ("version", "routes", "schema", "--version", "-V") else ["--data-dir", tmp_path / "data"]
    done = run(command, *data, "extra")
    assert done.returncode == 2 and '"extra"' in done.stderr and "--help" in done.stderr and done.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments",
                         [["token", "create", "extra", "--scope", "read"], ["token", "extra", "--scope", "read"],
                          ["help", "extra"], ["help", "serve", "extra"], ["--help", "extra"], ["extra"]])
def test_stray_words_of_other_commands(tmp_path, arguments):
    done = run(*arguments, env={**os.environ, "DELTAQ_DATA_DIR": str(tmp_path / "data")})
    assert (done.returncode == 2 and ("extra" in done.stderr or "expected `deltaq token create" in done.stderr)
            and done.stdout == "")
    assert list(tmp_path.iterdir()) == []


WRONG = [
    (["--listen", "1.2.3.4:99999"], "99999"), (["--listen", "1.2.3.4:8642"], "1.2.3.4:8642 is no address"),
    (["--listen", "here"], "--listen"),
    (["--listen", "0.0.0.0:0"], "token create"), (["--listen", "[::]:0"], "token create"),
    (["--workers", "65"], "--workers"),
    (["--threads", "x"], "--threads"), (["--device", "tpu"], "--device tpu"), (["--memory", "1G"], "--memory"),
    (["--root", "/nowhere/at/all"], "--root /nowhere/at/all: No such file"),
    (["--root", "/etc/passwd"], "--root /etc/passwd: Not a directory"),
    (["--watch-quiet", "-1"], "--watch-quiet"), (["--watch-poll", "0"], "--watch-poll"),
    (["--keep-events", "0"], "--keep-events"), (["--hub-cache", "3X"], "--hub-cache"),
    (["--hub-endpoint", "ftp://here"], "--hub-endpoint"), (["--s3-endpoint", "ftp://here"], "--s3-endpoint"),
    (["--s3-region", "a/b"], "--s3-region"), (["--artifacts", "/tmp"], "--artifacts"),
    (["--static", "/nowhere/at/all"], "/nowhere/at/all: "),
]


@pytest.mark.parametrize("arguments,told", WRONG)
def test_serve_checks_everything_before_it_makes_anything(tmp_path, arguments, told):
    listen = [] if "--listen" in arguments else ["--listen", "127.0.0.1:0"]
    done = run("serve", *listen, *arguments, "--data-dir", tmp_path / "data")
    assert done.returncode == 1 and told in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["--allow-origin", "null"], ["--workers", "65"], ["--memory", "1G"],
                                       ["--token-rate", "x"]])
def test_wrong_options_are_told_beside_another_server_too(tmp_path, arguments):
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = ["--listen", f"127.0.0.1:{other.getsockname()[1]}"]
        done = run("serve", *taken, *arguments, "--data-dir", tmp_path / "data")
        assert done.returncode == 1 and arguments[0] in done.stderr, done.stderr
        done = run("serve", *taken, "--data-dir", tmp_path / "data")
        assert done.returncode == 1 and "is in use; stop the other server or choose another --listen" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["--threads", "x"], ["--device", "tpu"], ["--memory", "1G"],
                                       ["--root", "/nowhere/at/all"], ["--hub-cache", "3X"], ["--artifacts", "s3://"]])
def test_a_worker_checks_everything_before_it_makes_anything(tmp_path, arguments):
    done = run("worker", *arguments, "--data-dir", tmp_path / "data")
    assert done.returncode == 1 and arguments[0] in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_is_told_before_a_database_is_made(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = "127.0.0.1:%d" % other.getsockname()[1]
        done = run("serve", "--listen", address, "--data-dir", tmp_path / "data")
    assert done.returncode == 1 and f"{address} is in use" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["serve", "worker", "migrate", "doctor"])
@pytest.mark.parametrize("path", ["/proc/x", "/etc/passwd/x"])
def test_a_data_directory_that_cannot_be_made_is_named(command, path):
    done = run(command, "--data-dir", path, *(["--listen", "127.0.0.1:0"] if command == "serve" else []))
    assert done.returncode == 1 and path in done.stdout + done.stderr, done.stdout + done.stderr


def test_a_private_database_that_cannot_start_names_its_directory(tmp_path):
    (tmp_path / "pg" / "data").mkdir(parents=True)
    done = run("serve", "--listen", "127.0.0.1:0", "--data-dir", tmp_path)
    assert done.returncode == 1 and str(tmp_path) in done.stderr and "PG_VERSION" in done.stderr, done.stderr


def test_the_data_directory_may_be_a_root_that_is_not_there_yet(tmp_path):
    data = tmp_path / "data"
    with subprocess.Popen([BINARY, "serve", "--listen", "127.0.0.1:0", "--data-dir", data, "--root", data,
                           "--workers", "0"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout.readline().startswith("deltaq listening on ")
        server.send_signal(signal.SIGTERM)
        assert server.wait(40) == 0


@pytest.fixture
def outside():
    """A server, and an empty database in its cluster as an outside one; a short path, for the socket."""
    with tempfile.TemporaryDirectory(prefix="dq-") as directory:
        service = Service(pathlib.Path(directory), "--workers", "0")
        try:
            yield service, f"host={service.data}/pg/socket port=5432 user=deltaq dbname="
        finally:
            service.stop()


def sql(conninfo, text):
    return subprocess.run(["psql", "-XAtq", "-d", conninfo, "-c", text], capture_output=True, text=True, timeout=LIMIT,
                          check=True).stdout.strip()


def test_tokens_of_an_outside_database_are_looked_at_before_anything_is_started(outside, tmp_path):
    service, conninfo = outside
    sql(conninfo + "deltaq", "create database elsewhere")
    url = conninfo + "elsewhere"
    refused = run("serve", "--listen", "0.0.0.0:0", "--database-url", url, "--data-dir", tmp_path / "data")
    assert refused.returncode == 1 and "token create" in refused.stderr
    assert (list(tmp_path.iterdir()) == []
            and sql(url, "select count(*) from pg_tables where schemaname = 'public'") == "0")
    assert run("token", "create", "--scope", "read", "--database-url", url).returncode == 0
    with subprocess.Popen([BINARY, "serve", "--listen", "0.0.0.0:0", "--database-url", url, "--data-dir",
                           tmp_path / "data", "--workers", "0"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout.readline().startswith("deltaq listening on ")
        server.send_signal(signal.SIGTERM)
        assert server.wait(40) == 0


def command_lines():
    return subprocess.run(["ps", "-eww", "-o", "pid=,args="], capture_output=True, text=True, check=True).stdout


def test_a_database_password_is_not_shown_by_ps(outside, tmp_path):
    """Nor to workers, dumps or other programs that the server starts, in their arguments."""
    service, conninfo = outside
    secret = "open-sesame-" + tmp_path.name
    url = f"{conninfo}deltaq password={secret}"
    second = Service(tmp_path, "--threads", "1", f"--database-url={url}")
    own = [BINARY, "worker", "--data-dir", second.data, "--root", second.files, "--threads", "1", "--database-url", url]
    worker = subprocess.Popen(own, stderr=subprocess.DEVNULL)
    try:
        second.sequences("some", [[1, 2, 3]])  # the database is reached with what was hidden
        end = time.monotonic() + LIMIT
        while len(second.get("/v1/workers").json["items"]) < 2:
            assert time.monotonic() < end, second.log.read_text()
            time.sleep(0.1)
        shown = command_lines()
        assert secret not in shown, [line for line in shown.splitlines() if secret in line]
        mine = [line for line in shown.splitlines() if line.split()[0] == str(second.process.pid)]
        assert len(mine) == 1 and "--database-url=xxx" in mine[0]
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(40)
        second.stop()


def test_a_private_database_without_a_token_is_refused_and_kept(outside):
    service, _ = outside
    assert service.stop() == 0
    before = sorted(path.name for path in service.data.iterdir())
    done = run("serve", "--listen", "0.0.0.0:0", "--data-dir", service.data)
    assert done.returncode == 1 and "token create" in done.stderr
    assert sorted(path.name for path in service.data.iterdir()) == before
    assert run("token", "create", "--scope", "admin", "--data-dir", service.data).returncode == 0
    service.start()


def test_the_first_token_is_made_once_and_is_no_input(tmp_path):
    """Beyond loopback, without a step before: the token stands in a file of its owner's, and only the first time."""
    data, texts = tmp_path / "data", []
    command = [BINARY, "serve", "--listen", "0.0.0.0:0", "--data-dir", data, "--root", data, "--workers", "0",
               "--first-token"]
    for _ in range(2):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            port = server.stdout.readline().strip().rsplit(":", 1)[1]
            texts.append((data / "first-token").read_text())
            headers = {"Authorization": f"Bearer {texts[-1].strip()}", "Content-Type": "application/json"}
            with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/v1/tokens",
                                                               headers=headers), timeout=LIMIT) as answer:
                rows = json.load(answer)["items"]
            body = {"name": "stolen", "path": str(data / "first-token"), "format": "text"}
            with pytest.raises(urllib.error.HTTPError, match="422") as refused:
                urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/v1/datasets",
                                                              json.dumps(body).encode(), headers), timeout=LIMIT)
            assert "keeps for itself" in refused.value.read().decode()
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/runs", timeout=LIMIT)
            server.send_signal(signal.SIGTERM)
            assert server.wait(40) == 0
    assert [(row["name"], row["scope"]) for row in rows] == [("first", "admin")] and texts[0] == texts[1]
    assert stat.S_IMODE((data / "first-token").stat().st_mode) == 0o600


def test_a_first_token_that_cannot_be_kept_is_not_made(outside, tmp_path):
    service, conninfo = outside
    sql(conninfo + "deltaq", "create database fresh")
    (tmp_path / "first-token").mkdir()  # no file can take its place
    done = run("serve", "--listen", "0.0.0.0:0", "--first-token", "--database-url", conninfo + "fresh", "--data-dir",
               tmp_path, "--workers", "0")
    assert done.returncode == 1 and done.stderr
    assert sql(conninfo + "fresh", "select count(*) from tokens") == "0"
