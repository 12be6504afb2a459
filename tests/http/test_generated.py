"""Requests made up from openapi.yaml by schemathesis, over all operations and with all its checks: no server error, no
answer that is not declared, nothing accepted that the schemas forbid, nothing refused that they allow
(generated_hooks.py has the exceptions, each with its reason). DELTAQ_EXAMPLES: how many for each operation, 40 make
some 2,200 requests; from 100 on also the phase `coverage`: every bound of every schema, minutes."""

import os
import pathlib
import subprocess
import sys

import models
import pytest
from contract import OPENAPI, ROOT
from hub_stand_in import StandIn
from service import BINARY, Service

SEED = "20261122"
REPOSITORY = "EleutherAI/pythia-160m"
POSITIONS = 4096  # the examples' sequences have 2048
SENTENCE = "the quick brown fox jumps over the lazy dog. "


def lay_out(service, hub):
    """All that openapi.yaml's examples name: models, trajectories, data sets, a repository of the hub."""
    top = service.files / "models" / "pythia-160m"
    for i in range(8):
        place = models.write_llama(top / f"step{136 + i}000", i, max_position_embeddings=POSITIONS)
        hub.add(REPOSITORY, place.name, {p.name: p.read_bytes() for p in place.iterdir()})
        service.checkpoint(place, "pythia-160m", place.name, step=(136 + i) * 1000)
    (top / "tokenizer.json").write_bytes((top / "step136000" / "tokenizer.json").read_bytes())
    for trajectory, names in (("seed-1", ("step1000", "step2000", "last")), ("seed-2", ("last",))):
        for i, name in enumerate(names):
            service.checkpoint(top / f"step{136 + i}000", trajectory, name, step=i)
    (service.files / "data").mkdir()
    for name in ("wikitext2", "c4"):
        path = service.files / "data" / f"{name}.txt"
        path.write_text(f"{name}: " + SENTENCE * 200)
        assert service.post("/v1/datasets", {"name": name, "path": str(path), "format": "text"}).status == 201


@pytest.fixture
def own(tmp_path):
    """A server of its own, for the requests delete what they find."""
    if not BINARY.exists():
        pytest.skip("build/deltaq is not built")
    hub = StandIn()
    service = Service(tmp_path, "--threads", "1", environment={"HF_ENDPOINT": hub.url})
    lay_out(service, hub)
    # requests make tokens: then all need one
    made = service.post("/v1/tokens", {"scope": "admin", "name": "generated"})
    assert made.status == 201
    service.token = made.json["token"]
    yield service
    assert service.stop() == 0
    hub.close()


def test_generated_requests(own, tmp_path):
    schema = tmp_path / "openapi.yaml"
    text = (ROOT / "openapi.yaml").read_text()
    for folder in ("models", "data"):  # the examples name absolute paths; here they lie below the server's root
        text = text.replace(f": /{folder}/", f": {own.files}/{folder}/")
    schema.write_text(text)
    examples = os.environ.get("DELTAQ_EXAMPLES", "1")
    phases = "examples,coverage,fuzzing,stateful" if int(examples) >= 100 else "examples,fuzzing,stateful"
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", schema, "--url", own.url, "--checks", "all",
        "--phases", phases, "--max-examples", examples, "--seed", SEED, "--generation-database", "none",
        "--continue-on-failure", "--no-color",
        "--generation-allow-x00", "false",  # no text holds U+0000: openapi.yaml says so once, not in every schema
        "--header", f"Authorization: Bearer {own.token}",
        "--suppress-health-check", "all",  # those watch the machine's speed
        "--request-timeout", "70", "--max-response-time", "70",  # by itself it finds fault with 10 s, as load may take
    ]
    hooks = pathlib.Path(__file__).with_name("generated_hooks.py")
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": str(hooks)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=6000)
    told = done.stdout[-20000:] + done.stderr[-2000:]
    count = sum(method in ("get", "post", "patch", "delete") for path in OPENAPI["paths"].values() for method in path)
    assert done.returncode == 0 and f"{count} selected / {count} total" in done.stdout, told
