"""Every architecture over HTTP: trained from its configuration, evaluated, quantized;
experts with too few tokens."""

import csv
import io
import re

import models
import pytest

SIZES = {"vocab_size": 256, "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2,
         "max_position_embeddings": 64}
DENSE = {**SIZES, "num_key_value_heads": 2, "intermediate_size": 48}
RECURRENT = {"vocab_size": 256, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}
CONFIGS = {
    "llama": DENSE,
    "gpt_neox": {**SIZES, "intermediate_size": 48},
    "olmo2": DENSE,
    "smollm3": DENSE,
    "mistral": {**DENSE, "sliding_window": 8},
    "qwen2": DENSE,
    "qwen3": {**DENSE, "head_dim": 8},
    "opensci": DENSE,
    "mamba": RECURRENT,
    "mamba2": {**RECURRENT, "num_heads": 8, "head_dim": 8, "n_groups": 1},
    "gpt2": {"vocab_size": 256, "n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 64},
    "opt": {**SIZES, "ffn_dim": 48, "word_embed_proj_dim": 16, "do_layer_norm_before": False},
    "apertus": {**DENSE, "hidden_act": "xielu"},
    "olmoe": {**SIZES, "intermediate_size": 16, "num_experts": 16, "num_experts_per_tok": 1},
}


def done(service, kind, **params):
    run = service.wait(service.post("/v1/runs", {"kind": kind, "params": params}).json["id"])
    assert run["state"] == "succeeded", run["error"]
    return run["result"]


@pytest.fixture(scope="module")
def data(service):
    few = models.rows(1, 12, seed=4)
    return {"train": service.sequences("architectures", models.rows(16, 32))["name"],
            "few": service.sequences("architectures-few", few)["name"]}


@pytest.fixture(scope="module", params=CONFIGS)
def trained(service, data, request):
    model = {"model_type": request.param, **CONFIGS[request.param]}
    result = done(service, "train", trajectory="architectures-" + request.param, model=model, dataset=data["train"],
                  tokens=4 * 4 * 32, batch_sequences=4, sequence_length=32, tokenizer={"name": "none"},
                  optimizer={"name": "adamw"}, schedule={"name": "constant", "peak": 1e-3})
    return {"architecture": request.param, "checkpoint": result["checkpoints"][-1], "loss": result["final_loss"]}


def test_every_architecture_of_the_program_has_a_row(service, data):
    """That each has another program's numbers is asked in tests/unit/engine/model/test_reference.c."""
    refused = service.post("/v1/runs", {"kind": "train", "params": {
        "trajectory": "architectures-none", "model": {"model_type": "none", **SIZES}, "dataset": data["train"],
        "tokens": 128, "batch_sequences": 1, "sequence_length": 32, "tokenizer": {"name": "none"},
        "optimizer": {"name": "adamw"}, "schedule": {"name": "constant", "peak": 1e-3}}})
    assert refused.status == 422
    known = re.search("supported are (.*)$", refused.json["detail"]).group(1).split(", ")
    assert set(known) == set(CONFIGS)


def quantize(service, data, trained, method, calibration="train"):
    return done(service, "quantize", checkpoint=trained["checkpoint"],
                method=method, evaluation={"dataset": data["train"]},
                calibration={"dataset": data[calibration], "packing": "documents"})


def test_a_trained_model_is_evaluated_as_what_it_is(service, data, trained):
    checkpoint = service.get("/v1/checkpoints/" + trained["checkpoint"]).json
    assert checkpoint["architecture"] == trained["architecture"]
    result = done(service, "evaluate", checkpoint=trained["checkpoint"], dataset=data["train"], sequence_length=32)
    assert 4 < result["loss"] < 6 and abs(result["loss"] - trained["loss"]) < 0.5


def test_rotation_and_eight_bits_leave_the_loss(service, data, trained):
    skip = {"name": "rtn", "rotation": "hadamard", "overrides": [{"pattern": ".", "skip": True}]}
    result = quantize(service, data, trained, skip)
    assert abs(result["loss_q"] - result["loss_fp"]) < 2e-5
    result = quantize(service, data, trained, {"name": "gptq", "bits": 8, "group_size": 16})
    assert abs(result["delta"]) < 1e-3
    for layer in result["layers"]:
        assert layer["tokens"] == result["calibration_tokens"] or ".experts." in layer["name"]


def test_experts_that_no_token_visits_are_named(service, data, trained):
    result = quantize(service, data, trained, {"name": "gptq", "group_size": 16}, calibration="few")
    cold = [layer for layer in result["layers"] if layer["degraded"]]
    assert result["degraded_layers"] == len(cold)
    if trained["architecture"] != "olmoe":
        assert not cold and "note" not in result
        return
    visits = sum(layer["tokens"] for layer in result["layers"] if layer["name"].endswith("gate_proj"))
    assert visits == 2 * result["calibration_tokens"] and cold  # 12 tokens, 16 experts
    for layer in cold:
        assert ".experts." in layer["name"] and layer["tokens"] == 0 and "0 of 12" in layer["degraded"]
    assert result["undersampled_layers"] >= len(cold) and "rounded to nearest" in result["note"]


def test_a_sequence_has_its_outliers_whatever_stands_beside_it(service, trained):
    if trained["architecture"] != "olmoe":
        return
    rows = models.rows(6, 32, seed=21)
    alone, among = (service.sequences(f"architectures-{name}", told)["name"]
                    for name, told in (("alone", rows[:1]), ("among", rows)))
    for variant in ("bnb", "paper"):
        method = {"name": "llm_int8", "threshold": 1.5, "variant": variant}
        found = []
        for name in (alone, among):
            run = service.run("quantize", checkpoint=trained["checkpoint"], method=method, evaluation={"dataset": name})
            text = service.get(f"/v1/runs/{run['id']}/artifacts/losses.csv").body.decode()
            found.append(next(csv.DictReader(io.StringIO(text)))["loss_q"])
        assert found[0] == found[1], variant


def test_inputs_of_experts_that_no_token_visits_are_rounded_too(service, data, trained):
    if trained["architecture"] != "olmoe":
        return
    skip = [{"pattern": "self_attn", "skip": True}]
    method = {"name": "smoothquant", "activation_bits": 4}
    layers = quantize(service, data, trained, {**method, "overrides": skip}, calibration="few")["layers"]
    cold = [layer["name"].replace(".", r"\.") for layer in layers if layer["degraded"]]
    skip = [{"pattern": f"^(?!({'|'.join(cold[:8])})$)", "skip": True}]
    found, expected, unrounded = (
        quantize(service, data, trained, {**told, "overrides": skip}, calibration="few")["loss_q"]
        for told in (method, {"name": "rtn", "bits": 8, "group_size": -1, "activation_bits": 4},
                     {"name": "rtn", "bits": 8, "group_size": -1}))
    assert found == expected != unrounded
