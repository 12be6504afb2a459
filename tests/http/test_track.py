"""deltaq track: what a tracker has is what GET /v1/measurements says, each point once, however often the sender is
killed. Trackers are read by their own packages (build/trackers, made by `make trackers`)."""

import base64
import fcntl
import json
import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import models
import numpy
import pytest
from service import BINARY, ROOT, Service

PACKAGES = pathlib.Path(os.environ.get("DELTAQ_TRACKERS", ROOT / "build" / "trackers"))
LIMIT = 180
STEPS = 6

needs_packages = pytest.mark.skipif(not (PACKAGES / "bin" / "python").exists(),
                                    reason="build/trackers is not there: make trackers")


@pytest.fixture(scope="module")
def course(service):
    """Checkpoints of a trajectory, all but the last two of which are measured."""
    for i in range(STEPS):
        service.checkpoint(models.write_llama(service.files / "track" / str(i), seed=900 + i), "track", f"step{i}",
                           step=10 * i, tokens=1000 * i, learning_rate=0.1 / (i + 1))
    service.sequences("track", models.rows(4, 32))
    for i in range(STEPS - 2):
        measure(service, i, 3)
        measure(service, i, 4)
    return "track"


def measure(service, step, bits):
    method = {"name": "rtn", "bits": bits, "group_size": 32}
    run = service.run("quantize", checkpoint=f"track/step{step}", method=method,
                      evaluation={"dataset": "track", "sequence_length": None})
    assert run["state"] == "succeeded", run


def track(service, *words, variables=None, **more):
    environment = {**os.environ, "DELTAQ_URL": service.url, "HOME": "/nowhere", **(variables or {})}
    return subprocess.run([BINARY, "track", *map(str, words)], capture_output=True, text=True, timeout=LIMIT,
                          env=environment, **more)


def test_an_unknown_tracker_is_named_beside_the_known_ones(service, tmp_path):
    done = track(service, "nope", tmp_path / "x")
    assert done.returncode == 2 and "\"nope\"" in done.stderr and "ndjson, tensorboard, mlflow" in done.stderr


def wanted(service):
    """{SERIES: {METRIC: [[STEP, VALUE]…]}} by step, of the table."""
    found = {}
    for row in service.get("/v1/measurements?trajectory=track&limit=1000").json["items"]:
        for name, value in row.items():
            if isinstance(value, (int, float)) and name not in ("step", "bits"):
                found.setdefault(row["label"], {}).setdefault(name, []).append([row["step"], value])
    return found


