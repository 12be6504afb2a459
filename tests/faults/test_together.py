"""Runs of a sweep that one worker takes together: each has the numbers it has alone, and ends, fails, is cancelled and
is tried again by itself, whatever becomes of the others."""

import subprocess
import time

import models
from faults import kill, finished, started, wait_for_none_left, workers_of
from test_kills import comparable, events

METHODS = [{"name": "gptq", "bits": 3, "group_size": 32}, {"name": "gptq", "bits": 4, "group_size": 32},
           {"name": "awq", "bits": 4, "group_size": 32}]
TOGETHER = "one forward pass serves all"


def prepare(service, **shape):
    service.checkpoint(models.write_llama(service.files / "large", **shape), "large", "step1", step=1, tokens=64)
    service.sequences("evaluation", models.rows(8, 64))
    service.sequences("calibration", models.rows(8, 64, seed=2))


def sweep(service, name, methods):
    """All of them are in the queue at once. Their ids by method."""
    base = {"checkpoint": "large/step1", "evaluation": {"dataset": "evaluation", "sequence_length": None},
            "calibration": {"dataset": "calibration", "sequence_length": None}}
    answer = service.post("/v1/sweeps", {"name": name, "kind": "quantize", "base": base, "grid": {"method": methods}})
    assert answer.status == 202, answer.body
    items = service.get(f"/v1/runs?sweep={name}").json["items"]
    found = [next(r["id"] for r in items if all(r["params"]["method"].get(k) == v for k, v in m.items()))
             for m in methods]
    assert len(set(found)) == len(methods)
    return found


def alone(service, run):
    """The same work once more, by itself."""
    body = {"kind": "quantize", "params": service.get(f"/v1/runs/{run}").json["params"], "force": True}
    answer = service.post("/v1/runs", body)
    assert answer.status == 202, answer.body
    return finished(service, answer.json["id"])


def lines(service, run):
    return service.get(f"/v1/runs/{run}/events").body.decode()


def test_runs_taken_together_have_the_numbers_they_have_alone_and_fail_alone(own):
    prepare(own, hidden_size=64, intermediate_size=128)
    *runs, refused = sweep(own, "together",
                           [*METHODS, {"name": "rtn", "bits": 4, "group_size": 32, "keep_outliers": 400}])
    documents = [finished(own, run) for run in runs]
    assert [d["state"] for d in documents] == ["succeeded"] * 3, [d["error"] for d in documents]
    failed = finished(own, refused)
    assert failed["state"] == "failed" and "keep" in failed["error"]["detail"], failed
    for run, document in zip(runs, documents):
        assert TOGETHER in lines(own, run)
        assert events(own, run) == ["queued", "running", "succeeded"], lines(own, run)
    again = alone(own, runs[1])
    assert TOGETHER not in lines(own, again["id"])
    assert comparable(again) == comparable(documents[1])
    assert len({d["result"]["delta"] for d in documents}) == 3
    wait_for_none_left(own)


def wait_for_any(service, runs, limit=300):
    """Until one of them is held, and with it all that their worker took together."""
    end = time.monotonic() + limit
    while all(service.gate.reported(run) is None for run in runs):
        assert time.monotonic() < end, "none was ever held"
        time.sleep(0.02)


def all_run(service, runs):
    return [service.get(f"/v1/runs/{run}").json["state"] for run in runs] == ["running"] * len(runs)


def test_all_survive_their_worker_and_one_is_cancelled(own):
    prepare(own, num_hidden_layers=4)
    own.gate.hold("quantize", 2, "block")
    runs = sweep(own, "killed", METHODS)
    wait_for_any(own, runs)
    assert all_run(own, runs)
    own.gate.hold(runs[2], 2, "block", lease=2, also=True)
    (worker,) = workers_of(own)
    kill(worker)
    own.held(runs[2], lease=2)
    assert all_run(own, runs)
    assert own.post(f"/v1/runs/{runs[2]}/cancel").status == 202  # which alone ends its being held
    assert finished(own, runs[2])["state"] == "cancelled"
    documents = [finished(own, run) for run in runs[:2]]
    own.gate.open()
    for run, document in zip(runs, documents):
        assert document["state"] == "succeeded" and document["attempt"] == 1, document
        assert events(own, run) == ["queued", "running", "queued", "running", "succeeded"]
        assert lines(own, run).count(TOGETHER) >= 1
    assert comparable(alone(own, runs[0])) == comparable(documents[0])
    assert own.get(f"/v1/runs/{runs[2]}").json["state"] == "cancelled"
    wait_for_none_left(own)


# Whoever removes what a run has left stands still until the test says so.
SHIM = """
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int unlinkat(int directory, const char *name, int flags)
{
    char place[4096], link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    const ssize_t length = readlink(link, place, sizeof place - 1);
    place[length > 0 ? length : 0] = 0;
    if (strstr(place, "/gone-") != NULL || strstr(name, "gone-") != NULL) {
        snprintf(place, sizeof place, "%s/go", getenv("SHIM"));
        while (access(place, F_OK) != 0) usleep(10000);
    }
    return ((int (*)(int, const char *, int))dlsym(RTLD_NEXT, "unlinkat"))(directory, name, flags);
}
"""


def test_the_files_of_one_that_has_ended_are_removed_when_all_have(tmp_path):
    """Removing them may take longer than a lease, and whoever removes them renews none."""
    (tmp_path / "shim.c").write_text(SHIM)
    subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", tmp_path / "shim.so", tmp_path / "shim.c", "-ldl"],
                   check=True)
    own = started(tmp_path / "service", environment={"LD_PRELOAD": str(tmp_path / "shim.so"), "SHIM": str(tmp_path)})
    try:
        prepare(own, hidden_size=64, intermediate_size=128)
        *runs, refused = sweep(own, "removed",
                               [*METHODS, {"name": "rtn", "bits": 4, "group_size": 32, "keep_outliers": 400}])
        assert finished(own, refused)["state"] == "failed"
        documents = [finished(own, run, limit=60) for run in runs]
        assert [(d["state"], d["attempt"]) for d in documents] == [("succeeded", 0)] * 3
        assert all(TOGETHER in lines(own, run) for run in runs)
        (tmp_path / "go").touch()
        wait_for_none_left(own)
    finally:
        (tmp_path / "go").touch()
        assert own.stop() == 0
