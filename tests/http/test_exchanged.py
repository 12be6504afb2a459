"""What lies at a path is judged when it is opened, not only when it is named: a file or directory that somebody
exchanges for a link out of the roots is not read, by requests or by runs. What the links lead to has the registered
bytes where these are compared, so that nothing but the guard notices."""

import json
import os
import shutil

import containers
import models
import numpy
import pytest

OUTSIDE = "lies outside the server's roots"
SECRET = "this is for others and not for a client to read. " * 8


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    return tmp_path_factory.mktemp("outside")


def away(path, outside):
    """Moves it out of the roots and leaves a link there."""
    target = outside / f"{len(os.listdir(outside))}-{path.name}"
    shutil.move(path, target)
    path.symlink_to(target)
    return target


def write_sharded(directory):
    models.write_llama(directory, seed=1)
    os.rename(directory / "model.safetensors", directory / "model-00001-of-00001.safetensors")
    names = models.tensors_of(models.LLAMA, 1)
    index = {"metadata": {}, "weight_map": {name: "model-00001-of-00001.safetensors" for name in names}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))


def write_torch(directory):
    models.write_llama(directory, seed=1)
    (directory / "model.safetensors").unlink()
    containers.write_torch(directory / "pytorch_model.bin", models.tensors_of(models.LLAMA, 1))


def write_gguf(directory):
    directory.mkdir()
    containers.write_gguf(directory / "model.gguf", models.tensors_of(models.LLAMA, 1), models.LLAMA)


CHECKPOINTS = [(models.write_llama, "model.safetensors"), (models.write_llama, "config.json"),
               (write_sharded, "model.safetensors.index.json"), (write_sharded, "model-00001-of-00001.safetensors"),
               (write_torch, "pytorch_model.bin"), (write_gguf, "model.gguf")]


@pytest.mark.parametrize("write, name_of_file", CHECKPOINTS, ids=[row[1] for row in CHECKPOINTS])
def test_a_run_follows_no_link_of_a_checkpoint_out(service, outside, name, write, name_of_file):
    path = service.files / name
    write(path)
    checkpoint = service.checkpoint(path, name, "a")["id"]
    service.sequences(name, models.rows(2, 16))
    away(path / name_of_file, outside)
    run = service.run("evaluate", checkpoint=checkpoint, dataset=name, sequence_length=None)
    assert run["state"] == "failed" and run["error"]["detail"].startswith(f"{name_of_file} {OUTSIDE}"), run["error"]
    assert str(outside) not in json.dumps(run)


def test_a_tokenizer_is_read_through_no_link_out(service, outside, name):
    path = models.write_llama(service.files / name)
    checkpoint = service.checkpoint(path, name, "a")["id"]
    (service.files / f"{name}.txt").write_text(SECRET)
    assert service.post("/v1/datasets", {"name": name, "path": f"{name}.txt", "format": "text"}).status == 201
    away(path / "tokenizer.json", outside)
    params = {"checkpoint": checkpoint, "dataset": name, "sequence_length": 16}
    answer = service.post("/v1/runs", {"kind": "evaluate", "params": params})
    assert answer.status == 422 and f"tokenizer.json {OUTSIDE}" in answer.body.decode(), answer.body
    answer = service.post("/v1/tokenize", {"checkpoint": checkpoint, "texts": ["a"]})
    assert answer.status == 422 and OUTSIDE in answer.body.decode(), answer.body


def test_links_that_stay_below_a_root_are_followed(service, name):
    """As in the hub's own cache: snapshots of links to blobs."""
    hub = service.files / name
    models.write_llama(hub / "blobs")
    snapshot = hub / "snapshots" / "a"
    snapshot.mkdir(parents=True)
    for path in (hub / "blobs").iterdir():
        (snapshot / path.name).symlink_to(f"../../blobs/{path.name}")
    (hub / "texts").mkdir()
    (hub / "text").write_text(SECRET + name)
    (hub / "texts" / "one").symlink_to("../text")
    checkpoint = service.checkpoint(snapshot, name, "a")["id"]
    assert service.post("/v1/datasets", {"name": name, "path": f"{name}/texts", "format": "text"}).status == 201
    run = service.run("evaluate", checkpoint=checkpoint, dataset=name, sequence_length=16)
    assert run["state"] == "succeeded", run["error"]


def exchange_file(directory, name, outside):
    away(directory / name, outside).write_bytes((directory / name).read_bytes()[::-1])


def exchange_directory(directory, name, outside):
    away(directory, outside)


@pytest.mark.parametrize("exchange", [exchange_file, exchange_directory],
                         ids=["file", "directory"])
@pytest.mark.parametrize("file, format", [("text.txt", "text"), ("texts.jsonl", "jsonl"), ("tokens.npy", "tokens")])
def test_a_dataset_exchanged_when_checked(service, outside, name, file, format, exchange):
    """Held where the run has compared the file with the registered one, and has yet to read it."""
    directory = service.files / name / "inner"
    directory.mkdir(parents=True)
    (directory / "text.txt").write_text(SECRET + name)
    (directory / "texts.jsonl").write_text("".join(json.dumps({"text": SECRET + name}) + "\n" for _ in range(4)))
    numpy.save(directory / "tokens.npy", numpy.frombuffer((SECRET + name).encode(), numpy.uint8).astype(numpy.uint16))
    checkpoint = service.checkpoint(models.write_llama(service.files / f"{name}-model"), name, "a")["id"]
    body = {"name": name, "path": f"{name}/inner/{file}", "format": format}
    assert service.post("/v1/datasets", body).status == 201
    service.gate.hold("evaluate", (directory / file).stat().st_size, "byte")
    try:
        params = {"checkpoint": checkpoint, "dataset": name, "sequence_length": 16}
        run = service.post("/v1/runs", {"kind": "evaluate", "params": params}).json["id"]
        service.held(run)
        exchange(directory, file, outside)
    finally:
        service.gate.open()
    run = service.wait(run)
    assert run["state"] == "failed" and OUTSIDE in run["error"]["detail"], run["error"]


def test_a_scan_takes_no_configuration_through_a_link_out(service, outside, name):
    """It would be shown as the checkpoint's source."""
    top = service.files / name
    models.write_llama(top / "step1")
    away(top / "step1" / "config.json", outside)
    answer = service.post(f"/v1/trajectories/{name}/scan", {"path": name})
    assert answer.status in (200, 201) and not answer.json["registered"], answer.body
