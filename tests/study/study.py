#!/usr/bin/env python3
"""What of a plan (STUDY_PLAN) this machine can do in a given time, through the HTTP interface alone: of `paper`, the
replication of arXiv 2510.06213, or of `open`, what that paper leaves open.

    study.py BINARY DIRECTORY      (make study STUDY_BUDGET=1h;
                                    20m, 3h, 6h, 24h or any other time; STUDY_CELLS=C,A-s1 for some cells or units)

    plans.py        the plans, and what each is of      corpus.py           the text
    endpoints.toml  what is decided, fixed beforehand   findings.py         effects and verdicts
    cells.py        what is trained, in which order     unit.py             one seed of one cell
    student.py      t, Holm, Pearson, least squares     comparisons.py      further comparisons
    report.py       tables and REPORT.md                svg.py, figures.py  the figures; pdf.py: as PDF, too
    published.py    what the tree keeps of a study, and how another begins with it
    open.toml, open_cells.py, open_unit.py, open_figures.py                 the same of the plan `open`

A budget counts all time that was spent in DIRECTORY, over interruptions. A unit begins only where its estimated time
still fits. Stop the study whenever you like and start it again with the same or a larger budget: finished units are
files, and every request of an unfinished one is idempotent, so the server answers what it has. Shares the demo's
server, requests and experiment. Standard library only.
"""

import json
import os
import pathlib
import platform
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "demo"))

import cells  # noqa: E402
import corpus  # noqa: E402
import findings  # noqa: E402
import generated  # noqa: E402
import pdf  # noqa: E402
import plans  # noqa: E402
import published  # noqa: E402
import report  # noqa: E402
from ask import Client, round_up  # noqa: E402
from launch import Interrupts, Server, Trouble  # noqa: E402

LINE_SECONDS = 30
SAVE_SECONDS = 5


def say(text):
    print(text, flush=True)


# --- time -------------------------------------------------------------------------------------------------------------
class Clock:
    """Seconds spent in a directory, over interruptions,
    and the lanes' seconds of each unit, of cut off ones in `begun`. `by`: who measured the units that were adopted.
    `commands`: that spent the seconds, those of adopted units too."""

    def __init__(self, file, now=time.monotonic):
        self.file, self.now = file, now
        self.before, self.units, self.begun, self.by, self.commands = 0.0, {}, {}, [], []
        if file.exists():
            kept = json.loads(file.read_text())
            self.before, self.units, self.begun = kept["seconds"], kept["units"], kept["begun"]
            self.by, self.commands = kept.get("by", []), kept.get("commands", [])
        self.began = now()

    def told(self, command):
        """The same command again goes on with what it began."""
        if self.commands[-1:] != [command]:
            self.commands.append(command)

    def spent(self):
        return self.before + (self.now() - self.began)

    def save(self):
        part = self.file.with_suffix(".part")
        kept = {"seconds": self.spent(), "units": self.units, "begun": self.begun, "by": self.by}
        kept["commands"] = self.commands
        part.write_text(json.dumps(kept) + "\n")
        part.rename(self.file)


class Estimate:
    """Seconds that a unit takes in its lane: as units of its cell took, or its guess times how far the guesses for
    models of like size were off. Small models say nothing of larger ones: measuring, starting and waiting are most of
    their time, and how far that exceeds the guess does not grow with the model."""

    LIKE = 2  # sizes whose ratio is smaller are alike

    def __init__(self, all_cells, measured):
        self.cells, self.measured = all_cells, measured

    def seconds(self, unit):
        same = [seconds for name, seconds in self.measured.items() if cells.cell_of(name) == unit.cell]
        if same:
            return sum(same) / len(same)
        like = {name: seconds for name, seconds in self.measured.items() if self.alike(cells.cell_of(name), unit.cell)}
        guessed = sum(cells.guess(self.cells[cells.cell_of(name)]) for name in like)
        pace = sum(like.values()) / guessed if guessed else 1.0
        return pace * cells.guess(self.cells[unit.cell])

    def alike(self, measured, asked):
        """Whether the models of two cells are of like size. A measured unit may be of a cell that is no more."""
        if measured not in self.cells:
            return False
        one, other = (cells.size(self.cells[name]) for name in (measured, asked))
        return max(one, other) < self.LIKE * min(one, other)


# --- lanes ------------------------------------------------------------------------------------------------------------
class Stage:
    """Takes the place of the demo's line of progress: notes how far a lane's stage is."""

    def __init__(self, lane, stage):
        self.lane = lane
        lane.stage, lane.share = stage, 0.0

    def show(self, share, _):
        self.lane.share = share


class Lane(threading.Thread):
    """Does one unit after another. As many lanes as workers keep all of them busy: most of a unit is one long run."""

    def __init__(self, study):
        super().__init__(daemon=True)
        self.study, self.unit, self.stage, self.share = study, None, "", 0.0
        self.began, self.before = 0.0, 0.0

    def seconds(self):
        """Of its unit, with those before an interruption."""
        return self.before + time.monotonic() - self.began

    def run(self):
        try:
            while (unit := self.study.take(self)) is not None:
                rows = self.study.unit(unit, Client(self.study.server, lambda stage, _: Stage(self, stage))).run()
                self.study.done(self, unit, rows)
        except BaseException as trouble:  # told by the main thread, which ends the study
            self.study.trouble = trouble


