"""Libraries of matrix products that are wrong, crash and hang: a worker sees it before its first run, says so, and
takes other products, with which its results are right."""

import os
import pathlib
import subprocess
import time

import models
import pytest
from service import BINARY, Service

SOURCE = pathlib.Path(__file__).with_name("wrong_blas.c")
NOWHERE = "postgresql://127.0.0.1:1/none"  # doctor looks at the products without it


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if not BINARY.exists():
        pytest.skip("build/deltaq is not built")
    path = tmp_path_factory.mktemp("blas") / "wrong_blas.so"
    subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-O1", "-o", path, SOURCE, "-ldl"], check=True)
    return path


def diagnose(data, **environment):
    """Doctor's line on the products, and whether it says that they are as they should be."""
    done = subprocess.run([BINARY, "doctor", "--database-url", NOWHERE, "--data-dir", data], capture_output=True,
                          text=True, timeout=300, env={**os.environ, **environment})
    (line,) = (line for line in done.stdout.splitlines() if line.split()[1] == "products")
    (engine,) = (line for line in done.stdout.splitlines() if line.split()[1] == "engine")
    return line, engine, line.startswith("ok ")


@pytest.fixture(scope="module")
def core(library, tmp_path_factory):
    """The core type that is taken where nothing is wrong."""
    line, _, good = diagnose(tmp_path_factory.mktemp("data"), DELTAQ_OPENBLAS=str(library))
    if not good or ", core " not in line:
        pytest.skip(f"this machine's own OpenBLAS does not pass: {line}")
    return line.split(", core ")[1].split(":")[0]


@pytest.mark.parametrize("product", ["sgemm", "ssyrk", "strsm", "strmm"])
@pytest.mark.parametrize("fault, said", [("wrong", "plain loops give"), ("crash", "signal 11"),
                                         ("leave", "exit status 3")])
def test_what_is_wrong_with_one_core_runs_with_another(tmp_path, library, core, product, fault, said):
    line, engine, good = diagnose(tmp_path, DELTAQ_OPENBLAS=str(library), WRONG_BLAS=f"{product} {fault}",
                                  WRONG_BLAS_CORE=core)
    assert not good and "fell back to core " in line and f"{core}: cblas_{product}" in line and said in line, line
    other = line.split("fell back to core ")[1].split(",")[0]
    assert other != core and other in engine, engine


def test_one_wrong_shape_is_enough(tmp_path, library, core):
    line, _, good = diagnose(tmp_path, DELTAQ_OPENBLAS=str(library), WRONG_BLAS="sgemm wrong", WRONG_BLAS_CORE=core,
                             WRONG_BLAS_ROWS="769")
    assert not good and f"{core}: cblas_sgemm of 769 x 24 x 63" in line and "fell back to core " in line, line


def test_a_library_that_hangs_is_left_after_its_deadline(tmp_path, library, core):
    begun = time.monotonic()
    line, _, good = diagnose(tmp_path, DELTAQ_OPENBLAS=str(library), WRONG_BLAS="sgemm hang", WRONG_BLAS_CORE=core,
                             WRONG_BLAS_ROWS="17")
    assert not good and "no end within 10 s" in line and "fell back to core " in line, line
    assert time.monotonic() - begun > 10


@pytest.mark.parametrize("fault", ["wrong", "crash"])
def test_what_is_wrong_with_every_core_gives_way_to_our_own_kernels(tmp_path, library, core, fault):
    line, engine, good = diagnose(tmp_path, DELTAQ_OPENBLAS=str(library), WRONG_BLAS=f"strsm {fault}")
    assert not good and "fell back to our own kernels" in line and f"{core}: cblas_strsm" in line, line
    assert line.count("cblas_strsm") > 1 and "no OpenBLAS" in engine, (line, engine)


def test_no_library_is_nothing_wrong(tmp_path):
    line, engine, good = diagnose(tmp_path, DELTAQ_OPENBLAS="/nonexistent.so")
    assert good and "/nonexistent.so" in line and "no OpenBLAS" in engine, (line, engine)


def quantized(service, name):
    """The numbers of a run whose products a library makes: Hessians, their factors, forward passes."""
    directory = models.write_llama(service.files / name, hidden_size=128, intermediate_size=192, num_attention_heads=4,
                                   num_key_value_heads=2, num_hidden_layers=1)
    checkpoint = service.checkpoint(directory, name, "step1")
    service.sequences(name, models.rows(8, 24))
    run = service.run("quantize", checkpoint=checkpoint["id"], method={"name": "gptq", "bits": 3, "group_size": 64},
                      calibration={"dataset": name}, evaluation={"dataset": name})
    assert run["state"] == "succeeded", run["error"]
    return [run["result"][key] for key in ("loss_fp", "loss_q", "kl")]


def products(service):
    """Of its worker, which comes after the server listens."""
    end = time.monotonic() + 120
    while not (workers := service.get("/v1/workers").json["items"]) and time.monotonic() < end:
        time.sleep(0.05)
    return workers[0]["blas"]


def start(directory, **environment):
    service = Service(directory, "--threads", "1", environment={"HF_ENDPOINT": "http://127.0.0.1:9", **environment})
    return service, products(service)


@pytest.mark.parametrize("fault", ["sgemm wrong", "strmm crash"])
def test_a_worker_with_a_wrong_library_says_so_and_its_results_are_right(tmp_path, library, core, service, fault):
    """Without the fallback `sgemm wrong` changes the loss in its fifth digit, and `strmm crash` ends the worker.

    The sound library sums in an order of its own. In float32 that moves the loss by less than 1e-6 of it; but a weight
    of GPTQ that lies between two codes may take the other one, and every such weight moves the quantized model."""
    spoiled, blas = start(tmp_path / "spoiled", DELTAQ_OPENBLAS=str(library), WRONG_BLAS=fault)
    try:
        assert blas["verdict"] == "own_products" and blas["core"] is None and "OpenBLAS" in blas["library"]
        assert f"{core}: cblas_{fault.split()[0]}" in blas["reason"], blas
        log = [line for line in spoiled.log.read_text().splitlines() if ": products: " in line]
        assert len(log) == 1 and "fell back to our own kernels" in log[0] and blas["reason"] in log[0], log
        numbers = quantized(spoiled, "spoiled")
    finally:
        assert spoiled.stop() == 0
    own, blas = start(tmp_path / "own", DELTAQ_OPENBLAS="none")
    try:
        assert blas["verdict"] == "own_products" and blas["library"] is None
        assert quantized(own, "spoiled") == numbers  # bit-for-bit: nothing came from the library
    finally:
        assert own.stop() == 0
    loss, *of_codes = quantized(service, f"sound-{fault.split()[0]}")
    assert loss == pytest.approx(numbers[0], rel=1e-6) and of_codes == pytest.approx(numbers[1:], rel=1e-2)


def test_a_worker_says_which_products_it_makes(service, core):
    blas = products(service)
    assert blas["verdict"] == "passed" and blas["core"] == core
    assert blas["reason"] is None and blas["library"].startswith("OpenBLAS")
    assert f"core {core}: " in service.log.read_text()
