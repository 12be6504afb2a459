"""Points of `deltaq track ndjson FILE` to Weights & Biases: a group a trajectory, a run a series, "step" (the
checkpoint's) as x axis, so that late results of early checkpoints stand where they belong.

    deltaq track ndjson points.ndjson --trajectory pythia --follow &
    python wandb_sync.py points.ndjson --project quantization

WANDB_MODE=offline writes a directory for `wandb sync`.

How far it came is kept in FILE.wandb, and a call that is killed neither doubles nor loses a point. Offline, a batch is
written aside and takes its place only once it is whole; what a killed call left aside is thrown away and written again.
Online, every point has its number in its series as W&B's own step, which never falls: W&B leaves out what it has."""

import argparse
import collections
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import sys
import uuid

import wandb


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def lines_of(path):
    """Each whole line with its number in its series and where the next one begins; the last may still be written."""
    numbers, offset = collections.Counter(), 0
    with open(path, "rb") as file:
        for text in file:
            if not text.endswith(b"\n"):
                return
            line, offset = json.loads(text), offset + len(text)
            series = line["trajectory"], line["series"]
            yield line, numbers[series], offset
            numbers[series] += 1


class Ledger:
    """FILE.wandb: up to where the lines were sent, and the batch aside that has yet to take its place."""

    def __init__(self, path):
        self.path = path.with_name(path.name + ".wandb")
        kept = json.loads(self.path.read_text()) if self.path.exists() else 0
        self.offset, self.aside = (kept, None) if isinstance(kept, int) else (kept["offset"], kept["aside"])

    def keep(self, offset, aside=None):
        new = self.path.with_name(self.path.name + ".new")
        with open(new, "w") as file:
            json.dump({"offset": offset, "aside": aside}, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)
        self.offset, self.aside = offset, aside


class Offline:
    """Where W&B writes runs for `wandb sync`, and beside it the batch that is being written."""

    def __init__(self, settings, path):
        self.root = pathlib.Path(settings.wandb_dir)
        self.prefix = f".deltaq-{digest(str(path.resolve()))}-"

    def begin(self):
        place = self.root / f"{self.prefix}{uuid.uuid4().hex}"
        place.mkdir(parents=True)
        return place

    def clear(self):
        for place in self.root.glob(f"{self.prefix}*"):
            shutil.rmtree(place)

    def take(self, name):
        """Runs of the batch called `name` take their place; those that a killed call moved are there already."""
        for run in sorted((self.root / name).rglob("offline-run-*")):
            place, count = self.root / run.name, 0
            while place.exists():
                count += 1
                place = self.root / f"{run.name}-{count}"
            run.rename(place)


def send(project, batch, directory=None):
    runs = collections.defaultdict(list)
    for line, number, _ in batch:
        runs[line["trajectory"], line["series"], line["name"]].append((line, number))
    for (trajectory, series, name), points in runs.items():
        with wandb.init(project=project, id=digest(f"{trajectory}/{series}"), name=name, group=trajectory,
                        resume="allow", config={"trajectory": trajectory, "series": series}, dir=directory) as run:
            run.define_metric("step")
            run.define_metric("*", step_metric="step")
            for point, number in points:
                run.log({**point["metrics"], "step": point["step"]}, step=number)


def finish(ledger, offline):
    """What was written whole takes its place; all else aside goes."""
    if ledger.aside is not None:
        offline.take(ledger.aside)
        ledger.keep(ledger.offset)
    offline.clear()


def sync(path, project, most):
    settings, ledger = wandb.setup().settings, Ledger(path)
    offline = Offline(settings, path) if settings.mode in ("offline", "dryrun") else None
    if offline:
        finish(ledger, offline)
    rest = [item for item in lines_of(path) if item[2] > ledger.offset]
    for start in range(0, len(rest), most):
        batch = rest[start:start + most]
        place = offline.begin() if offline else None
        send(project, batch, place)
        ledger.keep(batch[-1][2], place.name if place else None)
        if offline:
            finish(ledger, offline)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--project", default="deltaq")
    parser.add_argument("--batch", type=int, default=1000, help="lines after which it is kept how far it came")
    arguments = parser.parse_args()
    with open(arguments.file, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"{arguments.file}: another process sends it")
        sync(arguments.file, arguments.project, arguments.batch)


if __name__ == "__main__":
    main()
