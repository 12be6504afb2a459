#!/usr/bin/env python3
"""Times reading the histories of a metric from deltaq and from an MLflow server that has the same points.

    scale_mlflow.py [--measurements 1000000] [--requests 7] [--store sqlite|postgresql]

deltaq is filled as scale.py fills it. All its measurements then go into MLflow (build/trackers, `make trackers`;
fill_mlflow.py says how), into the SQLite file that its server uses by default or into PostgreSQL: a database beside
deltaq's on the same server. Both are asked over HTTP by one client, in turn, on connections that stay open. Before it
is timed, every whole history is compared point by point. deltaq's answers have intervals and the names of checkpoints
beside the values, MLflow's have times. Prints medians of the clock and of processor time, and MLflow's over deltaq's;
fails when the points differ."""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.parse

import scale

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = pathlib.Path(os.environ.get("DELTAQ_TRACKERS", ROOT / "build" / "trackers"))
METRIC, BITS, SERIES = "delta", 4, "gptq 4-bit g128"
MANY = 25  # runs of one request: MLflow answers with at most 25,000 points
THINNED = 320  # points of a run that MLflow's own page asks for

POINTS = """
copy (select t.name, s.label, n.metric, c.step, n.value from newest n join checkpoints c on c.id = n.checkpoint
  join trajectories t on t.id = n.trajectory join series s on s.id = n.series order by t.name, s.label, c.step)
  to stdout (format csv)
"""


