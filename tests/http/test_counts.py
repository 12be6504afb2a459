"""What the writes keep for lists and curves (sql/0013_measurement_table.sql, sql/0032_same_content.sql) is what it can
be made again of."""

import subprocess
import threading
import zlib

import models
import pytest

KEPT = "select trajectory, metric, series, checkpoint, value, low, high, run, number from newest order by 1, 2, 3, 4"
MADE = """select distinct on (c.trajectory, m.metric, s.id, c.id)
    c.trajectory, m.metric, s.id, c.id, m.value, m.low, m.high, m.run, r.number
  from measurements m join checkpoints c on c.id = m.checkpoint
  join runs r on r.id = m.run and r.result_epoch = m.epoch and r.state = 'succeeded'
  join series s on (s.label, s.dataset, s.protocol, s.calibration, s.method, s.bits)
    = (m.label, m.dataset, m.protocol, m.calibration, m.method, m.bits)
  order by c.trajectory, m.metric, s.id, c.id, r.number desc"""
COUNTED = ("select trajectory, what, sum(change) from trajectory_counts "
           "group by 1, 2 having sum(change) <> 0 order by 1, 2")
COUNTS = """select * from (
  select t.trajectory, r.state as what, count(*) from run_trajectories t join runs r on r.id = t.run group by 1, 2
  union all select trajectory, 'checkpoint', count(*) from checkpoints group by 1) c order by 1, 2"""


