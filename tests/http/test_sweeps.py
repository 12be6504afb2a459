import concurrent.futures
import contextlib
import csv
import io
import json
import subprocess

import models
import pytest
from test_watch import until


@pytest.fixture(scope="module")
def swept(service):
    """A trajectory of three checkpoints, quantized by round-to-nearest at 3 and 4 bits."""
    for i in range(3):
        service.checkpoint(models.write_llama(service.files / "sweeps" / str(i), seed=44000 + i), "sweeps", f"step{i}",
                           step=i, tokens=10 * i, learning_rate=0.1 / (i + 1))
    data = service.sequences("sweeps", models.rows(4, 32))
    body = {"name": "sweep", "kind": "quantize", "base": {
        "method": {"name": "rtn", "group_size": 32}, "evaluation": {"dataset": data["name"], "sequence_length": None}},
            "grid": {"checkpoint": {"trajectory": "sweeps"}, "method.bits": [3, 4]}}
    answer = service.post("/v1/sweeps", body)
    assert answer.status == 202 and answer.json["runs"]["total"] == 6, answer.body
    for run in service.get("/v1/runs?sweep=sweep").json["items"]:
        assert service.wait(run["id"])["state"] == "succeeded"
    return body


def test_counts_by_state(service, swept):
    found = service.get("/v1/sweeps/sweep").json
    assert found["runs"] == {"queued": 0, "running": 0, "succeeded": 6, "failed": 0, "cancelled": 0, "total": 6}
    assert found["base"] == swept["base"] and found["grid"] == swept["grid"]
    assert found["id"] in [s["id"] for s in service.get("/v1/sweeps").json["items"]]


def test_the_same_again_is_200_another_is_409_equal_runs_are_shared(service, swept):
    assert service.post("/v1/sweeps", swept).status == 200
    assert service.post("/v1/sweeps", {**swept, "grid": {**swept["grid"], "method.bits": [4]}}).status == 409
    other = service.post("/v1/sweeps", {**swept, "name": "shared"})
    assert other.status == 202 and other.json["runs"]["succeeded"] == 6


@pytest.mark.parametrize("change,pointers", [
    ({"kind": "dance"}, {"/kind"}),
    ({"grid": {"method.bits": 3}}, {"/grid/method.bits"}),
    ({"grid": {"method.bits": []}}, {"/grid/method.bits"}),
    ({"grid": {"checkpoint": {"trajectory": "nothing"}}}, {"/grid/checkpoint"}),
    ({"grid": {"checkpoint": {"trajectory": "sweeps"}, "method.bits": [3, 1]}}, {"/grid/method.bits"}),
    ({"grid": {"checkpoint": {"trajectory": "sweeps"}, "method.colour": [1]}}, {"/grid/method.colour"}),
    ({"grid": {"checkpoint": {"trajectory": "sweeps"}, "evaluation.max_sequences": list(range(1, 400))}},
     {"/grid/evaluation.max_sequences"}),
    ({"grid": {"checkpoint": {"trajectory": "sweeps"}, "method.name.x": [1]}}, {"/grid/method.name.x"}),
    ({"base": {}, "grid": {"checkpoint": {"trajectory": "sweeps"}}}, {"/base/method", "/base/evaluation"}),
])
def test_faults_are_told_in_terms_of_base_and_grid(service, swept, change, pointers):
    before = len(service.get("/v1/sweeps?limit=1000").json["items"])
    answer = service.post("/v1/sweeps", {**swept, "name": "bad", **change})
    assert answer.status == 422 and set(answer.pointers) == pointers, answer.body
    assert len(service.get("/v1/sweeps?limit=1000").json["items"]) == before


