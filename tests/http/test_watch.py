"""Watched directories and standing sweeps: a trainer's checkpoints are registered
when they are whole, and measured unasked."""

import json
import os
import shutil
import subprocess
import time

import models
import pytest
from service import BINARY, Service


@pytest.fixture(scope="module")
def watching(tmp_path_factory):
    if not BINARY.exists():
        pytest.skip("build/deltaq is not built")
    service = Service(tmp_path_factory.mktemp("watching"), "--threads", "1", "--watch-quiet", "1", "--watch-poll", "1")
    yield service
    assert service.stop() == 0


def until(what, sign):
    """Waits for a sign, with a limit far beyond what it takes."""
    for _ in range(1200):
        found = sign()
        if found:
            return found
        time.sleep(0.1)
    raise TimeoutError(what)


def registered(service, trajectory):
    answer = service.get(f"/v1/checkpoints?trajectory={trajectory}&limit=100")
    return {c["name"]: c for c in answer.json["items"]} if answer.status == 200 else {}


def scan(service, name, top, **more):
    answer = service.post(f"/v1/trajectories/{name}/scan", {"path": str(top), **more})
    assert answer.status == 200, answer.body
    return answer.json


def state(service, name):
    return service.get(f"/v1/trajectories/{name}").json["watch_state"]


def standing(service, trajectory, **more):
    answer = service.post("/v1/sweeps", {"name": f"{trajectory}-standing", "kind": "evaluate", "standing": True,
                                         "base": {"dataset": trajectory, "sequence_length": None},
                                         "grid": {"checkpoint": {"trajectory": trajectory}}, **more})
    assert answer.status == 202, answer.body
    return answer.json


def test_a_trainers_checkpoints_are_registered_and_measured_unasked(watching, name):
    top = watching.files / name
    models.write_llama(top / "checkpoint-100", seed=1)
    os.utime(top / "checkpoint-100" / "model.safetensors", (1, 1))
    watching.sequences(name, models.rows(2, 16))
    scan(watching, name, top, watch=True)
    until("the first one", lambda: registered(watching, name))
    made = standing(watching, name)
    assert made["standing"] and made["runs"]["total"] == 1
    staged = models.write_llama(watching.files / f"{name}-aside", seed=2)
    (staged / "trainer_state.json").write_text(json.dumps({"global_step": 200,
                                                           "log_history": [{"learning_rate": 0.01}]}))
    shutil.move(staged, top / "checkpoint-200")
    models.write_llama(top / "run" / "checkpoint-300", seed=3)
    models.write_llama(top / "tmp-checkpoint-400", seed=4)
    names = {"checkpoint-100": 100, "checkpoint-200": 200, "run-checkpoint-300": 300}
    until("three checkpoints", lambda: len(registered(watching, name)) == 3)
    sweep = until("three runs",
                  lambda: (s := watching.get(f"/v1/sweeps/{made['id']}").json)["runs"]["succeeded"] == 3 and s)
    assert sweep["runs"]["total"] == 3 and sweep["refused"] == []
    assert {c["name"]: c["step"] for c in registered(watching, name).values()} == names
    assert registered(watching, name)["checkpoint-200"]["learning_rate"] == 0.01
    curve = watching.get(f"/v1/curves?trajectory={name}&metric=loss&x=step").json
    assert [point["x"] for point in curve["series"][0]["points"]] == [100, 200, 300]
    os.rename(top / "tmp-checkpoint-400", top / "checkpoint-400")
    until("the renamed one", lambda: "checkpoint-400" in registered(watching, name))
    assert state(watching, name)["mode"] == "inotify"


def test_what_is_not_whole_is_not_registered(watching, name):
    top = watching.files / name
    top.mkdir()
    assert scan(watching, name, top, watch=True) == {"registered": [], "existing": 0, "pending": [], "failed": []}
    whole = models.write_llama(watching.files / f"{name}-aside", seed=1)
    weights = (whole / "model.safetensors").read_bytes()
    (top / "step1").mkdir()
    for file in ("config.json", "tokenizer.json"):
        shutil.copy(whole / file, top / "step1" / file)
    (top / "step1" / "model.safetensors").write_bytes(weights[:-1000])
    failed = until("the look that finds it short", lambda: (state(watching, name) or {"failed": []})["failed"])
    assert failed[0]["path"] == "step1" and registered(watching, name) == {}
    with open(top / "step1" / "model.safetensors", "ab") as file:
        file.write(weights[-1000:])
    until("the whole one", lambda: "step1" in registered(watching, name))
    until("a clean state", lambda: state(watching, name)["failed"] == [])


