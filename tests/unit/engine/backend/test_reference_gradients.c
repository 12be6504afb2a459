/* Every backward pass of the plain loops in double against central finite differences of its forward pass.
 *
 * A pass is seen as a scalar f(inputs) = sum of outputs times fixed random weights (the incoming gradient). With a step
 * h relative to inputs of size 1 the truncation error is h² f''' / 6 and the rounding error eps |f| / h; h = 1e-5
 * leaves about 1e-10 and 1e-11 times sums of a few hundred terms: gradients must agree to 1e-7 of the largest one. */
#include "engine/backend/cases.h"

static const double step = 1e-5, tolerance = 1e-7;

/* One differentiable call: `forward` overwrites its outputs. */
struct pass {
    struct world *world;
    void (*forward)(struct pass *pass);
    struct matrix outputs, weights; /* f = dot(outputs, weights) */
    void *args;
};

static double pass_value(struct pass *pass)
{
    pass->forward(pass);
    return pass->world->backend->ops->dot(pass->world->backend, pass->outputs, pass->weights);
}

/* `before`: what the gradient held, which is still in it when it accumulates. */
static void check_gradient(struct pass *pass, const char *name, struct matrix input, struct matrix gradient,
                           double before)
{
    double *expected = world_doubles(input.rows * input.columns), *found = world_read(pass->world, gradient);
    for (int64_t t = 0; t < input.rows; t++)
        for (int64_t c = 0; c < input.columns; c++) {
            double *x = (double *)input.data + t * input.stride + c;
            const double kept = *x;
            *x = kept + step;
            const double above = pass_value(pass);
            *x = kept - step;
            const double below = pass_value(pass);
            *x = kept;
            expected[t * input.columns + c] = before + (above - below) / (2 * step);
        }
    const double size = fmax(1, largest_size(expected, input.rows * input.columns));
    for (int64_t i = 0; i < input.rows * input.columns; i++)
        if (!(fabs(found[i] - expected[i]) <= tolerance * size))
            fail_msg("%s[%lld]: %.12g expected %.12g", name, (long long)i, found[i], expected[i]);
    free(expected);
    free(found);
}

static void *open_world(void)
{
    struct world *world = calloc(1, sizeof *world);
    struct error error;
    assert_non_null(world);
    world->seed = 3;
    assert_int_equal(backend_reference_new(true, NULL, &world->backend, &error), STATUS_OK);
    return world;
}

static void close_world(struct world *world)
{
    world_clear(world);
    backend_free(world->backend);
    free(world);
}

/* A gradient that already holds `before` (NaN: must not be read). */
static struct matrix filled(struct world *world, int64_t rows, int64_t columns, double before)
{
    const struct matrix m = world_zeros(world, rows, columns, 2);
    world->backend->ops->fill(world->backend, m, before);
    return m;
}

static void norm_forward(struct pass *pass)
{
    pass->world->backend->ops->norm_forward(pass->world->backend, pass->args);
}

static void check_norm(enum norm_kind kind, int64_t groups, bool shared, bool bias, bool accumulate)
{
    struct world *world = open_world();
    const int64_t rows = 5, columns = 12, parameter = shared ? columns / groups : columns;
    struct norm_args args = {.kind = kind, .epsilon = 1e-3, .groups = groups, .accumulate = accumulate};
    args.x = world_random(world, rows, columns, 1, 1);
    args.weight = world_random(world, 1, parameter, 0, 1);
    if (bias) args.bias = world_random(world, 1, parameter, 0, 1);
    args.y = world_zeros(world, rows, columns, 0);
    args.dy = world_random(world, rows, columns, 3, 1);
    args.dx = filled(world, rows, columns, accumulate ? 0.5 : (double)NAN);
    args.dweight = matrix_of(filled(world, 1, parameter, 0.25).data, 1, parameter, sizeof(double));
    if (bias) args.dbias = matrix_of(filled(world, 1, parameter, -0.25).data, 1, parameter, sizeof(double));
    struct pass pass = {world, norm_forward, args.y, args.dy, &args};
    norm_forward(&pass);
    world->backend->ops->norm_backward(world->backend, &args);
    check_gradient(&pass, "dx", args.x, args.dx, accumulate ? 0.5 : 0);
    check_gradient(&pass, "dweight", args.weight, args.dweight, 0.25);
    if (bias) check_gradient(&pass, "dbias", args.bias, args.dbias, -0.25);
    close_world(world);
}

