"""GET /v1/correlations where one quantity was measured in more than one way."""

import csv
import io

import models
import pytest


def test_a_further_evaluation_of_one_checkpoint_takes_no_correlation_away(service):
    """Four checkpoints have x by one evaluation, one of them by two more: these series have no correlation."""
    x = service.sequences("further-x", models.rows(3, 12, seed=41))["name"]
    y = service.sequences("further-y", models.rows(3, 12, seed=42))["name"]
    method = {"name": "rtn", "bits": 4, "group_size": 16}
    for i in range(4):
        place = models.write_llama(service.files / f"further-{i}", seed=410 + i)
        at = service.checkpoint(place, "further", f"s{i}", step=i)["id"]
        service.run("evaluate", checkpoint=at, dataset=x, sequence_length=None)
        service.run("quantize", checkpoint=at, method=method, evaluation={"dataset": y})
    address = "/v1/correlations?x=loss&y=delta&trajectory=further"
    before = service.get(address).json
    assert (before["n"], before["left_out"], len(before["series"])) == (4, 0, 1) and before["pearson"] is not None
    for most in (1, 2):
        service.run("evaluate", checkpoint="further/s1", dataset=x, sequence_length=None, max_sequences=most)
    after = service.get(address).json
    assert [(one["n"], one["pearson"] is None) for one in after["series"]].count((1, True)) == 2
    same = ("n", "pearson", "spearman", "units", "within", "differences", "note")
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    assert after["left_out"] == 2 and len(after["points"]) == 6
    # One is picked by its protocol: it alone has no correlation, and nothing is left out of nothing.
    whole, = {point["protocol_id_x"] for point in before["points"]}
    assert service.get(f"{address}&protocol_x={whole}").json == before
    short = next(one["protocol_id_x"] for one in after["series"] if one["n"] == 1)
    lone = service.get(f"{address}&protocol_x={short}").json
    assert (lone["n"], lone["left_out"], lone["pearson"], len(lone["points"])) == (1, 0, None, 1)
    assert service.get(f"{address}&protocol_x=none").json["points"] == []
    refused = service.get(f"/v1/correlations?x=step&y=delta&protocol_x={whole}")
    assert refused.status == 422 and refused.pointers == ["/protocol_x"]
    rows = list(csv.DictReader(io.StringIO(service.get(f"{address}&format=csv").body.decode())))
    named = ("label_x", "protocol_id_x", "protocol_id", "calibration_id", "run_x", "run_y")
    assert [[row[name] for name in named] for row in rows] == [
        [point[name] or "" for name in named] for point in after["points"]]
    assert len({row["protocol_id_x"] for row in rows}) == 3


def pairs(service, query):
    return service.get(f"/v1/correlations?{query}").json


def quantized(service, at, data, bits=4):
    method = {"name": "rtn", "bits": bits, "group_size": 16}
    return service.run("quantize", checkpoint=at, method=method, evaluation={"dataset": data})


def test_checkpoints_of_the_same_content_are_pairs_once(service, name):
    """What was measured of a content counts wherever it is registered, and once where all are named."""
    data = service.sequences(name, models.rows(3, 12, seed=43))["name"]
    places = [models.write_llama(service.files / f"{name}-{i}", seed=430 + i) for i in range(5)]
    measured = [service.checkpoint(place, name, f"s{i}", step=i)["id"] for i, place in enumerate(places[:4])]
    for i, at in enumerate(measured):
        if i > 0:
            quantized(service, at, data)
            service.run("health", checkpoint=at, previous=measured[i - 1])
    twins, fork = f"{name}-twins", f"{name}-fork"
    for i, place in enumerate(places[:4]):
        service.checkpoint(place, twins, f"s{i}", step=i)
    for place, step in ((places[1], 1), (places[2], 2), (places[4], 5)):
        service.checkpoint(place, fork, f"s{step}", step=step)
    quantized(service, f"{fork}/s5", data)
    # The first content is measured of the copy alone.
    quantized(service, f"{twins}/s0", data)
    ask, both, drift = "x=kl&y=delta&trajectory=", "&trajectory=", "x=weight_change&y=delta&trajectory="
    own = pairs(service, ask + name)
    assert (own["n"], own["units"]) == (4, 1) and own["pearson"] is not None
    twin = pairs(service, ask + twins)
    assert (twin["n"], twin["pearson"]) == (4, own["pearson"])
    assert {point["unit"] for point in twin["points"]} == {f"trajectory {twins}"}
    assert [(point["x"], point["y"], point["run_y"]) for point in twin["points"]] == [
        (point["x"], point["y"], point["run_y"]) for point in own["points"]]
    assert pairs(service, ask + name + both + twins) == pairs(service, ask + twins + both + name) == own
    every = pairs(service, ask + name + both + twins + both + fork)
    assert [(p["trajectory"], p["step"]) for p in every["points"]] == [(name, i) for i in range(4)] + [(fork, 5)]
    assert (every["n"], every["units"]) == (5, 2)
    assert sorted(point["step"] for point in pairs(service, ask + fork)["points"]) == [1, 2, 5]
    # Without names they are all there are, and count as often.
    everything = service.get(f"/v1/correlations?x=kl&y=delta&dataset={data}").json
    assert everything["n"] == 5 and {point["trajectory"] for point in everything["points"]} == {name, fork}
    # What compares a checkpoint with the one before it depends on more than its content.
    assert pairs(service, drift + name)["n"] == 3 and pairs(service, drift + twins)["n"] == 0


