"""Exports of runs whose worker is killed, or whose files may not grow: whole and once, or nothing."""

import os
import resource
import signal
import subprocess
import time

from faults import body_of, kill, prepare, finished, started, submit, submit_held, wait_for_none_left, workers_of
from service import BINARY


def body():
    """Of the exports the one that ends in most places: artifacts, a directory, a checkpoint."""
    asked = body_of("quantize")
    asked["params"]["export"] = "dequantized"
    return asked


def files_of(service, document):
    items = service.get(f"/v1/runs/{document['id']}/artifacts").json["items"]
    return {item["name"]: item["sha256"] for item in items}


def test_an_export_survives_its_worker(own):
    prepare(own)
    run = submit_held(own, body())
    (worker,) = workers_of(own)
    kill(worker)
    own.gate.open()
    killed = finished(own, run)
    assert (killed["state"], killed["attempt"]) == ("succeeded", 1), killed["error"]
    wait_for_none_left(own)
    undisturbed = finished(own, submit(own, body()))
    assert files_of(own, killed) == files_of(own, undisturbed) and len(files_of(own, killed)) >= 3
    assert killed["result"]["loss_q"] == undisturbed["result"]["loss_q"]
    made = own.get("/v1/checkpoints?trajectory=whole-quantized").json["items"]
    assert sorted(c["id"] for c in made) == sorted(d["result"]["export"]["checkpoint"] for d in (killed, undisturbed))


def test_an_export_that_may_not_grow_leaves_nothing(own):
    prepare(own)
    (worker,) = workers_of(own)
    soft, hard = resource.prlimit(worker, resource.RLIMIT_FSIZE)
    resource.prlimit(worker, resource.RLIMIT_FSIZE, (20000, hard))
    document = finished(own, submit(own, body()))
    assert document["state"] == "failed" and document["error"]["code"] == "disk_full", document
    assert str(own.data) not in document["error"]["detail"] and workers_of(own) == [worker]
    wait_for_none_left(own)
    assert own.get("/v1/trajectories/whole-quantized").status == 404 and files_of(own, document) == {}
    resource.prlimit(worker, resource.RLIMIT_FSIZE, (soft, hard))
    assert own.post(f"/v1/runs/{document['id']}/retry").status in (200, 202)
    assert finished(own, document["id"])["result"]["export"]["checkpoint"]


# Holds whoever removes a file of an export, until the test says so.
SHIM = """
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int unlink(const char *path)
{
    char place[4096];
    if (strstr(path, "/export") != NULL) {
        snprintf(place, sizeof place, "%s/reached", getenv("SHIM"));
        close(open(place, O_CREAT | O_WRONLY, 0600));
        snprintf(place, sizeof place, "%s/go", getenv("SHIM"));
        while (access(place, F_OK) != 0) usleep(10000);
    }
    return ((int (*)(const char *))dlsym(RTLD_NEXT, "unlink"))(path);
}
"""


def until(what, holds, limit=120):
    end = time.monotonic() + limit
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def test_an_attempt_that_lost_its_run_leaves_the_next_ones_files_alone(tmp_path):
    """The first worker stands still where it has published an export and will remove its files. Its lease ends, another
    worker takes the run up, and the first one goes on."""
    (tmp_path / "shim.c").write_text(SHIM)
    subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", tmp_path / "shim.so", tmp_path / "shim.c", "-ldl"],
                   check=True)
    reached, go = tmp_path / "reached", tmp_path / "go"
    own = started(tmp_path / "service", environment={"LD_PRELOAD": str(tmp_path / "shim.so"), "SHIM": str(tmp_path)})
    second = None
    try:
        prepare(own)
        asked = body_of("quantize")
        asked["params"]["method"]["bits"], asked["params"]["export"] = 4, "compressed-tensors"
        run = submit(own, asked)
        until("the first worker has published its export", reached.exists)
        (first,) = workers_of(own)
        os.kill(first, signal.SIGSTOP)
        own.gate.hold("quantize", 2, "block", lease=2)
        own.sql("update runs set lease_until = clock_timestamp() - interval '1 hour' where state = 'running'")
        command = [BINARY, "worker", "--data-dir", own.data, "--root", own.files, "--threads", "1"]
        environment = {key: value for key, value in own.environment.items() if key != "LD_PRELOAD"}
        with open(tmp_path / "second", "wb") as log:
            second = subprocess.Popen(command, stderr=log, env=environment)
        own.gate.wait(run, lease=2)
        go.touch()
        os.kill(first, signal.SIGCONT)
        until("the first worker knows", lambda: "lease lost" in own.log.read_text())
        own.gate.open()
        taken_up = finished(own, run)
        assert (taken_up["state"], taken_up["attempt"]) == ("succeeded", 1), taken_up["error"]
        undisturbed = finished(own, submit(own, asked))
        assert files_of(own, taken_up) == files_of(own, undisturbed)
        wait_for_none_left(own)
    finally:
        go.touch()
        if second is not None:
            second.terminate()
            assert second.wait(30) == 0
        assert own.stop() == 0
