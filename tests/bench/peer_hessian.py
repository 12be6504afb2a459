#!/usr/bin/env python3
"""peer_hessian.py MODEL SEQUENCES LENGTH [ITERATIONS] [pyhessian|torch]: power iterations of PyHessian on transformers'
model and random tokens, a line of JSON. PyHessian differentiates once, keeps that graph, and differentiates it again
for every product; `torch` does the same without the package. Attention is "eager": the fused ones have no second
derivative."""

import importlib
import json
import resource
import sys
import time

import numpy as np
import torch
from transformers import AutoModelForCausalLM


class Loss(torch.nn.Module):
    """The mean next-token loss as the criterion of PyHessian: of (outputs, targets)."""

    def forward(self, logits, tokens):
        return torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]),
                                                 tokens[:, 1:].reshape(-1))


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(tokens, use_cache=False).logits


def clocks():
    return np.array([time.perf_counter(), time.process_time()])


def torch_iterations(model, tokens, iterations):
    parameters = [p for p in model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(Loss()(model(tokens), tokens), parameters, create_graph=True)
    v = [torch.randn_like(p) for p in parameters]
    times, top = [], 0.0
    for _ in range(iterations):
        began = clocks()
        norm = sum((x * x).sum() for x in v).sqrt()
        v = [x / norm for x in v]
        product = torch.autograd.grad(gradients, parameters, grad_outputs=v, retain_graph=True)
        top = sum((a * b).sum() for a, b in zip(product, v)).item()
        v = [x.detach() for x in product]
        times.append(clocks() - began)
    return times, top


def pyhessian_iterations(model, tokens, iterations):
    import pyhessian

    module = importlib.import_module("pyhessian.hessian")  # the package's name "hessian" is the class

    times = []
    plain = module.hessian_vector_product

    def timed(*arguments):
        times.append(clocks())
        return plain(*arguments)

    module.hessian_vector_product = timed
    values, _ = pyhessian.hessian(model, Loss(), data=(tokens, tokens), cuda=False).eigenvalues(
        maxIter=iterations, tol=0)
    return list(np.diff(times, axis=0)), values[0]


def main():
    path, sequences, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    iterations = int(sys.argv[4]) if len(sys.argv) > 4 else 5
    how = sys.argv[5] if len(sys.argv) > 5 else "pyhessian"
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
    tokens = torch.randint(0, model.config.vocab_size, (sequences, length), generator=torch.Generator().manual_seed(1))
    run = pyhessian_iterations if how == "pyhessian" else torch_iterations
    times, top = run(Logits(model), tokens, iterations + 1)
    seconds, processor = np.median(times[1:] or times, axis=0)
    print(json.dumps({"seconds": seconds, "processor_seconds": processor, "rayleigh_quotient": top,
                      "parameters": sum(p.numel() for p in model.parameters()),
                      "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                      "what": f"{how}, torch {torch.__version__}, {torch.get_num_threads()} threads"}))


if __name__ == "__main__":
    main()
