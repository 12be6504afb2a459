"""The figures of a study, from its rows: curves along training with the learning rate below, quantized over
full-precision loss, sharpness beside ΔQL, the decay at each token budget, relative progress. Standard library only."""

import collections

import experiment
import student
import svg
from cells import CELLS, branch_tokens, ends, size
from findings import MAIN_METHOD

COLOURS = {"constant": "#4878a8", "decay": "#c44e52", "lawa": "#3b8f4f", "soup": "#8172b3", "cosine": "#937860"}
NAMES = {
    "constant": "constant rate",
    "decay": "decayed",
    "lawa": "mean of the latest (LAWA)",
    "soup": "soup of decays",
    "cosine": "cosine",
}
RATES = ["#2a6f97", "#e09f3e", "#9e2a2b", "#335c67", "#6a4c93"]
WEIGHT_DECAY = 0.1


def bar(values):
    """The mean and half of Student's 95 % interval;
    None for fewer than three values, where it is wider than any figure."""
    centre, low, high, _ = student.test(values)
    return centre, (high - low) / 2 if len(values) > 2 else None


class Means:
    """Means over seeds, each of them a mean over draws, and the half width of Student's 95 % interval."""

    def __init__(self, rows):
        self.numbers = collections.defaultdict(lambda: collections.defaultdict(list))
        for row in rows:
            if (
                row["value"] is not None
                and row["weight_decay"] == WEIGHT_DECAY
                and row["text"] == "validation"
                and row["method"] in ("", MAIN_METHOD)
            ):
                key = (row["cell"], row["group"], row["peak"], row["branch"], row["tokens"], row["metric"])
                self.numbers[key][row["seed"]].append(row["value"])

    def seeds(self, cell):
        return len({seed for key, found in self.numbers.items() if key[0] == cell for seed in found})

    def at(self, key, scale=1.0):
        values = [scale * student.mean(found) for found in self.numbers[key].values()]
        return bar(values)

    def curve(self, cell, group, peak, metric, branch=None, scale=1.0):
        """[(tokens, mean, half)] of a group, of one decay when `branch` is given.
        Constant points stand on one curve."""
        keys = sorted(
            (
                key
                for key in self.numbers
                if key[:3] == (cell, group, peak) and key[5] == metric and branch in (None, key[3])
            ),
            key=lambda key: key[4],
        )
        return [(key[4], *self.at(key, scale)) for key in keys]

    def peaks(self, cell):
        return sorted({key[2] for key in self.numbers if key[0] == cell})


def millions(points):
    return [(x / 1e6, y, half) for x, y, half in points]


def runs(means, cell, metric, scale=1.0):
    """Series of a cell's trunk, its decays, each from the point it left the trunk at, and its averages."""
    peak, found = cell.peaks[0], []
    trunk = means.curve(cell.name, "constant", peak, metric, scale=scale)
    found.append({"label": NAMES["constant"], "colour": COLOURS["constant"], "points": millions(trunk)})
    for branch in branch_tokens(cell.scale):
        start = [point for point in trunk if point[0] == branch]
        points = start + means.curve(cell.name, "decay", peak, metric, branch, scale)
        found.append({"label": NAMES["decay"], "colour": COLOURS["decay"], "points": millions(points)})
    for group in ("lawa", "soup"):
        points = means.curve(cell.name, group, peak, metric, scale=scale)
        found.append(
            {"label": NAMES[group], "colour": COLOURS[group], "points": millions(points), "line": False, "mark": "star"}
        )
    return found


def schedule(cell):
    peak, last = cell.peaks[0], ends(cell.scale)[-1]
    warmup = cell.scale.warmup * cell.scale.length * cell.scale.sequences
    found = [
        {
            "label": NAMES["constant"],
            "colour": COLOURS["constant"],
            "mark": None,
            "points": millions([(0, 0, None), (warmup, peak, None), (last, peak, None)]),
        }
    ]
    for branch, end in zip(branch_tokens(cell.scale), ends(cell.scale)):
        found.append(
            {
                "label": NAMES["decay"],
                "colour": COLOURS["decay"],
                "mark": None,
                "points": millions([(branch, peak, None), (end, 0, None)]),
            }
        )
    return found


def of_seeds(count):
    return f"{count} seed{'s' * (count != 1)}"


def caption(cell, means, bits="3 bits"):
    scale = cell.scale
    return (
        f'Cell {cell.name}: {size(cell) / 1e6:.2f} million parameters, {of_seeds(means.seeds(cell.name))}, '
        f'text "{cell.text}"; GPTQ at {bits} in '
        f"groups of {min(64, scale.hidden)}; calibration {scale.calibration} sequences of {scale.length} training "
        f"tokens, {scale.draws} samples at end points and one along "
        f"the way; evaluation {scale.evaluation} held-out sequences; "
        "bars: 95 % over seeds (Student), none for fewer than three."
    )


def along(cell, means):
    marks = [branch / 1e6 for branch in branch_tokens(cell.scale)]
    return svg.figure(
        f"ΔQL along training, the learning rate below (cell {cell.name})",
        "million tokens",
        [
            {"y": "ΔQL in %", "height": 230, "series": runs(means, cell, "delta", 100), "marks": marks},
            {"y": "learning rate", "height": 90, "series": schedule(cell), "marks": marks},
        ],
        caption(cell, means) + " Dashed: a decay begins.",
    )


