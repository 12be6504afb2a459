"""GET /v1/measurements: a row for each checkpoint and series, and what a reader may ask of it."""

import csv
import io
import json
import subprocess

import models
import pytest

STEPS = 5


@pytest.fixture(scope="module")
def measured(service):
    """Five checkpoints, evaluated once, quantized by two methods and one of them on two evaluations."""
    for i in range(STEPS):
        service.checkpoint(models.write_llama(service.files / "table" / str(i), seed=700 + i),
                           "table", f"step{i}", step=i, tokens=10 * i, learning_rate=0.1 / (i + 1),
                           tags={"phase": "decay" if i > 2 else "constant", "seed": 1})
    whole = service.sequences("table-whole", models.rows(6, 32))["name"]
    other = service.sequences("table-other", models.rows(4, 32, seed=5))["name"]
    base = {"method": {"name": "rtn", "group_size": 32}, "evaluation": {"dataset": whole, "sequence_length": None}}
    grid = {"checkpoint": {"trajectory": "table"}, "method.bits": [3, 4]}
    sweeps = [{"name": "table-a", "kind": "quantize", "base": base, "grid": grid},
              {"name": "table-b", "kind": "quantize",
               "base": {"method": {**base["method"], "bits": 4}, "evaluation": {"sequence_length": None}},
               "grid": {"checkpoint": {"trajectory": "table"}, "evaluation.dataset": [other]}},
              {"name": "table-c", "kind": "evaluate", "base": {"dataset": whole, "sequence_length": None},
               "grid": {"checkpoint": {"trajectory": "table"}}}]
    for sweep in sweeps:
        assert service.post("/v1/sweeps", sweep).status == 202
        for run in service.get(f"/v1/runs?sweep={sweep['name']}").json["items"]:
            assert service.wait(run["id"])["state"] == "succeeded"
    return {"runs": service.get("/v1/runs?trajectory=table&limit=1000").json["items"]}


def rows_of(service, query=""):
    return service.get(f"/v1/measurements?trajectory=table&limit=1000{query}").json["items"]


def test_rows_are_the_runs_results(service, measured):
    rows = rows_of(service)
    assert len(rows) == STEPS * 5  # full precision on two datasets, 3 and 4 bits, 4 bits on the other
    found = {(row["checkpoint"], row["bits"], row["dataset"]): row for row in rows}
    for run in (run for run in measured["runs"] if run["kind"] == "quantize"):
        result, evaluation = run["result"], run["params"]["evaluation"]["dataset"]
        dataset = service.get(f"/v1/datasets/{evaluation}").json["name"]
        row = found[run["params"]["checkpoint"], run["params"]["method"]["bits"], dataset]
        assert row["delta"] == result["delta"] and [row["delta_low"], row["delta_high"]] == result["delta_interval"]
        assert row["run"] == run["id"] and row["measured_at"] == run["finished_at"]
        assert found[run["params"]["checkpoint"], None, dataset]["loss_fp"] == result["loss_fp"]
        assert row["loss_fp"] is None and row["protocol_id"] == result["protocol_id"]
    for row in rows:
        assert (row["trajectory"] == "table" and row["checkpoint_name"] == f"step{row['step']}"
                and row["tokens"] == 10 * row["step"])
        assert row["tags"] == {"phase": "decay" if row["step"] > 2 else "constant", "seed": 1}
    assert [row["step"] for row in rows] == sorted(row["step"] for row in rows)


def test_labels_say_in_words_what_differs(service, measured):
    labels = {row["series"]: row["label"] for row in rows_of(service)}
    assert set(labels.values()) == {"full precision, on table-whole", "full precision, on table-other", "rtn 3-bit g32",
                                    "rtn 4-bit g32, on table-whole", "rtn 4-bit g32, on table-other"}
    # A page, or a filter, does not change what a series is called.
    assert {row["label"] for row in rows_of(service, "&bits=4&dataset=table-other")} == {
        "rtn 4-bit g32, on table-other"}


def test_curves_are_told_apart_in_words_too(service, measured):
    def labels(query, field="label"):
        return {s[field] for s in service.get(f"/v1/curves?trajectory=table&{query}").json["series"]}

    several = {"rtn 3-bit g32", "rtn 4-bit g32, on table-whole", "rtn 4-bit g32, on table-other"}
    assert labels("metric=delta") == several and labels("metric=delta", "method_label") == {
        "rtn 3-bit g32", "rtn 4-bit g32"}
    assert labels("metric=delta&dataset=table-other") == {"rtn 4-bit g32"}
    assert labels("metric=loss_fp") == {"full precision, on table-whole", "full precision, on table-other"}
    assert labels("metric=loss_fp&dataset=table-other") == {""}
    assert labels("metric=learning_rate") == {""} and labels("metric=learning_rate", "evaluated_on") == {None}
    assert all(words.startswith(("table-whole: ", "table-other: ")) for words in labels("metric=kl", "evaluated_on"))


