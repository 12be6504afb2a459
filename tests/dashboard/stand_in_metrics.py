"""The stand-in's GET /v1/metrics: a part of what the server tells, and a metric and a figure that no code of the
dashboard knows (`made_up`): a new one must need no JavaScript. Standard library only."""


def metric(name, label, axis=None, unit=None, better=None, form="number", kinds=("quantize",)):
    return {
        "name": name,
        "unit": unit,
        "label": label,
        "axis": axis or label,
        "help": f"What {name} is",
        "better": better,
        "format": form,
        "kinds": list(kinds),
    }


ITEMS = [
    metric("loss", "Loss", "loss", "nats", "lower", "fixed", ["evaluate"]),
    metric("loss_fp", "Full-precision loss", "full-precision loss", "nats", "lower", "fixed"),
    metric("loss_q", "Quantized loss", "quantized loss", "nats", "lower", "fixed"),
    metric("delta", "ΔQL", None, None, "lower", "percent"),
    metric("kl", "KL divergence", None, "nats", "lower"),
    metric("top1_agreement", "Top-1 agreement", "top-1 agreement", None, "higher", "percent"),
    metric("bits_per_weight", "Bits per weight", "bits per weight", "bits"),
    metric("gradient_norm", "Gradient norm", kinds=["sharpness"]),
    metric("top_eigenvalue", "Top eigenvalue", "top eigenvalue of the Hessian", kinds=["sharpness"]),
    metric("largest_algebraic", "Largest eigenvalue", axis="largest eigenvalue of the Hessian", kinds=["sharpness"]),
    metric("smallest_algebraic", "Smallest eigenvalue", kinds=["sharpness"]),
    metric("trace", "Trace", "trace of the Hessian", kinds=["sharpness"]),
    metric("predicted_delta", "Predicted ΔQL", "ΔQL predicted from curvature", None, "lower", "percent", ["sharpness"]),
    metric("validation_loss", "Validation loss", "validation loss", "nats", "lower", "fixed", ["train"]),
    metric("additive_share", "Additive share of ΔQL", None, None, None, "percent", ["attribution"]),
    metric("mean_accuracy", "Mean accuracy", None, None, "higher", "percent", ["tasks"]),
    metric("mean_accuracy_change", "Change of Mean accuracy", None, None, "higher", "percent", ["tasks"]),
    metric("weight_change", "Change of weights", None, None, None, "percent", ["health"]),
    metric("made_up", "Made-up cost", "cost that was made up", "apples", "higher"),
    metric("learning_rate", "Learning rate", "learning rate", kinds=[]),
]
KNOWN = {item["name"]: item for item in ITEMS}


def figure(kind, name, which=None, label=None, form="number", optional=False, interval=None, stderr=None):
    told = KNOWN[which or name] if label is None else metric(name, label, form=form)
    return {
        "kind": kind,
        "name": name,
        "metric": None if label else told["name"],
        "optional": optional,
        "interval": interval,
        "stderr": stderr,
        **{field: told[field] for field in ("label", "unit", "help", "better", "format")},
    }


QUANTIZATION = ["loss_fp", "loss_q", "delta", "kl", "top1_agreement", "bits_per_weight"]
FIGURES = [
    *(
        figure(kind, name, interval="delta_interval" if name == "delta" else None)
        for kind in ("quantize", "attribution")
        for name in QUANTIZATION
    ),
    figure("quantize", "made_up", optional=True),
    figure("evaluate", "loss"),
    figure("train", "validation_loss", optional=True),
    figure("sharpness", "loss"),
    figure("sharpness", "gradient_norm"),
    *(
        figure("sharpness", name, optional=True)
        for name in ("top_eigenvalue", "largest_algebraic", "smallest_algebraic")
    ),
    figure("sharpness", "trace", optional=True, stderr="trace_stderr"),
    figure("sharpness", "predicted_delta", optional=True, stderr="predicted_delta_stderr"),
    figure("attribution", "additive_share"),
    figure("attribution", "delta_alone", label="ΔQL of units alone, summed", form="percent"),
    figure("attribution", "delta_marginal", label="Lost without each, summed", form="percent", optional=True),
    figure("tasks", "mean_accuracy", interval="mean_accuracy_interval"),
    figure("tasks", "mean_accuracy_change", optional=True, interval="mean_accuracy_change_interval"),
    figure("health", "relative_l2", "weight_change", optional=True),
    figure("fetch", "bytes", label="Size", form="bytes"),
]


def document():
    return {"items": ITEMS, "figures": FIGURES, "methods": ["rtn", "gptq", "nf4", "fp4", "awq", "llm_int8"]}
