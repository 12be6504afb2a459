"""`deltaq doctor` tries what it says and leaves everything as it was; `deltaq token list` only looks."""

import contextlib
import os
import pathlib
import subprocess
import tempfile

import models
import pytest
from earlier import earlier_schema
from service import BINARY, ROOT, Service
from small_disk import small_disk

# Nothing of a library's products is tried here but by the first line of the engine: that takes its time elsewhere.
QUICK = {**os.environ, "DELTAQ_OPENBLAS": "none"}


def doctor(*options, environment=None, prefix=(), program=BINARY, **more):
    """Its exit status and its lines: what they are on -> (good, text)."""
    done = subprocess.run([*prefix, program, "doctor", *options], capture_output=True, text=True, timeout=300,
                          env={**QUICK, **(environment or {})}, **more)
    lines = {line[7:23].strip(): (line.startswith("ok "), line[24:]) for line in done.stdout.splitlines()}
    assert (done.returncode == 0) == all(good for good, _ in lines.values()), (done.returncode, lines)
    return done.returncode, lines


def token(*arguments):
    return subprocess.run([BINARY, "token", *arguments], capture_output=True, text=True, timeout=120)


def everything_below(directory):
    """Names of all files and directories, but for those in PostgreSQL's cluster: it makes and removes its own."""
    names = (path.relative_to(directory) for path in directory.rglob("*"))
    return sorted(str(name) for name in names if name.parts[:2] != ("pg", "data") or len(name.parts) == 2)


def schema_of(service):
    """Every table and column, and what was applied when."""
    return (service.sql("select table_name, column_name, data_type from information_schema.columns"
                        " where table_schema = 'public' order by 1, 2"),
            service.sql("select number, name, sha256, applied_at from schema_migrations order by 1"))


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("doctor"), "--workers", "0")
    models.write_llama(service.files / "model")
    done = subprocess.run([BINARY, "migrate", "--roles", "--data-dir", service.data], capture_output=True)
    assert done.returncode == 0, done.stderr
    for role in ("server", "worker", "reader"):
        service.sql(f"create role {role}2 login in role deltaq_{role}")
    yield service
    assert service.stop() == 0


def url(service, user, database="deltaq"):
    return f"host={service.data}/pg/socket dbname={database} user={user}"


def test_every_line_of_a_sound_server(lab):
    before = everything_below(lab.data)
    code, lines = doctor("--data-dir", lab.data)
    assert code == 0, lines
    assert "1 MiB written, synced, renamed, read back" in lines["data directory"][1]
    assert "refused" in lines["file locks"][1] and "GiB in" in lines["free space"][1]
    assert "to the role deltaq" in lines["database"][1] and "which this deltaq wants" in lines["schema"][1]
    assert "refused to another" in lines["database locks"][1] and "this machine's" in lines["clock"][1]
    assert "serve: yes; work: yes" in lines["rights"][1]
    assert everything_below(lab.data) == before


def test_where_nothing_is_nothing_is_made(tmp_path):
    code, lines = doctor("--data-dir", tmp_path / "none" / "yet")
    assert code == 0 and "none yet" in lines["database"][1] and "is not there yet" in lines["data directory"][1]
    for action in (["list"], ["revoke", "--name", "x"]):
        done = token(*action, "--data-dir", tmp_path / "none" / "yet")
        assert done.returncode == 1 and "no database yet" in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "data").mkdir()
    assert doctor("--data-dir", tmp_path / "data")[0] == 0
    assert token("list", "--data-dir", tmp_path / "data").returncode == 1
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize("running", [True, False])
def test_an_older_schema_is_told_and_left_as_it_is(tmp_path, running):
    service = Service(tmp_path, "--workers", "0")
    try:
        number = earlier_schema(service.data)
        before = schema_of(service)
        if not running:
            service.stop()
            (service.data / "pg" / "ballast").unlink(missing_ok=True)
        code, lines = doctor("--data-dir", service.data)
        assert code == 1 and not lines["schema"][0], lines
        assert f"has schema {number}, this deltaq needs {number + 1}: run `deltaq migrate`" in lines["schema"][1]
        assert "rights" not in lines
        assert running or not (service.data / "pg" / "ballast").exists()
        for action in (["list"], ["revoke", "--name", "x"], ["create", "--scope", "read"]):
            done = token(*action, "--data-dir", service.data)
            assert done.returncode == 1 and f"has schema {number}," in done.stderr, (action, done.stderr)
        if not running:
            service.start()
            assert f"schema-{number}" in str(list((service.data / "backups").iterdir())), "the server had it to upgrade"
        else:
            assert schema_of(service) == before and not (service.data / "backups").exists()
    finally:
        service.stop()


def test_a_newer_schema_is_told(tmp_path):
    service = Service(tmp_path, "--workers", "0")
    try:
        service.sql("insert into schema_migrations (number, name, sha256) values (9999, 'later', 'x')")
        code, lines = doctor("--data-dir", service.data)
        assert code == 1 and "has schema 9999" in lines["schema"][1] and "use a newer deltaq" in lines["schema"][1]
        assert "use a newer deltaq" in token("list", "--data-dir", service.data).stderr
    finally:
        service.stop()


