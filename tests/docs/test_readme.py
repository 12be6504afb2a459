"""README's shell examples, run as they stand against a server in the project's directory;
its commands and targets exist."""

import csv
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import urllib.request

import pytest
from ports import free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
BINARY = pathlib.Path(os.environ.get("DELTAQ_BINARY", ROOT / "build" / "deltaq"))


@pytest.fixture
def port(tmp_path):
    number = free_port()
    command = [str(BINARY), "serve", "--listen", f"127.0.0.1:{number}", "--data-dir", str(tmp_path / "data")]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(1200):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{number}/readyz", timeout=2)
                break
            except OSError:
                assert server.poll() is None, "the server stopped"
                time.sleep(0.1)
        yield number
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=90) as answer:
        return json.load(answer)


def requests_and_samples():
    """(script, kind of sample or None, sample) of the section, in order.
    A request has the sample that stands behind it."""
    section = README[README.index("## Seven requests"):]
    section = section[:section.index("\n## ")]
    return re.findall(r"```sh\n(.*?)```(?:\n```(json|csv)\n(.*?)```)?", section, re.S)


def answers_of(output):
    """The JSON documents that a script printed, one after the other."""
    decoder, found, rest = json.JSONDecoder(), [], output.strip()
    while rest:
        document, end = decoder.raw_decode(rest)
        found.append(document)
        rest = rest[end:].strip()
    return found


def like(sample, answer):
    """Every field of the sample stands in the answer with a value of the same type;
    texts and counts of runs as in the sample."""
    if isinstance(sample, dict):
        return isinstance(answer, dict) and all(key in answer and like(value, answer[key])
                                                for key, value in sample.items())
    return type(sample) is type(answer) or (isinstance(sample, (int, float)) and isinstance(answer, (int, float)))


def test_requests_work_as_they_stand(port):
    parts = requests_and_samples()
    assert sum(script.count("curl ") for script, _, _ in parts) == 7
    for script, kind, sample in parts:
        script = script.replace("127.0.0.1:8642", f"127.0.0.1:{port}").replace("curl -s", "curl -sS --fail-with-body")
        if kind == "csv":
            wait_for_sweep(port, "first-gptq")
        done = subprocess.run(["sh", "-eu", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        if kind == "json":
            answers = [ended(port, answer) for answer in answers_of(done.stdout)]
            assert any(like(json.loads(sample), answer) for answer in answers), (sample, answers)
        if kind == "csv":
            check_curve(sample, done.stdout)


def ended(port, document):
    """The run when it has ended, which `?wait=60` has seen unless the machine
    is very busy; any other document as it is."""
    for _ in range(10):
        if document.get("state") not in ("queued", "running"):
            break
        document = get(port, f"/v1/runs/{document['id']}?wait=60")
    return document


def wait_for_sweep(port, name):
    for _ in range(600):
        counts = get(port, f"/v1/sweeps/{name}")["runs"]
        assert counts["failed"] == 0, counts
        if counts["succeeded"] == counts["total"]:
            return
        time.sleep(1)
    raise TimeoutError(counts)


def check_curve(sample, answer):
    """The head of the table begins as in the sample, and ΔQL rises over the decay as the text says."""
    head, *rows = csv.reader(io.StringIO(answer))
    shown, *examples = csv.reader(io.StringIO(sample))
    columns = len(shown) - 1  # the last one is "…"
    assert head[:columns] == shown[:columns] and all(len(row) >= columns for row in examples)
    two = [dict(zip(head, row)) for row in rows if row[head.index("bits")] == "2"]
    assert len(two) == 8 and len(rows) == 16
    before, last = two[-4], two[-1]
    assert float(last["low"]) > float(before["high"]), "2-bit ΔQL at the end of the decay is above that before it"


@pytest.mark.parametrize("command", ["serve", "worker", "migrate", "token", "doctor", "version"])
def test_every_command_explains_itself(command):
    done = subprocess.run([str(BINARY), command, "--help"], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0 and command in done.stdout and len(done.stdout) > 40
