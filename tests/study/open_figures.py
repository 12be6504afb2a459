"""The figures of the plan `open`: ΔQL beside loss and rate along SGDR and oscillating rates, averages by window, the
second-order prediction by layer; of the constant run and its decays those of figures.py. Standard library only."""

import figures
import svg
from cells import branch_tokens, ends, step
from findings import Table

SCHEDULES = {"sgdr": "SGDR", "oscillating": "oscillating rate", "cosine": "one cosine"}
COLOURS = {"sgdr": "#8172b3", "oscillating": "#937860", "cosine": "#937860"}
DECAYS = "cycles"  # the cell with the decay that all of them are compared with
SHAPES = {"linear": "#2a6f97", "1-sqrt": "#e09f3e", "cosine": "#9e2a2b"}
BITS = {"rtn-8": "#2a6f97", "rtn-4": "#3b8f4f", "rtn-3": "#e09f3e", "rtn-2": "#9e2a2b"}


# --- along schedules --------------------------------------------------------------------------------------------------
def along(means, cell, base, group, metric, scale=1.0):
    """Series of the constant run, one decay and the schedule, from where they branch off."""
    peak = cell.peaks[0]
    branch, end = branch_tokens(cell.scale)[-1], ends(cell.scale)[-1]
    trunk = [point for point in means.curve(base.name, "constant", peak, metric, scale=scale) if point[0] <= end]
    start, found = [point for point in trunk if point[0] == branch], []
    for name, label, colour in (
        ("constant", figures.NAMES["constant"], figures.COLOURS["constant"]),
        ("decay", "one decay", figures.COLOURS["decay"]),
        (group, SCHEDULES[group], COLOURS[group]),
    ):
        where = DECAYS if name == "decay" else cell.name
        points = trunk if name == "constant" else start + means.curve(where, name, peak, metric, scale=scale)
        found.append({"label": label, "colour": colour, "points": figures.millions(points)})
    return found


def cycles(means, cell, base, group):
    marks = [branch_tokens(cell.scale)[-1] / 1e6]
    return svg.figure(
        f"ΔQL beside loss and rate: {SCHEDULES[group]} (cell {cell.name})",
        "million tokens",
        [
            {"y": label, "height": height, "series": along(means, cell, base, group, metric, scale), "marks": marks}
            for label, metric, scale, height in (
                ("ΔQL in %", "delta", 100, 200),
                ("loss, nats", "loss_fp", 1, 130),
                ("rate, of peak", "rate", 1, 90),
            )
        ],
        figures.caption(cell, means) + " Dashed: the runs branch off.",
    )


# --- averages ---------------------------------------------------------------------------------------------------------
def over_seeds(table, cell, group, tokens, metric, method, scale):
    values = [table.get(set(), cell, seed, group, tokens, metric, method=method) for seed in table.seeds(cell)]
    values = [scale * value for value in values if value is not None]
    return figures.bar(values) if values else None


def of_method(table, cell, base, decay, method, metric, scale):
    """Series of one panel: the means over windows, the decayed run as a level, the merges."""
    end, (counts, shapes) = ends(cell.scale)[-1], cell.options

    def at(name, group):
        return over_seeds(table, name, group, end, metric, method, scale)

    points = [(count, at(cell.name, f"lawa-{count}")) for count in counts]
    level = at(base.name, "decay")
    series = [
        {
            "label": "mean of the latest checkpoints",
            "colour": figures.COLOURS["lawa"],
            "points": [(count, *point) for count, point in points if point],
        },
        {
            "label": "decayed",
            "colour": figures.COLOURS["decay"],
            "mark": None,
            "dashed": True,
            "points": [(count, level[0], None) for count in counts] if level else [],
        },
    ]
    for shape in shapes:
        point = at(cell.name, f"wsm-{shape}")
        series.append(
            {
                "label": f"merge in the shape {shape}",
                "colour": SHAPES[shape],
                "mark": "star",
                "line": False,
                "points": [(decay, *point)] if point else [],
            }
        )
    return series


