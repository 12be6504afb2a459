"""The demo at its smallest scale, as a person runs it: to the end, twice, interrupted, with its port taken. Its full
scale, which must show the paper's findings, runs with DELTAQ_LONG=1."""

import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import launch
import pytest
from ports import free_port

HERE = pathlib.Path(__file__).resolve().parent
BINARY = pathlib.Path(os.environ.get("DELTAQ_BINARY", HERE.parents[1] / "build" / "deltaq"))
SECONDS = 200  # for what takes five on an idle machine
GONE_SECONDS = 10

pytestmark = pytest.mark.skipif(not BINARY.exists(), reason="build/deltaq is not built")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Sentences with a grammar and a skewed vocabulary."""
    folder, source = tmp_path_factory.mktemp("text"), random.Random(0)
    words = ["".join(source.choice("aeioubdklmnprst") for _ in range(source.randint(2, 7))) for _ in range(300)]
    for name, count in (("train.txt", 20000), ("validation.txt", 3000)):
        lines, k = [], 0
        for _ in range(count):
            k = (7 * k + int(source.expovariate(0.4))) % len(words)
            lines.append(words[k] + (".\n" if source.random() < 0.1 else " "))
        (folder / name).write_text("".join(lines))
    return folder


def demo(directory, *more, environment=None):
    command = [sys.executable, str(HERE / "demo.py"), "--binary", str(BINARY), "--directory", str(directory),
               "--workers", "2", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


def tiny(directory, text, *more, **environment):
    return demo(directory, "--scale", "tiny", "--text", str(text), "--no-browser", *more, **environment)


def finished(process, seconds=SECONDS):
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
        pytest.fail(f"the demo took more than {seconds} s:\n{output}")
    return process.returncode, output


def processes(directory):
    """Ids of the processes that were started with this directory in their arguments or have their working directory in
    it: the demo, its server, workers, PostgreSQL."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if (os.fsencode(directory) in (entry / "cmdline").read_bytes()
                    or str(directory) in os.readlink(entry / "cwd")):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def stop(directory):
    code, output = finished(demo(directory, "--stop"), 60)
    assert code == 0, output
    return output


@pytest.fixture
def directory(tmp_path):
    yield tmp_path
    stop(tmp_path)
    assert processes(tmp_path) == []


def test_the_demo_finishes_runs_again_over_its_server_and_then_over_its_data(directory, text):
    port = free_port()
    code, first = finished(tiny(directory, text, "--port", str(port)))
    assert code == 0, first
    assert "Traceback" not in first and " 0 s" not in first.split("dashboard:")[0]
    said = json.loads((directory / "findings.json").read_text())
    assert [finding["name"] for finding in said["findings"]] == ["decay", "peak", "average"]
    assert all(f"{number}. {finding['text']}" in first for number, finding in enumerate(said["findings"], 1))
    note = json.loads((directory / "server.json").read_text())
    assert note["url"] == f"http://127.0.0.1:{port}" and f"kill {note['pid']}" in first and "pkill" not in first
    assert len(re.findall(rf"{note['url']}/#/curves\?\S*x=tokens", first)) == 2

    assert "the pages show these, too" in first
    for point in said["points"]:
        if (point["group"], point["peak"]) == ("constant", 8e-3):
            assert shown(note["url"], "constant-0.008")[point["tokens"]] == point["delta"]

    code, second = finished(tiny(directory, text), 60)  # on the default port, were it not for the server that runs
    assert code == 0 and f"runs already: {note['url']}/" in second, second
    assert figures(second) == figures(first)

    assert f"process {note['pid']}" in stop(directory) and processes(directory) == []
    assert "no server" in stop(directory)
    code, third = finished(tiny(directory, text, "--port", str(free_port())))
    assert code == 0 and figures(third) == figures(first), third


def shown(url, trajectory):
    """{tokens: ΔQL} as the page of a curve has it."""
    with urllib.request.urlopen(f"{url}/v1/curves?trajectory={trajectory}&metric=delta&x=tokens", timeout=60) as answer:
        (series,) = json.load(answer)["series"]
    return {point["x"]: point["y"] for point in series["points"]}


def figures(output):
    """The table and the sentences, without what differs from call to call."""
    return output.split("GPTQ")[1].split("The intervals cover")[0]


def test_a_taken_port_is_left_alone_and_the_next_free_one_said(directory, text):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, output = finished(tiny(directory, text, "--port", str(port)))
    found = re.search(rf"port {port} is taken; the demo's server uses (\d+)", output)
    assert code == 0 and found and int(found[1]) > port, output
    assert f"http://127.0.0.1:{found[1]}/#/curves" in output


# Another program takes its port, and answers there, between the demo's look and the server's own.
OVERTAKEN = """#!/usr/bin/env python3
import http.server, os, pathlib, sys, time
address = sys.argv[sys.argv.index("--listen") + 1]
host, port = address.split(":")
other = pathlib.Path(__file__).with_name("other")

class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass

first = not other.exists()
serving = http.server.HTTPServer((host, int(port)), Ready)
if not first:
    print(f"deltaq listening on http://{address}", flush=True)
elif child := os.fork():
    other.write_text(str(child))
    serving.socket.close()
    time.sleep(1)
    sys.exit(f"deltaq serve: {address} is in use; stop the other server or choose another --listen")
serving.serve_forever()
"""


