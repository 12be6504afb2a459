"""The runs whose numbers are kept: (kind, name, params), in the order in which they are made.

The product trains its own small models on the bytes of LICENSE; the later runs read those checkpoints by name. Every
kind of run is here except `fetch`, whose result holds no number of the engine, and `compare` and `plan`, whose numbers
are made of those of `evaluate`, `quantize`, `train` and `average`. The five architectures use all ops
between them: llama (RMS norm, rotation, gated SiLU), gpt_neox (layer norm, GELU, a learned vocabulary), olmoe
(experts), apertus (xIELU) and mamba2 (convolution and scan)."""

import json

WITHOUT_NUMBERS = {"fetch", "compare", "plan"}

DATASETS = {"golden-text": "text.jsonl", "golden-held-out": "held-out.jsonl"}
SIZES = {
    "vocab_size": 256,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 512,
}
LLAMA = {"model_type": "llama", **SIZES, "intermediate_size": 64, "num_key_value_heads": 2, "tie_word_embeddings": True}
GPT_NEOX = {"model_type": "gpt_neox", **SIZES, "vocab_size": 320, "intermediate_size": 64, "rotary_pct": 0.5}
OLMOE = {
    "model_type": "olmoe",
    **SIZES,
    "intermediate_size": 16,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "pad_token_id": None,
}
APERTUS = {
    "model_type": "apertus",
    **SIZES,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "hidden_act": "xielu",
    "rope_scaling": None,
    "pad_token_id": None,
}
MAMBA2 = {
    "model_type": "mamba2",
    "vocab_size": 256,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "expand": 2,
    "head_dim": 16,
    "num_heads": 4,
    "state_size": 16,
    "n_groups": 1,
    "conv_kernel": 4,
    "chunk_size": 64,
    "initializer_range": 0.02,
}

LAST = "golden-llama/step0000192"
DATA = {"dataset": "golden-held-out", "sequence_length": 64}
FEW = {**DATA, "max_sequences": 8}
CALIBRATION = {"dataset": "golden-text", "sequence_length": 64, "packing": "blocks", "max_sequences": 24}
GPTQ = {"name": "gptq", "bits": 3, "group_size": 16}
RTN = {"name": "rtn", "bits": 4, "group_size": 16}


def train(name, model, optimizer, schedule, tokens=8 * 512, **more):
    return (
        "train",
        name,
        {
            "trajectory": "golden-" + name,
            "model": model,
            "dataset": "golden-text",
            "validation": "golden-held-out",
            "tokens": tokens,
            "batch_sequences": 8,
            "sequence_length": 64,
            "tokenizer": {"name": "bytes"},
            "optimizer": optimizer,
            "schedule": schedule,
            **more,
        },
    )


def quantize(name, method, checkpoint=LAST, **more):
    return (
        "quantize",
        name,
        {"checkpoint": checkpoint, "method": method, "evaluation": DATA, "calibration": CALIBRATION, **more},
    )


def evaluate(name, checkpoint, **more):
    return ("evaluate", name, {"checkpoint": checkpoint, **DATA, **more})


