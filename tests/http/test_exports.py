"""Exports over HTTP: what a quantize run leaves, unpacked here bit by bit,
against the dequantized checkpoint of the same method."""

import json
import re

import models
import numpy
import pytest

HALF, SINGLE = 2.0 ** -11, 2.0 ** -23  # roundoff of scales and of a product
WIDTH, MIDDLE = 64, 96
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]
BESIDE = ["added_tokens.json", "chat_template.jinja", "generation_config.json", "merges.txt",
              "special_tokens_map.json", "tokenizer.model", "tokenizer_config.json", "vocab.json"]


@pytest.fixture(scope="module")
def subject(service):
    directory = models.write_llama(service.files / "exports", seed=4, hidden_size=WIDTH, intermediate_size=MIDDLE)
    for name in BESIDE:
        (directory / name).write_text("{}" if name.endswith(".json") else f"of {name}")
    made = service.checkpoint(directory, "exports", "one", step=7, tokens=70)
    return {"checkpoint": made["id"], "data": service.sequences("exports", models.rows(4, 32))["name"],
            "calibration": service.sequences("exports-calibration", models.rows(4, 32, seed=3))["name"]}


def post(service, subject, method, export, **more):
    params = {"checkpoint": subject["checkpoint"], "method": method, "evaluation": {"dataset": subject["data"]},
              "calibration": {"dataset": subject["calibration"]}, "export": export, **more}
    return service.post("/v1/runs", {"kind": "quantize", "params": params})


def run(service, *arguments, **more):
    answer = post(service, *arguments, **more)
    assert answer.status in (200, 202), answer.body
    document = service.wait(answer.json["id"])
    assert document["state"] == "succeeded", document["error"]
    return document


@pytest.mark.parametrize("export", ["gptq", "dequantized"])
def test_the_files_that_other_tools_read_beside_weights_are_exported(service, subject, export):
    document = run(service, subject, {"name": "rtn", "bits": 4, "group_size": 32}, export)
    assert set(document["result"]["export"]["artifacts"]) > set(BESIDE)
    for name in BESIDE:
        assert artifact(service, document, name) == (service.files / "exports" / name).read_bytes()


def artifact(service, document, name):
    answer = service.get(f"/v1/runs/{document['id']}/artifacts/{name}")
    assert answer.status == 200, answer.body
    return answer.body


def read(raw):
    """Tensors of a safetensors file."""
    size = int.from_bytes(raw[:8], "little")
    header, kinds = json.loads(raw[8:8 + size]), {"F32": "<f4", "F16": "<f2", "I32": "<i4", "I64": "<i8"}
    header.pop("__metadata__", None)
    return {name: numpy.frombuffer(raw[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]],
                                   kinds[entry["dtype"]]).reshape(entry["shape"]) for name, entry in header.items()}


def unpack(words, bits, count):
    """Codes along the last axis, the lowest bits first, without gaps between words."""
    stream = ((words.astype(numpy.uint32)[..., None] >> numpy.arange(32, dtype=numpy.uint32))
              & 1).reshape(*words.shape[:-1], -1)
    codes = stream[..., :count * bits].reshape(*words.shape[:-1], count, bits)
    return (codes * (1 << numpy.arange(bits))).sum(-1).astype(numpy.int64)


def of_gptq(tensors, name, config):
    own = next((told for pattern, told in config.get("dynamic", {}).items()
                if pattern[0] == "+" and re.match(pattern[2:], name)), config)
    bits, offset = own["bits"], 1 if config["checkpoint_format"] == "gptq" else 0
    groups = len(tensors[f"{name}.g_idx"]) // own["group_size"] if own["group_size"] > 0 else 1
    assert len(tensors[f"{name}.scales"]) == groups
    groups = tensors[f"{name}.g_idx"]
    scales = tensors[f"{name}.scales"].astype(numpy.float64)
    codes = unpack(tensors[f"{name}.qweight"].T, bits, len(groups))  # [rows, columns]
    zeros = unpack(tensors[f"{name}.qzeros"], bits, scales.shape[1]) + offset
    return (codes - zeros[groups].T) * scales[groups].T


def of_awq(tensors, name, config):
    def turned(words):
        codes = unpack(words, 4, words.shape[1] * 8).reshape(len(words), -1, 8)
        out = numpy.empty_like(codes)
        out[:, :, AWQ_ORDER] = codes
        return out.reshape(len(words), -1)

    codes, zeros = turned(tensors[f"{name}.qweight"]), turned(tensors[f"{name}.qzeros"])
    each = len(codes) // len(zeros)
    assert config["group_size"] in (each, -1)
    scales = tensors[f"{name}.scales"].astype(numpy.float64)
    return ((codes - zeros.repeat(each, 0)) * scales.repeat(each, 0)).T


