"""The endpoints of a plan (endpoints.toml, open.toml), computed from rows of results: an effect within each seed, an
interval and a test over seeds, Holm's correction within a family, a verdict. Standard library only.

A row is one number: {"id", "cell", "seed", "group", "peak", "weight_decay", "branch", "tokens", "end", "method",
"text", "metric", "value", "low", "high", "draw", "run"}. Rows of one model that differ in the draw are averaged.
"""

import collections
import functools
import math
import pathlib
import tomllib

import student
from cells import CELLS, ends
from comparisons import COMPARISONS as MORE_COMPARISONS
from comparisons import asked, between, fisher

HELD, OPPOSITE, NOT_DECIDED, REFUTED, COMPATIBLE, NOT_MEASURED = (
    "held",
    "the opposite",
    "not decided",
    "does not hold",
    "compatible",
    "not measured",
)
MAIN_METHOD = "gptq-3"
QUANTIZED = ("delta", "loss_q", "kl")
# Of the plan `open`: what belongs to a method too; the last two are of one layer each.
PREDICTED = ("predicted_delta", "measured_delta", "gradient_term", "curvature_term", "direction_norm")
PREDICTED += ("random_curvature_term", "random_delta", "curvature_ratio")
PREDICTED += ("curvature_along", "predicted", "measured")
OF_CORRELATIONS = ("correlation", "layer_correlation")  # whose effects are Fisher's z
ENDPOINTS = "endpoints.toml"


@functools.cache
def endpoints(file=ENDPOINTS):
    """The document of a plan, and its endpoints with their claims in words."""
    document = tomllib.loads((pathlib.Path(__file__).parent / file).read_text())
    return document, [{**entry, "claim": document["claims"][entry["claim"]]} for entry in document["endpoint"]]


class Table:
    """Rows by model and metric."""

    def __init__(self, rows, cells=CELLS):
        self.cells, self.numbers = cells, collections.defaultdict(list)
        for row in rows:
            if row["value"] is not None and math.isfinite(row["value"]):
                key = (
                    row["cell"],
                    row["seed"],
                    row["group"],
                    row["peak"],
                    row["weight_decay"],
                    row["tokens"],
                    row["method"],
                    row["text"],
                    row["metric"],
                )
                self.numbers[key].append(row)
        self.measured = {(row["cell"], row["seed"]) for row in rows}
        self.counts, self.names = collections.defaultdict(set), collections.defaultdict(set)
        for cell, seed, group, _, _, tokens, _, _, metric in self.numbers:
            self.counts[cell, seed, group].add(tokens)
            self.names[cell, seed, group].add(metric)

    def seeds(self, cell):
        return sorted(seed for name, seed in self.measured if name == cell)

    def tokens(self, cell, seed, group):
        """At which a group was measured, ascending."""
        return sorted(self.counts[cell, seed, group])

    def metrics(self, cell, seed, group, beginning):
        return sorted(name for name in self.names[cell, seed, group] if name.startswith(beginning))

    def get(
        self,
        used,
        cell,
        seed,
        group,
        tokens,
        metric,
        peak=None,
        weight_decay=0.1,
        method=MAIN_METHOD,
        text="validation",
    ):
        """The mean over draws, None where it was not measured; ids of its rows are added to `used`."""
        peak = self.cells[cell].peaks[0] if peak is None else peak
        of_method = metric in QUANTIZED or metric.partition(".")[0] in PREDICTED
        rows = self.numbers.get(
            (cell, seed, group, peak, weight_decay, tokens, method if of_method else "", text, metric), []
        )
        used.update(row["id"] for row in rows)
        return student.mean([row["value"] for row in rows]) if rows else None


# --- comparisons: {seed: effect} --------------------------------------------------------------------------------------
def at_branch(table, entry, used, seed, tokens):
    """The difference at one token count, or `upper` alone; None where a part of it is missing."""
    parts = [
        table.get(used, entry["cell"], seed, entry[side], tokens, entry["metric"], **asked(entry))
        for side in ("upper", "lower")
        if side in entry
    ]
    return None if None in parts else parts[0] - (parts[1] if len(parts) > 1 else 0)


def difference(table, entry, used):
    counts = ends(table.cells[entry["cell"]].scale)
    chosen = counts if entry["branch"] == "mean" else counts[entry["branch"] - 1 : entry["branch"]]
    found = {}
    for seed in table.seeds(entry["cell"]):
        values = [at_branch(table, entry, used, seed, tokens) for tokens in chosen]
        if values and None not in values:
            found[seed] = student.mean(values)
    return found


def slope(table, entry, used):
    counts = ends(table.cells[entry["cell"]].scale)
    found = {}
    for seed in table.seeds(entry["cell"]):
        values = [at_branch(table, entry, used, seed, tokens) for tokens in counts]
        if None not in values:
            found[seed] = student.slope([math.log(tokens) for tokens in counts], values)
    return found


