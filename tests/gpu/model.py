#!/usr/bin/env python3
"""model.py SHAPE DIRECTORY: a checkpoint of random bfloat16 weights in a real shape, for measurements
of speed. One file a block, several at a time, each made tensor by tensor: normal numbers on the first CUDA device (or
the CPU), in bfloat16 from the start, which pass through pinned memory. Without PyTorch they are random bits of one
size."""

import argparse
import concurrent.futures
import importlib.util
import json
import math
import pathlib
import random
import struct

torch = None
if importlib.util.find_spec("torch"):
    import torch

VOCABULARY = 100352  # of OLMo 2
FILES_AT_ONCE = 4
PASSAGE = 1 << 27  # bytes that are written at once


def olmo2(hidden, layers, heads, kv_heads, inner, vocabulary=VOCABULARY, positions=4096):
    config = dict(model_type="olmo2", architectures=["Olmo2ForCausalLM"], vocab_size=vocabulary, hidden_size=hidden,
                  num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads,
                  intermediate_size=inner, hidden_act="silu", max_position_embeddings=positions, rms_norm_eps=1e-6,
                  rope_theta=500000.0, tie_word_embeddings=False, attention_bias=False)
    width = hidden // heads
    ends = {"model.embed_tokens.weight": (vocabulary, hidden), "model.norm.weight": (hidden,),
            "lm_head.weight": (vocabulary, hidden)}
    blocks = [{f"model.layers.{i}.{name}.weight": size for name, size in {
        "self_attn.q_proj": (hidden, hidden), "self_attn.k_proj": (kv_heads * width, hidden),
        "self_attn.v_proj": (kv_heads * width, hidden),
        "self_attn.o_proj": (hidden, hidden), "self_attn.q_norm": (hidden,), "self_attn.k_norm": (kv_heads * width,),
        "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden), "mlp.down_proj": (hidden, inner),
        "post_attention_layernorm": (hidden,), "post_feedforward_layernorm": (hidden,)}.items()} for i in range(layers)]
    return config, [ends, *blocks]


def gpt_neox(hidden, layers, heads, vocabulary, positions):
    config = dict(model_type="gpt_neox", architectures=["GPTNeoXForCausalLM"], vocab_size=vocabulary,
                  hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * hidden,
                  hidden_act="gelu", max_position_embeddings=positions, layer_norm_eps=1e-5, rotary_pct=0.25,
                  rotary_emb_base=10000, use_parallel_residual=True, tie_word_embeddings=False)
    ends = {"gpt_neox.embed_in.weight": (vocabulary, hidden), "embed_out.weight": (vocabulary, hidden),
            "gpt_neox.final_layer_norm.weight": (hidden,), "gpt_neox.final_layer_norm.bias": (hidden,)}
    blocks = []
    for i in range(layers):
        linears = {"attention.query_key_value": (3 * hidden, hidden), "attention.dense": (hidden, hidden),
                   "mlp.dense_h_to_4h": (4 * hidden, hidden), "mlp.dense_4h_to_h": (hidden, 4 * hidden)}
        block = {f"gpt_neox.layers.{i}.{norm}.{part}": (hidden,)
                 for norm in ("input_layernorm", "post_attention_layernorm") for part in ("weight", "bias")}
        for name, size in linears.items():
            block |= {f"gpt_neox.layers.{i}.{name}.weight": size, f"gpt_neox.layers.{i}.{name}.bias": size[:1]}
        blocks.append(block)
    return config, [ends, *blocks]


SHAPES = {
    "tiny-olmo2": lambda: olmo2(64, 2, 4, 2, 128, 512, 128),
    "tiny-pythia": lambda: gpt_neox(64, 2, 4, 512, 128),
    "pythia-160m": lambda: gpt_neox(768, 12, 12, 50304, 2048),
    "olmo2-1b": lambda: olmo2(2048, 16, 16, 16, 8192),
    "olmo2-7b": lambda: olmo2(4096, 32, 32, 32, 11008),
    "olmo2-13b": lambda: olmo2(5120, 40, 40, 40, 13824),
    "olmo2-32b": lambda: olmo2(5120, 64, 40, 8, 27648),
}


class Drawn:
    """Tensors that PyTorch makes on a device."""

    def __init__(self, seed, device):
        self.generator, self.device = torch.Generator(device).manual_seed(seed), device
        self.passage = torch.empty(PASSAGE, dtype=torch.uint8, pin_memory=device == "cuda")

    def matrix(self, size):
        made = torch.randn(size, generator=self.generator, device=self.device, dtype=torch.bfloat16).mul_(0.02)
        for part in made.view(-1).view(torch.uint8).split(PASSAGE):
            passage = self.passage[:part.numel()]
            passage.copy_(part)  # waits for the device
            yield memoryview(passage.numpy())


class Bits:
    """Without PyTorch: either sign and any fraction, at the exponent of 1/64. Numbers are little-endian pairs of bytes;
    long integers mask many at once."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def matrix(self, size):
        left = math.prod(size)
        while left > 0:
            count = min(left, PASSAGE // 2)
            mask, exponent = (int.from_bytes(pair * count, "little") for pair in (b"\x7f\x80", b"\x80\x3c"))
            drawn = int.from_bytes(self.random.randbytes(2 * count), "little")
            yield (drawn & mask | exponent).to_bytes(2 * count, "little")
            left -= count


def values(name, size, source):
    """The bytes of a tensor, a stretch at a time."""
    if len(size) == 1:
        yield (b"\0\0" if name.endswith("bias") else b"\x80\x3f") * size[0]  # 0, 1
    else:
        yield from source.matrix(size)


def write(path, tensors, source):
    header, at = {}, 0
    for name, size in tensors.items():
        bytes_ = 2 * math.prod(size)
        header[name] = {"dtype": "BF16", "shape": list(size), "data_offsets": [at, at + bytes_]}
        at += bytes_
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, size in tensors.items():
            for part in values(name, size, source):
                file.write(part)
    return at


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("directory", type=pathlib.Path)
    wanted = parser.parse_args()
    config, parts = SHAPES[wanted.shape]()
    wanted.directory.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch and torch.cuda.is_available() else "cpu"

    def make(part):
        seed, tensors = part
        name = f"model-{seed + 1:05}-of-{len(parts):05}.safetensors"
        source = Drawn(seed, device) if torch else Bits(seed)
        return name, write(wanted.directory / name, tensors, source)

    with concurrent.futures.ThreadPoolExecutor(FILES_AT_ONCE) as pool:
        files = list(pool.map(make, enumerate(parts)))
    total = sum(size for _, size in files)
    index = {tensor: name for (name, _), tensors in zip(files, parts) for tensor in tensors}
    (wanted.directory / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": index}))
    (wanted.directory / "config.json").write_text(json.dumps(config, indent=1))  # last: it says that the rest is there
    print(f"{wanted.directory}: {total / 2e6:.1f} M parameters")


if __name__ == "__main__":
    main()
