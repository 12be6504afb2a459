"""The verbs of the command line that speak to a server: the tests drive the real binary against a real server."""

import contextlib
import csv
import http.server
import io
import json
import os
import re
import resource
import signal
import socket
import subprocess
import threading
import time

import models
import pytest
from service import BINARY, Service

LIMIT = 120
DONE, FAILED, USAGE, PENDING, UNREACHABLE, REFUSED = range(6)


def verb(service, *words, **more):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DELTAQ_")}
    environment |= {"HOME": "/nowhere", "DELTAQ_URL": service.url if service else "http://127.0.0.1:1",
                    **more.pop("environment", {})}
    environment.pop("XDG_CONFIG_HOME", None)
    words = [word if isinstance(word, bytes) else str(word) for word in words]
    return subprocess.run([BINARY, *words], capture_output=True, encoding="utf-8", errors="replace", timeout=LIMIT,
                          env=environment, **more)


@pytest.fixture(scope="module")
def laid(service):
    """Two checkpoints and a dataset, registered by the command line alone."""
    root = service.files / "verbs"
    for step in (10, 20):
        models.write_llama(root / f"step{step}", seed=700 + step)
    done = verb(service, "register", root, "--trajectory", "verbs")
    assert done.returncode == DONE and sorted(done.stdout.split()) == ["step10", "step20"], done.stderr
    return service.sequences("verbs", models.rows(4, 32))["name"]


def quantize(service, data, *more, checkpoint="verbs/step10"):
    return verb(service, "run", "quantize", checkpoint, "--method", "rtn", "--bits", "3", "--group-size", "32",
                "--evaluation.dataset", data, "--evaluation.sequence-length", "null", *more)


def test_a_run_is_posted_waited_for_and_told(service, laid):
    done = quantize(service, laid, "--wait")
    assert done.returncode == DONE, done.stderr
    lines = dict(line.split(None, 1) for line in done.stdout.splitlines())
    run = service.get(f"/v1/runs/{lines['id']}").json
    assert run["params"]["method"]["bits"] == 3 and run["params"]["evaluation"]["sequence_length"] is None
    assert (lines["state"].strip() == "succeeded"
            and float(lines["delta"]) == pytest.approx(run["result"]["delta"], rel=1e-5))
    again = quantize(service, laid, "--wait", "--json")
    assert json.loads(again.stdout) == service.get(f"/v1/runs/{lines['id']}").json  # an equal run is the same one
    assert quantize(service, laid).stdout.strip() == lines["id"]
    assert quantize(service, laid, "--force", "--wait").stdout.split()[1] != lines["id"]


def test_flags_reach_into_the_body_as_the_tables_have_it(service, laid):
    # A name of the whole path, "_" for "-", a recipe, a file of JSON, lists by commas:
    # each makes the same request as JSON would.
    done = verb(service, "run", "quantize", "--checkpoint=verbs/step20",
                "--method", '{"name": "awq", "clip": true}', "--method.bits", "4", "--no-clip",
                "--group_size", "32", "--calibration.dataset", laid, "--calibration.sequence-length=null",
                "--evaluation", json.dumps({"dataset": laid, "sequence_length": None}), "--dry-run")
    assert done.returncode == DONE, done.stderr
    assert json.loads(done.stdout)["params"]["method"]["clip"] is False
    path = service.files / "evaluation.json"
    path.write_text(json.dumps({"dataset": laid, "sequence_length": None}))
    named = json.loads(verb(service, "run", "quantize", "verbs/step20", "--method", "bnb-nf4",
                            "--evaluation", f"@{path}", "--dry-run").stdout)
    assert named["params"]["method"] == json.loads(verb(service, "run", "quantize", "verbs/step20", "--method", "nf4",
                                                        "--block-size", "64", "--double-quant", "--evaluation",
                                                        f"@{path}", "--dry-run").stdout)["params"]["method"]
    sharp = verb(service, "run", "sharpness", "verbs/step20", "--dataset", laid, "--sequence-length", "null",
                 "--estimators", "trace", "--probes", "2", "--wait")
    assert (sharp.returncode == DONE and "trace " in sharp.stdout
            and "spectrum" not in sharp.stdout.split("probes")[0]), sharp.stdout + sharp.stderr
    average = verb(service, "run", "average", "verbs/step10", "verbs/step20", "--name", "both", "--wait", "--json")
    assert average.returncode == DONE and len(json.loads(average.stdout)["params"]["checkpoints"]) == 2, average.stderr


