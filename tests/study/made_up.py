"""Rows of a study that was never run: seeds, token budgets and groups of cell C
with effects that are planted, or none."""

import math

from cells import CELLS, branch_tokens, ends

PEAK, SMALL_PEAK = 4e-3, 1e-3
COUNTS, BRANCHES = ends(CELLS["C"].scale), branch_tokens(CELLS["C"].scale)
# In ΔQL, at the three token counts; sizes and spreads between seeds as three seeds of such models had them.
PLANTED = {"decay": (0.0052, 0.0123, 0.0233), "lawa": -0.025, "soup": -0.008, "peak": 0.015, "sharp": 0.9}
NOTHING = {"decay": (0, 0, 0), "lawa": 0, "soup": 0, "peak": 0, "sharp": 0}


def of_seed(seed, source, planted):
    """[(cell, group, peak, tokens, {metric: value})]. Without effects ΔQL neither follows the loss nor the trace, and
    the small peak's runs lie on the line of the large one's."""
    models, base = [], source.gauss(0.05, 0.003)
    rise = planted is not NOTHING
    for place, tokens in enumerate(COUNTS):
        loss = 2.9 - 0.12 * math.log(tokens / COUNTS[0]) + source.gauss(0, 0.002)
        decay = planted["decay"][place]
        for group, shift, better in (
            ("constant", 0, 0),
            ("decay", decay, 0.05),
            ("lawa", decay + planted["lawa"], 0.04),
            ("soup", decay + planted["soup"], 0.06),
        ):
            if group == "soup" and place < 2:
                continue
            delta = base + shift + source.gauss(0, 0.003)
            own = source.gauss(0, 1) if not planted["sharp"] else shift / 0.02 + source.gauss(0, 0.2)
            fp = loss - better + source.gauss(0, 0.002)
            quantized = fp * (1 + delta) if rise else 3 + source.gauss(0, 0.01)
            # Both fall with tokens, while ΔQL rises: only a comparison within a token count sees what is planted.
            sharp = {"trace": 1500 + 50 * own - 400 * place, "lambda_max": 60 + 2 * own - 16 * place}
            models.append(
                ("C", group, PEAK, tokens, {"delta": delta, "loss_fp": fp, "loss_q": quantized, "kl": delta, **sharp})
            )
    line = sorted((model[4]["loss_fp"], model[4]["delta"]) for model in models if model[1] == "decay")
    for place, tokens in enumerate(COUNTS[1:]):
        (x0, y0), (x1, y1) = line[place : place + 2]
        fp = (x0 + x1) / 2
        delta = (y0 + y1) / 2 + planted["peak"] + source.gauss(0, 0.002)
        models.append(
            ("C-peak", "decay", SMALL_PEAK, tokens, {"delta": delta, "loss_fp": fp, "loss_q": fp * (1 + delta)})
        )
    return models


def rows(source, planted, seeds=10, peak_seeds=5):
    found = []
    for seed in range(seeds):
        for cell, group, peak, tokens, numbers in of_seed(seed, source, planted):
            if cell == "C-peak" and seed >= peak_seeds:
                continue
            for metric, value in numbers.items():
                method = "gptq-3" if metric in ("delta", "loss_q", "kl") else ""
                found.append(
                    {
                        "id": f"m{len(found) + 1}",
                        "cell": cell,
                        "seed": seed,
                        "group": group,
                        "peak": peak,
                        "weight_decay": 0.1,
                        "branch": BRANCHES[COUNTS.index(tokens)],
                        "tokens": tokens,
                        "end": True,
                        "method": method,
                        "text": "validation",
                        "metric": metric,
                        "value": value,
                        "low": None,
                        "high": None,
                        "draw": None,
                        "run": "r",
                    }
                )
    return found
