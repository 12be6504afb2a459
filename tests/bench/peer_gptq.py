#!/usr/bin/env python3
"""peer_gptq.py gptqmodel|llmcompressor MODEL SEQUENCES LENGTH [RUNS]: the same GPTQ job by a published library, a line
of JSON a run. Only the quantization is timed: not imports, not loading the model.
GPTQMODEL_CPU_WORKERS=2 is needed on two cores. The model is loaded in float32, or in bfloat16 where
DELTAQ_BENCH_PRODUCTS is bf16."""

import json
import logging
import os
import resource
import sys
import time

os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

DTYPE = torch.bfloat16 if os.environ.get("DELTAQ_BENCH_PRODUCTS") == "bf16" else torch.float32


def rows(vocabulary, sequences, length):
    return torch.randint(0, vocabulary, (sequences, length), generator=torch.Generator().manual_seed(1))


def gptqmodel(path, sequences, length):
    from gptqmodel import GPTQModel, QuantizeConfig

    model = GPTQModel.load(path, QuantizeConfig(bits=4, group_size=128), device="cpu", dtype=DTYPE)
    vocabulary = model.model.config.vocab_size
    data = [{"input_ids": row.tolist(), "attention_mask": [1] * length} for row in rows(vocabulary, sequences, length)]
    began = time.perf_counter()
    model.quantize(data, batch_size=4)
    return time.perf_counter() - began


def llmcompressor(path, sequences, length):
    from datasets import Dataset
    from llmcompressor import oneshot
    from llmcompressor.modifiers.quantization import GPTQModifier
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(path, dtype=DTYPE)
    data = Dataset.from_dict({"input_ids": [row.tolist() for row in rows(model.config.vocab_size, sequences, length)],
                              "attention_mask": [[1] * length] * sequences})
    # 576 columns do not divide into groups of 128, which this library asks for: 64 is the nearest that does
    weights = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 64}
    recipe = GPTQModifier(config_groups={"group_0": {"targets": ["Linear"], "weights": weights}}, ignore=["lm_head"],
                          dampening_frac=0.05)
    began = time.perf_counter()
    oneshot(model=model, dataset=data, recipe=recipe, max_seq_length=length, num_calibration_samples=sequences)
    return time.perf_counter() - began


def main():
    logging.disable(logging.WARNING)
    library, path, sequences, length = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    runs = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    for _ in range(runs):
        took = {"gptqmodel": gptqmodel, "llmcompressor": llmcompressor}[library](path, sequences, length)
        print(json.dumps({"seconds": took, "tokens": sequences * length,
                          "what": f"{library}, torch {torch.__version__} {DTYPE}",
                          "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}), flush=True)


if __name__ == "__main__":
    main()
