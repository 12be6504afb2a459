#include "kinds/metric.h"

const struct result_metric metric_loss = {
    .name = "loss",
    .label = "Loss",
    .axis = "loss",
    .unit = "nats",
    .help = "Mean next-token cross-entropy",
    .better = RESULT_LOWER,
    .format = RESULT_FIXED,
};

const struct result_metric metric_loss_fp = {
    .name = "loss_fp",
    .label = "Full-precision loss",
    .axis = "full-precision loss",
    .unit = "nats",
    .help = "Mean next-token cross-entropy in full precision",
    .better = RESULT_LOWER,
    .format = RESULT_FIXED,
};

const struct result_metric metric_loss_q = {
    .name = "loss_q",
    .label = "Quantized loss",
    .axis = "quantized loss",
    .unit = "nats",
    .help = "Mean next-token cross-entropy of the quantized model",
    .better = RESULT_LOWER,
    .of_method = true,
    .format = RESULT_FIXED,
};

const struct result_metric metric_delta = {
    .name = "delta",
    .label = "ΔQL",
    .help = "loss_q / loss_fp − 1; of quantize with several calibration draws the mean over them",
    .better = RESULT_LOWER,
    .format = RESULT_PERCENT,
    .of_method = true,
};

const struct result_metric metric_kl = {
    .name = "kl",
    .label = "KL divergence",
    .unit = "nats",
    .help = "KL(p ‖ q) = Σ p ln(p/q), p of full precision and q quantized, mean over predicted tokens",
    .better = RESULT_LOWER,
    .of_method = true,
};

const struct result_metric metric_top1_agreement = {
    .name = "top1_agreement",
    .label = "Top-1 agreement",
    .axis = "top-1 agreement",
    .help =
        "Share of predicted tokens, from 0 to 1, whose likeliest next token is the same before and after quantization",
    .better = RESULT_HIGHER,
    .format = RESULT_PERCENT,
    .of_method = true,
};

const struct result_metric metric_bits_per_weight = {
    .name = "bits_per_weight",
    .label = "Bits per weight",
    .axis = "bits per weight",
    .unit = "bits",
    .help =
        "Of the quantized matrices over their weights: codes, scales (16 bits) and zero points, kept columns and "
        "skipped matrices at 16 bits; scales of columns cost 16 bits where they cannot be folded into the operation "
        "before",
    .of_method = true,
};
