"""Requests made up from openapi.yaml by schemathesis, where that is installed (pip install schemathesis): no server error, no answer
that is not declared, nothing accepted that the schemas forbid. `discover` is left out: without the hub it is a 503, rightly."""

import importlib.util
import os
import subprocess
import sys

import pytest
from service import ROOT

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,negative_data_rejection"


@pytest.mark.skipif(not importlib.util.find_spec("schemathesis"), reason="schemathesis is not installed")
def test_generated_requests(service, tmp_path):
    command = [sys.executable, "-m", "schemathesis.cli", "run", ROOT / "openapi.yaml", "--url", service.url, "--checks", CHECKS,
               "--max-examples", os.environ.get("DELTAQ_EXAMPLES", "20"), "--continue-on-failure",
               "--request-timeout", "70",  # ?wait= holds an answer for up to a minute
               "--exclude-path-regex", "events|metrics|discover"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=900)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