def test_options_may_stand_before_the_kind(service, laid):
    """Those of every run; a flag of the kind's own parameters says nothing before it."""
    words = ["quantize", "verbs/step10", "--method", "rtn", "--bits", "3", "--evaluation.dataset", laid, "--dry-run"]
    def params(*words):
        done = verb(service, "run", *words)
        assert done.returncode == DONE, done.stderr
        return json.loads(done.stdout)["params"]

    wanted = params(*words)
    assert wanted["method"]["bits"] == 3
    for before in (["--url", service.url], [f"--url={service.url}", "--json"], ["--json", "--timeout", "5", "--wait"],
                   ["--no-force"]):
        assert params(*before, *words) == wanted, before
    grid = ["--along", "verbs", "--method", "rtn", "--grid", "bits=3,4", "--evaluation.dataset", laid, "--dry-run"]
    assert json.loads(verb(service, "sweep", "--wait", "quantize", *grid).stdout)["runs"] == 4


def test_faults_of_the_server_are_told_with_the_flag_they_are_of(service, laid):
    done = verb(service, "run", "quantize", "verbs/step10", "--method", "gptq", "--bits", "7", "--damp-percent", "9",
                "--evaluation.dataset", laid)
    assert done.returncode == REFUSED and done.stdout == ""
    assert ("--bits (/params/method/bits): " in done.stderr
            and "--damp-percent (/params/method/damp_percent): " in done.stderr)
    missing = verb(service, "run", "quantize", "verbs/none", "--method", "rtn", "--evaluation.dataset", laid)
    assert missing.returncode == REFUSED and "--checkpoint (/params/checkpoint)" in missing.stderr
    incomplete = verb(service, "run", "evaluate", "verbs/step10")
    assert incomplete.returncode == REFUSED
    assert re.fullmatch(r"deltaq run: --dataset \(/params/dataset\): is missing.*\(HTTP 422\)\n", incomplete.stderr)


def test_a_run_that_fails_says_so_by_its_exit_status(service, laid):
    path = models.write_llama(service.files / "gone", seed=790)
    service.checkpoint(path, "verbs-gone", "one")
    for file in path.glob("*.safetensors"):
        file.unlink()
    done = verb(service, "run", "evaluate", "verbs-gone/one", "--dataset", laid, "--sequence-length", "null", "--wait")
    assert done.returncode == FAILED and "deltaq run: failed: " in done.stderr and "failed" in done.stdout


