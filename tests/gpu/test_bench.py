"""What bench-gpu and profile-gpu do around their programs, over the emulated device: the rates mean nothing."""

import json
import os
import pathlib
import subprocess
import sys

import bench
import profile_kernels
import pytest

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build"
EMULATED = BUILD / "emulated/libdeltaq-cuda.so"
CSV = HERE / "ncu.csv"
PEER = """
import json, sys, time
for _ in range(int(sys.argv[sys.argv.index("--runs") + 1])):
    print(json.dumps({"seconds": 0.5, "bf16_tflops": 2.0, "f32_tflops": 1.0, "what": "stand-in"}), flush=True)
    time.sleep(60 if sys.argv[1] == "hvp" else 0)
if sys.argv[1] == "train":
    sys.exit("no memory for the stand-in")
"""
SCRIPT = """
import pathlib, sys, bench, machine
place = pathlib.Path(sys.argv.pop(1))
bench.PROGRAMS = "build/release/tests/bench/bench_"
bench.MODELS, bench.RESULTS, bench.PEER = place / "models", place / "bench.json", str(place / "peer.py")
bench.build = lambda what: None
bench.python_device = lambda tried_without: ("cpu", None)
import {program}
raise SystemExit({program}.main())
"""


def start(program, place, *arguments, **environment):
    if not EMULATED.exists() or not (BUILD / "release/tests/bench/bench_train").exists():
        pytest.skip("the bench programs or the emulated plugin are not built (make builds)")
    (place / "peer.py").write_text(PEER)
    return subprocess.Popen([sys.executable, "-c", SCRIPT.format(program=program), str(place), "--tiny", *arguments],
                            cwd=HERE, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            env={**os.environ, "DELTAQ_CUDA_PLUGIN": str(EMULATED), **environment})


def execute(*arguments, **environment):
    """(exit status, what it printed)"""
    process = start(*arguments, **environment)
    printed = process.communicate()[0]
    return process.returncode, printed


def cells(output, name):
    found = [line for line in output.splitlines() if line.startswith(f"| {name} |")]
    assert len(found) == 1, output
    return [part.strip() for part in found[0].split("|")[1:-1]]


def test_rows_run_and_are_kept(tmp_path):
    code, printed = execute("bench", tmp_path, "--rows", "evaluate|GPTQ", "--runs", "2", "--calibration", "3",
                            "--evaluated", "1")
    assert code == 0 and "bench-gpu: 2 rows ran, 0 failed" in printed, printed
    assert printed.count("    deltaq  ") == 5 and printed.count("(not counted)") == 1
    assert printed.count("    PyTorch 0.500 s") == 4
    assert cells(printed, "GPTQ + ΔQL tiny")[1] == "192 + 64" and "TFLOP/s = " in printed
    evaluated, quantized = json.loads((tmp_path / "bench.json").read_text())["rows"]
    assert len(evaluated["ours"]["lines"]) == 3 and len(quantized["ours"]["lines"]) == 2
    counted = sorted(run["seconds"] for run in evaluated["ours"]["lines"][1:])
    assert counted[0] <= evaluated["ours"]["seconds"] <= counted[1]
    assert evaluated["ours"]["ended"] is None and quantized["ours"]["gflops"] > 0
    assert quantized["ours"]["environment"]["DELTAQ_CUDA_MEMORY"] == "64" and quantized["peer"]["seconds"] == 0.5


def test_a_program_that_is_late_leaves_what_it_measured():
    shown = []
    found, ended = bench.measured(["sh", "-c", """echo '{"seconds": 1}'; exec sleep 60"""], {}, 1.5,
                                  lambda lines: shown.append(len(lines)))
    assert (found, ended, shown) == ([{"seconds": 1}], "stopped after 1.5 s", [1])
    assert bench.cell({"seconds": 1, "ended": ended}) == "1.000 (stopped after 1.5 s)"
    assert bench.cell({"ended": ended}) == "(stopped after 1.5 s)"


def test_a_program_that_fails_leaves_what_it_measured(tmp_path):
    code, printed = execute("bench", tmp_path, "--rows", "train", "--runs", "2")
    assert code == 1 and "bench-gpu: 1 rows ran, 1 failed" in printed, printed
    assert cells(printed, "train tiny")[4] == "0.500 (no memory for the stand-in)"
    failed, = json.loads((tmp_path / "bench.json").read_text())["rows"]
    assert failed["ours"]["ended"] is None and failed["peer"]["ended"] == "no memory for the stand-in"


def test_a_stop_from_outside_loses_nothing(tmp_path):
    process = start("bench", tmp_path, "--rows", "HVP|train", "--runs", "2")
    for text in process.stdout:
        if text.startswith("    PyTorch 0.500 s"):
            break
    process.terminate()
    printed = process.communicate()[0]
    assert process.returncode == 1 and "bench-gpu: 1 rows ran, 1 failed" in printed, printed
    stopped, = json.loads((tmp_path / "bench.json").read_text())["rows"]
    assert len(stopped["ours"]["lines"]) == 2 and len(stopped["peer"]["lines"]) == 1
    assert stopped["peer"]["ended"] == "stopped from outside"


def test_kernels_are_summed_the_longest_first():
    rows = profile_kernels.kernels(CSV.read_text())
    assert [row[1] for row in rows] == [2] * 6
    assert [row[0] for row in rows][0] == "device_cross_entropy_forward" and rows[4][0] == "device_gather"
    assert rows[5][0] == "cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x64_16x6_tn_align4>"
    assert rows[4][2:] == (pytest.approx(29.984e-6), 19444992 + 6172672)
    printed = profile_kernels.table(rows).splitlines()
    assert printed[6] == "| device_gather | 2 | 0.030 | 6.2 % | 15.0 | 854 |"
    assert printed[-1].startswith("| all | 12 | 0.482 |") and len(printed) == 9


def test_a_program_is_profiled(tmp_path):
    """By a program in ncu's place, which runs what it is given and prints a table of another one."""
    ncu = tmp_path / "ncu"
    ncu.write_text(f'#!/bin/sh\necho "$@"\nwhile [ "${{1#build/}}" = "$1" ]; do shift; done\n"$@" && cat {CSV}\n')
    ncu.chmod(0o755)
    code, printed = execute("profile_kernels", tmp_path, "--launch-count", "7", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert code == 0 and "| device_gather | 2 |" in printed, printed
    assert "--launch-count 7" in printed and "bench_evaluate" in printed
    ncu.write_text("#!/bin/sh\necho '==ERROR== no permission to measure'\n")
    code, printed = execute("profile_kernels", tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert code == 1 and "no permission to measure" in printed


def test_without_ncu_nothing_is_profiled(tmp_path):
    if os.path.exists(profile_kernels.PLACE):
        pytest.skip("ncu is here")
    code, printed = execute("profile_kernels", tmp_path, PATH=str(tmp_path))
    assert code == 2 and "no ncu" in printed
