"""One unit of the study: what one seed of one cell trains and measures, asked over HTTP. Every request is idempotent: a
unit that was cut off asks the same again and gets what there is. Standard library only.

A model is a Key. Groups: constant (the trunk, measured where decays end), decay, lawa (mean of the trunk's latest
checkpoints), soup (mean of decays that branch off one checkpoint and see the data in another order), cosine; "along" is
any other checkpoint of a run.
"""

import collections

import student
from ask import Run
from cells import branch_tokens, digest, ends
from experiment import Experiment, millions
from launch import Trouble

Key = collections.namedtuple("Key", "group peak weight_decay branch tokens end")
DEFAULT_WEIGHT_DECAY = 0.1  # of the server's AdamW

# Name: (request, calibration samples; None for as many as the scale says).
# The group is the largest that divides all columns here.
GROUP_SIZE = 64
METHODS = {
    "gptq-3": ({"name": "gptq", "bits": 3}, None),
    "gptq-4": ({"name": "gptq", "bits": 4}, None),
    "gptq-2": ({"name": "gptq", "bits": 2}, 1),
    "rtn-3": ({"name": "rtn", "bits": 3}, 1),
    "rtn-4": ({"name": "rtn", "bits": 4}, 1),
    "awq-3": ({"name": "awq", "bits": 3}, 1),
    "awq-4": ({"name": "awq", "bits": 4}, 1),
    "nf4": ({"name": "nf4"}, 1),
}
MAIN = "gptq-3"


def method_of(name, hidden):
    request = dict(METHODS[name][0])
    request["block_size" if request["name"] == "nf4" else "group_size"] = min(GROUP_SIZE, hidden)
    return request


