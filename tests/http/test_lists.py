"""Lists: which fields their items have, which items there are, and in which order."""

import datetime
import re
import zlib

import models
import pytest

LISTS = ["trajectories", "checkpoints", "runs", "sweeps", "datasets"]
SMALL = ["gates", "webhooks", "tokens", "workers"]  # neither dates nor an order to choose


@pytest.fixture(scope="module")
def service(serving, tmp_path_factory):
    """A server of its own: the lists are compared whole."""
    with serving(tmp_path_factory.mktemp("lists")) as service:
        yield service


@pytest.fixture(scope="module")
def lab(service):
    """Three checkpoints of "lists" and one of "lists-other",
    a sweep of evaluations over the three, and a quantization."""
    for i, (trajectory, name, tags) in enumerate([("lists", "step5", {"phase": "decay", "seed": 1}),
                                                  ("lists", "step1", {"phase": "stable"}),
                                                  ("lists", "last", {}), ("lists-other", "step7", {"phase": "decay"})]):
        step = int(name[4:]) if name.startswith("step") else None
        service.checkpoint(models.write_llama(service.files / "lists" / str(i), seed=zlib.crc32(b"lists") % 10000 + i),
                           trajectory, name, step=step, tags=tags)
    service.sequences("lists", models.rows(3, 16))
    body = {"name": "lists", "kind": "evaluate", "base": {"dataset": "lists", "sequence_length": None},
            "grid": {"checkpoint": {"trajectory": "lists"}}}
    assert service.post("/v1/sweeps", body).status == 202
    assert service.get("/v1/sweeps/lists?wait=60").json["runs"]["succeeded"] == 3
    method = {"name": "rtn", "bits": 4, "group_size": 16}
    run = service.run("quantize", checkpoint="lists-other/step7", method=method,
                      evaluation={"dataset": "lists", "sequence_length": None})
    assert run["state"] == "succeeded", run
    return run


def items(service, address):
    answer = service.get(address)
    assert answer.status == 200, answer.body
    return answer.json["items"]


@pytest.mark.parametrize("what", LISTS)
def test_fields_choose_what_items_have(service, lab, what):
    whole = items(service, f"/v1/{what}")
    names = sorted({name for item in whole for name in item})  # those of datasets are not all the same
    assert items(service, f"/v1/{what}?fields=" + ",".join(names)) == whole, (
        "every field of a document may be asked for")
    assert items(service, f"/v1/{what}?view=full") == whole
    chosen = items(service, f"/v1/{what}?fields=created_at,id")
    assert [list(item) for item in chosen] == [["created_at", "id"]] * len(whole)
    assert chosen == [{"created_at": item["created_at"], "id": item["id"]} for item in whole]


@pytest.mark.parametrize("what", LISTS)
@pytest.mark.parametrize("query,pointer,words", [
    ("fields=id,colour", "/fields", "no field \"colour\"; there are id"), ("fields=id,id", "/fields", "twice"),
    ("fields=", "/fields", "no field"), ("view=short", "/view", "summary"),
    ("sort=colour", "/sort", "must be one of -created, created"), ("created_from=yesterday", "/created_from", "a day"),
    ("created_to=2026-02-31", "/created_to", "a day"), ("created_to=2026-02-01x", "/created_to", "a day"),
    ("created_to=2026-02-01T01:02:03", "/created_to", "a time"),
    ("created_to=2026-02-01T01:02:03.5%2B24:00", "/created_to", "a time"),
    ("created_to=2026-02-01T01:02:03.Z", "/created_to", "a time"),
    ("fields=id&view=summary", "/view", "fields"), ("colour=red", "/colour", ""),
    ("limit=1&limit=2", "/limit", "comes twice"), ("sort=created&sort=-created", "/sort", "comes twice")])
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
    found = next(run for run in items(service, "/v1/runs?view=summary&trajectory=lists-other")
                 if run["id"] == lab["id"])
    result = lab["result"]
    assert found["result"]["delta"] == result["delta"] and found["result"]["delta_interval"] == result["delta_interval"]
    assert "layers" in result and "layers" not in found["result"]
    kept = {name for name, value in result.items() if not isinstance(value, (list, dict))
            or isinstance(value, list) and len(value) == 2 and isinstance(value[0], float)}
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
    params = lab["params"]
    assert lab["names"] == {params["checkpoint"]: "lists-other/step7", params["evaluation"]["dataset"]: "lists"}
    assert items(service, "/v1/runs?view=summary&trajectory=lists-other")[0]["names"] == lab["names"]
    both = service.run("average", checkpoints=["lists/step1", "lists-other/step7"], name="lists-average",
                       into="lists-averages")
    assert (both["checkpoint_name"], both["trajectory"]) == (None, None), "of several trajectories none is named"
    assert {both["names"][id] for id in both["params"]["checkpoints"]} == {"lists/step1", "lists-other/step7"}
    assert both["names"][both["result"]["checkpoint"]] == "lists-averages/lists-average", "what it made has a name too"
    listed = next(run for run in items(service, "/v1/runs") if run["id"] == both["id"])
    assert listed["names"] == both["names"]
    for run in items(service, "/v1/runs"):  # in whatever order the database found them: the same bytes each time
        assert list(run["names"]) == sorted(run["names"])


