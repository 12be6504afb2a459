"""Comparisons of the plan `open`: each gives {seed: effect} of a findings.Table, and adds the rows it used to `used`.
open.toml says what they are. Standard library only."""

import math

import student
from cells import ends


def fisher(r):
    """Fisher's z, on which correlations are tested: findings.estimate turns means and intervals back into r."""
    return math.atanh(max(-0.999999, min(0.999999, r)))


def asked(entry):
    return {field: entry[field] for field in ("method", "text") if field in entry}


class NotPositive(Exception):
    """A logarithm is asked for of a seed that has none. Leaving that seed out would choose seeds by their effect, so
    that the endpoint has no effect at all."""


def log_of(upper, lower):
    if min(upper, lower) <= 0:
        raise NotPositive
    return math.log(upper / lower)


def per_seed(table, entry, effect):
    """{seed: effect(seed)} without those that have none."""
    try:
        found = {seed: effect(seed) for seed in table.seeds(entry["cell"])}
    except NotPositive:
        return {}
    return {seed: value for seed, value in found.items() if value is not None}


def end_of(table, entry):
    """The token count of an endpoint: that of its branch, or the last of its cell."""
    counts = ends(table.cells[entry["cell"]].scale)
    return counts[entry["branch"] - 1] if "branch" in entry else counts[-1]


def last(table, entry, used):
    """`upper` less `lower`, of their logarithms where `log` says so, at the last count."""
    tokens, sides = end_of(table, entry), ((entry["cell"], "upper"), (entry.get("lower_cell", entry["cell"]), "lower"))

    def effect(seed):
        pair = [
            table.get(used, cell, seed, entry[side], tokens, entry["metric"], **asked(entry)) for cell, side in sides
        ]
        if None in pair:
            return None
        return log_of(*pair) if entry.get("log") else pair[0] - pair[1]

    return per_seed(table, entry, effect)


def over_loss(table, used, entry, seed):
    """[(full-precision loss, metric)] of `lower`: at all token counts, or at the ends of decays."""
    cell = entry.get("lower_cell", entry["cell"])
    found = []
    for tokens in table.tokens(cell, seed, entry["lower"]):
        if entry["line"] == "all" or tokens in ends(table.cells[cell].scale):
            own = set()
            pair = [
                table.get(own, cell, seed, entry["lower"], tokens, metric, **asked(entry))
                for metric in ("loss_fp", entry["metric"])
            ]
            if None not in pair:
                found.append((*pair, own))
    found.sort(key=lambda point: point[:2])
    for *_, own in found:
        used.update(own)
    return [(loss, value) for loss, value, _ in found]


def between(line, x):
    """The line through points in order of x, None beyond them."""
    for (x0, y0), (x1, y1) in zip(line, line[1:]):
        if x0 <= x <= x1 and x0 < x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return None


def at_loss(table, entry, used):
    tokens = end_of(table, entry)

    def effect(seed):
        loss, value = (
            table.get(used, entry["cell"], seed, entry["upper"], tokens, metric, **asked(entry))
            for metric in ("loss_fp", entry["metric"])
        )
        if None in (loss, value):
            return None
        other = between(over_loss(table, used, entry, seed), loss)
        return None if other is None else value - other

    return per_seed(table, entry, effect)


def late_slope(table, entry, used):
    def effect(seed):
        counts = table.tokens(entry["cell"], seed, entry["upper"])
        points = [
            (math.log(tokens), table.get(used, entry["cell"], seed, entry["upper"], tokens, entry["metric"]))
            for tokens in counts
            if tokens >= entry["from"] * counts[-1]
        ]
        points = [point for point in points if None not in point]
        return student.slope(*zip(*points)) if len(points) > 2 else None

    return per_seed(table, entry, effect)


def partial(table, entry, used):
    """The coefficient of `on` in a regression of the metric on it and `given`."""

    def number(seed, tokens, name):
        if name == "log_tokens":
            return math.log(tokens)
        return table.get(used, entry["cell"], seed, entry["upper"], tokens, name)

    def effect(seed):
        names = (entry["metric"], entry["on"], *entry["given"])
        counts = table.tokens(entry["cell"], seed, entry["upper"])
        points = [[number(seed, tokens, name) for name in names] for tokens in counts]
        points = [point for point in points if None not in point]
        return student.coefficient(points) if len(points) > len(names) + 1 else None

    return per_seed(table, entry, effect)


def layers(table, entry, used, seed):
    """[(predicted, measured)] of the linears of a model."""
    tokens, found = end_of(table, entry), []
    for metric in table.metrics(entry["cell"], seed, entry["upper"], "predicted."):
        names = (metric, metric.replace("predicted.", "measured.", 1))
        pair = [
            table.get(used, entry["cell"], seed, entry["upper"], tokens, name, method=entry["method"])
            for name in names
        ]
        if None not in pair:
            found.append(pair)
    return found


def layer_correlation(table, entry, used):
    def effect(seed):
        pairs = layers(table, entry, used, seed)
        r = student.pearson(*zip(*pairs)) if len(pairs) > 3 else None
        return None if r is None else fisher(r)

    return per_seed(table, entry, effect)


def layer_fit(table, entry, used):
    """R² of the prediction itself, not of a line fitted to it: 1 less the squares that it leaves over those about the
    mean."""

    def effect(seed):
        pairs = layers(table, entry, used, seed)
        if len(pairs) < 4:
            return None
        middle = student.mean([measured for _, measured in pairs])
        spread = sum((measured - middle) ** 2 for _, measured in pairs)
        return 1 - sum((measured - predicted) ** 2 for predicted, measured in pairs) / spread if spread else None

    return per_seed(table, entry, effect)


def log_ratio(table, entry, used):
    """The logarithm of a metric over another one of the same model."""
    tokens = end_of(table, entry)

    def effect(seed):
        pair = [
            table.get(used, entry["cell"], seed, entry["upper"], tokens, entry[side], method=entry["method"])
            for side in ("metric", "over")
        ]
        return log_of(*pair) if None not in pair else None

    return per_seed(table, entry, effect)


COMPARISONS = {
    "last": last,
    "at_loss": at_loss,
    "late_slope": late_slope,
    "partial": partial,
    "layer_correlation": layer_correlation,
    "layer_fit": layer_fit,
    "log_ratio": log_ratio,
}
