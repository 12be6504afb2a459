"""Files, folders, make targets and linked documents that the documents name exist, and numbers that they give are
those of the sources. Rename a file in the documents too."""

import pathlib
import re
import subprocess
import tomllib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
# Ends of names that only files of this project have; a name with "…" or capitals stands for many.
FILE = re.compile(r"^[\w./*-]+\.(?:c|h|cu|py|sql|js|sh|toml)$")
FOLDER = re.compile(r"^(?:engine|server|tests|static|sql|docs|examples)(?:/[\w.-]+)*/$")
ELSEWHERE = {"CHANGELOG.md"}  # tells of files as they were


def tree():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return listed.stdout.splitlines()


def spans(text):
    """Code spans outside fenced blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.S))


def fits(path, name):
    """Whether the path ends with the name, in which `*` stands for any text within one folder."""
    return re.fullmatch(r"(?:.*/)?" + re.escape(name).replace(r"\*", "[^/]*"), path) is not None


def test_a_star_stays_within_its_folder():
    assert fits("engine/quant/rtn.c", "quant/*.c") and fits("rtn.c", "rtn.c")
    assert not fits("engine/jobs/quantize/quantize.c", "engine/jobs/quantize*.c")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_it_names_exist(document):
    if document.name in ELSEWHERE:
        return
    files = tree()
    names = {name for name in spans(document.read_text()) if FILE.match(name) and not re.search(r"NAME|…", name)}
    missing = [name for name in sorted(names)
               if not any(fits(path, name) for path in files) and not (ROOT / name).exists()]
    assert missing == [], f"{document.name} names files that are not there"
    folders = {name for name in spans(document.read_text()) if FOLDER.match(name)}
    assert [name for name in sorted(folders) if not (ROOT / name).is_dir()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(document):
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text())
    here = [link for link in links if not link.startswith(("http://", "https://"))]
    assert [link for link in here if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_make_targets_that_it_names_exist(document):
    if document.name in ELSEWHERE:
        return
    makefile = (ROOT / "Makefile").read_text()
    named = set(re.findall(r"(?:^|`)make ([a-z][a-z_.-]*)", document.read_text(), re.M))
    assert [target for target in sorted(named) if not re.search(rf"^(?:\.PHONY:.*\b)?{target}\b", makefile, re.M)] == []


def test_every_architecture_is_named():
    rows = re.findall(r'\.model_type = "(\w+)"', (ROOT / "engine/model/architecture.c").read_text())
    named = re.search(r"- \*\*Architectures:\*\*.*?\n(?=- )", (ROOT / "docs/measures.md").read_text(), re.S)[0]
    missing = [row for row in rows if not re.search(rf"\b{row}\b", named)]
    assert len(rows) > 10 and not missing, "name it among the architectures of docs/measures.md"


def test_make_alone_builds_all():
    """Not the first rule that happens to stand there."""
    done = subprocess.run(["make", "-pn"], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert re.findall(r"^\.DEFAULT_GOAL := (.*)$", done.stdout, re.M) == ["all"], done.stderr


def test_make_makes_no_list_of_dependencies(tmp_path):
    """They are included, so make tries to; one more file for each time that it can, until a name is read as a list."""
    listed = tmp_path / "release" / "tests" / "stand_in_emulated.d"
    done = subprocess.run(["make", "-n", f"BUILD={tmp_path}", listed], cwd=ROOT, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0 and "stand_in.c" not in done.stdout, done.stdout + done.stderr


def test_every_quantizer_is_named():
    """As the API or as its paper writes it: llm_int8 or LLM.int8()."""
    header = (ROOT / "engine/quant/quantize_method.h").read_text()
    rows = re.findall(r"X\(\w+, (\w+)\)", re.search(r"#define QUANTIZERS\(X\)(.*?)/\*", header, re.S)[1])
    named = re.search(r"- \*\*Methods:\*\*.*?\n(?=- )", (ROOT / "docs/measures.md").read_text(), re.S)[0]
    words = {re.sub(r"\W|_", "", word).lower() for word in re.split(r"[\s,;]+", named)}
    missing = [row for row in rows if row.replace("_", "") not in words]
    assert len(rows) > 10 and not missing, "name it among the methods of docs/measures.md"


def test_the_number_of_mutants_is_that_of_the_tables():
    rows = sum(len(tomllib.loads(table.read_text())["mutant"]) for table in (ROOT / "tests/mutants").glob("*.toml"))
    assert re.findall(r"(\d+) mutations of the source", (ROOT / "docs/testing.md").read_text()) == [str(rows)]


def test_the_tour_stays_a_tour():
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) <= 150
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
    assert len((ROOT / "openapi.yaml").read_text().splitlines()) <= 5500, (
        "openapi.yaml has more than 5500 lines: write its paths, or the help lines of tables, shorter")
