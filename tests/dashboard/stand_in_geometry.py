"""The stand-in's curvature, averages, lines and landscapes: shapes as the server's, numbers made up but behaving:
curvature grows as training goes on and more as the rate decays, averages are flatter. Standard library only."""

import math


def sharpness(world, checkpoint, top, trace):
    """A run of the kind sharpness, with its spectrum and what it predicts of gptq at 3 bits."""
    nodes = sorted([top * (1 - 0.5 * index / 6) ** 3 for index in range(6)]
                   + [trace / 1.4e6 * (index - 40) * 12 for index in range(58)])
    weights = [math.exp(-abs(node) / (0.02 * top)) + 1e-6 for node in nodes]
    parts = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
             "mlp.up_proj", "mlp.down_proj")
    by_layer = [{"name": f"model.layers.{block}.{part}", "gradient_term": 3e-4 * math.sin(2.3 * block + place),
                 "curvature_term": 1.1e-3 * (1 + 0.2 * block) * (1.1 + math.cos(place))}
                for block in range(6) for place, part in enumerate(parts)]
    by_block = [{"name": str(block), **{term: sum(part[term] for part in by_layer if f".{block}." in part["name"])
                                        for term in ("gradient_term", "curvature_term")}}
                for block in range(6)]
    gradient, curvature = (sum(part[term] for part in by_layer) for term in ("gradient_term", "curvature_term"))
    run = world.add_run("sharpness", {"checkpoint": checkpoint["id"], "dataset": "perl-manual-validation",
                                      "sequence_length": 128, "max_sequences": 16, "method": "lanczos",
                                      "estimators": ["top_eigenvalue", "trace", "spectrum"], "max_iterations": 100,
                                      "tolerance": 1e-3, "probes": 32, "seed": 0, "groups": True,
                                      "direction": {"method": {"name": "gptq", "bits": 3, "group_size": 128},
                                                    "calibration": {"dataset": "perl-manual", "max_sequences": 64}}},
                        "succeeded")
    groups = [{"name": name, "parameters": 200_000 + place, "top_eigenvalue": top / (1 + place),
               "largest_algebraic": top / (1 + place), "smallest_algebraic": -0.04 * top,
               "iterations": 20, "converged": True, "residual": 4e-4}
              for place, name in enumerate(("embeddings", "attention", "mlp", "norms"))]
    loss = 2.5
    run["result"] = {"loss": loss, "gradient_norm": 0.31, "weight_norm": 48.2, "parameters": 1_442_432,
                     "sequences": 16, "tokens": 2048, "products": 180, "method": "lanczos", "top_eigenvalue": top,
                     "largest_algebraic": top, "smallest_algebraic": -0.07 * top, "iterations": 21,
                     "converged": True, "residual": 6e-4, "trace": trace, "trace_stderr": 0.04 * trace, "probes": 32,
                     "trace_exact": False, "spectrum": {"nodes": nodes, "weights": [w / sum(weights) for w in weights]},
                     "groups": groups, "predicted_delta": (gradient + curvature) / loss,
                     "gradient_term": gradient, "curvature_term": curvature, "by_layer": by_layer,
                     "by_block": by_block, "measured_delta": 1.2 * (gradient + curvature) / loss,
                     "loss_q": loss + 1.2 * (gradient + curvature), "kl": 0.01, "direction_norm": 2.1}
    world.points.append(("largest_algebraic", checkpoint, None, None, "", top, None, None, run["id"]))
    world.points.append(("trace", checkpoint, None, None, "", trace, 0.92 * trace, 1.08 * trace, run["id"]))
    return run