def test_a_port_that_is_taken_after_it_was_looked_at_is_left_alone(tmp_path, capsys):
    binary = tmp_path / "deltaq"
    binary.write_text(OVERTAKEN)
    binary.chmod(0o755)
    server, port = launch.Server(tmp_path), free_port()
    try:
        server.start(launch.Interrupts(), binary, port, 1)
        server.wait()
        assert server.alive() and int(server.url.rpartition(":")[2]) > port
        assert f"port {port} is taken; the demo's server uses " in capsys.readouterr().out
    finally:
        server.stop()
        os.kill(int((tmp_path / "other").read_text()), signal.SIGKILL)


# Before there is a server; while its database is made; in the middle of training;
# as a closing terminal and `kill` do it.
@pytest.mark.parametrize("moment, number",
                         [("fetching", signal.SIGINT), ("server.json", signal.SIGINT), ("dashboard:", signal.SIGINT),
                          ("training", signal.SIGINT), ("dashboard:", signal.SIGTERM), ("training", signal.SIGHUP)])
def test_an_interrupt_ends_all_that_was_started(tmp_path, text, moment, number):
    scale = ["--scale", "full"] if moment == "training" else ["--scale", "tiny"]
    given = ["--text", str(text)]
    environment = dict(os.environ)
    if moment == "fetching":  # an apt-get that never ends
        given = []
        slow = tmp_path / "slow"
        slow.mkdir()
        (slow / "apt-get").write_text(f"#!/bin/sh\nsleep 600 # {tmp_path}\n")
        (slow / "apt-get").chmod(0o755)
        environment["PATH"] = f"{slow}:{environment['PATH']}"
    process = demo(tmp_path, *scale, *given, "--no-browser", "--port", str(free_port()), environment=environment)
    seen = ""
    if moment == "server.json":
        limit = time.monotonic() + SECONDS
        while not (tmp_path / "server.json").exists() and time.monotonic() < limit:
            time.sleep(0.02)
    else:
        for line in process.stdout:
            seen += line
            if moment in line:
                break
    assert process.poll() is None, seen
    process.send_signal(number)
    began = time.monotonic()
    output, _ = process.communicate(timeout=60)
    seconds = time.monotonic() - began
    assert process.returncode == 130, seen + output
    assert processes(tmp_path) == [] and seconds < GONE_SECONDS, f"{seconds:.1f} s: {output}"
    last = [line for line in output.splitlines() if line.strip()]
    assert last[-1].startswith("demo: interrupted") and "Traceback" not in output, output
    assert sum(line.startswith("demo:") for line in last) == 1, output


def test_stop_never_touches_a_process_that_only_has_the_number(tmp_path):
    other = subprocess.Popen(["sleep", "60"])
    try:
        (tmp_path / "server.json").write_text(json.dumps({"pid": other.pid, "started_at": 1,
                                                          "url": "http://127.0.0.1:1"}))
        assert "no server" in stop(tmp_path)
        fields = pathlib.Path(f"/proc/{other.pid}/stat").read_text().rsplit(")", 1)[1].split()
        (tmp_path / "server.json").write_text(json.dumps({"pid": other.pid, "started_at": int(fields[19]),
                                                          "url": "http://127.0.0.1:1"}))
        assert "no server" in stop(tmp_path)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_server_that_cannot_start_is_told_with_its_own_words(tmp_path, text):
    (tmp_path / "data").write_text("not a directory")
    code, output = finished(tiny(tmp_path, text, "--port", str(free_port())))
    assert code == 1 and "Traceback" not in output and processes(tmp_path) == [], output
    assert re.search(r"demo: the server stopped while it started; its last lines:\n  \S", output), output


def test_without_packages_the_message_says_what_is_missing_and_what_to_do(tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "apt-get").write_text("#!/bin/sh\necho 'E: Failed to fetch http://nowhere/'\nexit 100\n")
    (broken / "apt-get").chmod(0o755)
    environment = dict(os.environ, PATH=f"{broken}:{os.environ['PATH']}")
    code, output = finished(demo(tmp_path / "demo", "--port", str(free_port()), environment=environment), 60)
    assert code == 1 and "Traceback" not in output, output
    assert ("perl-doc" in output and "Failed to fetch http://nowhere/" in output and "--text DIR" in output
            and "make deps" not in output)
    assert not (tmp_path / "demo" / "data").exists()


@pytest.mark.skipif(os.environ.get("DELTAQ_LONG") != "1", reason="takes minutes; DELTAQ_LONG=1 runs it")
def test_the_full_demo_shows_the_findings_of_the_paper(directory):
    code, output = finished(demo(directory, "--no-browser", "--port", str(free_port())), 3600)
    assert code == 0, output
    print(output)
    decay, peak, average = json.loads((directory / "findings.json").read_text())["findings"]
    assert decay["holds"] and len(decay["apart"]) >= 2, decay
    assert peak["holds"], peak
    assert average["holds"], average
