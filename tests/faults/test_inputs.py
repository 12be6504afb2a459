"""Wrong files and wrong requests. Each gets a problem document, or a failed run, that says what is wrong with what."""

import json
import os
import socket

import models
import numpy
import pytest
from faults import submit

CONTEXT = 32


@pytest.fixture(scope="module")
def data(service):
    service.sequences("ids", models.rows(4, CONTEXT))
    return "ids"


def refused(answer, status, code, *words):
    problem = answer.json
    assert (answer.status, problem["code"]) == (status, code), answer.body
    for word in words:
        assert word in json.dumps(problem), problem
    return problem


def failed(document, code, *words):
    assert document["state"] == "failed", document
    assert document["error"]["code"] == code, document["error"]
    for word in words:
        assert word in document["error"]["detail"], document["error"]


def register(service, path, name):
    return service.post("/v1/checkpoints", {"trajectory": name, "name": "a", "source": {"path": str(path)}})


def evaluate(service, checkpoint, dataset, **more):
    params = {"checkpoint": checkpoint, "dataset": dataset, "sequence_length": None, **more}
    return service.post("/v1/runs", {"kind": "evaluate", "params": params})


@pytest.mark.parametrize("change", ["truncate", "replace", "remove"])
def test_weights_that_change_under_a_running_run(service, change):
    shape = {"num_hidden_layers": 12}  # some blocks are read ahead
    directory = models.write_llama(service.files / change, **shape)
    weights = directory / "model.safetensors"
    service.checkpoint(directory, change, "a")
    service.sequences("many", models.rows(4, 64))
    other = models.write_llama(service.files / "other", seed=7, **shape)
    with service.gate.holding("evaluate", 1, "chunk"):
        run = submit(service, {"kind": "evaluate",
                               "params": {"checkpoint": f"{change}/a", "dataset": "many", "sequence_length": None}})
        service.held(run)
        if change == "truncate":
            os.truncate(weights, weights.stat().st_size // 4)
        elif change == "replace":
            os.replace(other / "model.safetensors", weights)
        else:
            weights.unlink()
    failed(service.wait(run), "input_changed", "model.safetensors")


def test_weights_that_changed_before_the_run(service, data):
    directory = models.write_llama(service.files / "before")
    service.checkpoint(directory, "before", "a")
    models.write_llama(directory, seed=9)
    failed(service.wait(evaluate(service, "before/a", data).json["id"]), "input_changed", '"a"')


def test_weights_cut_before_the_run(service, data):
    directory = models.write_llama(service.files / "cut")
    service.checkpoint(directory, "cut", "a")
    os.truncate(directory / "model.safetensors", 5000)
    failed(service.wait(evaluate(service, "cut/a", data).json["id"]), "corrupt", "model.safetensors")


@pytest.mark.parametrize("value,word", [(numpy.nan, "NaN"), (-numpy.inf, "inf")])
@pytest.mark.parametrize("kind", ["evaluate", "quantize"])
def test_weights_that_are_not_numbers_are_named(service, data, kind, value, word):
    def spoil(tensors):
        tensors["model.layers.1.mlp.up_proj.weight"][3, 5] = value

    name = f"not-finite-{word}-{kind}".lower()
    service.checkpoint(models.write_llama(service.files / name, change=spoil), name, "a")
    use = {"dataset": data, "sequence_length": None}
    params = {"checkpoint": f"{name}/a", **(
        use if kind == "evaluate" else {"method": {"name": "rtn", "bits": 4, "group_size": 16}, "evaluation": use})}
    document = service.wait(submit(service, {"kind": kind, "params": params}))
    failed(document, "not_finite", '"model.layers.1.mlp.up_proj.weight"', "[3, 5]", word)


def test_ids_beyond_the_vocabulary(service):
    service.checkpoint(models.write_llama(service.files / "words"), "words", "a")
    service.sequences("foreign", [[1, 2, 3, 256, 5]])
    failed(service.wait(evaluate(service, "words/a", "foreign").json["id"]), "invalid", "256")


def test_a_tokenizer_with_more_tokens_than_the_model(service):
    (service.files / "sentences").write_text("one sentence after another. " * 50)
    service.post("/v1/datasets", {"name": "sentences", "path": "sentences", "format": "text"})
    service.checkpoint(models.write_llama(service.files / "narrow", vocab_size=100), "narrow", "a")
    failed(service.wait(evaluate(service, "narrow/a", "sentences", sequence_length=CONTEXT).json["id"]),
           "invalid", "100")


def test_too_little_text(service):
    (service.files / "short").write_text("too short")
    service.post("/v1/datasets", {"name": "short", "path": "short", "format": "text"})
    service.checkpoint(models.write_llama(service.files / "reader"), "reader", "a")
    failed(service.wait(evaluate(service, "reader/a", "short", sequence_length=CONTEXT).json["id"]),
           "invalid", str(CONTEXT))


def test_an_architecture_that_is_not_known(service):
    directory = models.write_llama(service.files / "rwkv", model_type="rwkv", architectures=["RwkvForCausalLM"])
    refused(register(service, directory, "rwkv"), 422, "unsupported", "rwkv")


def cut_header(path):
    path.write_bytes(path.read_bytes()[:40])


def cut_data(path):
    os.truncate(path, path.stat().st_size - 4)


def extend(path):
    with open(path, "ab") as file:
        file.write(b"more")


def announce_too_much(path):
    content = path.read_bytes()
    path.write_bytes((2**63).to_bytes(8, "little") + content[8:])


def shift(path):
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header["model.norm.weight"]["data_offsets"][0] -= 4
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])


