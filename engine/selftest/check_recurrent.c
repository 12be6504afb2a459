/* check_recurrent.c: convolutions and scans. Sums of n terms grow by 6 sqrt(n) u (Higham and Mary, SISC 41, 2019). A
 * state forgets at a rate of delta A, so it is a sum of about `memory` terms, and so is the gradient of one; the
 * exponents carry the rounding of delta A <= 8 decay. */
#include "selftest/check.h"

#include <math.h>

static const struct convolution_shape {
    int64_t lengths[EXAM_SEQUENCES];
    int64_t columns, taps;
    bool bias, accumulate, before;
} convolutions[] = {
    {{1}, 1, 1, true, false, false},        {{3, 1, 2, 9}, 5, 4, true, true, false},
    {{70, 2}, 64, 4, false, false, true},   {{5, 1, 17}, 67, 3, true, true, false},
    {{30, 2, 1}, 20, 9, false, true, true},
};

static void run_convolution(struct exam *exam, int64_t shape)
{
    const struct convolution_shape *s = &convolutions[shape];
    struct exam_batch batch;
    exam_batch_fill(&batch, s->lengths, 10);
    const int64_t tokens = batch.batch.tokens, sequences = batch.batch.sequences;
    struct convolution_args args = {.batch = &batch.batch, .accumulate = s->accumulate};
    args.x = exam_random(exam, tokens, s->columns, 3, 1);
    args.weight = exam_random(exam, s->columns, s->taps, 0, 1);
    if (s->before) args.before = exam_random(exam, sequences, (s->taps - 1) * s->columns, 0, 1);
    args.y = exam_target(exam, tokens, s->columns, 1, s->accumulate);
    args.dy = exam_random(exam, tokens, s->columns, 0, 1);
    args.dx = exam_target(exam, tokens, s->columns, 2, s->accumulate);
    args.dweight = exam_random(exam, s->columns, s->taps, 0, 1);
    if (s->bias)
        args.bias = exam_random(exam, 1, s->columns, 0, 1), args.dbias = exam_random(exam, 1, s->columns, 0, 1);
    exam->backend->ops->convolution_forward(exam->backend, &args);
    exam->backend->ops->convolution_backward(exam->backend, &args);
    const double terms = sqrt((double)tokens), growth = (double)s->taps + 2;
    exam_record(exam, "y", args.y, growth, 4);
    exam_record(exam, "dx", args.dx, growth, 4);
    exam_record(exam, "dweight", args.dweight, 2 + 6 * terms, 4 * terms);
    if (s->bias) exam_record(exam, "dbias", args.dbias, 2 + 6 * terms, 4 * terms);
}

static const struct scan_shape {
    int64_t lengths[EXAM_SEQUENCES];
    int64_t heads, head_dim, groups, states;
    bool shared, bias, ends;
    double most, decay;
} scans[] = {
    {{1}, 1, 1, 1, 1, false, false, true, INFINITY, 1},
    {{5, 1, 70}, 20, 1, 1, 4, false, false, false, INFINITY, 1},
    {{65, 64, 3}, 5, 1, 1, 3, false, true, true, INFINITY, 0.3},
    {{3, 66}, 6, 5, 2, 7, true, true, true, 0.9, 0.5},
};

static void scan_inputs(struct exam *exam, const struct scan_shape *s, struct scan_args *args, int64_t tokens)
{
    const int64_t channels = s->heads * s->head_dim, pair = 2 * s->groups * s->states;
    const int64_t rows = s->shared ? 1 : s->heads, columns = s->shared ? s->heads : s->states;
    args->heads = s->heads, args->groups = s->groups, args->states = s->states, args->step_most = s->most;
    args->x = exam_random(exam, tokens, channels, 3, 1), args->x_t = exam_random(exam, tokens, channels, 0, 1);
    args->step = exam_random(exam, tokens, s->heads, 1, 1);
    args->step_t = exam_random(exam, tokens, s->heads, 0, 1);
    args->bc = exam_random(exam, tokens, pair, 5, 1), args->bc_t = exam_random(exam, tokens, pair, 0, 1);
    args->dy = exam_random(exam, tokens, channels, 1, 1), args->dy_t = exam_random(exam, tokens, channels, 2, 1);
    args->a_log = exam_random(exam, rows, columns, 0, 0.5), args->a_log_t = exam_random(exam, rows, columns, 0, 1);
    exam->backend->ops->add_row(exam->backend, args->a_log, exam_filled(exam, 1, columns, 0, log(s->decay)));
    args->skip = exam_random(exam, 1, s->heads, 0, 1), args->skip_t = exam_random(exam, 1, s->heads, 0, 1);
    if (s->bias) args->step_bias = exam_random(exam, 1, s->heads, 0, 1);
    if (s->bias) args->step_bias_t = exam_random(exam, 1, s->heads, 0, 1);
}