def test_curves(service, swept):
    curve = service.get("/v1/curves?trajectory=sweeps&metric=delta&x=tokens").json
    assert {(s["label"], s["bits"], s["method"]) for s in curve["series"]} == {
        ("rtn 3-bit g32", 3, "rtn"), ("rtn 4-bit g32", 4, "rtn")}
    for series in curve["series"]:
        assert ([p["x"] for p in series["points"]] == [0, 10, 20]
                and all(p["low"] <= p["y"] <= p["high"] for p in series["points"]))
    run = service.get(f"/v1/runs/{curve['series'][0]['points'][0]['run']}").json
    assert run["result"]["delta"] == curve["series"][0]["points"][0]["y"]
    assert len(service.get("/v1/curves?trajectory=sweeps&bits=4").json["series"]) == 1
    assert service.get("/v1/curves?trajectory=sweeps&metric=loss_fp").json["series"][0]["method"] in ("", None)


def test_learning_rate_is_a_metric_and_an_axis(service, swept):
    points = service.get("/v1/curves?trajectory=sweeps&metric=learning_rate&x=step").json["series"][0]["points"]
    assert [(p["x"], p["y"]) for p in points] == [(0, 0.1), (1, 0.05), (2, pytest.approx(0.1 / 3))]
    points = service.get("/v1/curves?trajectory=sweeps&metric=delta&x=learning_rate&bits=3").json["series"][0]["points"]
    assert [p["x"] for p in points] == [pytest.approx(0.1 / 3), 0.05, 0.1]


def test_curves_as_csv(service, swept):
    answer = service.get("/v1/curves?trajectory=sweeps&metric=delta", {"Accept": "text/csv"})
    assert answer.headers.get_content_type() == "text/csv"
    lines = list(csv.DictReader(io.StringIO(answer.body.decode())))
    curve = service.get("/v1/curves?trajectory=sweeps&metric=delta").json
    assert [float(l["y"]) for l in lines] == [p["y"] for s in curve["series"] for p in s["points"]]
    assert {l["label"] for l in lines} == {"rtn 3-bit g32", "rtn 4-bit g32"}
    for column, of in (("checkpoint_name", str), ("step", int)):
        assert [of(l[column]) for l in lines] == [p[column] for s in curve["series"] for p in s["points"]]


@pytest.mark.parametrize("query,status", [("", 422), ("?trajectory=nothing", 404), ("?trajectory=sweeps&x=colour", 422),
                                          ("?trajectory=sweeps&y=1", 422)])
def test_bad_curves(service, swept, query, status):
    assert service.get("/v1/curves" + query).status == status


def test_parquet_is_refused(service, swept):
    assert service.get("/v1/curves?trajectory=sweeps", {"Accept": "application/vnd.apache.parquet"}).status == 406


def test_metrics_are_listed(service, swept):
    assert {"delta", "loss_fp", "loss_q", "kl"} <= set(service.get("/v1/curves/metrics").json["metrics"])


def test_cancel(service, swept, name):
    answer = service.post("/v1/sweeps",
                          {**swept, "name": name,
                           "grid": {**swept["grid"], "evaluation.max_sequences": [1, 2, 3], "method.bits": [2]}})
    assert answer.status == 202
    assert service.post(f"/v1/sweeps/{name}/cancel").status == 202
    for run in service.get(f"/v1/runs?sweep={name}").json["items"]:
        assert service.wait(run["id"])["state"] in ("cancelled", "succeeded")


