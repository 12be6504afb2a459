"""The database of a running server, turned into what an earlier deltaq left."""

import contextlib
import hashlib
import subprocess
import time

from service import ROOT


# In the directory `pg`: a socket's path may have 107 bytes, and those of tests have more.
PSQL = ["psql", "-XAtqv", "ON_ERROR_STOP=1", "-h", "/proc/self/cwd/socket", "-U", "deltaq", "deltaq"]


def psql(data, text):
    return subprocess.run(PSQL, input=text, capture_output=True, text=True, check=True, cwd=data / "pg").stdout


@contextlib.contextmanager
def held(data, text, end="rollback"):
    """What the text does is done in a transaction, which ends when the block does."""
    session = subprocess.Popen(PSQL, cwd=data / "pg", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    session.stdin.write(f"set idle_in_transaction_session_timeout = 0; begin; {text}; \\echo done\n")
    session.stdin.flush()
    while (line := session.stdout.readline()) != "done\n":
        assert line != "", text
    try:
        yield
    finally:
        session.communicate(f"{end};\n", timeout=60)


def until(true, seconds=60):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def drop_everything(data):
    """The server asks at the same time: where the two wait for each other PostgreSQL ends one of them."""
    for _ in range(20):
        try:
            return psql(data, "drop schema public cascade;")
        except subprocess.CalledProcessError as error:
            assert "deadlock detected" in error.stderr, error.stderr
    raise AssertionError("twenty deadlocks")


def earlier_schema(data):
    """Turns the database of `data`, which a server holds, into one that lacks the newest step."""
    steps = sorted((ROOT / "sql").glob("*.sql"))
    text = "create schema public;\n"
    text += "create table schema_migrations (number integer primary key, name text not null, sha256 text not null,"
    text += " applied_at timestamptz not null default clock_timestamp());\n"
    for step in steps[:-1]:
        sql = step.read_text()
        hashed = hashlib.sha256(sql.encode()).hexdigest()
        text += (f"begin;\n{sql}\n;insert into schema_migrations (number, name, sha256) values ({int(step.name[:4])}, "
                 f"'{step.stem}', '{hashed}');\ncommit;\n")
    drop_everything(data)
    psql(data, text)
    return int(steps[-2].name[:4])
