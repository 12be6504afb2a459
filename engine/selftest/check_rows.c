/* check_rows.c: copies, elementwise work, sums, norms, rotations, activations, embeddings, losses and steps of an
 * optimizer. Sums of n terms grow by the probabilistic bound 6 sqrt(n) u (Higham and Mary, SISC 41, 2019) unless a line
 * says otherwise; the sizes of terms are those of nearly normal numbers, at most 3.5 each. */
#include "selftest/check.h"

#include "base/random.h"

#include <math.h>
#include <string.h>

static const int64_t sizes[][3] = {
    {1, 1, 0}, {3, 5, 2}, {70, 30, 1}, {2, 1500, 3}, {5, 257, 0}}; /* rows, columns, gap */
enum { NUMBERS = 3000 };                                           /* the most of one shape */

/* Copies through the staging buffer, and on both lanes concurrently with the work. */
static void run_copies(struct exam *exam, int64_t shape)
{
    const int64_t rows = sizes[shape][0], columns = sizes[shape][1];
    struct backend *backend = exam->backend;
    const struct lane_ops *lanes = backend->ops->lanes;
    const struct matrix a = exam_random(exam, rows, columns, sizes[shape][2], 1),
                        to = exam_target(exam, rows, columns, 1, false);
    void *carried = NULL;
    struct error error;
    backend->ops->add(backend, to, a, 1, 0);
    if (lanes != NULL)
        exam_fail(exam,
                  lanes->allocate(backend, (size_t)(rows * columns) * sizeof(float), "a self-test", &carried, &error),
                  &error);
    for (int lane = 0; carried != NULL && lane < LANE_COUNT; lane++) {
        lanes->follow(backend, (enum lane)lane);
        lanes->carry_out(backend, (enum lane)lane, to, carried);
        exam_fail(exam, lanes->arrive(backend, (enum lane)lane, lanes->point(backend, (enum lane)lane), &error),
                  &error);
        backend->ops->fill(backend, to, 0);
        lanes->follow(backend, (enum lane)lane);
        lanes->carry_in(backend, (enum lane)lane, to, carried);
        lanes->await(backend, (enum lane)lane, lanes->point(backend, (enum lane)lane));
        backend->ops->add(backend, to, to, 1, 1);
    }
    if (lanes == NULL) backend->ops->add(backend, to, a, 4, 0);
    exam_record(exam, "carried", to, 0, 0);
    exam_sync(exam);
    if (carried != NULL) lanes->release(backend, carried);
}

/* Numbers of 16 bits, which have a float of the same value: through the staging buffer, and over the lane of weights.
 * All exponents but that of infinities, and subnormal numbers. */
static void run_widening(struct exam *exam, int64_t shape)
{
    const int64_t rows = sizes[shape / 2][0], columns = sizes[shape / 2][1], count = rows * columns;
    const enum dtype dtype = shape % 2 == 0 ? DTYPE_BF16 : DTYPE_F16;
    const uint32_t exponent = dtype == DTYPE_F16 ? 0x7c00u : 0x7f80u;
    struct backend *backend = exam->backend;
    const struct lane_ops *lanes = backend->ops->lanes;
    const struct matrix staged = exam_target(exam, rows, columns, sizes[shape / 2][2], false),
                        dense = exam_target(exam, rows, columns, 0, false);
    const struct matrix there = matrix_of(exam_bytes(exam, NULL, count * 2), rows, columns, sizeof(uint16_t));
    uint16_t numbers[NUMBERS];
    void *carried = NULL;
    struct error error;
    for (int64_t i = 0; i < count; i++) {
        numbers[i] = (uint16_t)((uint32_t)i * 40503u);
        if ((numbers[i] & exponent) == exponent) numbers[i] = (uint16_t)(numbers[i] & ~0x4000u);
    }
    backend->ops->upload(backend, staged, numbers, dtype);
    exam_record(exam, "widened", staged, 0, 0);
    if (lanes != NULL)
        exam_fail(exam, lanes->allocate(backend, sizeof numbers, "a self-test", &carried, &error), &error);
    if (carried == NULL) {
        backend->ops->upload(backend, dense, numbers, dtype);
    } else {
        memcpy(carried, numbers, sizeof numbers);
        lanes->follow(backend, LANE_WEIGHTS);
        lanes->carry_in(backend, LANE_WEIGHTS, there, carried);
        lanes->await(backend, LANE_WEIGHTS, lanes->point(backend, LANE_WEIGHTS));
        lanes->widen(backend, dense, there, dtype);
    }
    exam_record(exam, "carried and widened", dense, 0, 0);
    exam_sync(exam);
    if (carried != NULL) lanes->release(backend, carried);
}

