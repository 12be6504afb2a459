/* The fast backend's tangents against the plain loops in double, and one thread against three. Sums of n terms grow by
 * the probabilistic bound 6 sqrt(n) u (Higham and Mary, SISC 41, 2019) unless a line says otherwise; directions are
 * normal numbers, so the products in a tangent are as large as those of its pass, and there are about twice as many. */
#include "engine/backend/attention_cases.h"

static struct matrix gradient(struct world *world, int64_t rows, int64_t columns, int64_t gap, bool accumulate)
{
    const struct matrix m = world_random(world, rows, columns, gap, 1);
    if (!accumulate) world->backend->ops->fill(world->backend, m, (double)NAN);
    return m;
}

struct norm_shape {
    enum norm_kind kind;
    int64_t rows, columns, groups;
    bool shared, bias, moving, accumulate, wanted;
};

/* See run_norm of test_cpu_rows.c: dx_t is a difference of four terms where dx has three, some of two factors n. */
static void run_norm(struct world *world, const void *context)
{
    const struct norm_shape *s = context;
    const int64_t columns = s->columns, parameter = s->shared ? columns / s->groups : columns;
    struct norm_args args = {.kind = s->kind, .epsilon = 1e-5, .groups = s->groups, .accumulate = s->accumulate};
    args.x = world_random(world, s->rows, columns, 3, 2);
    world->backend->ops->add_row(world->backend, args.x, world_random(world, 1, columns, 0, 1));
    args.x_t = world_random(world, s->rows, columns, 1, 1);
    args.weight = world_random(world, 1, parameter, 0, 1);
    if (s->bias) args.bias = world_random(world, 1, parameter, 0, 1);
    if (s->moving) args.weight_t = world_random(world, 1, parameter, 0, 1);
    if (s->moving && s->bias) args.bias_t = world_random(world, 1, parameter, 0, 1);
    args.y_t = gradient(world, s->rows, columns, 1, false);
    world->backend->ops->norm_tangent(world->backend, &args);
    const double row_growth = 8 + 6 * sqrt((double)(columns / s->groups));
    world_record(world, "y_t", args.y_t, 2 * row_growth, 1);
    args.dy = world_random(world, s->rows, columns, 2, 1);
    args.dy_t = world_random(world, s->rows, columns, 0, 1);
    args.dx = gradient(world, s->rows, columns, 0, s->accumulate);
    args.dx_t = gradient(world, s->rows, columns, 5, s->accumulate);
    if (s->wanted) args.dweight_t = world_random(world, 1, parameter, 0, 1);
    if (s->wanted && s->bias) args.dbias_t = world_random(world, 1, parameter, 0, 1);
    world->backend->ops->norm_backward_tangent(world->backend, &args);
    world_record(world, "dx", args.dx, 4 * row_growth, 1);
    world_record(world, "dx_t", args.dx_t, 8 * row_growth, 1);
    const double terms = (double)(s->shared ? s->rows * s->groups : s->rows);
    if (s->wanted) world_record(world, "dweight_t", args.dweight_t, row_growth + 6 * sqrt(terms), 32 * sqrt(terms));
    if (s->wanted && s->bias) world_record(world, "dbias_t", args.dbias_t, 6 * sqrt(terms), 4 * sqrt(terms));
}

static void test_norms_agree(void **state)
{
    for (int form = 0; form < 64; form++) {
        const enum norm_kind kind = form & 1 ? NORM_RMS : NORM_LAYER;
        const struct norm_shape shapes[] = {
            {kind, 5, 24, form & 16 ? 3 : 1, form & 16, form & 2, form & 4, form & 8, form & 32},
            {kind, 130, 64 * 6, 6, form & 16, form & 2, form & 4, form & 8, form & 32},
            {kind, 40, 1030, 1, false, form & 2, form & 4, form & 8, form & 32},
        };
        /* all forms on the small one; the large ones, which take several tasks, on every seventh */
        for (int i = 0; i < (form % 7 == 0 ? 3 : 1); i++) rivals_run(*state, run_norm, &shapes[i]);
    }
}

static void run_norm_in_place(struct world *world, const void *context)
{
    (void)context;
    struct norm_args args = {.kind = NORM_LAYER, .epsilon = 1e-6, .groups = 1};
    args.x = world_random(world, 9, 70, 0, 1);
    args.x_t = world_random(world, 9, 70, 0, 1);
    args.weight = world_random(world, 1, 70, 0, 1);
    args.dy = args.dx = world_random(world, 9, 70, 0, 1);
    args.dy_t = args.dx_t = world_random(world, 9, 70, 0, 1);
    world->backend->ops->norm_backward_tangent(world->backend, &args);
    world_record(world, "dx", args.dx, 240, 1);
    world_record(world, "dx_t", args.dx_t, 480, 1);
}

static void test_norm_gradients_may_replace_what_they_come_from(void **state)
{
    rivals_run(*state, run_norm_in_place, NULL);
}

struct activation_shape {
    enum activation_kind kind;
    int64_t rows, columns, gap;
    bool up, accumulate_gate, accumulate_up;
    double scale;
};

