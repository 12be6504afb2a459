import models
import pytest


@pytest.fixture(scope="module")
def ready(service):
    made = service.checkpoint(models.write_llama(service.files / "sharpness"), "sharpness", "step1", step=1, tokens=64,
                              learning_rate=0.01)
    return {"checkpoint": made["id"], "dataset": service.sequences("sharpness-data", models.rows(4, 32))["id"]}


def test_everything_is_estimated_by_default(service, ready):
    run = service.run("sharpness", **ready, probes=8, spectrum_probes=2, spectrum_steps=8)
    result = run["result"]
    assert run["state"] == "succeeded", run["error"]
    assert (run["params"]["estimators"] == ["top_eigenvalue", "trace", "spectrum"]
            and run["params"]["sequence_length"] is None)
    assert (run["params"]["max_iterations"], run["params"]["tolerance"],
            run["params"]["direction"]) == (100, 1e-3, None)
    assert result["converged"] and result["residual"] < 2e-3 and 1 < result["iterations"] <= 100
    assert abs(result["top_eigenvalue"]) == max(abs(result["largest_algebraic"]), abs(result["smallest_algebraic"]))
    for name in ("top_eigenvalue", "largest_algebraic", "smallest_algebraic"):
        low, high = result[f"{name}_interval"]
        assert low < result[name] < high and high - low < 5e-3 * abs(result["top_eigenvalue"])
    low, high = result["top_eigenvalue_interval"]
    assert (high - low) / 2 == pytest.approx(result["residual"] * abs(result["top_eigenvalue"]))
    assert result["spectral_norm"] == abs(result["top_eigenvalue"])
    assert result["relative_largest_eigenvalue"] == pytest.approx(
        result["largest_algebraic"] * result["weight_norm"] ** 2)
    assert result["trace_per_parameter"] == pytest.approx(result["trace"] / result["parameters"])
    assert result["relative_trace"] == pytest.approx(result["trace_per_parameter"] * result["weight_norm"] ** 2)
    assert "prediction_in_range" not in result
    assert (result["probes"] == 8 and result["trace_stderr"] > 0 and result["gradient_norm"] > 0
            and result["weight_norm"] > 0)
    spectrum = result["spectrum"]
    assert (len(spectrum["nodes"]) == 16 and spectrum["nodes"] == sorted(spectrum["nodes"])
            and sum(spectrum["weights"]) == pytest.approx(1))
    assert (run["progress"]["unit"] == "product"
            and run["progress"]["done"] == run["progress"]["total"] == result["products"])
    assert result["loss"] == pytest.approx(service.run("evaluate", **ready)["result"]["loss"], rel=1e-5)


def test_in_bf16_eigenvalues_have_no_intervals(service, ready):
    """Their residual is that of rounded products: it says nothing about the Hessian."""
    full, rounded = (service.run("sharpness", **ready, estimators=["top_eigenvalue"], groups=True, precision=p,
                                 preconditioner={"name": "squared_gradients", "batches": 4}) for p in ("f32", "bf16"))
    assert rounded["state"] == "succeeded" and rounded["device"] == "cpu", rounded["error"]
    named = [name for name in full["result"] if name.endswith("_interval") and full["result"][name] is not None]
    assert "preconditioned_sharpness_interval" in named and "top_eigenvalue_interval" in named
    assert {name for name in named if rounded["result"][name] is not None} == {
        name for name in named if "eigenvalue" not in name and "algebraic" not in name and "preconditioned" not in name}
    for group in rounded["result"]["groups"]:
        assert group["top_eigenvalue_interval"] is None and group["top_eigenvalue"] is not None
    for name in ("top_eigenvalue", "gradient_norm"):
        assert rounded["result"][name] == pytest.approx(full["result"][name], rel=0.1)
        assert rounded["result"][name] != full["result"][name]


def test_what_is_not_asked_for_is_null_and_curves_show_the_rest(service, ready):
    run = service.run("sharpness", **ready, estimators=["top_eigenvalue"], groups=True, method="power",
                      tolerance=1e-2, seed=5)
    result = run["result"]
    assert result["trace"] is None and result["spectrum"] is None and result["method"] == "power"
    assert result["relative_trace"] is None and result["trace_per_parameter"] is None
    assert sum(result[f"{name}_algebraic_interval"] is None for name in ("largest", "smallest")) == 1
    assert {group["name"] for group in result["groups"]} == {"embedding", "attention", "mlp", "norms", "output"}
    assert sum(group["parameters"] for group in result["groups"]) == result["parameters"]
    for metric in ("top_eigenvalue", "gradient_norm"):
        series = service.get(f"/v1/curves?trajectory=sharpness&metric={metric}&x=step").json["series"]
        assert any(point["y"] == result[metric] for one in series for point in one["points"])