WRONG = [
    (["run"], "expected the kind"), (["run", "dance"], '"dance"'), (["run", "evaluate", "--colour", "red"], "--colour"),
    (["run", "quantize", "--bits", "four"], "--bits must be a whole number, found \"four\""),
    (["run", "quantize", "--calibration", "{"], "--calibration must be"),
    (["run", "quantize", "--method", '{"name": "rtn", "bits": 3, "bits": 4}'], "--method must be"),
    (["run", "quantize", "--bits", "3", "--method.bits", "4"], "same parameter"),
    (["run", "quantize", "--bits"], "--bits needs a value"),
    (["run", "evaluate", "a", "b"], '"b"'), (["run", "evaluate", "a", "--checkpoint", "b"], '"a"'),
    (["run", "evaluate", "--url", "ftp://here", "a"], "ftp://here"),
    (["run", "evaluate", "--url", "http://u:p@here", "a"], "no address"),
    (["curve", "a", "--url", "http://here#x"], "no address"),
    (["run", "evaluate", "a", "--timeout", "-1", "--wait", "--token", "a b"], "token"),
    (["run", "--dataset", "evaluate", "quantize", "a"], "before its parameters"),
    (["run", "--wait", "dance"], '"dance"'),
    (["sweep"], "expected the kind"), (["sweep", "quantize", "--grid", "bits"], "FIELD=VALUES"),
    (["sweep", "quantize", "--grid", "colour=1"], '"colour"'),
    (["sweep", "quantize", "--grid", "bits=3,x"], "whole number"),
    (["sweep", "quantize", "--grid", "bits=3,"], "whole number"),
    (["sweep", "quantize", "--grid", "bits=3,[4]"], "found \"[4]\""),
    (["sweep", "quantize", "--grid", "bits=[3"], "JSON array"),
    (["sweep", "quantize", "--grid", "sym=yes"], '--sym must be true or false, found "yes"'),
    (["sweep", "quantize", "--grid", "bits=3", "--grid", "method.bits=4"], "method.bits is there twice"),
    (["sweep", "quantize", "--grid", "group-size=16", "--grid", "method.group_size=32"],
     "method.group_size is there twice"),
    (["sweep", "quantize", "--grid", "group size=16"], 'no parameter "group size"; see deltaq sweep quantize --help'),
    (["sweep", "quantize", "--grid", "checkpoint=a", "--along", "b"], "not both"),
    (["register", b"/tmp/\xff"], "not UTF-8"), (["run", "average", "a", b"\xff"], "not UTF-8"),
    (["run", "evaluate", b"\xff"], "must be UTF-8"), (["curve"], "expected a trajectory"),
    (["sweep", "extend"], "its id or name"), (["sweep", "cancel", "a", "--dry-run"], "--dry-run"),
    (["sweep", "extend", "a"], "--grid"), (["sweep", "cancel", "a", "--grid", "bits=3"], "go with extend"),
    (["sweep", "show", "a", "--wait"], "sweep wait"), (["sweep", "delete", "a", "--wait"], "sweep wait"),
    (["sweep", "delete", "a", "--json"], "--json"), (["sweep", "show", "a", "--timeout", "5"], "goes with --wait"),
    (["run", "evaluate", "a", "--timeout", "5"], "goes with --wait"),
    (["sweep", "health", "--timeout", "5"], "goes with --wait"),
    (["gate", "check", "a", "--checkpoint", "b", "--timeout", "5"], "goes with --wait"),
    (["ready", "--timeout", "5"], "goes with --wait"),
    (["sweep", "quantize", "a"], '"a"'), (["sweep", "dance", "a"], '"dance"'),
    (["curve", "a", "--csv", "--json"], "not both"),
    (["curve", "a", "--wait"], "--wait"), (["gate", "look", "a"], "gate check"),
    (["gate", "check", "a"], "--checkpoint is missing"),
    (["register"], "expected a directory"), (["register", "/nowhere/at/all"], "--as"),
    (["register", "/tmp", "--as", "thing"], "thing"),
    (["register", "/tmp", "--as", "trajectory", "--step", "1"], "--step is of a checkpoint"),
    (["register", "/tmp", "--as", "checkpoint", "--learning-rate", "1e-400"], "must be a number"),
    (["completion", "fish"], "bash"), (["completion"], "bash"),
    (["run", "evaluate", "a", "--client-file", "/nowhere"], "/nowhere"),
]


@pytest.mark.parametrize("words,told", WRONG)
def test_a_wrong_command_line_is_refused_before_anything_is_sent(words, told):
    done = verb(None, *words)
    assert done.returncode == USAGE and told in done.stderr and done.stdout == "", (done.returncode, done.stderr)


@pytest.mark.parametrize("words", [["run", "health", "a"], ["sweep", "health"], ["curve", "a"],
                                   ["sweep", "wait", "a", "--timeout", "1"], ["sweep", "cancel", "a", "--wait"],
                                   ["gate", "check", "a", "--checkpoint", "b"],
                                   ["register", "/tmp", "--as", "trajectory"]])
def test_no_server_has_an_exit_status_of_its_own(words):
    done = verb(None, *words)
    assert done.returncode == UNREACHABLE and "no answer from http://127.0.0.1:1" in done.stderr