static void test_norm_gradients(void **state)
{
    (void)state;
    for (int form = 0; form < 16; form++)
        for (int64_t groups = 1; groups <= 3; groups += 2)
            check_norm(form & 1 ? NORM_RMS : NORM_LAYER, groups, form & 2, form & 4, form & 8);
}

static void activation_forward(struct pass *pass)
{
    pass->world->backend->ops->activation_forward(pass->world->backend, pass->args);
}

static void check_activation(enum activation_kind kind, bool up, bool accumulate_gate, bool accumulate_up)
{
    struct world *world = open_world();
    const int64_t rows = 6, columns = 11;
    struct activation_args args = {.kind = kind, .accumulate_gate = accumulate_gate, .accumulate_up = accumulate_up};
    args.gate = world_random(world, rows, columns, 1, 2);
    if (up) args.up = world_random(world, rows, columns, 0, 1);
    args.y = world_zeros(world, rows, columns, 4);
    args.dy = world_random(world, rows, columns, 0, 1);
    args.dgate = filled(world, rows, columns, accumulate_gate ? 0.5 : (double)NAN);
    args.dup = filled(world, rows, columns, accumulate_up ? 0.5 : (double)NAN);
    struct pass pass = {world, activation_forward, args.y, args.dy, &args};
    activation_forward(&pass);
    world->backend->ops->activation_backward(world->backend, &args);
    check_gradient(&pass, "dgate", args.gate, args.dgate, accumulate_gate ? 0.5 : 0);
    if (up) check_gradient(&pass, "dup", args.up, args.dup, accumulate_up ? 0.5 : 0);
    close_world(world);
}

static void test_activation_gradients(void **state)
{
    (void)state;
    const enum activation_kind kinds[] = {ACTIVATION_SILU, ACTIVATION_GELU, ACTIVATION_GELU_TANH, ACTIVATION_RELU};
    for (int form = 0; form < 32; form++) check_activation(kinds[form & 3], form & 4, form & 8, form & 16);
}

struct attention_pass {
    struct attention_args args;
    struct test_batch batch;
};

static void attention_forward(struct pass *pass)
{
    struct attention_pass *attention = pass->args;
    pass->world->backend->ops->attention_forward(pass->world->backend, &attention->args);
}

static void check_attention(const int64_t *lengths, int64_t sequences, int64_t heads, int64_t kv_heads, int64_t window,
                            bool fused)
{
    struct world *world = open_world();
    struct attention_pass *attention = calloc(1, sizeof *attention);
    assert_non_null(attention);
    test_batch_fill(&attention->batch, lengths, sequences, 5);
    const int64_t tokens = attention->batch.batch.tokens, d = 4;
    struct attention_args *args = &attention->args;
    *args = (struct attention_args){.batch = &attention->batch.batch,
                                    .heads = heads,
                                    .kv_heads = kv_heads,
                                    .head_dim = d,
                                    .window = window,
                                    .scale = 0.7};
    const int64_t step_q = fused ? 3 * d : d, wide = fused ? 3 * heads * d : heads * d,
                  wide_kv = fused ? wide : kv_heads * d;
    const struct matrix q = world_random(world, tokens, wide, 1, 1),
                        k = fused ? q : world_random(world, tokens, wide_kv, 2, 1);
    const struct matrix v = fused ? q : world_random(world, tokens, wide_kv, 0, 1),
                        dq = filled(world, tokens, wide, (double)NAN);
    const struct matrix dk = fused ? dq : filled(world, tokens, wide_kv, (double)NAN),
                        dv = fused ? dq : filled(world, tokens, wide_kv, (double)NAN);
    args->q = (struct head_view){q, 0, step_q}, args->dq = (struct head_view){dq, 0, step_q};
    args->k = (struct head_view){k, fused ? d : 0, step_q}, args->dk = (struct head_view){dk, fused ? d : 0, step_q};
    args->v = (struct head_view){v, fused ? 2 * d : 0, step_q},
    args->dv = (struct head_view){dv, fused ? 2 * d : 0, step_q};
    args->out = (struct head_view){world_zeros(world, tokens, heads * d, 3), 0, d};
    args->dout = (struct head_view){world_random(world, tokens, heads * d, 0, 1), 0, d};
    args->log_sum = world_zeros(world, tokens, heads, 0);
    struct pass pass = {world, attention_forward, args->out.matrix, args->dout.matrix, attention};
    attention_forward(&pass);
    world->backend->ops->attention_backward(world->backend, args);
    check_gradient(&pass, "dq", q, dq, 0);
    if (!fused) {
        check_gradient(&pass, "dk", k, dk, 0);
        check_gradient(&pass, "dv", v, dv, 0);
    }
    free(attention);
    close_world(world);
}

