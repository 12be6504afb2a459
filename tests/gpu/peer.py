#!/usr/bin/env python3
"""peer.py WORK MODEL SEQUENCES LENGTH: the same work as ours in plain PyTorch (plain.py) on one device, RUNS times in
one process, a line of JSON a run. Weights are read from the files in each run of evaluate and quantize, as ours does.

  evaluate  the loss, a sequence at a time, all blocks in memory; after a run that is not counted
  quantize  GPTQ, 4 bits, groups of 128, and both losses of EVALUATED sequences, block by block
  hvp       one Hessian-vector product in float32, differentiated twice; after one that is not counted
  train     STEPS of AdamW under bfloat16 autocast; after two steps that are not counted, as ours
  rate      one large product, in bfloat16 and in float32"""

import argparse
import json
import time

import torch
import torch.nn.functional as F

from plain import Plain

SIDE = 8192
GPTQ_BLOCK, GROUP, BITS, DAMP = 128, 128, 4, 0.05


def clock(device):
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter()


def tokens_of(model, count, length, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, model.config["vocab_size"], (count, length), generator=generator).to(model.device)


# Each work gives what one run of it does, which is timed by main.


def evaluate(wanted, model):
    tokens = tokens_of(model, wanted.sequences, wanted.length, 1)

    @torch.inference_mode()
    def run():
        total = 0.0
        embedding, head, blocks = model.embedding(), model.head(), [model.block(i) for i in range(model.layers)]
        for row in tokens:
            x = embedding[row[None]]
            for block in blocks:
                x = model.forward(block, x)
            total += model.loss(head, x, row[None]).item()
        return {"loss": total / (wanted.sequences * (wanted.length - 1))}

    return run


def trainable(model):
    embedding, head, blocks = model.embedding(), model.head(), [model.block(i) for i in range(model.layers)]
    tensors = [embedding, *head[0].values(), head[1], *(t for block in blocks for t in block.values())]
    return embedding, head, blocks, [t.requires_grad_() for t in tensors]


def hvp(wanted, model):
    tokens = tokens_of(model, wanted.sequences, wanted.length, 1)
    embedding, head, blocks, tensors = trainable(model)
    direction = [torch.randn_like(t) for t in tensors]
    predictions = wanted.sequences * (wanted.length - 1)

    def run():
        product = [torch.zeros_like(t) for t in tensors]
        for row in tokens:
            # the fused kernels of attention have no second derivative
            with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
                x = embedding[row[None]]
                for block in blocks:
                    x = model.forward(block, x)
                gradients = torch.autograd.grad(model.loss(head, x, row[None]) / predictions, tensors,
                                                create_graph=True)
                for to, part in zip(product, torch.autograd.grad(gradients, tensors, grad_outputs=direction)):
                    to += part
                del gradients  # with its graph, before the next sequence makes another
        return {}

    return run


def train(wanted, model):
    embedding, head, blocks, tensors = trainable(model)
    optimizer = torch.optim.AdamW(tensors, lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1,
                                  fused=wanted.device.startswith("cuda"))
    tokens = tokens_of(model, 8 * wanted.sequences, wanted.length, 1).view(8, wanted.sequences, wanted.length)

    def step(i):
        with torch.autocast(wanted.device.split(":")[0], dtype=torch.bfloat16):
            x = F.embedding(tokens[i % 8], embedding)
            for block in blocks:
                x = model.forward(block, x)
            loss = model.loss(head, x, tokens[i % 8], "mean")
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(tensors, 1.0)
        optimizer.step()
        return loss.item()

    def run():
        return {"loss": [step(i) for i in range(wanted.steps)][-1]}

    for i in range(2):
        step(i)
    return run


