"""Artifacts in a bucket: uploaded in parts before their run ends, given up when that fails, and read back by a server
that does not have them."""

import hashlib
import re

import models
import object_store
import pytest
from service import BINARY, Service
from test_objects import ENVIRONMENT, MIDDLE, SECRET, pytestmark, signed, store  # noqa: F401

PART = 16 << 20
PREFIX = "deep/artifacts"


@pytest.fixture(scope="module")
def served(store, tmp_path_factory):
    if not BINARY.exists():
        pytest.skip("build/deltaq is not built")
    service = Service(tmp_path_factory.mktemp("artifacts"), "--threads", "1", "--s3-endpoint", store.url,
                      "--artifacts", f"s3://lab/{PREFIX}", environment=ENVIRONMENT)
    service.checkpoint(models.write_llama(service.files / "large", **MIDDLE), "subject", "large")
    service.checkpoint(models.write_llama(service.files / "small"), "subject", "small")
    service.sequences("data", models.rows(2, 16))
    yield service
    assert service.stop() == 0
    assert SECRET not in service.log.read_text()


def export(service, checkpoint, bits, group=32):
    """A run that leaves the weights of a model; each method gives other ones."""
    return service.run("quantize", checkpoint=f"subject/{checkpoint}", export="dequantized",
                       method={"name": "rtn", "bits": bits, "group_size": group}, evaluation={"dataset": "data"},
                       calibration={"dataset": "data"})


def weights_of(service, run):
    assert run["state"] == "succeeded", run["error"]
    items = service.get(f"/v1/runs/{run['id']}/artifacts").json["items"]
    return max(items, key=lambda item: item["bytes"])


def read_elsewhere(service, run, item):
    """As a server that lacks the file: its bytes come out of the bucket."""
    path = service.data / "artifacts" / item["sha256"]
    kept = path.read_bytes()
    path.unlink()
    answer = service.get(f"/v1/runs/{run['id']}/artifacts/{item['name']}")
    path.write_bytes(kept)
    return answer


def object_of(store, item):
    return store.direct("GET", f"/lab/{PREFIX}/{item['sha256']}")[1]


def test_a_large_artifact_is_uploaded_in_parts_and_read_back(served, store):
    run = export(served, "large", 8)
    item = weights_of(served, run)
    assert item["bytes"] > PART
    parts = [r["bytes"] for r in store.asked("PUT", f"{item['sha256']}.partNumber")]
    assert parts == [PART, item["bytes"] - PART]
    assert len(store.asked("POST", f"{item['sha256']}.uploads=")) == 1
    data = object_of(store, item)
    assert hashlib.sha256(data).hexdigest() == item["sha256"]
    store.rule("GET", item["sha256"], 1, cut=3 << 20)
    answer = read_elsewhere(served, run, item)
    assert answer.status == 200 and answer.body == data
    assert not list((served.data / "artifacts").glob(".tmp*"))


def test_what_is_there_already_is_not_uploaded_again(served, store):
    run = export(served, "small", 3)
    item = weights_of(served, run)
    assert len(store.asked("PUT", item["sha256"])) == 1
    store.clear()
    again = served.post("/v1/runs", {"kind": "quantize", "force": True, "params": run["params"]})
    assert weights_of(served, served.wait(again.json["id"]))["sha256"] == item["sha256"]
    assert store.asked("HEAD", item["sha256"]) and not store.asked("PUT", item["sha256"])


@pytest.mark.parametrize("checkpoint", ["small", "large"])
def test_other_bytes_of_the_same_size_are_replaced(served, store, checkpoint):
    """By the ETag: the MD5 of an object, or that of the MD5s of its parts."""
    run = export(served, checkpoint, 3, 16)
    item = weights_of(served, run)
    good = object_of(store, item)
    store.put("lab", f"{PREFIX}/{item['sha256']}", good[::-1])
    store.clear()
    again = served.post("/v1/runs", {"kind": "quantize", "force": True, "params": run["params"]})
    assert weights_of(served, served.wait(again.json["id"]))["sha256"] == item["sha256"]
    assert store.asked("PUT", item["sha256"]) and object_of(store, item) == good
    store.clear()
    third = served.post("/v1/runs", {"kind": "quantize", "force": True, "params": run["params"]})
    assert weights_of(served, served.wait(third.json["id"]))["sha256"] == item["sha256"]
    assert store.asked("HEAD", item["sha256"]) and not store.asked("PUT", item["sha256"])


