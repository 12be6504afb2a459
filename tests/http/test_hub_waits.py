"""A hub that asks for a pause, is away, or refuses several requests at a time: who waits, for how long, and who does
not."""

import json
import os
import subprocess
import time

import models
import pytest
from hub_stand_in import sha256
from test_hub import fetch, fetched, files_of, hub, post_fetch, quiet, served, small  # noqa: F401 (fixtures)
from service import BINARY, Service
from test_watch import until


def test_the_hub_is_asked_again_when_it_says_so(served, hub, small, tmp_path):
    files = files_of(tmp_path, seed=11)
    hub.add("lab/limited", "main", files)
    hub.fail("hub", "/revision/", "status", status=429, headers={"Retry-After": "1"})
    hub.fail("hub", "/tree/", "status", status=429,
             headers={"RateLimit": '"api";r=0;t=1', "RateLimit-Policy": '"fixed window";"api";q=500;w=300'})
    hub.fail("store", "blobs", "status", status=429, headers={"Retry-After": "1"})
    began = time.monotonic()
    fetched(served, "lab/limited")
    assert time.monotonic() - began >= 3, "three times one second"


def test_a_hub_that_is_away_does_not_hold_the_worker(served, hub, small, tmp_path):
    """The run waits in the queue: others are executed, it is cancelled at once, it succeeds when the hub is back."""
    hub.add("lab/away", "main", small)
    away = hub.fail("hub", "lab/away", "status", times=10000, status=503)
    runs = [post_fetch(served, {"repo": "lab/away", "name": n}).json["id"] for n in ("a", "b")]
    made = served.checkpoint(models.write_llama(served.files / "meanwhile"), "meanwhile", "a")
    data = served.sequences("meanwhile", models.rows(4, 16))
    for count in (1, 2, 3):
        run = served.run("evaluate", checkpoint=made["id"], dataset=data["id"], sequence_length=None,
                         max_sequences=count)
        assert run["state"] == "succeeded", run
    assert all(served.get(f"/v1/runs/{run}").json["state"] in ("queued", "running") for run in runs)
    assert served.post(f"/v1/runs/{runs[0]}/cancel").status in (200, 202)
    assert served.wait(runs[0])["state"] == "cancelled"
    away.times = 0
    assert served.wait(runs[1])["state"] == "succeeded"


def test_a_run_comes_again_no_sooner_than_the_hub_says(served, hub, small, tmp_path):
    hub.add("lab/later", "main", small)
    hub.fail("hub", "lab/later", "status", status=429, headers={"Retry-After": "6"})
    began = time.monotonic()
    fetched(served, "lab/later")
    assert time.monotonic() - began >= 6


def test_a_long_pause_is_kept(served, hub, small):
    """Half an hour: the run waits in the queue, and the hub is not asked again meanwhile."""
    hub.add("lab/half-an-hour", "main", small)
    hub.fail("hub", "lab/half-an-hour", "status", times=100, status=429, headers={"Retry-After": "1800"})
    run = post_fetch(served, {"repo": "lab/half-an-hour"}).json["id"]
    until("it was tried", lambda: served.get(f"/v1/runs/{run}").json["attempt"] > 0)
    time.sleep(3)
    document = served.get(f"/v1/runs/{run}").json
    assert (document["state"], document["attempt"]) == ("queued", 1), document
    served.post(f"/v1/runs/{run}/cancel")


def test_who_has_requests_left_does_not_wait(served, hub, small):
    """A hub says so with each answer; one that breaks is asked again at once."""
    hub.add("lab/plenty", "main", small)
    hub.fail("hub", "lab/plenty", "status", status=500, headers={"RateLimit": '"api";r=499;t=100'})
    began = time.monotonic()
    fetched(served, "lab/plenty")
    assert time.monotonic() - began < 60


def test_a_limit_that_lasts_too_long_is_told(served, hub, small):
    hub.add("lab/forbidding", "main", small)
    hub.fail("hub", "/refs", "status", times=100, status=429, headers={"Retry-After": "300"})
    answer = served.get("/v1/trajectories/x/discover?repo=lab/forbidding")
    assert answer.status == 503 and "300 s" in answer.json["detail"]


