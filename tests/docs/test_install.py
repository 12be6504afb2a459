"""`make install`, `make uninstall`, and the version that a build tells."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("DELTAQ_BINARY", ROOT / "build" / "deltaq"))


def make(*arguments):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE") and key != "MFLAGS"}
    done = subprocess.run(["make", "--no-print-directory", *arguments], cwd=ROOT, env=environment, capture_output=True,
                          text=True, timeout=900)
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
    expected = [f"usr/share/deltaq/{name}"
                for name in ("LICENSE", "openapi.yaml", "static/index.html", "static/plotly.js")]
    # Swagger UI is there unless PyPI could not be reached.
    expected += [f"usr/share/deltaq/static/{path.name}" for path in (ROOT / "build" / "static").glob("swagger-ui*")]
    assert not set(["usr/bin/deltaq", *expected]) - set(files), files
    assert (installed / "usr/share/deltaq/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    sections = subprocess.run(["readelf", "-SW", installed / "usr/bin/deltaq"], capture_output=True, text=True,
                              check=True).stdout
    assert ".text" in sections and ".symtab" not in sections and ".debug_info" not in sections


def test_every_command_has_a_manual_page(installed):
    commands = subprocess.run([BINARY, "complete", "--", ""], capture_output=True, text=True, check=True).stdout.split()
    pages = {path.name: path.read_text() for path in (installed / "usr/share/man/man1").iterdir()}
    assert set(pages) == {"deltaq.1", *(f"deltaq-{command}.1" for command in commands)}
    assert "\\-\\-bits" in pages["deltaq-run.1"] and "DELTAQ_LISTEN" in pages["deltaq-serve.1"]
    assert "\\-\\-learning\\-rate" in pages["deltaq-register.1"]
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed: what the pages look like is not checked")
    for name, page in pages.items():
        done = subprocess.run(["groff", "-man", "-Tutf8", "-Kutf8", "-ww"], input=page, capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr and name[:-2].upper() in done.stdout, f"{name}: {done.stderr}"
        wide = [line for line in re.sub("\x1b\\[[0-9;]*m|.\b", "", done.stdout).splitlines() if len(line) > 80]
        assert all(line.lstrip().startswith("deltaq ") for line in wide), f"{name} is wider than a terminal: {wide}"


def test_manual_pages_have_their_day_and_nothing_that_mandoc_warns_of(installed, tmp_path):
    for page in (installed / "usr/share/man/man1").iterdir():
        assert re.match(r'\.TH "[A-Z-]+" 1 "\d{4}-\d\d-\d\d" ', page.read_text()) or not (ROOT / ".git").exists(), page
    if shutil.which("mandoc") is None:
        pytest.skip("mandoc is not installed")
    for page in (installed / "usr/share/man/man1").iterdir():
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "86399"}
    said = subprocess.run([BINARY, "manual", "serve"], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.startswith('.TH "DELTAQ-SERVE" 1 "1970-01-01" ')


@pytest.mark.parametrize("unit", ["deltaq", "deltaq-worker", "deltaq-launcher"])
def test_units_of_systemd(installed, unit):
    text = (installed / f"usr/lib/systemd/system/{unit}.service").read_text()
    assert "@" not in text.replace("@system-service", "") and "ExecStart=/usr/bin/deltaq " in text
    assert "\nProtectSystem=strict\n" in text and "\n[Install]\n" in text
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed: it does not read the unit")
    verify = ["systemd-analyze", f"--root={installed}", "--man=no", "--recursive-errors=no", "verify",
              f"{unit}.service"]
    done = subprocess.run(verify, capture_output=True, text=True)
    wrong = [line for line in done.stderr.splitlines() if f"{unit}.service:" in line and "sysinit.target" not in line]
    assert not wrong, done.stderr


@pytest.mark.parametrize("unit", ["deltaq", "deltaq-worker", "deltaq-launcher"])
def test_units_are_exposed_to_little(installed, unit):
    """systemd's own measure of a sandbox, from 0 to 10; the table in its answer says what each line adds."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed: it does not read the unit")
    done = subprocess.run(["systemd-analyze", f"--root={installed}", "--offline=yes", "--threshold=21", "--no-pager",
                           "security", f"{unit}.service"], capture_output=True, text=True)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd does not look at units that it does not run")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_installed_binary_finds_its_files(installed, tmp_path):
    binary = installed / "usr/bin/deltaq"
    done = subprocess.run([binary, "doctor", "--data-dir", tmp_path / "data"], cwd=tmp_path, capture_output=True,
                          text=True, timeout=300)
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
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True,
                            check=True).stdout.strip()
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
