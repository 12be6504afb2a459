"""What the demo trains and measures, through the HTTP interface alone. Standard library only.

Two runs with a constant learning rate, one at each of two peak rates; decays that branch off them at several token
counts; at the same counts the average of the constant run's latest checkpoints (LAWA). All are quantized by GPTQ and
measured on text that no run saw, and the trace of the Hessian of those with the larger peak is estimated. The model is
so small that it sees 15 to 80 tokens a parameter: with fewer than about ten, the effect of the decay does not show.
"""

import collections

import sentences
from ask import Run

# `every`: steps from a checkpoint to the next. `branches`: checkpoints before a decay begins; it takes one `share`-th
# of that more. `curve`: every so many checkpoints of the constant runs are measured. `draws`: disjoint calibration
# samples, of `calibration` sequences each, for models that the sentences compare.
# `evaluation`: sequences, None for all.
Scale = collections.namedtuple(
    "Scale",
    "hidden layers vocabulary length sequences every branches share curve warmup window peaks bits calibration draws "
    "evaluation sharp probes",
)
SCALES = {
    "full": Scale(64, 2, 512, 128, 16, 123, (8, 20, 36), 4, 5, 50, 5, (4e-3, 1e-3), 3, 512, 4, None, 32, 16),
    "tiny": Scale(32, 1, 300, 32, 4, 3, (4, 8), 4, 5, 3, 3, (8e-3, 2e-3), 3, 16, 2, 32, 8, 2),
}