def test_several_trajectories_are_asked_at_once(service, measured):
    names = ["table", "beside-a", "beside-b"]
    for i, name in enumerate(names[1:]):
        service.checkpoint(service.files / "table" / str(i), name, "one", step=1, learning_rate=0.1)
    asked = "&".join(f"trajectory={name}" for name in names)
    curves = service.get(f"/v1/curves?{asked}&metric=learning_rate").json["series"]
    assert [series["trajectory"] for series in curves] == names
    rows = service.get(f"/v1/measurements?{asked}&fields=trajectory,step").json["items"]
    assert {row["trajectory"] for row in rows} == set(names)  # of the same content: what was measured is shared
    for path in ("curves?", "measurements?", "correlations?x=step&y=delta&"):
        answer = service.get(f"/v1/{path}" + "&".join(["trajectory=table"] * 33))
        assert answer.status == 422 and "at most 32" in answer.json["errors"][0]["detail"], answer.body


def test_a_trajectory_that_is_named_twice_is_asked_once(service, measured):
    """By its name twice, and by its id: the rows of one, on pages that end."""
    again = f"trajectory=table&trajectory=table&trajectory={service.get('/v1/trajectories/table').json['id']}"
    address, rows = f"/v1/measurements?{again}&limit=2", []
    for _ in range(STEPS):
        page = service.get(address).json
        rows += page["items"]
        address = page["next"]
        if address is None:
            break
    assert address is None and rows == rows_of(service)
    twice, once = (service.get(f"/v1/curves?{asked}&metric=delta").json for asked in (again, "trajectory=table"))
    assert twice == once


def test_pages_hold_whole_checkpoints_and_join_to_all(service, measured):
    address, rows = "/v1/measurements?trajectory=table&limit=2&fields=step,series,delta", []
    while address:
        answer = service.get(address)
        page = answer.json
        assert 1 <= len({row["step"] for row in page["items"]}) <= 2
        assert not {row["step"] for row in page["items"]} & {row["step"] for row in rows}
        rows += page["items"]
        address = page["next"]
        assert answer.headers["Link"] == (f'<{address}>; rel="next"' if address else None)
    assert rows == rows_of(service, "&fields=step,series,delta") and len(rows) == 3 * STEPS


def test_pages_of_many_columns_go_on(service, measured):
    """The next page's address has them all, escaped, as long as it is one that the server takes."""
    metrics = [metric["name"] for metric in service.get("/v1/metrics").json["items"] if metric["kinds"]]
    columns = ",".join(["step", *(metric + part for metric in metrics for part in ("", "_low"))])
    address, rows = f"/v1/measurements?trajectory=table&limit=2&fields={columns}", []
    assert len(columns) > 1024
    while address:
        answer = service.get(address)
        assert answer.status == 200, answer.body
        rows += answer.json["items"]
        address = answer.json["next"]
    assert rows == rows_of(service, f"&fields={columns}") and list(rows[0]) == columns.split(",")
    refused = service.get(f"/v1/measurements?trajectory=table&limit=1&name={3000 * '*'}")
    assert refused.status == 413 and "the next page would be longer than 8192 bytes" in refused.json["detail"]


def test_rows_are_cut_by_when_they_were_measured(service, measured):
    times = sorted({row["measured_at"][:19] + "Z" for row in rows_of(service)})
    for time in (times[0], times[-1]):
        late, early = rows_of(service, f"&measured_from={time}"), rows_of(service, f"&measured_to={time}")
        assert {row["measured_at"][:19] + "Z" < time for row in late} <= {False}
        assert {row["measured_at"][:19] + "Z" < time for row in early} <= {True}
        # A row shows its newest run: what an earlier one measured of it may be left of the row on the other side.
        assert len(late) + len(early) >= 25 and late
    answer = service.get("/v1/measurements?measured_to=soon")
    assert answer.status == 422 and answer.pointers == ["/measured_to"]


