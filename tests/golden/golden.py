#!/usr/bin/env python3
"""Golden numbers: the test compares what the runs of runs.py give now with what they gave when they were recorded.

    golden.py [NAME...]            lists the numbers that changed; exit status 1 if there are any
    golden.py --write [NAME...]    records the numbers of this build; a changed number needs a new ENGINE_REVISION

NAME is a configuration, by default all of them. The bits of a result depend on the level of the kernels, on OpenBLAS,
on the compiler (it chooses which products of the kernels are fused with sums) and on the C library (its `exp` and `log`
have other last bits on processors with fused products).

`portable` gives the same bits on every x86-64 machine: kernels for x86-64-v2, which has no fused products, the engine's
own matrix products, and GLIBC_TUNABLES that hold the C library to its functions without fused products. Its numbers are
in numbers/KIND.json. `v3` and `v4` need a processor of that level. `installed` sets nothing: it is what a user gets on
this machine. The numbers of these three have a key that names all that their bits depend on;
numbers/configurations.json keeps one number of each of their runs and a checksum of the others.

A number is a double in JSON that reads back exactly: two are compared with `==`."""

import argparse
import contextlib
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "http")]

import runs  # noqa: E402
from service import BINARY, ROOT, Service  # noqa: E402

NUMBERS = HERE / "numbers"
CONFIGURATIONS = NUMBERS / "configurations.json"
SHARED = pathlib.Path(os.environ.get("DELTAQ_SHARED", ROOT.parent / "shared")) / "data"
REVISION = int(re.search(r"#define ENGINE_REVISION (\d+)", (ROOT / "engine/base/version.h").read_text()).group(1))

OWN_PRODUCTS = {"DELTAQ_OPENBLAS": "/nonexistent", "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX,-AVX2,-FMA,-FMA4"}
# Recorded with one thread; checked with as many as stand here, because threads must not change a bit.
ENVIRONMENTS = {
    "portable": ({"DELTAQ_KERNELS": "x86-64-v2", **OWN_PRODUCTS}, 2),
    "v3": ({"DELTAQ_KERNELS": "x86-64-v3", **OWN_PRODUCTS}, 1),
    "v4": ({"DELTAQ_KERNELS": "x86-64-v4", **OWN_PRODUCTS}, 3),
    "installed": ({}, 2),
}

SPEEDS = {"tokens_per_second"}
# Numbers that results have got since configurations.json was recorded, on machines of several kinds: its checksums
# leave them out until the next revision is recorded there. numbers/KIND.json has them.
LATER = {
    "predicted_delta_stderr",
    "gradient_term_stderr",
    "curvature_term_stderr",
    "prediction_units",
    "largest_algebraic_stderr",
    "largest_algebraic_units",
    "random_directions",
    "loss_fp_interval[]",
    "loss_q_interval[]",
    "kl_interval[]",
    "top1_agreement_interval[]",
}


def description(environment):
    """How `deltaq doctor` describes the engine, without the numbers of threads: they do not show in the bits."""
    nowhere = ["--database-url", "postgresql://nobody@/none?host=/nonexistent"]
    said = subprocess.run(
        [BINARY, "doctor", *nowhere], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    ).stdout
    found = re.search(r"kernels .*?(?=, threads \d)", said)
    assert found, f"deltaq doctor does not describe the engine: {said}"
    return re.sub(r" MAX_THREADS=\d+", "", found.group())


def key_of(name):
    """The configuration's key in configurations.json; None where the processor lacks the level."""
    environment, _ = ENVIRONMENTS[name]
    said = description(environment)
    if environment and environment["DELTAQ_KERNELS"] not in said:
        return None
    compiler = re.search(rb"GCC: \([^)]*\) (\d+)", BINARY.read_bytes())
    said += f"; GCC {compiler.group(1).decode()}" if compiler else "; another compiler"
    return f"{said}; {os.confstr('CS_GNU_LIBC_VERSION')}" if name == "installed" else said


# --- Numbers of a result ---------------------------------------------------------------------------------------------


def leaves(value, path=""):
    """(path, number) of all numbers, truths and checksums in a result; a list's places are left out of the path."""
    if isinstance(value, dict):
        for key, part in value.items():
            if key not in SPEEDS:
                yield from leaves(part, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for part in value:
            yield from leaves(part, path + "[]")
    elif value is None or isinstance(value, (bool, int, float)) or re.fullmatch(r"[0-9a-f]{64}", value):
        yield path, value


def checksum(values):
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]


def line_of(values):
    """A list as one line: all of it when it is short, else how many, the first, the last and a checksum of all."""
    if len(values) <= 4:
        return json.dumps(values)
    if all(value == values[0] for value in values):
        return f"{len(values)} times {json.dumps(values[0])}"
    return f"{len(values)}: {json.dumps(values[0])} ... {json.dumps(values[-1])}, sha256 {checksum(values)}"


def numbers_of(result):
    """{path: number, or the line of a list}. Nulls are left out: the path of a loss that becomes null is gone."""
    columns = {}
    for path, value in leaves(result):
        columns.setdefault(path, []).append(value)
    return {
        path: line_of(values) if "[]" in path else values[0]
        for path, values in columns.items()
        if any(value is not None for value in values)
    }


