#!/usr/bin/env python3
"""peer.py WORK MODEL SEQUENCES LENGTH: the same work as ours in plain PyTorch (plain.py) on one device, a line of JSON.

  evaluate  the loss, a sequence at a time, all blocks in memory
  quantize  GPTQ, 4 bits, groups of 128, and both losses of EVALUATED sequences, block by block
  hvp       one Hessian-vector product in float32, differentiated twice
  train     STEPS of AdamW under bfloat16 autocast
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


def evaluate(wanted, model):
    tokens = tokens_of(model, wanted.sequences, wanted.length, 1)
    began, total = clock(wanted.device), 0.0
    with torch.inference_mode():
        embedding, head, blocks = model.embedding(), model.head(), [model.block(i) for i in range(model.layers)]
        for row in tokens:
            x = embedding[row[None]]
            for block in blocks:
                x = model.forward(block, x)
            total += model.loss(head, x, row[None]).item()
    return {"seconds": clock(wanted.device) - began, "loss": total / (wanted.sequences * (wanted.length - 1))}


def trainable(model):
    embedding, head, blocks = model.embedding(), model.head(), [model.block(i) for i in range(model.layers)]
    tensors = [embedding, *head[0].values(), head[1], *(t for block in blocks for t in block.values())]
    return embedding, head, blocks, [t.requires_grad_() for t in tensors]


def hvp(wanted, model):
    tokens = tokens_of(model, wanted.sequences, wanted.length, 1)
    embedding, head, blocks, tensors = trainable(model)
    direction = [torch.randn_like(t) for t in tensors]
    predictions = wanted.sequences * (wanted.length - 1)
    times = []
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # the fused ones have no second derivative
        for _ in range(wanted.runs + 1):
            product, began = [torch.zeros_like(t) for t in tensors], clock(wanted.device)
            for row in tokens:
                x = embedding[row[None]]
                for block in blocks:
                    x = model.forward(block, x)
                gradients = torch.autograd.grad(model.loss(head, x, row[None]) / predictions, tensors,
                                                create_graph=True)
                for to, part in zip(product, torch.autograd.grad(gradients, tensors, grad_outputs=direction)):
                    to += part
            times.append(clock(wanted.device) - began)
    return {"seconds": sorted(times[1:])[len(times[1:]) // 2]}


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

    for i in range(2):
        step(i)
    began = clock(wanted.device)
    for i in range(wanted.steps):
        loss = step(i)
    return {"seconds": clock(wanted.device) - began, "loss": loss}


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


def quantize(wanted, model):
    calibration, tokens = (tokens_of(model, wanted.sequences, wanted.length, 1),
                           tokens_of(model, wanted.evaluated, wanted.length, 2))
    began = clock(wanted.device)
    with torch.inference_mode():
        embedding = model.embedding()
        streams = [embedding[t] for t in (calibration, tokens, tokens)]  # calibration, full precision, quantized
        del embedding

        def through(block, x):
            for i in range(x.shape[0]):
                x[i:i + 1] = model.forward(block, x[i:i + 1])

        for layer in range(model.layers):
            block = model.block(layer)
            through(block, streams[1])
            quantize_block(model, block, streams[0])
            through(block, streams[0])
            through(block, streams[2])
        head = model.head()
        fp, q = (sum(model.loss(head, x[i:i + 1], tokens[i:i + 1]).item() for i in range(len(x))) for x in streams[1:])
    return {"seconds": clock(wanted.device) - began, "delta": q / fp - 1}


def rate(wanted, _):
    result = {}
    for name, dtype in (("bf16", torch.bfloat16), ("f32", torch.float32)):
        a, b = (torch.randn((wanted.side, wanted.side), device=wanted.device, dtype=dtype) for _ in range(2))
        times = []
        for _ in range(6):
            began = clock(wanted.device)
            a @ b
            times.append(clock(wanted.device) - began)
        result[name + "_tflops"] = 2 * wanted.side ** 3 / min(times[1:]) * 1e-12
    return {"seconds": 0, **result}


WORKS = {"evaluate": (evaluate, torch.bfloat16), "hvp": (hvp, torch.float32), "quantize": (quantize, torch.bfloat16),
         "train": (train, torch.float32), "rate": (rate, None)}


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
    run, dtype = WORKS[wanted.work]
    model = None if dtype is None else Plain(wanted.model, torch.float32 if wanted.f32 else dtype, wanted.device)
    result = run(wanted, model)
    peak = torch.cuda.max_memory_allocated() / 2**20 if wanted.device.startswith("cuda") else None
    print(json.dumps({**result, "device_peak_mib": peak, "what": f"torch {torch.__version__}"}))


if __name__ == "__main__":
    main()
