"""The plans of the study: a table of cells and their order, the endpoints that were fixed beforehand, what makes a unit
and the figures. STUDY_PLAN names one.
"""

import collections
import os

import cells
import figures
import open_cells
import open_figures
from launch import Trouble
from open_unit import OpenUnit
from unit import UnitOfStudy

# `endpoints`: a file beside this one. `unit`: a class (client, cell, seed, base cell). `draw`: {file: SVG} of (rows,
# cells). `command`: what a report names before the budget. `words`: of its report;
# `expected` and `sign` say whose signs the endpoints have.
Plan = collections.namedtuple(
    "Plan", "name cells order tiny_cells tiny_order endpoints unit draw command words"
)

PLANS = {
    plan.name: plan
    for plan in (
        Plan(
            "paper",
            cells.CELLS,
            cells.ORDER,
            cells.TINY_CELLS,
            cells.TINY_ORDER,
            "endpoints.toml",
            UnitOfStudy,
            figures.draw,
            "",
            {
                "title": "Study: learning rate dynamics and quantization, in small",
                "introduction": "A replication of arXiv 2510.06213 by `make study`.",
                "expected": "that the paper reports",
                "sign": "the paper's sign",
            },
        ),
        Plan(
            "open",
            open_cells.CELLS,
            open_cells.ORDER,
            open_cells.TINY_CELLS,
            open_cells.TINY_ORDER,
            "open.toml",
            OpenUnit,
            open_figures.draw,
            "STUDY_PLAN=open ",
            {
                "title": "Study: what learning rate dynamics and quantization leave open, in small",
                "introduction": "Questions that arXiv 2510.06213 leaves open, by `make study STUDY_PLAN=open`: what "
                "the cause is, whether sharpness is, what curvature predicts, which average replaces a decay.",
                "expected": "that have an expected sign",
                "sign": "the expected sign",
            },
        ),
    )
}


def of_environment():
    name = os.environ.get("STUDY_PLAN") or "paper"
    if name not in PLANS:
        raise Trouble(f"STUDY_PLAN is {name!r}; plans are {', '.join(PLANS)}")
    return PLANS[name]