def by_pages(service, address, key="name", limit=1):
    """What items have under `key`, read in pages of one; all pages together are what one page has."""
    found, whole = [], items(service, address)
    address += f"&limit={limit}"
    while address:
        page = service.get(address).json
        assert len(page["items"]) <= limit
        found += page["items"]
        address = page["next"]
    assert found == whole
    return [item[key] for item in found]


@pytest.mark.parametrize("query,expected", [
    ("trajectory=lists", ["last", "step1", "step5"]), ("trajectory=lists&sort=-created", ["last", "step1", "step5"]),
    ("trajectory=lists&sort=created", ["step5", "step1", "last"]),
    ("trajectory=lists&sort=step", ["step1", "step5", "last"]),
    ("trajectory=lists&sort=-step", ["last", "step5", "step1"]),
    ("trajectory=lists&sort=name", ["last", "step1", "step5"]),
    ("trajectory=lists&sort=-name", ["step5", "step1", "last"]),
    ("trajectory=lists&name=step*", ["step1", "step5"]), ("trajectory=lists&name=*t*", ["last", "step1", "step5"]),
    ("trajectory=lists&name=st_p1", []), ("trajectory=lists&name=step", []),
    ("tag=phase:decay&name=step*&trajectory=lists", ["step5"]),
    ("tag=phase&trajectory=lists&sort=created", ["step5", "step1"]),
    ("tag=phase:decay&tag=seed:1", ["step5"]), ("tag=seed:2", []), ("trajectory=lists&step_from=2", ["step5"]),
    ("trajectory=lists&step_to=1", ["step1"]),
    ("trajectory=lists&step_from=1&step_to=5&sort=step", ["step1", "step5"]),
])
def test_checkpoints_are_filtered_and_sorted(service, lab, query, expected):
    assert by_pages(service, f"/v1/checkpoints?{query}") == expected


def test_checkpoints_of_all_trajectories_have_no_step_order(service, lab):
    for order in ("step", "-name"):
        answer = service.get(f"/v1/checkpoints?sort={order}")
        assert answer.status == 422 and answer.pointers == ["/sort"] and "trajectory" in answer.json["detail"]


def test_a_page_whose_last_item_is_gone_is_not_the_end(service, lab):
    for name in ("a", "b", "c"):
        service.checkpoint(service.files / "lists" / "0", "lists-gone", name)
    page = service.get("/v1/checkpoints?trajectory=lists-gone&sort=name&limit=1").json
    assert service.request("DELETE", "/v1/checkpoints/lists-gone%2Fa").status == 204
    answer = service.get(page["next"])
    assert answer.status == 422 and answer.pointers == ["/cursor"], answer.body


@pytest.mark.parametrize("order, change", [("step", {"step": 9}), ("-step", {"step": 0}), ("name", {"name": "z"}),
                                           ("-name", {"name": "A"}), ("measurements", {"step": 9})])