def test_falling_steps_are_the_same_rows(service, measured):
    rows = rows_of(service, "&fields=step,series,delta")
    address, falling = "/v1/measurements?trajectory=table&limit=2&fields=step,series,delta&sort=-step", []
    while address:
        page = service.get(address).json
        falling += page["items"]
        address = page["next"]
    assert [row["step"] for row in falling] == sorted((row["step"] for row in rows), reverse=True)
    assert sorted(rows, key=lambda row: -row["step"]) == falling, "and the series of a step in the same order"
    assert rows_of(service, "&fields=step,series,delta&sort=step") == rows
    for query, pointer in (("sort=name", "/sort"), ("sort=-step&updated_since=0", "/sort")):
        answer = service.get(f"/v1/measurements?{query}")
        assert answer.status == 422 and answer.pointers == [pointer], answer.body


def test_forms_agree(service, measured):
    rows = rows_of(service)
    answer = service.get("/v1/measurements?trajectory=table", {"Accept": "text/csv"})
    assert answer.headers.get_content_type() == "text/csv"
    for accept in ("text/csv", "application/json", "application/x-ndjson"):
        varies = service.get("/v1/measurements?trajectory=table", {"Accept": accept}).headers.get_all("Vary")
        named = [word.strip() for value in varies for word in value.split(",")]
        assert "Accept" in named and len(named) == len(set(named)), named
    table = list(csv.DictReader(io.StringIO(answer.body.decode())))
    assert list(table[0]) == list(rows[0]) and len(table) == len(rows)
    for text, row in zip(table, rows):
        for name, value in row.items():
            read = (json.loads(text[name]) if name == "tags" else type(value)(text[name]) if value is not None
                    else text[name] or None)
            assert read == value, name
    lines = service.get("/v1/measurements?trajectory=table", {"Accept": "application/x-ndjson"})
    assert lines.headers.get_content_type() == "application/x-ndjson"
    assert [json.loads(line) for line in lines.body.splitlines()] == rows
    assert service.get("/v1/measurements?trajectory=table&format=csv",
                       {"Accept": "application/json"}).body == answer.body
    paged = service.get("/v1/measurements?trajectory=table&format=csv&limit=2")
    assert len(list(csv.DictReader(io.StringIO(paged.body.decode())))) == 10 and 'rel="next"' in paged.headers["Link"]
    assert service.get("/v1/measurements?trajectory=table", {"Accept": "application/vnd.apache.parquet"}).status == 406
    nothing = service.get("/v1/measurements?trajectory=table&method=awq&format=ndjson")
    assert nothing.status == 200 and nothing.body == b""


def test_fields_choose_columns_in_their_order(service, measured):
    rows = rows_of(service, "&fields=delta_high,step,delta,label")
    assert len(rows) == 3 * STEPS and all(list(row) == ["delta_high", "step", "delta", "label"] for row in rows)
    assert all(row["delta"] <= row["delta_high"] for row in rows)
    both = rows_of(service, "&fields=step,loss,delta")
    assert len(both) == 4 * STEPS and all((row["loss"] is None) != (row["delta"] is None) for row in both)


def test_metric_selects_the_rows_whatever_columns_are_shown(service, measured):
    """A row has the numbers of its columns, too where another metric selected it: null is what was not measured."""
    whole = {(row["checkpoint"], row["series"]): row for row in rows_of(service)}
    shown = ("checkpoint", "series", "delta", "loss", "kl_low")
    for metric, count in (("delta", 3), ("loss", 1), ("loss_fp", 2)):
        rows = rows_of(service, f"&metric={metric}&fields={','.join(shown)}")
        assert len(rows) == count * STEPS
        for row in rows:
            of = whole[row["checkpoint"], row["series"]]
            assert of[metric] is not None and row == {name: of[name] for name in shown}
    changed = rows_of(service, "&updated_since=0&metric=loss&fields=loss,loss_fp")
    assert len(changed) == STEPS and all(None not in row.values() for row in changed)
    assert list(rows_of(service, "&metric=loss&fields=step,label")[0]) == ["step", "label"]


@pytest.mark.parametrize("query,expected", [
    ("&bits=3", STEPS), ("&method=rtn", 3 * STEPS), ("&method=gptq", 0), ("&metric=delta", 3 * STEPS),
    ("&metric=loss&metric=delta", 4 * STEPS), ("&dataset=table-other", 2 * STEPS), ("&checkpoint=table/step3", 5),
    ("&step_from=3", 10), ("&step_to=0", 5), ("&step_from=1&step_to=2&bits=3", 2), ("&tag=phase:decay", 10),
    ("&tag=phase", 25), ("&tag=seed:1&tag=phase:constant", 15), ("&tag=seed:2", 0), ("&tag=nothing", 0),
    ("&name=step3", 5), ("&name=step*&bits=3", STEPS), ("&name=ste", 0),
    ("&measured_from=2020-01-01", 25), ("&measured_to=2020-01-01", 0)])