class Experiment:
    training, validation = "demo-text", "demo-text-validation"  # datasets

    def __init__(self, client, scale):
        self.client, self.scale = client, scale
        self.step = scale.length * scale.sequences
        self.every = scale.every * self.step
        self.counts = [(branch + branch // scale.share) * self.every for branch in scale.branches]
        heads = max(1, scale.hidden // 32)
        self.model = {
            "model_type": "llama",
            "architectures": ["LlamaForCausalLM"],
            "hidden_size": scale.hidden,
            "num_hidden_layers": scale.layers,
            "num_attention_heads": heads,
            "num_key_value_heads": heads,
            "intermediate_size": 3 * scale.hidden,
            "hidden_act": "silu",
            "max_position_embeddings": 2 * scale.length,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "tie_word_embeddings": True,
            "attention_bias": False,
            "mlp_bias": False,
            "initializer_range": 0.02,
            "vocab_size": scale.vocabulary,
        }

    # --- names --------------------------------------------------------------------------------------------------------
    def constant(self, peak):
        return f"constant-{peak:g}"

    def decayed(self, peak, tokens):
        return f"decay-{peak:g}-{millions(tokens)}M"

    @property
    def averaged(self):
        return f"average-{self.scale.peaks[0]:g}"

    def main(self):
        """The trajectories of the larger peak: what the first page to look at compares."""
        return [
            self.constant(self.scale.peaks[0]),
            *(self.decayed(self.scale.peaks[0], tokens) for tokens in self.counts),
            self.averaged,
        ]

    # --- runs ---------------------------------------------------------------------------------------------------------
    def register(self, directory):
        for name, file in ((self.training, "train.txt"), (self.validation, "validation.txt")):
            self.client.request("POST", "/v1/datasets", {"name": name, "path": str(directory / file), "format": "text"})

    def train(self, trajectory, peak, tokens, every, schedule, branched=0, **more):
        scale = self.scale
        params = {
            "trajectory": trajectory,
            "dataset": self.training,
            "validation": self.validation,
            "tokens": tokens,
            "batch_sequences": scale.sequences,
            "sequence_length": scale.length,
            "checkpoint_every": every,
            "validation_sequences": 64,
            "seed": 0,
            "schedule": {"peak": peak, "warmup": scale.warmup * self.step, **schedule},
            **more,
        }
        return Run(
            self.client.post("train", params), f"training {trajectory}", tokens - branched, branched // self.step
        )

    def train_constant(self):
        """That of the smaller peak only as far as its last decay branches off."""
        words = {"name": "train", "vocabulary_size": self.scale.vocabulary}
        runs = {}
        for peak, tokens in zip(self.scale.peaks, (self.counts[-1], self.scale.branches[-1] * self.every)):
            runs[peak] = self.train(
                self.constant(peak), peak, tokens, self.every, {"name": "constant"}, model=self.model, tokenizer=words
            )
        self.client.finish("training with a constant rate", runs)

    def train_decays(self):
        """Those of the smaller peak at all token counts but the first:
        it learns slowly, and is compared at equal loss."""
        runs = {}
        for peak in self.scale.peaks:
            stored = self.client.checkpoints(self.constant(peak))
            for branch, tokens in list(zip(self.scale.branches, self.counts))[peak != self.scale.peaks[0] :]:
                start = branch * self.every
                runs[peak, tokens] = self.train(
                    self.decayed(peak, tokens),
                    peak,
                    tokens,
                    (tokens - start) // 3,
                    {"name": "wsd", "decay": tokens - start},
                    start,
                    keep_state=False,
                    **{"from": stored[start]},
                )
        self.client.finish("decaying", runs)

    def average(self):
        stored = self.client.checkpoints(self.constant(self.scale.peaks[0]))
        runs = {}
        for tokens in self.counts:
            window = [stored[tokens - back * self.every] for back in reversed(range(self.scale.window))]
            params = {"checkpoints": window, "into": self.averaged, "name": f"{self.averaged}-{millions(tokens)}M"}
            runs[tokens] = Run(self.client.post("average", params), "averaging")
        return {tokens: result["checkpoint"] for tokens, result in self.client.finish("averaging", runs).items()}

    def models(self, averages):
        """{(group, peak, tokens): checkpoint} of all that is measured."""
        found = {}
        for peak in self.scale.peaks:
            wanted = {k * self.scale.curve * self.every for k in range(1, 1000)} | set(self.counts)
            found.update(
                {
                    ("constant", peak, at): checkpoint
                    for at, checkpoint in self.client.checkpoints(self.constant(peak)).items()
                    if at in wanted
                }
            )
            for tokens in self.counts[peak != self.scale.peaks[0] :]:
                stored = self.client.checkpoints(self.decayed(peak, tokens))
                found.update(
                    {
                        ("decay" if at == tokens else "decaying", peak, at): checkpoint
                        for at, checkpoint in stored.items()
                    }
                )
        found.update({("average", self.scale.peaks[0], tokens): checkpoint for tokens, checkpoint in averages.items()})
        return found

    def quantize(self, models):
        runs = {}
        method = {"name": "gptq", "bits": self.scale.bits, "group_size": self.scale.hidden}
        for key, checkpoint in models.items():
            draws = self.scale.draws if self.compared(key) else 1
            runs[key] = Run(
                self.client.post("quantize", self.quantization(checkpoint, method, draws)),
                f"quantizing {key[0]} at {millions(key[2])} M tokens",
                draws,
            )
        results = self.client.finish("quantizing", runs)
        return {key: sentences.measurement(result) | {"run": runs[key].id} for key, result in results.items()}

    def quantization(self, checkpoint, method, draws, text=None):
        """`text`: what the losses are measured on; validation text unless told otherwise."""
        scale = self.scale
        calibration = {
            "dataset": self.training,
            "sequence_length": scale.length,
            "packing": "blocks",
            "max_sequences": scale.calibration,
        }
        evaluation = {
            "dataset": text or self.validation,
            "sequence_length": scale.length,
            "max_sequences": scale.evaluation,
        }
        return {
            "checkpoint": checkpoint,
            "method": method,
            "calibration": calibration,
            "evaluation": evaluation,
            "calibration_draws": draws,
        }

    def sharpness(self, checkpoint, estimators):
        scale = self.scale
        return {
            "checkpoint": checkpoint,
            "dataset": self.validation,
            "sequence_length": scale.length,
            "max_sequences": scale.sharp,
            "estimators": estimators,
            "probes": scale.probes,
        }

    def compared(self, key):
        """Whether the sentences are about this model:
        those at the token counts, without the smaller peak's constant run."""
        group, peak, tokens = key
        return tokens in self.counts and group != "decaying" and (peak == self.scale.peaks[0] or group == "decay")

    def sharpen(self, models):
        """The trace at the token counts that are compared, of the runs with the larger peak."""
        runs = {}
        for key, checkpoint in models.items():
            if self.compared(key) and key[1] == self.scale.peaks[0]:
                runs[key] = Run(
                    self.client.post("sharpness", self.sharpness(checkpoint, ["trace"])),
                    f"sharpness of {key[0]} at {millions(key[2])} M tokens",
                )
        results = self.client.finish("measuring sharpness", runs)
        return {key: (result["trace"], result["trace_stderr"]) for key, result in results.items()}


def millions(tokens):
    return f"{tokens / 1e6:.1f}" if tokens >= 100_000 else f"{tokens / 1e6:.4f}"
