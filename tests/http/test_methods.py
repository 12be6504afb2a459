"""Methods over HTTP: every quantizer and option, recipes and their ids, protocols and curves."""

import csv
import io
import re

import models
import numpy
import pytest
from contract import OPENAPI, ROOT


@pytest.fixture(scope="module")
def subject(service):
    checkpoint = service.checkpoint(
        models.write_llama(service.files / "methods", seed=5), "methods", "only", step=1, tokens=10
    )
    rows = models.rows(4, 32)
    data = service.sequences("methods", rows)
    other = service.sequences("methods-other", [row[:20] for row in rows])
    calibration = service.sequences("methods-calibration", models.rows(4, 32, seed=7))
    return {
        "checkpoint": checkpoint["id"],
        "data": data["name"],
        "other": other["name"],
        "calibration": calibration["name"],
    }


def quantize(service, subject, method, data="data", **more):
    params = {
        "checkpoint": subject["checkpoint"],
        "method": method,
        "evaluation": {"dataset": subject[data]},
        "calibration": {"dataset": subject["calibration"]},
        **more,
    }
    return service.post("/v1/runs", {"kind": "quantize", "params": params})


def done(service, answer):
    assert answer.status in (200, 202), answer.body
    run = service.wait(answer.json["id"])
    assert run["state"] == "succeeded", run["error"]
    return run


METHODS = [
    {"name": "nf4"},
    {"name": "fp4", "values": "bitsandbytes", "double_quant": False},
    {"name": "awq", "group_size": 16},
    {"name": "llm_int8"},
    {"name": "llm_int8", "variant": "paper", "threshold": 1.0},
    {"name": "smoothquant", "search": True},
    {"name": "gptq_fp4"},
    {"name": "gptq_fp4", "format": "nvfp4", "act_group_aware": False, "damp_percent": 0.01},
    {"name": "mxfp4"},
    {"name": "nvfp4", "rotation": "hadamard"},
    {"name": "fp8", "scales": "block", "activation_bits": 8},
    {
        "name": "rtn",
        "activation_bits": 8,
        "rotation": "hadamard",
        "keep_outliers": 2,
        "lm_head_bits": 8,
        "embedding_bits": 8,
    },
    {
        "name": "gptq",
        "group_size": 16,
        "overrides": [{"pattern": "layers.0", "skip": True}, {"pattern": "down_proj$", "bits": 8}],
    },
]


def test_every_quantizer_is_among_them(service):
    """And finds a marker of its own in the dashboard, by its place."""
    quantizers = list(OPENAPI["components"]["schemas"]["MethodNamed"]["discriminator"]["mapping"])
    assert {method["name"] for method in METHODS} == set(quantizers), "give the new quantizer a row in METHODS"
    assert service.get("/v1/metrics").json["methods"] == quantizers
    palette = (ROOT / "static" / "palette.js").read_text()
    outlines = re.findall(r"\"?([\w-]+)\"?: \"M", re.search(r"MARKERS = \{(.*?)\}", palette, re.S)[1])
    assert len(quantizers) <= len(outlines), "give MARKERS of static/palette.js more symbols and their paths"
    assert "star" not in outlines, "the star is that of averages"


@pytest.mark.parametrize("method", METHODS)
def test_every_method_runs(service, subject, method):
    run = done(service, quantize(service, subject, method))
    result = run["result"]
    assert abs(result["delta"]) < 1 and result["kl"] is not None and len(result["recipe_id"]) == 16
    assert run["params"]["method"]["name"] == method["name"] and "rotation" in run["params"]["method"]
    if "overrides" in method:
        assert {l["name"] for l in result["layers"] if l["skipped"]} == {
            l["name"] for l in result["layers"] if ".0." in l["name"]
        }