def decayed_line(table, used, cell, seed, peak):
    """[(full-precision loss, ΔQL)] of a peak rate's decayed runs."""
    points = []
    for tokens in ends(table.cells[cell].scale):
        pair = [table.get(used, cell, seed, "decay", tokens, metric, peak) for metric in ("loss_fp", "delta")]
        if None not in pair:
            points.append(tuple(pair))
    return sorted(points)


def equal_loss(table, entry, used):
    cell = table.cells[entry["cell"]]
    reference = table.cells[cell.base].peaks[0]
    found = {}
    for seed in table.seeds(entry["cell"]):
        line = decayed_line(table, used, cell.base, seed, reference)
        effects = []
        for peak in cell.peaks:
            for loss, delta in decayed_line(table, used, entry["cell"], seed, peak):
                other = between(line, loss)
                if other is not None:
                    effects.append(delta - other if peak > reference else other - delta)
        if effects:
            found[seed] = student.mean(effects)
    return found


def centred(table, entry, used, seed):
    """Pairs (metric, ΔQL) of the end points of a seed, each less its mean at its token count."""
    pairs = []
    for tokens in ends(table.cells[entry["cell"]].scale):
        here = [
            [table.get(used, entry["cell"], seed, group, tokens, metric) for metric in (entry["metric"], "delta")]
            for group in ("constant", "decay", "lawa", "soup")
        ]
        here = [pair for pair in here if None not in pair]
        if len(here) > 1:
            middle = [student.mean(column) for column in zip(*here)]
            pairs += [[value - centre for value, centre in zip(pair, middle)] for pair in here]
    return pairs


def correlation(table, entry, used):
    """Fisher's z of each seed: `estimate` turns means and intervals back into r."""
    found = {}
    for seed in table.seeds(entry["cell"]):
        pairs = centred(table, entry, used, seed)
        r = student.pearson(*zip(*pairs)) if len(pairs) > 3 else None
        if r is not None:
            found[seed] = fisher(r)
    return found


def correlation_difference(table, entry, used):
    """Fisher's z of a metric less that of another: which of two markers goes with ΔQL more closely."""
    one, other = (correlation(table, {**entry, "metric": entry[side]}, used) for side in ("metric", "than"))
    return {seed: one[seed] - other[seed] for seed in one if seed in other}


def added(table, entry, used):
    """What `upper` has more than `lower`, less what it has more in `lower_cell`."""
    one, other = (difference(table, {**entry, "cell": entry[side]}, used) for side in ("cell", "lower_cell"))
    return {seed: one[seed] - other[seed] for seed in one if seed in other}


def trend(table, entry, used):
    found = {}
    for seed in table.seeds(entry["cell"]):
        line = decayed_line(table, used, entry["cell"], seed, None)
        if len(line) > 1 and line[0][0] < line[-1][0]:
            found[seed] = student.slope(*zip(*line))
    return found


def weight_decay(table, entry, used):
    cell = table.cells[entry["cell"]]
    tokens, values = ends(cell.scale)[-1], (min(cell.weight_decays), max(cell.weight_decays))
    found = {}
    for seed in table.seeds(entry["cell"]):
        small, large = (
            table.get(used, entry["cell"], seed, "decay", tokens, entry["metric"], weight_decay=value)
            for value in values
        )
        if None not in (small, large):
            found[seed] = large - small
    return found


def cosine(table, entry, used):
    found, cell = {}, table.cells[entry["cell"]]
    for seed in table.seeds(entry["cell"]):
        values = [
            table.get(used, entry["cell"], seed, group, ends(cell.scale)[-1], entry["metric"])
            for group in ("cosine", "decay")
        ]
        if None not in values:
            found[seed] = values[0] - values[1]
    return found


COMPARISONS = {
    "difference": difference,
    "slope": slope,
    "equal_loss": equal_loss,
    "correlation": correlation,
    "correlation_difference": correlation_difference,
    "added": added,
    "trend": trend,
    "weight_decay": weight_decay,
    "cosine": cosine,
    **MORE_COMPARISONS,
}


# --- verdicts ---------------------------------------------------------------------------------------------------------
def verdict(effect, p, sign, alpha):
    if p is None:
        return NOT_DECIDED
    if sign == 0:
        return REFUTED if p < alpha else COMPATIBLE
    if p >= alpha:
        return NOT_DECIDED
    return HELD if effect * sign > 0 else OPPOSITE


def verdict_within(low, high, within):
    """Of a claim that an effect is smaller than a bound, either way: by the interval of 95 %."""
    if low is None:
        return NOT_DECIDED
    if -within < low and high < within:
        return HELD
    return REFUTED if low > within or high < -within else NOT_DECIDED


def verdict_of(finding, alpha):
    if not finding["seeds"]:
        return NOT_MEASURED
    if "within" in finding:
        return verdict_within(finding["low"], finding["high"], finding["within"])
    p = finding["p_holm"] if "family" in finding else finding["p"]
    return verdict(finding["effect"], p, finding["sign"], alpha)


