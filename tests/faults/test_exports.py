"""Exports of runs whose worker is killed, or whose files may not grow: whole and once, or nothing."""

import resource

from faults import body_of, kill, prepare, finished, submit, submit_held, wait_for_none_left, workers_of


def body():
    """Of the exports the one that ends in most places: artifacts, a directory, a checkpoint."""
    asked = body_of("quantize")
    asked["params"]["export"] = "dequantized"
    return asked


def files_of(service, document):
    items = service.get(f"/v1/runs/{document['id']}/artifacts").json["items"]
    return {item["name"]: item["sha256"] for item in items}


def test_an_export_survives_its_worker(own):
    prepare(own)
    run = submit_held(own, body())
    (worker,) = workers_of(own)
    kill(worker)
    own.gate.open()
    killed = finished(own, run)
    assert (killed["state"], killed["attempt"]) == ("succeeded", 1), killed["error"]
    wait_for_none_left(own)
    undisturbed = finished(own, submit(own, body()))
    assert files_of(own, killed) == files_of(own, undisturbed) and len(files_of(own, killed)) >= 3
    assert killed["result"]["loss_q"] == undisturbed["result"]["loss_q"]
    made = own.get("/v1/checkpoints?trajectory=whole-quantized").json["items"]
    assert sorted(c["id"] for c in made) == sorted(d["result"]["export"]["checkpoint"] for d in (killed, undisturbed))


def test_an_export_that_may_not_grow_leaves_nothing(own):
    prepare(own)
    (worker,) = workers_of(own)
    soft, hard = resource.prlimit(worker, resource.RLIMIT_FSIZE)
    resource.prlimit(worker, resource.RLIMIT_FSIZE, (20000, hard))
    document = finished(own, submit(own, body()))
    assert document["state"] == "failed" and document["error"]["code"] == "disk_full", document
    assert str(own.data) not in document["error"]["detail"] and workers_of(own) == [worker]
    wait_for_none_left(own)
    assert own.get("/v1/trajectories/whole-quantized").status == 404 and files_of(own, document) == {}
    resource.prlimit(worker, resource.RLIMIT_FSIZE, (soft, hard))
    assert own.post(f"/v1/runs/{document['id']}/retry").status in (200, 202)
    assert finished(own, document["id"])["result"]["export"]["checkpoint"]
