#!/usr/bin/env python3
"""The paper's main figure in small, on this machine, through the HTTP interface alone: one stable run of a small model with a constant
learning rate, two decays that branch from it at different token counts, every checkpoint quantized by GPTQ at 3 and 4 bits. Prints
progress and the address of the dashboard; the server stays up. Standard library only.

    demo.py BINARY DIRECTORY      (make demo)
"""

import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.error
import urllib.request

URL = os.environ.get("DELTAQ_DEMO_URL", "http://127.0.0.1:8642")
MODEL = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4,
         "num_key_value_heads": 4, "head_dim": 32, "intermediate_size": 384, "hidden_act": "silu", "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
         "rope_theta": 10000.0, "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False, "initializer_range": 0.02, "vocab_size": 2048}
LENGTH, SEQUENCES = 128, 16
STEP = LENGTH * SEQUENCES
MILLION = 1_000_000
PEAK = 4e-3


def request(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    call = urllib.request.Request(URL + path, data=data, method=method, headers={"Content-Type": "application/json"} if data else {})
    try:
        with urllib.request.urlopen(call, timeout=90) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        sys.exit(f"demo: {method} {path}: {error.read().decode()}")


def ready():
    try:
        with urllib.request.urlopen(URL + "/readyz", timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False


def start_server(binary, directory):
    if ready():
        sys.exit(f"demo: a server answers on {URL} already; stop it first")
    log = open(directory / "server.log", "ab")
    command = [binary, "serve", "--listen", URL.split("//")[1], "--data-dir", str(directory / "data"), "--root", str(directory)]
    server = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
    for _ in range(300):
        if ready():
            return server
        if server.poll() is not None:
            sys.exit(f"demo: the server stopped; see {directory / 'server.log'}")
        time.sleep(0.1)
    sys.exit("demo: the server is not ready after 30 s")


def follow(run, label):
    shown = -1.0
    while run["state"] in ("queued", "running"):
        run = request("GET", f"/v1/runs/{run['id']}?wait=2")
        progress = run["progress"]
        share = progress["done"] / progress["total"] if progress["total"] else 0.0
        if share - shown >= 0.1:
            eta = f", {progress['eta_seconds']:.0f} s to go" if progress["eta_seconds"] else ""
            print(f"  {label}: {100 * share:3.0f} % of {progress['total']} {progress['unit']}s{eta}", flush=True)
            shown = share
    if run["state"] != "succeeded":
        sys.exit(f"demo: {label} {run['state']}: {run['error']}")
    return run["result"]


def train(trajectory, tokens, schedule, **more):
    params = {"trajectory": trajectory, "dataset": "perl-manual", "validation": "perl-manual-validation", "tokens": tokens,
              "batch_sequences": SEQUENCES, "sequence_length": LENGTH, "schedule": {"peak": PEAK, "warmup": 50 * STEP, **schedule},
              "checkpoint_every": MILLION // 4, "seed": 0, **more}
    return follow(request("POST", "/v1/runs", {"kind": "train", "params": params}), f"training {trajectory}")


def measure(trajectories):
    sweeps = []
    for name in trajectories:
        calibration = {"dataset": "perl-manual", "sequence_length": LENGTH, "packing": "blocks", "max_sequences": 64}
        evaluation = {"dataset": "perl-manual-validation", "sequence_length": LENGTH, "max_sequences": 192}
        body = {"name": f"{name}-gptq-{int(time.time())}", "kind": "quantize",
                "base": {"method": {"name": "gptq", "group_size": 128}, "calibration": calibration, "evaluation": evaluation},
                "grid": {"checkpoint": {"trajectory": name}, "method.bits": [3, 4]}}
        sweeps.append(request("POST", "/v1/sweeps", body)["id"])
    while True:
        counts = [request("GET", f"/v1/sweeps/{sweep}")["runs"] for sweep in sweeps]
        total = {state: sum(count.get(state, 0) for count in counts) for state in ("queued", "running", "succeeded", "failed", "cancelled")}
        done = total["succeeded"] + total["failed"] + total["cancelled"]
        print(f"  quantizing: {done} of {sum(total.values())} runs", flush=True)
        if done == sum(total.values()):
            return total["failed"]
        time.sleep(5)


def table(trajectories):
    query = "&".join("trajectory=" + name for name in trajectories)
    print(f"\n  {'trajectory':<12} {'method':<22} ΔQL by tokens")
    for series in request("GET", f"/v1/curves?{query}&metric=delta&x=tokens")["series"]:
        points = "  ".join(f"{point['x'] / MILLION:.1f}M {100 * point['y']:.2f}%" for point in series["points"])
        print(f"  {series['trajectory']:<12} {series['method'] or '':<22} {points}")


def main():
    binary, directory = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    corpus = pathlib.Path(__file__).with_name("corpus.sh")
    subprocess.run([str(corpus), str(directory / "corpus")], check=True)
    start_server(binary, directory)
    print(f"dashboard: {URL}/", flush=True)
    for name, file in (("perl-manual", "train.txt"), ("perl-manual-validation", "validation.txt")):
        request("POST", "/v1/datasets", {"name": name, "path": str(directory / "corpus" / file), "format": "text"})
    stable = train("constant", 5 * MILLION // 2, {"name": "constant"}, model=MODEL, tokenizer={"name": "train", "vocabulary_size": 2048})
    checkpoints = {entry["tokens"]: entry["id"] for entry in request("GET", "/v1/checkpoints?trajectory=constant&limit=100")["items"]}
    for at in (1, 2):
        branch = min(checkpoints, key=lambda tokens: abs(tokens - at * MILLION))
        decay = {"name": "wsd", "decay": MILLION // 2}
        train(f"decay-{at}M", branch + MILLION // 2, decay, **{"from": checkpoints[branch]})
    names = ["constant", "decay-1M", "decay-2M"]
    failed = measure(names)
    table(names)
    print(f"\n{len(stable['checkpoints'])} checkpoints on the stable run, {failed} failed runs, {time.monotonic() - began:.0f} s. "
          f"The server is still up: {URL}/ (stop it with: pkill -f 'deltaq serve')")


if __name__ == "__main__":
    main()