def brief_of(flat):
    """One number of a run and a checksum of all."""
    number = next(flat[name] for name in ("loss_q", "final_loss", "loss", "log_likelihoods[][][]") if name in flat)
    kept = sorted((name, value) for name, value in flat.items() if name not in LATER)
    return {"number": number, "sha256": checksum(kept)}


# --- Making the runs -------------------------------------------------------------------------------------------------


def absolute(service, params):
    tasks = [
        {**task, "path": str(service.files / task["path"]), "fewshot": str(service.files / task["fewshot"])}
        for task in params["tasks"]
    ]
    return {**params, "tasks": tasks}


def result_of(service, kind, params):
    answer = service.post(
        "/v1/runs", {"kind": kind, "params": absolute(service, params) if kind == "tasks" else params}
    )
    assert answer.status in (200, 202), answer.body
    run = service.wait(answer.json["id"])
    assert run["state"] == "succeeded", run["error"]
    result = run["result"]
    if kind == "tasks":  # accuracies are coarse: what they are made of
        lines = service.get(f"/v1/runs/{run['id']}/artifacts/items.jsonl").body.decode().splitlines()
        result["log_likelihoods"] = [
            [v for k, v in sorted(json.loads(line).items()) if k.startswith("log_likelihoods")] for line in lines
        ]
    if kind == "health":
        result["tensors"] = service.get(f"/v1/checkpoints/{params['checkpoint'].replace('/', '%2F')}/health").json[
            "tensors"
        ]
    return result


@contextlib.contextmanager
def serving(environment, threads):
    with tempfile.TemporaryDirectory() as directory:
        options = ["--threads", str(threads), *(["--root", str(SHARED.resolve())] if SHARED.is_dir() else [])]
        service = Service(
            pathlib.Path(directory), *options, environment={"HF_ENDPOINT": "http://127.0.0.1:9", **environment}
        )
        try:
            runs.write_files(service.files, (ROOT / "LICENSE").read_text())
            yield service
        finally:
            service.stop()


def register(service, name, path, form):
    answer = service.post("/v1/datasets", {"name": name, "path": str(path), "format": form})
    assert answer.status in (200, 201), answer.body


def measure(name, threads=None):
    """{kind: {run: {request, numbers}}} in configuration `name`. Runs on the shared data are under "shared"."""
    environment, usual = ENVIRONMENTS[name]
    found = {}
    with serving(environment, threads or usual) as service:
        for dataset, file in runs.DATASETS.items():
            register(service, dataset, service.files / file, "jsonl")
        for kind, run, params in runs.RUNS:
            if name == "portable" or run in runs.EVERYWHERE.get(kind, ()):
                found.setdefault(kind, {})[run] = {
                    "request": params,
                    "numbers": numbers_of(result_of(service, kind, params)),
                }
        if name == "portable" and SHARED.is_dir():
            service.checkpoint(SHARED / runs.SHARED_CHECKPOINT, "stories", "260K")
            register(service, "stories", SHARED / runs.SHARED_TEXT, "text")
            found["shared"] = {
                kind: {"request": params, "numbers": numbers_of(result_of(service, kind, params))}
                for kind, params in runs.SHARED_RUNS.items()
            }
    return found


def briefs(found):
    return {f"{kind} {run}": brief_of(one["numbers"]) for kind, all_of in found.items() for run, one in all_of.items()}


# --- What is recorded ------------------------------------------------------------------------------------------------


def read_recorded():
    """({kind: {run: {request, numbers}}}, {"engine_revision", "configurations": {key: {run: brief}}})"""
    kinds = {
        file.stem: json.loads(file.read_text()) for file in sorted(NUMBERS.glob("*.json")) if file != CONFIGURATIONS
    }
    rest = (
        json.loads(CONFIGURATIONS.read_text())
        if CONFIGURATIONS.exists()
        else {"engine_revision": REVISION, "configurations": {}}
    )
    return kinds, rest


def relative(old, new):
    if isinstance(old, (int, float)) and isinstance(new, (int, float)) and old:
        return f" ({abs(new - old) / abs(old):.1e} of it)"
    return ""


def differences(recorded, found):
    """(recorded numbers that changed, what is not recorded), a line each. A run whose request changed is a new run."""
    changed, missing = [], []
    for kind, all_of in found.items():
        for run, now in all_of.items():
            then = recorded.get(kind, {}).get(run)
            if then is None or then["request"] != now["request"]:
                missing.append(f"{kind} {run}: this request is not recorded")
                continue
            for path, value in now["numbers"].items():
                if path not in then["numbers"]:
                    missing.append(f"{kind} {run}: {path} is not recorded")
                elif then["numbers"][path] != value:
                    old = then["numbers"][path]
                    changed.append(f"{kind} {run}: {path} was {old}, is {value}{relative(old, value)}")
            gone = set(then["numbers"]) - set(now["numbers"])
            changed += [f"{kind} {run}: {path} is gone" for path in sorted(gone)]
    return changed, missing


OTHERS = "is the same, other numbers of the result are not"


