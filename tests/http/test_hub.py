"""Checkpoints of the hub, against a stand-in for it: fetched, resumed, checked, evicted, discovered."""

import json
import os
import pathlib
import signal
import subprocess
import time

import models
import pytest
from hub_stand_in import StandIn, git_hash, sha256
from service import BINARY, Service, quoted

TOKEN = "hf_secretTokenOfTheTests"
MIDDLE = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 5, "vocab_size": 512}  # 19 MB: two ranges


def files_of(directory, seed=0, **config):
    models.write_llama(directory, seed=seed, **config)
    return {p.name: p.read_bytes() for p in sorted(directory.iterdir())}


@pytest.fixture(scope="module")
def hub():
    stand_in = StandIn()
    yield stand_in
    stand_in.close()


@pytest.fixture(scope="module")
def served(hub, tmp_path_factory):
    if not BINARY.exists():
        pytest.skip("build/deltaq is not built")
    environment = {"HF_ENDPOINT": hub.url + "/", "HF_TOKEN": TOKEN, "DELTAQ_HUB_CACHE": "2G",
                   "http_proxy": "http://127.0.0.1:9"}
    service = Service(tmp_path_factory.mktemp("hub"), "--threads", "1", environment=environment)
    yield service
    assert service.stop() == 0
    assert TOKEN not in service.log.read_text()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return files_of(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def middle(tmp_path_factory):
    return files_of(tmp_path_factory.mktemp("middle"), **MIDDLE)


@pytest.fixture(autouse=True)
def quiet(hub):
    hub.clear()
    yield
    assert hub.leaked() == [], "the token went to another server"


def post_fetch(service, params, **more):
    return service.post("/v1/runs", {"kind": "fetch", "params": params, **more})


def fetch(service, repo, revision="main", **more):
    answer = post_fetch(service, {"repo": repo, "revision": revision, **more})
    assert answer.status in (200, 202), answer.body
    return service.wait(answer.json["id"])


def fetched(service, repo, revision="main", **more):
    run = fetch(service, repo, revision, **more)
    assert run["state"] == "succeeded", run["error"]
    return run["result"]


def planned(service, repo, revision="main", **more):
    answer = post_fetch(service, {"repo": repo, "revision": revision, **more}, dry_run=True)
    assert answer.status == 200, answer.body
    return answer.json


def blobs(service):
    return {p.name for p in (service.data / "hub/blobs").glob("*")}


def snapshots(service):
    return [p for p in (service.data / "hub/snapshots").iterdir() if not p.name.startswith(".")]


def test_a_repo_is_registered_by_a_fetch_run_and_pinned(served, hub, small):
    commit = hub.add("lab/pinned", "step1000-tokens3B",
                     {**small, "README.md": b"words", "pytorch_model.bin": b"x" * 9000, "onnx/model.onnx": b"y" * 9000})
    body = {"trajectory": "pinned", "name": "a", "learning_rate": 0.5, "tags": {"mine": 1},
            "source": {"repo": "lab/pinned", "revision": "step1000-tokens3B"}}
    answer = served.post("/v1/checkpoints", body)
    assert (answer.status == 202 and answer.json["kind"] == "fetch"
            and answer.headers["Location"] == f"/v1/runs/{answer.json['id']}")
    run = served.wait(answer.json["id"])
    assert run["state"] == "succeeded", run["error"]
    assert run["result"]["commit"] == commit and run["progress"]["unit"] == "byte"
    assert (run["params"]["step"], run["params"]["tokens"], run["params"]["learning_rate"]) == (None, None, 0.5)
    assert run["result"]["bytes"] == sum(len(d) for d in small.values()) == run["result"]["downloaded"]
    made = served.get(f"/v1/checkpoints/{run['result']['checkpoint']}").json
    assert made["source"] == {"repo": "lab/pinned", "revision": "step1000-tokens3B", "commit": commit}
    assert (made["step"], made["tokens"], made["learning_rate"], made["tags"]) == (1000, 3 * 10**9, 0.5, {"mine": 1})
    assert (made["architecture"] == "llama" and made["name"] == "a" and made["trajectory"] == "pinned"
            and len(made["sha256"]) == 64)
    asked = {r["path"].rsplit("/", 1)[-1] for r in hub.asked("/resolve/")}
    assert asked == set(small), "what a checkpoint does not need is not fetched"
    assert all(r["token"] == f"Bearer {TOKEN}" for r in hub.asked(server="hub")) and hub.asked(server="store")
    again = served.post("/v1/checkpoints", body)
    assert again.status == 200 and again.json["id"] == answer.json["id"]


def test_what_is_zero_is_known(served, hub, small):
    hub.add("lab/zero", "step7", small)
    made = served.get(
        f"/v1/checkpoints/{fetched(served, 'lab/zero', 'step7', step=0, tokens=0, learning_rate=0)['checkpoint']}").json
    assert (made["step"], made["tokens"], made["learning_rate"]) == (0, 0, 0.0)


def test_fetched_files_are_used_and_listed(served, hub, small, tmp_path):
    hub.add("lab/used", "main", small)
    fetched(served, "lab/used")
    local = served.checkpoint(models.write_llama(served.files / "used"), "used-local", "main")
    there = served.get(f"/v1/checkpoints/{quoted('used/main')}").json
    assert there["sha256"] == local["sha256"] and there["parameters"] == local["parameters"]
    served.sequences("used", models.rows(2, 16))
    runs = [served.run("evaluate", checkpoint=c, dataset="used", sequence_length=None)
            for c in ("used/main", "used-local/main")]
    assert runs[0]["result"] and runs[0]["result"]["loss"] == runs[1]["result"]["loss"]
    assert len(served.get(f"/v1/checkpoints/{there['id']}/tensors").json["items"]) == len(
        models.tensors_of(models.LLAMA, 0))
    assert served.post("/v1/tokenize", {"checkpoint": "used/main", "texts": ["ab"]}).json["ids"] == [[97, 98]]


def test_revisions_share_what_is_the_same(served, hub, small, tmp_path):
    other = files_of(tmp_path, seed=7)
    hub.add("lab/shared", "step1", small)
    hub.add("lab/shared", "step2", other)
    fetched(served, "lab/shared", "step1")
    hub.clear()
    result = fetched(served, "lab/shared", "step2")
    assert result["downloaded"] == len(other["model.safetensors"])
    assert [r["path"].rsplit("/", 1)[-1] for r in hub.asked("/resolve/")] == ["model.safetensors"]
    for name, data in other.items():
        oid = f"sha256-{sha256(data)}" if len(data) > 4096 else f"git-{git_hash(data)}"
        assert oid in blobs(served), name


def test_a_large_file_comes_in_ranges(served, hub, middle):
    hub.add("lab/ranges", "main", middle)
    fetched(served, "lab/ranges")
    ranges = [r["range"] for r in hub.asked(sha256(middle["model.safetensors"]), server="store")]
    assert len(ranges) == 2 and min(ranges).startswith("bytes=0-") and all(r.startswith("bytes=") for r in ranges)
    assert len(hub.asked("resolve.*model.safetensors")) == 1, "one request tells where all ranges are"


@pytest.mark.parametrize("what,details,pattern", [
    ("cut", {"after": 3000}, "blobs"), ("cut", {"after": 0, "times": 3}, "blobs"), ("wrong", {}, "blobs"),
    ("longer", {}, "blobs"), ("status", {"status": 500}, "blobs"), ("status", {"status": 403}, "blobs"),
    ("other-range", {}, "blobs"), ("no-ranges", {"ranges": "bytes=0-"}, "blobs"), ("encoded", {}, "never"),
], ids=["cut", "cut-thrice", "wrong-bytes", "too-many-bytes", "500", "expired", "other-range", "no-ranges", "none"])
def test_what_goes_wrong_once_is_mended(served, hub, middle, small, what, details, pattern, request, tmp_path):
    data = os.urandom(1 << 20) + bytes(17 << 20)
    files = {"config.json": b"{}", "data.bin": data}
    repo = f"lab/mended-{request.node.callspec.id}"
    hub.add(repo, "main", files)
    hub.fail("store", pattern, what, times=details.pop("times", 1), **details)
    run = fetch(served, repo, files=["data.bin"])
    # It is no checkpoint, which is found out once the files are there and checked.
    assert run["state"] == "failed" and run["error"]["code"] != "unavailable", run["error"]
    assert (served.data / "hub/blobs" / f"sha256-{sha256(data)}").read_bytes() == data
    assert what == "wrong" or hub.served < 1.9 * len(data), (
        "what shows in the head of an answer costs no second download")


def test_wrong_bytes_are_never_accepted(served, hub, tmp_path):
    files = files_of(tmp_path, seed=41)
    hub.add("lab/wrong", "main", files)
    hub.fail("store", "blobs", "wrong", times=1000)
    run = fetch(served, "lab/wrong")
    assert (run["state"] == "failed" and run["error"]["code"] == "corrupt"
            and "model.safetensors" in run["error"]["detail"])
    assert f"sha256-{sha256(files['model.safetensors'])}" not in blobs(served)
    hub.clear()
    hub.fail("hub", "resolve-cache.*config.json", "wrong", times=1000)
    run_commit = hub.add("lab/wrong", "main",
                         {**files, "config.json": json.dumps({**models.LLAMA, "nonce": 1}).encode()})
    run = fetch(served, "lab/wrong", name="again")
    assert run["state"] == "failed" and run["error"]["code"] == "corrupt" and "config.json" in run["error"]["detail"]
    assert f"git-{git_hash(hub.repos['lab/wrong']['commits'][run_commit]['config.json'])}" not in blobs(served)
    assert served.get(f"/v1/checkpoints/{quoted('wrong/main')}").status == 404


@pytest.mark.parametrize("headers,words", [
    ({"X-Repo-Commit": "f" * 40}, "commit"), ({"X-Linked-Etag": '"' + "0" * 64 + '"'}, "content"),
    ({"X-Linked-Size": "5"}, "content")])
def test_an_answer_of_another_revision_is_refused(served, hub, tmp_path, headers, words, request):
    files = files_of(tmp_path, seed=len(words) + len(request.node.name))
    hub.add("lab/other", "main", files)
    hub.fail("hub", "resolve/.*model.safetensors", "headers", times=100, headers=headers)
    run = fetch(served, "lab/other", name=request.node.name.replace("/", "-")[:60])
    assert run["state"] == "failed" and run["error"]["code"] == "input_changed" and words in run["error"]["detail"]


@pytest.mark.parametrize("repo,revision,code,words", [
    ("lab/absent", "main", "not_found", "no such repository"),
    ("lab/there", "nowhere", "not_found", "no such revision"),
    ("lab/gated", "main", "forbidden", "gated"), ("lab/empty", "main", "unsupported", "no weights")])
def test_refusals_say_what_to_do(served, hub, small, repo, revision, code, words):
    hub.add("lab/there", "main", small)
    hub.add("lab/gated", "main", small, gated=True, token="another")
    hub.add("lab/empty", "main", {"README.md": b"words"})
    run = fetch(served, repo, revision)
    assert run["state"] == "failed" and run["error"]["code"] == code and words in run["error"]["detail"], run["error"]
    assert TOKEN not in json.dumps(run)


def test_private_repositories_open_with_the_token(served, hub, small):
    hub.add("lab/private", "main", small, token=TOKEN)
    fetched(served, "lab/private")


def test_names_are_held_to_their_form(served):
    for field, bad in [("repo", "a/b/c"), ("repo", "../x"), ("repo", "a b"), ("repo", "http://x"), ("revision", "a..b"),
                       ("revision", "-x"), ("revision", "a b"), ("name", "a/b"), ("trajectory", "a/b"),
                       ("files", ["../x"]), ("files", ["/etc/passwd"]), ("files", ["a//b"])]:
        answer = post_fetch(served, {"repo": "a/b", field: bad})
        assert answer.status == 422 and answer.pointers[0].startswith(f"/params/{field}"), (field, bad, answer.body)
    answer = served.post("/v1/checkpoints", {"trajectory": "x", "name": "y", "source": {"repo": "a/b/c"}})
    assert answer.status == 422 and answer.pointers == ["/source/repo"]
    answer = served.post("/v1/checkpoints", {"trajectory": "x", "name": "y", "source": {"repo": "a/b", "path": "x"}})
    assert answer.status == 422 and answer.pointers == ["/source/path"]


def hostile_trees():
    good = {"type": "file", "path": "model.safetensors", "oid": "0" * 40, "size": 10}
    lfs = {"oid": "1" * 64, "size": 2**62, "pointerSize": 100}
    yield "no-list", {"error": "x"}, "corrupt"
    yield "no-json", b"[{", "corrupt"
    yield "deep", b"[" * 100000, "corrupt"
    yield "double-keys", b'[{"path": "a", "path": "b"}]', "corrupt"
    yield "absurd-size", [{**good, "lfs": lfs}], "too_large"
    yield "negative-size", [{**good, "size": -1}], "unsupported"
    yield "text-size", [{**good, "size": "10"}], "unsupported"
    yield "bad-hash", [{**good, "oid": "../../../../etc/passwd"}], "unsupported"
    yield "traversal", [{**good, "path": "../../model.safetensors"},
                        {**good, "path": "/model.safetensors"}], "unsupported"
    yield "huge", b"[" + b'{"type":"file","path":"x","oid":"0","size":0},' * 250000 + b"{}]", "too_large"


@pytest.mark.parametrize("tree,code", [pytest.param(t, c, id=i) for i, t, c in hostile_trees()])
def test_hostile_listings_are_refused(served, hub, small, tree, code, request):
    hub.add("lab/hostile", "main", small)
    hub.fail("hub", "/tree/", "answer", times=100, body=tree if isinstance(tree, bytes) else json.dumps(tree).encode())
    run = fetch(served, "lab/hostile", name=request.node.callspec.id)
    assert run["state"] == "failed" and run["error"]["code"] == code, run["error"]
    assert not pathlib.Path(served.data / "model.safetensors").exists()


# A file that the cache already holds is not asked for again, so each case has a model that no other test has.
@pytest.mark.parametrize("seed, location", enumerate(["file:///etc/passwd", "ftp://127.0.0.1/x", "http://10.0.0.1/x",
                                                      "http://user:word@127.0.0.1/x", "https://10.0.0.1/x"], 2000))
def test_redirects_lead_nowhere_else(served, hub, tmp_path, seed, location):
    hub.add("lab/astray", "main", files_of(tmp_path, seed=seed))
    hub.fail("hub", "resolve/.*model.safetensors", "redirect", times=100, location=location)
    run = fetch(served, "lab/astray", name=quoted(location)[:40])
    assert run["state"] == "failed" and run["error"]["code"] in ("forbidden", "corrupt"), run["error"]


def test_lists_of_files_have_pages(served, hub, tmp_path):
    files = {f"notes-{i}.txt": b"%d" % i for i in range(50)}
    hub.add("lab/paged", "main", {**files, **files_of(tmp_path, seed=21)})
    hub.page = 7
    try:
        fetched(served, "lab/paged")
        assert len(hub.asked("/tree/")) == 8
    finally:
        hub.page = 1000


def test_named_files_of_a_directory_are_a_checkpoint(served, hub, small):
    hub.add("lab/nested", "main", {f"runs/a/{n}": d for n, d in small.items()})
    result = fetched(served, "lab/nested", files=["runs/a/config.json", "runs/a/model.safetensors"])
    made = served.get(f"/v1/checkpoints/{result['checkpoint']}").json
    assert (made["architecture"] == "llama"
            and made["source"]["files"] == ["runs/a/config.json", "runs/a/model.safetensors"])
    served.sequences("nested", models.rows(1, 8))
    assert served.run("evaluate", checkpoint=made["id"], dataset="nested", sequence_length=None)["state"] == "succeeded"
    run = fetch(served, "lab/nested", files=["runs/b/config.json"], name="b")
    assert run["state"] == "failed" and run["error"]["code"] == "not_found"


def test_a_moved_branch_does_not_move_a_checkpoint(served, hub, small, tmp_path):
    first = hub.add("lab/moving", "main", small)
    made = fetched(served, "lab/moving")
    second = hub.add("lab/moving", "main", files_of(tmp_path, seed=5))
    answer = post_fetch(served, {"repo": "lab/moving"}, force=True)
    again = served.wait(answer.json["id"])["result"]
    assert again == {**made, "downloaded": 0} and again["commit"] == first
    assert fetched(served, "lab/moving", name="newer")["commit"] == second
    answer = post_fetch(served, {"repo": "lab/moving", "revision": "other", "name": "main"})
    assert answer.status == 409 and answer.pointers == ["/params/name"]


def test_a_killed_download_goes_on_where_it_stood(served, hub, tmp_path):
    data = os.urandom(24 << 20)
    hub.add("lab/killed", "main", {"config.json": b"{}", "data.bin": data})
    hold = hub.fail("store", "blobs", "hold", ranges="bytes=0-", after=12 << 20)
    second = hub.fail("store", "blobs", "hold", ranges="bytes=[1-9]", after=7 << 20)
    run = post_fetch(served, {"repo": "lab/killed", "files": ["data.bin"]}).json["id"]
    assert hold.reached.wait(60) and second.reached.wait(60)
    end = time.monotonic() + 60
    while served.get(f"/v1/runs/{run}").json["progress"]["done"] < (18 << 20) and time.monotonic() < end:
        time.sleep(0.02)
    (worker,) = served.workers()
    os.kill(worker, signal.SIGKILL)
    while os.path.exists(f"/proc/{worker}") and time.monotonic() < end + 60:
        time.sleep(0.02)  # its connections take bytes until it is gone
    hub.clear()  # lets go of the connections, and counts from here
    document = served.wait(run)
    assert document["error"]["code"] != "unavailable", document["error"]
    assert (served.data / "hub/blobs" / f"sha256-{sha256(data)}").read_bytes() == data
    assert document["attempt"] == 1 and hub.served <= (24 - 18 + 1) << 20, "what was there is not fetched again"
    assert not list((served.data / "hub/partial").glob(f"*{sha256(data)}*"))


def test_a_cancelled_download_stops_and_goes_on_when_retried(served, hub, tmp_path):
    data = os.urandom(6 << 20)
    hub.add("lab/cancelled", "main", {"config.json": b"{}", "data.bin": data})
    hold = hub.fail("store", "blobs", "hold", after=4 << 20)
    run = post_fetch(served, {"repo": "lab/cancelled", "files": ["data.bin"]}).json["id"]
    assert hold.reached.wait(60)
    end = time.monotonic() + 60
    while served.get(f"/v1/runs/{run}").json["progress"]["done"] < (4 << 20) - (1 << 18) and time.monotonic() < end:
        time.sleep(0.02)
    served.post(f"/v1/runs/{run}/cancel")
    assert served.wait(run)["state"] == "cancelled"
    hub.clear()
    served.post(f"/v1/runs/{run}/retry")
    served.wait(run)
    assert hub.served <= (2 << 20) + (1 << 18)


def test_two_workers_fetch_the_same_once(served, hub, tmp_path):
    hub.add("lab/twice", "main", files_of(tmp_path, seed=51))
    command = [BINARY, "worker", "--data-dir", served.data, "--root", served.files, "--threads", "1"]
    with open(tmp_path / "log", "wb") as log:
        second = subprocess.Popen(command, env=served.environment, stdout=log, stderr=log)
    try:
        hold = hub.fail("store", "blobs", "hold", after=1000)
        runs = [post_fetch(served, {"repo": "lab/twice", "name": n}).json["id"] for n in "ab"]
        assert hold.reached.wait(60)
        end = time.monotonic() + 60
        while {served.get(f"/v1/runs/{r}").json["state"] for r in runs} != {"running"} and time.monotonic() < end:
            time.sleep(0.05)
        hold.released.set()
        documents = [served.wait(r) for r in runs]
        assert [d["state"] for d in documents] == ["succeeded"] * 2 and documents[0]["worker"] != documents[1]["worker"]
        assert len(hub.asked(server="store")) == 1 and min(d["result"]["downloaded"] for d in documents) == 0
    finally:
        second.terminate()
        assert second.wait(40) == 0


# ---- discovery ----

NAMES = {"stage1-step150000-tokens630B": (150000, 630 * 10**9, "stage1"),
         "stage1-step1000-tokens5B": (1000, 5 * 10**9, "stage1"),
         "stage2-ingredient1-step9000-tokens38B": (9000, 38 * 10**9, "stage2"),
         "stage2-ingredient3-step11931-tokens50B": (11931, 50 * 10**9, "stage2"),
         "lc-4k-to-32k-step-20000": (20000, None, "lc-4k-to-32k"), "it-SFT": (None, None, "it"),
         "main": (None, None, "final"), "feature/x": None, "v1.0": None}


def test_discover_reads_names(served, hub, small, tmp_path):
    for i, name in enumerate(NAMES):
        hub.add("lab/olmo", name, {**small, "note.txt": b"%d" % i}, tag=name == "v1.0")
    document = served.get("/v1/trajectories/olmo/discover?repo=lab/olmo").json
    found = {i["revision"]: i for i in document["items"]}
    assert set(found) == set(NAMES) and "parquet" not in found
    for name, expected in NAMES.items():
        item = found[name]
        assert item["understood"] == (expected is not None) and item["checkpoint"] is None
        assert (item["step"], item["tokens"], item["stage"]) == (expected or (None, None, None)), name
    assert found["v1.0"]["kind"] == "tag" and found["stage2-ingredient3-step11931-tokens50B"]["ingredient"] == 3
    assert [i["revision"] for i in document["items"]][:5] == [
        "stage1-step1000-tokens5B", "stage1-step150000-tokens630B", "stage2-ingredient1-step9000-tokens38B",
        "stage2-ingredient3-step11931-tokens50B", "lc-4k-to-32k-step-20000"]
    made = served.post("/v1/trajectories/olmo/discover", {"repo": "lab/olmo"}).json
    assert {c["name"] for c in made["registered"]} == {n for n, e in NAMES.items() if e} and made["existing"] == 0
    assert {s["revision"] for s in made["skipped"]} == {"feature/x", "v1.0"}
    for checkpoint in made["registered"]:
        assert (checkpoint["source"]["commit"] == found[checkpoint["name"]]["commit"]
                and checkpoint["architecture"] is None)
        assert checkpoint["tags"]["stage"] == NAMES[checkpoint["name"]][2]
    again = served.post("/v1/trajectories/olmo/discover", {"repo": "lab/olmo", "match": "stage1-*"}).json
    assert again["registered"] == [] and again["existing"] == 2 and again["skipped"] == []
    ids = {i["revision"]: i["checkpoint"]
           for i in served.get("/v1/trajectories/olmo/discover?repo=lab/olmo&match=stage*").json["items"]}
    assert ids == {c["name"]: c["id"] for c in made["registered"] if c["name"].startswith("stage")}


def test_discover_takes_fewer_and_leaves_main_out(served, hub, small):
    for step in range(0, 1000, 100):
        hub.add("lab/pythia", f"step{step}", {**small, "note.txt": b"%d" % step})
    hub.repos["lab/pythia"]["branches"]["main"] = hub.repos["lab/pythia"]["branches"]["step900"]
    made = served.post("/v1/trajectories/pythia/discover", {"repo": "lab/pythia", "every": 4}).json
    assert (sorted(c["step"] for c in made["registered"]) == [0, 400, 800, 900]
            and [s["revision"] for s in made["skipped"]] == ["main"])
    hub.add("lab/pythia", "step400", {**small, "note.txt": b"moved"})
    made = served.post("/v1/trajectories/pythia/discover", {"repo": "lab/pythia", "match": "step400"}).json
    assert (made["registered"] == [] and made["existing"] == 0
            and [s["revision"] for s in made["skipped"]] == ["step400"])


def test_discover_knows_the_rates_of_published_runs(served, hub, small):
    for name in ("step1000", "step143000"):
        hub.add("EleutherAI/pythia-160m", name, {**small, "note.txt": name.encode()})
    made = served.post("/v1/trajectories/rates/discover", {"repo": "EleutherAI/pythia-160m"}).json["registered"]
    rates = {c["name"]: c["learning_rate"] for c in made}
    assert rates["step1000"] > rates["step143000"] > 0


def test_discover_refuses_precisely(served, hub, small):
    hub.add("lab/plain", "main2", small)
    assert served.get("/v1/trajectories/x/discover").pointers == ["/repo"]
    assert served.get("/v1/trajectories/x/discover?repo=a%20b").pointers == ["/repo"]
    answer = served.get("/v1/trajectories/x/discover?repo=lab/nothing")
    assert answer.status == 422 and "no such repository" in answer.json["detail"]
    assert served.post("/v1/trajectories/x/discover", {"repo": "lab/plain"}).pointers == ["/repo"]
    assert served.get("/v1/trajectories/x").status == 404, "nothing is made"
    hub.fail("hub", "/refs", "answer", times=10, body=b'{"branches": {"a": 1}}')
    assert served.get("/v1/trajectories/x/discover?repo=lab/plain").status == 422


def peak(service):
    """VmHWM: the most bytes that the server ever had."""
    lines = pathlib.Path(f"/proc/{service.process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) << 10


def test_discover_takes_as_many_revisions_as_there_may_be(served, hub, small):
    commit = hub.add("lab/many", "step0", small)
    hub.repos["lab/many"]["branches"] = {f"stage1-step{i}-tokens{i}B": commit for i in range(20_000)}
    answer = served.get("/v1/trajectories/many/discover?repo=lab/many")
    assert answer.status == 200 and len(answer.json["items"]) == 20_000, answer.body[:300]


def test_discover_makes_no_tree_of_what_is_dear(served, hub, small):
    """An answer of 8 MB that would be a tree of 600."""
    hub.add("lab/dear", "step0", small)
    hub.fail("hub", "/refs", "answer", times=10,
             body=b'{"branches": [], "tags": [], "x": [' + b"{}," * 2_700_000 + b"{}]}")
    before = peak(served)
    answer = served.get("/v1/trajectories/x/discover?repo=lab/dear")
    assert answer.status == 422 and "64 MiB of memory" in answer.json["detail"], answer.body
    assert peak(served) < before + (128 << 20), peak(served) >> 20


def test_runs_fetch_what_they_read(served, hub, tmp_path):
    hub.add("lab/lazy", "step10", files_of(tmp_path, seed=31))
    made = served.post("/v1/trajectories/lazy/discover", {"repo": "lab/lazy"}).json["registered"][0]
    answer = served.get(f"/v1/checkpoints/{made['id']}/tensors")
    assert answer.status == 422 and "fetch" in answer.json["detail"]
    assert served.post("/v1/tokenize", {"checkpoint": made["id"], "texts": ["a"]}).pointers == ["/checkpoint"]
    line = served.post("/v1/runs", {"kind": "interpolate", "params": {
        "from": made["id"], "to": made["id"], "dataset": served.sequences("lazy", models.rows(2, 16))["id"],
        "sequence_length": None}})
    assert line.status == 422 and "fetch" in line.json["detail"], line.body
    (served.files / "lazy.txt").write_text("a text for the tokenizer of the checkpoint " * 20)
    served.post("/v1/datasets", {"name": "lazy-text", "path": "lazy.txt", "format": "text"})
    run = served.run("evaluate", checkpoint="lazy/step10", dataset="lazy-text", sequence_length=16)
    assert run["state"] == "succeeded", run["error"]
    filled = served.get(f"/v1/checkpoints/{made['id']}").json
    assert filled["architecture"] == "llama" and len(filled["sha256"]) == 64 and filled["step"] == 10
    assert served.get(f"/v1/checkpoints/{made['id']}/tensors").status == 200


def test_discovered_revisions_are_read_by_a_standing_sweep(served, hub, tmp_path):
    for step, seed in ((0, 301), (1, 302), (2, 301)):
        hub.add("lab/twins", f"step{step}", files_of(tmp_path / str(step), seed=seed))
    served.post("/v1/trajectories/twins/discover", {"repo": "lab/twins", "match": "step0"})
    made = served.post("/v1/sweeps", {"name": "twins", "kind": "health", "standing": True,
                                      "grid": {"checkpoint": {"trajectory": "twins"}}})
    assert made.status == 202, made.body
    served.post("/v1/trajectories/twins/discover", {"repo": "lab/twins"})
    for _ in range(1200):
        runs = served.get("/v1/sweeps/twins").json["runs"]
        if runs["succeeded"] + runs["failed"] == 3:
            break
        time.sleep(0.1)
    assert runs["succeeded"] == 3
    found = served.get("/v1/trajectories/twins/integrity").json
    assert [one["name"] for one in found["identical"][0]["checkpoints"]] == ["step0", "step2"]
    assert [point["relative_l2"] is None for point in found["points"]] == [True, False, False]


def test_a_trajectory_streams_through_a_small_cache(hub, tmp_path):
    count, size = 6, 0
    for i in range(count):
        files = files_of(tmp_path / f"model-{i}", seed=100 + i, hidden_size=64, intermediate_size=256)
        size = len(files["model.safetensors"])
        hub.add("lab/stream", f"step{i}", files)
    service = Service(tmp_path / "service", "--threads", "1", "--hub-cache", str(int(size * 2.5)),
                      environment={"HF_ENDPOINT": hub.url})
    try:
        service.post("/v1/trajectories/stream/discover", {"repo": "lab/stream"})
        service.sequences("ids", models.rows(2, 16))
        made = service.post("/v1/sweeps",
                            {"name": "all", "kind": "evaluate", "base": {"dataset": "ids", "sequence_length": None},
                             "grid": {"checkpoint": {"trajectory": "stream"}}})
        assert made.status == 202, made.body
        for run in service.get("/v1/runs?kind=evaluate").json["items"]:
            assert service.wait(run["id"])["state"] == "succeeded"
            held = sum(p.stat().st_size for p in (service.data / "hub/blobs").iterdir())
            assert held <= size * 2.5 + (1 << 16), "the cache keeps to its bound"
        assert len(hub.asked(server="store")) == count, "each was fetched once"
        assert len(names := sorted([p.name] for p in snapshots(service))) == 2
        assert names == sorted(service.sql("select snapshot from node_checkpoints")), "the queue knows which are here"
        # One that was dropped is fetched again when it is needed again.
        assert service.run("evaluate", checkpoint="stream/step0", dataset="ids", sequence_length=None,
                           max_sequences=1)["state"] == "succeeded"
        hub.add("lab/whale", "main", {"config.json": b"{}", "model.safetensors": bytes(int(size * 3))})
        run = fetch(service, "lab/whale")
        assert (run["state"] == "failed" and run["error"]["code"] == "too_large"
                and "--hub-cache" in run["error"]["detail"])
    finally:
        assert service.stop() == 0


@pytest.mark.parametrize("options,words", [
    (["--hub-endpoint", "http://example.com"], "https"),
    (["--hub-endpoint", "https://u:p@example.com"], "without user"),
    (["--hub-endpoint", "ftp://example.com"], "must be an address"), (["--hub-cache", "many"], "200G")])
def test_bad_settings_are_told_at_start(tmp_path, options, words):
    done = subprocess.run([BINARY, "serve", "--listen", "127.0.0.1:0", "--data-dir", tmp_path, *options],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and words in done.stderr


def test_what_a_fetch_would_bring_is_told_before(served, hub, tmp_path):
    middle = {name: data + (b"\n\n" if name.endswith(".json") else b"")
              for name, data in files_of(tmp_path / "own", seed=77, **MIDDLE).items()}
    wanted = sum(len(data) for data in middle.values())
    hub.add("lab/planned", "step7", {**middle, "README.md": b"words"})
    before = blobs(served)
    told = planned(served, "lab/planned", "step7")
    assert told["problem"] is None and told["fits"] and (told["tokens"], told["flops"]) == (0, 0)
    assert (told["fetched_bytes"] == told["disk"]["written_bytes"] == told["disk"]["peak_bytes"] == wanted
            <= told["disk"]["available_bytes"])
    assert (blobs(served) == before
            and not [r for r in served.get("/v1/runs?limit=200").json["items"]
                     if r["params"].get("repo") == "lab/planned"])
    assert fetched(served, "lab/planned", "step7")["downloaded"] == wanted
    asked = len(hub.asked())
    assert planned(served, "lab/planned", "step7")["fetched_bytes"] == 0 and len(hub.asked()) == asked, "all is here"
    hub.add("lab/planned", "step8", {**middle, "config.json": middle["config.json"] + b" "})
    told = planned(served, "lab/planned", "step8")
    assert (told["fetched_bytes"] == len(middle["config.json"]) + 1 and told["seconds"] > 0
            and "bytes over" in told["seconds_from"])
    refused = planned(served, "lab/none")
    run = fetch(served, "lab/none")
    assert refused["problem"]["code"] == run["error"]["code"] and refused["problem"]["detail"] == run["error"]["detail"]


def test_a_sweep_of_fetches_asks_the_hub_about_its_first_runs(served, hub, small):
    names = [f"step{i}" for i in range(18)]
    for name in names:
        hub.add("lab/many", name, {**small, "config.json": small["config.json"] + b" "})
    answer = served.post("/v1/sweeps", {"name": "many", "kind": "fetch", "base": {"repo": "lab/many"},
                                        "grid": {"revision": names}, "dry_run": True})
    assert answer.status == 200, answer.body
    told = answer.json
    assert told["runs"] == 18 and told["fits"] and told["total"]["fetched_bytes"] is None
    known = [plan for plan in told["plans"] if plan["fetched_bytes"] is not None]
    assert len(known) == 16 and all(plan["fits"] for plan in known)
    assert all("16 runs" in plan["seconds_from"] for plan in told["plans"] if plan["fetched_bytes"] is None)
