"""A whole worker under valgrind's memcheck: runs on a tiny model, from the lease to the result. Sanitizers see only
what was compiled with them; this sees the libraries too, and what they are given."""

import shutil
import subprocess

import models
import pytest
from service import BINARY, Service

pytestmark = pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
RUNS = [{"name": "rtn", "bits": 4, "group_size": 16}, {"name": "gptq", "bits": 3, "group_size": 16},
        {"name": "awq", "bits": 4, "group_size": 16}]


def test_a_worker_makes_no_error_of_memory(tmp_path):
    service = Service(tmp_path, "--workers", "0", environment={"HF_ENDPOINT": "http://127.0.0.1:9"})
    try:
        service.checkpoint(models.write_llama(service.files / "model"), "t", "c0")
        service.sequences("rows", models.rows(2, 16))
        found = tmp_path / "memcheck"
        worker = subprocess.Popen(
            ["valgrind", "--quiet", f"--log-file={found}", "--error-exitcode=99", "--leak-check=full",
             "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite", BINARY, "worker", "--data-dir",
             service.data, "--root", service.files, "--threads", "1", "--device", "cpu", "--idle-exit", "20"],
            stderr=subprocess.PIPE, text=True)
        runs = [service.post("/v1/runs", {"kind": "quantize", "params": {
            "checkpoint": "t/c0", "method": method, "evaluation": {"dataset": "rows"},
            **({"calibration": {"dataset": "rows"}} if method["name"] != "rtn" else {})}}) for method in RUNS]
        assert [run.status for run in runs] == [202] * len(RUNS), [run.body for run in runs]
        ended = [service.wait(run.json["id"]) for run in runs]
        said = worker.communicate(timeout=600)[1]
        assert [run["state"] for run in ended] == ["succeeded"] * len(RUNS), (ended, found.read_text(), said)
        assert worker.returncode == 0 and not found.read_text(), found.read_text() + said
    finally:
        assert service.stop() == 0
