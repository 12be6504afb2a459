#!/usr/bin/env python3
"""Times reading from a database of a lab's size: a million measurements, 100,000 runs,
100 trajectories of 1,000 checkpoints and one of 10,000.

    scale.py [--measurements 1000000] [--requests 20] [--busy] [--explain] [--keep DIRECTORY]

The rows are made by the database itself (no engine runs); everything is read through HTTP by one client; with --busy
while a training run computes on all processors. Prints a table of medians and 99th percentiles, and with --explain the
plans of PostgreSQL for statements of more than 20 ms, from its own log. Fails when a bound is missed."""

import argparse
import http.client
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "http"))

TRAJECTORIES, CHECKPOINTS, LONG = 100, 1000, 10000

# Ids are the md5 of what they are of, so that no statement has to look one up.
# A run measures four numbers of one series. What is rare among runs was made before all others.
FILL = """
set synchronous_commit = off;
insert into trajectories (name) select 'run-' || lpad(i::text, 3, '0') from generate_series(1, %(trajectories)d) i;
insert into trajectories (name) values ('long');
insert into checkpoints (trajectory, name, step, tokens, learning_rate, source, path, sha256, tags)
  select t.id, 'step' || s, s, s * 1000::bigint, 0.001 * (1 - s / %(checkpoints)d.0 / 2),
    '{"path": "/nowhere"}', '/nowhere',
    md5(t.id || s) || md5(s || t.id), case when s %% 2 = 0 then '{"phase": "even"}' else '{}' end::json
  from trajectories t, generate_series(1, %(checkpoints)d) s where t.name <> 'long';
insert into checkpoints (trajectory, name, step, tokens, learning_rate, source, path, sha256)
  select t.id, 'step' || s, s, s * 1000::bigint, 0.001, '{"path": "/nowhere"}', '/nowhere',
    md5(t.id || s) || md5(s || t.id)
  from trajectories t, generate_series(1, %(long)d) s where t.name = 'long';
create temporary table made as select c.id as checkpoint, c.step, c.number as c, k.kind, gen_random_uuid()::text as run,
    row_number() over (order by c.number) as n, t.name as trajectory
  from checkpoints c join trajectories t on t.id = c.trajectory,
  (values ('quantize')) k (kind) where c.number %% 11 < 10;
create temporary table rare as select gen_random_uuid()::text as run, k.*
  from (values ('quantize', 'failed'), ('quantize', 'cancelled'), ('health', 'succeeded')) k (kind, state),
    generate_series(1, 20);
insert into runs (id, kind, state, epoch, error, result_epoch, finished_at)
  select run, kind, state, 1, case state when 'failed' then '{}'::json end,
    case state when 'succeeded' then 1 end, now() from rare;
insert into run_specs (run, params) select run, '{}' from rare;
insert into runs (id, kind, state, epoch, result_epoch, created_at, started_at, finished_at, usage_seconds)
  select run, kind, 'succeeded', 1, 1, now() - interval '1 day', now() - interval '1 day', now(), 5
  from made order by n;
insert into run_specs (run, params)
  select run, json_build_object('checkpoint', checkpoint, 'method', json_build_object('name', 'gptq', 'bits', 4))
  from made;
insert into run_results (run, epoch, result)
  select run, 1, json_build_object('delta', 0.01, 'loss_fp', 3.0, 'loss_q', 3.03, 'layers',
    (select json_agg(json_build_object('name', 'layers.' || i, 'relative_error', 0.01)) from generate_series(1, 28) i))
  from made;
insert into run_inputs (run, checkpoint) select run, checkpoint from made;
insert into measurements (run, epoch, checkpoint, metric, value, low, high, method, bits, label, dataset, protocol)
  select run, 1, checkpoint, m.metric, m.base + (hashfloat8(n + m.base) %% 1000) / 1e5, m.base - 0.02, m.base + 0.02,
    case when m.quantized then 'gptq' else '' end, case when m.quantized then s.bits else 0 end,
    case when m.quantized then 'gptq ' || s.bits || '-bit g128' else '' end, 'wikitext', '0123456789abcdef'
  from made,
    (values ('delta', 0.05, true), ('loss_q', 3.1, true), ('kl', 0.02, true), ('loss_fp', 3.0, false),
            ('largest_algebraic', 40.0, false)) m (metric, base, quantized),
    (values (3), (4)) s (bits) where m.quantized or s.bits = 3 limit %(measurements)d;
insert into measurements (run, epoch, checkpoint, metric, value, low, high, method, bits, label, dataset, protocol)
  select run, 1, checkpoint, m.metric, 1 + n, null, null, '', 0, '', 'wikitext', '0123456789abcdef'
  from made, (values ('trace'), ('gradient_norm')) m (metric)
  limit greatest(0, %(measurements)d - (select count(*) from measurements));
analyze;
"""

# What is asked for, and the bound on its 99th percentile (seconds; None: none yet).
ROWS = [
    ("trajectories", "/v1/trajectories", 0.1),
    ("one trajectory", "/v1/trajectories/long", 0.1),
    ("runs", "/v1/runs", 0.1),
    ("runs that failed, which are few", "/v1/runs?state=failed", 0.1),
    ("runs that were cancelled, few", "/v1/runs?state=cancelled", 0.1),
    ("runs of a rare kind", "/v1/runs?kind=health", 0.1),
    ("runs of a trajectory", "/v1/runs?trajectory=run-050&limit=100", 0.1),
    ("checkpoints of a trajectory", "/v1/checkpoints?trajectory=long&limit=100", 0.1),
    ("measurements, a page", "/v1/measurements?trajectory=run-050&limit=100", 0.1),
    ("measurements, a page of the last", "/v1/measurements?trajectory=long&limit=100&step_from=9000", 0.1),
    ("a curve of 1,000 points", "/v1/curves?trajectory=run-050&bits=4", 0.3),
    ("a curve of 10,000 points", "/v1/curves?trajectory=long&bits=4", 0.3),
    ("the same, points=1000", "/v1/curves?trajectory=long&bits=4&points=1000", 0.3),
    ("correlation of a trajectory", "/v1/correlations?trajectory=run-050&x=largest_algebraic&y=delta&bits=4", 0.3),
    ("correlation of four trajectories", "/v1/correlations?x=largest_algebraic&y=delta&bits=4"
     + "".join(f"&trajectory=run-{i:03}" for i in range(1, 5)), None),
    ("a trajectory of 10,000 as CSV", "/v1/measurements?trajectory=long&format=csv", None),
]