static void test_attention_gradients(void **state)
{
    (void)state;
    check_attention((const int64_t[]){1}, 1, 1, 1, 0, false);
    check_attention((const int64_t[]){5, 1, 3}, 3, 2, 2, 0, false);
    check_attention((const int64_t[]){4, 6}, 2, 4, 2, 0, false);
    check_attention((const int64_t[]){7, 2}, 2, 3, 1, 3, false);
    check_attention((const int64_t[]){6, 3}, 2, 2, 2, 0, true);
    check_attention((const int64_t[]){6, 3}, 2, 2, 2, 2, true);
}

struct convolution_pass {
    struct convolution_args args;
    struct test_batch batch;
};

static void convolution_forward(struct pass *pass)
{
    struct convolution_pass *convolution = pass->args;
    pass->world->backend->ops->convolution_forward(pass->world->backend, &convolution->args);
}

static void check_convolution(int64_t taps, bool bias, bool accumulate)
{
    struct world *world = open_world();
    struct convolution_pass *convolution = calloc(1, sizeof *convolution);
    assert_non_null(convolution);
    test_batch_fill(&convolution->batch, (const int64_t[]){5, 1, 2, 7}, 4, 5);
    const int64_t tokens = convolution->batch.batch.tokens, columns = 3;
    struct convolution_args *args = &convolution->args;
    args->batch = &convolution->batch.batch;
    args->x = world_random(world, tokens, columns, 1, 1),
    args->dx = filled(world, tokens, columns, accumulate ? 0.5 : (double)NAN);
    args->weight = world_random(world, columns, taps, 0, 1), args->dweight = filled(world, columns, taps, 0.25);
    if (bias) args->bias = world_random(world, 1, columns, 0, 1), args->dbias = filled(world, 1, columns, -0.25);
    args->y = world_zeros(world, tokens, columns, 3), args->dy = world_random(world, tokens, columns, 2, 1);
    struct pass pass = {world, convolution_forward, args->y, args->dy, convolution};
    args->accumulate = accumulate;
    world->backend->ops->convolution_backward(world->backend, args);
    args->accumulate = false;
    check_gradient(&pass, "dx", args->x, args->dx, accumulate ? 0.5 : 0);
    check_gradient(&pass, "dweight", args->weight, args->dweight, 0.25);
    if (bias) check_gradient(&pass, "dbias", args->bias, args->dbias, -0.25);
    free(convolution);
    close_world(world);
}

static void test_convolution_gradients(void **state)
{
    (void)state;
    for (int form = 0; form < 4; form++)
        for (int64_t taps = 1; taps <= 4; taps++) check_convolution(taps, form & 1, form & 2);
}

struct scan_pass {
    struct scan_args args;
    struct test_batch batch;
};

static void scan_forward(struct pass *pass)
{
    struct scan_pass *scan = pass->args;
    pass->world->backend->ops->scan_forward(pass->world->backend, &scan->args);
}