def test_a_file_of_text_is_registered_as_a_dataset_by_its_name(service, laid):
    for name, text, format in (("verbs-held-out.txt", "a few words. " * 20, "text"),
                               ("verbs-held-out.jsonl", json.dumps({"text": "a few words"}) + "\n", "jsonl")):
        (service.files / name).write_text(text)
        done = verb(service, "register", service.files / name, "--json")
        answer = json.loads(done.stdout)
        assert (done.returncode, answer["name"], answer["format"]) == (DONE, name, format), done
        assert verb(service, "register", service.files / name, "--as", "dataset", "--name", "verbs-" + format
                    ).returncode == DONE


def test_a_text_that_was_taken_for_a_checkpoint_is_told_to_be(service, laid):
    text = service.files / "held-out"
    text.write_text("a few words. " * 20)
    done = verb(service, "register", text, "--trajectory", "verbs")
    assert done.returncode == REFUSED and "it was taken for a checkpoint; --as says what it is" in done.stderr, done
    told = verb(service, "register", text, "--as", "checkpoint", "--trajectory", "verbs").stderr
    assert re.fullmatch(rf"deltaq register: /source/path \({text}\): not a file of weights; .*\(HTTP 422\)\n", told)
    assert verb(service, "register", text, "--as", "dataset", "--format", "text").returncode == DONE


def test_a_sweep_is_posted_and_counted(service, laid):
    done = verb(service, "sweep", "quantize", "--along", "verbs", "--method", "rtn", "--group-size", "32",
                "--grid", "bits=3,4", "--grid", 'sym=[true]', "--evaluation.dataset", laid,
                "--evaluation.sequence-length", "null", "--name", "verbs", "--wait")
    assert done.returncode == DONE, done.stderr
    counts = dict(line.split() for line in done.stdout.splitlines())
    total = int(counts["total"])
    assert int(counts["succeeded"]) == total >= 4
    assert service.get("/v1/sweeps/verbs").json["grid"]["method.bits"] == [3, 4]
    for flag in ("group_size", "group-size", "method.group_size", "method.group-size"):
        told = verb(service, "sweep", "quantize", "--along", "verbs", "--grid", f"{flag}=16,32", "--grid", "method=rtn",
                    "--bits", "8", "--evaluation.dataset", laid, "--evaluation.sequence-length", "null", "--dry-run")
        assert told.returncode == DONE, told.stderr
        methods = [plan["params"]["method"] for plan in json.loads(told.stdout)["plans"]]
        assert sorted((m["bits"], m["group_size"]) for m in methods) == [(8, 16), (8, 32)]
    told = verb(service, "sweep", "quantize", "--along", "verbs", "--method", "rtn", "--bits", "4", "--grid",
                "sym=true,false", "--evaluation.dataset", laid, "--evaluation.sequence-length", "null", "--dry-run")
    assert told.returncode == DONE, told.stderr
    assert {plan["params"]["method"]["sym"] for plan in json.loads(told.stdout)["plans"]} == {True, False}
    refused = verb(service, "sweep", "quantize", "--along", "verbs", "--method", "rtn", "--grid", "bits=3,7",
                   "--evaluation.dataset", laid)
    assert refused.returncode == REFUSED and "/grid/method.bits" in refused.stderr


def test_a_sweep_is_shown_extended_tried_again_cancelled_and_deleted(service, laid):
    posted = verb(service, "sweep", "quantize", "--grid", "checkpoint=verbs/step10", "--method", "rtn", "--group-size",
                  "32", "--grid", "bits=4", "--evaluation.dataset", laid, "--evaluation.sequence-length", "null",
                  "--name", "verbs acts")
    assert posted.returncode == DONE, posted.stderr
    waited = verb(service, "sweep", "wait", "verbs acts")
    assert waited.returncode == DONE and dict(line.split() for line in waited.stdout.splitlines())["total"] == "1"
    wider = ["--grid", "bits=3,4", "--grid", 'checkpoint=["verbs/step20"]']
    dry = verb(service, "sweep", "extend", "verbs acts", *wider, "--dry-run", "--wait")
    assert dry.returncode == DONE and json.loads(dry.stdout)["runs"] == 3, dry.stderr
    assert service.get("/v1/sweeps/verbs%20acts").json["runs"]["total"] == 1
    extended = verb(service, "sweep", "extend", "verbs acts", *wider, "--wait")
    assert extended.returncode == DONE, extended.stderr
    sweep = service.get("/v1/sweeps/verbs%20acts").json
    assert sweep["grid"] == {"checkpoint": ["verbs/step10", "verbs/step20"], "method.bits": [4, 3]}
    assert sweep["runs"]["succeeded"] == sweep["runs"]["total"] == 4
    shown = verb(service, "sweep", "show", "verbs acts", "--json")
    assert json.loads(shown.stdout) == sweep
    refused = verb(service, "sweep", "extend", "verbs acts", "--grid", "method.group_size=16")
    assert refused.returncode == REFUSED and "/grid/method.group_size" in refused.stderr
    unread = verb(service, "sweep", "extend", "verbs acts", "--grid", "bits=x")
    assert unread.returncode == USAGE and "whole number" in unread.stderr
    for action in ("retry-failed", "cancel"):
        assert verb(service, "sweep", action, "verbs acts").stdout.strip() == sweep["id"]
    gone = verb(service, "sweep", "delete", "verbs acts")
    assert (gone.returncode, gone.stdout) == (DONE, "") and service.get("/v1/sweeps/verbs%20acts").status == 404
    assert verb(service, "sweep", "delete", "verbs acts").returncode == REFUSED