static void run_elementwise(struct exam *exam, int64_t shape)
{
    const int64_t rows = sizes[shape][0], columns = sizes[shape][1];
    struct backend *backend = exam->backend;
    const struct matrix a = exam_random(exam, rows, columns, sizes[shape][2], 1),
                        b = exam_random(exam, rows, columns, 1, 1), to = exam_target(exam, rows, columns, 2, false);
    exam_record_number(exam, "dot", backend->ops->dot(backend, a, b), 1e-10 * (double)(rows * columns));
    exam_record_number(exam, "finite", backend->ops->finite(backend, a), 0);
    backend->ops->add(backend, b, a, 0.5, -2);
    exam_record(exam, "0.5 a - 2 b", b, 4, 1);
    backend->ops->sum(backend, to, a, b);
    exam_record(exam, "a + b", to, 2, 1);
    backend->ops->scale_by_magnitude(backend, b, a, 0.25);
    exam_record(exam, "b (|a| + 0.25)", b, 30, 6);
    backend->ops->clip(backend, to, a, 0.7);
    exam_record(exam, "clipped", to, 1, 1);
    backend->ops->clip_pass(backend, to, b, a, 0.7, true);
    exam_record(exam, "clip_pass", to, 32, 6);
    backend->ops->fill(backend, matrix_columns(matrix_rows(b, rows / 2, 1), columns - 1, 1), (double)INFINITY);
    exam_record_number(exam, "not finite", backend->ops->finite(backend, b), 0);
    backend->ops->fill(backend, to, 3);
    exam_record(exam, "filled", to, 0, 0);
}

static void run_sums(struct exam *exam, int64_t shape)
{
    const int64_t rows = sizes[shape][0] * 9, columns = sizes[shape][1];
    struct backend *backend = exam->backend;
    const struct matrix a = exam_random(exam, rows, columns, sizes[shape][2], 1),
                        sum = exam_random(exam, 1, columns, 0, 1), row = exam_random(exam, 1, columns, 0, 1);
    backend->ops->sum_rows(backend, sum, a);
    exam_record(exam, "sum of rows", sum, 2 + 6 * sqrt((double)rows), 4 * sqrt((double)rows));
    backend->ops->add_row(backend, a, row);
    exam_record(exam, "added row", a, 2, 1);
}

static const struct norm_shape {
    enum norm_kind kind;
    int64_t rows, columns, groups;
    bool shared, bias, accumulate;
} norms[] = {
    {NORM_RMS, 5, 24, 1, false, false, false},    {NORM_LAYER, 5, 24, 1, false, true, true},
    {NORM_LAYER, 40, 96, 6, true, true, false},   {NORM_RMS, 70, 64, 4, true, false, true},
    {NORM_LAYER, 9, 1030, 1, false, true, false}, {NORM_RMS, 3, 257, 1, false, false, true},
};

static struct matrix wanted(struct exam *exam, bool there, int64_t columns)
{
    return there ? exam_random(exam, 1, columns, 0, 1) : (struct matrix){0};
}

