"""The server with --device cuda:0,1 and auto, over the emulated device that the unit tests use: devices are tested
before they are used; runs go to workers of their own devices and come to what the CPU comes to; a device too small
fails the run and not the worker."""

import os
import signal
import struct
import subprocess
import time

import models
import pytest
from service import BINARY, ROOT, Service

PLUGIN = ROOT / "build/emulated/libdeltaq-cuda.so"
pytestmark = pytest.mark.skipif(not PLUGIN.exists(),
                                reason="build/emulated/libdeltaq-cuda.so is not built (make emulated-plugin)")
EMULATED = {"DELTAQ_CUDA_PLUGIN": str(PLUGIN), "DELTAQ_SELFTEST_SECONDS": "0"}
SERVE = [BINARY, "serve", "--listen", "127.0.0.1:0"]  # where another server may have the usual port
UUIDS = [f"GPU-{n}0e1d2c3-b4a5-4697-8877-665544332211" for n in range(2)]


def serve(directory, device, **environment):
    own = Service(directory, "--device", device, environment={**EMULATED, **environment})
    own.made = own.checkpoint(models.write_llama(own.files / "model"), "cuda", "step1", step=1)["id"]
    own.rows, own.more = (own.sequences(f"cuda-{seed}", models.rows(6, 32, seed=seed))["id"] for seed in (1, 2))
    return own


@pytest.fixture(scope="module")
def devices(tmp_path_factory):
    own = serve(tmp_path_factory.mktemp("cuda"), "cuda:0,1")
    yield own
    own.stop()


def quantization(own, **method):
    return {"checkpoint": own.made, "method": {"name": "gptq", "bits": 4, "group_size": 16, "sym": False, **method},
            "calibration": {"dataset": own.more, "sequence_length": None},
            "evaluation": {"dataset": own.rows, "sequence_length": None}}


def quantize(own, **method):
    return own.run("quantize", **quantization(own, **method))


def planned(own):
    answer = own.post("/v1/runs", {"kind": "quantize", "params": quantization(own), "dry_run": True})
    assert answer.status == 200, answer.body
    return answer.json


def test_each_device_has_a_worker(devices):
    for _ in range(600):  # they come up beside the server
        found = sorted(w["device"] for w in devices.get("/v1/workers").json["items"])
        if len(found) == 2:
            break
        time.sleep(0.1)
    assert found == ["cuda:0", "cuda:1"]


def test_losses_and_quantizations_are_those_of_the_cpu(devices, service):
    made = service.checkpoint(models.write_llama(service.files / "cuda"), "cuda", "step1", step=1)["id"]
    rows, more = (service.sequences(f"cuda-{seed}", models.rows(6, 32, seed=seed))["id"] for seed in (1, 2))
    service.made, service.rows, service.more = made, rows, more
    here, there = (quantize(own, name="rtn")["result"] for own in (service, devices))
    assert (there["loss_fp"] == pytest.approx(here["loss_fp"], rel=1e-5)
            and there["loss_q"] == pytest.approx(here["loss_q"], rel=1e-5))
    run = quantize(devices)
    assert run["state"] == "succeeded" and run["device"].startswith("cuda:"), run["error"]
    assert run["usage"]["peak_device_bytes"] > 1 << 20 and service.run(
        "evaluate", checkpoint=made, dataset=rows, sequence_length=None)["usage"]["peak_device_bytes"] is None
    assert run["result"]["loss_fp"] == pytest.approx(here["loss_fp"], rel=1e-5) and run["result"]["kl"] > 0


OLMOE = {"model_type": "olmoe", "vocab_size": 256, "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2,
         "max_position_embeddings": 64, "intermediate_size": 16, "num_experts": 5, "num_experts_per_tok": 2}


def mixture(own, device):
    """Trained from nothing, quantized, and the curvature of it."""
    rows = {"dataset": own.sequences("cuda-mixture", models.rows(8, 32, seed=3))["id"]}
    train = own.run("train", trajectory="cuda-mixture", model=OLMOE, **rows, tokens=3 * 4 * 32, batch_sequences=4,
                    sequence_length=32, tokenizer={"name": "none"}, optimizer={"name": "adamw"},
                    schedule={"name": "constant", "peak": 1e-3})
    made = {"checkpoint": train["result"]["checkpoints"][-1]}
    method = {"name": "gptq", "bits": 4, "group_size": 16}
    quantized = own.run("quantize", **made, method=method, calibration=rows, evaluation=rows)
    sharp = own.run("sharpness", **made, **rows, estimators=["trace"], probes=2)
    for run in (train, quantized, sharp):
        assert run["state"] == "succeeded" and run["device"].startswith(device), run["error"]
    return train["result"]["final_loss"], quantized["result"], sharp["result"]["trace"]