def of_compressed(tensors, name, config):
    groups = config["config_groups"].values()
    weights = next(group for group in groups if group["targets"] == ["Linear"] or name in group["targets"])["weights"]
    bits, (rows, columns) = weights["num_bits"], tensors[f"{name}.weight_shape"]
    scales = tensors[f"{name}.weight_scale"].astype(numpy.float64)
    codes = unpack(tensors[f"{name}.weight_packed"], bits, columns)
    zeros = numpy.full(scales.shape, 1 << (bits - 1))
    if not weights["symmetric"]:
        zeros = unpack(tensors[f"{name}.weight_zero_point"].T, bits, rows).T
    each = columns // scales.shape[1]
    return (codes - zeros.repeat(each, 1)) * scales.repeat(each, 1)


def loss_of(service, subject, name, tensors):
    """Of a plain checkpoint with these tensors."""
    directory = models.write_llama(service.files / name, seed=4, hidden_size=WIDTH, intermediate_size=MIDDLE)
    models.write_safetensors(directory / "model.safetensors", tensors)
    made = service.checkpoint(directory, "exports-loaded", name)
    return service.run("evaluate", checkpoint=made["id"], dataset=subject["data"])["result"]["loss"]


MIXED = [{"pattern": "layers.0.*o_proj", "skip": True}, {"pattern": "down_proj$", "bits": 8},
         {"pattern": "k_proj", "bits": 8, "group_size": 16}]
READERS = {"gptq": (of_gptq, "qweight"), "awq": (of_awq, "qweight"),
           "compressed-tensors": (of_compressed, "weight_packed")}


@pytest.mark.parametrize("export,method", [
    ("gptq", {"name": "rtn", "bits": 2, "group_size": 32}),
    ("gptq", {"name": "gptq", "bits": 3, "group_size": 32, "sym": False}),
    ("gptq", {"name": "gptq", "bits": 4, "group_size": 32, "desc_act": True}),
    ("gptq", {"name": "gptq", "bits": 4, "group_size": -1, "desc_act": True,
              "overrides": [{"pattern": "down_proj", "group_size": 32}]}),
    ("gptq",
     {"name": "gptq", "bits": 8, "group_size": -1, "overrides": [{"pattern": "layers.0.*down_proj$", "skip": True}]}),
    ("gptq", {"name": "gptq", "bits": 4, "group_size": 32, "overrides": [*MIXED, {"pattern": "up_proj", "bits": 3}]}),
    ("awq", {"name": "gptq", "bits": 4, "group_size": 32}),
    ("awq",
     {"name": "rtn", "bits": 4, "group_size": 16, "sym": False, "overrides": [{"pattern": "o_proj", "skip": True}]}),
    ("compressed-tensors", {"name": "gptq", "bits": 4, "group_size": 32}),
    ("compressed-tensors", {"name": "gptq", "bits": 4, "group_size": -1, "desc_act": True}),
    ("compressed-tensors", {"name": "rtn", "bits": 8, "group_size": -1, "sym": False}),
    ("compressed-tensors", {"name": "gptq", "bits": 4, "group_size": 32, "overrides": MIXED}),
    ("compressed-tensors",
     {"name": "rtn", "bits": 4, "group_size": 32, "sym": False, "overrides": [{"pattern": "k_proj", "skip": True}]}),
], ids=lambda x: x if isinstance(x, str) else f"{x['name']}-{x['bits']}")
def test_packed_weights_are_those_that_were_measured(service, subject, export, method):
    packed, plain = run(service, subject, method, export), run(service, subject, method, "dequantized")
    # float32 scales, as the model's
    assert (packed["result"]["loss_q"] == plain["result"]["loss_q"]) == (export == "compressed-tensors")
    assert packed["result"]["artifact"] == "model.safetensors" and packed["result"]["export"]["format"] == export
    listed = {item["name"] for item in service.get(f"/v1/runs/{packed['id']}/artifacts").json["items"]}
    files = set(packed["result"]["export"]["artifacts"])
    assert listed == files | {"losses.csv"} and files >= {"config.json", "model.safetensors", "tokenizer.json"}
    tensors = read(artifact(service, packed, "model.safetensors"))
    config = json.loads(artifact(service, packed, "config.json"))["quantization_config"]
    values = read(artifact(service, plain, "model.safetensors"))
    reader, mark = READERS[export]
    layers = {name[:-len(mark) - 1] for name in tensors if name.endswith(mark)}
    assert layers == {layer["name"] for layer in packed["result"]["layers"] if not layer["skipped"]} and layers
    unpacked = {name: reader(tensors, name, config) for name in layers}
    for name, got in unpacked.items():
        expected = values[f"{name}.weight"]
        near = numpy.abs(got - expected) <= (HALF + SINGLE) * numpy.abs(expected)
        # gptq calibrates a layer on those before, whose scales are float16 in the one and float32 in the other
        same_inputs = method["name"] == "rtn" or export == "compressed-tensors" or "layers.0.self_attn.q" in name
        assert got.shape == expected.shape and (numpy.all(near) or not same_inputs), name
    for name, expected in values.items():
        if name.removesuffix(".weight") not in layers:
            assert numpy.array_equal(tensors[name], expected), name
    loaded = {**values, **{f"{name}.weight": got.astype(numpy.float32) for name, got in unpacked.items()}}
    assert loss_of(service, subject, f"{export}-{packed['id']}", loaded) == pytest.approx(
        packed["result"]["loss_q"], rel=1e-7)
    skipped = [layer["name"] for layer in packed["result"]["layers"] if layer["skipped"]]
    told = json.dumps(config)
    assert all(name in told or name.replace(".", "\\\\.") in told for name in skipped)


