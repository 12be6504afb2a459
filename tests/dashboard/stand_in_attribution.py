"""The stand-in's attribution of a checkpoint: shapes as the server's, numbers made up: later layers cost more, fewer
bits too. Standard library only."""

PARTS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj",
         "mlp.down_proj")


def quantization(delta, bits, loss=2.5):
    return {"loss_q": loss * (1 + delta), "delta": delta, "delta_interval": [0.7 * delta - 1e-4, 1.4 * delta + 1e-4],
            "kl": abs(delta) + 1e-5, "top1_agreement": 1 - 2 * abs(delta), "bits_per_weight": bits + 0.125}


def attribution(world, checkpoint):
    """Adds the run "attribution", of seven linears in each of six blocks,
    with a frontier of three widths and an allocation."""
    harm, widths = {2: 30.0, 3: 4.0, 4: 1.0}, (2, 3, 4)
    units = []
    for layer in range(6):
        for place, part in enumerate(PARTS):
            alone = 1e-4 * (1 + layer) * (1.5 - place / 4)
            marginal = 1.3 * alone + 2e-4
            units.append({"name": f"model.layers.{layer}.{part}", "layer": layer, "weights": 65536,
                          "alone": quantization(alone, 4), "share": 0.02, "left_out": quantization(0.02 - marginal, 4),
                          "marginal": marginal, "interaction": marginal - alone,
                          "widths": [{**quantization(alone * harm[bits], bits), "bits": bits} for bits in widths]})
    total = sum(unit["alone"]["delta"] for unit in units)

    def point(stored, delta, **more):
        return {"bits_per_weight": stored, "loss_q": 2.5 * (1 + delta), "delta": delta, "kl": delta, **more}

    frontier = [point(2.125 + 2 * index / 84, total * 30 ** (1 - index / 84),
                      unit=units[index % 42]["name"] if index else None, bits=2 if not index else 3 + (index > 42))
                for index in range(85)]
    run = world.add_run("attribution", {"checkpoint": checkpoint["id"],
                                        "method": {"name": "gptq", "bits": 4, "group_size": 128, "overrides": []},
                                        "calibration": {"dataset": "perl-manual"},
                                        "evaluation": {"dataset": "perl-manual-validation"}, "unit": "linear",
                                        "left_out": True, "bits": [2, 3], "budget": 3.5, "allocate_by": "loss"},
                        "succeeded", id="attribution")
    run["result"] = {
        **quantization(0.02, 4), "loss_fp": 2.5, "sequences": 8, "tokens": 4096, "calibration_sequences": 8,
        "calibration_tokens": 4096, "delta_alone": total, "kl_alone": total, "delta_marginal": 0.03,
        "additive_share": total / 0.02, "interaction": 0.02 - total, "units": units, "frontier": frontier,
        "widths": [{**quantization(1.3 * total * harm[bits], bits), "bits": bits, "delta_alone": total * harm[bits],
                    "kl_alone": total, "additive_share": 1 / 1.3} for bits in widths],
        "allocation": {"budget": 3.5, "predicted": point(3.49, 0.04),
                       "measured": {**quantization(0.05, 3.37), "bits_per_weight": 3.49},
                       "bits": {unit["name"]: 3 for unit in units},
                       "overrides": [{"pattern": "^model\\.layers\\.(?:0|1|2)\\.mlp\\.up_proj$", "bits": 3}],
                       "recipe_id": "0123456789abcdef", "method": {"name": "gptq"}},
        "recipe_id": "fedcba9876543210", "recipe": None, "protocol_id": "00112233aabbccdd"}
    return run