/* Backward reads 1 / sigma about 1; dx is a sum over the row, dweight over the rows of products up to 4 * 4. */
static void run_norm(struct exam *exam, int64_t shape)
{
    const struct norm_shape *s = &norms[shape];
    const struct backend_ops *ops = exam->backend->ops;
    const int64_t parameter = s->shared ? s->columns / s->groups : s->columns;
    const double growth = 8 + 6 * sqrt((double)(s->columns / s->groups)),
                 terms = sqrt((double)(s->shared ? s->rows * s->groups : s->rows));
    struct norm_args args = {.kind = s->kind, .epsilon = 0.5, .groups = s->groups, .accumulate = s->accumulate};
    args.x = exam_random(exam, s->rows, s->columns, 3, 2);
    args.weight = exam_random(exam, 1, parameter, 0, 1);
    args.bias = wanted(exam, s->bias, parameter);
    args.y = exam_target(exam, s->rows, s->columns, 1, false);
    ops->norm_forward(exam->backend, &args);
    exam_record(exam, "y", args.y, growth, 1);
    args.dy = exam_random(exam, s->rows, s->columns, 2, 1);
    args.dx = exam_target(exam, s->rows, s->columns, 0, s->accumulate);
    args.dweight = wanted(exam, true, parameter), args.dbias = wanted(exam, s->bias, parameter);
    ops->norm_backward(exam->backend, &args);
    exam_record(exam, "dx", args.dx, 4 * growth, 1);
    exam_record(exam, "dweight", args.dweight, growth + 6 * terms, 16 * terms);
    if (s->bias) exam_record(exam, "dbias", args.dbias, 2 + 6 * terms, 4 * terms);
}

/* dx_t is a difference of four terms where dx has three, some of two factors n; directions are normal numbers. */
static void run_norm_tangent(struct exam *exam, int64_t shape)
{
    const struct norm_shape *s = &norms[shape];
    const struct backend_ops *ops = exam->backend->ops;
    const int64_t parameter = s->shared ? s->columns / s->groups : s->columns;
    const double growth = 8 + 6 * sqrt((double)(s->columns / s->groups)),
                 terms = sqrt((double)(s->shared ? s->rows * s->groups : s->rows));
    struct norm_args args = {.kind = s->kind, .epsilon = 1e-5, .groups = s->groups, .accumulate = s->accumulate};
    args.x = exam_random(exam, s->rows, s->columns, 3, 2);
    args.x_t = exam_random(exam, s->rows, s->columns, 1, 1);
    args.weight = wanted(exam, true, parameter), args.weight_t = wanted(exam, true, parameter);
    args.bias = wanted(exam, s->bias, parameter), args.bias_t = wanted(exam, s->bias, parameter);
    args.y_t = exam_target(exam, s->rows, s->columns, 1, false);
    ops->norm_tangent(exam->backend, &args);
    exam_record(exam, "y_t", args.y_t, 2 * growth, 1);
    args.dy = exam_random(exam, s->rows, s->columns, 2, 1);
    args.dy_t = exam_random(exam, s->rows, s->columns, 0, 1);
    args.dx = exam_target(exam, s->rows, s->columns, 0, s->accumulate);
    args.dx_t = exam_target(exam, s->rows, s->columns, 5, s->accumulate);
    args.dweight_t = wanted(exam, true, parameter), args.dbias_t = wanted(exam, s->bias, parameter);
    ops->norm_backward_tangent(exam->backend, &args);
    exam_record(exam, "dx", args.dx, 4 * growth, 1);
    exam_record(exam, "dx_t", args.dx_t, 8 * growth, 1);
    exam_record(exam, "dweight_t", args.dweight_t, growth + 6 * terms, 32 * terms);
    if (s->bias) exam_record(exam, "dbias_t", args.dbias_t, 2 + 6 * terms, 4 * terms);
}

static const int64_t ropes[][3] = {{2, 8, 8}, {3, 16, 4}, {2, 20, 6}, {1, 64, 64}}; /* heads, head_dim, rotary */

