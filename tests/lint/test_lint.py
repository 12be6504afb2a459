"""Each rule of lint.py sees a violation that is planted in a tree of its own,
and has nothing against the same tree without it."""

import pathlib
import subprocess
import sys

import pytest

LINT = pathlib.Path(__file__).resolve().parent / "lint.py"
GLOSSARY = ("# Glossary\n\n## Retired words\n\n| retired | say instead |\n| --- | --- |\n| `seat` | member |\n| "
            "`piece` | chunk |\n\n## Words of one meaning\n\n| word | stands in | elsewhere |\n| --- | --- | --- |\n"
            "| `sweep` | `server/` | cleanup |\n| `room` | `this room` | space |\n")
HEADER = "#ifndef STORE_ITEM_H\n#define STORE_ITEM_H\n\n{}\n\n#endif\n"
ROWS = HEADER.replace("STORE_ITEM_H", "QUANT_ROW_H").format(
    "struct row {\n    int bits;\n};\n#define ROWS(X)       X(FIRST, first)\n"
    "#define ROW(id, name) extern const struct row row_##name;\nROWS(ROW)\n#undef ROW"
)
CLEAN = {
    ".clang-format": (LINT.parents[2] / ".clang-format").read_text(),
    "docs/glossary.md": GLOSSARY,
    "server/store/item.h": HEADER.format("struct item;\nint item_count(const struct item *item);"),
    "server/store/item.c": '#include "store/item.h"\n\nstatic const char query[] = "select count(*) from items";\n',
    "engine/quant/row.h": ROWS,
    "engine/quant/row.c": "const struct row row_first = {1};\n",
    "engine/quant/item.c": "int item(const int *values, int flag)\n{\n    return values == NULL || !flag;\n}\n",
}
PLANTED = {
    "a file that is opened without the guard": (
        "engine/quant/item.c",
        None,
        'int item(void)\n{\n    return fopen("a", "re") != NULL;\n}\n',
        "opened by name",
    ),
    "a kind with two modes": (
        "server/kinds/item.c",
        None,
        "int item(const struct run_context *context)\n{\n    return context->planning;\n}\n",
        "a kind asks whether it plans",
    ),
    "a pointer in place of a truth value": ("engine/quant/item.c", "values == NULL", "!values", "values is a pointer"),
    "a pointer as a condition": (
        "engine/quant/item.c",
        "values == NULL || !flag",
        "values ? flag : 0",
        "values is a pointer",
    ),
    "a member that is a pointer": (
        "engine/quant/item.c",
        None,
        "struct part {\n    char *name;\n};\nint item(const struct part *part)\n{\n    return !part->name;\n}\n",
        "part->name is a pointer",
    ),
    "a wide line": ("engine/quant/item.c", "int item(", "/* " + "wide " * 24 + "*/\nint item(", "columns; at most 120"),
    **{
        f"a wide line of {name}": (name, None, "wide " * 24 + "line\n", ":1: 124 columns; at most 120")
        for name in ("a.py", "a.js", "a.css", "a.html", "a.md", "a.sh", "a.toml", "a.yaml", "sql/0010_a.sql",
                     "Makefile", "Dockerfile")
    },
    "a name of another file": (
        "server/store/item.h",
        "item_count",
        "count_items",
        "count_items does not start with item_",
    ),
    "SQL of a handler": (
        "server/resources/items.c",
        None,
        'static const char text[] = "delete from items";\n',
        "SQL belongs into server/store",
    ),
    "an include that points up": (
        "server/store/item.c",
        "store/item.h",
        "resources/items.h",
        "server/store may not include resources/items.h",
    ),
    "an engine room that is not of this room": (
        "server/resources/items.c",
        None,
        '#include "quant/item.h"\n',
        "server/resources may not include quant/item.h",
    ),
    "a retired word": (
        "engine/quant/item.c",
        "int item(",
        "/* The seat of a run. */\nint item(",
        '"seat" is retired: member',
    ),
    "a retired word within a name": (
        "engine/quant/item.c",
        "int flag)\n{",
        "int flag)\n{\n    int seat_count = 0;",
        '"seat" is retired: member',
    ),
    "a retired word in the plural": (
        "engine/quant/item.c",
        "int item(",
        "/* All Seats are taken. */\nint item(",
        '"Seat" is retired: member',
    ),
    "a word of another room": (
        "engine/quant/item.c",
        "int item(",
        "/* Sweeps the disk. */\nint item(",
        '"sweep" has another meaning here: cleanup',
    ),
    "a word of another phrase, within a name": (
        "engine/quant/item.c",
        "int flag)\n{",
        "int flag)\n{\n    int item_room = 0; /* this room has it */",
        '"room" has another meaning here: space',
    ),
    "a comment without its subject": (
        "engine/quant/item.c",
        "int item(",
        "/* Of two values the larger. */\nint item(",
        'a comment that begins with "Of" names its subject too late',
    ),
    "a row that no list names": (
        "engine/quant/row.c",
        None,
        CLEAN["engine/quant/row.c"] + "const struct row row_second = {2};\n",
        "row_second stands in no list",
    ),
    "a banned function": ("engine/quant/item.c", "!flag", 'system("x") > flag', "banned function system"),
}