def test_an_empty_outside_database_stays_empty(lab, tmp_path):
    lab.sql("create database empty_one")
    lab.sql("create role nobody2 login")
    code, lines = doctor("--data-dir", tmp_path, "--database-url", url(lab, "deltaq", "empty_one"))
    assert code == 0 and "none yet" in lines["schema"][1] and "may make tables" in lines["rights"][1]
    code, lines = doctor("--data-dir", tmp_path, "--database-url", url(lab, "nobody2", "empty_one"))
    assert code == 1 and "may not make tables" in lines["rights"][1], lines
    done = token("list", "--database-url", url(lab, "deltaq", "empty_one"))
    assert done.returncode == 1 and "has schema 0" in done.stderr
    left = subprocess.run(["psql", "-XAtq", "-d", url(lab, "deltaq", "empty_one"), "-c",
                           "select count(*) from pg_class where relnamespace = 'public'::regnamespace"],
                          capture_output=True, text=True, check=True)
    assert left.stdout == "0\n"


@pytest.mark.parametrize("role, serves, works", [("server2", True, True), ("worker2", False, True)])
def test_the_rights_of_a_role_that_has_enough_of_them(lab, tmp_path, role, serves, works):
    code, lines = doctor("--data-dir", tmp_path, "--database-url", url(lab, role))
    assert code == 0, lines
    assert ("serve: yes" in lines["rights"][1]) == serves and ("work: yes" in lines["rights"][1]) == works
    assert serves or "it lacks delete on " in lines["rights"][1]


@pytest.mark.parametrize("role", ["reader2", "stranger2"])
def test_a_role_that_lacks_rights(lab, tmp_path, role):
    if role == "stranger2":
        lab.sql("create role stranger2 login")
    code, lines = doctor("--data-dir", tmp_path, "--database-url", url(lab, role))
    assert code == 1
    if role == "reader2":
        assert "may neither serve (it lacks" in lines["rights"][1] and "migrate --roles" in lines["rights"][1]
    else:
        assert not lines["schema"][0] and "permission denied" in lines["schema"][1], lines


def test_one_right_that_is_missing_is_named(lab, tmp_path):
    lab.sql("revoke insert on measurements from deltaq_worker")
    try:
        code, lines = doctor("--data-dir", tmp_path, "--database-url", url(lab, "worker2"))
        assert code == 1 and "nor work (it lacks insert on measurements)" in lines["rights"][1], lines
    finally:
        lab.sql("grant insert on measurements to deltaq_worker")


def test_a_database_that_takes_no_writes(lab, tmp_path):
    code, lines = doctor("--data-dir", tmp_path, "--database-url", url(lab, "deltaq"),
                         environment={"PGOPTIONS": "-c default_transaction_read_only=on"})
    assert code == 1 and "read-only" in lines["rights"][1] and "takes writes" in lines["rights"][1], lines


def test_a_database_that_does_not_answer(tmp_path):
    code, lines = doctor("--data-dir", tmp_path, "--database-url", "postgresql://127.0.0.1:1/none")
    assert code == 1 and not lines["database"][0] and "look at the URL" in lines["database"][1]
    assert "schema" not in lines


@pytest.mark.parametrize("wrong, said", [
    ("version", "is of another build than this binary"), ("sources", "is of another build than this binary"),
    (None, "does not load"),
])
def test_a_plugin_of_another_build(tmp_path, wrong, said):
    """The CPU would do the work, but what is there should have found the devices."""
    plugin = tmp_path / "libdeltaq-cuda.so"
    plugin.write_text("no library")
    if wrong is not None:
        subprocess.run(["cc", "-std=c11", "-D_GNU_SOURCE", "-Iengine", f"-DWRONG_{wrong}", '-DCUDA_SOURCES="another"',
                        "-shared", "-fPIC", "-o", plugin, "tests/unit/engine/backend/cuda/wrong_plugin.c"],
                       cwd=ROOT, check=True)
    code, lines = doctor("--data-dir", tmp_path / "none", environment={"DELTAQ_CUDA_PLUGIN": str(plugin)})
    assert code == 1 and not lines["cuda"][0] and said in lines["cuda"][1], lines
    assert wrong is None or "make cuda" in lines["cuda"][1]
    assert [name for name, (good, _) in lines.items() if not good] == ["cuda"], lines


@pytest.mark.parametrize("command", [["worker"], ["serve", "--listen", "127.0.0.1:0"], ["token", "list"],
                                     ["migrate"]])