AWQ = {"name": "awq", "group_size": 32}


@pytest.mark.parametrize("method", [
    AWQ, {**AWQ, "overrides": [{"pattern": "v_proj", "bits": 8}]},
    {**AWQ, "overrides": [{"pattern": "gate_proj", "group_size": 16}, {"pattern": "q_proj", "bits": 4}]},
], ids=["plain", "bits", "groups"])
def test_folded_scales_leave_the_model_that_was_measured(service, subject, method):
    packed, loaded = folded(service, subject, method)
    assert loss_of(service, subject, f"folded-{packed['id']}", loaded) == pytest.approx(
        packed["result"]["loss_q"], rel=1e-6)


@pytest.mark.parametrize("bits", [8, 4])
def test_rounded_inputs_of_awq_are_those_of_the_folded_model(service, subject, bits):
    # only of the first input, because later layers are calibrated on rounded inputs
    first = [{"pattern": "^(?!model.layers.0.self_attn.[qkv]_proj$)", "skip": True}]
    method = {**AWQ, "overrides": first}
    packed, loaded = folded(service, subject, method)
    name = f"rounded-{packed['id']}"
    loss_of(service, subject, name, loaded)
    checkpoint = next(item["id"] for item in service.get("/v1/checkpoints?trajectory=exports-loaded").json["items"]
                      if item["name"] == name)
    # blocks of one weight change no weight
    exact = {"name": "nf4", "block_size": 1, "double_quant": False, "activation_bits": bits, "overrides": first}
    there = run(service, {**subject, "checkpoint": checkpoint}, exact, None)["result"]["loss_q"]
    here = run(service, subject, {**method, "activation_bits": bits}, None)["result"]["loss_q"]
    # an input on a tie may be rounded the other way
    assert abs(here - there) < 0.02 * abs(there - packed["result"]["loss_q"]), (here, there)


def folded(service, subject, method):
    """A run with an export, and the tensors of the model that it holds."""
    packed = run(service, subject, method, "compressed-tensors")
    tensors = read(artifact(service, packed, "model.safetensors"))
    config = json.loads(artifact(service, packed, "config.json"))["quantization_config"]
    layers = [layer["name"] for layer in packed["result"]["layers"] if not layer["skipped"]]
    loaded = {name: tensor for name, tensor in tensors.items() if name.endswith((".weight", ".bias"))}
    loaded.update({f"{name}.weight": of_compressed(tensors, name, config).astype(numpy.float32) for name in layers})
    return packed, loaded