def mirrored(points):
    """Points as they would be with x and y exchanged."""
    return sorted((p["checkpoint"], p["y"], p["x"], p["run_y"], p["run_x"], p["label"], p["label_x"]) for p in points)


def plain(points):
    return sorted((p["checkpoint"], p["x"], p["y"], p["run_x"], p["run_y"], p["label_x"], p["label"]) for p in points)


def test_the_axes_may_change_places(service, name):
    """Each method of x is a series beside y of full precision, as each method of y is beside x."""
    data = service.sequences(name, models.rows(3, 12, seed=44))["name"]
    other = service.sequences(f"{name}-other", models.rows(3, 12, seed=45))["name"]
    for i in range(3):
        place = models.write_llama(service.files / f"{name}-{i}", seed=440 + i)
        at = service.checkpoint(place, name, f"s{i}", step=i)["id"]
        service.run("evaluate", checkpoint=at, dataset=data)
        runs = [quantized(service, at, where, bits) for where, bits in ((data, 3), (other, 3), (data, 4))]
    of = f"&trajectory={name}"
    for first, second in (("loss", "delta"), ("step", "delta")):
        given, turned = (pairs(service, f"x={x}&y={y}{of}") for x, y in ((first, second), (second, first)))
        assert len(given["points"]) == len(turned["points"]) == 9
        assert mirrored(given["points"]) == plain(turned["points"])
        assert [one["n"] for one in turned["series"]] == [3, 3, 3]
        named = ["rtn 3-bit g16", "rtn 3-bit g16", "rtn 4-bit g16"]
        assert sorted(one["label_x"] for one in turned["series"]) == named
        assert [one["label"].startswith(label) for one, label in zip(given["series"], named)] == [True] * 3
        assert {(one["label"], one["method"], one["bits"]) for one in turned["series"]} == {("", None, None)}
        assert sorted(one["pearson"] for one in turned["series"]) == pytest.approx(
            sorted(one["pearson"] for one in given["series"]), rel=1e-12)
    # A method goes with its own numbers where there are some, and full precision with full precision.
    insert = ("insert into measurements (run, epoch, checkpoint, metric, value, label, dataset, protocol)"
              f" select '{runs[0]['id']}', 1, c.id, 'mean_accuracy', 1, l, '', '' from checkpoints c, unnest(array['',"
              f" 'rtn 3-bit g16']) l where c.id = '{at}'")
    service.sql(insert)
    try:
        found = pairs(service, f"x=delta&y=mean_accuracy{of}")["points"]
        assert sorted((p["label_x"], p["label"], p["dataset_x"] == data) for p in found) == [
            ("rtn 3-bit g16", "rtn 3-bit g16", False), ("rtn 3-bit g16", "rtn 3-bit g16", True),
            ("rtn 4-bit g16", "", True)]
        (point,) = pairs(service, f"x=mean_accuracy&y=loss{of}")["points"]
        assert (point["label_x"], point["label"]) == ("", "")
    finally:
        service.sql("delete from measurements where metric = 'mean_accuracy' and label in ('', 'rtn 3-bit g16')"
                    f" and checkpoint = '{at}'")


def test_what_goes_back_to_a_deleted_checkpoint_stays_of_its_trajectory(service, name):
    """Averages of one run are no independent runs when the checkpoint, or all of the run, is deleted."""
    data = service.sequences(name, models.rows(3, 12, seed=46))["name"]
    made = [service.checkpoint(models.write_llama(service.files / f"{name}-{i}", seed=47150 + i), name, f"s{i}",
                               step=i)["id"] for i in range(3)]
    means = [f"{name}-{i}" for i in range(2)]
    for i, mean in enumerate(means):
        run = service.run("average", checkpoints=[made[0], made[1 + i]], into=mean, name="mean")
        quantized(service, run["result"]["checkpoint"], data)

    def units():
        found = pairs(service, "x=kl&y=delta" + "".join(f"&trajectory={mean}" for mean in means))
        return found["units"], {point["unit"] for point in found["points"]}

    one = (1, {f"trajectory {name}"})
    assert units() == one
    assert service.request("DELETE", f"/v1/checkpoints/{made[0]}").status == 204
    assert units() == one
    assert service.request("DELETE", f"/v1/trajectories/{name}").status == 204
    assert units() == one


def test_a_trend_that_no_shared_budget_takes_off_is_told(service, name):
    """Without tokens nothing tells which checkpoints of several trajectories are comparable: two numbers that fall
    along each of them stay correlated, surely, in what is left within them."""
    for t in range(6):
        place = models.write_llama(service.files / f"{name}-{t}", seed=47000 + t)
        for tokens in (False, True):
            for i in range(4):
                more = {"tokens": 1000 * (i + 1)} if tokens else {}
                service.checkpoint(place, f"{name}-{tokens}-{t}", f"c{i}", step=i,
                                   learning_rate=1e-3 * (4 - i + 0.1 * (7 * t + 3 * i) % 1), **more)
    without, having = (pairs(service, "x=step&y=learning_rate" + "".join(
        f"&trajectory={name}-{tokens}-{t}" for t in range(6))) for tokens in (False, True))
    assert without["within"]["interval"][1] < -0.9 and "no two trajectories have" in without["note"]
    assert having["within"]["pearson"] is None and "no two trajectories have" not in having.get("note", "")
