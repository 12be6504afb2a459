/* convolution: causal and depthwise (backend.h, convolution_args). Linear in its input and in its parameters, so
 * tangents are sums of the two passes with one of them moved. */
#include "model/cache.h"

/* y (+)= x * weight + bias, for values or directions of each. */
static void convolve(const struct pass *pass, struct matrix x, struct matrix weight, struct matrix bias,
                     struct matrix y, bool add)
{
    const struct convolution_args args = {
        .batch = pass->batch, .x = x, .weight = weight, .bias = bias, .y = y, .accumulate = add};
    pass->backend->ops->convolution_forward(pass->backend, &args);
}

/* The rows before the end of a segment that later tokens still read, oldest first. */
static int64_t convolution_cached(const struct step *step)
{
    return step->attributes.convolution.columns * (step->attributes.convolution.taps - 1);
}

/* Writes the last rows of x to `after`; rows before x are taken from `before`, which its parent left (absent: zeros).
 * Both are [1, rows * columns]. */
static void rows_keep(const struct pass *pass, struct matrix x, struct matrix before, struct matrix after)
{
    struct backend *backend = pass->backend;
    const int64_t count = after.columns / x.columns;
    for (int64_t i = 0; i < count; i++) {
        const struct matrix to = matrix_columns(after, i * x.columns, x.columns);
        const int64_t from = x.rows - count + i;
        if (from >= 0)
            backend->ops->add(backend, to, matrix_rows(x, from, 1), 1, 0);
        else if (before.data != NULL)
            backend->ops->add(backend, to, matrix_columns(before, (count + from) * x.columns, x.columns), 1, 0);
        else
            backend->ops->fill(backend, to, 0);
    }
}

/* Segment b of a batch with branches continues from the rows that its parent left. */
static void segment_forward(const struct pass *pass, const struct step *step, int64_t b)
{
    const struct branches *branches = pass->batch->branches;
    const int64_t first = pass->batch->starts[b], count = pass->batch->starts[b + 1] - first, starts[] = {0, count};
    const struct batch alone = {.tokens = count, .sequences = 1, .longest = count, .starts = starts};
    struct convolution_args args = {
        .batch = &alone,
        .x = matrix_rows(pass->values[step->input[0]], first, count),
        .weight = pass_parameter(pass->parameters, step->parameter[0]),
        .bias = pass_parameter(pass->parameters, step->parameter[1]),
        .y = matrix_rows(pass->values[step->output], first, count),
    };
    if (step->attributes.convolution.taps > 1 && branches->parents[b] != BRANCH_ROOT)
        args.before = cache_state(pass->cache, step, branches->parents[b]);
    pass->backend->ops->convolution_forward(pass->backend, &args);
    if (branches->slots[b] >= 0) rows_keep(pass, args.x, args.before, cache_state(pass->cache, step, b));
}

static void convolution_forward(const struct pass *pass, const struct step *step)
{
    if (pass->batch->branches != NULL) {
        for (int64_t b = 0; b < pass->batch->sequences; b++) segment_forward(pass, step, b);
        return;
    }
    convolve(pass, pass->values[step->input[0]], pass_parameter(pass->parameters, step->parameter[0]),
             pass_parameter(pass->parameters, step->parameter[1]), pass->values[step->output], false);
}

static void convolution_backward(const struct pass *pass, const struct step *step)
{
    const struct convolution_args args = {
        .batch = pass->batch,
        .x = pass->values[step->input[0]],
        .weight = pass_parameter(pass->parameters, step->parameter[0]),
        .dy = pass->gradients[step->output],
        .dx = pass->gradients[step->input[0]],
        .dweight = pass_parameter(pass->parameter_gradients, step->parameter[0]),
        .dbias = pass_parameter(pass->parameter_gradients, step->parameter[1]),
        .accumulate = pass_accumulates(pass, step->input[0]),
    };
    pass->backend->ops->convolution_backward(pass->backend, &args);
}

/* y_t = x_t * weight + x * weight_t + bias_t */
static void convolution_tangent(const struct pass *pass, const struct step *step)
{
    const struct matrix weight_t = pass_parameter(pass->parameter_tangents, step->parameter[0]);
    const struct matrix y_t = pass->value_tangents[step->output];
    convolve(pass, pass->value_tangents[step->input[0]], pass_parameter(pass->parameters, step->parameter[0]),
             (struct matrix){0}, y_t, false);
    if (weight_t.data != NULL)
        convolve(pass, pass->values[step->input[0]], weight_t,
                 pass_parameter(pass->parameter_tangents, step->parameter[1]), y_t, true);
}

/* dx and dx_t: of dy and dy_t by weight, of dy by weight_t; dweight_t, dbias_t: of dy_t by x, of dy by x_t. */
static void convolution_backward_tangent(const struct pass *pass, const struct step *step)
{
    const struct matrix weight = pass_parameter(pass->parameters, step->parameter[0]);
    const struct matrix weight_t = pass_parameter(pass->parameter_tangents, step->parameter[0]);
    const struct matrix dweight_t = pass_parameter(pass->parameter_gradient_tangents, step->parameter[0]);
    const struct matrix dx_t = pass->gradient_tangents[step->input[0]];
    struct convolution_args args = {
        .batch = pass->batch,
        .weight = weight,
        .dy = pass->gradients[step->output],
        .dx = pass->gradients[step->input[0]],
        .accumulate = pass_accumulates(pass, step->input[0]),
    };
    pass->backend->ops->convolution_backward(pass->backend, &args);
    args.x = pass->values[step->input[0]];
    args.dy = pass->gradient_tangents[step->output];
    args.dx = dx_t;
    args.dweight = dweight_t;
    args.dbias = pass_parameter(pass->parameter_gradient_tangents, step->parameter[1]);
    pass->backend->ops->convolution_backward(pass->backend, &args);
    args.x = pass->value_tangents[step->input[0]];
    args.dy = pass->gradients[step->output];
    args.weight = weight_t;
    args.dx = weight_t.data == NULL ? (struct matrix){0} : dx_t;
    args.dbias = (struct matrix){0};
    args.accumulate = true;
    pass->backend->ops->convolution_backward(pass->backend, &args);
}

const struct op op_convolution = {
    .name = "convolution",
    .forward = convolution_forward,
    .backward = convolution_backward,
    .tangent = convolution_tangent,
    .backward_tangent = convolution_backward_tangent,
    .cached_state_columns = convolution_cached,
    .across_tokens = true,
};