class Study:
    """`plan`: its units in their order; `limit`: seconds of the budget. What lies in DIRECTORY/units is done."""

    def __init__(self, server, directory, all_cells, plan, limit, lanes, of_unit):
        self.server, self.cells, self.plan, self.limit = server, all_cells, plan, limit
        self.of_unit = of_unit
        self.texts, self.files = directory / "corpus", directory / "units"
        self.files.mkdir(parents=True, exist_ok=True)
        self.clock = Clock(directory / "time.json")
        self.lock, self.learning, self.trouble = threading.Lock(), threading.Lock(), None
        self.words = {}
        self.left = [unit for unit in plan if not self.file(unit).exists()]
        self.lanes = [Lane(self) for _ in range(lanes)]

    def file(self, unit):
        return self.files / f"{cells.label(unit)}-{cells.digest(self.cells[unit.cell])}.json"

    def estimate(self, unit):
        return Estimate(self.cells, self.clock.units).seconds(unit)

    def take(self, lane):
        """The next unit that fits the time left; one that does not is left out,
        and a shorter one behind it may still fit."""
        with self.lock:
            lane.unit = None
            for unit in list(self.left):
                left = max(0, self.estimate(unit) - self.clock.begun.get(cells.label(unit), 0))
                if self.useful(unit) and (self.clock.spent() + left <= self.limit or not self.clock.units):
                    self.left.remove(unit)
                    lane.unit, lane.began, lane.before = (
                        unit,
                        time.monotonic(),
                        self.clock.begun.get(cells.label(unit), 0),
                    )
                    return unit
            return None

    def useful(self, unit):
        """Whether what the unit is compared with is done, or being done."""
        base = self.cells[unit.cell].base
        return base is None or unit._replace(cell=base) not in self.left

    def save(self):
        with self.lock:
            self.clock.begun.update({cells.label(lane.unit): lane.seconds() for lane in self.lanes if lane.unit})
            self.clock.save()

    def done(self, lane, unit, rows):
        with self.lock:
            seconds = lane.seconds()
            part = self.file(unit).with_suffix(".part")
            part.write_text(json.dumps(rows))
            part.rename(self.file(unit))
            self.clock.units[cells.label(unit)] = seconds
            self.clock.begun.pop(cells.label(unit), None)
            lane.unit = None
            self.clock.save()
            say(
                f"  {cells.label(unit)} is done in {round_up(seconds)}; "
                f"{sum(self.file(one).exists() for one in self.plan)} units so far"
            )

    def unit(self, unit, client):
        cell = self.cells[unit.cell]
        made = self.of_unit(client, cell, unit.seed, self.cells.get(cell.base))
        with self.learning:  # the first lane makes what all seeds share
            if unit.cell not in self.words:
                made.register(self.texts)
                self.words[unit.cell] = made.learn_words()
        made.words = self.words[unit.cell]
        return made

    # --- progress -----------------------------------------------------------------------------------------------------
    def to_go(self):
        """Seconds until the budget or the plan ends, whichever is first."""
        work = sum(max(0, self.estimate(lane.unit) - lane.seconds()) for lane in self.lanes if lane.unit)
        work += sum(self.estimate(unit) for unit in self.left)
        return max(0, min(work / len(self.lanes), self.limit - self.clock.spent()))

    def line(self):
        with self.lock:
            now = ", ".join(
                f"{cells.label(lane.unit)} {lane.stage} {100 * lane.share:.0f} %" for lane in self.lanes if lane.unit
            )
            spent = f"{self.clock.spent() / 60:.0f} of {self.limit / 60:.0f} minutes"
            return f"  {spent}, about {round_up(self.to_go())} to go: {now}"

    def run(self):
        for lane in self.lanes:
            lane.start()
        told = saved = 0.0
        while any(lane.is_alive() for lane in self.lanes):
            time.sleep(0.2)
            if self.trouble is not None:
                raise self.trouble
            now = time.monotonic()
            if now - told > LINE_SECONDS and any(lane.unit for lane in self.lanes):
                told = now
                say(self.line())
            if now - saved > SAVE_SECONDS:
                saved = now
                self.save()
        if self.trouble is not None:
            raise self.trouble

    def rows(self):
        return [
            row for unit in self.plan if self.file(unit).exists() for row in json.loads(self.file(unit).read_text())
        ]

    def left_out(self):
        return [cells.label(unit) for unit in self.plan if not self.file(unit).exists()]


# --- the whole --------------------------------------------------------------------------------------------------------
def processor():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def engine_revision(client, seconds=60):
    """Of the workers: the first may register after the server is ready."""
    end = time.monotonic() + seconds
    while not (workers := client.get("/v1/workers")["items"]):
        if time.monotonic() > end:
            raise Trouble(f"no worker registered within {seconds} seconds")
        time.sleep(0.2)
    return workers[0]["engine_revision"]