def averages(world, source, window):
    """The averages of a window along a trajectory, and their quantization; the run that made them."""
    own = [item for item in world.checkpoints if item["trajectory"] == source]
    name = f"{source}-lawa{window}"
    world.add_trajectory(name, [])
    made = []
    for last in range(window - 1, len(own)):
        members = own[last - window + 1:last + 1]
        checkpoint = world.add_checkpoint(name, last + 1, own[last]["learning_rate"])
        checkpoint["derived_from"] = {"checkpoints": [item["id"] for item in members], "weights": [1 / window] * window,
                                      "run": "average"}
        made.append(checkpoint)
        loss = 2.3 + 3.1 * math.exp(-checkpoint["tokens"] / 1.1e6)
        for bits, scale in ((4, 0.0033), (3, 0.024)):
            world.measure(checkpoint, bits, scale * (1 + 0.16 * checkpoint["tokens"] / 1e6), loss)
    run = world.add_run("average", {"checkpoints": [item["id"] for item in own], "trajectory": source, "window": window,
                                    "into": name}, "succeeded", id="average")
    run["result"] = {"trajectory": name, "checkpoints": [item["id"] for item in made]}
    return made


def comparison(world, start, end):
    """A run of the kind compare, of two checkpoints quantized alike, with the values of tokens."""
    values = {"loss_fp": (2.41, 2.28, 0.004), "loss_q": (2.47, 2.37, 0.006), "delta": (0.0249, 0.0395, 0.0021),
              "kl": (0.061, 0.0611, 0.0008)}
    numbers = {name: {"a": a, "b": b, "difference": b - a, "interval": [b - a - half, b - a + half],
                      "interval_method": "bootstrap", "worse": 61 if b > a else 4, "better": 4 if b > a else 61,
                      "worse_share": 61 / 65 if b > a else 4 / 65, "sign_p": 3.1e-13}
               for name, (a, b, half) in values.items()}
    tokens = {name: {"interval": [number["difference"] - half / 2, number["difference"] + half / 2],
                     "interval_method": "student", "design_effect": 3.9,
                     **({} if name == "delta" else {"worse": 5230, "better": 3025, "worse_share": 5230 / 8255,
                                                    "worse_share_interval": [0.61, 0.66],
                                                    "worse_share_method": "bootstrap"})}
              for (name, number), (_, _, half) in zip(numbers.items(), values.values())}
    run = world.add_run("compare", {"a": None, "b": None, "checkpoints": [start["id"], end["id"]],
                                    "per_token": True, "seed": 0, "precision": "f32", "calibration": None,
                                    "evaluation": {"dataset": "perl-manual-validation", "sequence_length": 128},
                                    "method": {"name": "rtn", "bits": 3, "group_size": 128}}, "succeeded", id="compare")
    sides = [{"run": None, "checkpoint": one["id"], "recipe_id": "0" * 16, "calibration_id": None}
             for one in (start, end)]
    run["result"] = {"a": sides[0], "b": sides[1], "kind": "quantize", "protocol_id": "1" * 16, "sequences": 65,
                     "tokens": 8320, **numbers, "by_token": {"predictions": 8255, **tokens}}


def line(world, start, end, points=51):
    alphas = [index / (points - 1) for index in range(points)]
    losses = [2.7 - 0.32 * alpha + 0.16 * math.sin(math.pi * alpha) ** 2 for alpha in alphas]
    deltas = [0.03 + 0.02 * alpha + 0.004 * math.sin(23 * alpha) for alpha in alphas]
    run = world.add_run("interpolate", {"from": start["id"], "to": end["id"], "points": points, "range": [0, 1],
                                        "dataset": "perl-manual-validation", "sequence_length": 128,
                                        "method": {"name": "gptq", "bits": 3, "group_size": 128}},
                        "succeeded", id="line")
    run["result"] = {"alphas": alphas, "losses": losses,
                     "losses_q": [loss * (1 + delta) for loss, delta in zip(losses, deltas)], "deltas": deltas,
                     "delta_intervals": [[0.9 * delta, 1.1 * delta] for delta in deltas]}


