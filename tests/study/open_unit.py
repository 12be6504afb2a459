"""One unit of the plan `open`. Groups beside those of unit.py: sgdr, oscillating and cosine (runs that branch off the
constant one), lawa-K (mean of the last K checkpoints), wsm-SHAPE (mean of the last checkpoints with the weights of a
decay of that shape). A metric PREDICTED.LAYER or MEASURED.LAYER is of one linear. Standard library only.
"""

import math

from ask import Run
from unit import DEFAULT_WEIGHT_DECAY, METHODS, Key, UnitOfStudy, millions

# What is left of the rate when x of a decay has passed.
SHAPES = {
    "linear": lambda x: 1 - x,
    "1-sqrt": lambda x: 1 - math.sqrt(x),
    "cosine": lambda x: 0.5 * (1 + math.cos(math.pi * x)),
}
FREE = ("gradient_norm", "relative_trace", "trace_per_parameter")  # what a measurement of the trace gives besides
CRITICAL = "critical_sharpness"  # from losses along the gradient, no product
PRECONDITIONED = "preconditioned_sharpness"  # by gradients, since not every model of the study has a training state
BRANCHED = ("sgdr", "oscillating", "cosine")  # groups of `cycles` beside the decay
TRAINED = ("constant", "decay", *BRANCHED)  # groups of runs, the others are averages
CHANGES = 16  # random ones, as large as a quantization error
OF_CHANGES = ("random_curvature_term", "random_delta", "curvature_ratio")
LINE = (0.5, 1.5)  # around a model, in units of its distance from the checkpoint before


def group_of(schedule):
    return "decay" if schedule == "wsd" else schedule


def schedule_of(name, cycles, branch, end):
    """A cosine from the branch to the end is one cycle of SGDR."""
    if name == "wsd":
        return {"name": name, "decay": end - branch}
    return {"name": "sgdr" if name == "cosine" else name, "start": branch, "period": round((end - branch) / cycles)}


def merge_weights(shape, count):
    """Of the last `count` checkpoints, oldest first: a checkpoint's step of the weights counts by what is left of the
    rate (Warmup-Stable and Merge, arXiv 2507.17634)."""
    left = [SHAPES[shape](place / count) for place in range(count)] + [0.0]
    return [before - after for before, after in zip(left, left[1:])]


