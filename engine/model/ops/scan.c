/* scan: the selective state space (backend.h, scan_args). Inputs: x, the step sizes before their softplus, B beside C;
 * parameters: a_log, skip (D), and with heads the bias of the step sizes. No other step reads B, C and the step sizes,
 * and no later step reads x, so the backward pass overwrites their gradients. The slot saved for it keeps the states
 * before every SCAN_CHUNK-th token; its gradient is scratch. */
#include "model/cache.h"

static struct scan_args scan_arguments(const struct pass *pass, const struct step *step)
{
    const struct scan_attributes *a = &step->attributes.scan;
    return (struct scan_args){
        .batch = pass->batch,
        .heads = a->heads,
        .groups = a->groups,
        .states = a->states,
        .step_least = a->step_least,
        .step_most = a->step_most,
        .x = pass->values[step->input[0]],
        .step = pass->values[step->input[1]],
        .bc = pass->values[step->input[2]],
        .a_log = pass_parameter(pass->parameters, step->parameter[0]),
        .skip = pass_parameter(pass->parameters, step->parameter[1]),
        .step_bias = pass_parameter(pass->parameters, step->parameter[2]),
        .y = pass->values[step->output],
        .kept = pass->values[step->saved],
    };
}

static int64_t scan_cached(const struct step *step)
{
    return step->attributes.scan.channels * step->attributes.scan.states;
}

/* Segment b of a batch with branches continues from the state that its parent left. */
static void segment_forward(const struct pass *pass, const struct step *step, int64_t b)
{
    const struct branches *branches = pass->batch->branches;
    const int64_t first = pass->batch->starts[b], count = pass->batch->starts[b + 1] - first, starts[] = {0, count};
    const struct batch alone = {.tokens = count, .sequences = 1, .longest = count, .starts = starts};
    struct scan_args args = scan_arguments(pass, step);
    args.batch = &alone;
    struct matrix *const rows[] = {&args.x, &args.step, &args.bc, &args.y};
    for (int i = 0; i < 4; i++) *rows[i] = matrix_rows(*rows[i], first, count);
    args.kept = (struct matrix){0};
    if (branches->parents[b] != BRANCH_ROOT) args.initial = cache_state(pass->cache, step, branches->parents[b]);
    if (branches->slots[b] >= 0) args.final = cache_state(pass->cache, step, b);
    pass->backend->ops->scan_forward(pass->backend, &args);
}

static void scan_forward(const struct pass *pass, const struct step *step)
{
    const struct scan_args args = scan_arguments(pass, step);
    if (pass->batch->branches == NULL)
        pass->backend->ops->scan_forward(pass->backend, &args);
    else
        for (int64_t b = 0; b < pass->batch->sequences; b++) segment_forward(pass, step, b);
}

static void gradients_set(struct scan_args *args, const struct pass *pass, const struct step *step)
{
    args->dy = pass->gradients[step->output];
    args->dx = pass->gradients[step->input[0]];
    args->dstep = pass->gradients[step->input[1]];
    args->dbc = pass->gradients[step->input[2]];
    args->dkept = pass->gradients[step->saved];
    for (int i = 0; i < STEP_INPUTS; i++) pass->written[step->input[i]] = true;
}

static void scan_backward(const struct pass *pass, const struct step *step)
{
    struct scan_args args = scan_arguments(pass, step);
    gradients_set(&args, pass, step);
    args.da_log = pass_parameter(pass->parameter_gradients, step->parameter[0]);
    args.dskip = pass_parameter(pass->parameter_gradients, step->parameter[1]);
    args.dstep_bias = pass_parameter(pass->parameter_gradients, step->parameter[2]);
    pass->backend->ops->scan_backward(pass->backend, &args);
}

static struct scan_args tangent_arguments(const struct pass *pass, const struct step *step)
{
    struct scan_args args = scan_arguments(pass, step);
    args.x_t = pass->value_tangents[step->input[0]];
    args.step_t = pass->value_tangents[step->input[1]];
    args.bc_t = pass->value_tangents[step->input[2]];
    args.a_log_t = pass_parameter(pass->parameter_tangents, step->parameter[0]);
    args.skip_t = pass_parameter(pass->parameter_tangents, step->parameter[1]);
    args.step_bias_t = pass_parameter(pass->parameter_tangents, step->parameter[2]);
    args.y_t = pass->value_tangents[step->output];
    args.kept_t = pass->value_tangents[step->saved];
    return args;
}

static void scan_tangent(const struct pass *pass, const struct step *step)
{
    const struct scan_args args = tangent_arguments(pass, step);
    pass->backend->ops->scan_tangent(pass->backend, &args);
}

static void scan_backward_tangent(const struct pass *pass, const struct step *step)
{
    struct scan_args args = tangent_arguments(pass, step);
    gradients_set(&args, pass, step);
    args.dy_t = pass->gradient_tangents[step->output];
    args.dx_t = pass->gradient_tangents[step->input[0]];
    args.dstep_t = pass->gradient_tangents[step->input[1]];
    args.dbc_t = pass->gradient_tangents[step->input[2]];
    args.dkept_t = pass->gradient_tangents[step->saved];
    args.da_log_t = pass_parameter(pass->parameter_gradient_tangents, step->parameter[0]);
    args.dskip_t = pass_parameter(pass->parameter_gradient_tangents, step->parameter[1]);
    args.dstep_bias_t = pass_parameter(pass->parameter_gradient_tangents, step->parameter[2]);
    pass->backend->ops->scan_backward_tangent(pass->backend, &args);
}

const struct op op_scan = {
    .name = "scan",
    .forward = scan_forward,
    .backward = scan_backward,
    .tangent = scan_tangent,
    .backward_tangent = scan_backward_tangent,
    .cached_state_columns = scan_cached,
    .across_tokens = true,
};