RUNS = [
    train(
        "llama",
        LLAMA,
        {"name": "adamw"},
        {"name": "wsd", "peak": 0.01, "warmup": 8192, "decay": 32768},
        tokens=192 * 512,
        checkpoint_every=64 * 512,
        ema={"decay": 0.9},
    ),
    train(
        "gpt-neox",
        GPT_NEOX,
        {"name": "sam"},
        {"name": "cosine", "peak": 0.01},
        tokenizer={"name": "train", "vocabulary_size": 320},
    ),
    train("olmoe", OLMOE, {"name": "asam"}, {"name": "linear", "peak": 0.01}),
    train("apertus", APERTUS, {"name": "schedule_free"}, {"name": "constant", "peak": 0.01, "warmup": 1024}),
    train("mamba2", MAMBA2, {"name": "adamw"}, {"name": "constant", "peak": 0.01}),
    train(
        "muon",
        LLAMA,
        {"name": "muon", "adamw_rate": 0.5},
        {"name": "sgdr", "peak": 0.01, "warmup": 512, "period": 1024, "growth": 2},
    ),
    train(
        "soap",
        LLAMA,
        {"name": "soap", "precondition_frequency": 3},
        {"name": "oscillating", "peak": 0.003, "period": 2048, "final": 0.1},
    ),
    evaluate("llama", LAST),
    evaluate("llama-documents", LAST, packing="documents", sequence_length=48),
    evaluate("gpt-neox", "golden-gpt-neox/step0000008"),
    evaluate("olmoe", "golden-olmoe/step0000008"),
    evaluate("apertus", "golden-apertus/step0000008"),
    evaluate("mamba2", "golden-mamba2/step0000008"),
    quantize("rtn", {**RTN, "bits": 3}),
    quantize("gptq", GPTQ, calibration_draws=2, calibration={**CALIBRATION, "max_sequences": 12}, export="dequantized"),
    quantize("gptq-desc-act", {**GPTQ, "desc_act": True, "sym": False, "damp_percent": 0.01}),
    quantize("awq", {"name": "awq", "bits": 3, "group_size": 16}),
    quantize("awq-always", {"name": "awq", "bits": 3, "group_size": 16, "scale_o_proj": "always", "duo_scaling": True}),
    quantize("awq-block", {"name": "awq", "bits": 3, "group_size": 16, "judge": "block"}),
    quantize("nf4", {"name": "nf4"}),
    quantize("fp4", {"name": "fp4", "values": "bitsandbytes", "double_quant": False}),
    quantize("llm-int8", {"name": "llm_int8"}),
    quantize("llm-int8-paper", {"name": "llm_int8", "variant": "paper", "threshold": 1.0}),
    quantize("mxfp4", {"name": "mxfp4"}),
    quantize("nvfp4", {"name": "nvfp4"}),
    quantize("fp8", {"name": "fp8", "scales": "block"}),
    quantize("gptq-fp4", {"name": "gptq_fp4", "format": "nvfp4"}),
    quantize("smoothquant", {"name": "smoothquant", "search": True}),
    quantize(
        "gptq-options",
        {
            **GPTQ,
            "rotation": "hadamard",
            "activation_bits": 8,
            "keep_outliers": 2,
            "embedding_bits": 8,
            "overrides": [{"pattern": "down_proj$", "bits": 8}],
        },
    ),
    quantize("gpt-neox-gptq", GPTQ, "golden-gpt-neox/step0000008"),
    quantize("olmoe-gptq", GPTQ, "golden-olmoe/step0000008"),
    quantize("mamba2-awq", {"name": "awq", "bits": 3, "group_size": 16}, "golden-mamba2/step0000008"),
    (
        "sharpness",
        "lanczos",
        {
            "checkpoint": LAST,
            **FEW,
            "probes": 4,
            "spectrum_probes": 2,
            "spectrum_steps": 8,
            "groups": True,
            "tolerance": 0.02,
        },
    ),
    (
        "sharpness",
        "power",
        {
            "checkpoint": LAST,
            **FEW,
            "estimators": ["top_eigenvalue", "trace"],
            "method": "power",
            "max_iterations": 5,
            "trace_method": "hutch++",
            "probes": 6,
        },
    ),
    ("sharpness", "critical", {"checkpoint": LAST, **FEW, "estimators": ["critical_sharpness"]}),
    (
        "sharpness",
        "preconditioned",
        {
            "checkpoint": LAST,
            **FEW,
            "estimators": [],
            "preconditioner": {"name": "squared_gradients", "batches": 3, "epsilon": 1e-6},
        },
    ),
    (
        "sharpness",
        "preconditioned-state",
        {"checkpoint": LAST, **FEW, "estimators": [], "preconditioner": {"name": "training_state"}, "tolerance": 0.02},
    ),
    ("sharpness", "direction", {"checkpoint": LAST, **FEW, "estimators": [], "direction": {"method": RTN}}),
    (
        "sharpness",
        "random",
        {
            "checkpoint": LAST,
            **FEW,
            "estimators": [],
            "direction": {"method": {**RTN, "bits": 3}, "random_directions": 3},
        },
    ),
    (
        "sharpness",
        "gpt-neox",
        {"checkpoint": "golden-gpt-neox/step0000008", **FEW, "estimators": ["top_eigenvalue"], "tolerance": 0.05},
    ),
    ("sharpness", "mamba2", {"checkpoint": "golden-mamba2/step0000008", **FEW, "estimators": ["trace"], "probes": 2}),
    (
        "average",
        "windows",
        {"trajectory": "golden-llama", "windows": [1, 2, 3], "evaluation": FEW, "calibration": FEW, "method": GPTQ},
    ),
    (
        "interpolate",
        "quantized",
        {"from": "golden-llama/step0000064", "to": LAST, "points": 5, "range": [-0.5, 1.5], **FEW, "method": RTN},
    ),
    ("landscape", "plane", {"trajectory": "golden-llama", "grid": [3, 3], **FEW, "method": RTN}),
    (
        "attribution",
        "budget",
        {"checkpoint": LAST, "method": {**RTN, "bits": 3}, "evaluation": FEW, "bits": [2, 4], "budget": 4.5},
    ),
    (
        "tasks",
        "piqa",
        {
            "checkpoint": LAST,
            "shots": 2,
            "method": {**RTN, "bits": 2},
            "tasks": [{"name": "piqa", "path": "piqa.jsonl", "fewshot": "piqa-pool.jsonl"}],
        },
    ),
    ("health", "first", {"checkpoint": "golden-llama/step0000064"}),
    ("health", "last", {"checkpoint": LAST}),
]

