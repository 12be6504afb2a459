"""dry_run: what a run would need, told by the plans that it goes by; nothing is made. A run that memory is short for
takes a smaller plan with the same numbers, or fails at once and says what it needs."""

import pathlib

import models
import pytest
from service import Service

ROWS, LENGTH = 400, 64
WIDE = {"hidden_size": 512, "num_hidden_layers": 1}


def prepare(service):
    checkpoint = service.checkpoint(models.write_llama(service.files / "dry"), "dry", "step1", step=1)
    service.checkpoint(models.write_llama(service.files / "dry2", seed=2), "dry", "step2", step=2)
    service.sequences("dry-evaluation", models.rows(ROWS, LENGTH))
    service.sequences("dry-calibration", models.rows(40, LENGTH, seed=2))
    return checkpoint["id"]


@pytest.fixture(scope="module")
def service(serving, tmp_path_factory):
    """A server of its own: no run of most kinds has ended on it."""
    with serving(tmp_path_factory.mktemp("dry")) as service:
        yield service


@pytest.fixture(scope="module")
def ready(service):
    return prepare(service)


def evaluation(checkpoint="dry/step1"):
    return {"checkpoint": checkpoint, "dataset": "dry-evaluation", "sequence_length": None}


def quantization(checkpoint="dry/step1", bits=4):
    return {"checkpoint": checkpoint, "method": {"name": "gptq", "bits": bits, "group_size": 16},
            "calibration": {"dataset": "dry-calibration", "sequence_length": None},
            "evaluation": {"dataset": "dry-evaluation", "sequence_length": None}}


def training():
    return {"trajectory": "dry-trained", "model": {**models.LLAMA, "tie_word_embeddings": True},
            "dataset": "dry-evaluation", "tokens": 4096, "batch_sequences": 8, "sequence_length": 32,
            "schedule": {"name": "constant", "peak": 1e-3}, "checkpoint_every": 2048}


def dry(service, kind, params, path="/v1/runs"):
    answer = service.post(path, {"kind": kind, "params": params, "dry_run": True})
    assert answer.status == 200, answer.body
    return answer.json


def counts(service):
    return [len(service.get(f"/v1/{what}?limit=200").json["items"]) for what in ("runs", "sweeps", "trajectories")]


def test_what_a_run_needs_is_told_and_nothing_is_made(service, ready):
    before = counts(service)
    sharpness = {**evaluation(), "max_sequences": 4, "estimators": ["top_eigenvalue"], "max_iterations": 7}
    found = {kind: dry(service, kind, params) for kind, params in (
        ("evaluate", evaluation()), ("quantize", quantization()), ("sharpness", sharpness), ("train", training()))}
    for kind, told in found.items():
        assert told["dry_run"] is True and told["kind"] == kind and told["fits"] and told["problem"] is None
        host = told["memory"]["host"]
        assert 1 << 20 < host["peak_bytes"] <= host["available_bytes"] and told["memory"]["device"] is None
        assert told["tokens"] > 0 and told["flops"] > 0
    assert found["evaluate"]["params"]["checkpoint"] == ready, (
        "names become ids and defaults are written back, as in a run")
    assert found["evaluate"]["tokens"] == ROWS * LENGTH and found["sharpness"]["tokens"] == (1 + 7 + 1) * 4 * LENGTH
    assert found["quantize"]["tokens"] == (2 * ROWS + 40) * LENGTH and found["train"]["tokens"] == 4096
    size = (service.files / "dry" / "model.safetensors").stat().st_size
    assert size - 10000 < found["evaluate"]["disk"]["read_bytes"] <= size
    assert found["train"]["disk"]["written_bytes"] > 0 and found["evaluate"]["disk"]["written_bytes"] == 0
    assert (found["evaluate"]["at_most"], found["sharpness"]["at_most"]) == (False, True)
    assert counts(service) == before


def test_problems_are_those_of_the_request(service, ready):
    for body in ({"kind": "evaluate", "params": {"checkpoint": "dry/none", "dataset": "dry-evaluation", "packing": 3}},
                 {"kind": "quantize", "params": {**quantization(), "calibration": None}},
                 {"kind": "nonsense", "params": {}},
                 {"kind": "evaluate", "params": evaluation(), "more": 1}):
        real, told = service.post("/v1/runs", body), service.post("/v1/runs", {**body, "dry_run": True})
        assert (real.status, real.pointers) == (told.status, told.pointers) and real.status == 422
        assert real.json["detail"] == told.json["detail"] and real.json.get("errors") == told.json.get("errors")