def test_a_mixture_of_experts_is_trained_and_measured_as_on_the_cpu(devices, service):
    (loss, quantized, trace), (device_loss, device_quantized, device_trace) = (
        mixture(service, "cpu"), mixture(devices, "cuda:"))
    assert device_loss == pytest.approx(loss, rel=1e-4) and device_trace == pytest.approx(trace, rel=0.05)
    assert device_quantized["loss_fp"] == pytest.approx(quantized["loss_fp"], rel=1e-4)
    visits = [sum(layer["tokens"] for layer in result["layers"] if layer["name"].endswith("gate_proj"))
              for result in (quantized, device_quantized)]
    assert visits == [2 * 2 * quantized["calibration_tokens"]] * 2 and device_quantized["kl"] > 0


def test_inputs_are_rounded_and_turned_on_the_device(devices, service):
    """Calibrated on the same tokens: the same weights but for a few that are rounded the other way."""
    service.made = service.checkpoint(models.write_llama(service.files / "cuda-turned"), "cuda-turned",
                                      "step1", step=1)["id"]
    service.rows, service.more = (service.sequences(f"cuda-turned-{seed}", models.rows(6, 32, seed=seed))["id"]
                                  for seed in (1, 2))
    here, there = (quantize(own, rotation="hadamard", activation_bits=8) for own in (service, devices))
    assert there["state"] == "succeeded" and there["device"].startswith("cuda:"), there["error"]
    assert there["result"]["loss_q"] == pytest.approx(here["result"]["loss_q"], abs=0.1 * here["result"]["kl"] + 1e-4)


def test_bf16_is_another_run_with_nearly_the_same_loss(devices):
    params = {"checkpoint": devices.made, "dataset": devices.rows, "sequence_length": None}
    full, rounded = (devices.run("evaluate", **params, precision=p) for p in ("f32", "bf16"))
    assert rounded["state"] == "succeeded" and rounded["device"].startswith("cuda:"), rounded["error"]
    assert rounded["id"] != full["id"] and rounded["result"]["loss"] != full["result"]["loss"]
    assert rounded["result"]["loss"] == pytest.approx(full["result"]["loss"], rel=2**-7)  # factors have eight bits
    train = devices.run("train", trajectory="cuda-bf16", model=OLMOE, dataset=devices.rows, tokens=2 * 4 * 32,
                        batch_sequences=4, sequence_length=32, tokenizer={"name": "none"}, optimizer={"name": "adamw"},
                        schedule={"name": "constant", "peak": 1e-3}, precision="bf16")
    assert train["state"] == "succeeded", train["error"]


def test_plans_go_by_what_a_worker_found_of_its_device(tmp_path):
    own = serve(tmp_path, "cuda:0")
    try:
        told = planned(own)
        assert told["memory"]["device"]["peak_bytes"] > 0 and told["memory"]["device"]["available_bytes"] is None
        assert told["fits"] is None and told["problem"] is None, "the server asks no driver"
        assert quantize(own)["state"] == "succeeded"
        again = planned(own)
        assert again["fits"] and again["memory"]["device"]["available_bytes"] > again["memory"]["device"]["peak_bytes"]
        assert (again["memory"]["device"]["peak_bytes"] == told["memory"]["device"]["peak_bytes"]
                and again["seconds"] > 0)
    finally:
        own.stop()


def test_a_device_without_memory_fails_the_run_alone(tmp_path):
    own = serve(tmp_path, "cuda:0", DELTAQ_DEVICE_MEMORY="1M")
    try:
        told, run = planned(own), quantize(own)
        assert (run["state"] == "failed" and run["error"]["code"] == told["problem"]["code"] == "too_large"
                and told["fits"] is False)
        said = told["problem"]["detail"].split(": ")
        assert said[0].endswith(" bytes of device memory, 0 are available") and "--device-memory" in said[1]
        assert run["error"]["detail"] == (
            f"{said[0]} (of {1 << 33} free on the device {1 << 29} are reserve and 0 promised to other workers;"
            f" --device-memory allows {1 << 20}): {said[1]}")
        assert [w["device"] for w in own.get("/v1/workers").json["items"]] == ["cuda:0"]
    finally:
        own.stop()