def test_shards_are_waited_for(watching, name):
    from test_integrity import drift, write

    top = watching.files / name
    path = write(top / "step5", drift(1, 1), shards=3)
    second = (path / "model-00002-of-00003.safetensors").read_bytes()
    (path / "model-00002-of-00003.safetensors").unlink()
    scan(watching, name, top, watch=True)
    until("the look that misses a shard", lambda: (state(watching, name) or {"failed": []})["failed"])
    assert registered(watching, name) == {}
    (path / "model-00002-of-00003.safetensors").write_bytes(second)
    until("all shards", lambda: "step5" in registered(watching, name))


def test_a_scan_with_watch_leaves_what_is_being_written_to_the_watch(watching, name):
    top = watching.files / name
    models.write_llama(top / "step1")
    now = time.time() + 5  # a file that was touched after the scan began
    os.utime(top / "step1" / "config.json", (now - 5, now - 5))
    found = scan(watching, name, top, watch=True)
    assert len(found["pending"]) + len(found["registered"]) == 1
    until("it", lambda: "step1" in registered(watching, name))


def test_the_same_scan_again_leaves_the_watch_s_state(watching, name):
    top = watching.files / name
    models.write_llama(top / "good", seed=1)
    (top / "bad").mkdir()
    (top / "bad" / "config.json").write_text("{")
    (top / "bad" / "model.safetensors").write_bytes(b"no tensors")
    scan(watching, name, top, watch=True)
    before = until("its state", lambda: state(watching, name))
    scan(watching, name, top, watch=True)
    assert state(watching, name) == before


def test_a_name_that_is_too_long_is_said_and_the_longest_is_judged_by_gates(watching, name):
    """Names of directories have characters of several bytes."""
    top, longest = watching.files / name, "学" * 66  # a file's name has at most 255 bytes
    models.write_llama(top / longest / longest / longest, seed=1)
    models.write_llama(top / longest / longest / longest / "more", seed=2)
    models.write_llama(top / "short", seed=3)
    found = scan(watching, name, top)
    assert sorted(item["name"] for item in found["registered"]) == ["short", "-".join([longest] * 3)]
    assert [item["status"] for item in found["failed"]] == ["invalid"] and "205 char" in found["failed"][0]["detail"]
    answer = watching.post("/v1/gates", {"name": name, "trajectory": name, "rules": [{"metric": "delta", "max": 1}]})
    assert answer.status == 201, answer.body
    for item in found["registered"]:
        judged = watching.get(f"/v1/gates/{name}/verdict?checkpoint={item['id']}")
        assert judged.status == 200 and judged.json["checkpoint_name"] == item["name"], judged.body


def test_the_watch_ends_when_told(watching, name):
    top = watching.files / name
    models.write_llama(top / "step1")
    scan(watching, name, top, watch=True)
    assert watching.get(f"/v1/trajectories/{name}").json["watch"] == str(top)
    scan(watching, name, top)
    assert watching.get(f"/v1/trajectories/{name}").json["watch"] == str(top)
    scan(watching, name, top, watch=False)
    document = watching.get(f"/v1/trajectories/{name}").json
    assert document["watch"] is None and document["watch_state"] is None
    assert watching.post(f"/v1/trajectories/{name}/scan", {"path": "/etc", "watch": True}).pointers == ["/path"]


def test_the_newest_of_hundreds_of_watches_is_looked_at(watching, name):
    many, top = watching.files / f"{name}-many", watching.files / name
    many.mkdir()
    top.mkdir()
    watching.sql(f"insert into trajectories (name, watch) select '{name}-' || n, '{many}'"
                 " from generate_series(1, 300) n")
    try:
        scan(watching, name, top, watch=True)
        models.write_llama(top / "step1", seed=1)
        until("its checkpoint", lambda: "step1" in registered(watching, name))
        # which: the kernel bounds notices as well, for all of a user's processes, and others may just have ended
        assert until("a state", lambda: (state(watching, name) or {}).get("mode")) in ("poll", "inotify")
        assert len(watching.sql("select id from trajectories where watch is not null"
                                " and watch_state ->> 'mode' = 'inotify'")) <= 256
    finally:
        watching.sql(f"update trajectories set watch = null where watch = '{many}'")