def test_a_page_whose_last_item_has_moved_is_not_the_end(service, lab, order, change):
    """Behind its new place the next page would begin with the last of all, and those between were nowhere."""
    trajectory = f"lists-moved-{order}"
    model = models.write_llama(service.files / "lists" / trajectory, seed=48101)
    for step, name in ((1, "a"), (2, "b"), (3, "c"), (4, "d")):
        service.checkpoint(model, trajectory, name, step=step)
    if order == "measurements":
        service.post("/v1/datasets", {"name": trajectory, "sequences": models.rows(2, 8)})
        assert service.run("evaluate", checkpoint=f"{trajectory}/a", dataset=trajectory)["state"] == "succeeded"
        address = f"/v1/measurements?trajectory={trajectory}"
    else:
        address = f"/v1/checkpoints?trajectory={trajectory}&sort={order}"
    page = service.get(f"{address}&limit=2").json
    last = page["items"][-1]
    moved = f"/v1/checkpoints/{last['checkpoint'] if 'checkpoint' in last else last['id']}"
    assert service.request("PATCH", moved, {"tags": {"note": "stays"}}).status == 200
    assert len(service.get(page["next"]).json["items"]) == 2
    assert service.request("PATCH", moved, change).status == 200
    answer = service.get(page["next"])
    assert answer.status == 422 and answer.pointers == ["/cursor"], answer.body
    assert len(by_pages(service, address, "tags")) == 4


def test_cursors_of_versions_before_are_taken(service, lab):
    """They had the number alone."""
    page = service.get("/v1/checkpoints?trajectory=lists&sort=step&limit=1").json
    number, mark = re.search(r"cursor=(\d+)\.([0-9a-f]{8})&", page["next"]).groups()
    assert service.get(page["next"].replace(f".{mark}", "")).json["items"] == service.get(page["next"]).json["items"]
    for cursor in (f"{number}.", f"{number}.{mark[1:]}", f"{number}.{mark}0", f".{mark}", f"{number}.{mark.upper()}x"):
        answer = service.get(f"/v1/checkpoints?trajectory=lists&sort=step&cursor={cursor}")
        assert answer.status == 422 and "a list gave" in answer.json["detail"], answer.body


@pytest.fixture(scope="module")
def small(service, lab):
    """A gate, a webhook and a token in a service of their own kind; the worker is there."""
    made = [service.post("/v1/gates", {"name": "lists-gate", "trajectory": "lists", "rules": [{"integrity": "clean"}]}),
            service.post("/v1/webhooks", {"url": "https://example.org/lists", "secret": "a secret of lists"})]
    assert all(answer.status == 201 for answer in made), [answer.body for answer in made]
    yield
    assert service.request("DELETE", "/v1/gates/lists-gate").status == 204
    assert service.request("DELETE", f"/v1/webhooks/{made[1].json['id']}").status == 204


@pytest.mark.parametrize("what", ["gates", "webhooks", "workers"])
def test_short_lists_have_fields_and_views_too(service, small, what):
    whole, summary = items(service, f"/v1/{what}"), items(service, f"/v1/{what}?view=summary")
    assert whole, "there is one to look at"
    assert [list(item) for item in items(service, f"/v1/{what}?fields=id")] == [["id"]] * len(whole)
    names = list(whole[0])
    assert [list(item) for item in items(service, f"/v1/{what}?fields=" + ",".join(names))] == [names] * len(whole)
    for short, long in zip(summary, whole, strict=True):
        assert {"id"} < set(short) < set(long) and (what == "workers"  # what these have changes from look to look
                                                    or all(short[name] == long[name] for name in short))
    for query, pointer in (("fields=id,colour", "/fields"), ("view=short", "/view"), ("sort=name", "/sort")):
        answer = service.get(f"/v1/{what}?{query}")
        assert answer.status == 422 and answer.pointers == [pointer], answer.body


def test_what_a_run_left_has_fields_and_views_too(service, lab):
    run = service.run("evaluate", checkpoint="lists/step5", dataset="lists", sequence_length=None)
    address = f"/v1/runs/{run['id']}/artifacts"
    whole = items(service, address)
    assert whole and all(set(item) == {"name", "bytes", "sha256", "media_type"} for item in whole)
    assert items(service, address + "?view=summary") == [{key: one[key] for key in ("name", "bytes")} for one in whole]
    assert items(service, address + "?fields=sha256,name") == [{key: one[key] for key in ("sha256", "name")}
                                                              for one in whole]
    for query, pointer in (("fields=colour", "/fields"), ("view=short", "/view"), ("limit=1", "/limit")):
        answer = service.get(f"{address}?{query}")
        assert answer.status == 422 and answer.pointers == [pointer], answer.body


def test_gates_are_found_by_their_names(service, small):
    assert [gate["name"] for gate in items(service, "/v1/gates?name=lists-*")] == ["lists-gate"]
    assert items(service, "/v1/gates?name=lists") == []


