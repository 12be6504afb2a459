/* The fast backend's norms, rotations, activations, losses, sums and steps against the plain loops in double, and one
 * thread against three. Sums of n terms grow by the probabilistic bound 6 sqrt(n) u (Higham and Mary, SISC 41, 2019)
 * unless a line says otherwise. */
#include "engine/backend/cases.h"

struct norm_shape {
    enum norm_kind kind;
    int64_t rows, columns, groups;
    bool shared, bias, accumulate;
};

/* Backward reads 1 / sigma about 1; dx is a sum over the row, dweight over the rows of products up to 4 * 4. Epsilon is
 * large, so that one which is left out shows. */
static void run_norm(struct world *world, const void *context)
{
    const struct norm_shape *s = context;
    const int64_t parameter = s->shared ? s->columns / s->groups : s->columns;
    struct norm_args args = {.kind = s->kind, .epsilon = 0.5, .groups = s->groups, .accumulate = s->accumulate};
    args.x = world_random(world, s->rows, s->columns, 3, 2);
    world->backend->ops->add_row(world->backend, args.x, world_random(world, 1, s->columns, 0, 1));
    args.weight = world_random(world, 1, parameter, 0, 1);
    args.bias = world_random(world, 1, parameter, 0, 1);
    if (!s->bias) args.bias = (struct matrix){0};
    args.y = world_zeros(world, s->rows, s->columns, 1);
    world->backend->ops->norm_forward(world->backend, &args);
    const double row_growth = 8 + 6 * sqrt((double)(s->columns / s->groups));
    world_record(world, "y", args.y, row_growth, 1);
    args.dy = world_random(world, s->rows, s->columns, 2, 1);
    args.dx = world_random(world, s->rows, s->columns, 0, 1);
    if (!s->accumulate) world->backend->ops->fill(world->backend, args.dx, (double)NAN);
    args.dweight = world_random(world, 1, parameter, 0, 1);
    if (s->bias) args.dbias = world_random(world, 1, parameter, 0, 1);
    world->backend->ops->norm_backward(world->backend, &args);
    world_record(world, "dx", args.dx, 4 * row_growth, 1);
    const double terms = (double)(s->shared ? s->rows * s->groups : s->rows);
    world_record(world, "dweight", args.dweight, row_growth + 6 * sqrt(terms), 16 * sqrt(terms));
    if (s->bias) world_record(world, "dbias", args.dbias, 6 * sqrt(terms), 4 * sqrt(terms));
}

static void test_norms_agree(void **state)
{
    for (int form = 0; form < 16; form++) {
        const struct norm_shape shapes[] = {
            {form & 1 ? NORM_RMS : NORM_LAYER, 5, 24, 1, false, form & 2, form & 4},
            {form & 1 ? NORM_RMS : NORM_LAYER, 300, 96 * 6, 6, form & 8, form & 2, form & 4},
            {form & 1 ? NORM_RMS : NORM_LAYER, 70, 1030, 1, form & 8, form & 2, form & 4},
        };
        for (int i = 0; i < 3; i++) rivals_run(*state, run_norm, &shapes[i]);
    }
}

static void run_norm_in_place(struct world *world, const void *context)
{
    (void)context;
    struct norm_args args = {.kind = NORM_RMS, .epsilon = 1e-6, .groups = 1};
    args.x = args.y = world_random(world, 9, 70, 0, 1);
    args.weight = world_random(world, 1, 70, 0, 1);
    world->backend->ops->norm_forward(world->backend, &args);
    world_record(world, "y", args.y, 60, 1);
    args.x = world_random(world, 9, 70, 0, 1);
    args.dy = args.dx = args.y;
    world->backend->ops->norm_backward(world->backend, &args);
    world_record(world, "dx", args.dx, 240, 1);
}

static void test_norm_works_in_place_and_without_parameter_gradients(void **state)
{
    rivals_run(*state, run_norm_in_place, NULL);
}

struct rope_shape {
    int64_t heads, head_dim, rotary;
    bool inverse;
};