def processor(root):
    """Seconds of processor time that a process and all below it have had. With other work on the machine they say more
    than the clock; those of PostgreSQL are among deltaq's, and with --store postgresql MLflow's lack them."""
    children, total, tree = {}, 0, [root]
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            children.setdefault(int(stat.read_text().rsplit(")", 1)[1].split()[1]), []).append(int(stat.parent.name))
    for process in tree:
        tree += children.get(process, [])
        for task in pathlib.Path(f"/proc/{process}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                total += int(task.read_text().split()[0])
    return total / 1e9


class Server:
    """An HTTP server and one connection to it."""

    def __init__(self, port, process):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        self.process = process

    def get(self, path):
        self.connection.request("GET", path)
        answer = self.connection.getresponse()
        body = answer.read()
        assert answer.status == 200, (path, answer.status, body[:400])
        return body


def query(path, *pairs):
    return f"{path}?{urllib.parse.urlencode(pairs)}"


# ---- What is asked, of both; each gives a list of paths ----


def curves(names, **more):
    return [query("/v1/curves", *(("trajectory", name) for name in names), ("metric", METRIC), ("bits", BITS),
                  *more.items())]


def history(run):
    return [query("/api/2.0/mlflow/metrics/get-history", ("run_id", run), ("metric_key", METRIC))]


def histories(runs):
    return [query("/ajax-api/2.0/mlflow/metrics/get-history-bulk", *(("run_id", run) for run in runs),
                  ("metric_key", METRIC), ("max_results", 25000))]


def thinned(runs):
    return [query("/ajax-api/2.0/mlflow/metrics/get-history-bulk-interval", *(("run_ids", run) for run in runs),
                  ("metric_key", METRIC), ("max_results", THINNED))]


def rows_of(runs):
    """Question; the trajectories; paths of deltaq; of MLflow; whether both give all points."""
    names = sorted(name for name in runs if name != "long")
    few = names[:MANY]
    ids = {name: runs[name][SERIES] for name in runs if SERIES in runs[name]}
    groups = [names[i:i + MANY] for i in range(0, len(names), MANY)]
    return [
        ("one run", names[:1], curves(names[:1]), history(ids[names[0]]), True),
        ("the longest run", ["long"], curves(["long"]), history(ids["long"]), True),
        (f"{len(few)} runs, one request", few, curves(few), histories([ids[n] for n in few]), True),
        (f"all {len(names)} runs", names, [p for g in groups for p in curves(g)],
         [p for g in groups for p in histories([ids[n] for n in g])], True),
        (f"the longest run, {THINNED} points", ["long"], curves(["long"], points=THINNED), thinned([ids["long"]]),
         False),
        (f"{len(few)} runs, {THINNED} points each", few, curves(few, points=THINNED), thinned([ids[n] for n in few]),
         False),
    ]


# ---- The points of an answer ----


def points_of_deltaq(bodies):
    return sorted((series["trajectory"], point["x"], point["y"]) for body in bodies
                  for series in json.loads(body)["series"] for point in series["points"])


def points_of_mlflow(bodies, names, runs):
    """An answer about one run does not name it."""
    told = {runs[name][SERIES]: name for name in runs if SERIES in runs[name]}
    return sorted((told[point["run_id"]] if point.get("run_id") else names[0], float(point["step"]), point["value"])
                  for body in bodies for point in json.loads(body)["metrics"])


# ---- The servers ----


@contextlib.contextmanager
def deltaq_server(directory):
    from service import Service

    service = Service(directory, "--workers", "0")
    try:
        yield service
    finally:
        service.stop()


@contextlib.contextmanager
def mlflow(directory, uri):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [PACKAGES / "bin" / "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
               "--backend-store-uri", uri, "--artifacts-destination", str(directory / "artifacts")]
    environment = {**os.environ, "PATH": f"{PACKAGES / 'bin'}:{os.environ['PATH']}", "MLFLOW_DISABLE_TELEMETRY": "true",
                   "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with open(directory / "mlflow.log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
    try:
        server = Server(port, process.pid)
        while True:
            try:
                server.get("/health")
                break
            except OSError:
                assert process.poll() is None, (directory / "mlflow.log").read_text()
                server.connection.close()
                time.sleep(0.5)
        yield server
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def store_of(kind, directory, service):
    """Its address, as SQLAlchemy writes them. The database in PostgreSQL is made."""
    if kind == "sqlite":
        return f"sqlite:///{directory}/mlflow.db"
    scale.sql(service, "create database mlflow")
    return f"postgresql+psycopg2:///mlflow?host={service.data}/pg/socket&port=5432&user=deltaq"


def fill(uri, directory, service):
    points = directory / "points.csv"
    points.write_text(scale.sql(service, POINTS))
    done = subprocess.run([PACKAGES / "bin" / "python", pathlib.Path(__file__).with_name("fill_mlflow.py"), uri,
                           str(directory / "artifacts"), points], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


# ---- The measure ----


def compare(deltaq, other, runs):
    for name, names, ours, theirs, whole in rows_of(runs):
        if not whole:
            continue
        one = points_of_deltaq(map(deltaq.get, ours))
        two = points_of_mlflow(map(other.get, theirs), names, runs)
        assert one and one == two, f"{name}: {len(one)} and {len(two)} points, which differ"
        print(f"{name}: the same {len(one)} points")


def once(server, paths):
    """Seconds of the clock, seconds of processors, bytes."""
    had, start = processor(server.process), time.perf_counter()
    size = sum(len(server.get(path)) for path in paths)
    seconds = time.perf_counter() - start
    return seconds, processor(server.process) - had, size


def measure(deltaq, other, runs, requests):
    print(f"| {'history of a metric':30} | deltaq ms | MLflow ms | ratio | deltaq CPU ms | MLflow CPU ms | ratio "
          "| KiB | KiB of MLflow |\n" + 9 * "|---" + "|")
    for name, _, ours, theirs, _ in rows_of(runs):
        once(deltaq, ours), once(other, theirs)
        pairs = [(once(deltaq, ours), once(other, theirs)) for _ in range(requests)]
        cells = []
        for what in (0, 1):
            left, right = (1000 * statistics.median(pair[side][what] for pair in pairs) for side in (0, 1))
            cells.append(f"{left:.1f} | {right:.1f} | {right / left:.1f}")
        sizes = " | ".join(str(side[2] // 1024) for side in pairs[0])
        print(f"| {name:30} | {' | '.join(cells)} | {sizes} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measurements", type=int, default=1_000_000)
    parser.add_argument("--requests", type=int, default=7)
    parser.add_argument("--store", choices=["sqlite", "postgresql"], default="sqlite")
    options = parser.parse_args()
    if not (PACKAGES / "bin" / "mlflow").exists():
        parser.error("build/trackers is not there: make trackers")
    driver = [PACKAGES / "bin" / "python", "-c", "import psycopg2"]
    if options.store == "postgresql" and subprocess.run(driver, stderr=subprocess.DEVNULL).returncode != 0:
        parser.error("build/trackers has no psycopg2: make trackers")
    with tempfile.TemporaryDirectory(prefix="deltaq-scale-") as place:
        directory = pathlib.Path(place)
        with deltaq_server(directory) as service:
            scale.fill(service, options.measurements)
            print(scale.counts(service))
            start = time.monotonic()
            uri = store_of(options.store, directory, service)
            runs = fill(uri, directory, service)
            print(f"filled MLflow ({options.store}) in {time.monotonic() - start:.0f} s")
            with mlflow(directory, uri) as other:
                deltaq = Server(service.port, service.process.pid)
                compare(deltaq, other, runs)
                measure(deltaq, other, runs, options.requests)


if __name__ == "__main__":
    main()
