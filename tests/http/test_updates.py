"""GET /v1/measurements?updated_since=: the rows that are new or changed, in order, each once."""

import csv
import io

import models
import pytest
from streaming import Stream

KEY = ("checkpoint", "series")


@pytest.fixture(scope="module")
def course(service):
    """Three checkpoints of which the last has the first one's content; the first two are measured."""
    for i, seed in enumerate((41, 42, 41)):
        place = models.write_llama(service.files / "updates" / str(i), seed=seed)
        service.checkpoint(place, "updates", f"step{i}", step=i)
    service.sequences("updates-data", models.rows(4, 32))
    for i in range(2):
        measure(service, i, 4)
    return "updates"


def measure(service, step, bits):
    params = {"method": {"name": "rtn", "bits": bits, "group_size": 32},
              "evaluation": {"dataset": "updates-data", "sequence_length": None}}
    run = service.run("quantize", checkpoint=f"updates/step{step}", **params)
    assert run["state"] == "succeeded"
    return run["id"]


def updates(service, since, query="", trajectory="updates"):
    """Rows and cursor, over all pages."""
    page = service.get(f"/v1/measurements?trajectory={trajectory}&updated_since={since}{query}").json
    rows = page["items"]
    while page["next"]:
        page = service.get(page["next"]).json
        rows += page["items"]
    return rows, page["cursor"]


def keys(rows):
    return [tuple(row[field] for field in KEY) for row in rows]


def test_from_the_beginning_it_is_the_whole_table(service, course):
    table = service.get("/v1/measurements?trajectory=updates&limit=1000").json["items"]
    assert len(table) == 6  # full precision and 4 bits, also of the checkpoint with the same content
    for query in ("", "&limit=1", "&limit=2", "&limit=1000"):
        rows, _ = updates(service, 0, query)
        assert len(rows) == len(table)
        assert sorted(rows, key=str) == sorted(table, key=str)


def test_only_what_changed_since_and_each_row_once(service, course):
    _, before = updates(service, 0)
    assert updates(service, before) == ([], before)
    run = measure(service, 1, 3)
    rows, after = updates(service, before)
    # 3 bits is new; full precision was measured again on the way; 4 bits did not change.
    assert {(row["checkpoint_name"], row["bits"]) for row in rows} == {("step1", 3), ("step1", None)}
    assert {row["run"] for row in rows} == {run} and int(after) > int(before)
    measure(service, 0, 3)
    measure(service, 1, 2)
    rows, last = updates(service, before)
    assert len(keys(rows)) == len(set(keys(rows)))
    # In the order of the changes: step1 at 3 bits, then step0 and its twin, then step1 at 2 bits and full precision.
    told = [(row["checkpoint_name"], row["bits"]) for row in rows]
    assert told[0] == ("step1", 3) and set(told[-2:]) == {("step1", 2), ("step1", None)}
    assert set(told[1:-2]) == {(f"step{i}", bits) for i in (0, 2) for bits in (3, None)}
    assert updates(service, before, "&limit=1") == (rows, last)


def test_a_changed_checkpoint_changes_all_its_rows_and_no_others(service, course):
    _, before = updates(service, 0)
    assert service.request("PATCH", "/v1/checkpoints/updates%2Fstep1", {"tokens": 77}).status == 200
    rows, after = updates(service, before)
    assert {row["checkpoint_name"] for row in rows} == {"step1"} and {row["tokens"] for row in rows} == {77}
    assert sorted(keys(rows)) == sorted(keys(r for r in updates(service, 0)[0] if r["checkpoint_name"] == "step1"))
    # What happens elsewhere moves the cursor on all the same.
    service.checkpoint(models.write_llama(service.files / "updates-else", seed=9), "updates elsewhere", "step0")
    rows, later = updates(service, after)
    assert rows == [] and int(later) > int(after)


def trace(service, seed, checkpoint="updates/step0"):
    run = service.run("sharpness", checkpoint=checkpoint, dataset="updates-data", sequence_length=None,
                      estimators=["trace"], probes=2, seed=seed)
    assert run["state"] == "succeeded"
    return run["id"], run["result"]["trace"]


