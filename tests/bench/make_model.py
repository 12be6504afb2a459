#!/usr/bin/env python3
"""Writes a checkpoint of random weights in a real shape, for measurements of speed:
make_model.py SHAPE DIRECTORY [TOKENIZER]

SHAPE: pythia-160m, llama-135m, llama-3m, llama-1b, tiny-pythia, tiny-llama, or llama-WIDTHxDEPTH with heads of 64
columns, inner layers three times as wide, and 2,048 tokens. F32 safetensors + config.json + tokenizer
files that GPTQModel wants to see; TOKENIZER, a tokenizer.json (or .json.gz) of no more tokens than the shape has, where
texts are to be read."""

import gzip
import json
import pathlib
import sys
import tempfile

import numpy as np
from safetensors.numpy import save_file


def llama(hidden, layers, heads, kv_heads, inner, vocabulary, positions, tied):
    config = dict(model_type="llama", architectures=["LlamaForCausalLM"], vocab_size=vocabulary,
                  hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
                  num_key_value_heads=kv_heads, head_dim=hidden // heads, intermediate_size=inner, hidden_act="silu",
                  max_position_embeddings=positions, rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=tied,
                  attention_bias=False, mlp_bias=False, torch_dtype="float32", bos_token_id=1, eos_token_id=2)
    head = hidden // heads
    shapes = {"model.embed_tokens.weight": (vocabulary, hidden), "model.norm.weight": (hidden,)}
    if not tied:
        shapes["lm_head.weight"] = (vocabulary, hidden)
    for i in range(layers):
        p = f"model.layers.{i}."
        shapes |= {p + "input_layernorm.weight": (hidden,), p + "post_attention_layernorm.weight": (hidden,),
                   p + "self_attn.q_proj.weight": (heads * head, hidden),
                   p + "self_attn.k_proj.weight": (kv_heads * head, hidden),
                   p + "self_attn.v_proj.weight": (kv_heads * head, hidden),
                   p + "self_attn.o_proj.weight": (hidden, heads * head), p + "mlp.gate_proj.weight": (inner, hidden),
                   p + "mlp.up_proj.weight": (inner, hidden), p + "mlp.down_proj.weight": (hidden, inner)}
    return config, shapes


def gpt_neox(hidden, layers, heads, vocabulary, positions):
    config = dict(model_type="gpt_neox", architectures=["GPTNeoXForCausalLM"], vocab_size=vocabulary,
                  hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * hidden,
                  hidden_act="gelu", max_position_embeddings=positions, layer_norm_eps=1e-5, rotary_pct=0.25,
                  rotary_emb_base=10000, use_parallel_residual=True, tie_word_embeddings=False, torch_dtype="float32",
                  bos_token_id=0, eos_token_id=0)
    shapes = {"gpt_neox.embed_in.weight": (vocabulary, hidden), "embed_out.weight": (vocabulary, hidden),
              "gpt_neox.final_layer_norm.weight": (hidden,), "gpt_neox.final_layer_norm.bias": (hidden,)}
    for i in range(layers):
        p = f"gpt_neox.layers.{i}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            shapes |= {p + norm + ".weight": (hidden,), p + norm + ".bias": (hidden,)}
        for name, rows, columns in (("attention.query_key_value", 3 * hidden, hidden),
                                    ("attention.dense", hidden, hidden), ("mlp.dense_h_to_4h", 4 * hidden, hidden),
                                    ("mlp.dense_4h_to_h", hidden, 4 * hidden)):
            shapes |= {p + name + ".weight": (rows, columns), p + name + ".bias": (rows,)}
    return config, shapes


def gpt2(hidden, layers, heads, vocabulary, positions):
    config = dict(model_type="gpt2", architectures=["GPT2LMHeadModel"], vocab_size=vocabulary, n_embd=hidden,
                  n_layer=layers, n_head=heads, n_positions=positions, activation_function="gelu_new",
                  layer_norm_epsilon=1e-5, tie_word_embeddings=True, torch_dtype="float32", bos_token_id=0,
                  eos_token_id=0)
    shapes = {"wte.weight": (vocabulary, hidden), "wpe.weight": (positions, hidden), "ln_f.weight": (hidden,),
              "ln_f.bias": (hidden,)}
    for i in range(layers):
        p = f"h.{i}."
        for norm in ("ln_1", "ln_2"):
            shapes |= {p + norm + ".weight": (hidden,), p + norm + ".bias": (hidden,)}
        for name, rows, columns in (("attn.c_attn", hidden, 3 * hidden), ("attn.c_proj", hidden, hidden),
                                    ("mlp.c_fc", hidden, 4 * hidden), ("mlp.c_proj", 4 * hidden, hidden)):
            shapes |= {p + name + ".weight": (rows, columns), p + name + ".bias": (columns,)}
    return config, shapes