def sharpness(cell, means):
    marks = [branch / 1e6 for branch in branch_tokens(cell.scale)]
    only = [
        {"y": label_, "height": 160, "series": runs(means, cell, metric, scale), "marks": marks}
        for label_, metric, scale in (
            ("ΔQL in %", "delta", 100),
            ("trace of the Hessian", "trace", 1),
            ("largest eigenvalue", "lambda_max", 1),
        )
    ]
    return svg.figure(
        f"Sharpness beside ΔQL (cell {cell.name})",
        "million tokens",
        only,
        caption(cell, means)
        + f" Trace: Hutchinson, {cell.scale.probes} probes; both on {cell.scale.sharp} held-out sequences.",
    )


def paths(means, cell, groups, first=0):
    """`first`: place of the first peak's colour."""
    found = []
    counts = ends(cell.scale)
    for place, peak in enumerate(means.peaks(cell.name), first):
        for group in groups:
            fp = {
                x: y for x, y, _ in means.curve(cell.name, group, peak, "loss_fp") if group == "constant" or x in counts
            }
            points = [(fp[x], y, half) for x, y, half in means.curve(cell.name, group, peak, "loss_q") if x in fp]
            star = group in ("lawa", "soup")
            found.append(
                {
                    "label": f"{NAMES[group]}, peak {peak:g}",
                    "points": points,
                    "line": not star,
                    "mark": "star" if star else "dot",
                    "colour": COLOURS[group] if star else RATES[place % len(RATES)],
                    "dashed": group == "constant",
                }
            )
    return found


def losses(cell, means, others):
    """Quantized over full-precision loss, by rate: constant runs and the ends of decays as paths, averages as stars."""
    series = paths(means, cell, ("constant", "decay", "lawa", "soup"))
    for other in others:
        series += paths(means, other, ("constant", "decay"), len(cell.peaks))
    names = ", ".join(other.name for other in others)
    return svg.figure(
        f"Quantized over full-precision loss (cell {cell.name}{' with ' + names if names else ''})",
        "full-precision loss, nats",
        [{"y": "quantized loss, nats", "height": 320, "series": series}],
        caption(cell, means) + "".join(f" Cell {other.name}: {of_seeds(means.seeds(other.name))}." for other in others)
        + " Training goes from right to left.",
    )


def interaction(cell, means, rows):
    by_seed = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        if (row["cell"], row["method"], row["text"], row["metric"]) == (
            cell.name,
            MAIN_METHOD,
            "validation",
            "delta",
        ) and row["end"]:
            by_seed[row["seed"], row["tokens"]][row["group"]].append(row["value"])
    effects = collections.defaultdict(dict)
    for (seed, tokens), groups in by_seed.items():
        for upper, lower in (("decay", "constant"), ("lawa", "decay")):
            if upper in groups and lower in groups:
                effects[upper, lower].setdefault(tokens, {})[seed] = 100 * (
                    student.mean(groups[upper]) - student.mean(groups[lower])
                )
    series = []
    for (upper, lower), counts in effects.items():
        points = []
        for tokens, seeds in sorted(counts.items()):
            points.append((tokens / 1e6, *bar(list(seeds.values()))))
        series.append({"label": f"{NAMES[upper]} − {NAMES[lower]}", "colour": COLOURS[upper], "points": points})
    return svg.figure(
        f"What decay and averaging change at each token budget (cell {cell.name})",
        "million tokens (logarithmic)",
        [{"y": "change of ΔQL, points of %", "height": 240, "series": series}],
        caption(cell, means) + " Differences are taken within a seed.",
        x_log=True,
    )


def progress(cell, means):
    """Each decayed run from its beginning, tokens as a share of its own."""
    peak, series = cell.peaks[0], []
    trunk = means.curve(cell.name, "constant", peak, "delta", scale=100)
    for place, (branch, end) in enumerate(zip(branch_tokens(cell.scale), ends(cell.scale))):
        points = [point for point in trunk if point[0] <= branch] + means.curve(
            cell.name, "decay", peak, "delta", branch, 100
        )
        series.append(
            {
                "label": f"{experiment.millions(end)} M tokens",
                "colour": RATES[place % len(RATES)],
                "points": [(x / end, y, half) for x, y, half in points],
            }
        )
    return svg.figure(
        f"ΔQL over relative training progress (cell {cell.name})",
        "tokens, as a share of the run's",
        [{"y": "ΔQL in %", "height": 240, "series": series}],
        caption(cell, means),
    )


def draw(rows, cells=CELLS):
    """{file name: SVG}"""
    means, found = Means(rows), {}
    for cell in cells.values():
        if cell.base is not None or not means.seeds(cell.name):
            continue
        others = [
            other
            for other in cells.values()
            if other.base == cell.name and not other.weight_decays and means.seeds(other.name)
        ]
        found.update(
            {
                f"{cell.name}-training.svg": along(cell, means),
                f"{cell.name}-sharpness.svg": sharpness(cell, means),
                f"{cell.name}-losses.svg": losses(cell, means, others),
                f"{cell.name}-budgets.svg": interaction(cell, means, rows),
                f"{cell.name}-progress.svg": progress(cell, means),
            }
        )
    return {name: text for name, text in found.items() if text is not None}