static void scan_outputs(struct exam *exam, const struct scan_shape *s, struct scan_args *args, int64_t tokens)
{
    const int64_t channels = s->heads * s->head_dim, pair = 2 * s->groups * s->states;
    struct matrix *const kept[] = {&args->kept, &args->kept_t, &args->dkept, &args->dkept_t};
    for (int i = 0; i < 4; i++) *kept[i] = exam_target(exam, tokens, scan_kept_columns(channels, s->states), 0, false);
    args->y = exam_target(exam, tokens, channels, 0, false), args->y_t = exam_target(exam, tokens, channels, 2, false);
    args->dx = exam_target(exam, tokens, channels, 4, false);
    args->dx_t = exam_target(exam, tokens, channels, 1, false);
    args->dstep = exam_target(exam, tokens, s->heads, 0, false);
    args->dstep_t = exam_target(exam, tokens, s->heads, 1, false);
    args->dbc = exam_target(exam, tokens, pair, 2, false), args->dbc_t = exam_target(exam, tokens, pair, 0, false);
    struct matrix *const sums[] = {&args->da_log,  &args->da_log_t,   &args->dskip,
                                   &args->dskip_t, &args->dstep_bias, &args->dstep_bias_t};
    for (int i = 0; i < (s->bias ? 6 : 4); i++)
        *sums[i] = exam_random(exam, i < 2 ? args->a_log.rows : 1, i < 2 ? args->a_log.columns : s->heads, 0, 1);
}

static void run_scan(struct exam *exam, int64_t shape)
{
    const struct scan_shape *s = &scans[shape];
    const struct backend_ops *ops = exam->backend->ops;
    struct exam_batch batch;
    exam_batch_fill(&batch, s->lengths, 10);
    struct scan_args args = {.batch = &batch.batch};
    scan_inputs(exam, s, &args, batch.batch.tokens);
    scan_outputs(exam, s, &args, batch.batch.tokens);
    const double memory = fmin((double)batch.batch.longest, 4 / s->decay),
                 growth =
                     24 + 16 * s->decay + 6 * sqrt(memory) + 6 * sqrt((double)(s->states + s->head_dim + s->heads));
    ops->scan_forward(exam->backend, &args);
    ops->scan_tangent(exam->backend, &args);
    exam_record(exam, "y", args.y, growth, 1), exam_record(exam, "y_t", args.y_t, growth, 1);
    ops->scan_backward(exam->backend, &args);
    exam_record(exam, "dx alone", args.dx, growth, 1), exam_record(exam, "dbc alone", args.dbc, growth, 1);
    exam_record(exam, "da_log", args.da_log, growth, 1), exam_record(exam, "dskip", args.dskip, growth, 1);
    if (s->bias) exam_record(exam, "dstep_bias", args.dstep_bias, growth, 1);
    ops->scan_backward_tangent(exam->backend, &args);
    const struct matrix all[] = {args.dx,    args.dx_t,     args.dstep,   args.dstep_t,     args.dbc,
                                 args.dbc_t, args.da_log_t, args.dskip_t, args.dstep_bias_t};
    static const char *const names[] = {"dx",    "dx_t",     "dstep",   "dstep_t",     "dbc",
                                        "dbc_t", "da_log_t", "dskip_t", "dstep_bias_t"};
    for (int i = 0; i < (s->bias ? 9 : 8); i++) exam_record(exam, names[i], all[i], growth, 1);
    if (!s->ends) return;
    const int64_t width = s->states * s->heads * s->head_dim;
    args.kept = (struct matrix){0};
    args.initial = exam_random(exam, batch.batch.sequences, width, 0, 1);
    args.final = exam_target(exam, batch.batch.sequences, width, 0, false);
    args.y = exam_target(exam, batch.batch.tokens, s->heads * s->head_dim, 1, false);
    ops->scan_forward(exam->backend, &args);
    exam_record(exam, "y from given states", args.y, growth, 1);
    exam_record(exam, "last states", args.final, growth, 1);
}

const struct check check_recurrent[] = {
    {"convolutions", run_convolution, CHECK_COUNT(convolutions), CHECK_DOUBLES, NULL},
    {"scans", run_scan, CHECK_COUNT(scans), CHECK_DOUBLES, NULL},
    {0},
};
