"""Rows of a study of the plan `open` that was never run, in a world whose truth is known: what ΔQL follows from."""

import math

from cells import branch_tokens, ends, step
from open_cells import CELLS

EVERY = CELLS["cause"].scale.every * step(CELLS["cause"].scale)
LAST = ends(CELLS["cause"].scale)[-1]
LEVEL = 6e6  # tokens from which the loss of a constant run is level
MARKERS = (
    "lambda_max",
    "gradient_norm",
    "relative_trace",
    "line_curvature",
    "critical_sharpness",
    "preconditioned_sharpness",
)
LAYERS = [f"model.layers.{block}.{name}" for block in (0, 1) for name in ("q", "k", "v", "o", "gate", "up", "down")]

# In ΔQL: `rate` is what a rate of zero adds, `tokens` what a factor e of tokens adds beyond LEVEL, `loss` what a nat
# less adds. `second`: the logarithm of measured over predicted damage, by bits. `sharp`: in ΔQL, of what SAM takes away
# at equal loss. `window`: what an average adds to the quantized loss of the decayed run. `others`: what a rate of zero
# adds in a cell besides.
NOTHING = {"rate": 0.0, "tokens": 0.0, "loss": 0.0, "second": {}, "sharp": 0.0, "window": {}, "marker": 0.0}
NOTHING["others"] = {}
DECAY = {**NOTHING, "rate": 0.02}
CONVERGENCE = {**NOTHING, "tokens": 0.02}


def rate_of(group, tokens, branch, end):
    """As a share of the peak."""
    past = (tokens - branch) / (end - branch)
    return {
        "constant": lambda: 1.0,
        "decay": lambda: 1 - past,
        "sgdr": lambda: 0.5 * (1 + math.cos(math.pi * ((3 * past) % 1 or 1))),
        "oscillating": lambda: 0.5 * (1 + math.cos(2 * math.pi * 2.5 * past)),
        "cosine": lambda: 0.5 * (1 + math.cos(math.pi * past)),
    }[group]()


def loss_of(rate, tokens, lag):
    """Falls until LEVEL, and with the rate, which it follows late."""
    return 2.9 - 0.3 * math.log(min(tokens, LEVEL) / LEVEL) - 0.15 * (1 - 0.5 * (rate + lag))


