"""An option that a message of the product names is one that a command has."""

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("DELTAQ_BINARY", ROOT / "build" / "deltaq"))
HAVE_KINDS = ["run", "sweep"]  # their options are those of a kind of run, besides
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
# What is said to PostgreSQL's programs and to a script of ours, and a colour of the style sheet.
OTHERS = {"server/postgres/cluster.c": {"--locale", "--encoding", "--data-checksums",
                                        "--username", "--auth-local", "--auth-host", "--single"},
          "server/postgres/tools.c": {"--dbname", "--exit-on-error", "--file", "--format", "--lock-wait-timeout",
                                      "--no-owner", "--no-password", "--no-privileges", "--single-transaction",
                                      "--snapshot",  # of pg_dump, pg_restore, pg_basebackup
                                      "--checkpoint", "--gzip", "--pgdata", "--wal-method",
                                      "--no-psqlrc", "--output", "--quiet", "--set"},  # of psql
          # of sbatch and its companions
          "server/cli/command_launcher.c": {"--partition", "--gres", "--mem", "--time", "--cpus-per-task"},
          "server/launch/launcher.c": {"--state"}, "server/launch/launcher.h": {"--partition"},
          "server/launch/template.h": {"--partition", "--gres"}, "server/launch/template.c": {"--name"},
          "server/launch/slurm.c": {"--me", "--noheader", "--array", "--format", "--parsable", "--job-name",
                                    "--requeue", "--open-mode", "--output", "--time", "--mem", "--cpus-per-task",
                                    "--state", "--states", "--allocations", "--jobs", "--parsable2"},
          # between serve and its workers
          "server/cli/command_serve.c": {"--on-cpu"}, "server/cli/command_worker.c": {"--on-cpu"},
          "server/cli/fields.c": {"--no"}, "openapi.yaml": {"--write"}, "static/curve_legend.js": {"--surface"}}
ALWAYS = {"--help", "--version"}


def said(*words):
    return subprocess.run([BINARY, *words], capture_output=True, text=True, check=True).stdout


def commands():
    for command in said("complete", "--", "").split():
        yield [command]
        yield from ([command, kind] for kind in said("complete", "--", command, "").split() if command in HAVE_KINDS)


def options_of(words):
    return set(re.findall(r"^  (--[a-z][a-z-]*)", said(*words, "--help"), re.M))


@pytest.fixture(scope="module")
def options():
    return set().union(ALWAYS, *map(options_of, commands()))


def strings_of(text):
    """The string literals of C, without the comments; neighbours that the compiler joins are joined."""
    text = re.sub(r'("(?:\\.|[^"\\])*")|\'(?:\\.|[^\'\\])\'|/\*.*?\*/|//[^\n]*', lambda found: found.group(1) or " ",
                  text, flags=re.S)
    text = re.sub(r'"\s*"', "", text)
    return [found[1:-1] for found in re.findall(r'"(?:\\.|[^"\\\n])*"', text)]


def named_by(path):
    strings = strings_of(path.read_text()) if path.suffix in (".c", ".h") else [path.read_text()]
    return {option for string in strings for option in OPTION.findall(string)}


def sources():
    yield from sorted((ROOT / "server").rglob("*.[ch]"))
    yield from sorted((ROOT / "engine").rglob("*.[ch]"))
    yield from sorted(path for path in (ROOT / "static").iterdir() if path.suffix in (".js", ".html"))
    yield ROOT / "openapi.yaml"


def test_literals_are_read():
    assert strings_of('a("x --one", /* "--two" */ "y" // "--three"\n "z")') == ["x --one", "yz"]


def test_options_that_messages_name_exist(options):
    assert {"--allow-host", "--root", "--scope"} <= options
    named = {path.relative_to(ROOT).as_posix(): named_by(path) for path in sources()}
    assert "--allow-host" in named["server/http/lint.c"]
    wrong = {path: sorted(found - options - OTHERS.get(path, set())) for path, found in named.items()}
    assert not {path: found for path, found in wrong.items() if found}


COMMANDS = ("serve|worker|launcher|migrate|token|backup|restore|archive|doctor|version|register|run|sweep|curve|gate"
            "|track")


@pytest.mark.parametrize("path", ["README.md", "ARCHITECTURE.md", "docs/running.md", "docs/clients.md"])
def test_options_of_deltaq_in_the_documents_exist(options, path):
    for command, rest in re.findall(rf"deltaq ({COMMANDS})\b([^`\n]*)", (ROOT / path).read_text()):
        kind = rest.split()[:1] if command in HAVE_KINDS and rest.split()[:1] != ["KIND"] else []
        wrong = set(OPTION.findall(rest)) - options_of([command, *kind]) - ALWAYS
        assert not wrong, f"{path}: deltaq {command}{rest}"
