"""examples/: the client as a notebook uses it, and the notebook itself, run from its beginning."""

import base64
import http.server
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import threading

import models
import pytest
from service import ROOT

PACKAGES = pathlib.Path(os.environ.get("DELTAQ_TRACKERS", ROOT / "build" / "trackers"))


@pytest.fixture(scope="module")
def module():
    pytest.importorskip("requests")
    spec = importlib.util.spec_from_file_location("deltaq_example", ROOT / "examples" / "deltaq.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def client(service, module):
    client = module.Deltaq(service.url)
    for i in range(2):
        client.checkpoint(models.write_llama(service.files / "client" / str(i), seed=800 + i), "client", f"step{i}",
                          step=i, tokens=10 * i)
    client.dataset("client", sequences=models.rows(4, 32))
    return client


def method(**bits):
    return {"method": {"name": "rtn", "group_size": 32, **bits},
            "evaluation": {"dataset": "client", "sequence_length": None}}


def test_a_run_is_waited_for_and_names_are_enough(service, client):
    run = client.run("quantize", checkpoint="client/step1", **method(bits=4)).wait()
    assert run["state"] == "succeeded" and run["result"] == service.get(f"/v1/runs/{run['id']}").json["result"]
    assert run["id"] in [other["id"] for other in client.runs(trajectory="client")]


def test_a_sweep_and_the_tables_that_it_fills(service, client):
    sweep = client.sweep("quantize", method(), {"checkpoint": {"trajectory": "client"},
                                                "method.bits": [2, 3]}, name="client").wait(120)
    assert sweep["runs"]["succeeded"] == sweep["runs"]["total"] >= 4
    rows = client.measurements("client", method="rtn", bits=3)
    assert ([row["checkpoint_name"] for row in rows] == ["step0", "step1"]
            and all(row["delta"] is not None for row in rows))
    points = client.curve("client", metric="delta", bits=3)
    assert [point["y"] for point in points] == [row["delta"] for row in rows]
    assert len(client.all("/v1/checkpoints", trajectory="client", limit=1)) == 2  # page after page


def test_problems_say_which_field(client, module):
    with pytest.raises(module.Problem) as refused:
        client.run("quantize", checkpoint="client/step1", **method(bits=7))
    assert (refused.value.status == 422 and refused.value.pointers == ["/params/method/bits"]
            and "/params/method/bits: " in str(refused.value))


def test_neither_a_proxy_nor_netrc_comes_between(module, monkeypatch, tmp_path):
    """No proxy reaches this machine's loopback, and what ~/.netrc has of the host is not sent in place of the token."""
    class Echo(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            text = json.dumps({"sent": self.headers.get("Authorization")}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password something\n")
    for name, value in (("http_proxy", "http://127.0.0.1:9"), ("HTTP_PROXY", "http://127.0.0.1:9"), ("no_proxy", ""),
                        ("NO_PROXY", ""), ("NETRC", str(tmp_path / "netrc"))):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("DELTAQ_TOKEN", raising=False)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert module.Deltaq(url, "secret").get("/") == {"sent": "Bearer secret"}
        assert module.Deltaq(url).get("/") == {"sent": None}
        server.shutdown()


def test_a_run_that_fails_is_raised_with_its_reason(service, client, module):
    path = models.write_llama(service.files / "client-gone", seed=890)
    client.checkpoint(path, "client-gone", "one", step=1)
    for file in path.glob("*.safetensors"):
        file.unlink()
    with pytest.raises(module.Failed) as failed:
        client.run("evaluate", checkpoint="client-gone/one", dataset="client", sequence_length=None).wait()
    assert failed.value.run["error"]["detail"] in str(failed.value)


def sources(notebook):
    return ["".join(cell["source"]) for cell in notebook["cells"]]


@pytest.mark.skipif(not (PACKAGES / "bin" / "jupyter-execute").exists(),
                    reason="build/trackers is not there: make trackers")
def test_the_notebook_runs_and_ends_in_a_figure(service, tmp_path):
    for name in ("decay.ipynb", "deltaq.py"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    root = service.files / "notebook"
    root.mkdir()
    shutil.copytree(ROOT / "docs", root / "docs")
    shutil.copy(ROOT / "README.md", root)
    environment = {**os.environ, "DELTAQ_URL": service.url, "DELTAQ_EXAMPLE_ROOT": str(root)}
    done = subprocess.run([PACKAGES / "bin" / "python", ROOT / "tests" / "trackers" / "run_notebook.py",
                           tmp_path / "decay.ipynb", tmp_path / "out.ipynb"],
                          capture_output=True, text=True, timeout=580, env=environment)
    assert done.returncode == 0, done.stderr
    made, kept = (json.loads(path.read_text()) for path in (tmp_path / "out.ipynb", ROOT / "examples" / "decay.ipynb"))
    assert sources(made) == sources(kept)
    for notebook in (made, kept):  # the one that is kept was run too
        picture = base64.b64decode(notebook["cells"][-1]["outputs"][-1]["data"]["image/png"])
        assert picture.startswith(b"\x89PNG") and len(picture) > 10000
        assert "'succeeded': 16" in "".join(notebook["cells"][5]["outputs"][0]["text"])
