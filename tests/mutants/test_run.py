"""A whole run of the mutants in several sittings: parts, verdicts that are kept, and their sum."""

import json
import shutil
import subprocess
import sys

import pytest
import run

ROW = '''[[mutant]]
name = "{name}"
file = "engine/train/adamw.c"
old = "no such text"
new = "none"
tests = ["engine/train/test_optimizer"]
'''


@pytest.fixture
def kept(tmp_path):
    """A table of two rows, and a file with the verdict on the first."""
    table, results = tmp_path / "table.toml", tmp_path / "verdicts"
    table.write_text(ROW.format(name="area: one") + ROW.format(name="area: two"))
    rows = run.read_tables([table])
    run.note_result(results, rows[0], "lives", "", 3)
    run.note_result(results, rows[0], "caught", "a test", 2.04)
    return table, results, rows


def summed(table, results, *more):
    done = subprocess.run([sys.executable, run.__file__, "--table", table, "--results", results, "--sum", *more],
                          capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout


def test_parts_have_every_row_once():
    for count in (1, 7, 8, 100):
        rows = list(range(count))
        for parts in (1, 3, 8):
            assert sum((run.part_of(rows, f"{part}/{parts}") for part in range(1, parts + 1)), []) == rows
    for wrong in ("0/2", "3/2", "1", "a/b"):
        with pytest.raises(ValueError):
            run.part_of(rows, wrong)


def test_a_verdict_counts_while_its_row_is_what_it_was(kept):
    _, results, rows = kept
    found = run.read_results(results)
    assert found[run.digest(rows[0])]["verdict"] == "caught" and run.digest(rows[1]) not in found
    assert [json.loads(line)["seconds"] for line in results.read_text().splitlines()] == [3, 2.0]
    assert run.digest({**rows[0], "new": "another"}) != run.digest(rows[0])
    assert run.digest({**rows[0], "tests": ["engine/train/test_schedule"]}) != run.digest(rows[0])


def test_of_each_name_the_last_verdict_stays(kept):
    _, results, rows = kept
    run.note_result(results, {**rows[0], "name": "area: a"}, "lives", "", 1)
    run.tidy_results(results)
    lines = list(map(json.loads, results.read_text().splitlines()))
    assert [(line["name"], line["verdict"]) for line in lines] == [("area: a", "lives"), ("area: one", "caught")]


def test_the_sum_says_what_is_missing(kept):
    table, results, rows = kept
    status, text = summed(table, results)
    assert status == 1 and "1 caught, 0 live, 0 broken of 1\n1 rows have no verdict yet" in text
    assert summed(table, results, "--part", "1/2")[0] == 0
    run.note_result(results, rows[1], "caught", "a test", 1)
    status, text = summed(table, results)
    assert status == 0 and "2 caught, 0 live, 0 broken of 2" in text


def test_a_program_that_is_still_executed_is_put_back(tmp_path):
    """`restore` writes no busy file; times are those of the pristine copy, so that make builds nothing."""
    pristine, copy = tmp_path / "pristine", tmp_path / "copy"
    for tree in (pristine, copy):
        (tree / "build").mkdir(parents=True)
        (tree / "source.c").write_text(tree.name)
    shutil.copy2(shutil.which("sleep"), pristine / "build" / "server")
    shutil.copy(shutil.which("sleep"), copy / "build" / "server")
    with subprocess.Popen([copy / "build" / "server", "60"]) as process:
        run.restore(copy, pristine, "source.c")
        process.kill()
    assert run.files_of(copy) == run.files_of(pristine) and (copy / "source.c").read_text() == "pristine"