/* f'' is good to some 14 roundings of 1; times dy up gate_t, at most 4^3 beside terms as large. */
static void run_activation(struct world *world, const void *context)
{
    const struct activation_shape *s = context;
    const int64_t rows = s->rows, columns = s->columns;
    struct activation_args args = {
        .kind = s->kind, .accumulate_gate = s->accumulate_gate, .accumulate_up = s->accumulate_up};
    args.gate = world_random(world, rows, columns, s->gap, s->scale);
    args.gate_t = world_random(world, rows, columns, s->gap, 1);
    if (s->up) args.up = world_random(world, rows, columns, s->gap, 1);
    if (s->up) args.up_t = world_random(world, rows, columns, 0, 1);
    args.y_t = gradient(world, rows, columns, 0, false);
    world->backend->ops->activation_tangent(world->backend, &args);
    world_record(world, "activated_t", args.y_t, 28, 1);
    args.dy = world_random(world, rows, columns, s->gap, 1);
    args.dy_t = world_random(world, rows, columns, 0, 1);
    args.dgate = gradient(world, rows, columns, 0, s->accumulate_gate);
    args.dgate_t = gradient(world, rows, columns, s->gap, s->accumulate_gate);
    if (s->up) args.dup = gradient(world, rows, columns, 0, s->accumulate_up);
    if (s->up) args.dup_t = gradient(world, rows, columns, 0, s->accumulate_up);
    world->backend->ops->activation_backward_tangent(world->backend, &args);
    world_record(world, "dgate", args.dgate, 24, 1);
    world_record(world, "dgate_t", args.dgate_t, 40, 1);
    if (!s->up) return;
    world_record(world, "dup", args.dup, 14, 1);
    world_record(world, "dup_t", args.dup_t, 28, 1);
}

static void test_activations_agree(void **state)
{
    for (int form = 0; form < 32; form++)
        for (int big = 0; big < 2; big++) {
            const struct activation_shape shape = {form & 3, big ? 170 : 7, big ? 200 : 19, form & 4 ? 5 : 0,
                                                   form & 8, form & 16,     form & 4,       big ? 2 : 30};
            rivals_run(*state, run_activation, &shape);
        }
}

struct far {
    enum activation_kind kind;
    double extreme;
};

/* Far out every second derivative is zero, whatever its factors do on the way. */
static void run_far(struct world *world, const void *context)
{
    const struct far *s = context;
    const double gates[] = {-s->extreme, -1e4, -200, -40, 40, 200, 1e4, s->extreme};
    struct activation_args args = {.kind = s->kind};
    args.gate = world_zeros(world, 1, 8, 0);
    for (int i = 0; i < 8; i++) world->backend->ops->fill(world->backend, matrix_columns(args.gate, i, 1), gates[i]);
    args.gate_t = world_random(world, 1, 8, 0, 1);
    args.dy = world_random(world, 1, 8, 0, 1);
    args.dy_t = world_random(world, 1, 8, 0, 1);
    args.dgate = gradient(world, 1, 8, 0, false);
    args.dgate_t = gradient(world, 1, 8, 0, false);
    world->backend->ops->activation_backward_tangent(world->backend, &args);
    world_record(world, "dgate_t", args.dgate_t, 40, 1);
}

static void test_second_derivatives_vanish_far_out(void **state)
{
    const struct far far[] = {
        {ACTIVATION_SILU, 1e30}, {ACTIVATION_GELU, 1e30}, {ACTIVATION_GELU_TANH, 1e6}, {ACTIVATION_RELU, 1e30}};
    for (int i = 0; i < 4; i++) rivals_run(*state, run_far, &far[i]);
}

struct loss_shape {
    int64_t vocabulary, gap;
    double scale;
};

/* softmax as in the backward pass, times a difference of logits' tangents; the mean of those is a double sum of chunks
 * of 512. */
static void run_loss(struct world *world, const void *context)
{
    const struct loss_shape *s = context;
    struct test_batch batch;
    test_batch_fill(&batch, (const int64_t[]){5, 1, 30}, 3, (uint32_t)s->vocabulary);
    const int64_t rows = batch.batch.tokens;
    double losses[64], log_sum[64];
    struct cross_entropy_args args = {.targets = batch.targets, .losses = losses, .log_sum = log_sum, .weight = 0.25};
    args.logits = world_random(world, rows, s->vocabulary, s->gap, s->scale);
    args.logits_t = world_random(world, rows, s->vocabulary, 3, 1);
    world->backend->ops->cross_entropy_forward(world->backend, &args);
    world->backend->ops->cross_entropy_backward_tangent(world->backend, &args);
    const double size = world_largest(world, args.logits_t);
    world_record(world, "dlogits", args.logits, 24 + 5 * s->scale, args.weight);
    world_record(world, "dlogits_t", args.logits_t, 40 + 10 * s->scale, fmax(size, args.weight));
}

