"""The acceptance harness that lies beside the project, where there is one ($DELTAQ_SHARED, default ../shared)."""

import os
import pathlib
import subprocess
import sys

import pytest
from service import ROOT, Service

SHARED = pathlib.Path(os.environ.get("DELTAQ_SHARED", ROOT.parent / "shared"))
GROUPS = (r"^(http|tokenizer|ckpt|sharpness/(micro|models)/(llama|gpt_neox)|gptq|rtn|real|"
          r"(micro|models)/(llama|gpt_neox)|formats/(bf16|f16|mixed|sharded_safetensors|safetensors))")


@pytest.mark.skipif(not (SHARED / "accept" / "run.py").exists(), reason=f"no acceptance harness at {SHARED}")
def test_acceptance(tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    service = Service(tmp_path, "--root", str(SHARED.resolve()), "--root", str(scratch))
    try:
        command = [sys.executable, SHARED / "accept" / "run.py", "--url", service.url, "--only", GROUPS,
                   "--scratch", scratch]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    finally:
        service.stop()
    assert done.returncode == 0, ("\n".join(line for line in done.stdout.splitlines() if not line.startswith("pass"))
                                  + done.stderr)