static void run_rope(struct exam *exam, int64_t shape)
{
    const int64_t heads = ropes[shape][0], width = ropes[shape][1], rotary = ropes[shape][2];
    struct exam_batch batch;
    exam_batch_fill(&batch, (const int64_t[]){40, 3, 50, 0}, 10);
    struct rope_args args = {.heads = heads, .rotary = rotary, .batch = &batch.batch, .inverse = shape % 2 != 0};
    args.x = (struct head_view){exam_random(exam, 93, heads * 3 * width, 2, 1), width, 3 * width};
    args.cosine = exam_random(exam, 50, rotary / 2, 0, 1);
    args.sine = exam_random(exam, 50, rotary / 2, 0, 1);
    exam->backend->ops->rope(exam->backend, &args);
    exam_record(exam, "rotated", args.x.matrix, 3, 1);
}

/* Even shapes have an `up`; those from 4 * 2 on are larger. gelu's tail is good to some 10 u max(1, x²) relative. */
static void run_activation(struct exam *exam, int64_t shape)
{
    const bool up = shape % 2 == 0, large = shape >= 2 * ACTIVATION_KINDS, accumulate = shape % 4 < 2;
    const int64_t rows = large ? 30 : 7, columns = large ? 130 : 19, gap = large ? 5 : 0;
    const struct backend_ops *ops = exam->backend->ops;
    struct activation_args args = {.kind = (enum activation_kind)(shape / 2 % ACTIVATION_KINDS),
                                   .accumulate_gate = accumulate,
                                   .accumulate_up = accumulate};
    args.gate = exam_random(exam, rows, columns, gap, large ? 2 : 20);
    args.gate_t = exam_random(exam, rows, columns, 0, 1);
    if (up) args.up = exam_random(exam, rows, columns, gap, 1), args.up_t = exam_random(exam, rows, columns, 0, 1);
    args.y = exam_target(exam, rows, columns, 0, false), args.y_t = exam_target(exam, rows, columns, 3, false);
    ops->activation_forward(exam->backend, &args);
    ops->activation_tangent(exam->backend, &args);
    exam_record(exam, "y", args.y, 14, 1);
    exam_record(exam, "y_t", args.y_t, 28, 1);
    args.dy = exam_random(exam, rows, columns, gap, 1), args.dy_t = exam_random(exam, rows, columns, 0, 1);
    for (int pass = 0; pass < 2; pass++) {
        args.dgate = exam_target(exam, rows, columns, 0, accumulate);
        args.dgate_t = exam_target(exam, rows, columns, gap, accumulate);
        if (up) args.dup = exam_target(exam, rows, columns, 0, accumulate);
        if (up) args.dup_t = exam_target(exam, rows, columns, 0, accumulate);
        if (pass == 0) ops->activation_backward(exam->backend, &args);
        if (pass == 1) ops->activation_backward_tangent(exam->backend, &args);
        exam_record(exam, "dgate", args.dgate, 24, 1);
        if (pass == 1) exam_record(exam, "dgate_t", args.dgate_t, 40, 1);
        if (up) exam_record(exam, "dup", args.dup, 14, 1);
        if (up && pass == 1) exam_record(exam, "dup_t", args.dup_t, 28, 1);
    }
}

