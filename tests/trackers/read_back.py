"""What a tracker has, as its own package reads it: {RUN: {METRIC: [[STEP, VALUE]…]}} as JSON on stdout, in the order in
which it stands there. Run by build/trackers/bin/python: `read_back.py tensorboard LOGDIR`, `read_back.py mlflow URL
EXPERIMENT`, `read_back.py wandb DIR`."""

import collections
import json
import pathlib
import struct
import sys


def tensorboard(directory):
    from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator

    found = {}
    for run in sorted({path.parent for path in pathlib.Path(directory).rglob("events.out.tfevents.*")}):
        events = EventAccumulator(str(run), size_guidance={SCALARS: 0}).Reload()
        found[run.name] = {tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    return found


def mlflow(url, experiment):
    import mlflow

    client = mlflow.MlflowClient(url)
    found = {}
    for run in client.search_runs([client.get_experiment_by_name(experiment).experiment_id]):
        assert run.info.run_name not in found, "two runs of one series"
        found[run.info.run_name] = {key: [[m.step, m.value] for m in client.get_metric_history(run.info.run_id, key)]
                                    for key in run.data.metrics}
    return found


def records_of(path):
    """The records of an offline file: LevelDB's log format (blocks of 32 KiB;
    CRC, length, type) after a head of seven bytes."""
    data, at, parts = path.read_bytes(), 7, []
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        length, kind = struct.unpack_from("<HB", data, at + 4)
        if left < 7 or (kind == 0 and length == 0):
            at += left
            continue
        parts.append(data[at + 7:at + 7 + length])
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield b"".join(parts)
            parts = []


def wandb(directory):
    """An offline directory's record files; the records are read by the package's own classes. What is hidden there is
    not for `wandb sync`."""
    from wandb.proto import wandb_internal_pb2

    found = {}
    paths = (path for path in pathlib.Path(directory).rglob("run-*.wandb") if "/." not in str(path))
    for path in sorted(paths):
        name, metrics = None, collections.defaultdict(list)
        for data in records_of(path):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            if record.WhichOneof("record_type") == "run":
                name = record.run.display_name
            if record.WhichOneof("record_type") == "history":
                row = {item.key or "/".join(item.nested_key): json.loads(item.value_json)
                       for item in record.history.item}
                step = row.pop("step")
                for key, value in row.items():
                    if not key.startswith("_"):
                        metrics[key].append([step, value])
        for key, points in metrics.items():
            found.setdefault(name, {}).setdefault(key, []).extend(points)
    return found


if __name__ == "__main__":
    json.dump({"tensorboard": tensorboard, "mlflow": mlflow, "wandb": wandb}[sys.argv[1]](*sys.argv[2:]), sys.stdout)