def test_the_help_and_the_manual_of_sweep_list_its_actions():
    words = ["show", "wait", "extend", "retry-failed", "cancel", "delete"]
    said = verb(None, "sweep", "--help").stdout
    assert re.findall(r"^  ([a-z-]+) +[A-Z]", said.split("\nActions:\n")[1].split("\nThe options")[0], re.M) == words
    page = verb(None, "manual", "sweep").stdout
    section = page.split(".SH ACTIONS\n")[1].split(".SH ")[0]
    assert re.findall(r"^\.B (.*)$", section.replace("\\-", "-"), re.M) == words
    assert '.SS "Parameters of the request: extend"' in page and "dry" in page.split("request: extend")[1]
    assert "--dry-run" in verb(None, "sweep", "extend", "--help").stdout
    assert "ACTIONS" not in verb(None, "manual", "run").stdout


def test_a_curve_as_a_table_csv_and_json(service, laid):
    path = "/v1/curves?trajectory=verbs&metric=delta&x=step&bits=3"
    assert quantize(service, laid, "--wait").returncode == DONE
    text = verb(service, "curve", "verbs", "--bits", "3", "--csv")
    rows = list(csv.DictReader(io.StringIO(text.stdout)))
    assert rows == list(csv.DictReader(io.StringIO(service.get(path, {"Accept": "text/csv"}).body.decode()))) and rows
    assert json.loads(verb(service, "curve", "verbs", "--bits", "3", "--json").stdout) == service.get(path).json
    table = verb(service, "curve", "verbs", "--bits", "3").stdout
    assert "verbs, rtn 3-bit g32" in table and "step10" in table
    (full,) = service.get("/v1/curves?trajectory=verbs&metric=loss_fp").json["series"]
    table = verb(service, "curve", "verbs", "--metric", "loss_fp").stdout
    assert full["label"] == "" and table.splitlines()[0] == "verbs"
    wrong = verb(service, "curve", "verbs", "--bits", "x")
    assert wrong.returncode == REFUSED and "bits" in wrong.stderr


def test_a_curve_has_every_digit_of_its_tokens_and_says_that_it_has_no_point(service, laid):
    assert quantize(service, laid, "--wait").returncode == DONE
    empty = verb(service, "curve", "verbs", "--x", "tokens")
    assert (empty.returncode, empty.stdout) == (DONE, "") and "has both tokens and delta" in empty.stderr
    service.request("PATCH", "/v1/checkpoints/verbs%2Fstep10", {"tokens": 2998927360123})
    told = verb(service, "curve", "verbs", "--x", "tokens")
    assert told.stdout.splitlines()[2].split()[0] == "2998927360123" and told.stderr == ""


def test_options_of_a_curve_are_the_routes_query():
    routes = subprocess.run([BINARY, "routes"], capture_output=True, text=True, check=True).stdout.splitlines()
    query = next(line.split()[2:] for line in routes if line.startswith("GET /v1/curves "))
    page = verb(None, "help", "curve").stdout
    offered = {line.split()[0][2:] for line in page.splitlines() if line.startswith("  --") and "[DELTAQ" not in line}
    assert offered - {"csv", "json"} == set(query) - {"trajectory+", "format"}  # --csv and --json say the form