/* Values are a few roundings of their terms. */
static void run_xielu(struct exam *exam, int64_t shape)
{
    static const double scales[] = {1, 1e-3, 30};
    const int64_t rows = shape == 0 ? 20 : 7, columns = shape == 0 ? 70 : 19;
    const struct backend_ops *ops = exam->backend->ops;
    const double terms = 16 + 6 * sqrt((double)(rows * columns)), size = 1 + scales[shape] * scales[shape];
    struct xielu_args args = {.accumulate = shape != 1};
    struct matrix *const numbers[] = {&args.alpha_p,    &args.alpha_n,   &args.beta,     &args.epsilon,
                                      &args.alpha_p_t,  &args.alpha_n_t, &args.dalpha_p, &args.dalpha_n,
                                      &args.dalpha_p_t, &args.dalpha_n_t};
    static const double values[] = {0.3, -0.8, 0.5, -0x1p-20, 0.7, -1.1, 1, -1, 0, 2};
    for (int i = 0; i < 10; i++) *numbers[i] = exam_filled(exam, 1, 1, 0, values[i]);
    args.x = exam_random(exam, rows, columns, 1, scales[shape]), args.x_t = exam_random(exam, rows, columns, 0, 1);
    args.y = exam_target(exam, rows, columns, 0, false), args.y_t = exam_target(exam, rows, columns, 3, false);
    args.dy = exam_random(exam, rows, columns, 2, 1), args.dy_t = exam_random(exam, rows, columns, 0, 1);
    args.dx = exam_target(exam, rows, columns, 0, args.accumulate);
    ops->xielu_forward(exam->backend, &args);
    ops->xielu_tangent(exam->backend, &args);
    ops->xielu_backward(exam->backend, &args);
    exam_record(exam, "y", args.y, 16, 0);
    exam_record(exam, "y_t", args.y_t, 32, 1);
    exam_record(exam, "dx", args.dx, 24, 1);
    exam_record(exam, "dalpha_p", args.dalpha_p, terms, 4 * size);
    exam_record(exam, "dalpha_n", args.dalpha_n, terms, 4 * size);
    args.dx = exam_target(exam, rows, columns, 1, args.accumulate);
    args.dx_t = exam_target(exam, rows, columns, 0, args.accumulate);
    ops->xielu_backward_tangent(exam->backend, &args);
    exam_record(exam, "dx again", args.dx, 24, 1);
    exam_record(exam, "dx_t", args.dx_t, 40, 1);
    exam_record(exam, "dalpha_p_t", args.dalpha_p_t, terms, 8 * size);
    exam_record(exam, "dalpha_n_t", args.dalpha_n_t, terms, 8 * size);
}

static void run_embedding(struct exam *exam, int64_t shape)
{
    static const int64_t tokens[] = {1, 100, 300};
    const int64_t rows = tokens[shape], columns = shape == 1 ? 70 : 3;
    uint32_t ids[EXAM_TOKENS];
    for (int64_t t = 0; t < rows; t++) ids[t] = (uint32_t)random_below(3, 4, (uint64_t)t, 20);
    const struct matrix table = exam_random(exam, 20, columns, 2, 1), to = exam_target(exam, rows, columns, 1, false),
                        from = exam_random(exam, rows, columns, 0, 1);
    exam->backend->ops->gather(exam->backend, to, table, ids);
    exam_record(exam, "gathered", to, 0, 1);
    exam->backend->ops->scatter_add(exam->backend, table, from, ids);
    exam_record(exam, "table", table, 2 + 6 * sqrt((double)rows / 20 + 9), 4 * sqrt((double)rows));
}

static const struct {
    int64_t vocabulary, gap;
    double scale;
} losses[] = {{3, 0, 1}, {50, 6, 3}, {513, 1, 8}, {1100, 0, 2}};

/* The double sums leave the error of exp (some 4u relative) and of 512 / lanes additions; a logit of size z costs u z,
 * and the other model's logits were rounded themselves. */