def test_rows_whose_newest_run_is_deleted_have_changed_and_show_the_run_before(service, course):
    (first, old), (second, new) = trace(service, 1), trace(service, 2)
    rows, before = updates(service, 0)
    assert {row["trace"] for row in rows} == {None, new} and old != new
    for run, value in ((second, old), (first, None)):
        assert service.request("DELETE", f"/v1/runs/{run}").status == 204
        rows, after = updates(service, before)
        table = service.get("/v1/measurements?trajectory=updates&limit=1000").json["items"]
        kept = [row for row in table if row["checkpoint_name"] != "step1"]
        assert sorted(rows, key=str) == sorted(kept, key=str)  # of the checkpoint, and of the one of the same content
        assert {row.get("trace") for row in rows} - {None} == {value} - {None}
        before = after
    asked = service.get(f"/v1/runs/{measure(service, 1, 8)}").json
    again = service.post("/v1/runs", {"kind": "quantize", "params": asked["params"], "force": True}).json["id"]
    assert service.wait(again)["state"] == "succeeded"
    _, before = updates(service, 0)
    assert service.request("DELETE", f"/v1/runs/{asked['id']}").status == 204
    assert updates(service, before)[0] == []  # none of the newest numbers was its


def test_a_last_page_that_is_full_ends_where_the_log_does(service, course, name):
    """Otherwise the changes behind its last row, such as the deletion of what was never measured, are told again."""
    place = models.write_llama(service.files / name, seed=48901)
    service.checkpoint(place, name, "one", step=1)
    _, since = updates(service, 0, trajectory=name)
    service.checkpoint(place, name, "two", step=2)
    service.checkpoint(place, name, "three", step=3)
    assert service.request("DELETE", f"/v1/checkpoints/{name}%2Fthree").status == 204
    _, end = updates(service, since, trajectory=name)
    assert updates(service, since, "&limit=1", trajectory=name)[1] == end
    with Stream(service.port, f"/v1/events?after={end}&kind=checkpoint&follow=false") as stream:
        assert list(stream.events()) == []


@pytest.mark.parametrize("at_once", [False, True])
def test_rows_that_show_numbers_of_a_deleted_checkpoint_have_changed(service, course, name, at_once):
    """One is measured, and others of its content show that; one after another is deleted, or the trajectory."""
    owner, twin = f"{name}-owner", f"{name}-twin"
    place = models.write_llama(service.files / name, seed=471 + at_once)
    for trajectory, checkpoints in ((owner, 3), (twin, 2)):
        for i in range(checkpoints):
            service.checkpoint(place, trajectory, f"step{i}", step=i)
    assert service.run("evaluate", checkpoint=f"{twin}/step1", dataset="updates-data",
                       sequence_length=None)["state"] == "succeeded"
    values = [trace(service, 5 + i, f"{owner}/step{i}")[1] for i in range(2)]
    assert values[0] != values[1]

    def delete(path, expected):
        """Deletes; `expected`: the traces that the rows of the others have then, None for none of them changed."""
        _, before = updates(service, 0, trajectory=twin)
        assert service.request("DELETE", path).status == 204
        rows, after = updates(service, before, trajectory=twin)
        assert [row.get("trace") for row in rows] == expected
        with Stream(service.port, f"/v1/events?after={before}&kind=checkpoint&follow=false") as stream:
            told = [(data["trajectory"], data["checkpoint_name"], data["action"]) for _, _, data in stream.events()]
        assert told[-2:] == [(twin, "step0", "changed"), (twin, "step1", "changed")] or not expected
        return told

    assert delete(f"/v1/checkpoints/{owner}%2Fstep2", []) == [(owner, "step2", "deleted")]  # it was not measured
    if at_once:
        told = delete(f"/v1/trajectories/{owner}", [None, None])
        assert sorted(told[:-2]) == [(owner, f"step{i}", "deleted") for i in range(2)]
    else:
        told = delete(f"/v1/checkpoints/{owner}%2Fstep1", [values[0], values[0]])
        assert told[:-2] == [(owner, "step1", "deleted"), (owner, "step0", "changed")]
        assert len(delete(f"/v1/checkpoints/{owner}%2Fstep0", [None, None])) == 3
    assert service.sql("select count(*) from measured_gone") == [["0"]]


def test_as_lines_and_as_csv_the_cursor_is_a_header(service, course):
    fields = "&fields=checkpoint,series,delta"
    rows, cursor = updates(service, 0, fields)
    answer = service.get(f"/v1/measurements?trajectory=updates&updated_since=0&format=csv{fields}")
    assert answer.headers["Deltaq-Cursor"] == cursor
    found = list(csv.DictReader(io.StringIO(answer.body.decode())))
    assert keys(found) == keys(rows) and any(row["delta"] for row in found)
    lines = service.get(f"/v1/measurements?trajectory=updates&updated_since={cursor}&format=ndjson")
    assert lines.body == b"" and lines.headers["Deltaq-Cursor"] == cursor


@pytest.mark.parametrize("since,status", [("x", 422), ("-1", 422), ("", 422), ("99999999999", 410)])
def test_cursors_that_no_answer_gave(service, course, since, status):
    assert service.get(f"/v1/measurements?updated_since={since}").status == status
