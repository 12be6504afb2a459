"""GET /v1/metrics tells what every measured number is."""

from service import OPENAPI


def test_every_metric_is_told(service):
    answer = service.get("/v1/metrics")
    assert answer.status == 200
    items = {item["name"]: item for item in answer.json["items"]}
    assert len(items) == len(answer.json["items"])
    assert list(items) == OPENAPI["components"]["schemas"]["Metric"]["enum"]
    assert items["delta"] == {
        "name": "delta",
        "unit": None,
        "label": "ΔQL",
        "help": "loss_q / loss_fp − 1",
        "better": "lower",
        "format": "percent",
        "kinds": ["quantize"],
    }
    assert items["loss"]["unit"] == "nats" and items["loss"]["kinds"] == ["evaluate"]
    assert items["top1_agreement"]["better"] == "higher" and items["trace"]["better"] is None
    assert items["learning_rate"]["kinds"] == []
    assert all(item["kinds"] for name, item in items.items() if name != "learning_rate")


def test_kinds_are_those_of_runs(service):
    named = {name.removesuffix("Params").lower() for name in OPENAPI["components"]["schemas"] if name.endswith("Params")}
    assert {kind for item in service.get("/v1/metrics").json["items"] for kind in item["kinds"]} <= named
    assert service.get("/v1/metrics?limit=1").status == 422