/* One sequence is longer than a chunk. `most` cuts some of the step sizes off, away from where it would bend. */
static void check_scan(int64_t heads, int64_t head_dim, int64_t groups, int64_t states, bool shared, bool bias,
                       double most)
{
    struct world *world = open_world();
    struct scan_pass *scan = calloc(1, sizeof *scan);
    assert_non_null(scan);
    test_batch_fill(&scan->batch, (const int64_t[]){3, SCAN_CHUNK + 2, 1}, 3, 5);
    const int64_t tokens = scan->batch.batch.tokens, channels = heads * head_dim,
                  kept = scan_kept_columns(channels, states);
    struct scan_args *args = &scan->args;
    *args = (struct scan_args){
        .batch = &scan->batch.batch, .heads = heads, .groups = groups, .states = states, .step_most = most};
    args->x = world_random(world, tokens, channels, 1, 1), args->dx = filled(world, tokens, channels, (double)NAN);
    args->step = world_random(world, tokens, heads, 2, 1), args->dstep = filled(world, tokens, heads, (double)NAN);
    args->bc = world_random(world, tokens, 2 * groups * states, 1, 1);
    args->dbc = filled(world, tokens, 2 * groups * states, (double)NAN);
    args->a_log = world_random(world, shared ? 1 : heads, shared ? heads : states, 0, 0.5);
    args->da_log = filled(world, args->a_log.rows, args->a_log.columns, 0.25);
    args->skip = world_random(world, 1, heads, 0, 1), args->dskip = filled(world, 1, heads, 0.5);
    if (bias) args->step_bias = world_random(world, 1, heads, 0, 1), args->dstep_bias = filled(world, 1, heads, -0.5);
    args->kept = world_zeros(world, tokens, kept, 0), args->dkept = world_zeros(world, tokens, kept, 0);
    args->y = world_zeros(world, tokens, channels, 3), args->dy = world_random(world, tokens, channels, 0, 1);
    struct pass pass = {world, scan_forward, args->y, args->dy, scan};
    scan_forward(&pass);
    world->backend->ops->scan_backward(world->backend, args);
    check_gradient(&pass, "dx", args->x, args->dx, 0);
    check_gradient(&pass, "dstep", args->step, args->dstep, 0);
    check_gradient(&pass, "dbc", args->bc, args->dbc, 0);
    check_gradient(&pass, "da_log", args->a_log, args->da_log, 0.25);
    check_gradient(&pass, "dskip", args->skip, args->dskip, 0.5);
    if (bias) check_gradient(&pass, "dstep_bias", args->step_bias, args->dstep_bias, -0.5);
    free(scan);
    close_world(world);
}

static void test_scan_gradients(void **state)
{
    (void)state;
    check_scan(3, 1, 1, 2, false, false, INFINITY);
    check_scan(4, 2, 2, 2, true, true, INFINITY);
    check_scan(2, 2, 1, 3, true, true, 0.9);
}

/* Two tokens by hand: delta = ln 2 (softplus of 0), A = -1, so a = 1/2. */
static void test_scan_by_hand(void **state)
{
    (void)state;
    struct world *world = open_world();
    struct test_batch batch;
    test_batch_fill(&batch, (const int64_t[]){2}, 1, 5);
    struct scan_args args = {.batch = &batch.batch, .heads = 1, .groups = 1, .states = 1, .step_most = INFINITY};
    const double x[] = {3, 5}, bc[] = {2, 7, 11, 13}, skip = 0.25;
    args.x = world_zeros(world, 2, 1, 0), args.y = world_zeros(world, 2, 1, 0), args.step = world_zeros(world, 2, 1, 0);
    args.bc = world_zeros(world, 2, 2, 0), args.a_log = world_zeros(world, 1, 1, 0),
    args.skip = world_zeros(world, 1, 1, 0);
    world->backend->ops->upload(world->backend, args.x, x, DTYPE_F64);
    world->backend->ops->upload(world->backend, args.bc, bc, DTYPE_F64);
    world->backend->ops->upload(world->backend, args.skip, &skip, DTYPE_F64);
    world->backend->ops->scan_forward(world->backend, &args);
    const double first = M_LN2 * 3 * 2, second = first / 2 + M_LN2 * 5 * 11, *y = args.y.data;
    assert_true(fabs(y[0] - (7 * first + 0.75)) < 1e-13 && fabs(y[1] - (13 * second + 1.25)) < 1e-12);
    close_world(world);
}