def landscape(world, checkpoints):
    count = len(checkpoints)
    points = [[9.0 * math.cos(math.pi * index / (count - 1)), 3.2 * math.sin(math.pi * index / (count - 1)) - 1.6]
              for index in range(count)]
    xs = [-13.5 + 27.0 * index / 19 for index in range(20)]
    ys = [-3.6 + 6.0 * index / 14 for index in range(15)]

    def loss(x, y):
        return 2.35 + 0.006 * (x + 9) ** 2 + 0.05 * (y + 1.4) ** 2

    losses = [[loss(x, y) for x in xs] for y in ys]
    losses[14][19] = None  # not finite
    deltas = [[0.01 + 0.0006 * abs(x) for x in xs] for _ in ys]
    run = world.add_run("landscape", {"checkpoints": [item["id"] for item in checkpoints], "trajectory": None,
                                      "grid": [20, 15], "margin": 0.25, "adaptive_margins": False,
                                      "dataset": "perl-manual-validation", "sequence_length": 128},
                        "succeeded", id="landscape")
    run["result"] = {"checkpoints": [item["id"] for item in checkpoints], "explained_variance": [0.613, 0.184],
                     "points": points, "point_losses": [loss(*point) for point in points], "x": xs, "y": ys,
                     "losses": losses, "losses_q": [[loss * 1.02 if loss else None for loss in row] for row in losses],
                     "deltas": deltas, "margins": [0.25] * 4, "note": "1 of 300 losses is not finite"}


def geometry(world):
    """Adds all of it to the demonstration's world: sharpness of every checkpoint, averages, a line,
    a comparison and a landscape."""
    for checkpoint in list(world.checkpoints):
        tokens, decayed = checkpoint["tokens"] / 1e6, 1 - checkpoint["learning_rate"] / 4e-3
        top = 38.0 * (1 + 0.12 * tokens) * (1 + 1.4 * decayed)
        sharpness(world, checkpoint, top, 31.0 * top)["id"] = f"sharpness-{checkpoint['id']}"
    made = averages(world, "constant", 5)
    for checkpoint in made:
        top = 26.0 * (1 + 0.1 * checkpoint["tokens"] / 1e6)
        world.points.append(("largest_algebraic", checkpoint, None, None, "", top, None, None, None))
    constant = [item for item in world.checkpoints if item["trajectory"] == "constant"]
    line(world, constant[3], constant[-1])
    comparison(world, constant[3], constant[-1])
    landscape(world, constant)


def mean(values):
    return sum(values) / len(values)


def pearson(pairs):
    x, y = mean([pair[0] for pair in pairs]), mean([pair[1] for pair in pairs])
    across, up = sum((pair[0] - x) ** 2 for pair in pairs), sum((pair[1] - y) ** 2 for pair in pairs)
    return sum((a - x) * (b - y) for a, b in pairs) / math.sqrt(across * up) if across * up > 0 else None


def correlation(points):
    pairs = [(point["x"], point["y"]) for point in points]
    found = pearson(pairs) if len(pairs) >= 3 else None
    around = None if found is None else [max(-1, found - 0.2), min(1, found + 0.08)]
    numbers = {"n": len(pairs), "pearson": found, "spearman": found, "interval": around, "spearman_interval": around,
               "units": 5}
    return {**numbers, "within": numbers, "differences": {**numbers, "n": len(pairs) - 5}}


def correlations(world, names, x, y):
    """What GET /v1/correlations answers; Spearman's is not computed but repeated."""
    across = {checkpoint["id"]: value for metric, checkpoint, *_, value, _, _, _ in world.points if metric == x}
    points = [{"trajectory": checkpoint["trajectory"], "checkpoint": checkpoint["id"],
               "checkpoint_name": checkpoint["name"], "step": checkpoint["step"], "tokens": checkpoint["tokens"],
               "label_x": "", "label": label,
               "x": across[checkpoint["id"]], "y": value}
              for metric, checkpoint, _, _, label, value, *_ in world.points
              if metric == y and checkpoint["id"] in across and (not names or checkpoint["trajectory"] in names)]
    points.sort(key=lambda point: point["label"])
    labels = sorted({point["label"] for point in points})
    for point in points:
        point["series"] = labels.index(point["label"])
    series = [{**correlation([point for point in points if point["label"] == label]), "label": label}
              for label in labels]
    return {**correlation(points), "x": x, "y": y, "left_out": 0, "series": series, "points": points}
