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
    """Each whole line with its number in its series, where the next one begins, and the digest of all up to there; the
    last may still be written."""
    numbers, offset, hashed = collections.Counter(), 0, hashlib.sha256()
    with open(path, "rb") as file:
        for text in file:
            if not text.endswith(b"\n"):
                return
            line, offset = json.loads(text), offset + len(text)
            series = line["trajectory"], line["series"]
            hashed.update(text)
            yield line, numbers[series], (offset, hashed.hexdigest())
            numbers[series] += 1


class Ledger:
    """FILE.wandb: up to where the lines were sent and to which project, the digest of these lines, and the batch aside
    that has yet to take its place."""

    def __init__(self, path, project):
        self.path = path.with_name(path.name + ".wandb")
        kept = json.loads(self.path.read_text()) if self.path.exists() else {}
        kept = {"offset": kept} if isinstance(kept, int) else kept  # older ones have less
        self.sent, self.aside = (kept.get("offset", 0), kept.get("digest")), kept.get("aside")
        self.project = kept.get("project", project)
        if self.project != project:
            sys.exit(f"{self.path} is that of the project {self.project}; give another FILE to {project}")

    def keep(self, sent, aside=None):
        new = self.path.with_name(self.path.name + ".new")
        with open(new, "w") as file:
            json.dump({"offset": sent[0], "digest": sent[1], "project": self.project, "aside": aside}, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)
        self.sent, self.aside = sent, aside

    def rest(self, items):
        """The lines that were not sent. A file that was begun anew has other ones before them, or too few: what W&B has
        of it nobody knows."""
        offset, hashed = self.sent
        items = list(items)
        known = next((sent for _, _, sent in items if sent[0] == offset), None)
        if offset > 0 and (known is None or hashed not in (None, known[1])):
            sys.exit(f"{self.path} tells of another file of points, which was begun anew since: "
                     "remove it, and give another --project")
        return [item for item in items if item[2][0] > offset]


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
        ledger.keep(ledger.sent)
    offline.clear()


def sync(path, project, most):
    settings, ledger = wandb.setup().settings, Ledger(path, project)
    offline = Offline(settings, path) if settings.mode in ("offline", "dryrun") else None
    if offline:
        finish(ledger, offline)
    rest = ledger.rest(lines_of(path))
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