static void run_rope(struct world *world, const void *context)
{
    const struct rope_shape *s = context;
    struct test_batch batch;
    test_batch_fill(&batch, (const int64_t[]){40, 3, 70}, 3, 10);
    struct rope_args args = {.heads = s->heads, .rotary = s->rotary, .batch = &batch.batch, .inverse = s->inverse};
    args.x =
        (struct head_view){world_random(world, 113, s->heads * 3 * s->head_dim, 2, 1), s->head_dim, 3 * s->head_dim};
    args.cosine = world_random(world, 70, s->rotary / 2, 0, 1);
    args.sine = world_random(world, 70, s->rotary / 2, 0, 1);
    world->backend->ops->rope(world->backend, &args);
    world_record(world, "x", args.x.matrix, 3, 1);
}

static void test_rope_agrees_on_fused_heads(void **state)
{
    const struct rope_shape shapes[] = {{2, 8, 8, false}, {3, 64, 16, false}, {2, 20, 6, true}, {1, 64, 64, true}};
    for (int i = 0; i < 4; i++) rivals_run(*state, run_rope, &shapes[i]);
}

struct activation_shape {
    enum activation_kind kind;
    int64_t rows, columns, gap;
    bool up, accumulate_gate, accumulate_up;
    double scale;
};

/* gelu's tail is good to 10 u max(1, x²) relative: see kernels/level.h; times |x| dy up at most 5^3. Factors are some 4
 * roundings. */
static void run_activation(struct world *world, const void *context)
{
    const struct activation_shape *s = context;
    struct activation_args args = {
        .kind = s->kind, .accumulate_gate = s->accumulate_gate, .accumulate_up = s->accumulate_up};
    args.gate = world_random(world, s->rows, s->columns, s->gap, s->scale);
    if (s->up) args.up = world_random(world, s->rows, s->columns, s->gap, 1);
    args.y = world_zeros(world, s->rows, s->columns, 0);
    world->backend->ops->activation_forward(world->backend, &args);
    world_record(world, "activated", args.y, 14, 1);
    args.dy = world_random(world, s->rows, s->columns, s->gap, 1);
    args.dgate = world_random(world, s->rows, s->columns, 0, 1);
    args.dup = world_random(world, s->rows, s->columns, 0, 1);
    if (!s->accumulate_gate) world->backend->ops->fill(world->backend, args.dgate, (double)NAN);
    if (!s->accumulate_up && s->up) world->backend->ops->fill(world->backend, args.dup, (double)NAN);
    world->backend->ops->activation_backward(world->backend, &args);
    world_record(world, "dgate", args.dgate, 24, 1);
    world_record(world, "dup", args.dup, 14, 1);
    if (s->up) {
        args.y = args.gate; /* in place */
        world->backend->ops->activation_forward(world->backend, &args);
        world_record(world, "activated in place", args.y, 14, 1);
    }
}

static void test_activations_agree(void **state)
{
    for (int form = 0; form < 32; form++)
        for (int big = 0; big < 2; big++) {
            const struct activation_shape shape = {form & 3, big ? 400 : 7, big ? 200 : 19, form & 4 ? 5 : 0,
                                                   form & 8, form & 16,     form & 4,       big ? 2 : 30};
            rivals_run(*state, run_activation, &shape);
        }
}

struct loss_shape {
    int64_t vocabulary, gap;
    double scale;
};

/* The double sums leave the error of exp (some 4u relative) and of 512 / lanes additions; a logit of size z costs u
 * z. */
