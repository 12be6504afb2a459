"""What clients made from openapi.yaml meet: they send every default that a schema describes.
Sent, it means what it means when it is left out."""

import json

import models
import pytest
from contract import OPENAPI, resolve
from service import Service

POSITIONS = 4096  # the default of sequence_length fits
PROSE = "the quick brown fox jumps over the lazy dog. " * 250
RTN = {"name": "rtn", "bits": 4, "group_size": 16}
GPTQ = {"name": "gptq", "bits": 3, "group_size": 16}


def fits(schema, value):
    """Whether this branch of a union is meant: null, or an object by its fields and by those that are constant."""
    if schema.get("type") == "null" or value is None:
        return schema.get("type") == "null" and value is None
    if "oneOf" in schema:
        return any(fits(resolve(branch), value) for branch in schema["oneOf"])
    if not isinstance(value, dict):
        return True
    known = schema.get("properties", {})
    constant = {name: inner["const"] for name, inner in known.items() if "const" in inner}
    return set(value) <= set(known) and all(value.get(name, given) == given for name, given in constant.items())


def completed(schema, value):
    """`value` with every default that its schema describes, in objects and lists too."""
    schema = resolve(schema)
    if "oneOf" in schema:
        return next(completed(branch, value) for branch in schema["oneOf"] if fits(resolve(branch), value))
    if isinstance(value, list):
        return [completed(schema.get("items", {}), item) for item in value]
    if not isinstance(value, dict):
        return value
    out = dict(value)
    for name, inner in schema.get("properties", {}).items():
        given = out[name] if name in out else inner.get("default", ...)
        if given is not ...:
            out[name] = completed(inner, given)
    return out


def request_of(kind, params):
    return completed({"$ref": "#/components/schemas/RunRequest"}, {"kind": kind, "params": params})


def lay_out(service):
    """Four checkpoints, text and inline sequences, questions."""
    for seed in range(4):
        path = models.write_llama(service.files / "clients" / f"step{seed}", seed, max_position_embeddings=POSITIONS)
        service.checkpoint(path, "clients", path.name, step=seed)
    (service.files / "prose.txt").write_text(PROSE)
    answer = service.post("/v1/datasets", {"name": "prose", "path": str(service.files / "prose.txt"), "format": "text"})
    assert answer.status == 201, answer.body
    service.sequences("clients-inline", models.rows(3, 24))
    question = {"goal": "to open a jar", "sol1": "turn the lid", "sol2": "eat the lid", "label": 0}
    (service.files / "piqa.jsonl").write_text(json.dumps(question) + "\n")


@pytest.fixture(scope="module")
def idle(tmp_path_factory):
    """A server whose runs stay in the queue."""
    directory = tmp_path_factory.mktemp("clients")
    service = Service(directory, "--threads", "1", environment={"HF_ENDPOINT": "http://127.0.0.1:9"})
    lay_out(service)
    assert service.run("train", **{**TRAIN, "trajectory": "stable"})["state"] == "succeeded"
    assert service.stop() == 0
    service.options = ["--workers", "0"]
    service.start()
    yield service
    assert service.stop() == 0


CHECKPOINT, OTHER, THIRD = "clients/step1", "clients/step2", "clients/step3"
MODEL = {
    "model_type": "llama",
    "vocab_size": 256,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
}
TRAIN = {
    "trajectory": "clients-made",
    "model": MODEL,
    "dataset": "prose",
    "tokens": 4096,
    "batch_sequences": 4,
    "sequence_length": 32,
    "tokenizer": {"name": "bytes"},
    "schedule": {"name": "constant", "peak": 1e-3},
}
LEAST = [  # the least that each kind wants; methods and objects that may be null given too
    ("evaluate", {"checkpoint": CHECKPOINT, "dataset": "prose"}),
    ("evaluate", {"checkpoint": CHECKPOINT, "dataset": "clients-inline"}),
    ("quantize", {"checkpoint": CHECKPOINT, "method": RTN, "evaluation": {"dataset": "prose"}}),
    (
        "quantize",
        {
            "checkpoint": CHECKPOINT,
            "method": GPTQ,
            "calibration": {"dataset": "prose"},
            "evaluation": {"dataset": "prose"},
        },
    ),
    (
        "quantize",
        {
            "checkpoint": CHECKPOINT,
            "method": GPTQ,
            "calibration": {"dataset": "clients-inline"},
            "evaluation": {"dataset": "clients-inline"},
        },
    ),
    ("sharpness", {"checkpoint": CHECKPOINT, "dataset": "prose"}),
    (
        "sharpness",
        {
            "checkpoint": CHECKPOINT,
            "dataset": "prose",
            "direction": {"method": GPTQ, "calibration": {"dataset": "prose"}},
        },
    ),
    ("train", TRAIN),
    ("average", {"checkpoints": [CHECKPOINT, OTHER]}),
    ("interpolate", {"from": CHECKPOINT, "to": OTHER, "dataset": "prose"}),
    ("landscape", {"checkpoints": [CHECKPOINT, OTHER, THIRD], "dataset": "prose"}),
    ("health", {"checkpoint": CHECKPOINT}),
    ("fetch", {"repo": "some/model"}),
    ("tasks", {"checkpoint": CHECKPOINT, "tasks": [{"name": "piqa", "path": "piqa.jsonl"}], "shots": 0}),
    ("attribution", {"checkpoint": CHECKPOINT, "method": RTN, "evaluation": {"dataset": "prose"}}),
    ("compare", {"checkpoints": [CHECKPOINT, OTHER], "evaluation": {"dataset": "prose"}}),
    (
        "plan",
        {
            "trajectory": "stable",
            "method": RTN,
            "evaluation": {"dataset": "clients-inline"},
            "options": [{"average": 1}, {"decay": 512}],
            "budget": 512,
        },
    ),
]


def test_every_kind_is_here():
    assert {kind for kind, _ in LEAST} == set(OPENAPI["components"]["schemas"]["Kind"]["enum"])


@pytest.mark.parametrize("kind,params", LEAST, ids=[f"{kind}-{i}" for i, (kind, _) in enumerate(LEAST)])
def test_defaults_that_are_sent_are_the_defaults(idle, kind, params):
    if kind == "tasks":
        params = {**params, "tasks": [{**task, "path": str(idle.files / task["path"])} for task in params["tasks"]]}
    least, whole = {"kind": kind, "params": params}, request_of(kind, params)
    assert len(json.dumps(whole)) > len(json.dumps(least)) + 40
    first, second = idle.post("/v1/runs", least), idle.post("/v1/runs", whole)
    assert first.status == 202, first.body
    assert second.status == 200, second.body  # the run that was asked for before
    assert second.json["id"] == first.json["id"]


def test_a_quantize_run_with_every_default_sent(service):
    lay_out(service)
    data = {"dataset": "prose"}
    body = request_of("quantize", {"checkpoint": CHECKPOINT, "method": GPTQ, "calibration": data, "evaluation": data})
    assert body["params"]["evaluation"] == {
        "dataset": "prose",
        "sequence_length": 2048,
        "packing": "blocks",
        "max_sequences": None,
    }
    assert body["params"]["method"]["overrides"] == [] and body["params"]["export"] is None and body["dry_run"] is False
    answer = service.post("/v1/runs", body)
    assert answer.status == 202, answer.body
    run = service.wait(answer.json["id"])
    assert run["state"] == "succeeded", run["error"]
    assert run["result"]["tokens"] == len(PROSE) // 2048 * 2048
    assert run["result"]["delta"] == pytest.approx(run["result"]["loss_q"] / run["result"]["loss_fp"] - 1)
