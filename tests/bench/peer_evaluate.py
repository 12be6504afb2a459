#!/usr/bin/env python3
"""peer_evaluate.py MODEL SEQUENCES LENGTH [RUNS]: the same evaluation
in PyTorch (transformers' model), a line of JSON a run. Weights and products are in float32, or in bfloat16 where
DELTAQ_BENCH_PRODUCTS is bf16."""

import json
import os
import resource
import sys
import time

import torch
from transformers import AutoModelForCausalLM


def main():
    path, sequences, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    runs = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    dtype = torch.bfloat16 if os.environ.get("DELTAQ_BENCH_PRODUCTS") == "bf16" else torch.float32
    model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype).eval()
    tokens = torch.randint(0, model.config.vocab_size, (sequences, length), generator=torch.Generator().manual_seed(1))
    for _ in range(runs):
        began, total = time.perf_counter(), 0.0
        with torch.inference_mode():
            for row in tokens:
                logits = model(row[None]).logits[0, :-1]
                total += torch.nn.functional.cross_entropy(logits, row[1:], reduction="sum").item()
        took = time.perf_counter() - began
        print(json.dumps({"seconds": took, "tokens": tokens.numel(), "loss": total / (sequences * (length - 1)),
                          "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                          "what": f"torch {torch.__version__} {dtype}, {torch.get_num_threads()} threads"}), flush=True)


if __name__ == "__main__":
    main()