class OpenUnit(UnitOfStudy):
    methods = {name: METHODS[name] for name in ("gptq-3", "gptq-4", "gptq-2", "rtn-3", "rtn-4")}
    methods["gptq-4"] = (METHODS["gptq-4"][0], None)

    def __init__(self, client, cell, seed, base=None, prefix="study"):
        super().__init__(client, cell, seed, base, prefix)
        if cell.model():
            self.model = cell.model().config(cell.scale, self.model)

    def whole(self):
        return self.cell.does == "trunk"

    def learn_words(self):
        """Of the same text those of the base, whose model may be another."""
        shared = self.base is not None and self.base.text == self.cell.text
        return self.trunk().learn_words() if shared else super().learn_words()

    def trunk(self):
        """The unit of this seed that has the constant run."""
        unit = OpenUnit(self.client, self.base, self.seed)
        unit.words = self.words
        return unit

    def key(self, group, tokens, end=True):
        return Key(group, self.cell.peaks[0], DEFAULT_WEIGHT_DECAY, self.branched[-1], tokens, end)

    def of_runs(self, groups):
        """{Key: checkpoint} of the runs of these groups; what they ended with is an end point."""
        return {
            self.key(group, tokens, tokens == self.counts[-1]): checkpoint
            for group in groups
            for tokens, checkpoint in self.client.checkpoints(f"{self.name}-{group}-{self.cell.peaks[0]:g}").items()
        }

    def models(self):
        return {
            "trunk": self.trunk_and_decays,
            "cycles": self.cycles,
            "optimizer": self.optimizer,
            "windows": self.windows,
            "layers": self.compared_layers,
        }[self.cell.does]()

    # --- training -----------------------------------------------------------------------------------------------------
    def cycles(self):
        peak, branch, end = self.cell.peaks[0], self.branched[-1], self.counts[-1]
        start = self.trunk().trunks()[peak][branch]
        schedules = {
            group_of(name): schedule_of(name, cycles, branch, end) for name, cycles in self.cell.options
        }
        runs = {
            group: self.begin(group, peak, end, schedule, None, branch, keep_state=False, **{"from": start})
            for group, schedule in schedules.items()
        }
        self.client.finish("other schedules", runs)
        return self.of_runs(runs)

    def optimizer(self):
        """A decayed run from scratch."""
        branch, end = self.branched[-1], self.counts[-1]
        run = self.begin(
            "decay",
            self.cell.peaks[0],
            end,
            {"name": "wsd", "decay": end - branch},
            self.every * self.scale.curve,
            keep_state=False,
            model=self.model,
            tokenizer=self.words,
            optimizer=self.cell.options,
        )
        self.client.finish("another optimizer", {0: run})
        return self.of_runs(["decay"])

    def windows(self):
        peak, end = self.cell.peaks[0], self.counts[-1]
        trunk, (windows, shapes) = self.trunk().trunks()[peak], self.cell.options
        decay = (end - self.branched[-1]) // self.every
        averages = {f"lawa-{count}": (count, None) for count in windows}
        averages.update({f"wsm-{shape}": (decay, merge_weights(shape, decay)) for shape in shapes})
        runs = {}
        for group, (count, weights) in averages.items():
            params = {
                "checkpoints": [trunk[end - back * self.every] for back in reversed(range(count))],
                "into": f"{self.name}-averages",
                "name": f"{group}-{millions(end)}M",
                **({"weights": weights} if weights else {}),
            }
            runs[self.key(group, end)] = Run(self.client.post("average", params), "averaging")
        return {key: result["checkpoint"] for key, result in self.client.finish("averaging", runs).items()}

    def compared_layers(self):
        """The constant run and the decayed one at the last count."""
        unit, peak, branch, end = self.trunk(), self.cell.peaks[0], self.branched[-1], self.counts[-1]
        trunk = unit.trunks()[peak]
        decayed = self.client.finish("decaying", {0: unit.decay(trunk[branch], peak, branch, end, 0)})[0]
        return {self.key("constant", end): trunk[end], self.key("decay", end): decayed["checkpoints"][-1]}

    # --- measuring ----------------------------------------------------------------------------------------------------
    def sharpened(self, key):
        return super().sharpened(key) or key.group in BRANCHED

    def measure(self, models):
        if self.cell.does == "layers":
            return self.layer_rows(models)
        rows = super().measure(models) + self.rate_rows(models)
        return rows + self.line_rows(models) if self.cell.does == "trunk" else rows

    def estimators(self, key):
        return super().estimators(key) + ([CRITICAL] if key.end else [])

    def beside(self, key):
        moments = {"name": "squared_gradients", "batches": self.scale.sharp}
        return {"preconditioner": moments} if key.end else {}

    def sharpness_rows(self, key, result, run):
        """A loss that never exceeds has no critical sharpness, and no row of it."""
        names = [*FREE, *(name for name in (CRITICAL, PRECONDITIONED) if result[name] is not None)]
        return super().sharpness_rows(key, result, run) + [self.row(key, run, name, result[name]) for name in names]

    def rate_rows(self, models):
        """Learning rates as a share of the peak; an average has none. What they name as their run is the checkpoint."""
        found = {
            key: self.client.get(f"/v1/checkpoints/{checkpoint}")
            for key, checkpoint in models.items()
            if key.group in TRAINED
        }
        return [
            self.row(key, answer["id"], "rate", answer["learning_rate"] / key.peak) for key, answer in found.items()
        ]

    def line_rows(self, models):
        """The loss at three points of the line from the checkpoint before an end point through it: its second
        derivative by the relative change of the weights needs no product with the Hessian."""
        runs = {}
        for key, checkpoint in models.items():
            before = self.before(models, key) if key.end else None
            if before is not None:
                line = {
                    "from": before,
                    "to": checkpoint,
                    "points": 3,
                    "range": LINE,
                    "dataset": self.validation,
                    "sequence_length": self.scale.length,
                    "max_sequences": self.scale.evaluation,
                }
                distance = {"checkpoint": checkpoint, "previous": before}
                runs[key, "line"] = Run(self.client.post("interpolate", line), "a line")
                runs[key, "distance"] = Run(self.client.post("health", distance), "a distance")
        results = self.client.finish("measuring lines", runs)
        rows = []
        for key, kind in runs:
            if kind == "line":
                low, middle, high = results[key, "line"]["losses"]
                step = (LINE[1] - 1) * results[key, "distance"]["relative_l2"]
                rows.append(self.row(key, runs[key, "line"].id, "line_curvature", (low - 2 * middle + high) / step**2))
        return rows

    def before(self, models, key):
        """The checkpoint before it: of its run, of the constant one for an average."""
        group = self.trunk_checkpoints(key.peak)
        if key.group == "decay":
            group = {**group, **{other.tokens: models[other] for other in models if self.same_decay(other, key)}}
        earlier = [tokens for tokens in group if tokens < key.tokens]
        return group[max(earlier)] if earlier else None

    def trunk_checkpoints(self, peak):
        return self.client.checkpoints(f"{self.name}-constant-{peak:g}")

    @staticmethod
    def same_decay(one, other):
        return one.group == "decay" and one.branch == other.branch

    # --- by layer -----------------------------------------------------------------------------------------------------
    def layer_rows(self, models):
        """Rounded to nearest, each linear alone and all but it: half of the sum of both is what the second order
        predicts of it with its share of what it has in common with the others."""
        runs = {}
        for key, checkpoint in models.items():
            for bits in self.cell.options:
                method = {"name": "rtn", "bits": bits, "group_size": min(64, self.scale.hidden)}
                estimators = ["trace", "top_eigenvalue"] if bits == self.cell.options[0] else []
                along = {"method": method, "random_directions": CHANGES}
                direction = {**self.sharpness(checkpoint, estimators), "direction": along}
                evaluation = {
                    "dataset": self.validation,
                    "sequence_length": self.scale.length,
                    "max_sequences": self.scale.sharp,
                }
                parts = {"checkpoint": checkpoint, "method": method, "evaluation": evaluation}
                runs[key, bits, "predicted"] = Run(self.client.post("sharpness", direction), "predicting")
                runs[key, bits, "measured"] = Run(self.client.post("attribution", parts), "attributing")
        results = self.client.finish("layer by layer", runs)
        rows = []
        for (key, bits, side), run in runs.items():
            of_side = self.predicted_rows if side == "predicted" else self.measured_rows
            rows += of_side(key, f"rtn-{bits}", results[key, bits, side], run.id)
        return rows

    def predicted_rows(self, key, method, result, run):
        norm = result["direction_norm"]
        values = {name: result[name] for name in ("predicted_delta", "measured_delta", "gradient_term")}
        values |= {"curvature_term": result["curvature_term"], "direction_norm": norm}
        values["curvature_along"] = 2 * result["curvature_term"] / norm**2
        values |= {name: result[name] for name in OF_CHANGES if result[name] is not None}
        for layer in result["by_layer"]:
            both = layer["gradient_term"] + layer["curvature_term"]
            values[f"predicted.{layer['name']}"] = both / result["loss"]
        rows = [self.row(key, run, name, value, method) for name, value in values.items()]
        if result["trace"] is not None:
            rows += self.sharpness_rows(key, result, run)
        return rows

    def measured_rows(self, key, method, result, run):
        return [
            self.row(key, run, f"measured.{part['name']}", 0.5 * (part["alone"]["delta"] + part["marginal"]), method)
            for part in result["units"]
        ]
