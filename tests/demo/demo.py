#!/usr/bin/env python3
"""The paper's main figure in small, on this machine, through the HTTP interface alone: one stable run of a small model with a constant
learning rate, two decays that branch from it at different token counts, every checkpoint quantized by GPTQ at 3 and 4 bits; then, where
the server can, why: the sharpness of every checkpoint, averages of the stable run instead of a decay, and the landscape that the later
decay falls through. Prints figures and the address of the dashboard; the server stays up. Standard library only.

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
WINDOW = 3  # checkpoints in each average
FEW = {"dataset": "perl-manual-validation", "sequence_length": LENGTH, "max_sequences": 16}


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
    return wait(sweeps, "quantizing")


def wait(sweeps, label):
    """The number of failed runs, once all have ended."""
    shown = None
    while True:
        counts = [request("GET", f"/v1/sweeps/{sweep}")["runs"] for sweep in sweeps]
        total = {state: sum(count.get(state, 0) for count in counts) for state in ("queued", "running", "succeeded", "failed", "cancelled")}
        done = total["succeeded"] + total["failed"] + total["cancelled"]
        if done != shown:
            print(f"  {label}: {done} of {sum(total.values())} runs", flush=True)
            shown = done
        if done == sum(total.values()):
            return total["failed"]
        time.sleep(2)


def sharpen(trajectories):
    """The top eigenvalue of every checkpoint, on the same few sequences."""
    body = {"kind": "sharpness", "base": {**FEW, "estimators": ["top_eigenvalue"], "tolerance": 0.01, "max_iterations": 40}}
    return wait([request("POST", "/v1/sweeps", {**body, "name": f"{name}-sharpness-{int(time.time())}", "grid": {"checkpoint": {"trajectory": name}}})["id"]
                 for name in trajectories], "sharpness")


def checkpoints(trajectory):
    return sorted(request("GET", f"/v1/checkpoints?trajectory={trajectory}&limit=100")["items"], key=lambda item: item["tokens"])


def landscape(branch, decay):
    """The plane of the stable run's last checkpoints before the branch and those of the decay."""
    path = [item for item in checkpoints("constant") if item["tokens"] <= branch][-3:] + checkpoints(decay)
    run = request("POST", "/v1/runs", {"kind": "landscape", "params": {**FEW, "checkpoints": [item["id"] for item in path], "grid": [15, 11]}})
    found = follow(run, "landscape")
    losses = [value for row in found["losses"] for value in row if value is not None]
    shares = " + ".join(f"{100 * share:.0f} %" for share in found["explained_variance"])
    print(f"\n  landscape of {decay}: {len(path)} checkpoints, {shares} of their variance in the plane, losses {min(losses):.3f} to {max(losses):.3f} nats\n"
          f"  {URL}/#/runs/{run['id']}")


def of(trajectories):
    return "&".join("trajectory=" + name for name in trajectories)


def table(trajectories, metric, title, show):
    print(f"\n  {'trajectory':<16} {'method':<22} {title} by tokens")
    for series in request("GET", f"/v1/curves?{of(trajectories)}&metric={metric}&x=tokens")["series"]:
        points = "  ".join(f"{point['x'] / MILLION:.2f}M {show(point['y'])}" for point in series["points"])
        print(f"  {series['trajectory']:<16} {series['label'] or '':<22} {points}")


def correlation(trajectories):
    for series in request("GET", f"/v1/correlations?{of(trajectories)}&x=top_eigenvalue&y=delta")["series"]:
        if series["pearson"] is not None and series["interval"] is not None:
            print(f"  top eigenvalue and ΔQL, {series['label']}: Pearson {series['pearson']:.2f} (95 %: {series['interval'][0]:.2f} to {series['interval'][1]:.2f}), n = {series['n']}")
    print(f"  {URL}/#/scatter?{of(trajectories)}")


def kinds():
    text = urllib.request.urlopen(URL + "/openapi.yaml", timeout=30).read().decode()
    return {kind for kind in ("sharpness", "average", "landscape") if f"const: {kind}}}" in text}


def explain(names, branch):
    failed, averages, can = 0, [], kinds()
    if "average" in can:
        run = request("POST", "/v1/runs", {"kind": "average", "params": {"trajectory": "constant", "window": WINDOW}})
        averages = [follow(run, "averaging")["trajectory"]]
        failed += measure(averages)
    if "sharpness" in can:
        failed += sharpen(names)
    table(names + averages, "delta", "ΔQL", lambda value: f"{100 * value:.2f}%")
    if "sharpness" in can:
        table(names, "top_eigenvalue", "top eigenvalue of the Hessian", lambda value: f"{value:.1f}")
        correlation(names)
    if "landscape" in can:
        landscape(branch, names[-1])
    print(f"\n  {URL}/#/curves?{of(names + averages)}")
    return failed


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
    stored = {entry["tokens"]: entry["id"] for entry in checkpoints("constant")}
    for at in (1, 2):
        branch = min(stored, key=lambda tokens: abs(tokens - at * MILLION))
        decay = {"name": "wsd", "decay": MILLION // 2}
        train(f"decay-{at}M", branch + MILLION // 2, decay, **{"from": stored[branch]})
    names = ["constant", "decay-1M", "decay-2M"]
    failed = measure(names)
    failed += explain(names, branch)
    print(f"\n{len(stable['checkpoints'])} checkpoints on the stable run, {failed} failed runs, {time.monotonic() - began:.0f} s. "
          f"The server is still up: {URL}/ (stop it with: pkill -f 'deltaq serve')")


if __name__ == "__main__":
    main()
