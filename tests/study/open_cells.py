"""The cells of the plan `open`: what arXiv 2510.06213 leaves open, with models of 0.14 million parameters, and some of
another architecture or width.

The base of all is `cause`: cells that are no trunk themselves begin with its constant runs, of which a unit asks for
its seed's again and gets what there is; the others share its words. The seeds are none of the plan `paper`, whose
results were known when the endpoints were written.
"""

import collections

from cells import SMALL, TINY, Cell, branch_tokens, ends, parameters, step
from open_models import MODELS

# `does`: which models a unit of the cell makes (open_unit.py): trunk, cycles, optimizer, windows, layers. `options`:
# what that needs to know; of a trunk, the name of its model in open_models.py where it is not the llama.
Fields = collections.namedtuple("OpenCell", (*Cell._fields, "does", "options"))


class OpenCell(Fields):
    __slots__ = ()

    def trained(self):
        """Tokens that a unit trains on, its base's runs apart; a perturbed gradient is two."""
        last, branches = ends(self.scale), branch_tokens(self.scale)
        decays = sum(last) - sum(branches)
        return {
            "trunk": last[-1] + decays,
            "cycles": len(self.options) * decays,
            "optimizer": 2 * last[-1],
            # Nothing is trained: measuring takes as long as training on so many tokens.
            "windows": 20 * self.scale.every * step(self.scale),
            "layers": 20 * self.scale.every * step(self.scale),
        }[self.does]

    def model(self):
        """Its row of open_models.py; None of a llama."""
        return MODELS[self.options] if self.does == "trunk" and self.options else None

    def parameters(self):
        return self.model().parameters(self.scale) if self.model() else parameters(self.scale)


# Decays of 20 % that end at 2.5, 7.6 and 17.6 million tokens: the loss of the constant run falls by a tenth of a nat
# and more after the first, and is level before the last. The text has 19 million tokens.
TRUNK = SMALL._replace(branches=(8, 24, 56))
CYCLES = SMALL._replace(branches=(24,), share=1)  # branches as long as what is before them, to 12.1 million
MIDDLE = SMALL._replace(branches=(24,))
LAST = SMALL._replace(branches=(56,))

WIDE = TRUNK._replace(hidden=2 * SMALL.hidden)
OTHER = SMALL._replace(branches=(8, 24))

# Schedule: its cycles. Half a cycle of `oscillating` ends at the lowest rate, as all of these runs do.
SCHEDULES = (("wsd", 1), ("sgdr", 3), ("oscillating", 2.5))
COSINE = (("cosine", 1),)
# Windows of equal weights; shapes of a decay as long as that of the base, whose merge (WSM) they are.
WINDOWS = ((2, 5, 10, 20), ("linear", "1-sqrt", "cosine"))
BITS = (8, 4, 3, 2)
SOAP = {"name": "soap", "weight_decay": 0.1}  # the decay of AdamW, which its own default is a tenth of

FIRST = 20
SEEDS = {"seeds": range(FIRST, FIRST + 10), "more": range(FIRST + 10, FIRST + 16)}


def cell(name, does, scale, options=(), text="prose", base="cause", seeds=SEEDS):
    base = None if name == base else base
    return OpenCell(name, scale, text, base, scale.peaks, (), 0, seeds["seeds"], seeds["more"], does, options)


def by_name(*cells):
    return {one.name: one for one in cells}


CELLS = by_name(
    cell("cause", "trunk", TRUNK),
    cell("cycles", "cycles", CYCLES, SCHEDULES),
    cell("sam", "optimizer", MIDDLE, {"name": "sam"}),
    cell("asam", "optimizer", MIDDLE, {"name": "asam"}),
    cell("muon", "optimizer", MIDDLE, {"name": "muon"}),
    cell("soap", "optimizer", MIDDLE, SOAP),
    cell("windows", "windows", LAST, WINDOWS),
    cell("layers", "layers", LAST, BITS),
    cell("cosine", "cycles", CYCLES, COSINE),
    cell("level", "trunk", LAST, text="grammar"),
    cell("mixture", "trunk", OTHER, "mixture"),
    cell("states", "trunk", OTHER, "state space"),
    cell("wide", "trunk", WIDE),
)
ORDER = [
    (name, range(FIRST + low, FIRST + high)) for low, high in ((0, 3), (3, 5), (5, 10), (10, 16)) for name in CELLS
]

FEW = {"seeds": range(FIRST, FIRST + 1), "more": range(0)}
TINY_CELLS = by_name(
    cell("cause", "trunk", TINY, text="tiny", seeds=FEW),
    cell("cycles", "cycles", TINY._replace(branches=(6,), share=1), SCHEDULES, "tiny", seeds=FEW),
    cell("sam", "optimizer", TINY._replace(branches=(4,)), {"name": "sam"}, "tiny", seeds=FEW),
    cell("asam", "optimizer", TINY._replace(branches=(4,)), {"name": "asam"}, "tiny", seeds=FEW),
    cell("muon", "optimizer", TINY._replace(branches=(4,)), {"name": "muon"}, "tiny", seeds=FEW),
    cell("soap", "optimizer", TINY._replace(branches=(4,)), SOAP, "tiny", seeds=FEW),
    cell("windows", "windows", TINY._replace(branches=(8,)), ((2, 5), ("linear", "1-sqrt")), "tiny", seeds=FEW),
    cell("layers", "layers", TINY._replace(branches=(8,)), (4, 2), "tiny", seeds=FEW),
    cell("cosine", "cycles", TINY._replace(branches=(6,), share=1), COSINE, "tiny", seeds=FEW),
    cell("level", "trunk", TINY._replace(branches=(8,)), (), "tiny", seeds=FEW),
    cell("mixture", "trunk", TINY, "mixture", "tiny", seeds=FEW),
    cell("states", "trunk", TINY._replace(branches=(4,)), "state space", "tiny", seeds=FEW),
    cell("wide", "trunk", TINY._replace(hidden=64, branches=(4,)), (), "tiny", seeds=FEW),
)
TINY_ORDER = [(name, range(FIRST, FIRST + 1)) for name in TINY_CELLS]