class UnitOfStudy(Experiment):
    methods = METHODS

    def __init__(self, client, cell, seed, base=None, prefix="study"):
        """`base`: the cell that this one is compared with, None without."""
        super().__init__(client, cell.scale)
        self.cell, self.seed, self.base = cell, seed, base
        self.name = f"{prefix}-{cell.name}-{digest(cell)}-s{seed}"
        self.training, self.validation, self.other = (
            f"{prefix}-{cell.text}-train",
            f"{prefix}-{cell.text}-validation",
            f"{prefix}-other",
        )
        self.vocabulary = f"{prefix}-{cell.text}-words"
        self.branched = branch_tokens(cell.scale)
        self.counts = ends(cell.scale)
        self.words = None  # the tokenizer that `learn_words` found
        self.asked = {}  # {(key, method, text): Run}, {key: Run} of its sharpness

    def register(self, directory):
        for name, file in (
            (self.training, f"{self.cell.text}-train.txt"),
            (self.validation, f"{self.cell.text}-validation.txt"),
            (self.vocabulary, f"{self.cell.text}-words.txt"),
            (self.other, "other.txt"),
        ):
            self.client.request("POST", "/v1/datasets", {"name": name, "path": str(directory / file), "format": "text"})

    def learn_words(self):
        """The tokenizer of this text and size, which all seeds share:
        learned by a run of one step from the text's first megabytes."""
        name = f"{self.vocabulary}-{self.scale.vocabulary}"
        run = self.client.post(
            "train",
            {
                "trajectory": name,
                "dataset": self.vocabulary,
                "tokens": self.step,
                "sequence_length": self.scale.length,
                "batch_sequences": self.scale.sequences,
                "model": self.model,
                "keep_state": False,
                "tokenizer": {"name": "train", "vocabulary_size": self.scale.vocabulary},
            },
        )
        result = self.client.finish("learning the vocabulary", {0: Run(run, "learning the vocabulary")})[0]
        checkpoint = self.client.get(f"/v1/checkpoints/{result['checkpoints'][-1]}")
        return {"name": "file", "path": checkpoint["source"]["path"] + "/tokenizer.json"}

    def begin(self, group, peak, tokens, schedule, every=None, branched=0, **more):
        """A training run of this seed."""
        name = f"{self.name}-{group}-{peak:g}"
        return self.train(name, peak, tokens, every or self.every, schedule, branched, **{"seed": self.seed, **more})

    # --- training -----------------------------------------------------------------------------------------------------
    def models(self):
        """{Key: checkpoint} of all that is measured."""
        return self.from_scratch() if self.cell.weight_decays else self.trunk_and_decays()

    def whole(self):
        """Whether its decays are compared with the constant run itself, which therefore goes on beside them."""
        return self.cell.base is None

    def trunks(self, meanwhile=None):
        """{peak: {tokens: checkpoint}} of the constant runs. `meanwhile` is called while they run."""
        runs = {
            peak: self.begin(
                "constant",
                peak,
                self.counts[-1] if self.whole() else self.branched[-1],
                {"name": "constant"},
                model=self.model,
                tokenizer=self.words,
            )
            for peak in self.cell.peaks
        }
        self.client.finish("training with a constant rate", runs, meanwhile)
        return self.stored_trunks()

    def stored_trunks(self):
        return {peak: self.client.checkpoints(f"{self.name}-constant-{peak:g}") for peak in self.cell.peaks}

    def forks(self):
        """[(peak, branch, end, number)] of the decays."""
        return [
            (peak, branch, end, number)
            for peak in self.cell.peaks
            for branch, end in zip(self.branched, self.counts)
            for number in range(max(1, self.cell.soups) if branch == self.branched[-1] else 1)
        ]

    def branch_off(self, runs, trunks):
        """Begins the decays whose checkpoint is stored, for workers that are free while the constant run goes on."""
        for peak, branch, end, number in self.forks():
            if (peak, branch, number) not in runs and branch in trunks[peak]:
                runs[peak, branch, number] = self.decay(trunks[peak][branch], peak, branch, end, number)

    def look(self, runs):
        """What the constant runs have stored by now: decays begin with it, and it is measured."""
        trunks = self.stored_trunks()
        self.branch_off(runs, trunks)
        for peak, trunk in trunks.items():
            self.begin_measuring(self.of_trunk(trunk, peak))
        return trunks

    def decays(self):
        """The constant runs' checkpoints, and the decays' runs."""
        runs = {}
        self.trunks(lambda: self.look(runs))
        trunks = self.look(runs)
        if len(runs) < len(self.forks()):
            raise Trouble(f"{self.name}: the constant runs have not stored every checkpoint that a decay begins with")
        return trunks, runs

    def measure_ended(self, runs):
        """Begins to measure the decays that have ended; those of other orders only make a soup."""
        for peak, branch, end, number in self.forks():
            last = Key("decay", peak, DEFAULT_WEIGHT_DECAY, branch, end, True)
            if number == 0 and runs[peak, branch, number].share == 1.0 and last not in self.asked:
                self.begin_measuring(self.of_decay(peak, branch, end))

    def trunk_and_decays(self):
        found = {}
        trunks, runs = self.decays()
        results = self.client.finish("decaying", runs, lambda: self.measure_ended(runs))
        for peak in self.cell.peaks:
            found.update(self.of_trunk(trunks[peak], peak))
            for branch, end in zip(self.branched, self.counts):
                found.update(self.of_decay(peak, branch, end))
        if self.whole():
            found.update(self.averages(trunks))
        if self.cell.soups > 1:
            peak, branch, end = self.cell.peaks[0], self.branched[-1], self.counts[-1]
            parts = [results[peak, branch, number]["checkpoints"][-1] for number in range(self.cell.soups)]
            params = {"checkpoints": parts, "into": f"{self.name}-soup-{peak:g}", "name": f"soup-{millions(end)}M"}
            run = Run(self.client.post("average", params), "a soup")
            result = self.client.finish("averaging", {0: run})[0]
            found[Key("soup", peak, DEFAULT_WEIGHT_DECAY, branch, end, True)] = result["checkpoint"]
        return found

    def decay(self, start, peak, branch, end, number):
        """The soup's further decays see the rest of the data in another order, which their seed decides."""
        group = f"decay-{millions(branch)}M" + (f"-order{number}" if number else "")
        order = {"seed": self.seed + 1000 * number} if number else {}
        return self.begin(
            group,
            peak,
            end,
            {"name": "wsd", "decay": end - branch},
            max(self.step, (end - branch) // 3),
            branch,
            keep_state=False,
            **{"from": start},
            **order,
        )

    def of_trunk(self, trunk, peak):
        """{Key: checkpoint} of those of a constant run that are measured."""
        found, ends_of = {}, dict(zip(self.counts, self.branched))
        for tokens, checkpoint in trunk.items():
            if self.whole() and tokens in ends_of:
                found[Key("constant", peak, DEFAULT_WEIGHT_DECAY, ends_of[tokens], tokens, True)] = checkpoint
            elif tokens // self.every % self.scale.curve == 0 or tokens in self.branched:
                found[Key("constant", peak, DEFAULT_WEIGHT_DECAY, 0, tokens, False)] = checkpoint
        return found

    def of_decay(self, peak, branch, end):
        return {
            Key("decay", peak, DEFAULT_WEIGHT_DECAY, branch, tokens, tokens == end): checkpoint
            for tokens, checkpoint in self.client.checkpoints(
                f"{self.name}-decay-{millions(branch)}M-{peak:g}"
            ).items()
        }

    def averages(self, trunks):
        runs = {}
        for peak, trunk in trunks.items():
            for branch, end in zip(self.branched, self.counts):
                window = [trunk[end - back * self.every] for back in reversed(range(self.scale.window))]
                params = {"checkpoints": window, "into": f"{self.name}-lawa-{peak:g}", "name": f"lawa-{millions(end)}M"}
                runs[Key("lawa", peak, DEFAULT_WEIGHT_DECAY, branch, end, True)] = Run(
                    self.client.post("average", params), "averaging"
                )
        return {key: result["checkpoint"] for key, result in self.client.finish("averaging", runs).items()}

    def from_scratch(self):
        """Runs of the longest count, with other weight decays and with a cosine."""
        peak, branch, end = self.cell.peaks[0], self.branched[-1], self.counts[-1]
        every = self.every * self.scale.curve
        runs = {}
        for value in self.cell.weight_decays:
            runs["decay", value] = self.begin(
                f"weight-decay-{value:g}",
                peak,
                end,
                {"name": "wsd", "decay": end - branch},
                every,
                keep_state=False,
                model=self.model,
                tokenizer=self.words,
                optimizer={"name": "adamw", "weight_decay": value},
            )
        runs["cosine", DEFAULT_WEIGHT_DECAY] = self.begin(
            "cosine", peak, end, {"name": "cosine"}, every, keep_state=False, model=self.model, tokenizer=self.words
        )
        self.client.finish("training from scratch", runs)
        found = {}
        for group, value in runs:
            name = (
                f"{self.name}-cosine-{peak:g}" if group == "cosine" else f"{self.name}-weight-decay-{value:g}-{peak:g}"
            )
            for tokens, checkpoint in self.client.checkpoints(name).items():
                found[Key(group, peak, value, branch, tokens, tokens == end)] = checkpoint
        return found

    # --- measuring ----------------------------------------------------------------------------------------------------
    def wanted(self, key):
        """[(method, calibration samples, text)] of a model: all methods at end points, the main one along the way."""
        if not key.end:
            return [(MAIN, 1, "validation")]
        asked = [(name, draws or self.scale.draws, "validation") for name, (_, draws) in self.methods.items()]
        return [*asked, (MAIN, 1, "other")]

    def sharpened(self, key):
        """Whether the sharpness of a model is measured."""
        return key.end or key.group == "constant"

    def estimators(self, key):
        return ["trace", "top_eigenvalue"] if key.end else ["trace"]

    def beside(self, key):
        """What else a measurement of the sharpness is asked for."""
        return {}

    def begin_measuring(self, models):
        """Asks for every measurement of these models that was not asked for yet; nobody waits for it here."""
        for key, checkpoint in models.items():
            for name, draws, text in self.wanted(key):
                if (key, name, text) in self.asked:
                    continue
                method, other = method_of(name, self.scale.hidden), self.other if text == "other" else None
                run = self.client.post("quantize", self.quantization(checkpoint, method, draws, other))
                self.asked[key, name, text] = Run(run, f"quantizing {key.group}, {name}", draws)
            if self.sharpened(key) and key not in self.asked:
                asked = {**self.sharpness(checkpoint, self.estimators(key)), **self.beside(key)}
                self.asked[key] = Run(self.client.post("sharpness", asked), "sharpness")

    def measure(self, models):
        """Rows of the results: every number of one run with one model shares its "run"."""
        self.begin_measuring(models)
        quantized = {
            (key, name, text): self.asked[key, name, text] for key in models for name, _, text in self.wanted(key)
        }
        sharp = {key: self.asked[key] for key in models if self.sharpened(key)}
        rows = []
        for (key, name, text), result in self.client.finish("quantizing", quantized).items():
            rows += self.quantize_rows(key, name, text, result, quantized[key, name, text].id)
        for key, result in self.client.finish("measuring sharpness", sharp).items():
            rows += self.sharpness_rows(key, result, sharp[key].id)
        return rows

    def row(self, key, run, metric, value, method="", text="validation", **more):
        return {
            "cell": self.cell.name,
            "seed": self.seed,
            **key._asdict(),
            "method": method,
            "text": text,
            "metric": metric,
            "value": value,
            "low": None,
            "high": None,
            "draw": None,
            "run": run,
            **more,
        }

    def quantize_rows(self, key, name, text, result, run):
        draws = result["calibration_draws"]
        low, high = result["delta_interval"] or (None, None)
        bound = {"low": low, "high": high}
        rows = []
        if draws is None:
            rows.append(self.row(key, run, "delta", result["delta"], name, text, **bound))
            rows.append(self.row(key, run, "loss_q", result["loss_q"], name, text))
        else:
            rows.append(
                self.row(key, run, "delta_mean", result["delta"], name, text, **bound)
            )  # an interval that holds their spread
            for number, (delta, loss) in enumerate(zip(draws["delta"], draws["loss_q"]), 1):
                rows.append(self.row(key, run, "delta", delta, name, text, draw=number))
                rows.append(self.row(key, run, "loss_q", loss, name, text, draw=number))
        rows.append(self.row(key, run, "kl", result["kl"], name, text))
        if name == MAIN:
            rows.append(self.row(key, run, "loss_fp", result["loss_fp"], "", text))
        return rows

    def sharpness_rows(self, key, result, run):
        error = result.get("trace_stderr")
        half = error and student.quantile(self.scale.probes - 1) * error
        rows = [
            self.row(
                key,
                run,
                "trace",
                result["trace"],
                low=half and result["trace"] - half,
                high=half and result["trace"] + half,
            )
        ]
        if key.end:
            # The server's top eigenvalue is that of the largest magnitude; sharpness is the largest algebraic one.
            rows.append(self.row(key, run, "lambda_max", result["largest_algebraic"]))
        return rows

    def run(self):
        return self.measure(self.models())