def test_filters(service, measured, query, expected):
    assert len(rows_of(service, query)) == expected


def test_filters_by_protocol(service, measured):
    protocol = rows_of(service, "&dataset=table-other")[0]["protocol_id"]
    rows = rows_of(service, f"&protocol={protocol}")
    assert len(rows) == 2 * STEPS and {row["dataset"] for row in rows} == {"table-other"}


@pytest.mark.parametrize("query,field", [
    ("fields=dleta", "fields"), ("fields=", "fields"),
    ("fields=step,step", "fields"), ("fields=delta_middle", "fields"),
    ("fields=checkpoint_name,learning_rate_low", "fields"),
    ("metric=dleta", "metric"), ("metric=learning_rate", "metric"),
    ("colour=red", "colour"), ("bits=x", "bits"), ("step_from=-1", "step_from"),
    ("format=parquet", "format"), ("tag=:x", "tag"), ("tag=", "tag"), ("limit=0", "limit"), ("cursor=x", "cursor")])
def test_what_is_not_known_is_refused(service, query, field):
    answer = service.get(f"/v1/measurements?{query}")
    assert answer.status == 422 and answer.pointers == [f"/{field}"], answer.body


def test_unknown_columns_are_told_what_there_is(service):
    assert 'did you mean \\"delta\\"' in service.get("/v1/measurements?fields=dleta").body.decode()
    detail = service.get("/v1/measurements?fields=flavour").json["detail"]
    assert "checkpoint_name" in detail and "measured_at" in detail and "/v1/metrics" in detail
    detail = service.get("/v1/measurements?fields=step,learning_rate_high").json["detail"]
    assert 'no column "learning_rate_high": learning_rate is a property of the checkpoint' in detail


def test_unknown_references_are_404(service):
    assert service.get("/v1/measurements?trajectory=nothing").status == 404
    assert service.get("/v1/measurements?checkpoint=nothing").status == 404


def test_the_newest_measurement_counts(service, measured):
    run = next(run for run in measured["runs"] if run["kind"] == "quantize")
    again = service.wait(
        service.post("/v1/runs", {"kind": "quantize", "params": run["params"], "force": True}).json["id"])
    rows = rows_of(service, f"&checkpoint={run['params']['checkpoint']}&bits={run['params']['method']['bits']}")
    assert again["id"] in {row["run"] for row in rows} and len(rows_of(service)) == 5 * STEPS


def test_checkpoints_of_the_same_content_share_measurements(service, measured):
    copy = service.checkpoint(models.write_llama(service.files / "table-twin", seed=700), "table-twin", "copy", step=9)
    rows = service.get("/v1/measurements?trajectory=table-twin").json["items"]
    assert len(rows) == 5 and all(row["checkpoint"] == copy["id"] and row["step"] == 9 for row in rows)
    assert {row["delta"] for row in rows} == {row["delta"] for row in rows_of(service, "&step_to=0")}
    assert {row["series"] for row in rows} == {row["series"] for row in rows_of(service)}
    curve = service.get("/v1/curves?trajectory=table-twin&metric=delta&x=step").json["series"]
    assert sorted(point["y"] for series in curve for point in series["points"]) == sorted(
        row["delta"] for row in rows if row["delta"] is not None)
    assert {point["checkpoint"] for series in curve for point in series["points"]} == {copy["id"]}


def test_a_page_after_a_checkpoint_that_is_gone_is_refused(service, measured):
    for i in range(2):
        service.checkpoint(models.write_llama(service.files / "table-gone" / str(i), seed=700 + i), "table-gone",
                           f"step{i}", step=i)
    address = service.get("/v1/measurements?trajectory=table-gone&limit=1").json["next"]
    assert service.request("DELETE", "/v1/checkpoints/table-gone%2Fstep0").status == 204
    answer = service.get(address)
    assert answer.status == 422 and answer.pointers == ["/cursor"]


def test_a_series_that_appears_meanwhile_has_its_label(service):
    """Rows and labels are of one moment: who polls while runs end never sees a row without a label."""
    service.checkpoint(models.write_llama(service.files / "appearing", seed=790), "appearing", "a", step=1)
    data = service.sequences("appearing-data", models.rows(4, 32))["name"]
    methods = [{"name": "rtn", "bits": bits, "group_size": size} for bits in (2, 3, 4, 8) for size in (8, 16, 32)]
    for method in methods:
        assert service.post("/v1/runs", {"kind": "quantize", "params": {
            "checkpoint": "appearing/a", "method": method,
            "evaluation": {"dataset": data, "sequence_length": None}}}).status == 202
    rows = []
    while len(rows) <= len(methods):  # and full precision
        rows = service.get("/v1/measurements?trajectory=appearing&fields=series,label").json["items"]
        assert all(row["label"] for row in rows), rows
    assert {row["series"]: row["label"] for row in rows} == {
        row["series"]: row["label"] for row in service.get("/v1/measurements?trajectory=appearing").json["items"]}


