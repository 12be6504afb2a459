"""Checkpoints that are no safetensors: the same numbers as their twins, or a precise refusal;
and configurations from elsewhere."""

import gzip
import json
import os
import pathlib
import zipfile

import containers
import models
import pytest


@pytest.fixture
def twin(service, name):
    """A checkpoint in safetensors, registered, and its loss over some sequences."""
    path = models.write_llama(service.files / name / "twin", tokenizer=False)
    service.checkpoint(path, name, "twin")
    service.sequences(name, models.rows(3, 24))
    return evaluate(service, name, "twin")


def evaluate(service, name, checkpoint):
    return service.run("evaluate", checkpoint=f"{name}/{checkpoint}", dataset=name,
                       sequence_length=None)["result"]["loss"]


def post(service, name, path, config=None, **more):
    source = {"path": str(path), **({"config": config} if config is not None else {})}
    return service.post("/v1/checkpoints", {"trajectory": name, "name": path.name, "source": source, **more})


def beside(directory, config=models.LLAMA):
    directory.mkdir(parents=True, exist_ok=True)
    if config is not None:
        (directory / "config.json").write_text(json.dumps(config))
    return directory


def views(tensors):
    """Every matrix as the transpose of one that lies the other way round."""
    return {n: a.T.copy().T if a.ndim == 2 else a for n, a in tensors.items()}


