"""What the study consists of: cells, their units (one seed of one cell),
and the order in which a budget of time is spent on them.

The scales are the demo's tuples. All have the tokens a parameter at which decay does damage:
18 to 80 in C, 6 to 65 in A, 7 to 23 in D.
"""

import collections
import hashlib
import json
import re

from experiment import SCALES, Scale
from launch import Trouble

# `base`: whose constant runs, decays and averages a cell is compared with; None: it has them itself. `peaks`: of its
# own runs. `decays`: weight decays of runs that are decayed from scratch, beside one with a cosine. `soups`: decays
# whose mean is a soup. `more`: seeds that only a long budget reaches.
Cell = collections.namedtuple("Cell", "name scale text base peaks weight_decays soups seeds more")

PEAK = 4e-3
SMALL = SCALES["full"]._replace(peaks=(PEAK,), calibration=256, evaluation=512)
# hidden layers vocabulary length sequences every branches share curve warmup window peaks bits calibration draws
# evaluation sharp probes
MEDIUM = Scale(128, 4, 2048, 128, 32, 146, (10, 25, 50, 100), 5, 5, 200, 5, (PEAK,), 3, 256, 4, 512, 32, 16)
LARGE = Scale(192, 5, 4096, 128, 32, 244, (20, 60), 5, 5, 200, 5, (PEAK,), 3, 256, 4, 512, 32, 16)
TINY = Scale(32, 1, 300, 32, 4, 3, (4, 8), 4, 4, 3, 3, (8e-3,), 3, 8, 2, 16, 8, 2)

CELLS = {
    cell.name: cell
    for cell in (
        Cell("C", SMALL, "prose", None, (PEAK,), (), 3, range(10), range(10, 16)),
        Cell("C-peak", SMALL, "prose", "C", (1e-3,), (), 0, range(5), range(5, 10)),
        Cell("C-decay", SMALL, "prose", "C", (PEAK,), (0.0, 0.1, 0.4), 0, range(5), range(5, 10)),
        Cell("A", MEDIUM, "mixed", None, (PEAK,), (), 2, range(3), range(3, 6)),
        Cell("B", MEDIUM._replace(branches=(50,)), "mixed", "A", (1e-3, 2e-3, 8e-3), (), 0, range(2), range(2, 4)),
        Cell("D", LARGE, "mixed", None, (PEAK,), (), 0, range(1), range(1, 3)),
    )
}
# Seeds of a cell in the order in which they add findings:
# three seeds of the smallest models first, for intervals at all.
ORDER = [
    ("C", range(3)),
    ("C-peak", range(3)),
    ("C", range(3, 5)),
    ("C-decay", range(3)),
    ("C", range(5, 10)),
    ("C-peak", range(3, 5)),
    ("C-decay", range(3, 5)),
    ("A", range(3)),
    ("B", range(2)),
    ("D", range(1)),
    ("C", range(10, 16)),
    ("A", range(3, 6)),
    ("C-peak", range(5, 10)),
    ("C-decay", range(5, 10)),
    ("B", range(2, 4)),
    ("D", range(1, 3)),
]

TINY_CELLS = {
    cell.name: cell
    for cell in (
        Cell("C", TINY, "tiny", None, (8e-3,), (), 2, range(2), range(0)),
        Cell("C-peak", TINY, "tiny", "C", (2e-3,), (), 0, range(1), range(0)),
        Cell("C-decay", TINY, "tiny", "C", (8e-3,), (0.0, 0.4), 0, range(1), range(0)),
    )
}
TINY_ORDER = [("C", range(2)), ("C-peak", range(1)), ("C-decay", range(1))]

Unit = collections.namedtuple("Unit", "cell seed")


def plan(order):
    return [Unit(cell, seed) for cell, seeds in order for seed in seeds]


def chosen(units, names):
    """Those of the cells and the units named: C is a cell, C-s1 its seed 1."""
    known = {unit.cell for unit in units} | {label(unit) for unit in units}
    unknown = [name for name in names if name not in known]
    if unknown:
        listed = ", ".join(dict.fromkeys(unit.cell for unit in units))
        raise Trouble(f"STUDY_CELLS names {', '.join(unknown)}; cells are {listed}, a unit is {label(units[0])}")
    return [unit for unit in units if unit.cell in names or label(unit) in names]


def label(unit):
    return f"{unit.cell}-s{unit.seed}"


def cell_of(label):
    return label.rpartition("-s")[0]


def digest(cell):
    """Names trajectories and files: a cell that is defined otherwise shares none with what was computed before."""
    return hashlib.sha256(json.dumps(cell._replace(seeds=0, more=0)).encode()).hexdigest()[:6]


def step(scale):
    return scale.length * scale.sequences


def ends(scale):
    """Tokens at which the decays end."""
    return [(branch + branch // scale.share) * scale.every * step(scale) for branch in scale.branches]


def branch_tokens(scale):
    return [branch * scale.every * step(scale) for branch in scale.branches]


def parameters(scale):
    return scale.vocabulary * scale.hidden + scale.layers * (13 * scale.hidden**2 + 2 * scale.hidden) + scale.hidden


def size(cell):
    """Parameters of its models; cells of another plan say it themselves."""
    return parameters(cell.scale) if isinstance(cell, Cell) else cell.parameters()


def trained_tokens(cell):
    """All that a unit trains on; cells of another plan say it themselves."""
    if not isinstance(cell, Cell):
        return cell.trained()
    last, branches = ends(cell.scale), branch_tokens(cell.scale)
    if cell.weight_decays:
        return (len(cell.weight_decays) + 1) * last[-1]
    decays = sum(last) - sum(branches)
    each = (last[-1] if cell.base is None else branches[-1]) + decays
    return len(cell.peaks) * each + max(0, cell.soups - 1) * (last[-1] - branches[-1])


# A unit's seconds of one processor, before any was measured: of training (science of scale: 150,000 tokens a second at
# 0.14 million parameters, 23,000 at 1.1 million, 7,200 at 3 million), and as much again for measuring a small model, a
# fifth for larger ones.
def guess(cell):
    return trained_tokens(cell) * size(cell) / 2.4e10 * (2.2 if size(cell) < 500_000 else 1.2)


def seconds_of(text):
    """Of "90s", "20m", "3h", "1.5h"."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h)", text)
    if found is None or float(found[1]) <= 0:
        raise Trouble(f"STUDY_BUDGET is {text!r}; it is a time such as 20m, 1h, 6h or 24h")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]]