@pytest.mark.parametrize("what", [*LISTS, *SMALL])
@pytest.mark.parametrize("accept,status", [
    ("application/json", 200), ("*/*", 200), ("text/html, application/*;q=0.5", 200), ("text/csv", 406),
    ("application/x-ndjson, text/csv;q=0.5", 406), ("application/json;q=0, text/csv", 406)])
def test_a_list_is_json_or_406(service, lab, what, accept, status):
    answer = service.get(f"/v1/{what}", {"Accept": accept})
    assert answer.status == status and (status == 200 or answer.json["code"] == "not_acceptable"), answer.body


@pytest.mark.parametrize("what,first,other", [("trajectories", "lists", "lists-other"),
                                              ("sweeps", "lists", "lists-second"), ("datasets", "lists", "lists-more")])
def test_names_sort_and_filter(service, lab, what, first, other):
    if what == "datasets":
        service.sequences(other, models.rows(2, 16))
    if what == "sweeps":
        service.post("/v1/sweeps",
                     {"name": other, "kind": "evaluate", "base": {"dataset": "lists", "sequence_length": None},
                      "grid": {"checkpoint": ["lists/step1"]}})
    both = f"/v1/{what}?name=lists*&created_from=2020-01-01"
    names = by_pages(service, f"{both}&sort=name", limit=2)
    assert names == sorted(names) and {first, other} <= set(names)
    assert by_pages(service, f"{both}&sort=-name", limit=2) == names[::-1]
    assert by_pages(service, f"{both}&sort=created", limit=2) == by_pages(service, both, limit=2)[::-1]
    assert by_pages(service, f"/v1/{what}?name={other}") == [other]


def test_an_unknown_kind_of_runs_is_refused(service):
    answer = service.get("/v1/runs?kind=quantise")
    assert answer.status == 422 and answer.pointers == ["/kind"] and "evaluate, quantize" in answer.json["detail"]


@pytest.mark.parametrize("query,expected", [("step_from=2&step_to=6", {"step5"}), ("tag=phase:stable", {"step1"}),
                                            ("name=la*", {"last"}), ("tag=nothing", set())])
def test_runs_are_filtered_by_what_they_read(service, lab, query, expected):
    assert set(by_pages(service, f"/v1/runs?sweep=lists&{query}", "checkpoint_name")) == expected


@pytest.mark.parametrize("narrow", ["sweep=lists", "trajectory=lists", "kind=evaluate&name=*"])
def test_runs_sort_by_their_creation_and_end(service, lab, narrow):
    runs = items(service, f"/v1/runs?{narrow}&limit=1000")
    assert len(runs) >= 3
    assert by_pages(service, f"/v1/runs?{narrow}&sort=created", "id", limit=2) == [run["id"] for run in runs][::-1]
    ends = by_pages(service, f"/v1/runs?{narrow}&sort=finished", "finished_at", limit=2)
    assert (ends == sorted(run["finished_at"] for run in runs if run["finished_at"])
            and by_pages(service, f"/v1/runs?{narrow}&sort=-finished", "finished_at", limit=2) == ends[::-1])


@pytest.mark.parametrize("what", LISTS)
def test_lists_are_cut_by_creation(service, lab, what):
    whole = items(service, f"/v1/{what}?limit=1000")
    today = datetime.date.fromisoformat(whole[0]["created_at"][:10])
    day = datetime.timedelta(1)
    assert items(service, f"/v1/{what}?limit=1000&created_from={today - day}&created_to={today + day}") == whole
    assert items(service, f"/v1/{what}?created_from={today + day}") == []
    assert items(service, f"/v1/{what}?created_to=2020-01-01") == []
    second = whole[-1]["created_at"][:19] + "Z"
    late = {item["id"] for item in items(service, f"/v1/{what}?limit=1000&created_from={second}")}
    early = {item["id"] for item in items(service, f"/v1/{what}?limit=1000&created_to={second}")}
    own = whole[-1]["created_at"]  # with its milliseconds
    other = (datetime.datetime.fromisoformat(own) + datetime.timedelta(hours=2)).isoformat(
        timespec="milliseconds")[:23] + "%2B02:00"
    for moment in (own, other):
        since = items(service, f"/v1/{what}?limit=1000&created_from={moment}")
        assert whole[-1]["id"] in {item["id"] for item in since}
        assert whole[-1]["id"] not in {item["id"] for item in items(service, f"/v1/{what}?created_to={moment}")}
    assert whole[-1]["id"] in late and late | early == {item["id"] for item in whole} and not late & early