def read_back(*words):
    done = subprocess.run([PACKAGES / "bin" / "python", ROOT / "tests" / "trackers" / "read_back.py", *map(str, words)],
                          capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def read_lines(path):
    """The same of an NDJSON file: every line, so that a double shows."""
    found = {}
    for line in path.read_text().splitlines():
        line = json.loads(line)
        for name, value in line["metrics"].items():
            found.setdefault(line["name"], {}).setdefault(name, []).append([line["step"], value])
    return found


def rounded(series):
    """As float32, which is what event files hold."""
    return {name: {metric: [[step, float(numpy.float32(value))] for step, value in points]
                   for metric, points in metrics.items()}
            for name, metrics in series.items()}


def by_step(series):
    return {name: {metric: sorted(points) for metric, points in metrics.items()} for name, metrics in series.items()}


def kill_until_done(service, *words, first=0.004, growth=1.12):
    """Starts it again and again, killed a little later each time,
    until one call ends by itself. How often it was killed."""
    environment = {**os.environ, "DELTAQ_URL": service.url, "HOME": "/nowhere"}
    kills, delay = 0, first
    while True:
        with subprocess.Popen([BINARY, "track", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, env=environment) as process:
            try:
                _, told = process.communicate(timeout=delay)
                assert process.returncode == 0, told
                return kills
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                kills, delay = kills + 1, delay * growth


# ---- NDJSON ----


def test_lines_are_the_table_and_late_results_are_added(service, course, tmp_path):
    path = tmp_path / "points.ndjson"
    assert track(service, "ndjson", path, "--trajectory", "track").returncode == 0
    assert by_step(read_lines(path)) == wanted(service)
    steps = [json.loads(line)["step"] for line in path.read_text().splitlines()
             if json.loads(line)["name"] == "rtn 3-bit g32"]
    assert steps == sorted(steps)
    before = path.read_bytes()
    assert (track(service, "ndjson", path, "--trajectory", "track").stdout == "0 points sent\n"
            and path.read_bytes() == before)
    measure(service, 4, 3)
    measure(service, 1, 2)
    assert track(service, "ndjson", path, "--trajectory", "track").returncode == 0
    assert path.read_bytes().startswith(before) and by_step(read_lines(path)) == wanted(service)


def test_killed_at_any_time_it_neither_doubles_nor_loses_a_point(service, course, tmp_path):
    path = tmp_path / "points.ndjson"
    kills = kill_until_done(service, "ndjson", path, "--trajectory", "track")
    assert kills > 3 and by_step(read_lines(path)) == wanted(service)


def test_follow_sends_what_is_measured_later(service, course, tmp_path):
    path = tmp_path / "points.ndjson"
    environment = {**os.environ, "DELTAQ_URL": service.url, "HOME": "/nowhere"}
    with subprocess.Popen([BINARY, "track", "ndjson", path, "--trajectory", "track", "--follow", "--every", "1"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) as process:
        try:
            measure(service, 5, 8)
            expected = wanted(service)
            for _ in range(120):
                if path.exists() and path.read_text().endswith("\n") and by_step(read_lines(path)) == expected:
                    break
                time.sleep(0.5)
            assert by_step(read_lines(path)) == expected
        finally:
            process.kill()
    # It may have been killed between the lines and what its ledger says of them: then they are written once more.
    assert track(service, "ndjson", path, "--trajectory", "track").returncode == 0
    assert by_step(read_lines(path)) == expected
    assert track(service, "ndjson", path, "--trajectory", "track").stdout == "0 points sent\n"


def test_what_cannot_be_is_refused(service, course, tmp_path):
    path = tmp_path / "points.ndjson"
    assert track(service, "ndjson", path, "--trajectory", "track").returncode == 0
    other = track(service, "ndjson", tmp_path / "other", "--ledger", f"{path}.ledger", "--trajectory", "track")
    assert other.returncode == 1 and f"that of ndjson {path} of track" in other.stderr
    with open(path, "a") as file:
        file.write("x")
    measure(service, 2, 8)
    foreign = track(service, "ndjson", path, "--trajectory", "track")
    assert foreign.returncode == 1 and "somebody wrote to it" in foreign.stderr
    (tmp_path / "no.ledger").write_text("this is no database, and long enough to be told from one that is empty" * 20)
    broken = track(service, "ndjson", tmp_path / "no", "--trajectory", "track")
    assert broken.returncode == 1 and "no ledger" in broken.stderr
    (tmp_path / "file").touch()
    taken = track(service, "tensorboard", tmp_path / "file", "--trajectory", "track")
    assert taken.returncode == 1 and "Not a directory" in taken.stderr and "trying again" not in taken.stderr
    unknown = track(service, "ndjson", tmp_path / "u", "--trajectory", "nothing")
    assert unknown.returncode == 1 and "404" in unknown.stderr
    for words in (["dance", "x"], ["ndjson"], ["mlflow", "http://127.0.0.1:1"], ["ndjson", "a", "b"],
                  ["ndjson", "a", "--every", "0"], ["mlflow", "http://127.0.0.1:1", "--ledger", ""],
                  ["mlflow", "http://127.0.0.1:1", "--ledger", ":memory:"]):
        assert track(service, *words).returncode == 2, words


@pytest.mark.parametrize("tracker,file", [
    ("ndjson", "."), ("tensorboard", "track-tensorboard/full precision/events.out.tfevents.0000000001.deltaq")])
def test_what_somebody_else_wrote_stays_however_often_it_is_refused(service, course, tmp_path, tracker, file):
    """A file that was there before, and bytes behind what was sent: the next call cuts neither away."""
    def evaluate(step):
        service.checkpoint(models.write_llama(service.files / tracker / str(step), seed=870 + step), trajectory,
                           str(step), step=step)
        assert service.run("evaluate", checkpoint=f"{trajectory}/{step}", dataset="track",
                           sequence_length=None)["state"] == "succeeded"

    trajectory, path = f"track-{tracker}", tmp_path / "notes" / file
    words = [tracker, tmp_path / "notes", "--trajectory", trajectory]
    path.parent.mkdir(parents=True, exist_ok=True)
    evaluate(1)

    def refused(text):
        path.write_bytes(text)
        for _ in range(2):
            done = track(service, *words)
            assert done.returncode == 1 and "somebody wrote to it" in done.stderr and path.read_bytes() == text, done

    refused(b"somebody's notes")
    path.unlink()
    assert track(service, *words).returncode == 0
    sent = path.read_bytes()
    evaluate(2)
    refused(sent + b"more")
    path.write_bytes(sent)
    assert track(service, *words).returncode == 0
    assert path.read_bytes().startswith(sent) and len(path.read_bytes()) > len(sent)
    evaluate(3)
    path.write_bytes(sent)  # its end is gone: lines are not sent twice, and an event file is written anew
    status, told = {"ndjson": (1, "its end is gone"), "tensorboard": (0, "is written anew")}[tracker]
    done = track(service, *words)
    assert done.returncode == status and told in done.stderr


def test_two_at_once_are_refused(service, course, tmp_path):
    path = tmp_path / "points.ndjson"
    environment = {**os.environ, "DELTAQ_URL": service.url, "HOME": "/nowhere"}
    with subprocess.Popen([BINARY, "track", "ndjson", path, "--trajectory", "track", "--follow", "--every", "600"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert "points sent" in process.stderr.readline()
            second = track(service, "ndjson", path, "--trajectory", "track")
            assert second.returncode == 1 and "another process uses it" in second.stderr
        finally:
            process.kill()


def test_a_trajectory_that_gets_another_name_is_followed_under_both(service, course, tmp_path):
    """It keeps its first name in the tracker; the ledger is its own whatever it is called."""
    def evaluate(step, name):
        service.checkpoint(models.write_llama(service.files / "named" / str(step), seed=970 + step), name, str(step),
                           step=step)
        assert service.run("evaluate", checkpoint=f"{name}/{step}", dataset="track",
                           sequence_length=None)["state"] == "succeeded"

    def sent():
        lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
        return sorted((line["trajectory"], line["step"]) for line in lines)

    path = tmp_path / "points.ndjson"
    evaluate(0, "track-first")
    environment = {**os.environ, "DELTAQ_URL": service.url, "HOME": "/nowhere"}
    with subprocess.Popen([BINARY, "track", "ndjson", path, "--trajectory", "track-first", "--follow", "--every", "1"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert "points sent" in process.stderr.readline()
            assert service.request("PATCH", "/v1/trajectories/track-first", {"name": "track-second"}).status == 200
            evaluate(1, "track-second")
            assert "points sent" in process.stderr.readline()
        finally:
            process.kill()
    evaluate(2, "track-second")
    assert track(service, "ndjson", path, "--trajectory", "track-first").returncode == 1
    assert track(service, "ndjson", path, "--trajectory", "track-second").returncode == 0
    assert sent() == [("track-first", step) for step in range(3)]
    assert track(service, "ndjson", path, "--trajectory", "track").returncode == 1


def test_a_checkpoint_without_a_step_is_left_out_and_told(service, course, tmp_path):
    service.checkpoint(models.write_llama(service.files / "stepless", seed=990), "track-stepless", "one")
    run = service.run("evaluate", checkpoint="track-stepless/one", dataset="track", sequence_length=None)
    assert run["state"] == "succeeded"
    done = track(service, "ndjson", tmp_path / "p", "--trajectory", "track-stepless")
    assert done.returncode == 0 and "1 rows of checkpoints without a step were left out" in done.stderr


@pytest.mark.parametrize("status", [503, 429, 500, 502])
def test_a_server_that_is_busy_or_stops_is_asked_again(service, course, tmp_path, status):
    relay = Relay(service.url)
    try:
        relay.refuse = [status]
        done = track(service, "ndjson", tmp_path / "p", "--trajectory", "track", "--url", relay.url)
        assert done.returncode == 0 and f"(HTTP {status}); trying again" in done.stderr
        assert by_step(read_lines(tmp_path / "p")) == wanted(service)
    finally:
        relay.stop()


# ---- TensorBoard ----


@needs_packages
def test_event_files_read_back_are_the_table_by_step(service, course, tmp_path):
    log = tmp_path / "log"
    assert track(service, "tensorboard", log, "--trajectory", "track").returncode == 0
    assert read_back("tensorboard", log) == rounded(wanted(service))  # in the order of the steps
    measure(service, 3, 2)  # late: earlier steps have 2 bits already or will get it
    measure(service, 0, 2)
    kills = kill_until_done(service, "tensorboard", log, "--trajectory", "track")
    assert kills > 3 and read_back("tensorboard", log) == rounded(wanted(service))
    (log / "track" / "rtn 2-bit g32" / ".anew").write_text("what a killed writer left")
    measure(service, 2, 2)  # between two that were sent
    assert track(service, "tensorboard", log, "--trajectory", "track").returncode == 0
    assert read_back("tensorboard", log) == rounded(wanted(service))
    assert len(list((log / "track" / "rtn 2-bit g32").iterdir())) == 1


@needs_packages
def test_event_files_killed_from_the_beginning(service, course, tmp_path):
    log = tmp_path / "log"
    assert kill_until_done(service, "tensorboard", log, "--trajectory", "track") > 3
    assert read_back("tensorboard", log) == rounded(wanted(service))


@needs_packages
def test_event_files_that_were_removed_are_made_anew(service, course, tmp_path):
    log = tmp_path / "log"
    assert track(service, "tensorboard", log, "--trajectory", "track").returncode == 0
    for path in (log / "track" / "rtn 3-bit g32").iterdir():
        path.unlink()
    measure(service, 5, 3)
    again = track(service, "tensorboard", log, "--trajectory", "track")
    assert again.returncode == 0 and "written anew" in again.stderr
    assert read_back("tensorboard", log) == rounded(wanted(service))


# ---- MLflow ----


def processes_of(session):
    """/proc of all processes of a session; one that ends meanwhile is left out."""
    for place in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if int((place / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                yield place
        except OSError:
            pass


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory):
    directory = tmp_path_factory.mktemp("mlflow")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [PACKAGES / "bin" / "mlflow", "server", "--host", "127.0.0.1", "--port", str(port),
               "--workers", "1", "--backend-store-uri", f"sqlite:///{directory}/store.db",
               "--artifacts-destination", str(directory / "artifacts")]
    # Its jobs cost processor time, and leave directories in /dev/shm when it is killed; no test runs one.
    environment = {**os.environ, "PATH": f"{PACKAGES / 'bin'}:{os.environ['PATH']}", "MLFLOW_DISABLE_TELEMETRY": "true",
                   "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with open(directory / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{url}/health", timeout=2).read()
                break
            except (urllib.error.URLError, OSError):
                assert process.poll() is None, (directory / "log").read_text()
                time.sleep(0.5)
        for one in processes_of(process.pid):
            assert b"HUEY" not in (one / "environ").read_bytes(), "MLflow has a place for jobs in /dev/shm"
        yield url
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(LIMIT)


@needs_packages
def test_mlflow_has_the_table_once_however_often_it_is_killed(service, course, mlflow, tmp_path):
    words = ["mlflow", mlflow, "--trajectory", "track", "--ledger", tmp_path / "ledger"]
    kills = kill_until_done(service, *words, first=0.002, growth=1.25)
    assert kills > 3 and by_step(read_back("mlflow", mlflow, "track")) == wanted(service)
    measure(service, 4, 4)  # late
    measure(service, 1, 8)
    assert kill_until_done(service, *words, first=0.002, growth=1.25) > 3
    assert by_step(read_back("mlflow", mlflow, "track")) == wanted(service)
    assert track(service, *words).stdout == "0 points sent\n"


@needs_packages
def test_an_answer_of_mlflow_that_is_lost_is_looked_up(service, course, mlflow, tmp_path):
    """A relay that hands every batch to MLflow and cuts the first answers: the history says that they arrived."""
    relay = Relay(mlflow)
    try:
        words = ["mlflow", relay.url, "--trajectory", "track-lost", "--ledger", tmp_path / "ledger"]
        service.checkpoint(models.write_llama(service.files / "lost", seed=991), "track-lost", "one", step=1)
        assert service.run("evaluate", checkpoint="track-lost/one", dataset="track",
                           sequence_length=None)["state"] == "succeeded"
        relay.cut = 1
        done = track(service, *words)
        # it was not sent a second time
        assert done.returncode == 0 and "trying again" in done.stderr and relay.batches == 1
        found = read_back("mlflow", mlflow, "track-lost")
        assert found and all(len(points) == 1 for metrics in found.values() for points in metrics.values())
    finally:
        relay.stop()


@needs_packages
def test_mlflow_is_asked_with_the_credentials_of_its_own_client(service, course, mlflow, tmp_path):
    """A user with a password before a token, and neither on the command line."""
    relay = Relay(mlflow)
    try:
        service.checkpoint(models.write_llama(service.files / "signed", seed=48900), "track-signed", "one", step=1)
        assert service.run("evaluate", checkpoint="track-signed/one", dataset="track",
                           sequence_length=None)["state"] == "succeeded"
        words = ["mlflow", relay.url, "--trajectory", "track-signed", "--ledger", tmp_path / "ledger"]
        user = {"MLFLOW_TRACKING_USERNAME": "ada", "MLFLOW_TRACKING_PASSWORD": "l:ö"}
        token = {"MLFLOW_TRACKING_TOKEN": "a-token"}
        relay.wanted = "Basic " + base64.b64encode("ada:l:ö".encode()).decode()
        for variables in ({}, {**user, "MLFLOW_TRACKING_PASSWORD": "other"}, {"MLFLOW_TRACKING_USERNAME": "ada"}):
            refused = track(service, *words, variables=variables)
            assert refused.returncode == 1 and "401" in refused.stderr and "l:ö" not in refused.stderr
        colon = track(service, *words, variables={**user, "MLFLOW_TRACKING_USERNAME": "a:da"})
        assert colon.returncode == 1 and "colon" in colon.stderr
        assert track(service, *words, variables={**user, **token}).returncode == 0
        found = read_back("mlflow", mlflow, "track-signed")
        assert found and all(len(points) == 1 for metrics in found.values() for points in metrics.values())
        relay.wanted = "Bearer a-token"
        assert track(service, *words[:-1], tmp_path / "another", variables=token).returncode == 0
    finally:
        relay.stop()


def shown_by_mlflow(url, experiment):
    """{METRIC: VALUE}: of each the last one, as its lists and tables have it."""
    name = urllib.parse.quote(experiment)
    with urllib.request.urlopen(f"{url}/api/2.0/mlflow/experiments/get-by-name?experiment_name={name}") as answer:
        number = json.load(answer)["experiment"]["experiment_id"]
    request = urllib.request.Request(f"{url}/api/2.0/mlflow/runs/search",
                                     json.dumps({"experiment_ids": [number]}).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        runs = json.load(answer)["runs"]
    return {metric["key"]: metric["value"] for run in runs for metric in run["data"]["metrics"]}


@needs_packages
def test_mlflow_shows_the_run_before_where_the_newest_is_deleted(service, course, mlflow, tmp_path):
    words = ["mlflow", mlflow, "--trajectory", "track-deleted", "--ledger", tmp_path / "ledger"]
    service.checkpoint(models.write_llama(service.files / "deleted", seed=992), "track-deleted", "one", step=1)
    old, new = (service.run("sharpness", checkpoint="track-deleted/one", dataset="track", sequence_length=None,
                            estimators=["trace"], probes=2, seed=seed) for seed in (1, 2))
    assert old["result"]["trace"] != new["result"]["trace"]
    assert track(service, *words).returncode == 0
    assert shown_by_mlflow(mlflow, "track-deleted")["trace"] == new["result"]["trace"]
    assert service.request("DELETE", f"/v1/runs/{new['id']}").status == 204
    assert track(service, *words).returncode == 0
    assert shown_by_mlflow(mlflow, "track-deleted")["trace"] == old["result"]["trace"]


@needs_packages
def test_no_mlflow_is_told(service, course, tmp_path):
    answer = track(service, "mlflow", f"{service.url}/nothing", "--trajectory", "track",
                   "--ledger", tmp_path / "ledger")
    assert answer.returncode == 1 and "MLflow: " in answer.stderr


class Relay:
    """A proxy in front of MLflow, or of deltaq, that drops the first `cut` answers to log-batch, and first of all gives
    the answers `refuse` without a body. With a `wanted` Authorization it refuses what has another one."""

    def __init__(self, target):
        import http.server
        import threading

        relay = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def pass_on(self):
                if relay.refuse:
                    self.send_response(relay.refuse.pop(0))
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
                if relay.wanted and self.headers["Authorization"] != relay.wanted:
                    self.send_error(401, "You are not authenticated")
                    return
                request = urllib.request.Request(target + self.path, body, {"Content-Type": "application/json"},
                                                 method=self.command)
                try:
                    with urllib.request.urlopen(request, timeout=60) as answer:
                        status, text = answer.status, answer.read()
                except urllib.error.HTTPError as problem:
                    status, text = problem.code, problem.read()
                relay.batches += self.path.endswith("log-batch")
                if self.path.endswith("log-batch") and relay.cut > 0:
                    relay.cut -= 1
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = pass_on

            def log_message(self, *_):
                pass

        self.cut = self.batches = 0
        self.refuse, self.wanted = [], None
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


# ---- W&B ----


def wandb(script, path, *more, status=0):
    """Sends the file of points into a directory beside it, by a script of the project's."""
    environment = {**os.environ, "WANDB_MODE": "offline", "WANDB_DIR": str(path.parent), "WANDB_SILENT": "true",
                   "HOME": str(path.parent)}
    done = subprocess.run([PACKAGES / "bin" / "python", ROOT / script, *map(str, more), path],
                          capture_output=True, text=True, env=environment, timeout=LIMIT)
    assert done.returncode == status, (done.returncode, done.stderr)
    return done.stderr


@needs_packages
def test_the_script_for_wandb_writes_the_table(service, course, tmp_path):
    path = tmp_path / "points.ndjson"
    assert track(service, "ndjson", path, "--trajectory", "track").returncode == 0
    wandb("examples/wandb_sync.py", path)
    wandb("examples/wandb_sync.py", path)  # nothing new
    assert by_step(read_back("wandb", tmp_path)) == wanted(service)
    measure(service, 5, 2)
    assert track(service, "ndjson", path, "--trajectory", "track").returncode == 0
    wandb("examples/wandb_sync.py", path)
    assert by_step(read_back("wandb", tmp_path)) == wanted(service)


@needs_packages
def test_the_script_for_wandb_killed_at_any_step_neither_doubles_nor_loses_a_point(service, course, tmp_path):
    """Each call goes on where the one before was killed: twice in the first batch; when that is whole and has not taken
    its place; between two of its runs that take theirs; in the second batch; behind it; in the third."""
    path = tmp_path / "points.ndjson"
    assert track(service, "ndjson", path, "--trajectory", "track").returncode == 0
    assert len(path.read_text().splitlines()) >= 8
    for step, count in (("log", 1), ("log", 3), ("keep", 1), ("move", 1), ("log", 2), ("keep", 2), ("move", 1)):
        wandb("tests/trackers/wandb_killed.py", path, step, count, "--batch", 3, status=-signal.SIGKILL)
        expected = wanted(service)
        for name, metrics in read_back("wandb", tmp_path).items():
            for metric, points in metrics.items():
                assert all(points.count(point) == expected[name][metric].count(point) == 1 for point in points), step
    wandb("examples/wandb_sync.py", path)
    assert by_step(read_back("wandb", tmp_path)) == wanted(service)
    assert list((tmp_path / "wandb").glob(".deltaq-*")) == []


@needs_packages
def test_the_script_for_wandb_takes_neither_another_project_nor_another_file_for_its_own(service, course, tmp_path):
    """Both ended well, and sent nothing to the project, or a part of the file."""
    path, ledger = tmp_path / "points.ndjson", tmp_path / "points.ndjson.wandb"
    assert track(service, "ndjson", path, "--trajectory", "track").returncode == 0
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3]))
    wandb("examples/wandb_sync.py", path, "--project", "one")
    kept, sent = ledger.read_bytes(), read_back("wandb", tmp_path)
    assert "that of the project one" in wandb("examples/wandb_sync.py", path, "--project", "two", status=1)
    for other in (lines[:2], lines[3:], [lines[1], lines[0], *lines[2:]]):  # too few, others, in another order
        path.write_text("".join(other))
        assert "begun anew" in wandb("examples/wandb_sync.py", path, "--project", "one", status=1)
    assert ledger.read_bytes() == kept and read_back("wandb", tmp_path) == sent
    ledger.write_text(str(sum(len(line.encode()) for line in lines[:3])))  # as an earlier version kept it
    path.write_text("".join(lines))
    wandb("examples/wandb_sync.py", path, "--project", "one")
    assert by_step(read_back("wandb", tmp_path)) == by_step(read_lines(path))


@needs_packages
def test_two_scripts_for_wandb_at_once_are_refused(service, course, tmp_path):
    path = tmp_path / "points.ndjson"
    path.write_text("")
    with open(path) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        wandb("examples/wandb_sync.py", path, status=1)


def test_the_server_may_be_away(tmp_path):
    """It goes on where it was when the server is back."""
    service = Service(tmp_path / "server", "--threads", "1")
    try:
        service.checkpoint(models.write_llama(service.files / "one", seed=1), "away", "one", step=1)
        service.sequences("away", models.rows(2, 16))
        assert service.run("evaluate", checkpoint="away/one", dataset="away",
                           sequence_length=None)["state"] == "succeeded"
        assert track(service, "ndjson", tmp_path / "points", "--trajectory", "away").returncode == 0
    finally:
        service.stop()
    before = (tmp_path / "points").read_bytes()
    gone = track(service, "ndjson", tmp_path / "points", "--trajectory", "away")
    assert gone.returncode == 4 and "trying again" in gone.stderr and (tmp_path / "points").read_bytes() == before
