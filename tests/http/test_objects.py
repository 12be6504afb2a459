"""Checkpoints and datasets in buckets, against an S3 server that others wrote: fetched, resumed, checked, signed,
refused clearly."""

import base64
import hashlib
import json
import os
import shutil
import subprocess

import models
import object_store
import pytest
from service import BINARY, Service, quoted
from test_watch import registered, scan, state, until

MIDDLE = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 5, "vocab_size": 512}  # 19 MB: two ranges
RANGE = 16 << 20
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYSECRETKEY"
KEYS = {"access": "AKIDOFTHETESTS", "secret": SECRET, "session": "a/session+token=="}
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": KEYS["access"], "AWS_SECRET_ACCESS_KEY": SECRET,
               "AWS_SESSION_TOKEN": KEYS["session"], "AWS_EC2_METADATA_DISABLED": "true",
               "AWS_REGION": "eu-central-1", "HF_ENDPOINT": "http://127.0.0.1:9"}

pytestmark = pytest.mark.skipif(not (object_store.PACKAGES / ".made").exists(), reason=object_store.ABSENT)


def files_of(directory, seed=0, **config):
    models.write_llama(directory, seed=seed, **config)
    return {p.name: p.read_bytes() for p in sorted(directory.iterdir())}


@pytest.fixture(scope="module")
def store():
    store = object_store.ObjectStore()
    store.bucket("lab")
    yield store
    store.close()