def test_every_parameter_of_every_kind_is_a_flag():
    """The schema and the help come from one table: what openapi.yaml names, `run KIND` understands by its path."""
    schemas = json.loads(subprocess.run([BINARY, "schema"], capture_output=True, text=True, check=True).stdout)
    for kind in subprocess.run([BINARY, "complete", "--", "run", ""], capture_output=True, text=True,
                               check=True).stdout.split():
        assert verb(None, "run", kind, "--help").returncode == DONE
        listed = verb(None, "complete", "--", "run", kind, "--").stdout.split()
        assert len(listed) == len(set(listed)), kind
        for name in schemas[f"{kind.capitalize()}Params"]["properties"]:
            assert "--" + name.replace("_", "-") in listed, (kind, name)


def test_where_the_server_is_may_stand_in_a_file(service, laid, tmp_path):
    file = tmp_path / "client.json"
    file.write_text(json.dumps({"url": service.url, "token": "x"}))
    file.chmod(0o644)
    bare = {"DELTAQ_URL": ""}
    refused = verb(service, "curve", "verbs", "--client-file", file, environment=bare)
    assert refused.returncode == USAGE and "chmod 600" in refused.stderr
    file.write_text(json.dumps({"url": service.url}))
    assert verb(service, "curve", "verbs", "--client-file", file, environment=bare).returncode == DONE
    for text, told in ((b'{"url": 5}', '"url" must be a text'), (b"[]", "expected a JSON object"),
                       (b'{"url": "http://127.0.0.1:1", "url": "http://127.0.0.1:2"}', "duplicate")):
        wrong = tmp_path / "wrong.json"
        wrong.write_bytes(text)
        done = verb(service, "curve", "verbs", "--client-file", wrong, environment=bare)
        assert done.returncode == USAGE and told in done.stderr and "no answer" not in done.stderr, text
    (tmp_path / "deltaq").mkdir()
    file.rename(tmp_path / "deltaq" / "client.json")
    done = subprocess.run([BINARY, "curve", "verbs"], capture_output=True, text=True,
                          env={"XDG_CONFIG_HOME": str(tmp_path)}, timeout=LIMIT)
    assert done.returncode == DONE, done.stderr


def test_a_token_is_sent_and_its_lack_told(tmp_path):
    service = Service(tmp_path, "--workers", "0")
    try:
        token = subprocess.run([BINARY, "token", "create", "--scope", "read",
                                "--data-dir", service.data], capture_output=True, text=True, check=True).stdout.strip()
        assert service.stop() == 0
        service.start()
        without = verb(service, "curve", "nothing")
        assert without.returncode == REFUSED and "401" in without.stderr and "DELTAQ_TOKEN" in without.stderr
        assert verb(service, "curve", "nothing", environment={"DELTAQ_TOKEN": token}).stderr != without.stderr
        scope = verb(service, "run", "health", "nothing", "--token", token)
        assert scope.returncode == REFUSED and "403" in scope.stderr
        waiting = verb(service, "run", "health", "nothing", "--token", "other")
        assert waiting.returncode == REFUSED and "401" in waiting.stderr
    finally:
        service.stop()


def test_a_wait_that_is_over_is_pending(tmp_path):
    service = Service(tmp_path, "--workers", "0")
    try:
        service.checkpoint(models.write_llama(service.files / "one", seed=1), "t", "one")
        done = verb(service, "run", "health", "t/one", "--wait", "--timeout", "1")
        cancelled = service.get("/v1/runs").json["items"][0]["id"]
        assert done.returncode == PENDING and "not finished after 1 seconds" in done.stderr
        assert f"waiting for {cancelled}, which does not stop when this command does" in done.stderr
        service.post(f"/v1/runs/{cancelled}/cancel")
        again = verb(service, "run", "health", "t/one", "--wait", "--timeout", "1", "--json")
        assert again.returncode in (FAILED, PENDING)
    finally:
        service.stop()


