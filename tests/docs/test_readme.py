"""README's shell examples, run as they stand against a server in the project's directory; its commands and targets exist."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
BINARY = pathlib.Path(os.environ.get("DELTAQ_BINARY", ROOT / "build" / "deltaq"))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def port(tmp_path):
    number = free_port()
    command = [str(BINARY), "serve", "--listen", f"127.0.0.1:{number}", "--data-dir", str(tmp_path / "data")]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
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


def test_requests_work_as_they_stand(port):
    block = next(text for text in re.findall(r"```sh\n(.*?)```", README, re.S) if "/v1/datasets" in text)
    script = block.replace("127.0.0.1:8642", f"127.0.0.1:{port}").replace("curl -s", "curl -sS --fail-with-body")
    done = subprocess.run(["sh", "-eu", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"succeeded"' in done.stdout
    for _ in range(60):
        runs = get(port, "/v1/runs?kind=quantize&limit=100")["items"]
        if runs and all(run["state"] == "succeeded" for run in runs):
            break
        assert not [run["error"] for run in runs if run["state"] == "failed"]
        time.sleep(1)
    series = get(port, "/v1/curves?trajectory=first&metric=delta&x=tokens")["series"]
    assert len(series) == 2 and all(len(one["points"]) == 3 for one in series)


def test_make_targets_named_in_readme_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"(?:^|`)make ([a-z][a-z-]*)", README, re.M)):
        assert re.search(rf"^{target}:", makefile, re.M), target


@pytest.mark.parametrize("command", ["serve", "worker", "migrate", "token", "doctor", "version"])
def test_every_command_explains_itself(command):
    done = subprocess.run([str(BINARY), command, "--help"], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0 and command in done.stdout and len(done.stdout) > 40
