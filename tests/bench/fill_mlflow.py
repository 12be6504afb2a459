"""Fills a store of MLflow with points, for scale_mlflow.py: `fill_mlflow.py STORE_URI ARTIFACTS POINTS_CSV`, run by
build/trackers/bin/python. The CSV has trajectory, series, metric, step and value, without a head. As `deltaq track
mlflow` does it, a trajectory becomes an experiment and a series a run. MLflow's own store makes its schema, experiments
and runs; the points go straight into its tables `metrics` and `latest_metrics`, for its log_batch takes a thousand at a
time. Prints {TRAJECTORY: {SERIES: RUN_ID}} as JSON."""

import csv
import json
import sys

import sqlalchemy

TIME = 1_767_225_600_000  # milliseconds; a point's time is that of its step, so that both give one order
LATEST = """
insert into latest_metrics (key, value, timestamp, step, is_nan, run_uuid)
  select key, value, timestamp, step, is_nan, run_uuid from
    (select *, row_number() over (partition by run_uuid, key order by step desc, timestamp desc) as nth from metrics) m
  where nth = 1
"""


def runs_of(store, path):
    """{(TRAJECTORY, SERIES): RUN_ID} of all that the file names, made now."""
    experiments, runs = {}, {}
    for trajectory, series in sorted({tuple(row[:2]) for row in csv.reader(open(path, newline=""))}):
        if trajectory not in experiments:
            experiments[trajectory] = store.create_experiment(trajectory)
        run = store.create_run(experiments[trajectory], "bench", TIME, [], series or "full precision")
        runs[trajectory, series] = run.info.run_id
    return runs


def rows_of(path, runs):
    for trajectory, series, metric, step, value in csv.reader(open(path, newline="")):
        yield metric, float(value), TIME + int(step), int(step), False, runs[trajectory, series]


def insert(engine, rows):
    """With the driver's own fastest way: one transaction of prepared inserts, or COPY."""
    columns = "key, value, timestamp, step, is_nan, run_uuid"
    connection = engine.raw_connection()
    cursor = connection.cursor()
    if engine.dialect.name == "sqlite":
        cursor.executemany(f"insert into metrics ({columns}) values (?, ?, ?, ?, ?, ?)", rows)
    else:
        import io

        text = io.StringIO("".join("\t".join(map(str, row)) + "\n" for row in rows))
        cursor.copy_expert(f"copy metrics ({columns}) from stdin", text)
    cursor.execute(LATEST)
    connection.commit()
    cursor.execute("analyze")
    connection.commit()
    connection.close()


def main():
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    uri, artifacts, path = sys.argv[1:]
    runs = runs_of(SqlAlchemyStore(uri, artifacts), path)
    insert(sqlalchemy.create_engine(uri), rows_of(path, runs))
    found = {}
    for (trajectory, series), run in runs.items():
        found.setdefault(trajectory, {})[series] = run
    print(json.dumps(found))


if __name__ == "__main__":
    main()
