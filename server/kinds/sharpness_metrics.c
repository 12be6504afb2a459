#include "kinds/sharpness_metrics.h"

const struct result_metric sharpness_metric_gradient_norm = {
    .name = "gradient_norm",
    .label = "Gradient norm",
    .axis = "L2 norm of the gradient",
    .help = "L2 norm of the gradient of the mean loss",
};
const struct result_metric sharpness_metric_weight_norm = {
    .name = "weight_norm",
    .label = "Weight norm",
    .axis = "L2 norm of the trainable weights",
    .help = "L2 norm of all trainable numbers, a tied matrix counted once",
};
const struct result_metric sharpness_metric_top_eigenvalue = {
    .name = "top_eigenvalue",
    .label = "Top eigenvalue",
    .axis = "top eigenvalue of the Hessian",
    .help =
        "The eigenvalue of largest magnitude of the Hessian of the mean loss, with its sign: may be the lower end, so "
        "that a series of it may change sign; sharpness is largest_algebraic",
};
const struct result_metric sharpness_metric_largest_algebraic = {
    .name = "largest_algebraic",
    .label = "Largest eigenvalue",
    .axis = "largest eigenvalue of the Hessian",
    .help =
        "λ_max, the upper end of the Hessian's spectrum: the sharpness of the loss; by power: null unless it is the "
        "top one. Without an interval where too few products were taken: it is a lower bound then",
};
const struct result_metric sharpness_metric_smallest_algebraic = {
    .name = "smallest_algebraic",
    .label = "Smallest eigenvalue",
    .axis = "smallest eigenvalue of the Hessian",
    .help = "λ_min, the lower end of the Hessian's spectrum; by power: null unless it is the top one",
};
const struct result_metric sharpness_metric_spectral_norm = {
    .name = "spectral_norm",
    .label = "Spectral norm",
    .help = "|λ| of the eigenvalue of largest magnitude of the Hessian",
};
const struct result_metric sharpness_metric_relative_largest = {
    .name = "relative_largest_eigenvalue",
    .label = "Relative largest eigenvalue",
    .help = "λ_max ‖θ‖²: of the loss by relative changes of the weights, the same for a model whose weights are scaled "
            "without changing what it computes",
};
const struct result_metric sharpness_metric_relative_trace = {
    .name = "relative_trace",
    .label = "Relative trace",
    .help =
        "tr(H) ‖θ‖² / parameters: half of it times ε² is the mean rise of the loss under random changes of the weights "
        "of norm ε‖θ‖; its interval is that of the trace",
};
const struct result_metric sharpness_metric_critical = {
    .name = "critical_sharpness",
    .label = "Critical sharpness",
    .axis = "critical sharpness along the gradient",
    .help =
        "2 / η, η the smallest step at which the loss of θ − ηg, g the gradient at θ, exceeds that of θ: from about 20 "
        "losses, without products; null: there is no such step",
};
const struct result_metric sharpness_metric_preconditioned = {
    .name = "preconditioned_sharpness",
    .label = "Preconditioned sharpness",
    .axis = "largest eigenvalue of the preconditioned Hessian",
    .help =
        "The largest eigenvalue of D^-1/2 H D^-1/2, D = √v + ε of Adam: the sharpness in the scale of its steps, which "
        "are stable up to (2 + 2 β₁) / ((1 − β₁) η), 38 / η for β₁ of 0.9 and the rate η; by power: null unless it is "
        "the top one",
};
const struct result_metric sharpness_metric_trace_per_parameter = {
    .name = "trace_per_parameter",
    .label = "Trace per parameter",
    .help = "tr(H) / parameters, the mean eigenvalue of the Hessian; its interval is that of the trace",
};
const struct result_metric sharpness_metric_trace = {
    .name = "trace",
    .label = "Trace",
    .axis = "trace of the Hessian",
    .help =
        "The sum of all eigenvalues of the Hessian of the mean loss. Its interval holds the probes, not the sequences; "
        "an exact trace has none",
};
const struct result_metric sharpness_metric_predicted_delta = {
    .name = "predicted_delta",
    .label = "Predicted ΔQL",
    .axis = "ΔQL predicted from curvature",
    .help = "(gradient_term + curvature_term) / loss, to second order; prediction_in_range says whether that can hold",
    .better = RESULT_LOWER,
    .format = RESULT_PERCENT,
    .of_method = true,
};
const struct result_metric sharpness_metric_gradient_term = {
    .name = "gradient_term",
    .label = "Gradient term",
    .axis = "gradient term of the predicted damage",
    .unit = "nats",
    .help = "gᵀδ, δ the quantization error of the weights",
    .of_method = true,
};
const struct result_metric sharpness_metric_curvature_term = {
    .name = "curvature_term",
    .label = "Curvature term",
    .axis = "curvature term of the predicted damage",
    .unit = "nats",
    .help = "½ δᵀHδ, δ the quantization error of the weights",
    .of_method = true,
};
const struct result_metric sharpness_metric_measured_delta = {
    .name = "measured_delta",
    .label = "Measured ΔQL",
    .axis = "ΔQL measured beside the prediction",
    .help = "loss_q / loss − 1 on the sequences of the prediction",
    .better = RESULT_LOWER,
    .format = RESULT_PERCENT,
    .of_method = true,
};
const struct result_metric sharpness_metric_random_curvature_term = {
    .name = "random_curvature_term",
    .label = "Curvature term of random changes",
    .axis = "curvature term of random changes",
    .unit = "nats",
    .help = "Mean of ½ rᵀHr, r random changes of the weights, in each linear as large as the quantization error",
    .of_method = true,
};
const struct result_metric sharpness_metric_curvature_ratio = {
    .name = "curvature_ratio",
    .label = "Curvature against random changes",
    .axis = "curvature along the error over that of random changes",
    .help = "curvature_term / random_curvature_term: above 1 the quantization error lies in sharper directions than "
            "chance; null unless the latter is positive",
    .of_method = true,
};
const struct result_metric sharpness_metric_random_delta = {
    .name = "random_delta",
    .label = "ΔQL of random changes",
    .axis = "ΔQL of random changes as large as the error",
    .help = "Mean of (L(θ + r) + L(θ − r)) / 2L − 1, r as in random_curvature_term: what random changes of that size "
            "cost, without the gradient",
    .better = RESULT_LOWER,
    .format = RESULT_PERCENT,
    .of_method = true,
};