def test_more_checkpoints_than_can_be_made_are_refused(service, ready):
    params = {**training(), "tokens": 10**15, "batch_sequences": 1, "sequence_length": 2, "checkpoint_every": 1}
    answer = service.post("/v1/runs", {"kind": "train", "params": params, "dry_run": True})
    assert answer.status == 422 and answer.pointers == ["/params/checkpoint_every"]
    told = dry(service, "train", {**params, "checkpoint_every": 10**10})
    assert told["disk"]["written_bytes"] > 10**9 and told["tokens"] >= 10**15


def test_a_trajectory_whose_name_cannot_be_made_is_told_why(service, ready):
    for name in ("a/b", "n" * 201):
        refused = service.post("/v1/runs", {"kind": "train", "params": {**training(), "trajectory": name}})
        assert (refused.status, refused.pointers) == (422, ["/params/trajectory"]), refused.body
        assert "the name of a new trajectory" in refused.json["detail"]


def test_a_key_is_kept_and_given_back_though_another_thread_computes(service, ready, name):
    body, key = {"kind": "evaluate", "params": evaluation(), "dry_run": True}, {"Idempotency-Key": name}
    first, again = (service.post("/v1/runs", body, key) for _ in range(2))
    assert (first.status, again.status, again.body) == (200, 200, first.body)
    assert again.headers["Idempotency-Replayed"] == "true"
    refused, key = {**body, "params": {**evaluation(), "checkpoint": "dry/none"}}, {"Idempotency-Key": name + "-2"}
    assert [service.post("/v1/runs", one, key).status for one in (refused, body)] == [422, 200]


def test_time_comes_from_runs_that_were(service, ready):
    service.checkpoint(models.write_llama(service.files / "dry3", seed=3), "dry3", "step1")
    done = service.run("evaluate", **evaluation("dry3/step1"))
    assert done["state"] == "succeeded", done["error"]
    told = dry(service, "evaluate", evaluation())
    assert told["seconds"] > 0 and "evaluate run in f32 on cpu" in told["seconds_from"]
    other = dry(service, "evaluate", {**evaluation(), "precision": "bf16"})
    assert other["seconds"] is None and "no evaluate run in bf16" in other["seconds_from"]


def search(windows, **more):
    return {"trajectory": "dry", "windows": windows,
            "evaluation": {"dataset": "dry-evaluation", "sequence_length": None, "max_sequences": 8}, **more}


def short():
    return {"dataset": "dry-evaluation", "sequence_length": None, "max_sequences": 8}


def attribution():
    return {**quantization(), "evaluation": short(), "unit": "block", "bits": [3], "budget": 3.5}


