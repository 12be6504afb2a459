#!/usr/bin/env python3
"""peer_train.py MODEL SEQUENCES LENGTH STEPS [RUNS]: the same training steps as a plain PyTorch float32 loop over
transformers' model (AdamW, clipping at 1, decay on matrices alone), a line of JSON a run. Under autocast where
DELTAQ_BENCH_PRODUCTS is bf16."""

import json
import os
import resource
import sys
import time

import torch
from transformers import AutoConfig, AutoModelForCausalLM


def main():
    path, sequences, length, steps = sys.argv[1], *map(int, sys.argv[2:5])
    runs = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    rounds = os.environ.get("DELTAQ_BENCH_PRODUCTS") == "bf16"
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(path), dtype=torch.float32).train()
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
                                  lr=3e-3, betas=(0.9, 0.95), eps=1e-8)
    tokens = torch.randint(0, model.config.vocab_size, (64, sequences, length),
                           generator=torch.Generator().manual_seed(1))
    loss = None

    def step(i):
        batch = tokens[i % len(tokens)]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=rounds):
            logits = model(batch).logits[:, :-1]
            value = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), batch[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return value.item()

    for i in range(2):
        step(i)
    for _ in range(runs):
        began = time.perf_counter()
        for i in range(steps):
            loss = step(i)
        took = time.perf_counter() - began
        count = steps * sequences * length
        print(json.dumps({"seconds": took, "tokens": count, "tokens_per_second": count / took,
                          "parameters": sum(p.numel() for p in model.parameters()),
                          "loss": loss, "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                          "what": f"torch {torch.__version__}{' autocast' * rounds}, "
                                  f"{torch.get_num_threads()} threads"}), flush=True)


if __name__ == "__main__":
    main()