@pytest.fixture(scope="module")
def served(store, tmp_path_factory):
    if not BINARY.exists():
        pytest.skip("build/deltaq is not built")
    service = Service(tmp_path_factory.mktemp("objects"), "--threads", "1", "--s3-endpoint", store.url + "/",
                      "--watch-quiet", "1", "--watch-poll", "1", environment=ENVIRONMENT)
    yield service
    assert service.stop() == 0
    log = service.log.read_text()
    assert SECRET not in log and KEYS["session"] not in log and KEYS["access"] not in log


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return files_of(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def middle(tmp_path_factory):
    return files_of(tmp_path_factory.mktemp("middle"), **MIDDLE)


@pytest.fixture(autouse=True)
def signed(store):
    """Every request of every test is signed as botocore would sign it."""
    store.clear()
    yield
    assert object_store.wrong_signatures(KEYS, store.requests) == []


def register(service, path, name, trajectory="t", **more):
    answer = service.post("/v1/checkpoints", {"trajectory": trajectory, "name": name, "source": {"path": path, **more}})
    assert answer.status in (200, 202), answer.body
    return service.wait(answer.json["id"])


def fetched(service, path, name, **more):
    run = register(service, path, name, **more)
    assert run["state"] == "succeeded", run["error"]
    return run["result"]


def failed(service, path, name, **more):
    run = register(service, path, name, **more)
    assert run["state"] == "failed", run
    assert SECRET not in json.dumps(run)
    return run["error"]


def blobs(service):
    return {p.name: p for p in (service.data / "hub/blobs").glob("object-*")}


def test_a_directory_of_a_bucket_is_registered_by_a_fetch_run(served, store, small):
    store.put_files("lab", "run7/step1000", {**small, "optimizer.bin": b"x" * 9000, "sub/model.safetensors": b"y"})
    body = {"trajectory": "run7", "name": "a", "tokens": 5, "source": {"path": "s3://lab/run7/step1000/"}}
    answer = served.post("/v1/checkpoints", body)
    assert answer.status == 202 and answer.json["kind"] == "fetch"
    run = served.wait(answer.json["id"])
    assert run["state"] == "succeeded", run["error"]
    result = run["result"]
    assert result["bytes"] == result["downloaded"] == sum(map(len, small.values()))
    made = served.get(f"/v1/checkpoints/{result['checkpoint']}").json
    assert made["source"] == {"path": "s3://lab/run7/step1000", "commit": result["commit"]}
    assert made["tokens"] == 5 and made["architecture"] == "llama" and len(made["sha256"]) == 64
    asked = {r["target"].rsplit("/", 1)[-1] for r in store.asked("GET", "^/lab/run7/step1000/[^?]+$")}
    assert asked == set(small), "what a checkpoint does not need is not fetched"
    ranged = [dict(r["headers"]) for r in store.asked("GET", "model.safetensors$")]
    assert all(h["If-Match"] for h in ranged)
    again = served.post("/v1/checkpoints", body)
    assert again.status == 200 and again.json["id"] == answer.json["id"]


def test_it_measures_like_the_same_files_on_disk(served, store, small):
    store.put_files("lab", "used", small)
    fetched(served, "s3://lab/used", "used", trajectory="used")
    local = served.checkpoint(models.write_llama(served.files / "used"), "used-local", "main")
    assert served.get(f"/v1/checkpoints/{quoted('used/used')}").json["sha256"] == local["sha256"]
    served.sequences("used", models.rows(2, 16))
    losses = [served.run("evaluate", checkpoint=c, dataset="used", sequence_length=None)["result"]["loss"]
              for c in ("used/used", "used-local/main")]
    assert losses[0] == losses[1]
    assert len(served.get(f"/v1/checkpoints/{quoted('used/used')}/tensors").json["items"]) > 0


AWKWARD = ["a b", "a+b", "c~d%20e%", "ü(1)'!*", "k=v&w?#;,@:$", "漢字"]


@pytest.mark.parametrize("prefix", AWKWARD)
def test_keys_of_any_form_are_signed_and_read(served, store, small, prefix):
    path = f"odd/{prefix}/step1"
    for name, data in small.items():
        store.put("lab", f"{path}/{name}", data)
    store.put("lab", f"{path}/{prefix}.txt", b"notes")
    names = [*small, f"{prefix}.txt"]
    result = fetched(served, f"s3://lab/{path}", prefix.replace("/", "-"), trajectory="odd", files=names)
    assert result["bytes"] == sum(map(len, small.values())) + 5
    assert {r["method"] for r in store.requests} == {"GET", "HEAD"}


def test_large_files_come_in_parallel_ranges_with_a_checksum(served, store, middle):
    store.put_files("lab", "ranges", middle)
    result = fetched(served, "s3://lab/ranges", "ranges")
    assert result["downloaded"] == sum(map(len, middle.values()))
    ranges = {dict(r["headers"]).get("Range") for r in store.asked("GET", "/ranges/model.safetensors$")}
    size = len(middle["model.safetensors"])
    assert ranges == {f"bytes=0-{RANGE - 1}", f"bytes={RANGE}-{size - 1}"}


FAULTS = {
    "cut": {"cut": 5 << 20},
    "error 500": {"answer": object_store.refusal(500, "InternalError")},
    "slow down": {"answer": object_store.refusal(503, "SlowDown")},
    "slow": {"slow": 1.5},
    "session expired": {"answer": object_store.refusal(400, "ExpiredToken")},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_middle_is_survived(served, store, middle, fault):
    prefix = f"faults/{fault.replace(' ', '-')}"
    store.put_files("lab", prefix, middle)
    rule = store.rule("GET", f"/{prefix}/model.safetensors$", 2, **FAULTS[fault])
    result = fetched(served, f"s3://lab/{prefix}", fault)
    assert rule.times == 0
    size = sum(map(len, middle.values()))
    assert result["bytes"] == result["downloaded"] == size
    assert store.served < size + (64 << 10), "bytes that had come were fetched again"


def test_a_fault_in_the_list_is_survived(served, store, small):
    store.put_files("lab", "list", small)
    store.rule("GET", "list-type=2", 1, answer=object_store.refusal(503, "SlowDown"))
    assert fetched(served, "s3://lab/list", "list")["downloaded"] > 0


def test_an_object_that_changes_between_two_ranges_is_refused(served, store, middle):
    store.put_files("lab", "changing", middle)
    other = middle["model.safetensors"][::-1]
    store.rule("GET", "/changing/model.safetensors$", 1, skip=1,
               then=lambda: store.put("lab", "changing/model.safetensors", other))
    error = failed(served, "s3://lab/changing", "changing")
    assert error["code"] == "input_changed" and "not the one any more" in error["detail"]


def test_an_answer_with_another_etag_is_refused(served, store, small):
    store.put_files("lab", "etag", small)
    store.rule("GET", "/etag/model.safetensors$", 9, headers={"ETag": '"0123"'})
    assert failed(served, "s3://lab/etag", "etag")["code"] == "input_changed"


@pytest.mark.parametrize("kind", ["md5", "sha256", "crc64nvme"])
def test_wrong_bytes_are_noticed_by_each_checksum(served, store, small, kind):
    prefix, data = f"wrong-{kind}", small["model.safetensors"]
    store.put_files("lab", prefix, small)
    if kind == "sha256":
        store.put_summed("lab", f"{prefix}/model.safetensors", data)
    if kind == "crc64nvme":  # moto knows none; the ETag is made to be no MD5
        head = {"x-amz-checksum-crc64nvme": base64.b64encode(crc64nvme(data).to_bytes(8, "big")).decode(),
                "x-amz-checksum-type": "FULL_OBJECT", "x-amz-server-side-encryption": "aws:kms"}
        store.rule("HEAD", f"/{prefix}/model.safetensors$", 9, headers=head)
    flips = store.rule("GET", f"/{prefix}/model.safetensors$", 1, flip=9999)
    assert fetched(served, f"s3://lab/{prefix}", kind)["downloaded"] > sum(map(len, small.values()))
    assert flips.times == 0
    shutil.rmtree(served.data / "hub/snapshots")
    for path in blobs(served).values():
        path.unlink()
    store.rule("GET", f"/{prefix}/model.safetensors$", 9, flip=9999)
    error = failed(served, f"s3://lab/{prefix}", f"{kind}-again")
    assert error["code"] == "corrupt" and "not those that object storage announces" in error["detail"]


def crc64nvme(data):
    """Bit by bit, by its definition."""
    crc = (1 << 64) - 1
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x9A6C9329AC4BC9B5 if byte & 1 else 0)
        table.append(byte)
    for byte in data:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    return crc ^ ((1 << 64) - 1)


def test_the_checksum_of_the_tests_is_the_published_one():
    assert crc64nvme(b"123456789") == 0xAE8B14860A799888


def test_a_registered_directory_is_pinned(served, store, tmp_path):
    store.put_files("lab", "pinned", files_of(tmp_path / "a", seed=6))
    fetched(served, "s3://lab/pinned", "pinned", trajectory="pinned")
    store.put("lab", "pinned/README.md", b"what is not taken may come")
    shutil.rmtree(served.data / "hub/snapshots")
    served.sequences("pinned", models.rows(2, 16))
    run = served.run("evaluate", checkpoint="pinned/pinned", dataset="pinned", sequence_length=None)
    assert run["state"] == "succeeded", run["error"]
    store.put_files("lab", "pinned", files_of(tmp_path / "b", seed=7))
    shutil.rmtree(served.data / "hub/snapshots")
    answer = served.post("/v1/runs", {"kind": "evaluate", "force": True,
                                      "params": {"checkpoint": "pinned/pinned", "dataset": "pinned",
                                                 "sequence_length": None}})
    error = served.wait(answer.json["id"])["error"]
    assert error["code"] == "input_changed" and "s3://lab/pinned" in error["detail"]


REFUSALS = {
    "no rights": ((403, "AccessDenied"), "forbidden", "no right"),
    "unknown key": ((403, "InvalidAccessKeyId"), "forbidden", "does not know the access key"),
    "wrong signature": ((403, "SignatureDoesNotMatch"), "forbidden", "secret key does not belong"),
    "skewed clock": ((403, "RequestTimeTooSkewed"), "forbidden", "clock"),
    "other region": ((301, "PermanentRedirect", "no", "ap-south-1"), "invalid", "region is ap-south-1"),
    "malformed region": ((400, "AuthorizationHeaderMalformed", "no", "ap-south-1"), "invalid", "region is ap-south-1"),
    "archived": ((403, "InvalidObjectState"), "forbidden", "restore it"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_says_what_to_do(served, store, case):
    answer, code, words = REFUSALS[case]
    store.rule("GET", "/lab/", 9, answer=object_store.refusal(*answer))
    error = failed(served, f"s3://lab/refused/{case.replace(' ', '-')}", case)
    assert error["code"] == code and words in error["detail"] and answer[1] in error["detail"]


def test_what_is_not_there_is_said(served, store):
    error = failed(served, "s3://no-such-bucket-here/x", "no-bucket")
    assert error["code"] == "not_found" and "no such bucket" in error["detail"]
    error = failed(served, "s3://lab/nothing/here", "nothing")
    assert error["code"] == "not_found" and "no object" in error["detail"]
    store.put("lab", "bare/readme.txt", b"x")
    assert failed(served, "s3://lab/bare", "bare")["code"] == "unsupported"


@pytest.mark.parametrize("body", [
    b"<ListBucketResult><IsTruncated>tru", b"{}", b"<!DOCTYPE a [<!ENTITY b 'c'>]><ListBucketResult>&b;",
    b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
    b"<a>" * 300 + b"</a>" * 300,
])
def test_a_list_that_is_none_is_refused(served, store, body):
    store.rule("GET", "list-type=2", 9, answer={"status": 200, "headers": {}, "body": body})
    assert failed(served, f"s3://lab/l{hashlib.md5(body).hexdigest()}", "l")["code"] == "corrupt"


@pytest.mark.parametrize("path", ["s3://", "s3://ab", "s3://lab/a//b", "s3://lab/../x", "s3://-lab/x", "s3://lab/\x01",
                                  "s3://lab/" + "x" * 900])
def test_a_place_that_is_none_is_refused_at_once(served, path):
    answer = served.post("/v1/checkpoints", {"trajectory": "t", "name": "n", "source": {"path": path}})
    assert answer.status == 422 and answer.pointers == ["/source/path"]


def test_a_path_and_a_repo_exclude_each_other(served):
    for params, pointer in (({"path": "s3://lab/x", "repo": "a/b"}, "/params/path"), ({}, "/params/repo"),
                            ({"path": "s3://lab/x", "revision": "r"}, "/params/revision"),
                            ({"path": "/tmp"}, "/params/path")):
        answer = served.post("/v1/runs", {"kind": "fetch", "params": params})
        assert answer.status == 422 and answer.pointers == [pointer], params


def test_a_dry_run_tells_what_is_to_come(served, store, small):
    store.put_files("lab", "plan/step5", small)
    asked = {"kind": "fetch", "params": {"path": "s3://lab/plan/step5"}}
    plan = served.post("/v1/runs", {**asked, "dry_run": True})
    assert plan.status == 200, plan.body
    assert plan.json["fetched_bytes"] == sum(map(len, small.values())) and plan.json["problem"] is None
    run = served.wait(served.post("/v1/runs", asked).json["id"])
    assert run["state"] == "succeeded", run["error"]
    assert (run["params"]["trajectory"], run["params"]["name"]) == ("plan", "step5")


def doctor(store, tmp_path, *options, **environment):
    done = subprocess.run([BINARY, "doctor", "--data-dir", tmp_path / "data", *options], capture_output=True, text=True,
                          env={**os.environ, **ENVIRONMENT, **environment})
    assert SECRET not in done.stdout + done.stderr
    return next((line for line in done.stdout.splitlines() if "object storage" in line), None)


def test_the_doctor_tries_the_server_and_names_whose_keys_they_are(store, tmp_path):
    endpoint = ("--s3-endpoint", store.url)
    line = doctor(store, tmp_path, *endpoint)
    assert line.startswith("ok ") and store.url in line and line.endswith("credentials: environment")
    store.rule("GET", "^/$", 1, answer=object_store.refusal(403, "AccessDenied"))
    line = doctor(store, tmp_path, *endpoint)
    assert line.startswith("ok ") and "lists no buckets (AccessDenied)" in line, "who may not list them may read one"
    store.rule("GET", "^/$", 1, answer=object_store.refusal(403, "SignatureDoesNotMatch"))
    line = doctor(store, tmp_path, *endpoint)
    assert line.startswith("WRONG") and "secret key" in line
    line = doctor(store, tmp_path, *endpoint, AWS_SECRET_ACCESS_KEY="")
    assert line.startswith("WRONG") and "must both be set" in line
    assert doctor(store, tmp_path) is None


# ---- trajectories ----

def test_a_prefix_is_registered_as_a_trajectory_and_measured(served, store, small, tmp_path, name):
    for step in (100, 200, 1000):
        store.put_files("lab", f"{name}/checkpoint-{step}", files_of(tmp_path / str(step), seed=step))
    store.put_files("lab", f"{name}/deeper/down/step7-tokens3B", small)
    store.put_files("lab", f"{name}/tmp-checkpoint-300", small)
    store.put("lab", f"{name}/logs/a.txt", b"x")
    store.put("lab", f"{name}/checkpoint-100/sub/config.json", b"{}")
    found = scan(served, name, f"s3://lab/{name}/")
    steps = {c["name"]: (c["step"], c["tokens"]) for c in found["registered"]}
    assert steps == {"checkpoint-100": (100, None), "checkpoint-200": (200, None), "checkpoint-1000": (1000, None),
                     "deeper-down-step7-tokens3B": (7, 3 * 10**9)}
    assert (found["existing"], found["pending"], found["failed"]) == (0, [], [])
    assert all(c["source"]["path"].startswith(f"s3://lab/{name}/") and c["architecture"] is None
               for c in found["registered"])
    again = scan(served, name, f"s3://lab/{name}")
    assert again["registered"] == [] and again["existing"] == 4
    served.sequences(name, models.rows(2, 16))
    run = served.run("evaluate", checkpoint=f"{name}/checkpoint-200", dataset=name, sequence_length=None)
    assert run["state"] == "succeeded", run["error"]
    assert served.get(f"/v1/checkpoints/{quoted(f'{name}/checkpoint-200')}").json["architecture"] == "llama"
    store.put_files("lab", f"{name}/checkpoint-100", small)
    failed_ones = scan(served, name, f"s3://lab/{name}")["failed"]
    assert [f["path"] for f in failed_ones] == ["checkpoint-100"] and failed_ones[0]["status"] == "conflict"


def test_a_list_goes_on_over_its_pages(served, store, small, name):
    for i in range(12):
        store.put("lab", f"{name}/a{i:02}/x/y.txt", b"x")
    for letter in "abz":
        store.put_files("lab", f"{name}/{letter}-step{ord(letter)}", small)
    store.rule("GET", f"list-type.*{name}/", 99, more="&max-keys=5")
    found = scan(served, name, f"s3://lab/{name}")
    assert len(store.asked("GET", f"continuation-token=.*{name}/")) >= 4
    assert {c["name"] for c in found["registered"]} == {"a-step97", "b-step98", "z-step122"}


def test_a_checkpoint_without_all_shards_waits(served, store, small, name):
    weights = small["model.safetensors"]
    prefix = f"{name}/step1"
    store.put("lab", f"{prefix}/config.json", small["config.json"])
    store.put("lab", f"{prefix}/model.safetensors.index.json", b"{}")
    store.put("lab", f"{prefix}/model-00001-of-00002.safetensors", weights)
    found = scan(served, name, f"s3://lab/{name}")
    assert found["registered"] == [] and found["pending"] == ["step1"]
    store.put("lab", f"{prefix}/model-00002-of-00002.safetensors", weights)
    assert [c["name"] for c in scan(served, name, f"s3://lab/{name}")["registered"]] == ["step1"]


def test_a_watched_prefix_registers_what_comes(served, store, small, name):
    assert scan(served, name, f"s3://lab/{name}/", watch=True)["registered"] == []
    store.put_files("lab", f"{name}/step5", small)
    until("the checkpoint", lambda: "step5" in registered(served, name))
    assert served.get(f"/v1/trajectories/{name}").json["watch"] == f"s3://lab/{name}"
    store.rule("GET", f"list-type=2.*prefix={name}/", 10**6, answer=object_store.refusal(403, "AccessDenied"))
    away = until("the refusal", lambda: (s := state(served, name)) and s["mode"] == "away" and s)
    assert "AccessDenied" in away["detail"]
    store.clear()
    until("the server again", lambda: state(served, name)["mode"] == "poll")
    scan(served, name, f"s3://lab/{name}", watch=False)


def test_a_name_that_cannot_be_registered_keeps_no_other_one_from_it(served, store, small, name):
    for place in ("step1", "x" * 210):
        store.put_files("lab", f"{name}/{place}", small)
    found = scan(served, name, f"s3://lab/{name}")
    assert [item["name"] for item in found["registered"]] == ["step1"]
    assert [(item["path"], item["status"]) for item in found["failed"]] == [("x" * 210, "invalid")]


def test_a_scan_leaves_out_keys_that_are_no_paths(served, store, small, name):
    for part in (f"{name}/step1", f"{name}//step2", f"{name}/a//b", f"{name}/step3/", f"{name}/../{name}/step4"):
        store.put_files("lab", part, small)
    found = scan(served, name, f"s3://lab/{name}")
    assert [c["name"] for c in found["registered"]] == ["step1"] and found["failed"] == []


def test_a_scan_is_refused_clearly(served, store, name):
    for path, words in (("s3://no-such-bucket-here", "no such bucket"), (f"s3://lab/{name}-none", "no checkpoint"),
                        ("s3://x", "must be a place")):
        answer = served.post(f"/v1/trajectories/{name}/scan", {"path": path})
        assert answer.status == 422 and answer.pointers == ["/path"] and words in answer.json["errors"][0]["detail"]


# ---- datasets ----

def test_an_object_is_a_dataset(served, store, small, name):
    store.put_files("lab", f"{name}/step1", small)
    fetched(served, f"s3://lab/{name}/step1", "step1", trajectory=name)
    text = "".join(chr(97 + i % 26) for i in range(4000))
    lines = json.dumps({"text": text}) + "\n"
    store.put("lab", f"{name}/data/val.jsonl", lines.encode())
    body = {"name": name, "format": "jsonl", "path": f"s3://lab/{name}/data/val.jsonl"}
    made = served.post("/v1/datasets", body)
    assert made.status == 201 and made.json["sha256"] is None and len(made.json["commit"]) == 40, made.body
    assert served.post("/v1/datasets", body).status == 200
    (served.files / f"{name}.jsonl").write_text(lines)
    assert served.post("/v1/datasets", {**body, "name": f"{name}-local",
                                        "path": str(served.files / f"{name}.jsonl")}).status == 201
    losses = []
    for dataset in (name, f"{name}-local"):
        run = served.run("evaluate", checkpoint=f"{name}/step1", dataset=dataset, sequence_length=32)
        assert run["state"] == "succeeded", run["error"]
        losses.append(run["result"]["loss"])
    assert losses[0] == losses[1]
    sums = {served.get(f"/v1/datasets/{d}").json["sha256"] for d in (name, f"{name}-local")}
    assert len(sums) == 1 and None not in sums
    store.put("lab", f"{name}/data/val.jsonl", b"other")
    assert served.post("/v1/datasets", body).status == 409
    shutil.rmtree(served.data / "hub/snapshots")
    answer = served.post("/v1/runs", {"kind": "evaluate", "force": True,
                                      "params": {"checkpoint": f"{name}/step1", "dataset": name,
                                                 "sequence_length": 32}})
    assert served.wait(answer.json["id"])["error"]["code"] == "input_changed"
    missing = served.post("/v1/datasets", {**body, "name": f"{name}-no", "path": f"s3://lab/{name}/data/none.jsonl"})
    assert missing.status == 422 and missing.pointers == ["/path"]