def command(plan, budget):
    """As it was given, with all that changes what a report says."""
    more = [f" {name}={os.environ[name]}" for name in ("STUDY_CELLS", "STUDY_FROM") if os.environ.get(name)]
    return f"make study {plan.command}STUDY_BUDGET={budget}{''.join(more)}"


def facts(study, binary, budget, texts, revision):
    packages = json.loads((texts / "corpus.json").read_text())["packages"] if (texts / "corpus.json").exists() else []
    version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return {
        "budget": budget,
        "engine_revision": revision,
        "left_out": study.left_out(),
        "words": {
            "command": ", then ".join(study.clock.commands),
            "version": version,
            "machine": f"{processor()}, {os.cpu_count()} processors, {len(study.lanes)} "
            f"worker{'s' * (len(study.lanes) > 1)} of one thread",
            "hours": f"{study.clock.spent() / 3600:.2f}",
            "text": (
                "Debian packages " + ", ".join(packages)
                if packages
                else "generated sentences: its numbers mean nothing"
            ),
            "units": f"{len(study.plan) - len(study.left_out())} of {len(study.plan)}",
            **({"some of them by": "; ".join(study.clock.by)} if study.clock.by else {}),
        },
    }


def prepare(directory, plan):
    """The cells, their units in order, and the text."""
    if os.environ.get("STUDY_SCALE") == "tiny":  # of the tests: generated text
        generated.write(directory / "corpus")
        return plan.tiny_cells, cells.plan(plan.tiny_order)
    texts = os.environ.get("STUDY_TEXT", "")
    if texts:
        corpus.share(pathlib.Path(texts), directory / "corpus")
    corpus.make(directory / "corpus", say)
    chosen = os.environ.get("STUDY_CELLS", "")
    units = cells.chosen(cells.plan(plan.order), chosen.split(",") if chosen else list(plan.cells))
    if any(plan.cells[unit.cell].text == "grammar" for unit in units):
        generated.write_grammar(directory / "corpus")
    return plan.cells, units


def adopt(source, directory, all_cells, revision):
    """Begins with what STUDY_FROM names. Without it all that a report says was measured here."""
    if not source:
        return
    if not (pathlib.Path(source) / published.UNITS).is_file():
        raise Trouble(f"STUDY_FROM={source} has no {published.UNITS}: it names a folder that study-publish wrote")
    adopted = published.adopt(pathlib.Path(source), directory, all_cells, revision)
    say(f"begun with {len(adopted)} units of {source}: {', '.join(adopted)}" if adopted else
        f"nothing of {source} is taken: the study has begun already, or its engine or cells are others")


def work(binary, directory, server, interrupts):
    budget = os.environ.get("STUDY_BUDGET", "1h")
    limit = cells.seconds_of(budget)
    chosen = plans.of_environment()
    directory.mkdir(parents=True, exist_ok=True)
    all_cells, plan = prepare(directory, chosen)
    workers = int(os.environ.get("STUDY_WORKERS", min(os.cpu_count() or 1, 8)))
    if server.find():
        say(f"the server of an earlier study runs already: {server.url}/")
    else:
        server.start(interrupts, binary, int(os.environ.get("STUDY_PORT", 8643)), workers)
    server.wait(say)
    say(f"dashboard while it runs: {server.url}/")
    revision = engine_revision(Client(server))
    adopt(os.environ.get("STUDY_FROM", ""), directory, all_cells, revision)
    study = Study(server, directory, all_cells, plan, limit, workers, chosen.unit)
    study.clock.told(command(chosen, budget))
    study.save()
    if study.left:
        say(
            f"{len(plan) - len(study.left)} of {len(plan)} units are done; "
            f"up to {study.limit / 60:.0f} minutes in all, {study.clock.spent() / 60:.0f} spent"
        )
    study.run()
    told = facts(study, binary, budget, directory / "corpus", revision)
    found = report.write(directory, told, chosen, study.rows(), all_cells)
    say("")
    for finding in found:
        if "family" in finding and finding["verdict"] != findings.NOT_MEASURED:
            say(f"  {report.sentence(finding, all_cells, found)}")
    if study.left_out():
        say(f"\n  Left out for time: {', '.join(study.left_out())}")
    say(f"\nThe report: {directory / 'REPORT.md'}\n{pdf.write(directory)}")


def main():
    binary, directory = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    server, status = Server(directory, "study"), 0
    interrupts = Interrupts()
    try:
        work(binary, directory, server, interrupts)
    except Trouble as trouble:
        words, status = f"study: {trouble}", 1
    except (KeyboardInterrupt, BrokenPipeError):
        words, status = "study: interrupted; the same command goes on where it stopped", 130
    finally:
        with interrupts.held():
            if server.pid is not None:
                server.stop()
    if status:
        print(words, file=sys.stderr, flush=True)
    os._exit(status)  # lanes may wait for answers of a server that is gone


if __name__ == "__main__":
    main()