def olmoe(hidden, layers, heads, inner, experts, each, vocabulary, positions):
    config = dict(model_type="olmoe", architectures=["OlmoeForCausalLM"], vocab_size=vocabulary, hidden_size=hidden,
                  num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=heads,
                  intermediate_size=inner, hidden_act="silu", num_experts=experts, num_experts_per_tok=each,
                  norm_topk_prob=False, max_position_embeddings=positions, rms_norm_eps=1e-5, rope_theta=10000.0,
                  tie_word_embeddings=False, torch_dtype="float32", bos_token_id=1, eos_token_id=2)
    shapes = {"model.embed_tokens.weight": (vocabulary, hidden), "model.norm.weight": (hidden,),
              "lm_head.weight": (vocabulary, hidden)}
    for i in range(layers):
        p = f"model.layers.{i}."
        for name in ("input_layernorm", "post_attention_layernorm", "self_attn.q_norm", "self_attn.k_norm"):
            shapes[p + name + ".weight"] = (hidden,)
        shapes |= {p + f"self_attn.{name}_proj.weight": (hidden, hidden) for name in "qkvo"}
        shapes[p + "mlp.gate.weight"] = (experts, hidden)
        for e in range(experts):
            q = p + f"mlp.experts.{e}."
            shapes |= {q + "gate_proj.weight": (inner, hidden), q + "up_proj.weight": (inner, hidden),
                       q + "down_proj.weight": (hidden, inner)}
    return config, shapes


SHAPES = {
    "pythia-160m": lambda: gpt_neox(768, 12, 12, 50304, 2048),
    "llama-135m": lambda: llama(576, 30, 9, 3, 1536, 49152, 2048, True),
    "llama-3m": lambda: llama(192, 6, 6, 6, 512, 2048, 1024, True),
    "tiny-pythia": lambda: gpt_neox(64, 2, 4, 272, 512),
    "tiny-llama": lambda: llama(64, 2, 4, 2, 128, 272, 512, True),
    "llama-1b": lambda: llama(2048, 16, 32, 8, 8192, 32000, 2048, False),
}


def shape_of(name):
    """Its config.json, and the sizes of its tensors."""
    if name in SHAPES:
        return SHAPES[name]()
    width, depth = map(int, name.removeprefix("llama-").split("x"))
    return llama(width, depth, width // 64, width // 64, 3 * width, 2048, 2048, True)


def words_of(vocabulary):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
            "model": {"type": "WordLevel", "vocab": {f"t{i}": i for i in range(vocabulary)}, "unk_token": "t0"}}


def read_tokenizer(path, config):
    """Its first added token begins and ends texts."""
    tokenizer = json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())
    first = tokenizer["added_tokens"][0]
    config |= {"bos_token_id": first["id"], "eos_token_id": first["id"]}
    return tokenizer, {"bos_token": first["content"], "eos_token": first["content"]}


def write(directory, config, shapes, given=None):
    """`given`: a tokenizer's file, or None."""
    directory.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    tensors = {}
    for name, size in shapes.items():
        if len(size) == 1:
            tensors[name] = np.zeros(size, np.float32) if name.endswith("bias") else np.ones(size, np.float32)
        else:
            tensors[name] = rng.standard_normal(size, np.float32) * np.float32(0.02)
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    tokenizer, special = words_of(config["vocab_size"]), {"eos_token": "t2", "pad_token": "t0"}
    if given is not None:
        tokenizer, special = read_tokenizer(given, config)
    (directory / "config.json").write_text(json.dumps(config, indent=1))
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer))
    (directory / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **special}))
    return config


def main():
    shape, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    config, shapes = shape_of(shape)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}-") as made:
        write(pathlib.Path(made) / "model", config, shapes, pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None)
        try:
            (pathlib.Path(made) / "model").rename(directory)
        except OSError:  # two benches want one model: the second finds that of the first, which is the same
            if not (directory / "config.json").exists():
                raise
    print(f"{directory}: {sum(int(np.prod(s)) for s in shapes.values()) / 1e6:.1f} M parameters")


if __name__ == "__main__":
    main()