def gptq(weight, hessian):
    """The published algorithm with lazy batches, columns in their own order; symmetric grids of groups."""
    w, h, top = weight.float().clone(), hessian.clone(), 2 ** BITS - 1
    dead = h.diagonal() == 0
    h.diagonal()[dead] = 1
    w[:, dead] = 0
    h.diagonal().add_(DAMP * h.diagonal().mean())
    upper = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(h)), upper=True)
    for first in range(0, w.shape[1], GPTQ_BLOCK):
        last = min(first + GPTQ_BLOCK, w.shape[1])
        errors = torch.zeros_like(w[:, first:last])
        for c in range(first, last):
            if c % GROUP == 0:
                scale = (2 * w[:, c:c + GROUP].abs().amax(1) / top).clamp(min=1e-30)
            q = (torch.clamp(torch.round(w[:, c] / scale) + 2 ** (BITS - 1), 0, top) - 2 ** (BITS - 1)) * scale
            errors[:, c - first] = (w[:, c] - q) / upper[c, c]
            w[:, c:last] -= errors[:, c - first, None] * upper[c, c:last]
            w[:, c] = q
        w[:, last:] -= errors @ upper[first:last, last:]
    return w.to(weight.dtype)


class Enough(Exception):
    pass


def quantize_block(model, block, hidden):
    """Set of linears after set: the Hessian of its input over all calibration sequences, then its weights."""
    sets = []
    model.forward(block, hidden[:1], lambda names, value: sets.append(names))
    for names in sets:
        width = block[names[0] + ".weight"].shape[1]
        hessian = torch.zeros((width, width), device=hidden.device)

        def collect(found, value):
            if found == names:
                rows = value.reshape(-1, width).float()
                hessian.addmm_(rows.T, rows, alpha=2 / (hidden.shape[0] * hidden.shape[1]))
                raise Enough

        for i in range(hidden.shape[0]):
            try:
                model.forward(block, hidden[i:i + 1], collect)
            except Enough:
                pass
        for name in names:
            block[name + ".weight"] = gptq(block[name + ".weight"], hessian)


def through(model, block, x):
    for i in range(x.shape[0]):
        x[i:i + 1] = model.forward(block, x[i:i + 1])


def quantize(wanted, model):
    calibration, tokens = (tokens_of(model, wanted.sequences, wanted.length, 1),
                           tokens_of(model, wanted.evaluated, wanted.length, 2))

    @torch.inference_mode()
    def run():
        embedding = model.embedding()
        streams = [embedding[t] for t in (calibration, tokens, tokens)]  # calibration, full precision, quantized
        del embedding
        for layer in range(model.layers):
            block = model.block(layer)
            through(model, block, streams[1])
            quantize_block(model, block, streams[0])
            through(model, block, streams[0])
            through(model, block, streams[2])
        head = model.head()
        fp, q = (sum(model.loss(head, x[i:i + 1], tokens[i:i + 1]).item() for i in range(len(x))) for x in streams[1:])
        return {"delta": q / fp - 1}

    return run


def product_rate(wanted, dtype):
    a, b = (torch.randn((wanted.side, wanted.side), device=wanted.device, dtype=dtype) for _ in range(2))
    times = []
    for _ in range(6):
        began = clock(wanted.device)
        a @ b
        times.append(clock(wanted.device) - began)
    return 2 * wanted.side ** 3 / min(times[1:]) * 1e-12


def rate(wanted, _):
    return lambda: {"bf16_tflops": product_rate(wanted, torch.bfloat16),
                    "f32_tflops": product_rate(wanted, torch.float32)}


# work: what makes it, the type of its weights, runs that are not counted
WORKS = {"evaluate": (evaluate, torch.bfloat16, 1), "hvp": (hvp, torch.float32, 1),
         "quantize": (quantize, torch.bfloat16, 0), "train": (train, torch.float32, 0), "rate": (rate, None, 0)}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("model")
    parser.add_argument("sequences", type=int)
    parser.add_argument("length", type=int)
    parser.add_argument("--evaluated", type=int, default=1)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--side", type=int, default=SIDE)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--f32", action="store_true", help="float32 where the work would be in bfloat16")
    wanted = parser.parse_args()
    work, dtype, uncounted = WORKS[wanted.work]
    model = None if dtype is None else Plain(wanted.model, torch.float32 if wanted.f32 else dtype, wanted.device)
    run = work(wanted, model)
    for i in range(-uncounted, wanted.runs):
        began = clock(wanted.device)
        result = run()
        seconds = clock(wanted.device) - began
        peak = torch.cuda.max_memory_allocated() / 2**20 if wanted.device.startswith("cuda") else None
        if i >= 0:
            print(json.dumps({"seconds": seconds, **result, "device_peak_mib": peak,
                              "what": f"torch {torch.__version__}"}), flush=True)


if __name__ == "__main__":
    main()