static void test_losses_agree(void **state)
{
    const struct loss_shape shapes[] = {{3, 0, 1}, {50, 6, 3}, {513, 1, 8}, {5000, 0, 2}, {20001, 0, 1}};
    for (int i = 0; i < 5; i++) rivals_run(*state, run_loss, &shapes[i]);
}

struct views {
    struct head_view q, k, v;
};

/* Directions and inputs are random; gradients hold NaN, which is overwritten. */
static struct views views_new(struct world *world, const struct attention_shape *s, int64_t tokens, bool overwritten)
{
    const int64_t d = s->head_dim;
    if (s->fused) {
        const struct matrix qkv = gradient(world, tokens, s->heads * 3 * d, 4, !overwritten);
        return (struct views){{qkv, 0, 3 * d}, {qkv, d, 3 * d}, {qkv, 2 * d, 3 * d}};
    }
    return (struct views){{gradient(world, tokens, s->heads * d, 1, !overwritten), 0, d},
                          {gradient(world, tokens, s->kv_heads * d, 2, !overwritten), 0, d},
                          {gradient(world, tokens, s->kv_heads * d, 3, !overwritten), 0, d}};
}

static struct head_view heads_new(struct world *world, const struct attention_shape *s, int64_t tokens,
                                  bool overwritten)
{
    return (struct head_view){gradient(world, tokens, s->heads * s->head_dim, 0, !overwritten), 0, s->head_dim};
}

/* See run_attention of test_cpu_attention.c for the growth of a weight. Scores' tangents are sums of two products of
 * the same size as scores: |s_t - L_t| <= 4 size scales every term that has p_t in it, and stands beside one that has
 * not. */
static void run_attention(struct world *world, const void *context)
{
    const struct attention_shape *s = context;
    static const double values = 5; /* the largest of a few thousand normal numbers */
    struct test_batch *batch = calloc(1, sizeof *batch);
    int64_t sequences = 0;
    while (s->lengths[sequences] > 0) sequences++;
    test_batch_fill(batch, s->lengths, sequences, 10);
    const int64_t tokens = batch->batch.tokens, d = s->head_dim;
    const struct views in = views_new(world, s, tokens, false), in_t = views_new(world, s, tokens, false);
    const struct views to = views_new(world, s, tokens, true), to_t = views_new(world, s, tokens, true);
    struct attention_args args = {
        .batch = &batch->batch,
        .heads = s->heads,
        .kv_heads = s->kv_heads,
        .head_dim = d,
        .window = s->window,
        .scale = s->scale,
        .q = in.q,
        .k = in.k,
        .v = in.v,
        .q_t = in_t.q,
        .k_t = in_t.k,
        .v_t = in_t.v,
        .dq = to.q,
        .dk = to.k,
        .dv = to.v,
        .dq_t = to_t.q,
        .dk_t = to_t.k,
        .dv_t = to_t.v,
    };
    args.out = heads_new(world, s, tokens, true), args.out_t = heads_new(world, s, tokens, true);
    args.dout = heads_new(world, s, tokens, false), args.dout_t = heads_new(world, s, tokens, false);
    args.log_sum = gradient(world, tokens, s->heads, 0, false),
    args.log_sum_t = gradient(world, tokens, s->heads, 1, false);
    world->backend->ops->attention_forward(world->backend, &args);
    world->backend->ops->attention_tangent(world->backend, &args);
    world->backend->ops->attention_backward_tangent(world->backend, &args);
    const double size = s->scale * ((double)d + 5 * sqrt(2 * (double)d)), keys = (double)batch->batch.longest,
                 move = 1 + 4 * size;
    const double growth = 6 * sqrt((double)d) * size + 6 * sqrt(keys) + 8;
    const double slope = s->scale * 2 * sqrt((double)d) * values,
                 shared = (double)(s->heads / s->kv_heads) * log(keys + 2);
    world_record(world, "out_t", args.out_t.matrix, growth, move * values);
    world_record(world, "log_sum_t", args.log_sum_t, growth, 2 * size);
    world_record(world, "dq", args.dq.matrix, 2 * growth, slope * values);
    world_record(world, "dk", args.dk.matrix, 2 * growth, slope * values * shared);
    world_record(world, "dv", args.dv.matrix, 2 * growth, values * shared);
    world_record(world, "dq_t", args.dq_t.matrix, 2 * growth, move * slope * values);
    world_record(world, "dk_t", args.dk_t.matrix, 2 * growth, move * slope * values * shared);
    world_record(world, "dv_t", args.dv_t.matrix, 2 * growth, move * values * shared);
    free(batch);
}

static void test_attention_agrees(void **state)
{
    for (int i = 0; i < ATTENTION_SHAPES; i++) rivals_run(*state, run_attention, &attention_shapes[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norms_agree),       cmocka_unit_test(test_norm_gradients_may_replace_what_they_come_from),
        cmocka_unit_test(test_activations_agree), cmocka_unit_test(test_second_derivatives_vanish_far_out),
        cmocka_unit_test(test_losses_agree),      cmocka_unit_test(test_attention_agrees),
    };
    return RUN_ON_ALL_MACHINES("cpu tangents", tests, rivals_open, rivals_close);
}