def windows(table, cell, base, means):
    decay = (ends(cell.scale)[-1] - branch_tokens(cell.scale)[-1]) // (cell.scale.every * step(cell.scale))
    panels = [
        {
            "y": f"{label}, {method[-1]} bits",
            "height": 130,
            "series": of_method(table, cell, base, decay, method, metric, scale),
        }
        for method in ("gptq-3", "gptq-4")
        for label, metric, scale in (("ΔQL in %", "delta", 100), ("quantized loss", "loss_q", 1))
    ]
    return svg.figure(
        f"Averages in place of the decay (cell {cell.name})",
        "checkpoints averaged (logarithmic)",
        panels,
        figures.caption(cell, means, "3 and 4 bits")
        + f" The decay took as long as {decay} checkpoints; the merges are of so many.",
        x_log=True,
    )


# --- by layer ---------------------------------------------------------------------------------------------------------
def layers(table, cell, group):
    """Predicted and measured ΔQL of each linear, means over seeds; what is not above zero has no place here, and is
    counted."""
    end, series, everything, left = ends(cell.scale)[-1], [], [], 0
    for method, colour in BITS.items():
        seeds = table.seeds(cell.name)
        names = {name for seed in seeds for name in table.metrics(cell.name, seed, group, "predicted.")}
        points = []
        for name in sorted(names):
            pair = [
                over_seeds(table, cell.name, group, end, metric, method, 100)
                for metric in (name, name.replace("predicted.", "measured.", 1))
            ]
            if None not in pair and min(pair[0][0], pair[1][0]) > 0:
                points.append((pair[0][0], pair[1][0], None))
            elif None not in pair:
                left += 1
        everything += [value for x, y, _ in points for value in (x, y)]
        series.append({"label": f"{method[-1]} bits", "colour": colour, "line": False, "points": points})
    if everything:
        equal = [(value, value, None) for value in (min(everything), max(everything))]
        series.append({"label": "equal", "colour": "#888888", "mark": None, "dashed": True, "points": equal})
    return svg.figure(
        f"What curvature predicts of each linear, {figures.NAMES[group]} (cell {cell.name})",
        "predicted ΔQL in % (logarithmic)",
        [{"y": "measured ΔQL in % (logarithmic)", "height": 320, "series": series, "logarithmic": True}],
        "Rounded to nearest in groups of 64; a point is a linear, its mean over "
        f"{figures.of_seeds(len(table.seeds(cell.name)))}. "
        "Predicted: gᵀδ + ½ δᵀHδ over the loss; measured: half of the sum of its "
        "effect alone and of what the whole gains without it."
        + (f" Points left out because they are not above zero: {left}." if left else ""),
        x_log=True,
    )


def of_cell(cell, base, means, table):
    name = cell.name
    if cell.does == "trunk":
        found = {f"{name}-training.svg": figures.along(cell, means)}
        if cell.base is None:
            found[f"{name}-sharpness.svg"] = figures.sharpness(cell, means)
            found[f"{name}-losses.svg"] = figures.losses(cell, means, [])
        return found
    if cell.does == "cycles":
        groups = [group for group, _ in cell.options if group in SCHEDULES]
        return {f"{name}-{group}.svg" if len(groups) > 1 else f"{name}.svg": cycles(means, cell, base, group)
                for group in groups}
    if cell.does == "windows":
        return {f"{name}.svg": windows(table, cell, base, means)}
    if cell.does == "layers":
        return {f"{name}-{group}.svg": layers(table, cell, group) for group in ("constant", "decay")}
    return {}


def draw(rows, cells):
    """{file name: SVG}. Beside the models of a cell stand those of its base of the same seeds, and of no others."""
    table, found = Table(rows, cells), {}
    for cell in cells.values():
        seeds = set(table.seeds(cell.name))
        own = [row for row in rows if row["seed"] in seeds]
        if seeds:
            found.update(of_cell(cell, cells.get(cell.base, cell), figures.Means(own), Table(own, cells)))
    return {name: text for name, text in found.items() if text is not None}