# What changes something: a run that is deleted is another one each time, and a name that stays is checked like any.
CHANGES = [
    ("a run is deleted", "DELETE", "/v1/runs/{run}", None, 0.1),
    ("a trajectory is renamed", "PATCH", "/v1/trajectories/long", '{"name": "long"}', 0.1),
]


def sql(service, text):
    target = f"host={service.data}/pg/socket port=5432 user=deltaq dbname=deltaq"
    done = subprocess.run(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", target], input=text,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fill(service, measurements):
    start, share = time.monotonic(), measurements / 1_000_000
    sql(service, FILL % {"trajectories": max(1, round(TRAJECTORIES * share)) if share < 1 else TRAJECTORIES,
                         "checkpoints": CHECKPOINTS, "long": LONG if share >= 1 else CHECKPOINTS,
                         "measurements": measurements})
    print(f"filled in {time.monotonic() - start:.0f} s")


def counts(service):
    tables = ("trajectories", "checkpoints", "runs", "measurements")
    parts = (f"(select count(*) from {table}) || ' {table}'" for table in tables)
    return sql(service, "select " + " || ', ' || ".join(parts)).strip()


def timed(service, paths, method="GET", body=None):
    connection, times = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60), []
    headers = {} if body is None else {"Content-Type": "application/json"}
    for path in paths:
        start = time.perf_counter()
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        size = len(answer.read())
        times.append(time.perf_counter() - start)
        if answer.status not in (200, 204):
            return answer.status, size, times
    return 200, size, times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measurements", type=int, default=1_000_000)
    parser.add_argument("--requests", type=int, default=20)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--explain", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    from service import Service

    with tempfile.TemporaryDirectory(prefix="deltaq-scale-") as place:
        directory = options.keep or pathlib.Path(place)
        fresh = not (directory / "data" / "filled").exists()
        directory.mkdir(exist_ok=True)
        service = Service(directory, "--workers", "1" if options.busy else "0")
        try:
            if fresh:
                fill(service, options.measurements)
                (directory / "data" / "filled").touch()
            print(counts(service))
            if options.explain:
                sql(service, "load 'auto_explain'; alter system set session_preload_libraries = 'auto_explain'; "
                    "alter system set auto_explain.log_min_duration = 20;"
                    " alter system set auto_explain.log_analyze = on; select pg_reload_conf();")
                service.stop()
                service.start()
            run = compute(service) if options.busy else None
            missed = measure(service, options.requests)
            if run is not None:
                service.post(f"/v1/runs/{run}/cancel")
            return missed
        finally:
            service.stop()
            if options.explain:
                print((service.data / "pg" / "postgres.log").read_text()[-60_000:])


def compute(service):
    """Starts a training run that goes on for longer than anybody reads; its id."""
    text = service.files / "text"
    text.write_bytes(bytes(range(32, 127)) * 20000)
    service.post("/v1/datasets", {"name": "busy", "path": str(text), "format": "text"})
    model = {"model_type": "llama", "vocab_size": 256, "hidden_size": 256, "intermediate_size": 512,
             "num_hidden_layers": 4, "num_attention_heads": 4, "max_position_embeddings": 256}
    params = {"trajectory": "busy", "model": model, "tokenizer": {"name": "bytes"}, "dataset": "busy",
              "tokens": 10**10, "batch_sequences": 16, "sequence_length": 256, "checkpoint_every": 10**10,
              "schedule": {"name": "constant", "peak": 0.001}}
    answer = service.post("/v1/runs", {"kind": "train", "params": params, "force": True})
    assert answer.status == 202, answer.body
    run = answer.json["id"]
    while service.get(f"/v1/runs/{run}").json["progress"]["done"] == 0:
        time.sleep(0.5)
    return run


def told(name, bound, status, size, times):
    """Prints a row; whether it is over its bound."""
    p99 = sorted(times)[min(len(times) - 1, round(0.99 * len(times)))]
    late = status != 200 or (bound is not None and p99 > bound)
    said = (f"{1000 * statistics.median(times):9.1f} | {1000 * p99:7.1f} | {size / 1024:.0f}" if status == 200
            else f"{status} after {times[-1]:.2f} s |  | ")
    print(f"| {name:34} | {said} |{' over its bound' if late else ''}", flush=True)
    return late


def measure(service, requests):
    missed = 0
    print(f"| {'question':34} | median ms |  p99 ms | KiB |\n|---|---|---|---|")
    for name, path, bound in ROWS:
        timed(service, [path])
        missed += told(name, bound, *timed(service, [path] * requests))
    newest = sql(service, "select id from runs where state = 'succeeded' and kind = 'quantize' order by number desc"
                 f" limit {requests}").split()
    for name, method, path, body, bound in CHANGES:
        paths = [path.format(run=run) for run in newest]
        missed += told(name, bound, *timed(service, paths, method, body))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