def test_column_scales_cost_bits_where_nothing_takes_them(service, subject):
    def bits(**more):
        result = run(service, subject, {**AWQ, **more}, None)["result"]
        return result["bits_per_weight"], sum(layer["rows"] * layer["columns"] for layer in result["layers"])

    plain, weights = bits()
    # per block q, k and v: 16 bits for each of the inputs of q and k; v has 16 bits a weight in place of 4 and a grid
    kept = 2 * (2 * 16 * WIDTH + WIDTH // 2 * WIDTH * (16 - 4 - 20 / 32))
    assert bits(overrides=[{"pattern": "v_proj", "skip": True}])[0] == pytest.approx(plain + kept / weights)
    # the inputs of down_proj are rotated in the forward pass
    assert bits(rotation="hadamard")[0] == pytest.approx(plain + 2 * 16 * MIDDLE / weights)


def test_an_override_that_changes_nothing_changes_no_number(service, subject):
    for method, same in ((AWQ, {"pattern": "v_proj", "bits": 4}),
                         ({"name": "smoothquant"}, {"pattern": "v_proj", "bits": 8}),
                         ({"name": "gptq", "group_size": 32}, {"pattern": "v_proj", "bits": 4})):
        plain, told = (run(service, subject, {**method, "overrides": items}, None)["result"] for items in ([], [same]))
        assert plain["loss_q"] == told["loss_q"], method


@pytest.mark.parametrize("export", ["gptq", "awq"])
def test_groups_that_hold_whole_rows_are_named_as_such(service, subject, export):
    packed = run(service, subject, {"name": "gptq", "group_size": 100}, export)
    config = json.loads(artifact(service, packed, "config.json"))["quantization_config"]
    assert config["group_size"] == -1 and "dynamic" not in config
    tensors = read(artifact(service, packed, "model.safetensors"))
    assert all(len(tensor) == 1 for name, tensor in tensors.items() if name.endswith((".scales", ".qzeros")))


def test_the_format_has_its_own_file_too(service, subject):
    packed = run(service, subject, {"name": "gptq", "bits": 4, "group_size": 32, "desc_act": True}, "gptq")
    alone = json.loads(artifact(service, packed, "quantize_config.json"))
    assert alone == json.loads(artifact(service, packed, "config.json"))["quantization_config"]
    assert (alone["bits"], alone["group_size"], alone["desc_act"], alone["sym"], alone["checkpoint_format"]) == (
        4, 32, True, True, "gptq")


@pytest.mark.parametrize("overrides,ordered", [([], False), ([{"pattern": "down_proj", "group_size": 32}], True)],
                         ids=["whole rows", "groups"])
def test_the_order_of_columns_of_one_module_is_named(service, subject, overrides, ordered):
    """A reader sorts columns by g_idx in all modules or in none, as desc_act says."""
    method = {"name": "gptq", "bits": 4, "group_size": -1, "desc_act": True, "overrides": overrides}
    packed = run(service, subject, method, "gptq")
    tensors = read(artifact(service, packed, "model.safetensors"))
    indexes = {name: tensor for name, tensor in tensors.items() if name.endswith(".g_idx")}
    permuted = {name for name, index in indexes.items() if (numpy.diff(index) < 0).any()}
    assert permuted == {name for name in indexes if ordered and "down_proj" in name}
    assert json.loads(artifact(service, packed, "quantize_config.json"))["desc_act"] is ordered


@pytest.mark.parametrize("method", [{"name": "awq", "group_size": 32}, {"name": "nf4"}, {"name": "mxfp4"},
                                    {"name": "gptq", "bits": 3, "group_size": 16, "keep_outliers": 3}],
                         ids=lambda m: m["name"])
def test_a_dequantized_checkpoint_is_registered_and_has_the_measured_loss(service, subject, method):
    done = run(service, subject, method, "dequantized")
    made = service.get(f"/v1/checkpoints/{done['result']['export']['checkpoint']}").json
    assert (made["trajectory"], made["step"], made["tokens"], made["dtype"]) == ("exports-quantized", 7, 70, "F32")
    assert made["derived_from"]["checkpoints"] == [subject["checkpoint"]] and made["derived_from"]["run"] == done["id"]
    again = service.run("evaluate", checkpoint=made["id"], dataset=subject["data"])
    assert again["result"]["loss"] == pytest.approx(done["result"]["loss_q"], rel=1e-6)
    assert artifact(service, done, done["result"]["artifact"])[:8]


@pytest.mark.parametrize("overrides", [[], [{"pattern": "down_proj$|k_proj$", "bits": 4}]], ids=["Q8_0", "mixed"])
def test_a_gguf_file_is_a_checkpoint_again(service, subject, overrides):
    done = run(service, subject, {"name": "gptq", "bits": 8, "group_size": 32, "overrides": overrides}, "gguf")
    assert done["result"]["artifact"] == "model.gguf"
    path = service.files / "exports-gguf" / f"{len(overrides)}.gguf"  # beside no file of another test
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(artifact(service, done, "model.gguf"))
    made = service.checkpoint(path, "exports", f"gguf-{len(overrides)}")
    assert made["architecture"] == "llama"
    again = service.run("evaluate", checkpoint=made["id"], dataset=subject["data"])
    assert again["result"]["loss"] == pytest.approx(done["result"]["loss_q"], rel=1e-7)
    texts = ["hello world", " a  b\n", "\u00e9"]
    ids = [service.post("/v1/tokenize", {"checkpoint": checkpoint, "texts": texts}).json["ids"]
           for checkpoint in (made["id"], subject["checkpoint"])]
    assert ids[0] == ids[1] and ids[0][0] == list(b"hello world")


def test_a_tokenizer_that_gguf_has_no_words_for_is_refused_when_posted(service, subject):
    directory = models.write_llama(service.files / "lowercase", hidden_size=WIDTH, intermediate_size=MIDDLE)
    tokenizer = json.loads((directory / "tokenizer.json").read_text())
    (directory / "tokenizer.json").write_text(json.dumps({**tokenizer, "normalizer": {"type": "NFKD"}}))
    made = service.checkpoint(directory, "exports", "nfkd")
    answer = post(service, {**subject, "checkpoint": made["id"]}, {"name": "rtn", "group_size": 32}, "gguf")
    assert (answer.status == 422 and answer.pointers == ["/params/export"]
            and "no name for how text is normalized" in answer.json["errors"][0]["detail"])
    assert post(service, {**subject, "checkpoint": made["id"]}, {"name": "rtn", "group_size": 32}, "gptq").status == 202


@pytest.mark.parametrize("export,method", [
    ("gguf", {"name": "gptq", "bits": 3, "group_size": 32}),
    ("gguf", {"name": "rtn", "bits": 4, "group_size": 48}),
    ("awq", {"name": "rtn", "bits": 3, "group_size": 32}),
    ("awq", {"name": "gptq", "group_size": 32, "desc_act": True}),
    ("awq", {"name": "gptq", "group_size": 40}),
    ("awq", {"name": "rtn", "group_size": 8}),
    ("gptq", {"name": "gptq", "group_size": 8}),
    ("gptq", {"name": "gptq", "group_size": 48}),
    ("gptq", {"name": "gptq", "group_size": 32, "overrides": [{"pattern": "down", "group_size": 24}]}),
    ("awq", {"name": "awq", "group_size": 32, "scale_o_proj": "always"}),
    ("compressed-tensors", {"name": "rtn", "bits": 3, "group_size": 32}),
    ("compressed-tensors", {"name": "gptq", "group_size": 32, "desc_act": True}),
    ("compressed-tensors", {"name": "gptq", "group_size": 64}),
    ("gptq", {"name": "nf4"}),
    ("gptq", {"name": "nvfp4"}),
    ("compressed-tensors", {"name": "mxfp4"}),
    ("gguf", {"name": "fp8"}),
    ("gptq", {"name": "gptq_fp4"}),
    ("gptq", {"name": "gptq", "group_size": 32, "rotation": "hadamard"}),
    ("gptq", {"name": "gptq", "group_size": 32, "activation_bits": 8}),
    ("gptq", {"name": "gptq", "group_size": 32, "keep_outliers": 2}),
    ("gptq", {"name": "gptq", "group_size": 32, "lm_head_bits": 8}),
    ("awq", {"name": "gptq", "group_size": 32, "overrides": [{"pattern": "down", "group_size": 16}]}),
    ("compressed-tensors", {"name": "gptq", "group_size": 32, "overrides": [{"pattern": "down", "bits": 3}]}),
    ("gguf", {"name": "rtn", "group_size": 32, "overrides": [{"pattern": "down", "bits": 2}]}),
    ("dequantized", {"name": "llm_int8"}),
    ("dequantized", {"name": "rtn", "rotation": "hadamard"}),
    ("onnx", {"name": "rtn"}),
], ids=lambda x: x if isinstance(x, str) else "-".join(map(str, x.values()))[:40])
def test_what_a_format_cannot_express_is_refused_when_posted(service, subject, export, method):
    answer = post(service, subject, method, export)
    assert answer.status == 422 and answer.pointers == ["/params/export"], answer.body


def test_shapes_that_a_format_cannot_pack_are_refused_by_name(service, subject):
    made = service.checkpoint(models.write_llama(service.files / "odd", intermediate_size=40), "exports", "odd")
    for export, group, skipped in (("gptq", -1, 422), ("awq", 32, 422), ("compressed-tensors", 32, 422),
                                   ("dequantized", 32, 202)):
        answer = post(service, {**subject, "checkpoint": made["id"]}, {"name": "rtn", "group_size": group}, export)
        assert (answer.status == skipped
                and (skipped == 202 or "proj" in answer.json["errors"][0]["detail"])), answer.body