def test_a_part_that_fails_is_sent_again_alone(served, store):
    store.rule("PUT", "partNumber=2", 1, answer=object_store.refusal(503, "SlowDown"))
    store.rule("PUT", "partNumber=1", 1, answer=object_store.refusal(500, "InternalError"))
    item = weights_of(served, export(served, "large", 3))
    sent = [re.search(r"partNumber=(\d)", r["target"])[1] for r in store.asked("PUT", item["sha256"])]
    assert sent == ["1", "1", "2", "2"]
    assert hashlib.sha256(object_of(store, item)).hexdigest() == item["sha256"]


def test_an_end_that_fails_behind_a_good_status_is_tried_again(served, store):
    error = object_store.refusal(200, "InternalError")
    store.rule("POST", "uploadId=", 1, answer=error)
    item = weights_of(served, export(served, "large", 2))
    assert len(store.asked("POST", f"{item['sha256']}.uploadId=")) == 2
    assert hashlib.sha256(object_of(store, item)).hexdigest() == item["sha256"]


def test_an_end_whose_answer_is_lost_is_recognised(served, store):
    """The second try meets an upload that is not known any more, and the object."""
    store.rule("POST", "uploadId=", 1, cut=0)
    item = weights_of(served, export(served, "large", 8, 64))
    assert len(store.asked("POST", f"{item['sha256']}.uploadId=")) == 2
    assert hashlib.sha256(object_of(store, item)).hexdigest() == item["sha256"]


def test_an_upload_that_is_refused_is_given_up_and_fails_the_run(served, store):
    store.rule("PUT", "partNumber=2", 9, answer=object_store.refusal(403, "AccessDenied"))
    run = export(served, "large", 4)
    assert run["state"] == "failed" and run["error"]["code"] == "forbidden" and "AccessDenied" in run["error"]["detail"]
    assert len(store.asked("DELETE", "uploadId=")) == 1
    assert b"<Upload>" not in store.direct("GET", "/lab?uploads")[1]


def test_other_bytes_in_the_bucket_are_not_given(served, store):
    run = export(served, "small", 4)
    item = weights_of(served, run)
    store.put("lab", f"{PREFIX}/{item['sha256']}", object_of(store, item)[::-1])
    answer = read_elsewhere(served, run, item)
    assert answer.status == 422 and answer.json["code"] == "corrupt"
    store.direct("DELETE", f"/lab/{PREFIX}/{item['sha256']}")
    assert read_elsewhere(served, run, item).status == 404


def test_losses_that_another_machine_left_are_compared_and_ranked(served):
    """By the server's own routes and by a run of a worker here: the files are in the bucket alone."""
    runs = [
        served.run("quantize", checkpoint="subject/small", per_token=True,
                   method={"name": "rtn", "bits": bits, "group_size": 32}, evaluation={"dataset": "data"},
                   calibration={"dataset": "data"})["id"]
        for bits in (2, 4)
    ]
    questions = (f"/v1/compare?a={runs[0]}&b={runs[1]}", f"/v1/runs/{runs[0]}/worst-tokens?decode=ids&limit=3")
    here = [served.get(question) for question in questions]
    assert [answer.status for answer in here] == [200, 200], [answer.body for answer in here]
    left = [item for run in runs for item in served.get(f"/v1/runs/{run}/artifacts").json["items"]]
    for item in left:
        (served.data / "artifacts" / item["sha256"]).unlink(missing_ok=True)
    assert [served.get(question).body for question in questions] == [answer.body for answer in here]
    run = served.run("compare", a=runs[0], b=runs[1], per_token=True)
    assert run["state"] == "succeeded", run["error"]
    assert not [item for item in left if (served.data / "artifacts" / item["sha256"]).exists()]