static void run_losses(struct world *world, const void *context)
{
    const struct loss_shape *s = context;
    struct test_batch batch;
    test_batch_fill(&batch, (const int64_t[]){5, 1, 30}, 3, (uint32_t)s->vocabulary);
    const int64_t rows = batch.batch.tokens;
    double *losses = world_doubles(rows), *log_sum = world_doubles(rows), *other_losses = world_doubles(rows);
    double *other_log_sum = world_doubles(rows), *kl = world_doubles(rows), *agree = world_doubles(rows);
    uint8_t agreed[64];
    struct cross_entropy_args args = {.targets = batch.targets, .losses = losses, .log_sum = log_sum, .weight = 0.25};
    args.logits = world_random(world, rows, s->vocabulary, s->gap, s->scale);
    struct cross_entropy_args other = {
        .targets = batch.targets, .losses = other_losses, .log_sum = other_log_sum, .weight = 1};
    other.logits = world_random(world, rows, s->vocabulary, 0, s->scale);
    world->backend->ops->add(world->backend, other.logits, args.logits, 1, 0.1);
    world->backend->ops->cross_entropy_forward(world->backend, &args);
    world->backend->ops->compare(world->backend,
                                 &(struct compare_args){args.logits, other.logits, batch.targets, log_sum,
                                                        other_log_sum, other_losses, kl, agreed});
    world->backend->ops->cross_entropy_backward(world->backend, &args);
    for (int64_t t = 0; t < rows; t++) agree[t] = agreed[t];
    const double bound = (12 + 5 * s->scale) * ROUNDOFF;
    world_put(world, "losses of the other", other_losses, rows, 1.1 * bound + s->scale * ROUNDOFF * 5);
    world_put(world, "log_sum of the other", other_log_sum, rows, 1.1 * bound + s->scale * ROUNDOFF * 5);
    world_put(world, "losses", losses, rows, bound);
    world_put(world, "log_sum", log_sum, rows, bound);
    /* the other logits were themselves rounded: u z in each difference of logs */
    world_put(world, "kl", kl, rows, 2 * bound + 10 * s->scale * ROUNDOFF);
    world_put(world, "agree", agree, rows, 0);
    world_record(world, "dlogits", args.logits, 24 + 5 * s->scale, args.weight);
}

static void test_losses_agree(void **state)
{
    const struct loss_shape shapes[] = {{3, 0, 1}, {50, 6, 3}, {513, 1, 8}, {5000, 0, 2}, {70001, 0, 1}};
    for (int i = 0; i < 5; i++) rivals_run(*state, run_losses, &shapes[i]);
}

struct size {
    int64_t rows, columns, gap;
};

static void run_elementwise(struct world *world, const void *context)
{
    const struct size *s = context;
    struct backend *backend = world->backend;
    const struct matrix a = world_random(world, s->rows, s->columns, s->gap, 1),
                        b = world_random(world, s->rows, s->columns, 0, 1);
    double *scalars = world_doubles(3);
    scalars[0] = backend->ops->dot(backend, a, b);
    world_put(world, "dot", scalars, 1, 1e-10 * (double)(s->rows * s->columns));
    backend->ops->add(backend, b, a, 0.5, -2);
    world_record(world, "0.5 a - 2 b", b, 4, 1);
    const struct matrix both = world_zeros(world, s->rows, s->columns, 2);
    backend->ops->sum(backend, both, a, b);
    world_record(world, "a + b", both, 5, 1);
    backend->ops->sum(backend, both, both, a);
    world_record(world, "a + b + a", both, 7, 1);
    backend->ops->scale_by_magnitude(backend, b, a, 0.25);
    world_record(world, "b (|a| + 0.25)", b, 30, 6);
    backend->ops->add_row(backend, b, world_random(world, 1, s->columns, 0, 1));
    world_record(world, "add_row", b, 5, 1);
    const struct matrix sum = world_random(world, 1, s->columns, 0, 1);
    backend->ops->sum_rows(backend, sum, a);
    world_record(world, "sum_rows", sum, 6 * sqrt((double)s->rows), 4 * sqrt((double)s->rows));
    backend->ops->fill(backend, b, (double)NAN);
    backend->ops->add(backend, b, a, 3, 0);
    world_record(world, "3 a", b, 2, 1);
    backend->ops->fill(backend, matrix_columns(b, 0, 1), 7);
    world_record(world, "filled column", b, 2, 1);
}

static void test_elementwise_agrees(void **state)
{
    const struct size sizes[] = {{1, 1, 0},      {3, 5, 2},      {200, 30, 0}, {300, 301, 7},
                                 {2, 100000, 0}, {2, 100000, 3}, {0, 5, 0}};
    for (int i = 0; i < 7; i++) rivals_run(*state, run_elementwise, &sizes[i]);
}

