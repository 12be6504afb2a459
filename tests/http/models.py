"""Tiny checkpoints, written with numpy and the standard library alone."""

import json
import pathlib
import struct

import numpy

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "tie_word_embeddings": False, "hidden_act": "silu",
}


def write_safetensors(path: pathlib.Path, tensors: dict):
    header, offset = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(a.tobytes() for a in tensors.values()))


def tensors_of(config, seed):
    random = numpy.random.default_rng(seed)
    width, middle, vocabulary = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    head = width // config["num_attention_heads"]
    keys = head * config["num_key_value_heads"]

    def matrix(rows, columns):
        return (random.standard_normal((rows, columns)) * 0.15).astype(numpy.float32)

    tensors = {"model.embed_tokens.weight": matrix(vocabulary, width)}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        shapes = {"self_attn.q_proj": (width, width), "self_attn.k_proj": (keys, width),
                  "self_attn.v_proj": (keys, width), "self_attn.o_proj": (width, width),
                  "mlp.gate_proj": (middle, width), "mlp.up_proj": (middle, width), "mlp.down_proj": (width, middle)}
        tensors.update({f"{at}{name}.weight": matrix(*shape) for name, shape in shapes.items()})
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{at}{name}.weight"] = numpy.ones(width, numpy.float32)
    tensors["model.norm.weight"] = numpy.ones(width, numpy.float32)
    tensors["lm_head.weight"] = matrix(vocabulary, width)
    return tensors


def byte_tokenizer():
    """A tokenizer.json whose ids are the bytes, in the byte-level alphabet of GPT-2."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet, extra = {}, 0
    for byte in range(256):
        if byte in plain:
            alphabet[byte] = chr(byte)
        else:
            alphabet[byte] = chr(256 + extra)
            extra += 1
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": None, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                  "vocab": {alphabet[b]: b for b in range(256)}, "merges": []},
    }


def write_llama(directory: pathlib.Path, seed=0, tokenizer=True, change=None, **config):
    """`change(tensors)` may spoil them."""
    directory.mkdir(parents=True, exist_ok=True)
    config = {**LLAMA, **config}
    tensors = tensors_of(config, seed)
    if change:
        change(tensors)
    (directory / "config.json").write_text(json.dumps(config))
    write_safetensors(directory / "model.safetensors", tensors)
    if tokenizer:
        (directory / "tokenizer.json").write_text(json.dumps(byte_tokenizer()))
    return directory


def rows(count, length, vocabulary=256, seed=1):
    return numpy.random.default_rng(seed).integers(0, vocabulary, (count, length)).tolist()