@pytest.mark.parametrize("spoil", [cut_header, cut_data, extend, announce_too_much, shift])
def test_hostile_safetensors_are_not_registered(service, spoil):
    directory = models.write_llama(service.files / spoil.__name__)
    spoil(directory / "model.safetensors")
    refused(register(service, directory, spoil.__name__.replace("_", "-")), 422, "corrupt", "model.safetensors")
    assert service.get(f"/v1/trajectories/{spoil.__name__.replace('_', '-')}").status == 404, "nothing half-made"


@pytest.mark.parametrize("path", ["/etc", "../../../etc", "/proc/self", "link-out"])
def test_what_lies_outside_the_roots_is_told_from_nothing_by_nothing(service, path):
    absent = refused(register(service, "/nothing/here", "outside"), 422, "invalid", "roots")
    if path == "link-out" and not (service.files / path).is_symlink():
        (service.files / path).symlink_to("/etc")
    problem = refused(register(service, path, "outside"), 422, "invalid", "roots")
    assert problem["errors"] == absent["errors"] and problem["errors"][0]["pointer"] == "/source/path"


def test_bits_1(service, data):
    service.checkpoint(models.write_llama(service.files / "bits"), "bits", "a")
    params = {"checkpoint": "bits/a", "method": {"name": "rtn", "bits": 1}, "evaluation": {"dataset": data}}
    problem = refused(service.post("/v1/runs", {"kind": "quantize", "params": params}), 422, "invalid")
    assert [e["pointer"] for e in problem["errors"]] == ["/params/method/bits"]


@pytest.mark.parametrize("body", [b"{", b"", b"{]", b'{"a": 1e999}', b'{"a": 1, "a": 2}', b"\xff\xfe", b"[" * 100000,
                                  b'{"kind": "evaluate"} x'])
def test_malformed_json(service, body):
    refused(service.post("/v1/runs", body), 400, "malformed")


def test_a_body_of_a_gigabyte_is_refused_unread(service):
    """Announced whole, and sent in chunks without end: neither is stored."""
    answer = service.request("POST", "/v1/runs", b"", {"Content-Length": str(1 << 30)})
    refused(answer, 413, "too_large")
    connection = socket.create_connection(("127.0.0.1", service.port), timeout=20)
    connection.sendall(b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       b"Transfer-Encoding: chunked\r\n\r\n")
    sent, chunk = 0, b"10000\r\n" + b" " * 65536 + b"\r\n"
    try:
        while sent < 1 << 30:
            connection.sendall(chunk)
            sent += 65536
    except OSError:
        pass
    assert sent < 64 << 20, "it was cut off early"
    connection.close()
    assert service.get("/healthz").status == 200