static void test_finite_finds_one_bad_number_anywhere(void **state)
{
    struct rivals *rivals = *state;
    const double bad[] = {(double)NAN, (double)INFINITY, (double)-INFINITY};
    struct world *worlds[] = {&rivals->truth, &rivals->one, &rivals->many};
    for (int w = 0; w < 3; w++) {
        struct backend *backend = worlds[w]->backend;
        const struct matrix m = world_random(worlds[w], 300, 401, 2, 1e30);
        assert_true(backend->ops->finite(backend, m));
        for (int i = 0; i < 3; i++) {
            const struct matrix one = matrix_columns(matrix_rows(m, 100 * i, 1), 400 - 7 * i, 1);
            backend->ops->fill(backend, one, bad[i]);
            assert_false(backend->ops->finite(backend, m));
            backend->ops->fill(backend, one, 0);
        }
        world_clear(worlds[w]);
    }
}

/* The gap between rows belongs to someone else. */
static void test_gaps_between_rows_are_left_alone(void **state)
{
    struct rivals *rivals = *state;
    struct backend *backend = rivals->many.backend;
    const struct matrix whole = world_zeros(&rivals->many, 50, 40, 0), inner = matrix_columns(whole, 3, 30);
    backend->ops->fill(backend, inner, 1);
    backend->ops->add(backend, inner, inner, 1, 1);
    double *values = world_read(&rivals->many, whole);
    for (int64_t t = 0; t < 50; t++)
        for (int64_t c = 0; c < 40; c++) assert_true(values[t * 40 + c] == (c >= 3 && c < 33 ? 2 : 0));
    free(values);
    world_clear(&rivals->many);
}

static void run_embedding(struct world *world, const void *context)
{
    const struct size *s = context;
    uint32_t ids[2000];
    for (int64_t t = 0; t < s->rows; t++) ids[t] = (uint32_t)random_below(3, 4, (uint64_t)t, 20);
    const struct matrix table = world_random(world, 20, s->columns, s->gap, 1),
                        to = world_zeros(world, s->rows, s->columns, 1);
    world->backend->ops->gather(world->backend, to, table, ids);
    world_record(world, "gathered", to, 0, 1);
    world->backend->ops->scatter_add(world->backend, table, world_random(world, s->rows, s->columns, 0, 1), ids);
    world_record(world, "table", table, 6 * sqrt((double)s->rows / 20 + 9), 4 * sqrt((double)s->rows));
}

static void test_embedding_agrees(void **state)
{
    const struct size sizes[] = {{1, 3, 0}, {100, 70, 2}, {2000, 130, 0}};
    for (int i = 0; i < 3; i++) rivals_run(*state, run_embedding, &sizes[i]);
}

/* A step is at most about `rate`; its error some 10 roundings. The bound holds the step and the parameter apart. */
static void run_adamw(struct world *world, const void *context)
{
    const int64_t count = *(const int64_t *)context;
    struct adamw_args args = {
        .count = count, .rate = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1};
    const struct matrix p = world_random(world, 1, count, 0, 0.1), g = world_random(world, 1, count, 0, 100);
    const struct matrix m = world_zeros(world, 1, count, 0), v = world_zeros(world, 1, count, 0);
    args.parameter = p.data, args.gradient = g.data, args.moment1 = m.data, args.moment2 = v.data;
    args.gradient_scale = 0.01;
    for (int step = 1; step <= 3; step++) {
        args.correction1 = 1 - pow(args.beta1, step);
        args.correction2 = 1 - pow(args.beta2, step);
        world->backend->ops->adamw(world->backend, &args);
    }
    world_record(world, "parameter", p, 6, 0);
    world_record(world, "moment1", m, 12, 1);
    world_record(world, "moment2", v, 12, 1);
}

static void test_adamw_agrees(void **state)
{
    const int64_t counts[] = {1, 17, 100003};
    for (int i = 0; i < 3; i++) rivals_run(*state, run_adamw, &counts[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norms_agree),
        cmocka_unit_test(test_norm_works_in_place_and_without_parameter_gradients),
        cmocka_unit_test(test_rope_agrees_on_fused_heads),
        cmocka_unit_test(test_activations_agree),
        cmocka_unit_test(test_losses_agree),
        cmocka_unit_test(test_elementwise_agrees),
        cmocka_unit_test(test_finite_finds_one_bad_number_anywhere),
        cmocka_unit_test(test_gaps_between_rows_are_left_alone),
        cmocka_unit_test(test_embedding_agrees),
        cmocka_unit_test(test_adamw_agrees),
    };
    return RUN_ON_ALL_MACHINES("cpu rows", tests, rivals_open, rivals_close);
}