/* out = rope(x) is linear and in place: f is made on a copy. */
struct rope_pass {
    struct rope_args args;
    struct matrix x;
};

static void rope_forward(struct pass *pass)
{
    struct rope_pass *rope = pass->args;
    pass->world->backend->ops->add(pass->world->backend, rope->args.x.matrix, rope->x, 1, 0);
    pass->world->backend->ops->rope(pass->world->backend, &rope->args);
}

static void test_rope_gradient_is_the_inverse(void **state)
{
    (void)state;
    struct world *world = open_world();
    struct test_batch batch;
    test_batch_fill(&batch, (const int64_t[]){3, 4}, 2, 5);
    struct rope_pass rope = {.args = {.heads = 2, .rotary = 4, .batch = &batch.batch}};
    rope.x = world_random(world, 7, 12, 0, 1);
    rope.args.x = (struct head_view){world_zeros(world, 7, 12, 0), 0, 6};
    rope.args.cosine = world_random(world, 4, 2, 0, 1);
    rope.args.sine = world_random(world, 4, 2, 0, 1);
    const struct matrix gradient = world_random(world, 7, 12, 0, 1), weights = world_zeros(world, 7, 12, 0);
    world->backend->ops->add(world->backend, weights, gradient, 1, 0);
    struct rope_args back = rope.args;
    back.inverse = true;
    back.x.matrix = gradient;
    world->backend->ops->rope(world->backend, &back);
    struct pass pass = {world, rope_forward, rope.args.x.matrix, weights, &rope};
    check_gradient(&pass, "dx", rope.x, gradient, 0);
    close_world(world);
}

struct loss_pass {
    struct cross_entropy_args args;
    double losses[8], log_sum[8];
};

/* The outputs are host doubles, which is what a matrix of this backend holds. */
static void loss_forward(struct pass *pass)
{
    struct loss_pass *loss = pass->args;
    pass->world->backend->ops->cross_entropy_forward(pass->world->backend, &loss->args);
}

static void test_cross_entropy_gradient(void **state)
{
    (void)state;
    struct world *world = open_world();
    const uint32_t targets[] = {2, 0, TARGET_NONE, 8, 4};
    struct loss_pass loss = {.args = {.targets = targets, .weight = 0.3}};
    const struct matrix logits = world_random(world, 5, 9, 2, 2), gradient = world_zeros(world, 5, 9, 1),
                        weights = world_zeros(world, 1, 5, 0);
    loss.args.losses = loss.losses;
    loss.args.log_sum = loss.log_sum;
    loss.args.logits = logits;
    world->backend->ops->fill(world->backend, weights, 0.3);
    struct pass pass = {world, loss_forward, matrix_of(loss.losses, 1, 5, sizeof(double)), weights, &loss};
    loss_forward(&pass);
    world->backend->ops->add(world->backend, gradient, logits, 1, 0);
    struct cross_entropy_args back = loss.args;
    back.logits = gradient;
    world->backend->ops->cross_entropy_backward(world->backend, &back);
    check_gradient(&pass, "dlogits", logits, gradient, 0);
    close_world(world);
}

static void gemm_forward(struct pass *pass)
{
    pass->world->backend->ops->gemm(pass->world->backend, pass->args);
}