def test_a_run_goes_where_the_device_has_the_memory_that_it_requires(tmp_path):
    own = serve(tmp_path, "cuda:0", DELTAQ_DEVICE_MEMORY="1M")
    more = None
    try:
        requires = {"device_memory_bytes": 1 << 30}
        run = own.post("/v1/runs", {"kind": "quantize", "params": quantization(own), "requires": requires}).json
        wait_until(lambda: "device memory" in str(own.get(f"/v1/runs/{run['id']}").json["waiting"]))
        assert own.get("/v1/workers").json["items"][0]["device_state"]["memory_bytes"] == 1 << 20
        more = subprocess.Popen([BINARY, "worker", "--data-dir", own.data, "--root", own.files, "--device", "cuda:1"],
                                env={**own.environment, "DELTAQ_DEVICE_MEMORY": "0"}, stderr=subprocess.DEVNULL)
        done = own.wait(run["id"])
        assert done["state"] == "succeeded" and done["device"] == "cuda:1", done["error"]
    finally:
        if more is not None:
            more.terminate()
            more.wait(60)
        own.stop()


def wait_until(what):
    for _ in range(1200):
        found = what()
        if found:
            return found
        time.sleep(0.1)
    raise TimeoutError(what)


def failing(directory, *faults):
    """A server whose device breaks down at these launches, each in a process of its own, and the file that says so."""
    left = directory / "faults"
    left.write_text("".join(f"{launch}\n" for launch in reversed(faults)))
    return serve(directory, "cuda:0", EMULATED_FAULTS=str(left)), left


def sweep(own, name, **base):
    """The ids of four runs that one worker may take together."""
    base = {field: value for field, value in {**quantization(own), **base}.items() if field != "method"}
    answer = own.post("/v1/sweeps", {"name": name, "kind": "quantize", "base": base,
                                     "grid": {"method": [{"name": "gptq", "bits": bits, "group_size": 16}
                                                         for bits in (2, 3, 4, 8)]}})
    assert answer.status == 202, answer.body
    return [run["id"] for run in own.get(f"/v1/runs?sweep={name}").json["items"]]


def said(own, words):
    return sum(words in line for line in own.log.read_text().splitlines())


def test_a_sweep_loses_nothing_to_a_device_that_breaks_down(tmp_path, devices):
    """Twice before a run went well, then again. What the device leaves behind is NaN, which no run may take for its
    own failure."""
    own, left = failing(tmp_path, 5, 60)
    try:
        runs = [own.wait(run) for run in sweep(own, "broken")]
        left.write_text("150\n")
        runs += [own.wait(run) for run in sweep(own, "again", evaluation={"dataset": own.more,
                                                                          "sequence_length": None})]
        assert [run["state"] for run in runs] == ["succeeded"] * 8, [run["error"] for run in runs]
        assert left.read_text() == "" and max(run["attempt"] for run in runs) == 2
        wait_until(lambda: said(own, "broke down, and only a new process") == 3)
        assert said(own, "put aside") == 0 and said(own, "rescued") == 0
        same = devices.run("quantize", **runs[0]["params"]
                           | {k: quantization(devices)[k] for k in ("checkpoint", "calibration", "evaluation")})
        assert same["result"]["loss_q"] == runs[0]["result"]["loss_q"], "the bits are those of a device that is well"
    finally:
        assert own.stop() == 0


def test_a_device_that_breaks_down_three_times_in_a_row_is_put_aside(tmp_path):
    own, left = failing(tmp_path, 1, 2, 3, 4)
    try:
        runs = sweep(own, "aside")
        worker = wait_until(lambda: [w for w in own.get("/v1/workers").json["items"]
                                     if w["device_state"]["state"] == "aside"])[0]
        assert worker["device"] == "cuda:0" and worker["device_state"]["faults"] == 3
        assert "broke down 3 times in a row" in worker["device_state"]["reason"]
        assert left.read_text() == "4\n" and said(own, "takes no runs: cuda:0 broke down") == 1
        assert said(own, "it is put aside until the server is restarted") == 1
        documents = [own.get(f"/v1/runs/{run}").json for run in runs]
        assert {run["state"] for run in documents} == {"queued"} and all(
            "put aside" in run["waiting"] for run in documents), documents
        assert own.stop() == 0
        left.write_text("")  # somebody has mended it
        own.start()
        assert {own.wait(run)["state"] for run in runs} == {"succeeded"}
        state = own.get("/v1/workers").json["items"][0]["device_state"]
        assert state.pop("selftest")["checks"] > 30 and state == {
            "state": "in_use", "faults": 0, "reason": None, "name": "emulated device", "uuid": UUIDS[0],
            "bus_id": "0000:3b:00.0", "memory_bytes": (8 << 30) - (RESERVE << 20)}
    finally:
        own.stop()