def sql(service, text):
    target = f"host={service.data}/pg/socket port=5432 user=deltaq dbname=deltaq"
    done = subprocess.run(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", target, "-c", text],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(service):
    assert sql(service, KEPT) == sql(service, MADE) != ""
    assert sql(service, COUNTED) == sql(service, COUNTS) != ""


@pytest.fixture
def evaluated(service, name):
    for i in range(3):
        service.checkpoint(models.write_llama(service.files / name / str(i),
                                              seed=zlib.crc32(name.encode()) % 10000 + i),
                           name, f"step{i}", step=i, tokens=i)
    data = service.sequences(name, models.rows(3, 16))["name"]
    runs = [service.run("evaluate", checkpoint=f"{name}/step{i}", dataset=data, sequence_length=None) for i in range(3)]
    assert all(run["state"] == "succeeded" for run in runs)
    return name, data, runs


def test_the_newest_is_kept_when_runs_end_and_when_they_go(service, evaluated):
    name, data, runs = evaluated
    check(service)
    body = {"kind": "evaluate", "params": {"checkpoint": f"{name}/step0", "dataset": data, "sequence_length": None},
            "force": True}
    again = service.post("/v1/runs", body, {"Prefer": "wait=60"}).json
    check(service)
    address = f"/v1/measurements?checkpoint={name}/step0&fields=run,loss"
    assert [row["run"] for row in service.get(address).json["items"]] == [again["id"]]
    sql(service, f"delete from runs where id = '{again['id']}'")
    check(service)
    assert [row["run"] for row in service.get(address).json["items"]] == [runs[0]["id"]]
    sql(service, f"delete from runs where id = '{runs[0]['id']}'")
    check(service)
    assert service.get(address).json["items"] == []
    assert service.request("DELETE", f"/v1/checkpoints/{name}%2Fstep1").status == 204
    check(service)


def test_trajectories_count_their_checkpoints_and_runs(service, evaluated):
    name, data, runs = evaluated
    found = service.get(f"/v1/trajectories/{name}").json
    assert (found["checkpoints"], found["first_step"], found["last_step"], found["last_tokens"]) == (3, 0, 2, 2)
    newest = service.get(f"/v1/checkpoints?trajectory={name}&limit=1").json["items"][0]
    fields = ("id", "name", "architecture", "parameters")
    assert found["newest"] == {field: newest[field] for field in fields} and newest["name"] == "step2"
    (listed,) = [one for one in service.get("/v1/trajectories?limit=100").json["items"] if one["name"] == name]
    assert listed["newest"] == found["newest"]
    assert found["runs"] == {"queued": 0, "running": 0, "succeeded": 3, "failed": 0, "cancelled": 0}
    body = {"kind": "evaluate", "params": {"checkpoint": f"{name}/step0", "dataset": data, "sequence_length": 7}}
    with service.gate.holding("evaluate", 0):
        held = service.post("/v1/runs", body).json["id"]
        service.held(held)
        assert service.get(f"/v1/trajectories/{name}").json["runs"]["running"] == 1
        check(service)
        service.post(f"/v1/runs/{held}/cancel")  # while it is held, or it might end before it hears
        assert service.wait(held)["state"] == "cancelled"
    assert service.get(f"/v1/trajectories/{name}").json["runs"] == {
        "queued": 0, "running": 0, "succeeded": 3, "failed": 0, "cancelled": 1}
    service.post(f"/v1/runs/{held}/retry")
    assert service.wait(held)["state"] == "succeeded"
    check(service)
    assert service.get(f"/v1/trajectories/{name}").json["runs"]["succeeded"] == 4
    # A run of two checkpoints of one trajectory is one run.
    both = service.run("average", checkpoints=[f"{name}/step0", f"{name}/step1"], name=f"{name}-mean")
    assert both["state"] == "succeeded" and service.get(f"/v1/trajectories/{name}").json["runs"]["succeeded"] == 5
    check(service)
    assert [run["id"] for run in service.get(f"/v1/runs?trajectory={name}&limit=2").json["items"]] == [both["id"], held]


def test_rows_of_counts_are_made_one(service, evaluated):
    before = service.get("/v1/trajectories?limit=1000").json
    for _ in range(40):
        sql(service, "with t as (select id from trajectories limit 1) insert into trajectory_counts select t.id, "
            "'queued', c from t,"
            " (values (1), (-1)) v (c), generate_series(1, 20)")
    assert int(sql(service, "select count(*) from trajectory_counts")) < 40 * 40 + 1000
    assert service.get("/v1/trajectories?limit=1000").json == before


def contents(service, *trajectories):
    """TRAJECTORY/NAME of the checkpoints whose content others may have, as it is kept."""
    rows = sql(service, "select t.name || '/' || c.name from same_content s join checkpoints c on c.id = s.checkpoint "
               "join trajectories t on t.id = c.trajectory and t.id = s.trajectory order by 1")
    return [row for row in rows.split() if row.split("/")[0] in trajectories]


def test_contents_that_several_checkpoints_have_are_known(service, name):
    places = [models.write_llama(service.files / name / str(i), seed=zlib.crc32(name.encode()) % 10000 + i)
              for i in range(2)]
    copies = [f"{name}-copy{i}" for i in range(2)]
    for i, place in enumerate(places):
        service.checkpoint(place, name, f"step{i}", step=i)
    assert contents(service, name, *copies) == []
    service.checkpoint(places[1], copies[0], "last")
    assert contents(service, name, *copies) == [f"{copies[0]}/last", f"{name}/step1"]
    service.checkpoint(places[1], copies[1], "last")
    assert contents(service, name, *copies) == [f"{copies[0]}/last", f"{copies[1]}/last", f"{name}/step1"]
    assert service.request("DELETE", f"/v1/checkpoints/{copies[0]}%2Flast").status == 204
    assert contents(service, name, *copies) == [f"{copies[1]}/last", f"{name}/step1"]


def test_a_content_is_known_when_it_becomes_known_and_of_two_writers_at_once(service, name):
    """Of files that were too large to be hashed when they were registered; neither writer sees the other's row."""
    trajectory = sql(service, f"insert into trajectories (name) values ('{name}') returning id").strip()

    def insert(step, content, hold=0):
        return (f"begin; insert into checkpoints (trajectory, name, source, sha256) values ('{trajectory}', '{step}', "
                f"'{{}}', {content}); select pg_sleep({hold}); commit")

    content = f"'{zlib.crc32(name.encode()):064x}'"
    sql(service, insert("hashed", content) + ";" + insert("large", "null"))
    assert contents(service, name) == []
    sql(service, f"update checkpoints set sha256 = {content} where trajectory = '{trajectory}' and name = 'large'")
    assert contents(service, name) == [f"{name}/hashed", f"{name}/large"]
    other = f"'{zlib.crc32(name.encode()) + 1:064x}'"
    first = threading.Thread(target=sql, args=(service, insert("one", other, hold=1)))
    first.start()
    second = threading.Thread(target=sql, args=(service, insert("two", other, hold=1)))
    second.start()
    first.join()
    second.join()
    assert contents(service, name) == [f"{name}/hashed", f"{name}/large", f"{name}/one", f"{name}/two"]