@pytest.mark.parametrize("how", ["bin", "views", "sharded", "trainer", "gguf", "gguf_parts"])
def test_the_same_weights_give_the_same_bits(service, name, twin, how):
    directory, tensors = (beside(service.files / name / how, None if how.startswith("gguf") else models.LLAMA),
                          models.tensors_of(models.LLAMA, 0))
    if how == "bin":
        containers.write_torch(directory / "pytorch_model.bin", tensors)
    elif how == "views":
        containers.write_torch(directory / "pytorch_model.bin", views(tensors))
    elif how == "sharded":
        names = sorted(tensors)
        for shard in (0, 1):
            containers.write_torch(directory / f"part-{shard}.bin", {n: tensors[n] for n in names[shard::2]})
        index = {"weight_map": {n: f"part-{i % 2}.bin" for i, n in enumerate(names)}}
        (directory / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    elif how == "trainer":
        containers.write_torch(directory / "ckpt_step_4000.pth", tensors, wrap="state_dict", prefix="_orig_mod.module.")
        (directory / "optimizer.pt").write_bytes(b"whatever")
    else:
        containers.write_gguf(directory / ("model" if how == "gguf_parts" else "model.gguf"), tensors, models.LLAMA,
                              3 if how == "gguf_parts" else 1)
    made = post(service, name, directory)
    assert made.status == 201, made.body
    assert made.json["step"] == (4000 if how == "trainer" else None) and made.json["architecture"] == "llama"
    assert evaluate(service, name, how) == twin
    listed = service.get(f"/v1/checkpoints/{made.json['id']}/tensors").json["items"]
    assert {t["name"] for t in listed} == set(tensors)


def test_a_trainers_checkpoint_needs_its_configuration_from_somewhere(service, name, twin):
    directory = beside(service.files / name / "bare", None)
    containers.write_torch(directory / "ckpt.pt", models.tensors_of(models.LLAMA, 0), wrap="model", prefix="module.")
    refused = post(service, name, directory)
    assert refused.status == 422 and "source.config" in refused.json["detail"]
    refused = post(service, name, directory, {"rope_theta": 10000.0})
    assert (refused.status == 422 and "llama" in refused.json["detail"]
            and "num_attention_heads" in refused.json["detail"])
    given = {k: models.LLAMA[k]
             for k in ("num_attention_heads", "num_key_value_heads", "max_position_embeddings", "rms_norm_eps")}
    made = post(service, name, directory, given)
    assert made.status == 201 and made.json["architecture"] == "llama" and made.json["source"]["config"] == given
    assert (post(service, name, directory, given).status == 200
            and post(service, name, directory, {**given, "rope_theta": 1.0}).status == 409)
    assert evaluate(service, name, "bare") == twin
    average = service.run("average", checkpoints=[f"{name}/twin", f"{name}/bare"], name="both")
    assert average["state"] == "succeeded", average


def test_an_average_of_gguf_has_a_configuration(service, name, twin):
    directory = beside(service.files / name / "gguf", None)
    containers.write_gguf(directory / "model.gguf", models.tensors_of(models.LLAMA, 0), models.LLAMA)
    assert post(service, name, directory).status == 201
    run = service.run("average", checkpoints=[f"{name}/gguf", f"{name}/gguf"], name="both")
    assert run["state"] == "succeeded", run
    assert service.run("evaluate", checkpoint=run["result"]["checkpoint"], dataset=name,
                       sequence_length=None)["result"]["loss"] == twin


def test_what_is_given_goes_before_config_json(service, name, twin):
    directory = beside(service.files / name / "wrong", {**models.LLAMA, "rms_norm_eps": 1.0})
    containers.write_torch(directory / "pytorch_model.bin", models.tensors_of(models.LLAMA, 0))
    assert post(service, name, directory, {"rms_norm_eps": models.LLAMA["rms_norm_eps"]}).status == 201
    assert evaluate(service, name, "wrong") == twin


def test_an_architecture_is_recognised_or_asked_for(service, name):
    directory = models.write_llama(service.files / name)
    config = {k: v for k, v in models.LLAMA.items() if k not in ("model_type", "architectures")}
    (directory / "config.json").write_text(json.dumps(config))
    assert post(service, name, directory).json["architecture"] == "llama"
    (directory / "config.json").write_text(json.dumps({**config, "model_type": "dancer"}))
    refused = post(service, name, directory)
    assert refused.status == 422 and "dancer" in refused.json["detail"] and "those of llama" in refused.json["detail"]
    (directory / "config.json").write_text(json.dumps({**config, "architectures": ["GraniteForCausalLM"]}))
    refused = post(service, name, directory)  # tensors named as Llama's, other equations
    assert refused.status == 422 and "Granite" in refused.json["detail"] and "those of llama" in refused.json["detail"]
    (directory / "config.json").write_text(json.dumps({**config, "architectures": ["LlamaModel"]}))
    assert post(service, name + "-base", directory).json["architecture"] == "llama"
    made = post(service, name + "-told", directory, {"model_type": "mistral", "sliding_window": 8})
    assert made.status == 201 and made.json["architecture"] == "mistral"


@pytest.mark.parametrize("config,words",
                         [({"num_attention_heads": "x"}, "num_attention_heads"), ({"model_type": "x"}, "x"),
                          ({"hidden_size": 64}, "config.json asks for"), ({"a": "b" * 3000}, "at most")])
def test_what_is_given_must_fit(service, name, config, words):
    refused = post(service, name, models.write_llama(service.files / name), config)
    assert refused.status in (413, 422) and words in refused.json["detail"], refused.body
    assert service.get(f"/v1/trajectories/{name}").status == 404


def test_nothing_in_a_pickle_is_run(service, name):
    directory, marker = beside(service.files / name), service.files / name / "ran"
    attack = b"cposix\nsystem\n(" + containers.text(f"touch {marker}") + b"tR"
    for body in (attack, containers.text("a") + attack):
        containers.archive(directory / "pytorch_model.bin", b"\x80\2}(" + body + b"u.", {})
        refused = post(service, name, directory)
        assert (refused.status == 422 and "posix.system" in refused.json["detail"]
                and refused.json["code"] == "unsupported")
    assert not marker.exists()


def test_a_bomb_is_not_inflated(service, name):
    directory = beside(service.files / name)
    with zipfile.ZipFile(directory / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/data.pkl", bytes(64 << 20))
    refused = post(service, name, directory)
    assert refused.status == 422 and "compressed" in refused.json["detail"]


@pytest.mark.parametrize("where", ["../other/part.bin", "/etc/passwd.bin", "link.bin"])
def test_shards_lead_nowhere_else(service, name, where, tmp_path_factory):
    directory, outside = beside(service.files / name), tmp_path_factory.mktemp("outside")
    tensors = models.tensors_of(models.LLAMA, 0)
    containers.write_torch(outside / "part.bin", tensors)
    (directory / "link.bin").symlink_to(outside / "part.bin")
    (directory / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": dict.fromkeys(tensors, where)}))
    refused = post(service, name, directory)
    assert refused.status == 422 and str(outside) not in refused.json["detail"], refused.body


@pytest.mark.parametrize("fault, words", [
    ("second", "give the first"), ("missing", "cannot open"), ("strange", "says that it is part"), ("link", "outside"),
    ("twice", "is in two parts")])
def test_parts_of_a_gguf_belong_together(service, name, fault, words, tmp_path_factory):
    directory, tensors = beside(service.files / name, None), models.tensors_of(models.LLAMA, 0)
    containers.write_gguf(directory / "model", tensors, models.LLAMA, 3)
    first, second, third = (containers.gguf_part(directory / "model", i, 3) for i in (1, 2, 3))
    if fault == "missing":
        third.unlink()
    elif fault == "strange":
        third.write_bytes(second.read_bytes())
    elif fault == "twice":
        third.write_bytes(second.read_bytes().replace(b"split.no\4\0\0\0\1", b"split.no\4\0\0\0\2"))
    elif fault == "link":
        outside = tmp_path_factory.mktemp("outside") / "x.gguf"
        third.rename(outside)
        third.symlink_to(outside)
    refused = post(service, name, second if fault == "second" else first)
    assert (refused.status in (400, 403, 404, 409, 422)
            and (fault in ("link", "missing", "twice") or words in refused.json["detail"])), refused.body
    assert str(directory) not in refused.json["detail"]


def test_the_tokenizer_of_a_gguf_is_read_from_it(service, name):
    path, twin = models.write_llama(service.files / name / "twin"), beside(service.files / name / "gguf", None)
    service.checkpoint(path, name, "twin")
    document = json.loads((path / "tokenizer.json").read_text())
    said = containers.gguf_tokenizer(document, "gpt-2")
    containers.write_gguf(twin / "model", models.tensors_of(models.LLAMA, 0), models.LLAMA, 2, said)
    post(service, name, twin)
    texts = ["hello world", " a  b\n", "\u00e9"]
    ids = [service.post("/v1/tokenize", {"checkpoint": f"{name}/{c}", "texts": texts}) for c in ("twin", "gguf")]
    assert ids[0].json["ids"] == ids[1].json["ids"], (ids[0].body, ids[1].body)


def test_a_checkpoint_without_a_tokenizer_is_told_so(service, name):
    path = models.write_llama(service.files / name / "bare")
    (path / "tokenizer.json").unlink()
    service.checkpoint(path, name, "bare")
    refused = service.post("/v1/tokenize", {"checkpoint": f"{name}/bare", "texts": ["a"]})
    assert (refused.status, refused.pointers) == (422, ["/checkpoint"]), refused.body
    assert "has no tokenizer.json" in refused.json["detail"]


PUBLISHED = {"dolma2": "dbrx", "gpt-neox-20b": "olmo", "gpt2": "gpt-2", "smollm2": "smollm", "llama3": "llama-bpe",
             "tekken-v3": "tekken", "llama-sp": None, "tok512": None}


@pytest.mark.parametrize("tokenizer, splitting", PUBLISHED.items())
def test_published_tokenizers_come_back_exactly_from_a_gguf(service, name, tokenizer, splitting):
    shared = (pathlib.Path(os.environ.get("DELTAQ_SHARED", pathlib.Path(__file__).parents[3] / "shared")) / "data"
              / "tokenizers")
    if not shared.is_dir():
        pytest.skip("the golden tokenizers are not here")
    with gzip.open(shared / f"{tokenizer}.tokenizer.json.gz") as file:
        said = containers.gguf_tokenizer(json.load(file), splitting)
    golden = [json.loads(line) for line in (shared / "goldens" / f"{tokenizer}.jsonl").read_text().splitlines()]
    path = beside(service.files / name, None) / "x.gguf"
    containers.gguf_file(path, {}, {"general.architecture": "llama", **said, "tokenizer.ggml.add_bos_token": False})
    ids = service.post("/v1/tokenize", {"tokenizer": {"path": str(path)}, "texts": [g["text"] for g in golden]})
    assert ids.status == 200 and ids.json["ids"] == [g["ids"] for g in golden]


@pytest.mark.parametrize("change, words", [
    ({"tokenizer.ggml.pre": "default"}, "is not known exactly"), ({"tokenizer.ggml.model": "bert"}, "is not read"),
    ({"tokenizer.ggml.token_type": [1]}, "which tokens are special"), ({"tokenizer.ggml.tokens": [1]}, "no vocabulary"),
    ({"tokenizer.ggml.add_bos_token": True}, "is no token"),
    ({"tokenizer.ggml.add_space_prefix": True}, "add_space_prefix"),
    ({"tokenizer.ggml.merges": ["ab"]}, "two tokens and one space"),
    ({"tokenizer.ggml.merges": ["a zz"]}, "the vocabulary lacks")])
def test_a_tokenizer_that_is_not_certain_is_refused(service, name, change, words):
    directory = beside(service.files / name, None)
    said = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": ["a", "b", "ab"],
            "tokenizer.ggml.token_type": [1, 1, 1], "tokenizer.ggml.merges": ["a b"]}
    containers.gguf_file(directory / "x.gguf", {}, {"general.architecture": "llama", **said, **change})
    refused = service.post("/v1/tokenize", {"tokenizer": {"path": str(directory / "x.gguf")}, "texts": ["ab"]})
    assert refused.status == 422 and words in refused.json["detail"], refused.body
    containers.gguf_file(directory / "x.gguf", {}, {"general.architecture": "llama", **said})
    assert service.post("/v1/tokenize", {"tokenizer": {"path": str(directory / "x.gguf")},
                                         "texts": ["ab", "ba"]}).json["ids"] == [[2], [1, 0]]


def test_a_trainers_directory_is_scanned_file_by_file(service, name, twin):
    directory = beside(service.files / name / "out")
    for step in (10, 200):
        containers.write_torch(directory / f"ckpt_step_{step}.pth", models.tensors_of(models.LLAMA, step),
                               wrap="state_dict", prefix="_orig_mod.")
    (directory / "optimizer.pt").write_bytes(b"whatever")
    (directory / "broken.pt").write_bytes(b"whatever")
    containers.write_gguf(beside(service.files / name / "out" / "quantized", None) / "small.gguf",
                          models.tensors_of(models.LLAMA, 0), models.LLAMA)
    found = service.post(f"/v1/trajectories/{name}/scan", {"path": str(directory)}).json
    assert [d["name"] for d in found["registered"]] == ["ckpt_step_10", "ckpt_step_200", "quantized-small"]
    assert ([d["step"] for d in found["registered"]] == [4000, 4000, None]
            and [f["path"] for f in found["failed"]] == ["broken"])
    assert service.post(f"/v1/trajectories/{name}/scan", {"path": str(directory)}).json["existing"] == 3
    assert evaluate(service, name, "quantized-small") == twin


def test_what_lies_above_checkpoints_is_about_them_too(service, name, twin):
    top, tensors = beside(service.files / name / "run"), models.tensors_of(models.LLAMA, 0)
    (top / "tokenizer.json").write_text(json.dumps(models.byte_tokenizer()))
    containers.write_torch(beside(top / "checkpoints" / "step10", None) / "model.pt", tensors)
    models.write_llama(top / "step20", tokenizer=False)
    (top / "step20" / "config.json").unlink()
    containers.write_torch(beside(models.write_llama(top / "step30") / "original", None) / "consolidated.pth", tensors)
    for part in ("__0_0.distcp", "__1_0.distcp", ".metadata"):
        (beside(top / "step40" / "pytorch_model_fsdp_0", None) / part).write_bytes(b"whatever")
    (beside(top / "step40" / "optimizer_0", None) / "__0_0.distcp").write_bytes(b"whatever")
    found = service.post(f"/v1/trajectories/{name}/scan", {"path": str(top)}).json
    assert [d["name"] for d in found["registered"]] == ["checkpoints-step10-model", "step20", "step30"], found
    assert ([f["path"] for f in found["failed"]] == ["step40-pytorch_model_fsdp_0"]
            and "dcp_to_torch" in found["failed"][0]["detail"])
    for checkpoint in ("checkpoints-step10-model", "step20"):
        assert evaluate(service, name, checkpoint) == twin
        assert (service.post("/v1/tokenize", {"checkpoint": f"{name}/{checkpoint}", "texts": ["ab"]}).json["ids"]
                == [[97, 98]])
    text = service.files / name / "text.txt"
    text.write_text("the same words over and over " * 20)
    assert service.post("/v1/datasets", {"name": f"{name}-text", "path": str(text), "format": "text"}).status == 201
    losses = {service.run("evaluate", checkpoint=f"{name}/{c}", dataset=f"{name}-text",
                          sequence_length=32)["result"]["loss"] for c in ("step20", "step30")}
    assert len(losses) == 1
    refused = post(service, name, top / "step40" / "pytorch_model_fsdp_0")
    assert refused.status == 422 and "sharded training state" in refused.json["detail"]