def test_a_curve_of_few_points_keeps_its_extremes(service, name):
    """Forty checkpoints with a spike; what is left out is told by `total`."""
    for step in range(40):
        service.checkpoint(models.write_llama(service.files / name / str(step % 2), seed=step % 2), name,
                           f"step{step}", step=step)
    data = service.sequences(name, models.rows(2, 8))["name"]
    run = service.run("evaluate", checkpoint=f"{name}/step0", dataset=data, sequence_length=None)["id"]
    target = f"host={service.data}/pg/socket port=5432 user=deltaq dbname=deltaq"
    fill = (f"delete from measurements where run = '{run}'; "
            f"insert into measurements (run, epoch, checkpoint, metric, value) select '{run}', 1, c.id, 'delta',"
            " case c.step when 23 then 9 when 31 then -5 else c.step / 100.0 end from checkpoints c "
            f"join trajectories t on t.id = c.trajectory where t.name = '{name}'")
    subprocess.run(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", target, "-c", fill], check=True)
    whole = service.get(f"/v1/curves?trajectory={name}").json["series"][0]
    assert len(whole["points"]) == whole["total"] == 40
    for points in (4, 10, 25):
        few = service.get(f"/v1/curves?trajectory={name}&points={points}").json["series"][0]
        assert few["total"] == 40 and len(few["points"]) <= points
        assert all(point in whole["points"] for point in few["points"])
        assert {0, 39} <= {point["x"] for point in few["points"]} and {9, -5} <= {point["y"] for point in few["points"]}
        assert [point["x"] for point in few["points"]] == sorted(point["x"] for point in few["points"])
    assert service.get(f"/v1/curves?trajectory={name}&points=40").json["series"][0] == whole
    assert service.get(f"/v1/curves?trajectory={name}&points=3").pointers == ["/points"]


def methods_of(service, sweep):
    """Bits and group size of every run, as often as it is there, when all have ended."""
    service.get(f"/v1/sweeps/{sweep}?wait=60")
    runs = service.get(f"/v1/runs?sweep={sweep}&limit=200").json["items"]
    return sorted((run["params"]["method"]["bits"], run["params"]["method"]["group_size"]) for run in runs)


def test_a_grid_s_objects_are_laid_over_those_of_base(service, small):
    name, body = small
    body = {**body, "name": f"{name}-laid", "base": {**body["base"], "method": {"bits": 3, "group_size": 16}},
            "grid": {"checkpoint": {"trajectory": name}, "method": [{"name": "rtn"}, {"name": "rtn", "bits": 2}]}}
    made = service.post("/v1/sweeps", body)
    assert made.status == 202 and methods_of(service, made.json["id"]) == [(2, 16), (3, 16)], made.body
    assert made.json["grid"]["method"] == [{"bits": 3, "group_size": 16, "name": "rtn"},
                                           {"bits": 2, "group_size": 16, "name": "rtn"}], "as it is measured"
    assert made.json["base"] == body["base"]
    for again in (body, {**body, "grid": made.json["grid"]}):
        assert service.post("/v1/sweeps", again).json["id"] == made.json["id"]
    assert extend(service, made.json["id"], method=[{"name": "rtn"}]).status == 200
    assert extend(service, made.json["id"], method=[{"name": "rtn", "bits": 4}]).status == 202
    assert methods_of(service, made.json["id"]) == [(2, 16), (3, 16), (4, 16)], "of one it had nothing was made"
    foreign = {**body, "name": f"{name}-foreign", "grid": {**body["grid"], "method": [{"name": "nf4"}]}}
    refused = service.post("/v1/sweeps", foreign)
    assert refused.status == 422 and set(refused.pointers) == {"/grid/method"}, refused.body
    assert "bits: unknown field" in refused.json["errors"][0]["detail"]
    assert extend(service, made.json["id"], method=[{"name": "nf4"}]).pointers == refused.pointers


def test_the_order_of_a_grid_s_fields_changes_no_run(service, small):
    name, body = small
    base = {"evaluation": body["base"]["evaluation"], "checkpoint": f"{name}/a"}
    fields = [("method.bits", [2, 3]), ("method", [{"name": "rtn", "group_size": 16}])]
    made = [service.post("/v1/sweeps", {"name": name + end, "kind": "quantize", "base": base, "grid": dict(grid)})
            for grid, end in ((fields, "-bits"), (fields[::-1], "-method"), (fields[::-1], "-bits"))]
    assert [answer.status for answer in made] == [202, 202, 200]
    for answer in made:
        assert methods_of(service, answer.json["id"]) == [(2, 16), (3, 16)]


@pytest.mark.parametrize("base,grid,pointer,word", [
    ({"checkpoint": "a"}, {"checkpoint": ["b"]}, "/grid/checkpoint", "base"),
    ({"checkpoint": "a"}, {"checkpoint": {"trajectory": "b"}}, "/grid/checkpoint", "base"),
    ({"method": {"bits": 3}}, {"method.bits": [3, 4]}, "/grid/method.bits", "base"),
    ({"calibration": {"dataset": "a"}}, {"calibration": [None, {"max_sequences": 3}]}, "/grid/calibration", "base"),
    ({}, {"method.bits": [2, 3], "method": [{"name": "rtn"}, {"name": "rtn", "bits": 4}]}, "/grid/method",
     "method.bits"),
])
def test_what_is_given_twice_is_refused(service, swept, base, grid, pointer, word):
    answer = service.post("/v1/sweeps", {"kind": "quantize", "base": base, "grid": grid})
    assert answer.status == 422 and answer.pointers == [pointer] and word in answer.json["detail"], answer.body


def test_a_stored_sweep_that_gives_a_field_twice_grows_as_it_began(service, small):
    """Earlier versions let the grid's whole value take the place of base's."""
    name, body = small
    service.checkpoint(models.write_llama(service.files / name / "1", seed=2), name, "b", step=1)
    stored = {**body, "name": f"{name}-old", "grid": {"checkpoint": [f"{name}/a"]},
              "base": {**body["base"], "method": {"name": "rtn", "bits": 4, "group_size": 32}}}
    assert service.post("/v1/sweeps", stored).status == 202
    old = {"base": {**body["base"], "checkpoint": f"{name}/b", "method": {"bits": 3, "group_size": 16}},
           "grid": {"checkpoint": [f"{name}/a"], "method": [{"name": "rtn", "group_size": 32}]}}
    base, grid = (json.dumps(old[part]) for part in ("base", "grid"))
    service.sql(f"update sweeps set base = '{base}', grid = '{grid}' where name = '{name}-old'")
    assert extend(service, f"{name}-old", method=old["grid"]["method"]).status == 200
    assert extend(service, f"{name}-old", checkpoint=[f"{name}/b"]).status == 202
    assert methods_of(service, f"{name}-old") == [(4, 32), (4, 32)]
    assert made_of(service, f"{name}-old", name) == [("a", 4), ("b", 4)]


def extend(service, sweep, **grid):
    return service.post(f"/v1/sweeps/{sweep}/extend", {"grid": grid})


def made_of(service, sweep, trajectory):
    """Checkpoint's name and bits of every run, as often as it is there."""
    runs = service.get(f"/v1/runs?sweep={sweep}&limit=200").json["items"]
    seeds = {c["sha256"]: c["name"] for c in service.get(f"/v1/checkpoints?trajectory={trajectory}").json["items"]}
    shas = [service.get(f"/v1/checkpoints/{r['params']['checkpoint']}").json["sha256"] for r in runs]
    return sorted((seeds[sha], r["params"]["method"]["bits"]) for sha, r in zip(shas, runs))


@pytest.fixture
def small(service, name):
    """A sweep of one checkpoint at 4 bits, over a trajectory of its own, which has ended. The checkpoint is the same in
    each test, so that the sweep shares the runs of others."""
    service.checkpoint(models.write_llama(service.files / name / "0", seed=1), name, "a", step=0)
    data = service.sequences(name, models.rows(2, 16))
    body = {"name": name, "kind": "quantize", "base": {
        "method": {"name": "rtn", "group_size": 32}, "evaluation": {"dataset": data["name"], "sequence_length": None}},
            "grid": {"checkpoint": {"trajectory": name}, "method.bits": [4]}}
    assert service.post("/v1/sweeps", body, {"Prefer": "wait=60"}).json["runs"]["succeeded"] == 1
    return name, body


def test_extending_adds_what_was_not_there(service, small):
    name, body = small
    service.checkpoint(models.write_llama(service.files / name / "1", seed=2), name, "b", step=1)
    answer = extend(service, name, **{"method.bits": [4, 3, 3]})
    assert answer.status == 202 and answer.json["grid"]["method.bits"] == [4, 3], answer.body
    assert made_of(service, name, name) == [("a", 3), ("a", 4)], "b came later and was not asked for"
    answer = extend(service, name, **{"checkpoint": {"trajectory": name}, "method.bits": [2]})
    assert answer.status == 202 and answer.json["grid"] == {
        "checkpoint": {"trajectory": name}, "method.bits": [4, 3, 2]}
    assert made_of(service, name, name) == [("a", 2), ("a", 3), ("a", 4), ("b", 2), ("b", 3), ("b", 4)]
    again = extend(service, name, **{"checkpoint": {"trajectory": name}, "method.bits": [2]})
    assert again.status == 200 and again.json["runs"]["total"] == 6
    assert service.get(f"/v1/sweeps/{name}?wait=60").json["runs"]["succeeded"] == 6
    assert service.post("/v1/sweeps", {**body, "grid": answer.json["grid"]}).status == 200, "the larger grid is its own"
    assert service.post("/v1/sweeps", body).status == 409


def test_extending_may_be_waited_for_and_repeated_under_a_key(service, small):
    name, _ = small
    body, key = {"grid": {"method.bits": [3]}}, {"Idempotency-Key": f"{name}-extend"}
    answer = service.post(f"/v1/sweeps/{name}/extend", body, {**key, "Prefer": "wait=60"})
    assert answer.status == 202 and answer.json["runs"]["succeeded"] == 2, answer.body
    assert answer.headers["Preference-Applied"] == "wait=60" and answer.headers["Location"].startswith("/v1/sweeps/")
    again = service.post(f"/v1/sweeps/{name}/extend", body, key)
    assert again.status == 202 and again.json["id"] == answer.json["id"]
    assert again.headers["Idempotency-Replayed"] == "true"


def test_a_dry_run_of_an_extension_prices_what_would_come_in_and_adds_nothing(service, small):
    name, body = small
    own = service.sequences(f"{name}-own", models.rows(2, 16, seed=91))["name"]  # no other test has its runs
    body = {**body, "name": f"{name}-own", "base": {**body["base"], "evaluation": {
        **body["base"]["evaluation"], "dataset": own}}}
    assert service.post("/v1/sweeps", body).status == 202
    service.checkpoint(models.write_llama(service.files / name / "1", seed=2), name, "b", step=1)
    before = service.get(f"/v1/sweeps/{name}-own?wait=60").json

    def dry(key=None, **grid):
        answer = service.post(f"/v1/sweeps/{name}-own/extend", {"grid": grid, "dry_run": True}, key)
        assert answer.status == 200, answer.body
        return answer.json

    wider = {"checkpoint": {"trajectory": name}, "method.bits": [4, 3]}
    told = dry({"Idempotency-Key": f"{name}-dry"}, **wider)
    assert (told["dry_run"], told["kind"], told["runs"], told["fits"]) == (True, "quantize", 3, True)
    assert told["existing"] == 0
    assert sum(plan["runs"] for plan in told["plans"]) == 3
    assert sorted((plan["params"]["method"]["bits"], plan["runs"]) for plan in told["plans"]) == [(3, 2), (4, 1)]
    whole = service.post("/v1/sweeps", {**body, "name": f"{name}-all", "grid": {**body["grid"], **wider},
                                        "dry_run": True}).json
    one = dry(**{"method.bits": [3]})
    assert one["runs"] == 1 and told["total"]["tokens"] == 3 * one["total"]["tokens"] > 0
    assert (whole["runs"], whole["existing"], whole["total"]) == (4, 1, told["total"])
    none = dry(**{"method.bits": [4]})
    assert (none["kind"], none["runs"], none["plans"], none["total"]["tokens"]) == ("quantize", 0, [], 0)
    refused = service.post(f"/v1/sweeps/{name}-own/extend", {"grid": {"method.bits": [17]}, "dry_run": True})
    assert refused.status == 422 and refused.pointers == ["/grid/method.bits"]
    assert service.post("/v1/sweeps/nothing-is-called-this/extend", {"grid": {}, "dry_run": True}).status == 404
    assert service.get(f"/v1/sweeps/{name}-own").json == before
    extended = service.post(f"/v1/sweeps/{name}-own/extend", {"grid": wider, "dry_run": False}, {"Prefer": "wait=60"})
    assert extended.json["runs"]["total"] == extended.json["runs"]["succeeded"] == 4


def test_a_run_of_two_sweeps_ends_when_both_are_cancelled(service, small):
    name, body = small
    grid = {"grid": {"checkpoint": {"trajectory": name}, "method.bits": [8]},
            "base": {**body["base"], "method": {"name": "rtn", "group_size": 16}}}
    with service.gate.holding("quantize", 0):
        busy = service.post("/v1/runs", {"kind": "quantize", "force": True, "params": {
            **body["base"], "checkpoint": f"{name}/a", "method": {"name": "rtn", "bits": 8, "group_size": 32}}}).json
        service.gate.wait(busy["id"])  # the only worker: what follows stays queued
        for again in ("one", "two"):
            assert service.post("/v1/sweeps", {**body, **grid, "name": f"{name}-{again}"}).status == 202
        states = [service.post(f"/v1/sweeps/{name}-{again}/cancel").json["runs"] for again in ("one", "two")]
        assert [counts["queued"] for counts in states] == [1, 0] and states[1]["cancelled"] == 1, states


@contextlib.contextmanager
def transaction(service, statements):
    """A transaction with these statements is open within; the function it gives waits until another waits for it, and
    commits."""
    command = ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-h", "/proc/self/cwd", "-U", "deltaq", "deltaq"]
    session = subprocess.Popen(command, cwd=service.data / "pg" / "socket", stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    session.stdin.write(f"set idle_in_transaction_session_timeout = 0; select pg_backend_pid(); begin; {statements};"
                        " select 'open';\n")
    session.stdin.flush()
    pid = session.stdout.readline().strip()
    assert "open\n" in iter(session.stdout.readline, "")
    waits = f"select count(*) from pg_stat_activity where {pid} = any (pg_blocking_pids(pid))"

    def commit():
        until("it is waited for", lambda: service.sql(waits) != [["0"]])
        session.communicate("commit;\n", timeout=60)
        assert session.returncode == 0

    try:
        yield commit
    finally:
        session.kill()
        session.wait()


@pytest.fixture
def waiting(service, small):
    """The body of a sweep, and its only run, which waits behind another one. Another sweep is to be called `two`."""
    name, body = small
    one = {**body, "name": f"{name}-one", "grid": {"checkpoint": {"trajectory": name}, "method.bits": [8]},
           "base": {**body["base"], "method": {"name": "rtn", "group_size": 16}}}
    with service.gate.holding("quantize", 0):
        busy = service.post("/v1/runs", {"kind": "quantize", "force": True, "params": {
            **body["base"], "checkpoint": f"{name}/a", "method": {"name": "rtn", "bits": 8, "group_size": 32}}}).json
        service.gate.wait(busy["id"])  # the only worker: what follows stays queued
        assert service.post("/v1/sweeps", one).status == 202
        run, = service.get(f"/v1/runs?sweep={one['name']}").json["items"]
        yield one, f"{name}-two", run["id"]
        for sweep in (one["name"], f"{name}-two"):
            service.post(f"/v1/sweeps/{sweep}/cancel")


def test_a_run_that_another_sweep_is_joining_is_not_cancelled(service, waiting):
    one, two, run = waiting
    joined = f"""with two as (insert into sweeps (id, name, kind, base, grid)
        values (gen_random_uuid(), '{two}', 'quantize', '{{}}', '{{}}') returning id)
        insert into sweep_runs (sweep, run) select id, '{run}' from two"""
    with concurrent.futures.ThreadPoolExecutor() as pool, transaction(service, joined) as commit:
        cancelled = pool.submit(service.post, f"/v1/sweeps/{one['name']}/cancel")
        commit()
        assert cancelled.result().status == 202
    assert service.get(f"/v1/runs/{run}").json["state"] == "queued"
    assert service.post(f"/v1/sweeps/{two}/cancel").json["runs"]["cancelled"] == 1


def test_a_sweep_joins_no_run_that_another_is_cancelling(service, waiting):
    one, two, run = waiting
    cancelled = f"""select true from runs where id = '{run}' for update; update runs set state = 'cancelled',
        cancel_requested_at = clock_timestamp(), finished_at = clock_timestamp() where id = '{run}'"""
    with concurrent.futures.ThreadPoolExecutor() as pool, transaction(service, cancelled) as commit:
        posted = pool.submit(service.post, "/v1/sweeps", {**one, "name": two})
        commit()
        counts = posted.result().json["runs"]
    assert (counts["queued"], counts["cancelled"]) == (1, 0), counts
    assert service.get(f"/v1/runs?sweep={two}").json["items"][0]["id"] != run


def test_extending_makes_no_cancelled_run_again(service, small):
    name, body = small
    service.checkpoint(models.write_llama(service.files / name / "1", seed=777), name, "b", step=1)
    with service.gate.holding("quantize", 0):
        busy = service.post("/v1/runs", {"kind": "quantize", "force": True, "params": {
            **body["base"], "checkpoint": f"{name}/a", "method": {"name": "rtn", "bits": 8, "group_size": 32}}}).json
        service.gate.wait(busy["id"])  # the only worker: what follows stays queued
        extend(service, name, checkpoint={"trajectory": name})
        service.post(f"/v1/sweeps/{name}/cancel")
    counts = service.get(f"/v1/sweeps/{name}?wait=60").json["runs"]
    assert (counts["cancelled"], counts["total"]) == (1, 2)
    answer = extend(service, name, **{"checkpoint": {"trajectory": name}, "method.bits": [4, 2]})
    assert answer.json["runs"]["total"] == 4
    assert service.get(f"/v1/sweeps/{name}?wait=60").json["runs"]["cancelled"] == 1


@pytest.mark.parametrize("grid,pointer,word", [
    ({}, "/grid", "at least one"), ({"method.group_size": [16]}, "/grid/method.group_size", "no field"),
    ({"method.bits": []}, "/grid/method.bits", "at least one"), ({"method.bits": 3}, "/grid/method.bits", "list"),
    ({"checkpoint": ["a"]}, "/grid/checkpoint", "trajectory"),
    ({"checkpoint": {"trajectory": "nothing"}}, "/grid/checkpoint", "as it is"),
    ({"method.bits": [17]}, "/grid/method.bits", ""), ({"method.bits": list(range(1100))}, "/grid/method.bits", "1000"),
])
def test_what_does_not_fit_the_grid_is_refused(service, small, grid, pointer, word):
    name, body = small
    answer = extend(service, name, **grid)
    assert answer.status == 422 and answer.pointers == [pointer] and word in answer.json["detail"], answer.body
    found = service.get(f"/v1/sweeps/{name}").json
    assert found["grid"] == body["grid"] and found["runs"]["total"] == 1


def test_extending_what_is_not_there_and_a_grid_of_lists(service, small):
    name, body = small
    assert extend(service, "nothing-is-called-this", a=[1]).status == 404
    other = {**body, "name": f"{name}-list", "grid": {"checkpoint": [f"{name}/a"], "method.bits": [4]}}
    assert service.post("/v1/sweeps", other).status == 202
    service.checkpoint(models.write_llama(service.files / name / "1", seed=2), name, "b", step=1)
    answer = extend(service, f"{name}-list", checkpoint=[f"{name}/b"], **{"method.bits": [3]})
    assert answer.status == 202 and answer.json["grid"]["checkpoint"] == [f"{name}/a", f"{name}/b"], answer.body
    assert made_of(service, f"{name}-list", name) == [("a", 3), ("a", 4), ("b", 3), ("b", 4)]
    ids = [service.get(f"/v1/checkpoints/{name}%2F{step}").json["id"] for step in ("a", "b")]
    again = extend(service, f"{name}-list", checkpoint=ids)  # what is there already, under other names
    assert again.status == 200 and again.json["grid"] == answer.json["grid"], again.body
