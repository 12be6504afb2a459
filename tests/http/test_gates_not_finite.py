"""Gates on checkpoints whose losses are not finite."""

import models
from streaming import Stream
from test_gates import RTN4, make, one, quantize, verdict


def spoil(tensors):
    tensors["model.norm.weight"][:] = 3e38  # finite, and what is made of it is not


def test_a_loss_that_is_not_finite_fails(service, name):
    """Whoever waited for a verdict waited for ever: there is no measurement, and never will be."""
    place = models.write_llama(service.files / name, seed=48320, change=spoil)
    service.checkpoint(place, name, "broken", step=1)
    service.checkpoint(models.write_llama(service.files / f"{name}-well", seed=48321), name, "well", step=2)
    data = service.sequences(name, models.rows(4, 32))
    make(service, name, {"metric": "loss", "max": 20}, trajectory=name)
    make(service, f"{name}-q", {"metric": "delta", "series": {**RTN4, "dataset": data["name"]}, "max": 1},
         {"metric": "loss_q", "series": {"method": "nf4"}, "max": 20}, trajectory=name)
    assert one(service, name, f"{name}/broken")["verdict"] == "pending"
    run = service.run("evaluate", checkpoint=f"{name}/broken", dataset=name, sequence_length=None)
    assert run["state"] == "succeeded", run["error"]
    assert run["result"]["loss"] is None and "not finite" in run["result"]["note"]
    rule = one(service, name, f"{name}/broken")
    assert (rule["verdict"], rule["value"], rule["run"]) == ("fail", None, run["id"]) and "not finite" in rule["reason"]
    assert one(service, name, f"{name}/well")["verdict"] == "pending"
    quantized = quantize(service, f"{name}/broken", 4, dataset=name)
    first, second = verdict(service, f"{name}-q", f"{name}/broken")["rules"]
    assert (first["verdict"], first["run"], second["verdict"]) == ("fail", quantized["id"], "pending")
    with Stream(service.port, f"/v1/events?after=0&kind=alert&trajectory={name}") as stream:
        (_, _, told), = stream.take(1)
    assert (told["gate"], told["verdict"], told["checkpoint_name"]) == (name, "fail", "broken")