def test_a_timeout_that_is_no_number_is_refused_before_work_is_posted(tmp_path):
    service = Service(tmp_path, "--workers", "0")
    try:
        service.checkpoint(models.write_llama(service.files / "one", seed=1), "t", "one")
        wrong = ["--wait", "--timeout", "10m"]
        for words in (["run", "health", "t/one"], ["sweep", "health", "--along", "t", "--name", "kept"]):
            done = verb(service, *words, *wrong)
            assert done.returncode == USAGE and '--timeout must be a whole number' in done.stderr, done
            assert service.get("/v1/runs").json["items"] == service.get("/v1/sweeps").json["items"] == []
        assert verb(service, "sweep", "health", "--along", "t", "--name", "kept").returncode == DONE
        assert verb(service, "sweep", "cancel", "kept", *wrong).returncode == USAGE
        assert service.get("/v1/sweeps/kept").json["runs"]["queued"] == 1
    finally:
        service.stop()


@pytest.mark.parametrize("words", [["curve", "a"], ["gate", "check", "a", "--checkpoint", "b", "--wait"]])
@pytest.mark.parametrize("state,expected", [("403 Forbidden", "lost (HTTP 403)"), ("200 OK", "no JSON")])
def test_a_server_that_answers_something_else_is_told(words, state, expected):
    with socket.create_server(("127.0.0.1", 0)) as other:
        url = "http://127.0.0.1:%d" % other.getsockname()[1]
        with subprocess.Popen([BINARY, *words, "--url", url], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as asking:
            connection, _ = other.accept()
            connection.recv(4096)
            head = f"HTTP/1.1 {state}\r\nContent-Length: 4\r\nContent-Type: text/plain\r\n\r\n"
            connection.sendall(head.encode() + b"lost")
            connection.close()
            printed, told = asking.communicate(timeout=LIMIT)
    assert asking.returncode == REFUSED and expected in told and printed == ""


@pytest.mark.parametrize("words,offered", [
    ([""], "run"), (["ru"], "run"), (["run", "quan"], "quantize"),
    (["run", "quantize", "--evaluation.d"], "--evaluation.dataset"),
    (["run", "quantize", "--method", "gp"], "gptqmodel-7"), (["run", "quantize", "--no-s"], "--no-sym"),
    (["completion", "z"], "zsh"), (["curve", "x", "--me"], "--metric"),
])
def test_completion_knows_the_tables(words, offered):
    assert offered in verb(None, "complete", "--", *words).stdout.split()


def test_bash_completes_with_the_script():
    script = (f'PATH={BINARY.parent}:$PATH; source <(deltaq completion bash); '
              f'COMP_WORDS=(deltaq run quantize --rotation ""); COMP_CWORD=4; _deltaq; echo "${{COMPREPLY[@]}}"')
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=LIMIT)
    assert done.stdout.split() == ["none", "hadamard"], done.stderr


def test_ready_asks_and_waits(service):
    done = verb(service, "ready")
    assert (done.returncode, done.stdout) == (DONE, "ready\n")
    done = verb(None, "ready")
    assert done.returncode == UNREACHABLE and done.stdout == "" and "127.0.0.1:1" in done.stderr
    done = verb(None, "ready", "--wait", "--timeout", "1")
    assert done.returncode == UNREACHABLE and "127.0.0.1:1" in done.stderr
    assert verb(service, "ready", "--wait", "--timeout", "x").returncode == USAGE


@contextlib.contextmanager
def stand_in(*answers):
    """A server that gives these answers (status, document, headers) one after the other, and the last one for ever.
    Yields its address and the list of what was asked: method, path, body."""
    asked = []

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, document, headers = answers[min(len(asked), len(answers) - 1)]
            asked.append((self.command, self.path, json.loads(body) if body else None))
            text = json.dumps(document).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", "Content-Length": len(text), **headers}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(text)

        do_POST = do_GET

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


CHECK = ["gate", "check", "g", "--checkpoint", "a/b", "--wait"]


def test_a_wait_without_an_answer_is_not_pending():
    done = verb(None, *CHECK, "--timeout", "2")
    assert done.returncode == UNREACHABLE and "no answer from http://127.0.0.1:1" in done.stderr, done
    assert "not finished" not in done.stderr


