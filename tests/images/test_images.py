"""The image of the Dockerfile: its documented first command, work through its port, an orderly end, a second start."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import oci
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def healthy(container):
    kind, command = container.health
    assert kind == "CMD-SHELL"
    return container.execute("sh", "-c", command).returncode == 0


def started(image, network, tmp_path, data, **more):
    """`docker run -d -p 8642:8642 -v deltaq:/data deltaq`, once its health check says healthy."""
    container = oci.Container(image, network, tmp_path / "log", mounts={"/data": data, **more})
    container.health = image.config["Healthcheck"]["Test"]
    try:
        container.wait_for(lambda: healthy(container), "healthy")
    except BaseException:
        container.__exit__()
        raise
    return container


def test_the_base_is_pinned_and_nothing_stands_on_another():
    text = (ROOT / "Dockerfile").read_text()
    (base,) = re.findall(r"^ARG BASE=(.*)$", text, re.M)
    assert re.fullmatch(r"debian:[a-z]+-\d{8}-slim@sha256:[0-9a-f]{64}", base)
    stages = re.findall(r"^FROM (\S+) AS (\S+)$", text, re.M)
    assert len(stages) == len(re.findall(r"^FROM ", text, re.M)) and stages[-1][1] == "cpu"
    for place, (base, _) in enumerate(stages):
        assert base == "${BASE}" or base in {name for _, name in stages[:place]}, base


def test_the_image_says_how_it_is_run(image):
    config = image.config
    assert config["User"] == "10001:10001" and config["StopSignal"] == "SIGTERM"
    assert list(config["Volumes"]) == ["/data"] and list(config["ExposedPorts"]) == ["8642/tcp"]
    assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert (config["Entrypoint"], config["Cmd"]) == (["deltaq"], ["serve"])


def test_nothing_of_the_build_or_of_the_host_is_in_it(image):
    root = image.unpacked()
    for name in ("src", "out", "tools", "usr/bin/gcc", "usr/bin/make"):
        assert not (root / name).exists(), name
    assert not list((root / "var/lib/apt/lists").iterdir()) and not list((root / "tmp").iterdir())
    assert not list((root / "var/lib/postgresql").glob("*/main")), "a cluster that nobody uses"
    assert not list((root / "etc/ssl/private").iterdir()), "a private key that all images share"
    assert not [link for link in (root / "etc/ssl/certs").iterdir() if "snakeoil" in os.path.realpath(link)]
    assert (root / "etc/ssl/certs/ca-certificates.crt").stat().st_size > 100_000
    writable = [path for path in root.rglob("*") if not path.is_symlink() and path.lstat().st_uid == 10001]
    assert writable == [root / "data"]
    for file in ("usr/share/deltaq/openapi.yaml", "usr/share/deltaq/static/plotly.js"):
        assert (root / file).exists(), file


def test_the_bill_of_materials_is_whole_and_valid(image):
    root = image.unpacked()
    path = root / "usr/share/deltaq/deltaq.spdx.json"
    document = json.loads(path.read_text())
    listed = subprocess.run(["dpkg-query", f"--admindir={root}/var/lib/dpkg", "-W", "-f", "${Package} ${Version}\n"],
                            capture_output=True, text=True, check=True).stdout.splitlines()
    described = {f"{package['name']} {package['versionInfo']}" for package in document["packages"]}
    assert set(listed) <= described and len(listed) > 80
    bundled = {"plotly.js", *(["swagger-ui"] if (root / "usr/share/deltaq/static/swagger-ui.js").exists() else [])}
    assert {name.split()[0] for name in described - set(listed)} == bundled
    tool = pathlib.Path(sys.executable).parent / "pyspdxtools"
    if not tool.exists():
        pytest.skip("spdx-tools is not installed here: `make check-images` installs it")
    done = subprocess.run([tool, "-i", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_first_command_serves_and_a_second_start_goes_on(image, network, tmp_path):
    data = oci.volume(tmp_path / "volume")
    with started(image, network, tmp_path, data) as container:
        token = container.execute("cat", "/data/first-token").stdout.strip()
        assert token.startswith("dq_") and network.curl("http://127.0.0.1:8642/v1/runs")[0] == 401
        status, page = network.curl(f"http://{oci.ADDRESS}:8642/")
        assert status == 200 and "<html" in page
        assert network.curl(f"http://{oci.ADDRESS}:8642/plotly.js")[0] == 200
        run = oci.settled(network, token, oci.submit(network, token, data))
        assert run["result"]["loss_q"] > 0 and container.stop() == 0, container.output()
    assert not [path for path in data.rglob("postmaster.pid")], "the database was not stopped"
    with started(image, network, tmp_path, data) as container:
        again = network.call(f"/v1/runs/{run['id']}", token)
        assert again["result"] == run["result"]
        assert container.execute("cat", "/data/first-token").stdout.strip() == token
        made = container.execute("deltaq", "token", "create", "--scope", "read")
        assert made.returncode == 0 and made.stdout.startswith("dq_"), made.stderr
        assert container.stop() == 0


def test_other_commands_of_the_image(image, network, tmp_path):
    for arguments, told in ((["version"], "deltaq "), (["doctor"], "ok     database")):
        data = oci.volume(tmp_path / arguments[0])
        with oci.Container(image, network, tmp_path / f"{arguments[0]}.log", *arguments,
                                  mounts={"/data": data}) as container:
            assert container.process.wait(oci.START_SECONDS) == 0, container.output()
            assert told in container.output() and "WRONG" not in container.output()


@pytest.mark.skipif("DELTAQ_LONG" not in os.environ, reason="compiles all twice more: DELTAQ_LONG=1")
def test_two_builds_are_alike(store, image, tmp_path):
    """The same files with the same bytes, whatever the time; layers' own times are the builder's (--timestamp)."""
    sums = []
    for turn in range(2):
        root = store.build(ROOT, "cpu", "bookworm", "--no-cache", "--build-arg",
                           "SOURCE_DATE_EPOCH=1790000000").unpacked()
        sums.append(subprocess.run(["bash", "-c", "find . -type f -print0 | sort -z | xargs -0 sha256sum"], cwd=root,
                                   capture_output=True, text=True, check=True).stdout.splitlines())
    assert set(sums[0]) ^ set(sums[1]) == set()


@pytest.mark.skipif("DELTAQ_CUDA_IMAGE" not in os.environ,
                    reason="fetches CUDA's toolkit, gigabytes: DELTAQ_CUDA_IMAGE=1")
def test_the_image_with_cuda_finds_everything_but_a_driver(store, image, network, tmp_path):
    cuda = store.build(ROOT, "cuda")
    assert "NVIDIA_VISIBLE_DEVICES=all" in cuda.config["Env"] and cuda.config["User"] == "10001:10001"
    root = cuda.unpacked()
    assert (root / "usr/lib/deltaq/libdeltaq-cuda.so").exists() and list((root / "usr/lib").rglob("libcublas.so.*"))
    assert shutil.which("nvcc", path=str(root / "usr/bin")) is None
    with oci.Container(cuda, network, tmp_path / "log", "doctor",
                              mounts={"/data": oci.volume(tmp_path / "data")}) as container:
        assert container.process.wait(oci.START_SECONDS) == 0, container.output()
        assert "no NVIDIA driver here" in container.output()