def test_many_checkpoints_in_one_directory_keep_no_other_waiting(watching, name):
    """Reading them takes far longer than a look may: the other directory has its turn before they are through."""
    count = 30
    many, top, staged = watching.files / f"{name}-many", watching.files / name, watching.files / f"{name}-staged"
    model = models.write_llama(watching.files / f"{name}-model", tokenizer=False,
                               vocab_size=240 * (1 << 17) // models.LLAMA["hidden_size"])
    assert 200 < (model / "model.safetensors").stat().st_size >> 20 < 256  # as much as is read when it is registered
    for i in range(count):
        (staged / f"step{i}").mkdir(parents=True)
        for file in model.iterdir():
            os.link(file, staged / f"step{i}" / file.name)
    many.mkdir()
    top.mkdir()
    for trajectory, place in ((f"{name}-many", many), (name, top)):
        scan(watching, trajectory, place, watch=True)
        until("a state", lambda trajectory=trajectory: state(watching, trajectory))
    staged.rename(many / "all")
    models.write_llama(top / "step1", seed=1)
    until("its checkpoint", lambda: registered(watching, name))
    until("the others", lambda: len(registered(watching, f"{name}-many")) == count)
    last, only = (watching.sql("select max(c.number) from checkpoints c join trajectories t on t.id = c.trajectory"
                               f" where t.name = '{trajectory}'") for trajectory in (f"{name}-many", name))
    assert int(only[0][0]) < int(last[0][0])


def test_standing_sweeps_say_what_they_refuse_and_end_when_cancelled(watching, name):
    watching.sequences(name, models.rows(2, 16))
    watching.post("/v1/datasets", {"name": f"{name}-text",
                                   "path": str(models.write_llama(watching.files / name / "text") / "tokenizer.json"),
                                   "format": "text"})
    first = watching.checkpoint(models.write_llama(watching.files / name / "a", seed=1), name, "a", step=1)
    grid = {"checkpoint": {"trajectory": name}}
    assert watching.post("/v1/sweeps", {"kind": "evaluate", "standing": True,
                                        "grid": {"checkpoint": [first["id"]]}}).pointers == ["/standing"]
    text = standing(watching, name, name=f"{name}-t", base={"dataset": f"{name}-text", "sequence_length": 16})
    numbers = standing(watching, name)
    assert watching.post("/v1/sweeps", {"name": numbers["name"], "kind": "evaluate", "base": numbers["base"],
                                        "grid": grid}).status == 409
    watching.checkpoint(models.write_llama(watching.files / name / "b", seed=2, tokenizer=False), name, "b", step=2)
    until("its run", lambda: watching.get(f"/v1/sweeps/{numbers['id']}").json["runs"]["succeeded"] == 2)
    refused = until("its refusal", lambda: watching.get(f"/v1/sweeps/{text['id']}").json["refused"])
    assert (refused[0]["name"] == "b" and refused[0]["error"]["pointer"] == "/base/dataset"
            and "tokenizer" in refused[0]["error"]["detail"])
    assert watching.get(f"/v1/sweeps/{text['id']}").json["runs"]["total"] == 1
    for sweep in (text, numbers):
        assert watching.post(f"/v1/sweeps/{sweep['id']}/cancel").json["standing"] is False
    watching.checkpoint(models.write_llama(watching.files / name / "c", seed=3), name, "c", step=3)
    scan(watching, f"{name}-sign", watching.files / name / "a", watch=True)
    until("a turn of the watcher", lambda: state(watching, f"{name}-sign"))
    assert watching.get(f"/v1/sweeps/{numbers['id']}").json["runs"]["total"] == 2


NO_INOTIFY = ("#include <errno.h>\nint inotify_init1(int flags);\nint inotify_init1(int flags) { (void)flags; "
              "errno = EMFILE; return -1; }\n")


def test_without_inotify_and_after_a_restart_it_goes_on(tmp_path, name):
    if not BINARY.exists():
        pytest.skip("build/deltaq is not built")
    (tmp_path / "none.c").write_text(NO_INOTIFY)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "none.so", tmp_path / "none.c"], check=True)
    service = Service(tmp_path, "--threads", "1", "--watch-quiet", "1", "--watch-poll", "1",
                      environment={"LD_PRELOAD": str(tmp_path / "none.so")})
    try:
        top = service.files / name
        models.write_llama(top / "step1", seed=1)
        service.sequences(name, models.rows(2, 16))
        scan(service, name, top, watch=True)
        until("the first", lambda: "step1" in registered(service, name))
        made = standing(service, name)
        until("a state", lambda: (state(service, name) or {}).get("mode") == "poll")
        assert service.stop() == 0
        models.write_llama(top / "step2", seed=2)
        service.start()
        until("the second, written while nobody watched", lambda: "step2" in registered(service, name))
        until("its run", lambda: service.get(f"/v1/sweeps/{made['id']}").json["runs"]["succeeded"] == 2)
        shutil.move(top, service.files / "elsewhere")
        until("the directory to be missed", lambda: state(service, name)["mode"] == "away")
        shutil.move(service.files / "elsewhere", top)
        models.write_llama(top / "step3", seed=3)
        until("the third", lambda: "step3" in registered(service, name))
    finally:
        assert service.stop() == 0