def test_a_wait_for_a_server_that_never_answers_ends_soon_after_its_time():
    """It took the whole time limit of a request, two minutes."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        done = verb(None, *CHECK, "--timeout", "1", "--url", "http://127.0.0.1:%d" % silent.getsockname()[1])
        assert done.returncode == UNREACHABLE and "no answer from" in done.stderr, done
        assert time.monotonic() - began < 60


@pytest.mark.parametrize("status", [503, 429, 502, 504])
@pytest.mark.parametrize("before", [[], [(200, {"verdict": "pending", "rules": []}, {})]])
def test_a_wait_that_ends_with_a_server_that_is_away_says_so_in_time(status, before):
    """Retry-After is longer than the time that is left."""
    with stand_in(*before, (status, {"detail": "come back"}, {"Retry-After": 60})) as (url, asked):
        began = time.monotonic()
        done = verb(None, *CHECK, "--timeout", "2", "--url", url)
        assert done.returncode == REFUSED and "come back" in done.stderr and done.stdout == "", done
        assert time.monotonic() - began < 20 and len(asked) == len(before) + 2


@pytest.mark.parametrize("status", [503, 502])
def test_a_server_that_is_back_when_the_time_ends_is_heard(status):
    with stand_in((status, {"detail": "come back"}, {"Retry-After": 60}), (200, {"verdict": "pass"}, {})) as (url, _):
        assert verb(None, *CHECK, "--timeout", "1", "--url", url).stdout == "pass\n"


@pytest.mark.parametrize("words", [["curve", "a", "--csv"], ["curve", "a", "--json"]])
def test_output_that_is_cut_fails(tmp_path, words):
    """Where the disk is full in the middle of an answer, what is left to flush may be nothing."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

    with stand_in((200, {"series": list(range(5000))}, {})) as (url, _), open(tmp_path / "out", "wb") as out:
        done = subprocess.run([BINARY, *words, "--url", url], stdout=out, stderr=subprocess.PIPE, preexec_fn=limit,
                              text=True, timeout=LIMIT)
    assert done.returncode == FAILED and "the output is incomplete" in done.stderr
    with open("/dev/full", "w") as full:
        done = subprocess.run([BINARY, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=LIMIT)
    assert done.returncode == FAILED and "incomplete: No space left on device" in done.stderr


@pytest.mark.parametrize("end", ["", "/", "//"])
def test_a_path_of_the_server_s_machine_is_called_by_its_last_directory(end):
    """Also with the slash that completion leaves there."""
    place = "/nowhere/here/pythia/step1000"
    with stand_in((201, {"id": "one", "registered": [], "failed": []}, {})) as (url, asked):
        for words in ([place + end, "--as", "checkpoint"], [place + end, "--as", "dataset", "--format", "text"],
                      [place + end, "--as", "trajectory"], ["/" + end, "--as", "trajectory", "--trajectory", "all"]):
            assert verb(None, "register", *words, "--url", url).returncode == DONE
    source = {"path": place}
    assert asked[0][1:] == ("/v1/checkpoints", {"name": "step1000", "trajectory": "pythia", "source": source})
    assert asked[1][1:] == ("/v1/datasets", {"name": "step1000", "path": place, "format": "text"})
    assert [path for _, path, _ in asked[2:]] == ["/v1/trajectories/step1000/scan", "/v1/trajectories/all/scan"]
    assert [body["path"] for _, _, body in asked[2:]] == [place, "/"]


def test_ready_waits_until_the_database_answers():
    """A stand-in that is not ready twice, as a server is whose database is away, and then is."""
    away = (503, {"title": "x", "status": 503, "detail": "no database"}, {"Content-Type": "application/problem+json"})
    with stand_in(away, away, (200, {"database": "ok"}, {})) as (url, asked):
        done = verb(None, "ready", "--url", url)
        assert done.returncode == FAILED and "no database" in done.stderr and asked == [("GET", "/readyz", None)]
        done = verb(None, "ready", "--wait", "--url", url)
        assert (done.returncode, done.stdout) == (DONE, "ready\n") and asked == [("GET", "/readyz", None)] * 3