/* y = x wᵀ: dx = dy w, dw = dyᵀ x: the three products of a linear layer. */
static void test_gemm_gradients_are_gemms(void **state)
{
    (void)state;
    struct world *world = open_world();
    struct backend *backend = world->backend;
    const struct matrix x = world_random(world, 6, 5, 1, 1), w = world_random(world, 7, 5, 2, 1),
                        y = world_zeros(world, 6, 7, 0);
    const struct matrix dy = world_random(world, 6, 7, 3, 1), dx = filled(world, 6, 5, (double)NAN),
                        dw = filled(world, 7, 5, 0.5);
    struct gemm_args args = {x, w, y, false, true, 1, 0, true};
    backend->ops->gemm(backend, &(struct gemm_args){dy, w, dx, false, false, 1, 0, true});
    backend->ops->gemm(backend, &(struct gemm_args){dy, x, dw, true, false, 1, 1, true});
    struct pass pass = {world, gemm_forward, y, dy, &args};
    check_gradient(&pass, "dx", x, dx, 0);
    check_gradient(&pass, "dw", w, dw, 0.5);
    close_world(world);
}

static void gather_forward(struct pass *pass)
{
    static const uint32_t ids[] = {3, 0, 3, 1, 3};
    pass->world->backend->ops->gather(pass->world->backend, pass->outputs, *(const struct matrix *)pass->args, ids);
}

static void test_gather_gradient_is_scatter_add(void **state)
{
    (void)state;
    struct world *world = open_world();
    static const uint32_t ids[] = {3, 0, 3, 1, 3};
    struct matrix table = world_random(world, 4, 6, 1, 1);
    const struct matrix out = world_zeros(world, 5, 6, 0), dout = world_random(world, 5, 6, 2, 1),
                        dtable = filled(world, 4, 6, 0.5);
    world->backend->ops->scatter_add(world->backend, dtable, dout, ids);
    struct pass pass = {world, gather_forward, out, dout, &table};
    check_gradient(&pass, "dtable", table, dtable, 0.5);
    close_world(world);
}

/* Computed apart, with erf and tanh: gelu and its approximation differ in the fourth digit. */
static void test_activations_have_their_published_values(void **state)
{
    (void)state;
    static const double inputs[5] = {-3, -1.5, -0.25, 0.75, 2.5};
    static const struct {
        enum activation_kind kind;
        double values[5];
    } rows[] = {
        {ACTIVATION_SILU,
         {-0.14227761953270035, -0.2736382857095345, -0.10945587477855048, 0.5093840243815447, 2.3103545499468914}},
        {ACTIVATION_GELU,
         {-0.00404969409489031, -0.10021080190328713, -0.10032341857926907, 0.5800294857173488, 2.4844758366855597}},
        {ACTIVATION_GELU_TANH,
         {-0.0036373920817729943, -0.10042842301976707, -0.100324649298315, 0.5799605551656203, 2.484915733910001}},
        {ACTIVATION_RELU, {0, 0, 0, 0.75, 2.5}},
    };
    struct world *world = open_world();
    const struct matrix x = world_zeros(world, 1, 5, 0), y = world_zeros(world, 1, 5, 0);
    memcpy(x.data, inputs, sizeof inputs);
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        const struct activation_args args = {.kind = rows[k].kind, .gate = x, .y = y};
        world->backend->ops->activation_forward(world->backend, &args);
        for (int i = 0; i < 5; i++) assert_true(fabs(((double *)y.data)[i] - rows[k].values[i]) < 1e-14);
    }
    close_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norm_gradients),
        cmocka_unit_test(test_activation_gradients),
        cmocka_unit_test(test_activations_have_their_published_values),
        cmocka_unit_test(test_attention_gradients),
        cmocka_unit_test(test_rope_gradient_is_the_inverse),
        cmocka_unit_test(test_cross_entropy_gradient),
        cmocka_unit_test(test_gemm_gradients_are_gemms),
        cmocka_unit_test(test_gather_gradient_is_scatter_add),
        cmocka_unit_test(test_convolution_gradients),
        cmocka_unit_test(test_scan_gradients),
        cmocka_unit_test(test_scan_by_hand),
    };
    return cmocka_run_group_tests_name("reference gradients", tests, NULL, NULL);
}
