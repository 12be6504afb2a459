"""Requests made up from openapi.yaml by schemathesis, over all operations and with all its checks: no server error, no answer that is
not declared, nothing accepted that the schemas forbid, nothing refused that they allow (generated_hooks.py has the exceptions, each with
its reason), nothing found after it was deleted. DELTAQ_EXAMPLES: how many a phase and operation; from 100 on also the phase `coverage`,
which tries every bound of every schema and takes minutes."""

import os
import pathlib
import subprocess
import sys

import models
import pytest
from hub_stand_in import StandIn
from service import BINARY, ROOT, Service

SEED = "20261122"
REPOSITORY = "EleutherAI/pythia-160m"
POSITIONS = 4096  # the examples' sequences have 2048


@pytest.fixture
def own(tmp_path):
    """A server of its own, for the requests delete what they find, with all that openapi.yaml's examples name."""
    if not BINARY.exists():
        pytest.skip("build/deltaq is not built")
    hub = StandIn()
    service = Service(tmp_path, "--threads", "1", environment={"HF_ENDPOINT": hub.url})
    for i in range(8):
        place = models.write_llama(service.files / "models" / "pythia-160m" / f"step{136 + i}000", i, max_position_embeddings=POSITIONS)
        hub.add(REPOSITORY, f"step{136 + i}000", {p.name: p.read_bytes() for p in place.iterdir()})
        service.checkpoint(place, "pythia-160m", place.name, step=(136 + i) * 1000)
    for trajectory, names in (("seed-1", ("step1000", "step2000", "last")), ("seed-2", ("last",))):
        for i, name in enumerate(names):
            service.checkpoint(service.files / "models" / "pythia-160m" / f"step{136 + i}000", trajectory, name, step=i)
    models.write_llama(service.files / "models" / "pythia-160m", max_position_embeddings=POSITIONS)  # the tokenizer beside them
    (service.files / "models" / "pythia-160m" / "config.json").unlink()
    (service.files / "models" / "pythia-160m" / "model.safetensors").unlink()
    (service.files / "data").mkdir()
    for name in ("wikitext2", "c4"):
        text = service.files / "data" / f"{name}.txt"
        text.write_text(f"{name}: " + "the quick brown fox jumps over the lazy dog. " * 200)
        assert service.post("/v1/datasets", {"name": name, "path": str(text), "format": "text"}).status == 201
    yield service
    assert service.stop() == 0
    hub.close()


def test_generated_requests(own, tmp_path):
    schema = tmp_path / "openapi.yaml"
    text = (ROOT / "openapi.yaml").read_text()
    for folder in ("models", "data"):  # the examples name absolute paths; here they lie below the server's root
        text = text.replace(f": /{folder}/", f": {own.files}/{folder}/")
    schema.write_text(text)
    examples = os.environ.get("DELTAQ_EXAMPLES", "2")
    phases = "examples,coverage,fuzzing,stateful" if int(examples) >= 100 else "examples,fuzzing,stateful"
    command = [sys.executable, "-m", "schemathesis.cli", "run", schema, "--url", own.url, "--checks", "all", "--phases", phases,
               "--max-examples", examples, "--continue-on-failure", "--no-color", "--seed", SEED, "--generation-database", "none",
               "--generation-allow-x00", "false",  # no text holds U+0000: openapi.yaml says so once, not in every schema
               "--suppress-health-check", "all",  # those watch the machine's speed
               "--request-timeout", "70"]
    hooks = pathlib.Path(__file__).with_name("generated_hooks.py")
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "SCHEMATHESIS_HOOKS": str(hooks)}, timeout=3000)
    assert done.returncode == 0 and "40 selected / 40 total" in done.stdout, done.stdout[-20000:] + done.stderr[-2000:]