def test_awq_is_what_a_packed_file_holds_and_costs(service, subject):
    """Two heads share a head of values: o_proj has no scales of columns by itself.
    Scales that the norm or the linear before takes cost nothing."""
    width, middle, layers, group = 32, 64, 2, 16
    attention = width * width * 2 + width * (width // 2) * 2
    linears = layers * (attention + 3 * width * middle)
    whole = linears + 2 * 256 * width + (2 * layers + 1) * width
    results = {}
    for rule in ("when_exportable", "always"):
        run = done(
            service, quantize(service, subject, {"name": "awq", "bits": 4, "group_size": group, "scale_o_proj": rule})
        )
        results[rule] = run["result"]
        alphas = {layer["name"].split(".")[-1]: layer["alpha"] for layer in run["result"]["layers"]}
        assert (alphas.pop("o_proj") is None) == (rule == "when_exportable") and None not in alphas.values()
        bits = (4 + (16 + 4) / group) * linears + (16 * width * layers if rule == "always" else 0)
        assert run["result"]["bits_per_weight"] == pytest.approx(bits / linears, rel=1e-12)
        assert run["result"]["model_bits_per_weight"] == pytest.approx(
            (bits + 32 * (whole - linears)) / whole, rel=1e-12
        )
    assert results["always"]["loss_q"] != results["when_exportable"]["loss_q"]
    plain = done(service, quantize(service, subject, {"name": "awq", "bits": 4, "group_size": group}))
    assert (
        plain["params"]["method"]["scale_o_proj"] == "when_exportable"
        and plain["params"]["method"]["duo_scaling"] is False
    )
    assert plain["result"]["loss_q"] == results["when_exportable"]["loss_q"]
    duo = done(
        service, quantize(service, subject, {"name": "awq", "bits": 4, "group_size": group, "duo_scaling": True})
    )["result"]
    assert duo["loss_q"] != plain["result"]["loss_q"] and duo["bits_per_weight"] == plain["result"]["bits_per_weight"]
    metrics = {item["name"]: item for item in service.get("/v1/metrics").json["items"]}
    assert metrics["model_bits_per_weight"]["unit"] == metrics["bits_per_weight"]["unit"] == "bits"


def test_bits_of_the_model_count_what_is_left_as_it_is(service, subject):
    method = {
        "name": "rtn",
        "bits": 8,
        "group_size": 16,
        "lm_head_bits": 4,
        "overrides": [{"pattern": "layers.0", "skip": True}],
    }
    result = done(service, quantize(service, subject, method))["result"]
    linears, matrix, norms = (
        sum(l["rows"] * l["columns"] for l in result["layers"] if not l["skipped"]),
        256 * 32,
        5 * 32,
    )
    kept = sum(l["rows"] * l["columns"] for l in result["layers"] if l["skipped"])
    assert kept == linears  # of two layers one
    bits = 9 * linears + 32 * (kept + matrix + norms) + (4 + 16 / 32) * matrix  # output: rows of 32, one scale each
    assert result["model_bits_per_weight"] == pytest.approx(bits / (linears + kept + 2 * matrix + norms), rel=1e-12)


def test_a_rotation_alone_leaves_the_loss(service, subject):
    method = {"name": "rtn", "rotation": "hadamard", "overrides": [{"pattern": ".", "skip": True}]}
    result = done(service, quantize(service, subject, method))["result"]
    assert abs(result["loss_q"] - result["loss_fp"]) < 1e-5 and result["bits_per_weight"] == 16


@pytest.mark.parametrize(
    "method,pointer",
    [
        ({"name": "gptq", "rotation": "dance"}, "/params/method/rotation"),
        ({"name": "gptq", "activation_bits": 5}, "/params/method/activation_bits"),
        ({"name": "nf4", "overrides": [{"pattern": "a", "bits": 8}]}, "/params/method/overrides/0/bits"),
        ({"name": "mxfp4", "overrides": [{"pattern": "a", "group_size": 16}]}, "/params/method/overrides/0/group_size"),
        ({"name": "nvfp4", "block_size": 16}, "/params/method/block_size"),
        ({"name": "smoothquant", "search": True, "alpha": 0.4}, "/params/method/alpha"),
        ({"name": "fp8", "scales": "row"}, "/params/method/scales"),
        ({"name": "gptq_fp4", "format": "fp8"}, "/params/method/format"),
        ({"name": "gptq_fp4", "damp_percent": 1}, "/params/method/damp_percent"),
        ({"name": "rtn", "overrides": [{"pattern": "("}]}, "/params/method/overrides/0/pattern"),
        ({"name": "rtn", "overrides": [{"bits": 8}]}, "/params/method/overrides/0/pattern"),
        ({"name": "rtn", "overrides": [{"pattern": "a", "bits": 8, "group_size": 0}]},
         "/params/method/overrides/0/group_size"),
        ({"name": "llm_int8", "activation_bits": 8}, "/params/method/activation_bits"),
        ({"recipe": "dance"}, "/params/method/recipe"),
        ({"recipe": 3}, "/params/method/recipe"),
        ({"recipe": "awq-paper", "name": "awq"}, "/params/method/recipe"),
        ({"recipe": "awq-paper", "damp_percent": 0.1}, "/params/method/damp_percent"),
    ],
)
def test_what_cannot_be_is_refused_where_it_stands(service, subject, method, pointer):
    answer = quantize(service, subject, method)
    assert answer.status == 422 and answer.pointers == [pointer], answer.body


def test_recipes_are_methods_with_names(service, subject):
    recipes = {r["name"]: r for r in service.get("/v1/recipes").json["items"]}
    assert set(recipes) == {
        "gptqmodel-7",
        "seed-compat",
        "seed-compat-damp01",
        "autogptq",
        "awq-paper",
        "awq-duo",
        "awq-block",
        "bnb-int8",
        "bnb-nf4",
        "quarot-w4",
    }
    assert len({r["recipe_id"] for r in recipes.values()}) == len(recipes)
    named = done(service, quantize(service, subject, {"recipe": "seed-compat-damp01"}))
    assert (
        named["result"]["recipe"] == "seed-compat-damp01"
        and named["result"]["recipe_id"] == recipes["seed-compat-damp01"]["recipe_id"]
    )
    assert named["params"]["method"] == recipes["seed-compat-damp01"]["method"]
    # spelled out it is the same run; changed it is another method, without a name
    again = quantize(service, subject, recipes["seed-compat-damp01"]["method"])
    assert again.status == 200 and again.json["id"] == named["id"]
    changed = done(service, quantize(service, subject, {"recipe": "seed-compat-damp01", "bits": 3}))
    assert changed["params"]["method"]["bits"] == 3 and changed["result"]["recipe"] is None
    assert changed["result"]["recipe_id"] != named["result"]["recipe_id"]


def test_curves_never_mix_protocols(service, subject):
    first = done(service, quantize(service, subject, {"name": "rtn", "bits": 8}))["result"]["protocol_id"]
    second = done(service, quantize(service, subject, {"name": "rtn", "bits": 8}, data="other"))["result"][
        "protocol_id"
    ]
    assert first != second
    evaluated = done(
        service,
        service.post(
            "/v1/runs",
            {"kind": "evaluate", "params": {"checkpoint": subject["checkpoint"], "dataset": subject["data"]}},
        ),
    )
    assert evaluated["result"]["protocol_id"] == first
    series = [
        s
        for s in service.get("/v1/curves?trajectory=methods&bits=8&method=rtn").json["series"]
        if s["method_label"] == "rtn 8-bit g128"
    ]
    assert {s["label"] for s in series} == {f"rtn 8-bit g128, on {s['dataset']}" for s in series}
    assert {s["protocol_id"] for s in series} == {first, second} and all(len(s["points"]) == 1 for s in series)
    only = service.get(f"/v1/curves?trajectory=methods&protocol={first}").json["series"]
    assert only and {s["protocol_id"] for s in only} == {first}
    fewer = {"dataset": subject["data"], "max_sequences": 2}
    third = done(service, quantize(service, subject, {"name": "rtn", "bits": 8}, evaluation=fewer))
    same = [
        s
        for s in service.get(f"/v1/curves?trajectory=methods&bits=8&dataset={subject['data']}").json["series"]
        if s["method_label"] == "rtn 8-bit g128" and s["protocol_id"] in (first, third["result"]["protocol_id"])
    ]
    assert {s["label"] for s in same} == {f"rtn 8-bit g128, on {s['evaluated_on']}" for s in same} and len(same) == 2


def test_curves_never_join_calibrations(service, subject):
    name = "methods-calibrations"
    early = service.checkpoint(
        models.write_llama(service.files / f"{name}-1", seed=15), name, "early", step=1, tokens=10
    )["id"]
    late = service.checkpoint(
        models.write_llama(service.files / f"{name}-2", seed=16), name, "late", step=2, tokens=20
    )["id"]
    data = [
        {"dataset": service.sequences(f"{name}-{which}", models.rows(4, 32, seed=20 + which))["name"]}
        for which in (1, 2)
    ]

    def measured(checkpoint, calibration, **method):
        return done(service, quantize(service, {**subject, "checkpoint": checkpoint}, method, calibration=calibration))[
            "result"
        ]

    def curves(**query):
        return service.get(
            f"/v1/curves?trajectory={name}" + "".join(f"&{key}={value}" for key, value in query.items())
        ).json["series"]

    first = measured(early, data[0], name="gptq", bits=3)
    only = curves(method="gptq")
    assert [s["label"] for s in only] == ["gptq 3-bit g128"] and only[0]["calibration_id"] == first["calibration_id"]
    assert only[0]["calibrated_on"] == f"{name}-1: 4 sequences, 128 tokens"
    single = service.sequences(f"{name}-3", models.rows(1, 32, seed=23))["name"]
    measured(early, {"dataset": single}, name="awq", bits=4)
    assert curves(method="awq")[0]["calibrated_on"] == f"{single}: 1 sequence, 32 tokens"
    second = measured(late, data[1], name="gptq", bits=3)
    both = curves(method="gptq")
    assert [(s["label"], [p["x"] for p in s["points"]]) for s in both] == [
        (f"gptq 3-bit g128, calibrated on {name}-1: 4 sequences, 128 tokens", [1]),
        (f"gptq 3-bit g128, calibrated on {name}-2: 4 sequences, 128 tokens", [2]),
    ]
    assert [s["calibration_id"] for s in both] == [first["calibration_id"], second["calibration_id"]]
    assert curves(calibration=second["calibration_id"])[0]["label"] == "gptq 3-bit g128"
    # full precision has no calibration, and a method that reads none gives the same numbers whatever it is offered
    assert [len(s["points"]) for s in curves(metric="loss_fp")] == [2]
    assert measured(early, data[0], name="rtn", bits=3)["calibration_id"] is None
    assert measured(late, data[1], name="rtn", bits=3)["calibration_id"] is None
    assert [(s["label"], len(s["points"])) for s in curves(method="rtn")] == [("rtn 3-bit g128", 2)]
    # columns that are kept are chosen by the calibration
    assert measured(early, data[0], name="rtn", bits=3, keep_outliers=2)["calibration_id"] == first["calibration_id"]
    table = service.get(f"/v1/curves?trajectory={name}&method=gptq", {"Accept": "text/csv"}).body.decode()
    assert {(row["calibration_id"], row["calibrated_on"]) for row in csv.DictReader(io.StringIO(table))} == {
        (s["calibration_id"], s["calibrated_on"]) for s in both
    }


def points_of(service, trajectory, label, run):
    series = service.get(f"/v1/curves?trajectory={trajectory}&metric=delta").json["series"]
    return [point for one in series if one["label"].startswith(label) for point in one["points"] if point["run"] == run]


@pytest.mark.parametrize(("count", "way"), [(1, None), (2, "student"), (63, "student"), (64, "bootstrap")])
def test_the_interval_is_made_for_the_number_of_sequences(service, subject, count, way):
    data = service.sequences(f"methods-count-{count}", models.rows(count, 12, seed=count))["name"]
    result = done(
        service, quantize(service, subject, {"name": "rtn", "bits": 3, "group_size": 16}, evaluation={"dataset": data})
    )["result"]
    assert result["interval_method"] == way and (result["delta_interval"] is None) == (way is None)
    evaluated = done(
        service,
        service.post(
            "/v1/runs", {"kind": "evaluate", "params": {"checkpoint": subject["checkpoint"], "dataset": data}}
        ),
    )
    stderr = evaluated["result"]["loss_stderr"]
    series = service.get(f"/v1/curves?trajectory=methods&metric=loss&dataset={data}").json["series"][0]
    assert series["evaluated_on"] == f"{data}: {count} sequence{'s' if count > 1 else ''}, {12 * count} tokens"
    point = series["points"][0]
    if count == 1:
        assert (stderr, point["low"], point["high"]) == (None, None, None)
        return
    # Student's t of count - 1 degrees of freedom (scipy.stats.t.ppf(0.975, count - 1))
    t = {2: 12.7062047361747, 63: 1.99897151603683, 64: 1.99834054252074}[count]
    losses = numpy.array(evaluated["result"]["sequence_losses"])
    assert stderr == pytest.approx(losses.std(ddof=1) / count**0.5, rel=1e-9)  # all of one length
    assert (point["low"], point["high"]) == (
        pytest.approx(point["y"] - t * stderr, rel=1e-9),
        pytest.approx(point["y"] + t * stderr, rel=1e-9),
    )
    if way == "student":
        assert result["delta_interval"][0] + result["delta_interval"][1] == pytest.approx(
            2 * result["delta"], abs=1e-14
        )


def test_draws_of_calibration_share_no_sequence(service, subject):
    calibration = {
        "dataset": service.sequences("methods-draws", models.rows(6, 32, seed=9))["name"],
        "max_sequences": 2,
    }
    one = done(service, quantize(service, subject, {"name": "gptq", "bits": 3}, calibration=calibration))["result"]
    run = done(
        service, quantize(service, subject, {"name": "gptq", "bits": 3}, calibration=calibration, calibration_draws=3)
    )
    draws = run["result"]["calibration_draws"]
    assert one["calibration_draws"] is None
    assert all(draws[name][0] == one[name] for name in ("delta", "loss_q", "kl", "top1_agreement"))
    assert len(set(draws["delta"])) == 3 and run["result"]["calibration_sequences"] == 2
    mean = sum(draws["delta"]) / 3
    spread = (sum((d - mean) ** 2 for d in draws["delta"]) / 2) ** 0.5
    assert draws["delta_mean"] == pytest.approx(mean) and draws["delta_stddev"] == pytest.approx(spread)
    # the run's own numbers are the means, and so is the point of the curve; what the samples do is in the interval
    for name in ("delta", "loss_q", "kl", "top1_agreement"):
        assert run["result"][name] == pytest.approx(sum(draws[name]) / 3, rel=1e-12)
    assert run["result"]["delta"] == pytest.approx(run["result"]["loss_q"] / run["result"]["loss_fp"] - 1, abs=1e-14)
    assert (one["interval_method"], run["result"]["interval_method"]) == ("student", "student_draws")
    low, high = run["result"]["delta_interval"]
    assert (low + high) / 2 == pytest.approx(mean, abs=1e-14)
    # the variance between the samples alone with the least t that there is,
    # that of three degrees of freedom (four sequences)
    assert (high - low) / 2 > 3.182446 * spread / 3**0.5
    for name in ("loss_q", "kl"):
        apart = (sum((value - run["result"][name]) ** 2 for value in draws[name]) / 2) ** 0.5
        below, above = run["result"][f"{name}_interval"]
        assert (below + above) / 2 == pytest.approx(run["result"][name]) or below == 0
        assert above - run["result"][name] > 3.182446 * apart / 3**0.5
    assert run["result"]["loss_fp_interval"] == one["loss_fp_interval"]  # no calibration is in it
    point = points_of(service, "methods", "gptq 3-bit g128", run["id"])[0]
    assert (point["y"], point["low"], point["high"]) == (run["result"]["delta"], low, high)
    # the second draw is what its sequences alone give
    rows = models.rows(6, 32, seed=9)[2:4]
    second = done(
        service,
        quantize(
            service,
            subject,
            {"name": "gptq", "bits": 3},
            calibration={"dataset": service.sequences("methods-second", rows)["name"]},
        ),
    )
    assert second["result"]["delta"] == draws["delta"][1]
    answer = quantize(service, subject, {"name": "gptq"}, calibration_draws=2)
    assert answer.status == 422 and answer.pointers == ["/params/calibration_draws"]
    answer = quantize(service, subject, {"name": "gptq"}, calibration=calibration, calibration_draws=4)
    run = service.wait(answer.json["id"])
    assert run["state"] == "failed" and "6 in all" in run["error"]["detail"]


def test_an_override_that_changes_nothing_is_refused(service, subject):
    good = {"pattern": "down_proj$", "bits": 8}
    for overrides, pattern in (([{"pattern": "nothing_here", "bits": 8}], "nothing_here"),
                               ([good, {"pattern": "^lm_head", "skip": True}], "^lm_head")):
        answer = quantize(service, subject, {"name": "rtn", "bits": 4, "overrides": overrides})
        assert answer.status == 422, answer.body
        assert answer.pointers == [f"/params/method/overrides/{len(overrides) - 1}/pattern"]
        assert f'"{pattern}" matches no linear of the model; one is named "model.layers.' in answer.json["detail"]
        assert '.weight"' not in answer.json["detail"]
    # one that an earlier one overrides changes nothing either, but names linears that are there
    both = [{"pattern": "down_proj$", "bits": 8}, {"pattern": "layers.0.*down_proj", "bits": 2}]
    done(service, quantize(service, subject, {"name": "rtn", "bits": 4, "overrides": both}))


FILTERED = ["curves?trajectory=methods", "measurements?trajectory=methods", "correlations?x=kl&y=delta",
            "trajectories/methods/changepoints?"]


@pytest.mark.parametrize("path", FILTERED)
def test_a_misspelt_method_is_no_empty_answer(service, subject, path):
    answer = service.get(f"/v1/{path}&method=gptk")
    assert answer.status == 422 and "rtn, gptq" in answer.json["detail"] + str(answer.json["errors"])
    assert service.get(f"/v1/{path}&method=gptq").status == 200


@pytest.mark.parametrize("path", FILTERED)
def test_a_misspelt_dataset_is_no_empty_answer(service, subject, path):
    answer = service.get(f"/v1/{path}&dataset=nobodys")
    assert answer.status == 422 and answer.json["errors"] == [
        {"pointer": "/dataset", "detail": 'no dataset is named "nobodys"; GET /v1/datasets lists those there are'}]
    done(service, quantize(service, subject, {"name": "rtn", "bits": 4}))
    named = service.get(f"/v1/{path}&dataset={subject['data']}")
    assert named.status == 200 and (path not in FILTERED[:2] or named.json.get("series") or named.json.get("items"))
    by_id = service.get(f"/v1/{path}&dataset={service.get('/v1/datasets/' + subject['data']).json['id']}")
    assert by_id.status == 200 and by_id.body == named.body
    service.sequences("methods-unmeasured", [[1, 2, 3, 4]])  # one on which nothing was measured yet has no points
    assert service.get(f"/v1/{path}&dataset=methods-unmeasured").status == 200


def test_a_dataset_that_is_gone_is_known_by_what_was_measured_on_it(service, subject):
    service.sequences("methods-gone", [[1, 2, 3, 4, 5, 6, 7, 8]])
    run = service.run("evaluate", checkpoint=subject["checkpoint"], dataset="methods-gone", sequence_length=None)
    assert run["state"] == "succeeded" and service.request("DELETE", "/v1/datasets/methods-gone").status == 204
    found = service.get("/v1/curves?trajectory=methods&metric=loss&dataset=methods-gone")
    assert found.status == 200 and len(found.json["series"]) == 1


def test_calibration_on_the_head_of_a_text_is_told(service, subject):
    """Packed as documents, which calibration is unless told otherwise, a text file is one sequence, its head."""
    (service.files / "long.txt").write_text("it goes on and on. " * 60)
    answer = service.post("/v1/datasets", {"name": "methods-long", "path": "long.txt", "format": "text"})
    assert answer.status == 201, answer.body
    use = {"dataset": "methods-long", "sequence_length": 32, "max_sequences": 8}
    method = {"name": "rtn", "bits": 3}
    head = done(service, quantize(service, subject, method, calibration=use))
    assert head["result"]["calibration_sequences"] == 1
    assert "(1 in all)" in head["result"]["note"] and '"packing": "blocks"' in head["result"]["note"]
    assert "methods-long: calibrated on the heads" in service.get(f"/v1/runs/{head['id']}/events").body.decode()
    whole = done(service, quantize(service, subject, method, calibration={**use, "packing": "blocks"}))["result"]
    assert whole["calibration_sequences"] == 8 and whole.get("note") is None
    # a text that is no longer than its sequence loses nothing, and sequences given as they are neither
    (service.files / "short.txt").write_text("it ends at once.")
    service.post("/v1/datasets", {"name": "methods-short", "path": "short.txt", "format": "text"})
    for name in ("methods-short", subject["calibration"]):
        found = done(service, quantize(service, subject, method, calibration={**use, "dataset": name}))["result"]
        assert found.get("note") is None


def test_calibration_that_holds_the_evaluation_is_told(service, subject):
    clean = done(service, quantize(service, subject, {"name": "rtn", "bits": 2}))["result"]["calibration_overlap"]
    assert clean == {"window_tokens": 32, "windows": 4, "overlapping": 0, "share": 0}
    leaky = done(
        service, quantize(service, subject, {"name": "rtn", "bits": 2}, calibration={"dataset": subject["data"]})
    )["result"]
    assert leaky["calibration_overlap"]["overlapping"] == 4
    none = done(service, quantize(service, subject, {"name": "rtn", "bits": 2}, calibration=None))["result"]
    assert none["calibration_overlap"] is None
