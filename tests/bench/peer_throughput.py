#!/usr/bin/env python3
"""peer_throughput.py CALIBRATION EVALUATION LENGTH GROUP BITS,… MODEL…: what a loop of GPTQModel takes for a checkpoint
and a recipe: loading, the loss in full precision (once a checkpoint), quantization, saving, loading and the loss of
what was saved. A line of JSON."""

import json
import logging
import sys
import time

import transformers

import peer_methods


def main():
    logging.disable(logging.WARNING)
    transformers.logging.disable_progress_bar()
    length, group, widths = int(sys.argv[3]), int(sys.argv[4]), sys.argv[5].split(",")
    calibration, evaluation = (peer_methods.rows(path, length) for path in sys.argv[1:3])
    models, deltas = sys.argv[6:], []
    peer_methods.gptqmodel(models[0], f"gptq{widths[0]}", calibration[:1], length, group)  # what is loaded once
    began = time.perf_counter()
    for path in models:
        reference = peer_methods.loss_of(peer_methods.load(path), evaluation, 4)
        for width in widths:
            quantized = peer_methods.gptqmodel(path, f"gptq{width}", calibration, length, group)
            deltas.append(peer_methods.loss_of(quantized, evaluation, 4) / reference - 1)
    took = time.perf_counter() - began
    print(json.dumps({"seconds": took / len(models) / len(widths), "deltas": deltas}), flush=True)


if __name__ == "__main__":
    main()
