#!/usr/bin/env python3
"""Rewrites a small llama into ones that compute the same, for comparisons with libraries:
make_equal.py MODEL DIRECTORY [outliers]

The inner width becomes a multiple of 64, as groups of 64 columns ask for: neurons are doubled, and the columns that
read both of a pair are halved. `outliers`: a few inputs of linears become 40 times as large: weights of norms times 40,
the columns that read them divided by it. Needs numpy and safetensors."""

import json
import pathlib
import shutil
import sys

import numpy
from safetensors.numpy import load_file, save_file

MULTIPLE, COLUMNS, FACTOR = 64, (3, 17, 40), numpy.float32(40)
READERS = {"input_layernorm": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
           "post_attention_layernorm": ("mlp.gate_proj", "mlp.up_proj")}


def widen(tensors, config):
    inner = config["intermediate_size"]
    extra = -inner % MULTIPLE
    for name, tensor in tensors.items():
        if name.endswith(("gate_proj.weight", "up_proj.weight")):
            tensors[name] = numpy.concatenate([tensor, tensor[:extra]])
        elif name.endswith("down_proj.weight"):
            half = tensor[:, :extra] / numpy.float32(2)
            tensors[name] = numpy.concatenate([half, tensor[:, extra:], half], axis=1)
    config["intermediate_size"] = inner + extra


def plant_outliers(tensors):
    for name in tensors:
        for norm, linears in READERS.items():
            if not name.endswith(f"{norm}.weight"):
                continue
            for column in COLUMNS:
                tensors[name][column] *= FACTOR
                for linear in linears:
                    tensors[name.replace(norm, linear)][:, column] /= FACTOR


def main():
    source, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    tensors, config = load_file(source / "model.safetensors"), json.loads((source / "config.json").read_text())
    widen(tensors, config)
    if sys.argv[3:] == ["outliers"]:
        plant_outliers(tensors)
    target.mkdir(parents=True, exist_ok=True)
    save_file({name: numpy.ascontiguousarray(tensor) for name, tensor in tensors.items()}, target / "model.safetensors",
              metadata={"format": "pt"})
    (target / "config.json").write_text(json.dumps(config, indent=1))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(source / name, target / name)


if __name__ == "__main__":
    main()
