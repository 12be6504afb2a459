"""What check-gpu and bench-gpu stand on, as far as a machine without a GPU has it: the probe reads the plugin's struct
rightly, the runtime that the plugin's tests put in CUDA's place declares what CUDA's own header declares, and the
engine compiles without the libraries that such a machine may lack."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import check
import machine
import pytest

HERE = pathlib.Path(__file__).resolve().parent
EMULATED = HERE.parents[1] / "build/emulated/libdeltaq-cuda.so"
TOOLKIT = HERE.parent / "unit/engine/backend/cuda/toolkit"


def probe(plugin):
    done = subprocess.run([sys.executable, "-c", "import machine; print(machine.probe())"], cwd=HERE, text=True,
                          capture_output=True, env={**os.environ, "DELTAQ_CUDA_PLUGIN": str(plugin)})
    return done.returncode, done.stdout.strip()


def test_the_probe_asks_a_plugin_for_its_device():
    if not EMULATED.exists():
        pytest.skip("build/emulated/libdeltaq-cuda.so is not built (make emulated-plugin)")
    assert probe(EMULATED) == (0, "('2 emulated devices: emulated device', None)")


def test_the_probe_says_why_there_is_no_device():
    built = HERE.parents[1] / "build/libdeltaq-cuda.so"
    if not built.exists():
        pytest.skip("build/libdeltaq-cuda.so is not built: there is no nvcc here")
    code, said = probe(built)
    assert code == 0
    if os.path.exists("/proc/driver/nvidia/version"):
        pytest.skip("there is a GPU here: check-gpu says more")
    assert said == "(None, 'no NVIDIA driver here (libcuda.so.1)')"


def test_a_sanitizer_that_cannot_look_is_no_failure():
    passed = "[  PASSED  ] 3 test(s).\n"
    refused = ("========= COMPUTE-SANITIZER\n"
               "========= Error: Target application terminated before first instrumented call\n")
    assert check.verdict(0, passed) == (True, 3) and check.verdict(1, passed) == (False, 3)
    assert check.verdict(0, "") == (False, 0)
    assert check.sanitized_verdict(0, passed + "========= ERROR SUMMARY: 0 errors\n") == "ok"
    assert check.sanitized_verdict(9, passed + "========= ERROR SUMMARY: 1 error\n") == "FAILED"
    assert check.sanitized_verdict(9, passed + "========= RACECHECK SUMMARY: 2 hazards displayed\n") == "FAILED"
    assert check.sanitized_verdict(1, refused) == check.sanitized_verdict(check.STOPPED, passed) == "skipped"


def test_the_stand_in_declares_what_the_toolkit_declares():
    found = machine.nvcc()
    include = pathlib.Path(os.path.realpath(found)).parents[1] / "include" if found else None
    header = next((path for path in (include, pathlib.Path("/usr/include"))
                   if path and (path / "cuda_runtime_api.h").exists()), None)
    if header is None:
        pytest.skip("no cuda_runtime_api.h here: the CUDA toolkit is not installed")
    done = subprocess.run([shutil.which("cc") or "gcc", "-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
                           "-isystem", str(header), str(TOOLKIT / "agrees.c")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("library", sorted(path.name for path in (HERE / "absent").iterdir() if path.name != "cmocka"))
def test_the_engine_compiles_without(library):
    engine, absent = HERE.parents[1] / "engine", HERE / "absent" / library
    users = [path for path in sorted(engine.rglob("*.c")) if re.search(rf"#include <{library}\.h>", path.read_text())]
    assert users
    done = subprocess.run([shutil.which("cc") or "gcc", "-std=c11", "-D_GNU_SOURCE", f"-I{engine}", "-isystem", absent,
                           "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *users], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_table_of_products_is_made_on_the_emulation(tmp_path):
    """All kinds of all shapes, made right; the rates mean nothing."""
    program = HERE.parents[1] / "build/release/tests/bench/bench_products"
    if not program.exists() or not EMULATED.exists():
        pytest.skip("bench_products or the emulated plugin is not built (make builds)")
    script = ("import bench, machine; bench.PROGRAMS = 'build/release/tests/bench/bench_'; "
              "raise SystemExit(bench.products(tiny=True))")
    done = subprocess.run([sys.executable, "-c", script], cwd=HERE, text=True, capture_output=True,
                          env={**os.environ, "DELTAQ_CUDA_PLUGIN": str(EMULATED)})
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert "64 measured, 0 wrong" in done.stdout and "WRONG" not in done.stdout
    assert len([row for row in rows if row.startswith(("| 7B", "| 160M", "| Hessian", "| errors", "| a square"))]) == 15
