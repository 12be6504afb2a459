"""`make install`, `make uninstall`, and the version that a build tells."""

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("DELTAQ_BINARY", ROOT / "build" / "deltaq"))


def make(*arguments):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE") and key != "MFLAGS"}
    done = subprocess.run(["make", "--no-print-directory", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files_below(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir())


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    directory = tmp_path_factory.mktemp("installed")
    make("install", f"DESTDIR={directory}", "PREFIX=/usr")
    return directory


def test_what_is_installed_is_whole_and_stripped(installed):
    files = files_below(installed)
    expected = [f"usr/share/deltaq/{name}" for name in ("LICENSE", "openapi.yaml", "static/index.html", "static/plotly.js")]
    assert not set(["usr/bin/deltaq", *expected]) - set(files), files
    assert (installed / "usr/share/deltaq/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    sections = subprocess.run(["readelf", "-SW", installed / "usr/bin/deltaq"], capture_output=True, text=True, check=True).stdout
    assert ".text" in sections and ".symtab" not in sections and ".debug_info" not in sections


def test_the_installed_binary_finds_its_files(installed, tmp_path):
    binary = installed / "usr/bin/deltaq"
    done = subprocess.run([binary, "doctor", "--data-dir", tmp_path / "data"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "WRONG" not in done.stdout, done.stdout + done.stderr
    assert subprocess.run([binary, "version"], capture_output=True, text=True, check=True).stdout.startswith("deltaq ")


def test_uninstall_removes_what_was_installed_and_nothing_else(tmp_path):
    make("install", f"DESTDIR={tmp_path}", "PREFIX=/home/.local")
    data = tmp_path / "home/.local/share/deltaq/pg"  # the default data directory of that user
    data.mkdir()
    (data / "lock").write_text("a database")
    make("uninstall", f"DESTDIR={tmp_path}", "PREFIX=/home/.local")
    assert files_below(tmp_path) == ["home/.local/share/deltaq/pg/lock"]
    assert not (tmp_path / "home/.local/share/deltaq/static").exists()


def test_the_version_names_the_commit():
    said = subprocess.run([BINARY, "version"], capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(r"deltaq \d+\.\d+\.\d+( \([0-9a-f]{7,}\))?\n", said)
    if "DELTAQ_BINARY" in os.environ or not (ROOT / ".git").exists():
        assert said.startswith("deltaq ")
        return
    make()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    said = subprocess.run([BINARY, "version"], capture_output=True, text=True, check=True).stdout
    assert commit.startswith(said.split("(")[1].rstrip(")\n"))


def test_nothing_is_built_again_when_nothing_changed():
    make()
    assert not re.search(r"^ +(cc|link) ", make(), re.M)


@pytest.mark.parametrize("flag", ["version", "--version", "-V"])
def test_every_way_to_ask_for_the_version(flag):
    wanted = subprocess.run([BINARY, "version"], capture_output=True, text=True, check=True).stdout
    assert subprocess.run([BINARY, flag], capture_output=True, text=True, check=True).stdout == wanted


@pytest.mark.parametrize("flag", ["help", "--help", "-h"])
def test_every_way_to_ask_for_help(flag):
    done = subprocess.run([BINARY, flag], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: deltaq COMMAND")
    wanted = subprocess.run([BINARY, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    assert subprocess.run([BINARY, "serve", "-h"], capture_output=True, text=True, check=True).stdout == wanted
    assert subprocess.run([BINARY, "help", "serve"], capture_output=True, text=True, check=True).stdout == wanted
