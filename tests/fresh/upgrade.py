#!/usr/bin/env python3
"""The two halves of upgrade.sh, each on its own machine: `make BINARY DIRECTORY` fills a server, notes what it answers
and backs it up; `check BINARY DIRECTORY` restores that with another major version of PostgreSQL. Standard library
only."""

import json
import pathlib
import random
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request

LISTS = ("trajectories", "checkpoints", "datasets", "runs", "measurements")
FINAL = ("succeeded", "failed", "cancelled")


class Serving:
    """`deltaq serve` on a free port, until the end of a block."""

    def __init__(self, binary, data):
        self.command = [binary, "serve", "--data-dir", data, "--listen", "127.0.0.1:0", "--workers", "1", "--threads",
                        "1"]
        self.log = data.parent / "serve.log"

    def __enter__(self):
        self.process = subprocess.Popen(list(map(str, self.command)), stdout=self.log.open("w"),
                                        stderr=subprocess.STDOUT)
        self.url = self.until(lambda: self.found(r"http://127\.0\.0\.1:\d+"))
        self.until(lambda: self.ready())
        return self

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(120) == 0, self.log.read_text()

    def until(self, asked, seconds=120):
        end = time.monotonic() + seconds
        while not (found := asked()):
            assert self.process.poll() is None and time.monotonic() < end, self.log.read_text()
            time.sleep(0.1)
        return found

    def found(self, pattern):
        match = re.search(pattern, self.log.read_text())
        return match and match[0]

    def ready(self):
        try:
            return urllib.request.urlopen(self.url + "/readyz", timeout=90).status == 200
        except urllib.error.URLError:
            return False

    def request(self, method, path, body=None):
        call = urllib.request.Request(self.url + path, method=method, headers={"Content-Type": "application/json"},
                                      data=None if body is None else json.dumps(body).encode())
        try:
            with urllib.request.urlopen(call, timeout=90) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{method} {path}: {error.code} {error.read().decode()}") from None

    def run(self, kind, force=False, **params):
        run = self.request("POST", "/v1/runs", {"kind": kind, "params": params, "force": force})
        while run["state"] not in FINAL:
            run = self.request("GET", f"/v1/runs/{run['id']}?wait=30")
        assert run["state"] == "succeeded", run["error"]
        return run

    def lists(self, data):
        found = {name: self.request("GET", f"/v1/{name}?limit=200")["items"] for name in LISTS}
        return json.loads(json.dumps(found).replace(str(data), "DATA"))


QUANTIZE = {"checkpoint": None, "method": {"name": "gptq", "bits": 3, "group_size": 16},
            "evaluation": {"dataset": "text"}, "calibration": {"dataset": "text"}}


def make(binary, directory):
    data = directory / "data"
    data.mkdir(parents=True)
    rows = [[random.Random(i).randrange(64) for _ in range(32)] for i in range(16)]
    with Serving(binary, data) as server:
        server.request("POST", "/v1/datasets", {"name": "text", "sequences": rows})
        trained = server.run("train", trajectory="moved", dataset="text", tokens=1024, batch_sequences=4,
                             sequence_length=32, tokenizer={"name": "none"}, optimizer={"name": "adamw"},
                             schedule={"name": "constant", "peak": 1e-3},
                             model={"model_type": "llama", "hidden_size": 32, "intermediate_size": 64,
                                    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
                                    "vocab_size": 64, "max_position_embeddings": 64})
        run = server.run("quantize", **{**QUANTIZE, "checkpoint": trained["result"]["checkpoints"][-1]})
        subprocess.run([binary, "backup", directory / "backup", "--data-dir", data], check=True)
        noted = {"lists": server.lists(data), "run": run, "postgres": (data / "pg/data/PG_VERSION").read_text().strip()}
    (directory / "noted.json").write_text(json.dumps(noted))
    print(f"backed up with PostgreSQL {noted['postgres']}")


def check(binary, directory):
    noted, data = json.loads((directory / "noted.json").read_text()), directory / "restored"
    old = subprocess.run([binary, "serve", "--data-dir", directory / "data", "--listen", "127.0.0.1:0"],
                         capture_output=True, text=True, timeout=120)
    assert old.returncode and "backup" in old.stderr and noted["postgres"] in old.stderr, old.stderr
    subprocess.run([binary, "restore", directory / "backup", "--data-dir", data], check=True)
    now = (data / "pg/data/PG_VERSION").read_text().strip()
    assert int(now) > int(noted["postgres"]), now
    with Serving(binary, data) as server:
        lists = server.lists(data)
        for name in LISTS:
            assert lists[name] == noted["lists"][name], (name, lists[name], noted["lists"][name])
        again = server.run("quantize", force=True, **noted["run"]["params"])
        assert abs(again["result"]["delta"] - noted["run"]["result"]["delta"]) < 1e-9
    print(f"restored with PostgreSQL {now}: {', '.join(f'{len(lists[name])} {name}' for name in LISTS)} as before")


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3]))
