"""The tables of mutants fit the sources: who changes a line
that a row breaks changes the row too. `make mutants` runs them."""

import pathlib
import tomllib

import pytest
from mutation import places

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLES = sorted((ROOT / "tests" / "mutants").glob("*.toml"))


def rows(table):
    return tomllib.loads(table.read_text())["mutant"]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_every_row_fits_its_source(table):
    wrong = []
    for row in rows(table):
        path = ROOT / row["file"]
        count = len(places(path.read_text(), row["old"])) if path.exists() else 0
        if count != 1 or row["old"] == row["new"]:
            wrong.append(f"{row['name']}: its text occurs {count} times in {row['file']}")
        for test in row["tests"]:
            named = (ROOT / test.split("::")[0] if ".py" in test
                     else ROOT / "tests" / "unit" / (test.removeprefix("emulated:") + ".c"))
            if not named.exists():
                wrong.append(f"{row['name']}: there is no test {test}")
    assert wrong == []


def test_names_are_said_once():
    names = [row["name"] for table in TABLES for row in rows(table)]
    assert len(names) >= 80 and len(names) == len(set(names))