# While the file BROKEN exists, files below directories named "coughs" cannot be opened.
COUGHS = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
static int checked(int file)
{
    char link[64], path[4096] = "";
    struct stat found;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    if (file < 0 || access(getenv("BROKEN"), F_OK) != 0 || fstat(file, &found) != 0 || !S_ISREG(found.st_mode) ||
        readlink(link, path, sizeof path - 1) < 0 || strstr(path, "/coughs/") == NULL) return file;
    (void)close(file);
    errno = EIO;
    return -1;
}
int open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const int mode = flags & O_CREAT ? va_arg(rest, int) : 0;
    va_end(rest);
    return checked(((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open"))(path, flags, mode));
}
int openat(int directory, const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const int mode = flags & O_CREAT ? va_arg(rest, int) : 0;
    va_end(rest);
    return checked(((int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat"))(directory, path, flags, mode));
}
"""


def test_what_cannot_be_read_for_a_while_is_registered_and_measured_later(tmp_path, name):
    """A disk error, or no descriptors left, is no fault of the checkpoint; those beside it do not wait for it."""
    if not BINARY.exists():
        pytest.skip("build/deltaq is not built")
    (tmp_path / "coughs.c").write_text(COUGHS)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "coughs.so", tmp_path / "coughs.c"], check=True)
    broken = tmp_path / "broken"
    service = Service(tmp_path, "--threads", "1", "--watch-quiet", "1", "--watch-poll", "1",
                      environment={"LD_PRELOAD": str(tmp_path / "coughs.so"), "BROKEN": str(broken)})
    try:
        top = service.files / name
        first = service.checkpoint(models.write_llama(service.files / "first", seed=1), name, "first", step=1)
        service.post("/v1/datasets", {"name": name, "path": str(service.files / "first" / "tokenizer.json"),
                                      "format": "text"})
        made = standing(service, name, base={"dataset": name, "sequence_length": 16})
        service.sql("update sweeps set standing = null")  # so that the next one is not taken in before it is broken
        service.checkpoint(models.write_llama(service.files / "coughs" / "later", seed=2), name, "later", step=2)
        broken.touch()
        service.sql(f"update sweeps set standing = (select trajectory from checkpoints where id = '{first['id']}')")
        models.write_llama(top / "coughs" / "step3", seed=3)
        models.write_llama(top / "step4", seed=4)
        scan(service, name, top, watch=True)
        until("the one beside it", lambda: "step4" in registered(service, name))
        told = until("its detail", lambda: (state(service, name) or {}).get("detail"))
        assert "coughs-step3 is tried again: " in told and state(service, name)["pending"] == ["coughs-step3"]
        assert state(service, name)["failed"] == []
        until("the run of the one beside it",
              lambda: service.get(f"/v1/sweeps/{made['id']}").json["runs"]["total"] == 2)
        assert "leave checkpoints that cannot be read for a while" in service.log.read_text()
        broken.unlink()
        until("itself", lambda: "coughs-step3" in registered(service, name))
        assert state(service, name)["detail"] is None
        until("all runs", lambda: service.get(f"/v1/sweeps/{made['id']}").json["runs"]["total"] == 4)
        assert service.get(f"/v1/sweeps/{made['id']}").json["refused"] == []
    finally:
        assert service.stop() == 0


def test_a_standing_sweep_goes_on_with_the_larger_grid(watching, name):
    data = watching.sequences(name, models.rows(4, 16))["name"]
    watching.checkpoint(models.write_llama(watching.files / name / "a", seed=1), name, "a", step=1)
    made = standing(watching, name, base={"dataset": data, "sequence_length": None},
                    grid={"checkpoint": {"trajectory": name}, "max_sequences": [4]})
    answer = watching.post(f"/v1/sweeps/{made['id']}/extend", {"grid": {"max_sequences": [2]}})
    assert answer.status == 202 and answer.json["standing"] and answer.json["runs"]["total"] == 2, answer.body
    watching.checkpoint(models.write_llama(watching.files / name / "b", seed=2), name, "b", step=2)
    until("its runs", lambda: watching.get(f"/v1/sweeps/{made['id']}").json["runs"]["succeeded"] == 4)
    runs = watching.get(f"/v1/runs?sweep={made['id']}").json["items"]
    assert sorted(run["params"]["max_sequences"] for run in runs) == [2, 2, 4, 4]
    watching.post(f"/v1/sweeps/{made['id']}/cancel")