# What a run of the kind asks, and how many tokens it takes.
OTHERS = {
    "interpolate": (lambda: {**short(), "from": "dry/step1", "to": "dry/step2", "points": 3}, 3 * 8 * LENGTH),
    "landscape": (lambda: {**short(), "checkpoints": ["dry/step1", "dry/step2", "drier/step1"], "grid": [2, 3]},
                  (3 + 6) * 8 * LENGTH),
    "average": (lambda: search([1, 2], into="dry-searched"), 2 * 8 * LENGTH),
    "attribution": (attribution, None),
    "compare": (lambda: {"checkpoints": ["dry/step1", "dry/step2"], "evaluation": short()}, 2 * 8 * LENGTH),
    "health": (lambda: {"checkpoint": "dry/step2"}, 0),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_every_kind_tells_what_it_needs_and_then_how_long_it_takes(service, ready, kind):
    if "drier/step1" not in [f"drier/{c['name']}"
                             for c in service.get("/v1/checkpoints?trajectory=drier").json.get("items", [])]:
        service.checkpoint(models.write_llama(service.files / "drier", seed=9), "drier", "step1")
    make, tokens = OTHERS[kind]
    told = dry(service, kind, make())
    host = told["memory"]["host"]
    assert told["fits"] and told["problem"] is None and 1 << 20 < host["peak_bytes"] <= host["available_bytes"]
    assert (told["disk"]["read_bytes"] > 0 and told["fetched_bytes"] == 0 and told["seconds"] is None
            and f"no {kind} run" in told["seconds_from"])
    assert (told["flops"] > 0) == (kind != "health") and (tokens is None or told["tokens"] == tokens)
    run = service.run(kind, **make())
    assert run["state"] == "succeeded", run["error"]
    if kind == "average":
        made = service.get(f"/v1/checkpoints/{run['result']['checkpoint']}").json["source"]["path"]
        assert sum(f.stat().st_size for f in pathlib.Path(made).iterdir()) == told["disk"]["peak_bytes"]
    again = dry(service, kind, {**make(), **({"into": "dry-other"} if kind == "average" else {})})
    assert again["seconds"] > 0 and f"succeeded {kind} run" in again["seconds_from"]


def test_an_attribution_that_does_not_fit_fails_at_once(service, ready, tmp_path):
    peak = dry(service, "attribution", attribution())["memory"]["host"]["peak_bytes"]
    small = Service(tmp_path, "--threads", "1", "--memory", str((peak >> 20) // 2),
                    environment={"HF_ENDPOINT": "http://127.0.0.1:9"})
    prepare(small)
    told = dry(small, "attribution", attribution())
    run = small.run("attribution", **attribution())
    assert (told["fits"] is False and run["state"] == "failed"
            and run["error"]["code"] == told["problem"]["code"] == "too_large")
    assert run["error"]["detail"] == told["problem"]["detail"]
    assert small.stop() == 0


def test_what_the_hub_would_send_is_not_known_without_it(service):
    told = dry(service, "fetch", {"repo": "lab/model"})
    assert told["memory"] is None and told["fits"] is None and told["problem"]["code"] == "unavailable"
    body = {"name": "dry-fetches", "kind": "fetch", "base": {"repo": "lab/model"},
            "grid": {"revision": [f"step{i}" for i in range(40)]}, "dry_run": True}
    told = service.post("/v1/sweeps", body).json
    assert told["runs"] == 40 and told["fits"] is False and all(plan["problem"]["code"] == "unavailable"
                                                                for plan in told["plans"])


def sweep(**more):
    base = quantization()
    del base["checkpoint"], base["method"]["bits"]
    return {"name": "dry-sweep", "kind": "quantize", "base": base, "dry_run": True,
            "grid": {"checkpoint": {"trajectory": "dry"}, "method.bits": [3, 4]}, **more}


def test_a_sweep_has_sums_and_maxima(service, ready):
    before = counts(service)
    body = sweep()
    answer = service.post("/v1/sweeps", body)
    assert answer.status == 200, answer.body
    told = answer.json
    assert (told["runs"], told["existing"]) == (4, 0)
    assert told["fits"] and [plan["runs"] for plan in told["plans"]] == [2, 2], (
        "checkpoints alike share a plan")
    assert told["total"]["tokens"] == 4 * (2 * ROWS + 40) * LENGTH
    assert told["total"]["flops"] == pytest.approx(sum(2 * plan["flops"] for plan in told["plans"]))
    assert told["maximum"]["host_bytes"] == max(plan["memory"]["host"]["peak_bytes"] for plan in told["plans"])
    assert counts(service) == before
    bad = {**body, "grid": {"method.bits": [3, 99]}}
    assert (service.post("/v1/sweeps", bad).pointers
            == service.post("/v1/sweeps", {**bad, "dry_run": False}).pointers != [])


def small(service, data, **grid):
    """A sweep of evaluations, and what a dry run says of it."""
    grid = {"dataset": [data], **grid}
    body = {"name": data, "kind": "evaluate", "base": {"sequence_length": None}, "grid": grid}
    answer = service.post("/v1/sweeps", {**body, "dry_run": True})
    assert answer.status == 200, answer.body
    return body, answer.json


def test_a_sweep_counts_equal_runs_once(service, ready, name):
    """By name and by id, and a checkpoint whose content another one has."""
    twin = service.checkpoint(models.write_llama(service.files / f"{name}-twin"), name, "twin")
    data = service.sequences(name, models.rows(3, LENGTH, seed=3))
    grid = {"checkpoint": ["dry/step1", ready, twin["id"]], "max_sequences": [2, 2, 3]}
    body, told = small(service, name, dataset=[name, data["id"]], **grid)
    made = service.post("/v1/sweeps", body, {"Prefer": "wait=60"}).json
    assert (told["runs"], told["existing"]) == (made["runs"]["total"], 0) == (2, 0)
    assert [plan["runs"] for plan in told["plans"]] == [1, 1] and told["total"]["tokens"] == 5 * LENGTH


def test_a_sweep_says_how_many_of_its_runs_exist(service, ready, name):
    service.sequences(name, models.rows(3, LENGTH, seed=4))
    first, told = small(service, name, checkpoint=["dry/step1"], max_sequences=[2, 3])
    assert (told["runs"], told["existing"], told["total"]["tokens"]) == (2, 0, 5 * LENGTH)
    assert service.post("/v1/sweeps", first, {"Prefer": "wait=60"}).json["runs"]["succeeded"] == 2
    wider = {**first, "name": f"{name}-wider", "grid": {**first["grid"], "max_sequences": [2, 3, 1]}, "dry_run": True}
    told = service.post("/v1/sweeps", wider).json
    assert (told["runs"], told["existing"], told["total"]["tokens"]) == (3, 2, LENGTH)
    assert [(plan["params"]["max_sequences"], plan["runs"]) for plan in told["plans"]] == [(1, 1)]
    free = service.post("/v1/sweeps", {**first, "name": f"{name}-free", "dry_run": True}).json
    assert (free["runs"], free["existing"], free["plans"], free["fits"]) == (2, 2, [], True)
    assert (free["total"]["tokens"], free["total"]["seconds"], free["maximum"]["host_bytes"]) == (0, 0, 0)
    extended = service.post(f"/v1/sweeps/{name}/extend", {"grid": {"max_sequences": [3, 1]}, "dry_run": True}).json
    assert (extended["runs"], extended["existing"], extended["total"]["tokens"]) == (1, 0, LENGTH)


def test_a_dry_run_minds_the_name_as_the_sweep_does(service, ready, name):
    """A taken name is 409, and of a sweep that is there nothing is queued, not even what failed."""
    service.checkpoint(models.write_llama(service.files / name, seed=5), name, "gone")
    service.sequences(name, models.rows(3, LENGTH, seed=5))
    body, told = small(service, name, checkpoint=[f"{name}/gone"])
    assert (told["runs"], told["existing"]) == (1, 0)
    for file in (service.files / name).glob("*.safetensors"):
        file.unlink()
    assert service.post("/v1/sweeps", body, {"Prefer": "wait=60"}).json["runs"]["failed"] == 1
    again = service.post("/v1/sweeps", {**body, "dry_run": True}).json
    assert (again["runs"], again["existing"], again["plans"]) == (1, 1, [])
    other = {**body, "grid": {**body["grid"], "checkpoint": ["dry/step1"]}}
    for dry_run in (True, False):
        answer = service.post("/v1/sweeps", {**other, "dry_run": dry_run})
        assert answer.status == 409 and name in answer.json["detail"], answer.body
    nameless = {field: value for field, value in other.items() if field != "name"}
    assert service.post("/v1/sweeps", {**nameless, "dry_run": True}).json["runs"] == 1


def test_a_run_spills_where_memory_is_short_or_fails_at_once(service, ready, tmp_path):
    whole = service.run("evaluate", **evaluation())
    peak = dry(service, "evaluate", evaluation())["memory"]["host"]["peak_bytes"]
    small = Service(tmp_path, "--threads", "1", "--memory", str((peak >> 20) - 1),
                    environment={"HF_ENDPOINT": "http://127.0.0.1:9"})
    prepare(small)
    told = dry(small, "evaluate", evaluation())
    assert told["fits"] and 0 < told["spilled_tokens"] <= ROWS * LENGTH
    assert told["memory"]["host"]["peak_bytes"] <= told["memory"]["host"]["available_bytes"] == ((peak >> 20) - 1) << 20
    assert 0 < told["disk"]["peak_bytes"] < told["disk"]["written_bytes"]
    run = small.run("evaluate", **evaluation())
    assert run["state"] == "succeeded" and run["result"]["sequence_losses"] == whole["result"]["sequence_losses"]
    small.checkpoint(models.write_llama(small.files / "wide", **WIDE), "wide", "step1")
    told = dry(small, "evaluate", evaluation("wide/step1"))
    run = small.run("evaluate", **evaluation("wide/step1"))
    assert (told["fits"] is False and run["state"] == "failed"
            and run["error"]["code"] == told["problem"]["code"] == "too_large")
    needed, there = (told["memory"]["host"][what] for what in ("peak_bytes", "available_bytes"))
    assert (f"needs {needed} bytes of host memory, {there} are available" in run["error"]["detail"]
            == told["problem"]["detail"])
    assert small.stop() == 0


def test_a_text_of_100_gb_is_not_read_for_a_plan(service, ready, name):
    """It takes no room (sparse). With max_sequences its head is enough; without, the plan says how far it reads."""
    path = service.files / f"{name}.txt"
    with open(path, "wb") as file:
        file.write(b"some words of text\n" * 100)
        file.truncate(100 << 30)

    def read():
        return int((pathlib.Path("/proc") / str(service.process.pid) / "io").read_text().split()[1])

    try:
        before = read()
        assert service.post("/v1/datasets", {"name": name, "path": path.name, "format": "text"}).status == 201
        params = {"checkpoint": ready, "dataset": name, "sequence_length": 8, "max_sequences": 4}
        told = service.post("/v1/runs", {"kind": "evaluate", "params": params, "dry_run": True})
        assert told.status == 200 and told.json["tokens"] == 32, told.body
        assert read() - before < 64 << 20
        told = service.post("/v1/runs", {"kind": "evaluate", "params": {**params, "max_sequences": None},
                                         "dry_run": True})
        assert told.status == 413 and "give max_sequences" in told.json["detail"], told.body
        assert read() - before < 192 << 20
    finally:
        path.unlink()
