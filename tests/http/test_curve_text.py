"""Curves are written without a JSON value for each point (server/resources/curve_text.c): they say what a rendered one
would, byte for byte. GET /v1/measurements renders the same numbers."""

import csv
import decimal
import io
import json
import random
import re
import struct
import urllib.parse

import pytest
from test_counts import sql

NUMBERS = [0.0, -0.0, 1.0, -3.0, 0.1, 0.1 + 0.2, 1e-4, 9.1e-05, 1e-05, 2.0**-20, -(2.0**-30), 1 / 3, 2 / 3e5, 1e14,
           1e15, 123456789012345.6, 999999999999999.9, 1e16, 1e22, 1.2345678901234567e22, 5e-324,
           1.7976931348623157e308]


def doubles(count):
    draw = random.Random(7)
    found = (struct.unpack("<d", struct.pack("<Q", draw.getrandbits(64)))[0] for _ in range(2 * count))
    return [value for value in found if value == value and abs(value) < 1e300][:count]


@pytest.fixture(scope="module")
def written(service):
    """A trajectory whose checkpoints measured NUMBERS and others; one has a name that JSON escapes."""
    values = NUMBERS + doubles(60) + [round(random.Random(i).uniform(-1, 1), i % 17) for i in range(60)]
    trajectory = sql(service, "insert into trajectories (name) values ('curve-text') returning id").strip()
    names = [f"step{i}" for i in range(len(values))]
    names[1] = 'a "name" with \\ and \u00e4'
    quoted = [name.replace("'", "''") for name in names]
    text = "begin;"
    for i, (name, value) in enumerate(zip(quoted, values)):
        low = "null" if i % 5 == 0 else f"'{value / 3!r}'"
        text += f"""insert into checkpoints (id, trajectory, name, step, source)
              values ('curve-text-{i}', '{trajectory}', '{name}', {i}, '{{}}');
            insert into runs (id, kind, state, epoch, result_epoch, finished_at)
              values ('curve-text-{i}', 'quantize', 'succeeded', 1, 1, now());
            insert into measurements (run, epoch, checkpoint, metric, value, low, high, label)
              values ('curve-text-{i}', 1, 'curve-text-{i}', 'delta', '{value!r}', {low}, '{value!r}', 'rtn');"""
    sql(service, text + "commit")
    yield names, values
    sql(service, "delete from runs where id like 'curve-text-%'; delete from checkpoints where id like 'curve-text-%';"
        "delete from trajectories where name = 'curve-text'")


def tokens(body, *names):
    """The text of these members, in the order of the objects that have them."""
    return [re.findall(rb'"%s":("(?:[^"\\]|\\.)*"|[^,}]*)' % name.encode(), body) for name in names]


def test_a_curve_is_written_as_it_would_be_rendered(service, written):
    names, values = written
    curve = service.get("/v1/curves?trajectory=curve-text&metric=delta&x=step").body
    table = service.get("/v1/measurements?trajectory=curve-text&limit=1000"
                        "&fields=step,checkpoint_name,checkpoint,run,delta,delta_low,delta_high").body
    found = json.loads(curve)["series"][0]
    assert [point["y"] for point in found["points"]] == [value + 0.0 for value in values], "no digit is lost"
    assert [point["checkpoint_name"] for point in found["points"]] == names and found["total"] == len(values)
    given = tokens(curve, "step", "checkpoint_name", "checkpoint", "run", "y", "low", "high")
    assert given == tokens(table, "step", "checkpoint_name", "checkpoint", "run", "delta", "delta_low", "delta_high")
    assert b" " not in re.sub(rb'"(?:[^"\\]|\\.)*"', b"", curve)


def test_numbers_have_the_same_digits_in_csv(service, written):
    """0.0005 was 0.00050000000000000001 there: the same double, but no table that anybody would print."""
    _, values = written
    for address, *names in (("curves?trajectory=curve-text", "y", "low", "high"),
                            ("measurements?trajectory=curve-text&fields=delta,delta_low,delta_high",
                             "delta", "delta_low", "delta_high")):
        rows = list(csv.DictReader(io.StringIO(service.get(f"/v1/{address}&format=csv").body.decode())))
        document = service.get(f"/v1/{address}&limit=1000" if "fields" in address else f"/v1/{address}").body
        for name, given in zip(names, tokens(document, *names)):
            found = [row[name] for row in rows]
            assert ([text and decimal.Decimal(text) for text in found]
                    == ["" if text == b"null" else decimal.Decimal(text.decode()) for text in given])
            assert len(found) == len(values)


def test_a_checkpoint_is_kept_whatever_is_left_out_and_has_its_rank(service, written):
    names, values = written
    address = "/v1/curves?trajectory=curve-text&x=step"
    whole = service.get(address).json["series"][0]
    assert whole["rank"] is None
    few = service.get(f"{address}&points=4").json["series"][0]
    left = next(i for i in range(len(values)) if i not in [point["x"] for point in few["points"]])
    kept = service.get(f"{address}&points=4&checkpoint=curve-text-{left}").json["series"][0]
    assert [point["x"] for point in kept["points"]] == sorted([left, *(point["x"] for point in few["points"])])
    assert kept["total"] == len(values)
    assert kept["rank"] == 1 + sum(value > values[left] for value in values)
    named = service.get(f"{address}&checkpoint=curve-text%2F{urllib.parse.quote(names[left])}").json["series"][0]
    assert (named["rank"], named["points"]) == (kept["rank"], whole["points"])
    assert service.get(f"{address}&checkpoint=nobody").status == 404


def test_flags_of_a_checkpoint_stand_at_its_points(service, written):
    sql(service, "insert into checkpoint_health (checkpoint, content, tensors, elements, nan, infinite, l1, l2, linf,"
        f" outlier_share, files, layers, keys, homes) values ('curve-text-3', '{'0' * 64}', 1, 1, 1, 0, 1, 1, 1, 0,"
        " '[]', '[]', '', '')")
    points = service.get("/v1/curves?trajectory=curve-text").json["series"][0]["points"]
    flags = {point["checkpoint"]: point["flags"] for point in points if point["flags"]}
    assert list(flags) == ["curve-text-3"] and flags["curve-text-3"]
    table = service.get("/v1/curves?trajectory=curve-text", {"Accept": "text/csv"}).body
    assert service.get("/v1/curves?trajectory=curve-text&format=csv").body == table
    assert service.get("/v1/curves?trajectory=curve-text&format=xml").status == 422
    rows = table.decode().splitlines()
    assert [row for row in rows if flags["curve-text-3"][0] in row] == [rows[4]]
