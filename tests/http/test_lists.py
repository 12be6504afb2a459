"""Lists: which fields their items have."""

import zlib

import models
import pytest

LISTS = ["trajectories", "checkpoints", "runs", "sweeps"]


@pytest.fixture(scope="module")
def lab(service):
    """Three checkpoints of "lists" and one of "lists-other", a sweep of evaluations over the three, and a quantization."""
    for i, (trajectory, name, tags) in enumerate([("lists", "step5", {"phase": "decay", "seed": 1}), ("lists", "step1", {"phase": "stable"}),
                                                  ("lists", "last", {}), ("lists-other", "step7", {"phase": "decay"})]):
        step = int(name[4:]) if name.startswith("step") else None
        service.checkpoint(models.write_llama(service.files / "lists" / str(i), seed=zlib.crc32(b"lists") % 10000 + i), trajectory, name, step=step, tags=tags)
    service.sequences("lists", models.rows(3, 16))
    body = {"name": "lists", "kind": "evaluate", "base": {"dataset": "lists", "sequence_length": None}, "grid": {"checkpoint": {"trajectory": "lists"}}}
    assert service.post("/v1/sweeps", body).status == 202
    assert service.get("/v1/sweeps/lists?wait=60").json["runs"]["succeeded"] == 3
    method = {"name": "rtn", "bits": 4, "group_size": 16}
    run = service.run("quantize", checkpoint="lists-other/step7", method=method, evaluation={"dataset": "lists", "sequence_length": None})
    assert run["state"] == "succeeded", run
    return run


def items(service, address):
    answer = service.get(address)
    assert answer.status == 200, answer.body
    return answer.json["items"]


@pytest.mark.parametrize("what", LISTS)
def test_fields_choose_what_items_have(service, lab, what):
    whole = items(service, f"/v1/{what}")
    names = list(whole[0])
    assert items(service, f"/v1/{what}?fields=" + ",".join(names)) == whole, "every field of a document may be asked for"
    assert items(service, f"/v1/{what}?view=full") == whole
    chosen = items(service, f"/v1/{what}?fields=created_at,id")
    assert [list(item) for item in chosen] == [["created_at", "id"]] * len(whole)
    assert chosen == [{"created_at": item["created_at"], "id": item["id"]} for item in whole]


@pytest.mark.parametrize("what", LISTS)
@pytest.mark.parametrize("query,pointer,words", [("fields=id,colour", "/fields", "no field \"colour\"; there are id"), ("fields=id,id", "/fields", "twice"), ("fields=", "/fields", "no field"),
                                                 ("view=short", "/view", "summary"), ("fields=id&view=summary", "/view", "fields"), ("colour=red", "/colour", "")])
def test_what_a_list_does_not_know_is_refused(service, lab, what, query, pointer, words):
    answer = service.get(f"/v1/{what}?{query}")
    assert answer.status == 422 and answer.pointers == [pointer] and words in answer.json["detail"], answer.body


@pytest.mark.parametrize("what", LISTS)
def test_a_summary_is_short_and_says_the_same(service, lab, what):
    whole, summary = service.get(f"/v1/{what}"), service.get(f"/v1/{what}?view=summary")
    assert len(summary.body) < len(whole.body)
    for short, long in zip(summary.json["items"], whole.json["items"], strict=True):
        assert {"id", "created_at"} < set(short) < set(long)
        assert all(short[field] == long[field] for field in short if field != "result")


def test_a_summary_of_a_run_has_its_numbers_and_intervals(service, lab):
    found = next(run for run in items(service, "/v1/runs?view=summary&trajectory=lists-other") if run["id"] == lab["id"])
    result = lab["result"]
    assert found["result"]["delta"] == result["delta"] and found["result"]["delta_interval"] == result["delta_interval"]
    assert "layers" in result and "layers" not in found["result"]
    kept = {name for name, value in result.items() if not isinstance(value, (list, dict)) or isinstance(value, list) and len(value) == 2 and isinstance(value[0], float)}
    assert set(found["result"]) == kept


def test_the_pages_of_a_view_follow_each_other(service, lab):
    seen, address = [], "/v1/runs?sweep=lists&fields=id,checkpoint_name&limit=1"
    while address:
        page = service.get(address).json
        seen += page["items"]
        address = page["next"]
    assert [list(item) for item in seen] == [["id", "checkpoint_name"]] * 3
    assert {item["checkpoint_name"] for item in seen} == {"step5", "step1", "last"}


def test_runs_name_what_they_are_about(service, lab):
    assert (lab["checkpoint_name"], lab["trajectory"]) == ("step7", "lists-other")
    assert {run["trajectory"] for run in items(service, "/v1/runs?sweep=lists")} == {"lists"}
    both = service.run("average", checkpoints=["lists/step1", "lists-other/step7"], name="lists-average", into="lists-averages")
    assert (both["checkpoint_name"], both["trajectory"]) == (None, None), "of several trajectories none is named"
