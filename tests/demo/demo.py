#!/usr/bin/env python3
"""The paper's main figure in small, on this machine, through the HTTP interface alone: small models are trained with
two peak learning rates, constant and decayed, their checkpoints quantized, and three sentences say what the numbers
show. The server stays up for the dashboard. Standard library only.

    launch.py      the server: found, started, ended          ask.py        requests, and the wait for runs
    experiment.py  what is trained and measured               sentences.py  what the numbers say
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import sentences
import student
from ask import Client
from experiment import SCALES, Experiment, millions
from launch import Interrupts, Server, Trouble, end

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def options(arguments):
    parser = argparse.ArgumentParser(
        prog="demo.py",
        description="Trains small models, quantizes their checkpoints and says what that damages. "
                    "Takes about four minutes on two cores, seconds when run again.")
    parser.add_argument("--binary", metavar="FILE", default=ROOT / "build" / "deltaq", type=pathlib.Path,
                        help="the deltaq program (default: build/deltaq)")
    parser.add_argument("--directory", metavar="DIR", default=ROOT / "build" / "demo", type=pathlib.Path,
                        help="where text, database and checkpoints lie (default: build/demo)")
    parser.add_argument("--port", type=int, default=8642,
                        help="port of the server; the next free one is taken when it is in use (default: 8642)")
    parser.add_argument("--workers", type=int, default=min(os.cpu_count() or 1, 8), metavar="N",
                        help="worker processes, of one thread each (default: one for each processor, 8 at most)")
    parser.add_argument("--text", metavar="DIR", type=pathlib.Path,
                        help="train on DIR/train.txt and measure on DIR/validation.txt in place of Perl's manual")
    parser.add_argument("--scale", choices=sorted(SCALES), default="full",
                        help="tiny: for tests of the demo itself; its numbers mean nothing")
    parser.add_argument("--no-browser", action="store_true",
                        help="open no browser (none is opened without a display, or where CI is set)")
    parser.add_argument("--stop", action="store_true",
                        help="end the server that an earlier demo in the same directory left running")
    return parser.parse_args(arguments)


# --- text -------------------------------------------------------------------------------------------------------------
def fetch_text(corpus, given, interrupts):
    """DIRECTORY/corpus/train.txt and validation.txt. What is fetching is a process group of its own,
    so that an interrupt ends all of it."""
    corpus.mkdir(parents=True, exist_ok=True)
    if given is not None:
        for name in ("train.txt", "validation.txt"):
            if not (given / name).is_file():
                raise Trouble(f"--text {given}: there is no {name} in it")
            shutil.copyfile(given / name, corpus / name)
        return
    child = None
    try:
        with interrupts.held():  # a child that is not known yet could not be ended
            child = subprocess.Popen([str(HERE / "corpus.sh"), str(corpus)], stdin=subprocess.DEVNULL,
                                     start_new_session=True)
        failed = child.wait() != 0
    except BaseException:
        if child is not None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        raise
    if failed:
        raise Trouble("there is no text to train on (why: above). With text of your own, of a few megabytes: "
                      "demo.py --text DIR")


# --- what is shown ----------------------------------------------------------------------------------------------------
def show_table(experiment, measured, sharp):
    peak, half = experiment.scale.peaks[0], student.quantile(experiment.scale.probes - 1)
    print(f"\n  GPTQ, {experiment.scale.bits} bits, means over {experiment.scale.draws} calibration samples "
          f"(the pages show these, too); peak learning rate {peak:g}\n"
          "  ΔQL = quantized loss / full-precision loss − 1, with 95 % intervals\n")
    print(f"  {'M tokens':>8}  {'run':<10} {'ΔQL':<24} {'loss, nats':>10} {'quantized':>10}   trace of the Hessian")
    for tokens in experiment.counts:
        for group in ("constant", "decay", "average"):
            entry = measured[group, peak, tokens]
            low, high = entry["interval"]
            interval = f"{100 * entry['delta']:.2f} % ({100 * low:.2f} to {100 * high:.2f})"
            trace, error = sharp[group, peak, tokens]
            spread = f" ± {half * error:.0f}" if error is not None else ""
            print(f"  {millions(tokens):>8}  {group:<10} {interval:<24} {entry['loss_fp']:>10.3f} "
                  f"{entry['loss_q']:>10.3f}   {trace:.0f}{spread}")


def judge(experiment, measured):
    large, small = experiment.scale.peaks
    of = lambda group, peak: {  # noqa: E731
        tokens: entry for (name, at, tokens), entry in measured.items() if (name, at) == (group, peak)}
    decayed = of("decay", large)
    return [sentences.decay(decayed, of("constant", large), experiment.counts),
            sentences.peak(decayed, of("decay", small), (large, small)),
            sentences.average(of("average", large), decayed, experiment.counts)]


def pages(server, experiment):
    everything = "&".join("trajectory=" + name for name in experiment.main())
    peaks = "&".join("trajectory=" + name for peak in experiment.scale.peaks
                     for name in (experiment.constant(peak), experiment.decayed(peak, experiment.counts[-1])))
    return [("ΔQL over tokens, the learning rate below", f"{server.url}/#/curves?{everything}&x=tokens"),
            ("two peak rates", f"{server.url}/#/curves?{peaks}&x=tokens"),
            ("sharpness beside ΔQL", f"{server.url}/#/scatter?{everything}&x=trace&y=delta"),
            ("all trajectories", f"{server.url}/#/")]


def open_browser(address):
    """Only where somebody can see it."""
    program = os.environ.get("BROWSER", "").split(":")[0] or "xdg-open"
    if (os.environ.get("CI") or not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
        or shutil.which(program) is None):
        return
    subprocess.Popen([program, address], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                     start_new_session=True)


# --- the whole --------------------------------------------------------------------------------------------------------
def measure(experiment, corpus):
    experiment.register(corpus)
    experiment.train_constant()
    experiment.train_decays()
    models = experiment.models(experiment.average())
    return experiment.quantize(models), experiment.sharpen(models)


def run(asked, server, interrupts):
    began = time.monotonic()
    corpus = asked.directory / "corpus"
    fetch_text(corpus, asked.text, interrupts)
    if server.find():
        print(f"the server of an earlier demo runs already: {server.url}/", flush=True)
    else:
        server.start(interrupts, asked.binary, asked.port, max(1, asked.workers))
    server.wait(lambda text: print(text, flush=True))
    print(f"dashboard: {server.url}/", flush=True)
    experiment = Experiment(Client(server), SCALES[asked.scale])
    measured, sharp = measure(experiment, corpus)
    findings = judge(experiment, measured)
    points = [{"group": group, "peak": peak, "tokens": tokens, **entry,
               "trace": sharp.get((group, peak, tokens), (None,))[0]}
              for (group, peak, tokens), entry in sorted(measured.items())]
    (asked.directory / "findings.json").write_text(
        json.dumps({"findings": findings, "points": points}, indent=1, ensure_ascii=False) + "\n")
    show_table(experiment, measured, sharp)
    print()
    for number, entry in enumerate(findings, 1):
        print(f"  {number}. {entry['text']}")
    print("\n  The intervals cover the evaluation text and the calibration samples, for one seed of training; "
          "`make study` has several seeds.\n")
    shown = pages(server, experiment)
    for title, address in shown:
        print(f"  {title}:\n    {address}")
    print(f"\n{time.monotonic() - began:.0f} s. The server stays up for these pages; "
          f"to stop it: make demo-stop, or kill {server.pid}", flush=True)
    if not asked.no_browser:
        open_browser(shown[0][1])


def stop(server):
    if not server.find():
        print(f"no server of the demo in {server.directory} is running")
        return
    end(server.pid)
    server.note.unlink(missing_ok=True)
    print(f"stopped the demo's server, process {server.pid}")


def main(arguments):
    asked = options(arguments)
    asked.directory = asked.directory.resolve()
    server = Server(asked.directory)
    if asked.stop:
        stop(server)
        return 0
    interrupts = Interrupts()
    try:
        if not asked.binary.is_file():
            raise Trouble(f"there is no program {asked.binary}; run `make` first")
        asked.directory.mkdir(parents=True, exist_ok=True)
        run(asked, server, interrupts)
        return 0
    except Trouble as trouble:
        words, status = f"demo: {trouble}", 1
    except (KeyboardInterrupt, BrokenPipeError):
        words, status = "demo: interrupted; the same command goes on where it stopped", 130
    except BaseException:  # a fault of the demo itself: its traceback is wanted, its server is not
        if server.ours:
            server.stop()
        raise
    try:
        with interrupts.held():
            if server.ours:
                server.stop()
                words += "\ndemo: the server was stopped" if status == 1 else "; its server was stopped"
    except KeyboardInterrupt:  # once more, while the server was being stopped: that is done now
        status = 130
    print(words, file=sys.stderr, flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