def test_a_run_that_breaks_the_device_three_times_ends(tmp_path):
    """In workers that nobody supervises, so that nobody puts the device aside."""
    own, left = failing(tmp_path, 9, 9, 9)
    own.stop()
    own.options += ["--workers", "0"]
    own.start()
    try:
        run = own.post("/v1/runs", {"kind": "quantize", "params": quantization(own)}).json["id"]
        for _ in range(3):
            worker = subprocess.run([BINARY, "worker", "--data-dir", own.data, "--root", own.files, "--device",
                                     "cuda:0"], env=own.environment, capture_output=True, text=True, timeout=120)
            assert worker.returncode == 71 and "its device cuda:0 broke down" in worker.stderr, worker.stderr
        failed = own.wait(run)
        assert failed["state"] == "failed" and failed["attempt"] == 3 and left.read_text() == ""
        assert failed["error"]["code"] == "device_fault" and "illegal memory access" in failed["error"]["detail"]
    finally:
        own.stop()


class Memory:
    """The memory of the first emulated device (struct shared in emulated_plugin.c)."""

    def __init__(self, path, mebibytes):
        self.path = path
        path.write_bytes(struct.pack("62q", mebibytes << 20, *[0] * 61))

    def read(self):
        return struct.unpack("62q", self.path.read_bytes())

    def most(self):
        return self.read()[1]

    def ours(self):
        return sum(self.read()[5::2])

    def another_takes(self, mebibytes):
        with open(self.path, "r+b") as file:
            file.seek(24)
            file.write(struct.pack("q", mebibytes << 20))


RESERVE = 512  # MiB
ROOM = 40  # MiB beside it: for one run (16 are staged in, an eighth is attention's scratch), and not for two


def crowd(directory, mebibytes=RESERVE + ROOM, workers=2):
    memory = Memory(directory / "memory", mebibytes)
    own = Service(directory, "--device", "cuda:0", "--workers", str(workers),
                  environment={**EMULATED, "EMULATED_MEMORY": str(memory.path)})
    own.made = own.checkpoint(models.write_llama(own.files / "model"), "cuda", "step1", step=1)["id"]
    own.rows, own.more = (own.sequences(f"cuda-{seed}", models.rows(6, 32, seed=seed))["id"] for seed in (1, 2))
    return own, memory


def start(own, **method):
    return own.post("/v1/runs", {"kind": "quantize", "params": quantization(own, **method)}).json["id"]


def waits(own, run):
    return wait_until(lambda: own.sql("select data from run_events where type = 'log' and data::text like"
                                      f" '%waits for memory of the device%' and run = '{run}'"))


def test_two_workers_plan_with_one_device_together(tmp_path, devices):
    """What does not fit beside another run waits until that has ended; more than there is nobody plans."""
    own, memory = crowd(tmp_path)
    try:
        with own.gate.holding("quantize", 1):
            first = start(own)
            own.gate.wait(first)
            held = memory.ours()
            assert 0 < held <= ROOM << 20
            second = start(own, group_size=32)
            waits(own, second)
            assert memory.ours() == held, "who waits holds nothing"
        runs = [own.wait(run) for run in (first, second)]
        assert [run["state"] for run in runs] == ["succeeded"] * 2, [run["error"] for run in runs]
        assert memory.most() <= ROOM << 20 and memory.ours() == 0, "between runs the device has its memory back"
        assert runs[0]["result"]["loss_q"] == quantize(devices)["result"]["loss_q"]
    finally:
        assert own.stop() == 0