static void run_losses(struct exam *exam, int64_t shape)
{
    struct backend *backend = exam->backend;
    const int64_t vocabulary = losses[shape].vocabulary;
    const double scale = losses[shape].scale, bound = (12 + 5 * scale) * EXAM_ROUNDOFF;
    double values[7][32];
    uint8_t agree[32];
    struct exam_batch batch;
    exam_batch_fill(&batch, (const int64_t[]){5, 1, 17, 0}, (uint32_t)vocabulary);
    const int64_t rows = batch.batch.tokens;
    struct cross_entropy_args args = {
        .targets = batch.targets, .losses = values[0], .log_sum = values[1], .weight = 0.25};
    args.logits = exam_random(exam, rows, vocabulary, losses[shape].gap, scale);
    args.logits_t = exam_random(exam, rows, vocabulary, 3, 1);
    const struct matrix other = exam_random(exam, rows, vocabulary, 0, scale);
    const struct matrix again = exam_target(exam, rows, vocabulary, 1, false);
    backend->ops->add(backend, other, args.logits, 1, 0.1);
    /* one row has two largest entries, and the other model's has only the first of them */
    backend->ops->fill(backend, matrix_columns(matrix_rows(args.logits, 0, 1), 1, 2), 9 * scale);
    backend->ops->fill(backend, matrix_columns(matrix_rows(other, 0, 1), 1, 1), 9 * scale);
    backend->ops->add(backend, again, args.logits, 1, 0);
    backend->ops->cross_entropy_forward(backend, &args);
    backend->ops->compare(backend, &(struct compare_args){args.logits, other, batch.targets, values[1], values[2],
                                                          values[3], values[4], agree});
    backend->ops->cross_entropy_backward(backend, &args);
    for (int64_t t = 0; t < rows; t++) values[5][t] = agree[t];
    const double second = 1.1 * bound + 5 * scale * EXAM_ROUNDOFF;
    static const char *const names[] = {"losses", "log sums", "log sums of the other", "losses of the other",
                                        "kl",     "agreement"};
    const double bounds[] = {bound, bound, second, second, 2 * bound + 10 * scale * EXAM_ROUNDOFF, 0};
    for (int i = 0; i < 6; i++) exam_record_doubles(exam, names[i], values[i], rows, bounds[i]);
    exam_record(exam, "dlogits", args.logits, 24 + 5 * scale, args.weight);
    args.logits = again;
    backend->ops->cross_entropy_backward_tangent(backend, &args);
    exam_record(exam, "dlogits again", args.logits, 24 + 5 * scale, args.weight);
    exam_record(exam, "dlogits_t", args.logits_t, 40 + 10 * scale, 4);
}

/* A step is at most about `rate`; its error some 10 roundings. */
static void run_adamw(struct exam *exam, int64_t shape)
{
    const int64_t count = shape == 0 ? 17 : 5003;
    struct adamw_args args = {.count = count,
                              .rate = 1e-3,
                              .beta1 = 0.9,
                              .beta2 = 0.95,
                              .epsilon = 1e-8,
                              .weight_decay = 0.1,
                              .gradient_scale = 0.01};
    const struct matrix p = exam_random(exam, 1, count, 0, 0.1), g = exam_random(exam, 1, count, 0, 100),
                        m = exam_filled(exam, 1, count, 0, 0), v = exam_filled(exam, 1, count, 0, 0);
    args.parameter = p.data, args.gradient = g.data, args.moment1 = m.data, args.moment2 = v.data;
    for (int step = 1; step <= 3; step++) {
        args.correction1 = 1 - pow(args.beta1, step);
        args.correction2 = 1 - pow(args.beta2, step);
        exam->backend->ops->adamw(exam->backend, &args);
    }
    exam_record(exam, "parameters", p, 6, 0);
    exam_record(exam, "first moments", m, 12, 1);
    exam_record(exam, "second moments", v, 12, 1);
}

const struct check check_rows[] = {
    {"copies", run_copies, CHECK_COUNT(sizes), CHECK_FLOATS, NULL},
    {"widening", run_widening, 2 * CHECK_COUNT(sizes), CHECK_FLOATS, NULL},
    {"elementwise", run_elementwise, CHECK_COUNT(sizes), CHECK_DOUBLES, NULL},
    {"sums of rows", run_sums, CHECK_COUNT(sizes), CHECK_DOUBLES, NULL},
    {"norms", run_norm, CHECK_COUNT(norms), CHECK_DOUBLES, NULL},
    {"norms, tangents", run_norm_tangent, CHECK_COUNT(norms), CHECK_DOUBLES, NULL},
    {"rotations", run_rope, CHECK_COUNT(ropes), CHECK_DOUBLES, NULL},
    {"activations", run_activation, 4 * ACTIVATION_KINDS, CHECK_DOUBLES, NULL},
    {"xielu", run_xielu, 3, CHECK_DOUBLES, NULL},
    {"embeddings", run_embedding, 3, CHECK_DOUBLES, NULL},
    {"losses", run_losses, CHECK_COUNT(losses), CHECK_DOUBLES, NULL},
    {"adamw", run_adamw, 2, CHECK_DOUBLES, NULL},
    {0},
};