@pytest.mark.parametrize("status", [503, 403], ids=["busy", "expired"])
def test_requests_that_fail_together_are_one_try(served, hub, status):
    """Six ranges at a time are refused: by a server that limits the rate, or because their address has expired."""
    data = os.urandom(1 << 20) + bytes(80 << 20)
    hub.add(f"lab/together-{status}", "main", {"config.json": b"{}", "data.bin": data})
    hub.fail("store", "blobs", "status", times=6, status=status)
    run = fetch(served, f"lab/together-{status}", files=["data.bin"])
    assert run["attempt"] == 0 and run["error"]["code"] == "corrupt", run["error"]  # no checkpoint
    assert (served.data / "hub/blobs" / f"sha256-{sha256(data)}").stat().st_size == len(data)


def test_an_address_that_expires_is_asked_for_once(served, hub):
    """Requests with the old one end well after that; they do not tell where the other ranges are."""
    data = os.urandom(1 << 20) + bytes(176 << 20)  # twelve ranges, eight of which come at a time
    hub.add("lab/expires", "main", {"config.json": b"{}", "data.bin": data})
    hold = hub.fail("store", "blobs", "hold", after=1 << 20)
    run = post_fetch(served, {"repo": "lab/expires", "files": ["data.bin"]}).json["id"]
    assert hold.reached.wait(60)
    hub.signatures.clear()
    end = time.monotonic() + 60
    while len(hub.asked("blobs", server="store")) < 9 and time.monotonic() < end:
        time.sleep(0.05)
    hold.released.set()
    assert served.wait(run)["error"]["code"] == "corrupt"  # no checkpoint
    assert (served.data / "hub/blobs" / f"sha256-{sha256(data)}").stat().st_size == len(data)
    assert len(hub.asked("resolve.*data.bin")) == 2


def test_a_file_that_another_process_fetches_for_another_checkpoint_is_waited_for_and_said(served, hub, tmp_path):
    files = files_of(tmp_path, seed=61)
    for revision in ("first", "second"):
        hub.add("lab/shared", revision, {**files, "trainer_state.json": json.dumps({"of": revision}).encode()})
    command = [BINARY, "worker", "--data-dir", served.data, "--root", served.files, "--threads", "1"]
    with open(tmp_path / "log", "wb") as log:
        second = subprocess.Popen(command, env=served.environment, stdout=log, stderr=log)
    try:
        hold = hub.fail("store", "blobs", "hold", after=1000)
        runs = [post_fetch(served, {"repo": "lab/shared", "revision": "first"}).json["id"]]
        assert hold.reached.wait(60)
        runs.append(post_fetch(served, {"repo": "lab/shared", "revision": "second"}).json["id"])
        said = (f"select count(*) from run_events where run = '{runs[1]}'"
                " and data ->> 'line' like '%waits until another%'")
        end = time.monotonic() + 60
        while served.sql(said) == [["0"]] and time.monotonic() < end:
            time.sleep(0.05)
        hold.released.set()
        assert [served.wait(run)["state"] for run in runs] == ["succeeded"] * 2
        assert served.sql(said) == [["1"]]
    finally:
        second.terminate()
        assert second.wait(40) == 0


def test_a_fetch_without_space_is_tried_again_when_other_runs_have_ended(hub, tmp_path):
    """The cache has space for one of two checkpoints, and a run reads the other."""
    for i in range(2):
        files = files_of(tmp_path / f"model-{i}", seed=70 + i, hidden_size=64, intermediate_size=256)
        hub.add("lab/narrow", f"step{i}", files)
    bound = int(len(files["model.safetensors"]) * 1.5)
    service = Service(tmp_path / "service", "--threads", "1", "--workers", "2", "--hub-cache", str(bound),
                      environment={"HF_ENDPOINT": hub.url})
    try:
        service.post("/v1/trajectories/narrow/discover", {"repo": "lab/narrow"})
        service.sequences("ids", models.rows(2, 16))
        post = [{"kind": "evaluate", "params": {"checkpoint": f"narrow/step{i}", "dataset": "ids",
                                                "sequence_length": None}} for i in range(2)]
        with service.gate.holding("evaluate", 0, unit="chunk"):
            reads = service.post("/v1/runs", post[0]).json["id"]
            service.held(reads)
            waits = service.post("/v1/runs", post[1]).json["id"]
            put_off = (f"select 1 from runs where id = '{waits}' and tries = 1 and state = 'queued'"
                       " and run_at > clock_timestamp() + interval '90 seconds'")
            until("one that is put off", lambda: service.sql(put_off))
            told = service.sql(f"select data from run_events where run = '{waits}'")
            assert "running runs need what is there" in str(told)
        assert service.wait(reads)["state"] == "succeeded"
        service.sql("update runs set run_at = clock_timestamp() where state = 'queued'")
        assert service.wait(waits)["state"] == "succeeded"
    finally:
        assert service.stop() == 0