def brief_differences(recorded, found):
    changed = []
    for run, now in found.items():
        then = recorded.get(run, now)
        if then["number"] != now["number"]:
            changed.append(f"{run}: was {then['number']}, is {now['number']}{relative(then['number'], now['number'])}")
        elif then != now:
            changed.append(f"{run}: {now['number']} {OTHERS}")
    return changed, [f"{run}: not recorded" for run in found if run not in recorded]


def compare(name, key, found, kinds, rest):
    """differences() of the numbers that configuration `name` gave."""
    return (
        differences(kinds, found)
        if name == "portable"
        else brief_differences(rest["configurations"].get(key, {}), briefs(found))
    )


def named_in_changelog(revision, text=None):
    text = (ROOT / "CHANGELOG.md").read_text() if text is None else text
    return re.search(rf"^- numbers: revision {revision}: \S", text, re.MULTILINE) is not None


NEW_NUMBER = (
    "If results have only got a new number (`portable` says which one is not recorded): add its name to LATER in "
    "tests/golden/golden.py, then record it: build/venv/bin/python tests/golden/golden.py --write. That needs no new "
    "ENGINE_REVISION."
)


def advice(changed, where, revision=REVISION):
    """What to do about changed numbers; the message of a failed check."""
    shown = changed[:12] + ([f"... and {len(changed) - 12} more"] if len(changed) > 12 else [])
    return "\n".join(
        [
            f"{len(changed)} golden numbers ({where}) are not those of ENGINE_REVISION {revision}:",
            *("  " + line for line in shown),
            *([NEW_NUMBER] if all(line.endswith(OTHERS) for line in changed) else []),
            "If nobody meant to change numbers, the engine has a defect: mend it. If the change is meant:",
            f"  1. raise ENGINE_REVISION in engine/base/version.h to {revision + 1}, so that no earlier run is reused;",
            f'  2. say in CHANGELOG.md what changed and why, in a line "- numbers: revision {revision + 1}: ...";',
            "  3. build, then record the new numbers: build/venv/bin/python tests/golden/golden.py --write",
        ]
    )


UNRECORDED = (
    "record them with build/venv/bin/python tests/golden/golden.py --write (no new ENGINE_REVISION is needed for that; "
    "where the result of a recorded run has got a new number, first add its name to LATER in tests/golden/golden.py)"
)


def write_json(path, document):
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def write_kinds(found, raised):
    for file in NUMBERS.glob("*.json"):
        if file != CONFIGURATIONS and (file.stem != "shared" or "shared" in found or raised):
            file.unlink()
    for kind, all_of in found.items():
        write_json(NUMBERS / f"{kind}.json", all_of)


def record(names):
    """What is in the way of recording, or None."""
    kinds, rest = read_recorded()
    raised = REVISION > rest["engine_revision"]
    if REVISION < rest["engine_revision"]:
        return f"ENGINE_REVISION is {REVISION}, the numbers are of {rest['engine_revision']}: revisions only grow"
    if not named_in_changelog(REVISION):
        return f'CHANGELOG.md has no line "- numbers: revision {REVISION}: ..." that says what changed'
    measured = functools.cache(lambda name: measure(name, threads=1))
    here = [name for name in ENVIRONMENTS if key_of(name) is not None]
    if raised and not any(compare(name, key_of(name), measured(name), kinds, rest)[0] for name in here):
        # No golden run asks for what the revision is about: the numbers of other processors hold too.
        write_json(CONFIGURATIONS, {**rest, "engine_revision": REVISION})
        return None
    if raised:  # what other machines recorded is of the revision before
        names, rest = list(ENVIRONMENTS), {"engine_revision": REVISION, "configurations": {}}
    for name in names:
        key = key_of(name)
        if key is None:
            print(f"{name}: this processor has not the level; not recorded")
            continue
        found = measured(name)
        changed, missing = compare(name, key, found, kinds, rest)
        if changed and not raised:
            return advice(changed, name)
        print(f"{name}: {len(changed)} numbers changed, {len(missing)} new ({key})")
        if name == "portable":
            write_kinds(found, raised)
        else:
            rest["configurations"][key] = briefs(found)
    rest["configurations"] = dict(sorted(rest["configurations"].items()))
    write_json(CONFIGURATIONS, rest)
    return None


def check(names):
    """The first fault, or None."""
    kinds, rest = read_recorded()
    faults = []
    for name in names:
        key = key_of(name)
        if name != "portable" and key not in rest["configurations"]:
            print(f"{name}: nothing is recorded for {key or 'this level, which the processor has not'}")
            continue
        changed, missing = compare(name, key, measure(name), kinds, rest)
        print(f"{name}: {len(changed)} numbers changed, {len(missing)} not recorded")
        faults += [advice(changed, name)] if changed else []
        faults += ["\n".join([*missing, UNRECORDED])] if missing else []
    return faults[0] if faults else None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="record the numbers of this build")
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*ENVIRONMENTS, []], help=", ".join(ENVIRONMENTS))
    arguments = parser.parse_args()
    sys.exit((record if arguments.write else check)(arguments.names or list(ENVIRONMENTS)))
