#!/usr/bin/env python3
"""How long a whole trajectory takes: registers checkpoints of random weights in one shape with a server of its own,
posts one sweep (GPTQ at several widths) and waits for it; beside it a loop of GPTQModel over the same checkpoints.

    throughput.py [--shape llama-3m] [--checkpoints 100] [--recipes 8] [--workers 1] [--calibration 32]
                  [--evaluation 32] [--length 512] [--peers PYTHON] [--peer-checkpoints 1] [--peer-recipes 2]
                  [--build DIR]   (make bench-throughput)

Seconds are those of a client, from the request to the last result, with all that the server does in between. GPTQModel
is timed inside its own process, without imports, on some checkpoints and recipes; its time for all is that in
proportion. `limit`: what the products of the plan would take at the rate of the best large product of this machine, so
that the rest is what is no product, or is in small ones. Needs numpy and safetensors."""

import argparse
import os
import pathlib
import sys
import tempfile
import time

import numpy as np
from safetensors.numpy import load_file, save_file

import make_model
from run import last_json, limit_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
WIDTHS, GROUPS = (4, 3, 2, 8), (64, 32)  # of recipes, in this order


def recipes(count):
    return [{"name": "gptq", "bits": bits, "group_size": group} for group in GROUPS for bits in WIDTHS][:count]


def write_checkpoints(folder, shape, count):
    """Each of its own weights: one tensor of the first is drawn again, since equal content is measured once."""
    config, shapes = make_model.SHAPES[shape]()
    directories = [folder / f"step{i + 1}" for i in range(count)]
    make_model.write(directories[0], config, shapes)
    name = next(name for name in shapes if name.endswith("embed_tokens.weight") or name.endswith("embed_in.weight"))
    tensors = load_file(directories[0] / "model.safetensors")
    for i, directory in enumerate(directories[1:], 1):
        directory.mkdir()
        for path in directories[0].iterdir():
            if path.name != "model.safetensors":
                (directory / path.name).symlink_to(path)
        tensors[name] = np.random.default_rng(i).standard_normal(shapes[name], np.float32) * np.float32(0.02)
        save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    return directories, config["vocab_size"]


def write_tokens(path, vocabulary, sequences, length, seed):
    np.random.default_rng(seed).integers(0, vocabulary, sequences * length, np.uint32).tofile(path)
    return path


def ours(options, folder, directories, data):
    os.environ["DELTAQ_BINARY"] = str(ROOT / options.build / "deltaq")
    sys.path.insert(0, str(ROOT / "tests" / "http"))
    from service import Service

    service = Service(folder, "--workers", str(options.workers), "--root", str(folder))
    try:
        for name, path in data.items():
            service.post("/v1/datasets", {"name": name, "path": str(path), "format": "tokens", "dtype": "uint32"})
        began = time.monotonic()
        for i, directory in enumerate(directories):
            answer = service.post("/v1/checkpoints", {"trajectory": "run", "name": directory.name, "step": i + 1,
                                                      "source": {"path": str(directory)}})
            assert answer.status == 201, answer.body
        registered = time.monotonic()
        use = {name: {"dataset": name, "sequence_length": options.length} for name in data}
        answer = service.post("/v1/sweeps", {
            "name": "all", "kind": "quantize", "base": use,
            "grid": {"checkpoint": {"trajectory": "run"}, "method": recipes(options.recipes)}})
        assert answer.status == 202, answer.body
        sweep = answer.json["id"]
        while answer.json["runs"]["queued"] + answer.json["runs"]["running"] > 0:
            answer = service.get(f"/v1/sweeps/{sweep}?wait=60")
        ended = time.monotonic()
        assert answer.json["runs"]["succeeded"] == options.checkpoints * options.recipes, answer.body
        runs = service.get(f"/v1/runs?sweep={sweep}&limit=200").json["items"]
        plan = service.post("/v1/runs", {"kind": "quantize", "dry_run": True, "params": {
            **use, "checkpoint": directories[0].name, "method": recipes(1)[0]}}).json
        return {"register": registered - began, "sweep": ended - registered,
                "peak": max(run["usage"]["peak_host_bytes"] for run in runs), "flop": plan["flops"],
                "delta": runs[0]["result"]["delta"]}
    finally:
        service.stop()


def theirs(options, directories, data):
    """Seconds of one checkpoint and recipe."""
    return last_json([options.peers, HERE / "peer_throughput.py", data["calibration"], data["evaluation"],
                      options.length, GROUPS[0], ",".join(map(str, WIDTHS[:options.peer_recipes])),
                      *directories[:options.peer_checkpoints]])["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="llama-3m", choices=sorted(make_model.SHAPES))
    parser.add_argument("--checkpoints", type=int, default=100)
    parser.add_argument("--recipes", type=int, default=8, choices=range(1, len(WIDTHS) * len(GROUPS) + 1))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--calibration", type=int, default=32, help="sequences")
    parser.add_argument("--evaluation", type=int, default=32, help="sequences")
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--peers", help="a Python with GPTQModel")
    parser.add_argument("--peer-checkpoints", type=int, default=1)
    parser.add_argument("--peer-recipes", type=int, default=2)
    parser.add_argument("--build", default="build")
    options = parser.parse_args()
    (ROOT / options.build / "bench").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / options.build / "bench", prefix="throughput-") as made:
        folder = pathlib.Path(made)
        (folder / "models").mkdir()
        directories, vocabulary = write_checkpoints(folder / "models", options.shape, options.checkpoints)
        counts = {"calibration": options.calibration, "evaluation": options.evaluation}
        data = {name: write_tokens(folder / f"{name}.u32", vocabulary, count, options.length, seed)
                for seed, (name, count) in enumerate(counts.items())}
        found = ours(options, folder, directories, data)
        limit = limit_of(ROOT / options.build / "release" / "tests" / "bench")
        runs = options.checkpoints * options.recipes
        print(f"{options.shape}: {options.checkpoints} checkpoints registered in {found['register']:.1f} s; {runs} runs"
              f" of {options.recipes} recipes in {found['sweep']:.1f} s, {found['sweep'] / runs:.3f} s a run; one alone"
              f" is {found['flop'] * 1e-9:.0f} GFLOP, {found['flop'] * 1e-9 / limit:.3f} s at the limit of"
              f" {limit:.0f} GFLOP/s; peak {found['peak'] / 2**20:.0f} MiB; delta of the last {found['delta']:.4f}",
              flush=True)
        if options.peers:
            each = theirs(options, directories, data)
            print(f"GPTQModel: {each:.2f} s for each of {options.peer_checkpoints} checkpoints and"
                  f" {options.peer_recipes} recipes; {each * runs:.0f} s for all: deltaq is faster by"
                  f" {each * runs / found['sweep']:.1f}×")


if __name__ == "__main__":
    main()
