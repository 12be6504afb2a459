#!/usr/bin/env python3
"""Freezes a lab's own copy of tasks: records as JSON lines, the files' SHA-256,
and the `tasks` of a run that reads them.

    freeze_tasks.py OUT NAME=EVAL[,POOL]...      EVAL, POOL: .jsonl, .jsonl.gz, .json (a list), .parquet,
                                                 or a directory of such parts
    freeze_tasks.py OUT --check                  does OUT still hold what its MANIFEST.json says?

OUT gets NAME.eval.jsonl, NAME.fewshot.jsonl (from POOL) and MANIFEST.json:
    {"format": 1, "tasks": [{"name", "path", "fewshot", "sha256", "fewshot_sha256", "records", "examples",
                             "sources": [{"name", "sha256"}]}]}
with paths relative to OUT. Both forms print the `tasks` of a run, with absolute paths and the hashes: a run over other
bytes is refused. Lines are copied as they are and records keep all their fields; which of them do not fit a task,
deltaq says by file and line. A directory's parts are taken in the order of their names. Parquet needs pyarrow."""

import argparse
import gzip
import hashlib
import json
import os
import pathlib
import sys

KNOWN = ("arc_challenge", "arc_easy", "openbookqa", "piqa", "hellaswag", "winogrande", "mathqa", "pubmedqa", "sciq",
         "social_iqa", "commonsense_qa", "mmlu")
ENDINGS = (".jsonl", ".jsonl.gz", ".json", ".parquet")
FIELDS = ("name", "path", "fewshot", "sha256", "fewshot_sha256")


class Refused(Exception):
    pass


def sha256(path: pathlib.Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def parts_of(path: pathlib.Path) -> list[pathlib.Path]:
    if not path.is_dir():
        return [path]
    parts = sorted(part for part in path.iterdir() if part.name.endswith(ENDINGS))
    if not parts:
        raise Refused(f"{path.name} holds no {', '.join(ENDINGS)}")
    return parts


def line_of(record, where: str) -> str:
    if not isinstance(record, dict):
        raise Refused(f"{where}: expected a record (an object), found {type(record).__name__}")
    try:
        return json.dumps(record, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise Refused(f"{where}: {error}") from None


def parsed(text: str, where: str):
    try:
        return json.loads(text)
    except ValueError as error:
        raise Refused(f"{where}: {error}") from None


def parquet_records(path: pathlib.Path):
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise Refused(f"{path.name} is Parquet: pip install pyarrow, or export it as JSON lines") from None
    try:
        for batch in pyarrow.parquet.ParquetFile(path).iter_batches():
            yield from batch.to_pylist()
    except pyarrow.ArrowException as error:
        raise Refused(f"{path.name}: {error}") from None


def lines_of(path: pathlib.Path):
    """A line for each record: JSON lines as they stand, others written anew."""
    if path.name.endswith(".parquet"):
        yield from (line_of(record, f"{path.name}, record {number}")
                    for number, record in enumerate(parquet_records(path), 1))
    elif path.name.endswith(".json"):
        records = parsed(path.read_text(encoding="utf-8"), path.name)
        if not isinstance(records, list):
            raise Refused(f"{path.name}: expected a list of records; JSON lines end in .jsonl")
        yield from (line_of(record, f"{path.name}, record {number}") for number, record in enumerate(records, 1))
    elif path.name.endswith((".jsonl", ".jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    line_of(parsed(line, f"{path.name}, line {number}"), f"{path.name}, line {number}")
                    yield line.strip()
    else:
        raise Refused(f"{path.name}: expected a file that ends in {', '.join(ENDINGS)}")


def write(source: pathlib.Path, path: pathlib.Path) -> int:
    count, unfinished = 0, path.with_name(path.name + ".unfinished")
    try:
        with unfinished.open("w", encoding="utf-8", newline="\n") as out:
            for part in parts_of(source):
                try:
                    for line in lines_of(part):
                        out.write(line + "\n")
                        count += 1
                except (UnicodeError, EOFError, gzip.BadGzipFile) as error:
                    raise Refused(f"{part.name}: {error}") from None
        if count == 0:
            raise Refused(f"{source.name} holds no records")
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
    return count


def freeze(out: pathlib.Path, given: str) -> dict:
    name, _, paths = given.partition("=")
    sources = [pathlib.Path(path) for path in paths.split(",") if path]
    if name not in KNOWN or not 1 <= len(sources) <= 2:
        raise Refused(f"{given}: expected NAME=EVAL[,POOL] with NAME one of {', '.join(KNOWN)}")
    entry = {"name": name, "path": f"{name}.eval.jsonl", "fewshot": None, "sha256": None, "fewshot_sha256": None,
             "examples": 0}
    entry["records"] = write(sources[0], out / entry["path"])
    entry["sha256"] = sha256(out / entry["path"])
    if len(sources) == 2:
        entry["fewshot"] = f"{name}.fewshot.jsonl"
        entry["examples"] = write(sources[1], out / entry["fewshot"])
        entry["fewshot_sha256"] = sha256(out / entry["fewshot"])
    entry["sources"] = [{"name": part.name, "sha256": sha256(part)} for source in sources for part in parts_of(source)]
    return entry


def freeze_all(out: pathlib.Path, given: list[str]) -> list[dict]:
    names = [one.partition("=")[0] for one in given]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Refused(f"named twice: {', '.join(twice)}")
    out.mkdir(parents=True, exist_ok=True)
    tasks = [freeze(out, one) for one in given]
    (out / "MANIFEST.json").write_text(json.dumps({"format": 1, "tasks": tasks}, indent=1, ensure_ascii=False) + "\n",
                                       encoding="utf-8")
    return tasks


def check(out: pathlib.Path) -> list[dict]:
    manifest = parsed((out / "MANIFEST.json").read_text(encoding="utf-8"), "MANIFEST.json")
    if not isinstance(manifest, dict) or manifest.get("format") != 1:
        raise Refused("MANIFEST.json: expected format 1")
    for task in manifest["tasks"]:
        for path, expected in ((task["path"], task["sha256"]), (task["fewshot"], task["fewshot_sha256"])):
            if path is not None and (not (out / path).is_file() or sha256(out / path) != expected):
                raise Refused(f"{path} is not what was frozen")
    return manifest["tasks"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("tasks", nargs="*", metavar="NAME=EVAL[,POOL]")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check == bool(options.tasks):
        parser.error("name tasks, or --check")
    try:
        tasks = check(options.out) if options.check else freeze_all(options.out, options.tasks)
    except (Refused, OSError) as error:
        print(f"freeze_tasks: {error}", file=sys.stderr)
        return 1
    found = [{field: task[field] for field in FIELDS} for task in tasks]
    for task in found:
        task |= {field: str((options.out / task[field]).resolve()) for field in ("path", "fewshot") if task[field]}
    print(json.dumps(found, indent=1, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