@pytest.mark.parametrize("where, said", [
    (f"host=/{'d' * 93} dbname=deltaq user=secret", "107"), ("postgresql://secret@[::1/deltaq", "expected a URL like"),
])
def test_a_database_that_can_never_be_reached_is_not_waited_for(tmp_path, command, where, said):
    done = subprocess.run([BINARY, *command, "--database-url", where], capture_output=True, text=True, timeout=60,
                          env={**QUICK, "XDG_DATA_HOME": str(tmp_path)})
    assert done.returncode == 1 and said in done.stderr and "secret" not in done.stderr, done.stderr
    assert ("--database-url" in done.stderr) == (command[0] in ("worker", "serve"))
    assert list(tmp_path.iterdir()) == []


SHIM = """
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t which, struct timespec *now)
{
    int (*real)(clockid_t, struct timespec *);
    *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(which, now);
    if (which == CLOCK_REALTIME) now->tv_sec += atoi(getenv("CLOCK_AHEAD"));
    return result;
}
"""


@pytest.mark.parametrize("ahead, good, said", [(3600, False, "behind"), (-60, False, "ahead of"), (2, True, "behind")])
def test_clocks_that_differ(lab, tmp_path, ahead, good, said):
    """The clock of this machine is put ahead for the doctor alone."""
    (tmp_path / "shim.c").write_text(SHIM)
    subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", tmp_path / "shim.so", tmp_path / "shim.c", "-ldl"],
                   check=True)
    _, lines = doctor("--data-dir", tmp_path, "--database-url", url(lab, "deltaq"),
                      environment={"LD_PRELOAD": str(tmp_path / "shim.so"), "CLOCK_AHEAD": str(ahead)})
    assert lines["clock"][0] == good and said in lines["clock"][1] and ("NTP" in lines["clock"][1]) != good, lines
    skew = float(lines["clock"][1].split(" s ")[0].split()[-1])
    assert abs(skew - abs(ahead)) < 1, lines


# ---- the data directory ----

NOWHERE = ("--database-url", "postgresql://127.0.0.1:1/none")


@pytest.fixture
def mounted(tmp_path):
    """A function that mounts a small file system in memory and gives its directory."""
    directory = tmp_path / "small"
    directory.mkdir()
    with contextlib.ExitStack() as stack:
        yield lambda *options: stack.enter_context(small_disk(directory, *options))


def test_a_directory_on_a_mount_that_is_read_only(mounted):
    """Root may write to every directory, says access(): trying tells."""
    code, lines = doctor("--data-dir", mounted("size=4m", "ro"), *NOWHERE)
    assert code == 1 and not lines["data directory"][0]
    assert "making a directory: Read-only file system" in lines["data directory"][1]
    assert "another --data-dir" in lines["data directory"][1]


def test_a_directory_that_is_full(mounted):
    directory = mounted("size=4m")
    with open(directory / "filler", "wb", buffering=0) as file:
        size = 1 << 20
        while size >= 1:
            try:
                file.write(b"x" * size)
            except OSError:
                size //= 4
    code, lines = doctor("--data-dir", directory, *NOWHERE)
    assert code == 1 and not lines["data directory"][0] and not lines["free space"][0]
    assert "No space left on device" in lines["data directory"][1] and "2 GiB" in lines["free space"][1]
    assert lines["file locks"][0] in (True, False) and everything_below(directory) == ["filler"]


def test_little_space_is_told_though_writing_goes(mounted):
    code, lines = doctor("--data-dir", mounted("size=4m"), *NOWHERE)
    assert lines["data directory"][0] and lines["file locks"][0] and not lines["free space"][0] and code == 1


def test_a_directory_of_somebody_else_s():
    if os.geteuid() != 0:
        pytest.skip("only root can ask as somebody else")
    # The program is opened by us: the way to it may be closed to others, as it is below /root.
    with tempfile.TemporaryDirectory() as name, BINARY.open("rb") as program:
        directory = pathlib.Path(name)
        directory.chmod(0o755)
        code, lines = doctor("--data-dir", directory, *NOWHERE, program=f"/proc/self/fd/{program.fileno()}",
                             pass_fds=[program.fileno()], user=65534, group=65534, extra_groups=[])
        good, told = lines["data directory"]
        assert code == 1 and not good and "directory" in told and "Permission denied" in told, lines
        assert list(directory.iterdir()) == []


def test_a_data_directory_that_is_a_file(tmp_path):
    (tmp_path / "data").write_text("")
    code, lines = doctor("--data-dir", tmp_path / "data", *NOWHERE)
    assert code == 1 and "Not a directory" in lines["data directory"][1]


def test_locks_that_do_not_exclude(tmp_path):
    """As on a file system that grants every lock."""
    (tmp_path / "shim.c").write_text("int flock(int fd, int how) { (void)fd; (void)how; return 0; }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "shim.so", tmp_path / "shim.c"], check=True)
    code, lines = doctor("--data-dir", tmp_path, *NOWHERE, environment={"LD_PRELOAD": str(tmp_path / "shim.so")})
    assert code == 1 and not lines["file locks"][0] and "two holders" in lines["file locks"][1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shim.c", "shim.so"]