class Made:
    def __init__(self, source, world):
        self.source, self.world, self.rows = source, world, []

    def add(self, cell, seed, group, tokens, numbers, method="", end=True):
        for metric, value in numbers.items():
            self.rows.append(
                {
                    "id": f"m{len(self.rows) + 1}",
                    "cell": cell,
                    "seed": seed,
                    "group": group,
                    "peak": CELLS[cell].peaks[0],
                    "weight_decay": 0.1,
                    "branch": 0,
                    "tokens": tokens,
                    "end": end,
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

    def delta(self, base, rate, tokens, loss):
        world, noise = self.world, self.source.gauss(0, 0.001)
        late = max(0.0, math.log(tokens / LEVEL))
        return base + world["rate"] * (1 - rate) + world["tokens"] * late + world["loss"] * (2.9 - loss) + noise

    def model(self, cell, seed, base, group, tokens, rate, loss=None, less=0.0, end=True):
        base += self.world["others"].get(cell, 0.0) * (1 - rate)
        loss = (loss_of(rate, tokens, rate) if loss is None else loss) + self.source.gauss(0, 0.001)
        delta = self.delta(base, rate, tokens, loss) - less
        own = self.world["marker"] * delta / 0.02 + self.source.gauss(0, 0.3)
        numbers = {"loss_fp": loss, "rate": rate, "trace": 700 + 100 * own}
        numbers |= {name: 10 + own for name in MARKERS}
        self.add(cell, seed, group, tokens, numbers, end=end)
        for method in ("gptq-3", "gptq-4"):
            quantized = {"delta": delta, "loss_q": loss * (1 + delta)}
            self.add(cell, seed, group, tokens, quantized, method, end)
        return loss, delta

    def trunk(self, seed, base, cell="cause"):
        scale = CELLS[cell].scale
        counts = sorted({*range(5 * EVERY, ends(scale)[-1] + 1, 5 * EVERY), *ends(scale)})
        for tokens in counts:
            self.model(cell, seed, base, "constant", tokens, 1.0, end=tokens in ends(scale))
        for tokens in ends(scale):
            self.model(cell, seed, base, "decay", tokens, 0.0)
            self.model(cell, seed, base, "lawa", tokens, 1.0, loss_of(0.2, tokens, 0.2))

    def others(self, seed, base):
        for cell in ("level", "mixture", "states", "wide"):
            self.trunk(seed, base, cell)

    def cycles(self, seed, base):
        branch, end = branch_tokens(CELLS["cycles"].scale)[0], ends(CELLS["cycles"].scale)[0]
        for cell, group in (*(("cycles", group) for group in ("decay", "sgdr", "oscillating")), ("cosine", "cosine")):
            lag = 1.0
            for tokens in range(branch + EVERY, end + 1, EVERY):
                rate = rate_of(group, tokens, branch, end)
                lag = 0.5 * (lag + rate)
                self.model(cell, seed, base, group, tokens, rate, loss_of(rate, tokens, lag), end=tokens == end)

    def optimizers(self, seed, base):
        tokens = ends(CELLS["sam"].scale)[0]
        for cell in ("sam", "asam", "muon", "soap"):
            loss = loss_of(0.0, tokens, 0.0) + 0.01
            self.model(cell, seed, base, "decay", tokens, 0.0, loss, self.world["sharp"])

    def windows(self, seed, _):
        decayed = next(
            row["value"]
            for row in self.rows
            if (row["cell"], row["seed"], row["group"], row["tokens"], row["method"], row["metric"])
            == ("cause", seed, "decay", LAST, "gptq-3", "loss_q")
        )
        for group in ("lawa-2", "lawa-5", "lawa-10", "lawa-20", "wsm-linear", "wsm-1-sqrt", "wsm-cosine"):
            for method in ("gptq-3", "gptq-4"):
                value = decayed + self.world["window"].get(group, 0.0) + self.source.gauss(0, 0.002)
                numbers = {"loss_q": value, "delta": 0.05 + self.source.gauss(0, 0.001)}
                self.add("windows", seed, group, LAST, numbers, method)

    def layers(self, seed, _):
        for group in ("constant", "decay"):
            for bits in (8, 4, 3, 2):
                self.by_layer(seed, group, bits)
            sharp = {"trace_per_parameter": 0.005 * math.exp(self.source.gauss(0, 0.1)), "lambda_max": 4.0}
            self.add("layers", seed, group, LAST, sharp)

    def by_layer(self, seed, group, bits):
        short, whole, numbers = self.world["second"].get(bits, 0.0), [0.0, 0.0], {}
        for name in LAYERS:
            predicted = math.exp(self.source.gauss(-6, 0.7))
            # Without a truth to be found, what is measured of a layer has nothing to do with its prediction.
            follows = predicted if self.world["second"] else math.exp(self.source.gauss(-6, 0.7))
            measured = follows * math.exp(short + self.source.gauss(0, 0.05))
            numbers |= {f"predicted.{name}": predicted, f"measured.{name}": measured}
            whole = [whole[0] + predicted, whole[1] + predicted * math.exp(short + self.source.gauss(0, 0.05))]
        numbers |= {"predicted_delta": whole[0], "measured_delta": whole[1]}
        numbers |= {
            "gradient_term": self.source.gauss(0, 1e-3),
            "curvature_along": 0.01 * math.exp(self.source.gauss(0, 0.1)),
            "direction_norm": math.exp(self.source.gauss(0, 0.02)),
        }
        bend, ratio = 0.01 * math.exp(self.source.gauss(0, 0.1)), math.exp(self.source.gauss(0, 0.1))
        numbers |= {"curvature_term": bend * ratio, "random_curvature_term": bend, "curvature_ratio": ratio}
        numbers |= {"random_delta": whole[1] * math.exp(self.source.gauss(0, 0.1))}
        self.add("layers", seed, group, LAST, numbers, f"rtn-{bits}")


PARTS = ("trunk", "cycles", "optimizers", "windows", "layers", "others")


def rows(source, world, seeds=6, parts=PARTS):
    """`parts`: what is measured; optimizers and windows need the trunk."""
    made = Made(source, world)
    for seed in list(CELLS["cause"].seeds)[:seeds]:
        base = source.gauss(0.05, 0.003)
        for part in parts:
            getattr(made, part)(seed, base)
    return made.rows