def test_what_a_dead_worker_was_promised_is_free(tmp_path):
    own, memory = crowd(tmp_path)
    try:
        with own.gate.holding("quantize", 1):
            first = start(own)
            own.gate.wait(first)
            second = start(own, group_size=32)
            waits(own, second)
            os.kill(next(int(pid) for pid, used in zip(memory.read()[4::2], memory.read()[5::2]) if used > 0),
                    signal.SIGKILL)
            own.gate.wait(second)  # while the first is held, or waits in its turn
        runs = [own.wait(run) for run in (first, second)]
        assert [run["state"] for run in runs] == ["succeeded"] * 2, [run["error"] for run in runs]
        assert memory.most() <= ROOM << 20
    finally:
        own.stop()


def test_a_run_that_finds_another_program_on_the_device_says_so(tmp_path):
    own, memory = crowd(tmp_path, workers=1)
    try:
        memory.another_takes(ROOM - 1)
        run = quantize(own)
        assert run["state"] == "failed" and run["error"]["code"] == "too_large"
        assert (f"0 are available (of {RESERVE + 1 << 20} free on the device {RESERVE << 20} are reserve and 0 promised"
                " to other workers)") in run["error"]["detail"] and memory.most() == 0, "nothing was begun"
        memory.another_takes(0)
        assert own.wait(own.post(f"/v1/runs/{run['id']}/retry").json["id"])["state"] == "succeeded"
    finally:
        own.stop()


def doctor(*options, **environment):
    return subprocess.run([BINARY, "doctor", *options], env={**os.environ, **EMULATED, **environment},
                          capture_output=True, text=True, timeout=300).stdout


def workers_of(own, count):
    found = wait_until(lambda: len(items := own.get("/v1/workers").json["items"]) == count and items)
    return {worker["device_state"]["uuid"]: worker for worker in found}


def test_auto_uses_the_devices_that_pass(tmp_path):
    own = serve(tmp_path, "auto")
    try:
        workers = workers_of(own, 2)
        assert [workers[uuid]["device"] for uuid in UUIDS] == ["cuda:0", "cuda:1"]
        state = workers[UUIDS[0]]["device_state"]
        assert state["state"] == "in_use" and state["reason"] is None
        assert state["selftest"]["checks"] > 30 and state["selftest"]["seconds"] > 0
        assert ([(rate["name"], rate["unit"]) for rate in state["selftest"]["rates"] if rate["rate"] > 0]
                == [("products f32", "GFLOP/s"), ("squares", "GFLOP/s"), ("to the device", "GB/s"),
                    ("from the device", "GB/s"), ("on the device", "GB/s"), ("products tf32", "GFLOP/s"),
                    ("products bf16", "GFLOP/s")])
        assert said(own, f"{UUIDS[0]}, 0000:3b:00.0; passed its self-test ({state['selftest']['checks']} checks") == 1
        run = quantize(own)
        assert run["state"] == "succeeded" and run["device"].startswith("cuda:"), run["error"]
        assert planned(own)["memory"]["device"]["peak_bytes"] > 0, "plans are made for what the workers found"
    finally:
        own.stop()
    told = doctor("--device", DELTAQ_DATA_DIR=str(tmp_path / "data"))
    assert f"cuda:1 {UUIDS[1]} 0000:af:00.0: emulated device; passed its self-test: products f32" in told
    for row in ("2 emulated devices", "error of its bound", "a model: product of the Hessian", "on the device"):
        assert row in told, told


WRONG = [("product", "products, shape 2: a b ["), ("crash", ": crash by signal 11 ("),
         ("fault", "an illegal memory access was encountered")]


def test_auto_works_on_the_cpu_for_a_device_that_fails(tmp_path):
    fault, words = WRONG[0]
    own = serve(tmp_path, "auto", EMULATED_WRONG=fault)
    try:
        workers = workers_of(own, 2)
        assert [workers[uuid]["device"] for uuid in UUIDS] == ["cpu", "cuda:1"]
        failed = workers[UUIDS[0]]["device_state"]
        assert failed["state"] == "failed" and failed["selftest"] is None
        assert failed["reason"].startswith("device cuda:0 failed its self-test: ") and words in failed["reason"]
        assert workers[UUIDS[1]]["device_state"]["state"] == "in_use"
        assert said(own, "the CPU does the work: device cuda:0 failed its self-test") == 1
    finally:
        own.stop()
    told = doctor(DELTAQ_DATA_DIR=str(tmp_path / "data"), EMULATED_WRONG=fault)
    assert "ok     cuda             2 emulated devices\n" in told
    assert f"WRONG  cuda             cuda:0 {UUIDS[0]}" in told and words in told
    assert f"ok     cuda             cuda:1 {UUIDS[1]}" in told


