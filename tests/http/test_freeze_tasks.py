"""The tool that freezes tasks: from whatever form records have to files that a run reads,
and to a manifest that holds them to their bytes."""

import gzip
import hashlib
import json
import pathlib
import subprocess
import sys

import models
import pytest

TOOL = pathlib.Path(__file__).resolve().parents[1] / "tools" / "freeze_tasks.py"


def record(goal, label):
    return {"goal": goal, "sol1": "with fire", "sol2": "with íce", "label": label}


RECORDS = [record(goal, k % 2) for k, goal in enumerate(("boil", "freeze", "warm", "cool"))]
POOL = [record(goal, k % 2) for k, goal in enumerate(("cut", "eat", "see", "hear"))]


def lines(records):
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records)


def freeze(out, *arguments):
    return subprocess.run([sys.executable, TOOL, out, *map(str, arguments)], capture_output=True,
                          text=True, timeout=120)


@pytest.fixture
def pool(tmp_path):
    path = tmp_path / "pool.jsonl.gz"
    path.write_bytes(gzip.compress(lines(POOL).encode()))
    return path


def as_lines(folder):
    (folder / "given.jsonl").write_text(lines(RECORDS), encoding="utf-8")
    return folder / "given.jsonl"


def as_list(folder):
    (folder / "given.json").write_text(json.dumps(RECORDS))
    return folder / "given.json"


def as_parts(folder):
    (folder / "parts").mkdir()
    (folder / "parts" / "b.json").write_text(json.dumps(RECORDS[2:]))
    (folder / "parts" / "a.jsonl").write_text(lines(RECORDS[:2]), encoding="utf-8")
    (folder / "parts" / "README").write_text("none of it")
    return folder / "parts"


def as_parquet(folder):
    import pyarrow
    import pyarrow.parquet
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(RECORDS), folder / "given.parquet")
    return folder / "given.parquet"


@pytest.mark.parametrize("form", [as_lines, as_list, as_parts, as_parquet])
def test_every_form_gives_the_same_lines(tmp_path, pool, form):
    out = tmp_path / "frozen"
    done = freeze(out, f"piqa={form(tmp_path)},{pool}")
    assert done.returncode == 0, done.stderr
    assert ((out / "piqa.eval.jsonl").read_bytes() == lines(RECORDS).encode()
            and (out / "piqa.fewshot.jsonl").read_bytes() == lines(POOL).encode())
    (task,) = json.loads((out / "MANIFEST.json").read_text())["tasks"]
    assert (task["records"], task["examples"], task["path"]) == (4, 4, "piqa.eval.jsonl")
    assert task["sha256"] == hashlib.sha256(lines(RECORDS).encode()).hexdigest()
    assert task["sources"][-1] == {"name": "pool.jsonl.gz", "sha256": hashlib.sha256(pool.read_bytes()).hexdigest()}
    assert not list(out.glob("*.unfinished"))


def test_nested_columns_of_parquet_stay_what_they_are(tmp_path):
    import pyarrow
    import pyarrow.parquet
    question = {"id": "7", "question": "Which?", "choices": {"text": ["one", "two", "three"], "label": ["A", "B", "C"]},
                "answerKey": "B"}
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([question]), tmp_path / "part.parquet")
    assert freeze(tmp_path / "frozen", f"arc_easy={tmp_path / 'part.parquet'}").returncode == 0
    assert json.loads((tmp_path / "frozen" / "arc_easy.eval.jsonl").read_text()) == question


@pytest.mark.parametrize("name,content,words", [
    ("given.jsonl", lines(RECORDS) + '{"goal": \n', "given.jsonl, line 5"),
    ("given.jsonl", "[1]\n", "line 1: expected a record"), ("given.json", "{}", "expected a list"),
    ("given.json", "[3]", "record 1: expected a record"), ("given.jsonl", "\n", "holds no records"),
    ("given.csv", "goal,sol1", "expected a file that ends in"),
    ("given.jsonl.gz", "plain", "given.jsonl.gz"), ("given.parquet", "PAR1", "given.parquet"),
    ("given.jsonl", '{"goal": NaN}\n', "line 1"), (None, None, "given.jsonl")])
def test_what_holds_no_records_is_refused_by_name_and_leaves_nothing(tmp_path, name, content, words):
    if name:
        (tmp_path / name).write_text(content, encoding="utf-8")
    done = freeze(tmp_path / "frozen", f"piqa={tmp_path / (name or 'given.jsonl')}")
    assert done.returncode == 1 and words in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert not list((tmp_path / "frozen").iterdir())


def test_a_task_that_nobody_knows_and_one_named_twice_are_refused(tmp_path):
    given = as_lines(tmp_path)
    assert "one of arc_challenge" in freeze(tmp_path / "frozen", f"arc_hard={given}").stderr
    assert "named twice: piqa" in freeze(tmp_path / "frozen", f"piqa={given}", f"piqa={given}").stderr


def test_what_was_frozen_runs_and_nothing_else_does(service, tmp_path, pool):
    out = service.files / "frozen"
    done = freeze(out, f"piqa={as_parquet(tmp_path)},{pool}")
    assert done.returncode == 0, done.stderr
    again = freeze(out, "--check")
    assert again.returncode == 0 and again.stdout == done.stdout
    service.checkpoint(models.write_llama(out / "model", max_position_embeddings=160), "frozen", "only", step=1)
    params = {"checkpoint": "frozen/only", "tasks": json.loads(done.stdout), "shots": 2}
    run = service.run("tasks", **params)
    assert run["state"] == "succeeded" and run["result"]["tasks"][0]["n"] == 4, run["error"]
    (out / "piqa.fewshot.jsonl").write_text(lines(POOL[:3]), encoding="utf-8")
    assert "piqa.fewshot.jsonl is not what was frozen" in freeze(out, "--check").stderr
    answer = service.post("/v1/runs", {"kind": "tasks", "params": params})
    assert answer.status == 422 and answer.pointers == ["/params/tasks/0/fewshot"], answer.json
    (out / "piqa.eval.jsonl").write_bytes(as_parquet(tmp_path).read_bytes())
    task = {**params["tasks"][0], "sha256": None, "fewshot_sha256": None}
    answer = service.post("/v1/runs", {"kind": "tasks", "params": {**params, "tasks": [task]}})
    assert answer.status == 422 and "freeze_tasks.py" in answer.json["detail"], answer.json