def test_critical_sharpness_is_found_from_losses_alone(service, ready):
    run = service.run("sharpness", **ready, estimators=["critical_sharpness"])
    result = run["result"]
    assert run["state"] == "succeeded", run["error"]
    low, high = result["critical_sharpness_interval"]
    assert 0 < low < result["critical_sharpness"] < high < low * 1.0101 and result["products"] == 0
    assert result["top_eigenvalue"] is None and result["trace"] is None and result["spectrum"] is None
    series = service.get("/v1/curves?trajectory=sharpness&metric=critical_sharpness&x=step").json["series"]
    assert [point["y"] for one in series for point in one["points"]] == [result["critical_sharpness"]]
    other = service.run("sharpness", **ready, estimators=["trace", "critical_sharpness"], probes=4)["result"]
    assert other["critical_sharpness"] == result["critical_sharpness"] and other["trace_stderr"] > 0
    plan = service.post("/v1/runs", {"kind": "sharpness", "dry_run": True, "params": {
        **ready, "estimators": ["critical_sharpness"]}}).json
    none = service.post("/v1/runs", {"kind": "sharpness", "dry_run": True, "params": {**ready, "estimators": []}})
    assert plan["flops"] > none.json["flops"] and plan["memory"] == none.json["memory"]


def test_direction_predicts_the_damage(service, ready):
    run = service.run("sharpness", **ready, estimators=[],
                      direction={"method": {"name": "rtn", "bits": 8, "group_size": 16}})
    result = run["result"]
    assert run["state"] == "succeeded", run["error"]
    assert result["top_eigenvalue"] is None
    assert result["predicted_delta"] == pytest.approx((result["gradient_term"] + result["curvature_term"])
                                                      / result["loss"])
    assert result["predicted_delta"] == pytest.approx(result["measured_delta"], rel=0.1, abs=3e-6)
    for parts in ("by_layer", "by_block"):
        for term in ("gradient_term", "curvature_term"):
            assert sum(part[term] for part in result[parts]) == pytest.approx(result[term], abs=1e-9)
    assert result["prediction_in_range"] is True
    assert result["prediction_units"] == 4
    for name in ("gradient_term", "curvature_term", "predicted_delta"):
        point = service.get(f"/v1/curves?trajectory=sharpness&metric={name}").json["series"][0]["points"][-1]
        half = 3.182446305284263 * result[f"{name}_stderr"]  # t of 0.975, 3 degrees
        assert half > 0 and [point["low"], point["high"]] == pytest.approx([result[name] - half, result[name] + half])
    coarse = service.run("sharpness", **ready, estimators=[],
                         direction={"method": {"name": "rtn", "bits": 2, "group_size": -1}})["result"]
    assert coarse["prediction_in_range"] == (abs(coarse["predicted_delta"]) <= 0.2)
    assert len(result["by_layer"]) == 14 and len(result["by_block"]) == 2


def test_an_error_is_compared_with_random_changes_of_its_size(service, ready):
    direction = {"method": {"name": "rtn", "bits": 3, "group_size": 16}}
    plain = service.run("sharpness", **ready, estimators=[], direction=direction)["result"]
    assert plain["random_directions"] == 0 and plain["curvature_ratio"] is None and plain["random_delta"] is None
    run = service.run("sharpness", **ready, estimators=[], direction={**direction, "random_directions": 8})
    result = run["result"]
    assert run["state"] == "succeeded", run["error"]
    assert result["random_directions"] == 8 and result["products"] == 9
    for name in ("curvature_term", "gradient_term", "predicted_delta", "predicted_delta_stderr", "loss_q"):
        assert result[name] == plain[name]  # what is asked beside them changes nothing
    random, stderr = result["random_curvature_term"], result["random_curvature_term_stderr"]
    assert stderr > 0 and result["random_delta_stderr"] > 0
    if random > 0:
        assert result["curvature_ratio"] * random == pytest.approx(result["curvature_term"])
    # both measure the change of the loss; what they differ by is of the fourth order
    assert result["random_delta"] * result["loss"] == pytest.approx(random, rel=0.2, abs=3 * stderr)
    point = service.get("/v1/curves?trajectory=sharpness&metric=random_delta").json["series"][0]["points"][-1]
    delta, half = result["random_delta"], 2.3646242510102993 * result["random_delta_stderr"]  # t of 0.975, 7 degrees
    assert [point["low"], point["high"]] == pytest.approx([delta - half, delta + half])
    body = {"kind": "sharpness", "dry_run": True}
    plan, more = (service.post("/v1/runs", {**body, "params": {**ready, "estimators": [], "direction": d}}).json
                  for d in (direction, {**direction, "random_directions": 8}))
    assert more["flops"] > plan["flops"] and more["memory"] == plan["memory"]


@pytest.mark.parametrize("fields,pointer", [
    ({"probes": 0}, "/params/probes"), ({"tolerance": 0}, "/params/tolerance"),
    ({"tolerance": -1e-3}, "/params/tolerance"),
    ({"max_iterations": 0}, "/params/max_iterations"), ({"estimators": ["volume"]}, "/params/estimators/0"),
    ({"spectrum_steps": 0}, "/params/spectrum_steps"), ({"precision": "f16"}, "/params/precision"),
    ({"direction": {"method": {"name": "gptq", "bits": 4}}}, "/params/direction/calibration"),
    ({"direction": {"method": {"name": "rtn", "bits": 99}}}, "/params/direction/method/bits"),
    ({"direction": {"method": {"name": "rtn"}, "random_directions": -1}}, "/params/direction/random_directions"),
    ({"direction": {}}, "/params/direction/method")])
def test_bad_parameters_are_blamed(service, ready, fields, pointer):
    answer = service.post("/v1/runs", {"kind": "sharpness", "params": {**ready, **fields}})
    assert answer.status == 422 and answer.pointers == [pointer], answer.json