@pytest.mark.parametrize("fault, words", WRONG)
def test_a_named_device_must_pass(tmp_path, fault, words):
    made = subprocess.run([BINARY, "worker", "--data-dir", tmp_path, "--device", f"cuda:{UUIDS[0]}"],
                          capture_output=True, text=True, timeout=60,
                          env={**os.environ, **EMULATED, "EMULATED_WRONG": fault})
    assert made.returncode == 71 and words in made.stderr, made.stderr
    assert "device cuda:0 failed its self-test: " in made.stderr and made.stderr.endswith("; use --device cpu\n")


def test_a_driver_that_crashes_takes_nobody_with_it(tmp_path):
    own = serve(tmp_path, "auto", EMULATED_WRONG="driver")
    try:
        worker = workers_of(own, 1)[None]
        assert worker["device"] == "cpu" and worker["device_state"]["state"] == "failed"
        assert "looking for devices failed: asking the driver: crash by signal" in worker["device_state"]["reason"]
    finally:
        own.stop()
    made = subprocess.run([*SERVE, "--data-dir", tmp_path / "other", "--device", "cuda:0"], timeout=60,
                          capture_output=True, text=True, env={**os.environ, **EMULATED, "EMULATED_WRONG": "driver"})
    assert made.returncode == 1 and "asking the driver: crash by signal" in made.stderr


def test_a_plugin_that_does_not_load_is_told(tmp_path):
    plugin = tmp_path / "libdeltaq-cuda.so"
    plugin.write_text("no library")
    own = serve(tmp_path, "auto", DELTAQ_CUDA_PLUGIN=str(plugin))
    try:
        worker = workers_of(own, 1)[None]
        assert worker["device"] == "cpu" and worker["device_state"]["state"] == "failed"
        assert "no device can be used: libdeltaq-cuda.so does not load" in worker["device_state"]["reason"]
        assert said(own, "the CPU does the work: no device can be used") == 1
        assert quantize(own)["state"] == "succeeded"
    finally:
        own.stop()
    told = doctor(DELTAQ_DATA_DIR=str(tmp_path / "data"), DELTAQ_CUDA_PLUGIN=str(plugin))
    assert "WRONG  cuda             libdeltaq-cuda.so does not load: " in told


def test_a_device_is_chosen_by_what_it_is(tmp_path):
    own = Service(tmp_path, "--device", f"cuda:AF:00.0,{UUIDS[0][:8].lower()}",
                  environment=EMULATED)
    try:
        workers = wait_until(lambda: len(found := own.get("/v1/workers").json["items"]) == 2 and found)
        assert ({w["device"]: (w["device_state"]["uuid"], w["device_state"]["bus_id"]) for w in workers}
                == {"cuda:0": (UUIDS[0], "0000:3b:00.0"), "cuda:1": (UUIDS[1], "0000:af:00.0")})
        assert said(own, f"device cuda:1: emulated device, {UUIDS[1]}, 0000:af:00.0") == 1
    finally:
        own.stop()
    assert f"cuda:1 {UUIDS[1]} 0000:af:00.0: emulated device" in doctor(DELTAQ_DATA_DIR=str(tmp_path / "data"))


@pytest.mark.parametrize("device, words", [
    ("cuda:GPU-7", "2 emulated devices, and none of them is GPU-7"),
    ("cuda:0,GPU-", "none of them is GPU-"), ("cuda:3c:00.0", "none of them is 3c:00.0"), ("cuda:0,", "expected auto"),
    ("cuda:2", "2 emulated devices; use --device cpu"), ("cuda:0:1:2:3.4", "none of them"),
    ("cuda:x", "expected auto")])
def test_a_device_that_is_not_there_is_refused(tmp_path, device, words):
    made = subprocess.run([*SERVE, "--data-dir", tmp_path / "data", "--device", device], capture_output=True, text=True,
                          timeout=60, env={**os.environ, "DELTAQ_CUDA_PLUGIN": str(PLUGIN)})
    assert made.returncode == 1 and words in made.stderr, made.stderr


def test_a_size_that_is_none_is_refused(tmp_path):
    made = subprocess.run([*SERVE, "--data-dir", tmp_path / "data", "--device-memory", "lots"], capture_output=True,
                          text=True, timeout=60)
    assert made.returncode == 1 and '--device-memory must be a size like 20G, found "lots"' in made.stderr