def complaints(tree, files):
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    subprocess.run(["git", "init", "-q", tree], check=True)
    return subprocess.run([sys.executable, LINT, tree], capture_output=True, text=True)


def test_a_clean_tree(tmp_path):
    done = complaints(tmp_path, CLEAN)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", PLANTED)
def test_it_sees(tmp_path, name):
    file, old, new, complaint = PLANTED[name]
    text = new if old is None else CLEAN[file].replace(old, new)
    assert text != CLEAN.get(file)
    done = complaints(tmp_path, {**CLEAN, file: text})
    told = [line for line in done.stdout.splitlines() if line.startswith(file)]
    assert done.returncode == 1 and any(complaint in line for line in told), done.stdout + done.stderr


def test_lines_that_may_be_wide(tmp_path):
    wide = "wide " * 24 + "line\n"
    files = {"sql/0009_a.sql": wide, "a.md": "| " + wide, "a.py": "# https://" + wide, "numbers.json": wide}
    done = complaints(tmp_path, {**CLEAN, **files})
    assert "columns" not in done.stdout, done.stdout


def test_a_retired_word_stands_where_it_is_the_fields_own(tmp_path):
    comment = "/* The pieces of a text. */\n"
    files = {name: comment + CLEAN["engine/quant/item.c"] for name in ("engine/tokenizer/a.c", "engine/quant/a.c")}
    done = complaints(tmp_path, {**CLEAN, **files})
    told = [line.split(":")[0] for line in done.stdout.splitlines() if "is retired" in line]
    assert told == ["engine/quant/a.c"], done.stdout


def test_a_word_of_one_meaning_stands_in_its_folders_and_phrases(tmp_path):
    comment = "/* A sweep. */\n"
    files = {name: comment + CLEAN["engine/quant/item.c"] for name in ("server/runs/a.c", "engine/quant/a.c")}
    files["engine/quant/item.c"] = "/* For the files of this room. */\n" + CLEAN["engine/quant/item.c"]
    done = complaints(tmp_path, {**CLEAN, **files})
    told = [line.split(":")[0] for line in done.stdout.splitlines() if "another meaning" in line]
    assert told == ["engine/quant/a.c"], done.stdout


def test_an_integer_of_that_name_elsewhere_is_no_complaint(tmp_path):
    other = "struct other {\n    int name;\n};\n"
    use = "struct part {\n    char *name;\n};\nint item(const struct other *part)\n{\n    return !part->name;\n}\n"
    done = complaints(tmp_path, {**CLEAN, "engine/quant/item.c": other + use})
    assert "is a pointer" not in done.stdout
