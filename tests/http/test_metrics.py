"""GET /v1/metrics tells what every measured number is."""

from contract import OPENAPI


def test_every_metric_is_told(service):
    answer = service.get("/v1/metrics")
    assert answer.status == 200
    items = {item["name"]: item for item in answer.json["items"]}
    assert len(items) == len(answer.json["items"])
    assert list(items) == OPENAPI["components"]["schemas"]["Metric"]["enum"]
    assert len({item["label"] for item in items.values()}) == len(items)  # lists of measures are read by people
    assert items["delta"]["help"].startswith("loss_q / loss_fp − 1")
    assert items["delta"] == {
        "name": "delta",
        "unit": None,
        "label": "ΔQL",
        "axis": "ΔQL",
        "help": items["delta"]["help"],
        "better": "lower",
        "format": "percent",
        "kinds": ["quantize"],
    }
    assert items["loss"]["unit"] == "nats" and items["loss"]["kinds"] == ["evaluate"]
    assert items["top1_agreement"]["better"] == "higher" and items["trace"]["better"] is None
    assert items["learning_rate"]["kinds"] == []
    assert items["loss_q"]["format"] == "fixed" and items["trace"]["axis"] == "trace of the Hessian"
    assert all(item["kinds"] for name, item in items.items() if name != "learning_rate")


def test_the_figures_of_results_are_told(service):
    """By the tables of results: what stands in a schema's result, and nothing else."""
    answer = service.get("/v1/metrics").json
    items = {item["name"]: item for item in answer["items"]}
    figures = {(figure["kind"], figure["name"]): figure for figure in answer["figures"]}
    assert len(figures) == len(answer["figures"])
    names = {(figure["kind"], figure["label"]) for figure in answer["figures"]}
    assert len(names) == len(figures)  # no two numbers of a result are called alike
    assert figures["tasks", "mean_accuracy_q"]["label"] == "Quantized mean accuracy"
    for (kind, name), figure in figures.items():
        properties = OPENAPI["components"]["schemas"][f"{kind.title()}Result"]["properties"]
        assert {name, figure["interval"], figure["stderr"]} - {None} <= set(properties)
        if figure["metric"]:
            metric = items[figure["metric"]]
            assert [figure[field] for field in ("better", "format")] == [metric["better"], metric["format"]]
            quantized = f"Quantized {metric['label'][0].lower()}{metric['label'][1:]}"  # the metric of another method
            assert figure["label"] == (quantized if name == f"{figure['metric']}_q" else metric["label"])
    delta, trace, alone = (figures["quantize", "delta"], figures["sharpness", "trace"],
                           figures["attribution", "delta_alone"])
    assert (delta["interval"], delta["stderr"], delta["optional"]) == ("delta_interval", None, False)
    assert (trace["interval"], trace["stderr"], trace["optional"]) == (None, "trace_stderr", True)
    assert (alone["metric"], alone["format"], alone["label"]) == (None, "percent", "ΔQL of units alone, summed")
    assert figures["fetch", "bytes"]["format"] == "bytes" and figures["train", "validation_loss"]["optional"]
    assert {kind for kind, _ in figures} >= {"evaluate", "quantize", "sharpness", "train", "tasks", "attribution",
                                             "health", "fetch"}


def test_kinds_are_those_of_runs(service):
    named = {name.removesuffix("Params").lower() for name in OPENAPI["components"]["schemas"]
             if name.endswith("Params")}
    assert {kind for item in service.get("/v1/metrics").json["items"] for kind in item["kinds"]} <= named
    assert service.get("/v1/metrics?limit=1").status == 422