def test_a_measurement_without_a_checkpoint_is_kept_once(service, measured):
    """NULL is a checkpoint like any other for this: a second row would count twice."""
    insert = ("insert into measurements (run, epoch, checkpoint, metric, value, label, dataset, protocol)"
              f" values ('{measured['runs'][0]['id']}', 1, null, 'once', 1, '', '', '')")
    service.sql(insert)
    try:
        with pytest.raises(subprocess.CalledProcessError) as refused:
            service.sql(insert)
        assert "measurements_once" in refused.value.stderr
        assert service.sql("select count(*) from measurements where metric = 'once'") == [["1"]]
    finally:
        service.sql("delete from measurements where metric = 'once'")


def test_a_dataset_s_name_is_told_whole(service, name):
    """Its characters have up to four bytes, and a cut may not fall between them."""
    data = f"{name} ".ljust(100, "д")[:90]
    assert len(data.encode()) > 127
    service.checkpoint(models.write_llama(service.files / name, seed=9), name, "a", step=1)
    service.sequences(data, models.rows(2, 16))
    run = service.run("evaluate", checkpoint=f"{name}/a", dataset=data, sequence_length=None)
    assert run["state"] == "succeeded", run["error"]
    series = service.get(f"/v1/curves?trajectory={name}&metric=loss").json["series"]
    assert [one["dataset"] for one in series] == [data]


def test_methods_with_long_labels_are_series_of_their_own(service, name):
    """Labels have 127 characters, and tell series apart: what does not fit is told by the hash of the method."""
    data = service.sequences(name, models.rows(4, 32, seed=47111))["name"]
    service.checkpoint(models.write_llama(service.files / name, seed=47111), name, "step0", step=0)
    long = {"name": "gptq", "bits": 3, "group_size": 16, "sym": False, "desc_act": True, "damp_percent": 0.01,
            "activation_bits": 8, "rotation": "hadamard", "rotation_seed": 1, "embedding_bits": 8, "lm_head_bits": 8}
    methods = [long, {**long, "embedding_bits": 4, "lm_head_bits": 4},
               *({**long, "overrides": [{"pattern": f".*{linear}", "bits": 8}]} for linear in ("down_proj", "o_proj")),
               *({"name": "gptq", "bits": 3, "group_size": 16, "damp_percent": 0.1 + digit} for digit in (1e-7, 2e-7))]
    used = {"dataset": data, "sequence_length": None}
    deltas = []
    for method in methods:
        run = service.run("quantize", checkpoint=f"{name}/step0", method=method, calibration=used, evaluation=used)
        assert run["state"] == "succeeded", run["error"]
        deltas.append(run["result"]["delta"])
    series = service.get(f"/v1/curves?trajectory={name}&metric=delta").json["series"]
    assert sorted(point["y"] for one in series for point in one["points"]) == sorted(deltas)
    assert len({one["method_label"] for one in series}) == len(methods)
    assert all(len(one["method_label"]) < 128 for one in series)


def test_numbers_of_a_file_with_rounded_scales_are_a_series_of_their_own(service, name):
    """An export that stores float16 scales measures the model with these: the third digit of ΔQL is another one."""
    data = service.sequences(name, models.rows(4, 32, seed=47112))["name"]
    service.checkpoint(models.write_llama(service.files / name, seed=47112), name, "step0", step=0)
    used = {"dataset": data, "sequence_length": None}
    deltas = {}
    for export in (None, "gguf"):
        run = service.run("quantize", checkpoint=f"{name}/step0", method={"name": "rtn", "bits": 8, "group_size": 32},
                          evaluation=used, export=export)
        assert run["state"] == "succeeded", run["error"]
        deltas["rtn 8-bit g32" + (" float16 scales" if export else "")] = run["result"]["delta"]
    series = service.get(f"/v1/curves?trajectory={name}&metric=delta").json["series"]
    assert {one["method_label"]: [point["y"] for point in one["points"]] for one in series} == {
        label: [delta] for label, delta in deltas.items()}
    assert len(set(deltas.values())) == 2
