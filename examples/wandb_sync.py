"""Points of `deltaq track ndjson FILE` to Weights & Biases: a group a trajectory, a run a series, "step" (the
checkpoint's) as x axis, so that late results of early checkpoints stand where they belong.

    deltaq track ndjson points.ndjson --trajectory pythia --follow &
    python wandb_sync.py points.ndjson --project quantization

WANDB_MODE=offline writes a directory for `wandb sync`.

How far it came is kept in FILE.wandb. W&B has no way to ask offline what was written, so a call that is killed may log
its last batch (at most 100 lines) again; equal points at an equal step do not change a curve."""

import argparse
import collections
import hashlib
import json
import os
import pathlib

import wandb

BATCH = 100


def lines_from(path, offset):
    """Whole lines only: the last one may still be written."""
    with open(path, "rb") as file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            offset += len(line)
            yield json.loads(line), offset


def keep(path, offset):
    new = path.with_name(path.name + ".new")
    with open(new, "w") as file:
        file.write(str(offset))
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def send(project, lines):
    runs = collections.defaultdict(list)
    for line in lines:
        runs[line["trajectory"], line["series"], line["name"]].append(line)
    for (trajectory, series, name), points in runs.items():
        identity = hashlib.sha256(f"{trajectory}/{series}".encode()).hexdigest()[:16]
        with wandb.init(project=project, id=identity, name=name, group=trajectory, resume="allow",
                        config={"trajectory": trajectory, "series": series}) as run:
            run.define_metric("step")
            run.define_metric("*", step_metric="step")
            for point in points:
                run.log({**point["metrics"], "step": point["step"]})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--project", default="deltaq")
    arguments = parser.parse_args()
    kept = arguments.file.with_name(arguments.file.name + ".wandb")
    offset, batch = int(kept.read_text()) if kept.exists() else 0, []
    for line, offset in lines_from(arguments.file, offset):
        batch.append(line)
        if len(batch) == BATCH:
            send(arguments.project, batch)
            keep(kept, offset)
            batch = []
    if batch:
        send(arguments.project, batch)
        keep(kept, offset)


if __name__ == "__main__":
    main()