# The runs that are made in every configuration: those which between them pass through all kernels.
EVERYWHERE = {
    "train": {"llama", "gpt-neox", "olmoe", "apertus", "mamba2"},
    "evaluate": {"llama-documents"},
    "quantize": {"gptq", "gptq-options", "olmoe-gptq", "mamba2-awq"},
    "sharpness": {"direction", "gpt-neox", "mamba2"},
    "tasks": {"piqa"},
}

# Below the shared data: a published language model, and text of the kind it was trained on.
SHARED_CHECKPOINT, SHARED_TEXT = "models/stories260K", "corpora/tinystories_a.txt"
STORIES = {"dataset": "stories", "sequence_length": 128, "max_sequences": 8}
SHARED_RUNS = {
    "evaluate": {"checkpoint": "stories/260K", **STORIES},
    "quantize": {
        "checkpoint": "stories/260K",
        "method": {"name": "gptq", "bits": 4, "group_size": 32},
        "evaluation": STORIES,
        "calibration": STORIES,
    },
    "sharpness": {
        "checkpoint": "stories/260K",
        **STORIES,
        "max_sequences": 2,
        "estimators": ["top_eigenvalue"],
        "max_iterations": 10,
    },
}


def piqa(goal, label):
    answers = {"sol1": "in accordance with the terms of this License", "sol2": "under the Work"}
    return json.dumps({"goal": goal, **answers, "label": label}) + "\n"


GOALS = [
    "distribute",
    "a patent licence",
    "the copyright notice",
    "to the Licensor",
    "warranty",
    "Derivative Works",
    "a contribution",
    "in Source form",
    "liability",
    "as of this License",
]


def write_files(directory, text):
    """The data of all runs below `directory`, from the text of LICENSE."""
    paragraphs = [
        json.dumps({"text": " ".join(paragraph.split())}) + "\n"
        for paragraph in text.split("\n\n")
        if paragraph.strip()
    ]
    (directory / "text.jsonl").write_text("".join(paragraphs[:-8]))
    (directory / "held-out.jsonl").write_text("".join(paragraphs[-8:]))
    (directory / "piqa.jsonl").write_text("".join(piqa(goal, k % 2) for k, goal in enumerate(GOALS)))
    (directory / "piqa-pool.jsonl").write_text(
        "".join(piqa(goal, (k + 1) % 2) for k, goal in enumerate(reversed(GOALS)))
    )