def estimate(entry, by_seed):
    """Mean, interval and p value; of correlations on the scale of r."""
    effect, low, high, p = student.test(list(by_seed.values()))
    if entry["compare"] in OF_CORRELATIONS:
        effect, low, high = (None if value is None else math.tanh(value) for value in (effect, low, high))
        by_seed = {seed: math.tanh(value) for seed, value in by_seed.items()}
    return {"effect": effect, "low": low, "high": high, "p": p, "by_seed": by_seed}


def sets(entry, by_seed, cells):
    """The same estimated of two sets of seeds that share none: the cell's own, and those that only a long budget
    reaches. None unless both were measured."""
    cell = cells[entry["cell"]]
    parts = [{seed: effect for seed, effect in by_seed.items() if seed in seeds} for seeds in (cell.seeds, cell.more)]
    return [estimate(entry, part) for part in parts] if all(parts) else None


def judge(rows, cells=CELLS, file=ENDPOINTS):
    """A finding for every endpoint: the endpoint's fields and "number", "seeds", "effect", "low", "high", "p",
    "p_holm", "verdict", "by_seed", "sets", "rows" (ids of what it was computed from)."""
    document, entries = endpoints(file)
    table, found = Table(rows, cells), []
    for number, entry in enumerate(entries, 1):
        used, finding = set(), {
            **entry,
            "number": f"f{number}",
            "effect": None,
            "low": None,
            "high": None,
            "p": None,
            "p_holm": None,
            "by_seed": {},
            "sets": None,
        }
        by_seed = COMPARISONS[entry["compare"]](table, entry, used) if usable(entry, cells) else {}
        if by_seed:
            finding.update(estimate(entry, by_seed), sets=sets(entry, by_seed, cells))
        found.append({**finding, "seeds": len(by_seed), "rows": sorted(used, key=lambda name: int(name[1:]))})
    for family in document["families"]:
        members = [finding for finding in found if finding.get("family") == family]
        corrected = student.holm(
            {finding["id"]: finding["p"] for finding in members if finding["p"] is not None}, len(members)
        )
        for finding in members:
            finding["p_holm"] = corrected.get(finding["id"])
    for finding in found:
        finding["verdict"] = verdict_of(finding, document["alpha"])
    return found


def usable(entry, cells):
    """Whether there are such cells and such a branch: a small plan has fewer."""
    cell = cells.get(entry["cell"])
    return (cell is not None and entry.get("lower_cell", entry["cell"]) in cells) and (
        not isinstance(entry.get("branch"), int) or entry["branch"] <= len(cell.scale.branches)
    )


# --- noise ------------------------------------------------------------------------------------------------------------
def pooled(values):
    return math.sqrt(student.mean([value * value for value in values])) if values else None


def of_seeds(groups, left):
    """The deviation within groups, `left` of its square being something else's, and of how many numbers it is."""
    several = [values for values in groups.values() if len(values) > 1]
    whole = pooled([student.deviation(values) for values in several])
    return (whole and math.sqrt(max(0, whole**2 - left))), sum(map(len, several))


def noise(rows, cells=CELLS):
    """Standard deviations of ΔQL of one model, by where they come from: another calibration sample, other evaluation
    text, another seed; and of the difference between decayed and constant run. Pooled over the end points of a cell;
    that of the evaluation text over the models along the way, whose intervals are of one calibration sample and hold
    nothing else. That of the seed is without what the calibration samples leave in a mean over them; a difference is
    between means over the same samples. `count`: the models, or pairs, that a row is pooled over."""
    found = []
    for name, cell in cells.items():
        models, along = collections.defaultdict(list), []
        for row in rows:
            if row["cell"] == name and (row["metric"], row["method"], row["text"]) == (
                "delta",
                MAIN_METHOD,
                "validation",
            ):
                if row["end"]:
                    models[row["seed"], row["group"], row["peak"], row["weight_decay"], row["tokens"]].append(row)
                elif row["low"] is not None:
                    along.append((row["high"] - row["low"]) / (2 * 1.96))
        drawn = [[row["value"] for row in group] for group in models.values() if len(group) > 1]
        draws = [student.deviation(values) for values in drawn]
        left = student.mean([student.deviation(values) ** 2 / len(values) for values in drawn]) if drawn else 0
        seeds, differences = collections.defaultdict(list), collections.defaultdict(list)
        for (seed, group, peak, decay, tokens), group_rows in sorted(models.items()):
            value = student.mean([row["value"] for row in group_rows])
            seeds[group, peak, decay, tokens].append(value)
            other = models.get((seed, "constant", peak, decay, tokens))
            if group == "decay" and other:
                differences[tokens].append(value - student.mean([row["value"] for row in other]))
        for source, value, count in (
            ("calibration sample", pooled(draws), len(draws)),
            ("evaluation text", pooled(along), len(along)),
            ("seed", *of_seeds(seeds, left)),
            ("difference between decayed and constant run", *of_seeds(differences, 0)),
        ):
            if value is not None:
                found.append({"cell": name, "source": source, "deviation": value, "count": count})
    return [{"number": f"n{number}", **row} for number, row in enumerate(found, 1)]
