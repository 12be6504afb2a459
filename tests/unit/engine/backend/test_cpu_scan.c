/* The fast backend's convolution and scan, with their tangents, against the plain loops in double, and one thread
 * against three. Sums of n terms grow by the probabilistic bound 6 sqrt(n) u (Higham and Mary, SISC 41, 2019). */
#include "engine/backend/cases.h"

static struct matrix gradient(struct world *world, int64_t rows, int64_t columns, int64_t gap, bool accumulate)
{
    const struct matrix m = world_random(world, rows, columns, gap, 1);
    if (!accumulate) world->backend->ops->fill(world->backend, m, (double)NAN);
    return m;
}

struct convolution_shape {
    int64_t lengths[8];
    int64_t columns, taps;
    bool bias, accumulate;
};

static int64_t fill(struct test_batch *batch, const int64_t *lengths)
{
    int64_t sequences = 0;
    while (lengths[sequences] > 0) sequences++;
    test_batch_fill(batch, lengths, sequences, 10);
    return batch->batch.tokens;
}

static void run_convolution(struct world *world, const void *context)
{
    const struct convolution_shape *s = context;
    struct test_batch *batch = calloc(1, sizeof *batch);
    const int64_t tokens = fill(batch, s->lengths);
    struct convolution_args args = {.batch = &batch->batch, .accumulate = s->accumulate};
    args.x = world_random(world, tokens, s->columns, 3, 1);
    args.weight = world_random(world, s->columns, s->taps, 0, 1);
    args.y = gradient(world, tokens, s->columns, 1, s->accumulate);
    args.dy = world_random(world, tokens, s->columns, 0, 1);
    args.dx = gradient(world, tokens, s->columns, 2, s->accumulate);
    args.dweight = world_random(world, s->columns, s->taps, 0, 1);
    if (s->bias)
        args.bias = world_random(world, 1, s->columns, 0, 1), args.dbias = world_random(world, 1, s->columns, 0, 1);
    world->backend->ops->convolution_forward(world->backend, &args);
    world->backend->ops->convolution_backward(world->backend, &args);
    const double terms = (double)tokens, growth = (double)s->taps + 2;
    world_record(world, "y", args.y, growth, 4);
    world_record(world, "dx", args.dx, growth, 4);
    world_record(world, "dweight", args.dweight, 6 * sqrt(terms), 4 * sqrt(terms));
    if (s->bias) world_record(world, "dbias", args.dbias, 6 * sqrt(terms), 4 * sqrt(terms));
    free(batch);
}

static void test_convolutions_agree(void **state)
{
    const struct convolution_shape shapes[] = {
        {{1}, 1, 1, true, false},        {{3, 1, 2, 9}, 5, 4, true, true},
        {{70, 2}, 64, 4, false, false},  {{600, 3, 40}, 130, 4, true, false},
        {{5, 1, 17}, 67, 3, true, true}, {{30, 2, 1}, 20, 9, false, true},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) rivals_run(*state, run_convolution, &shapes[i]);
}

struct scan_shape {
    int64_t lengths[8];
    int64_t heads, head_dim, groups, states;
    bool shared, bias, wanted;
    double most;
    double decay; /* a_log is about its logarithm */
};

static void scan_inputs(struct world *world, const struct scan_shape *s, struct scan_args *args, int64_t tokens)
{
    const int64_t channels = s->heads * s->head_dim, pair = 2 * s->groups * s->states,
                  kept = scan_kept_columns(channels, s->states);
    const int64_t rows = s->shared ? 1 : s->heads, columns = s->shared ? s->heads : s->states;
    args->heads = s->heads, args->groups = s->groups, args->states = s->states, args->step_most = s->most;
    args->x = world_random(world, tokens, channels, 3, 1), args->x_t = world_random(world, tokens, channels, 0, 1);
    args->step = world_random(world, tokens, s->heads, 1, 1),
    args->step_t = world_random(world, tokens, s->heads, 0, 1);
    args->bc = world_random(world, tokens, pair, 5, 1), args->bc_t = world_random(world, tokens, pair, 0, 1);
    args->dy = world_random(world, tokens, channels, 1, 1), args->dy_t = world_random(world, tokens, channels, 2, 1);
    args->a_log = world_random(world, rows, columns, 0, 0.5), args->a_log_t = world_random(world, rows, columns, 0, 1);
    struct matrix ones = world_zeros(world, 1, columns, 0);
    world->backend->ops->fill(world->backend, ones, log(s->decay));
    world->backend->ops->add_row(world->backend, args->a_log, ones);
    args->skip = world_random(world, 1, s->heads, 0, 1), args->skip_t = world_random(world, 1, s->heads, 0, 1);
    if (s->bias)
        args->step_bias = world_random(world, 1, s->heads, 0, 1),
        args->step_bias_t = world_random(world, 1, s->heads, 0, 1);
    struct matrix *const scratch[] = {&args->kept, &args->kept_t, &args->dkept, &args->dkept_t};
    for (int i = 0; i < 4; i++) *scratch[i] = gradient(world, tokens, kept, 0, false);
}

static void scan_outputs(struct world *world, const struct scan_shape *s, struct scan_args *args, int64_t tokens)
{
    const int64_t channels = s->heads * s->head_dim, pair = 2 * s->groups * s->states;
    args->y = gradient(world, tokens, channels, 0, false), args->y_t = gradient(world, tokens, channels, 2, false);
    args->dx = gradient(world, tokens, channels, 4, false), args->dx_t = gradient(world, tokens, channels, 1, false);
    args->dstep = gradient(world, tokens, s->heads, 0, false),
    args->dstep_t = gradient(world, tokens, s->heads, 1, false);
    args->dbc = gradient(world, tokens, pair, 2, false), args->dbc_t = gradient(world, tokens, pair, 0, false);
    if (!s->wanted) return;
    struct matrix *const sums[] = {&args->da_log,  &args->da_log_t,   &args->dskip,
                                   &args->dskip_t, &args->dstep_bias, &args->dstep_bias_t};
    for (int i = 0; i < (s->bias ? 6 : 4); i++)
        *sums[i] = gradient(world, i < 2 ? args->a_log.rows : 1, i < 2 ? args->a_log.columns : s->heads, 0, true);
}

/* A state forgets at a rate of delta A, so it is a sum of about `memory` terms, and so is the gradient of one; the
 * exponents carry the rounding of delta A <= 8 decay. Tangents multiply each term by directions of delta A. */
static void run_scan(struct world *world, const void *context)
{
    const struct scan_shape *s = context;
    struct test_batch *batch = calloc(1, sizeof *batch);
    const int64_t tokens = fill(batch, s->lengths);
    struct scan_args args = {.batch = &batch->batch};
    scan_inputs(world, s, &args, tokens);
    scan_outputs(world, s, &args, tokens);
    world->backend->ops->scan_forward(world->backend, &args);
    world->backend->ops->scan_tangent(world->backend, &args);
    world_record(world, "y", args.y, 0, 0), world_record(world, "y_t", args.y_t, 0, 0);
    world->backend->ops->scan_backward(world->backend, &args);
    world_record(world, "dx alone", args.dx, 0, 0), world_record(world, "dbc alone", args.dbc, 0, 0);
    if (s->wanted) world_record(world, "da_log", args.da_log, 0, 0), world_record(world, "dskip", args.dskip, 0, 0);
    world->backend->ops->scan_backward_tangent(world->backend, &args);
    const struct matrix all[] = {args.dx, args.dx_t, args.dstep, args.dstep_t, args.dbc, args.dbc_t};
    static const char *const names[] = {"dx", "dx_t", "dstep", "dstep_t", "dbc", "dbc_t"};
    for (int i = 0; i < 6; i++) world_record(world, names[i], all[i], 0, 0);
    if (s->wanted)
        world_record(world, "da_log_t", args.da_log_t, 0, 0), world_record(world, "dskip_t", args.dskip_t, 0, 0);
    if (s->wanted && s->bias) world_record(world, "dstep_bias_t", args.dstep_bias_t, 0, 0);
    const double memory = fmin((double)batch->batch.longest, 4 / s->decay),
                 sums = (double)(s->states + s->head_dim + s->heads);
    const double growth = 24 + 16 * s->decay + 6 * sqrt(memory) + 6 * sqrt(sums);
    for (int i = 0; i < world->output_count; i++)
        world->outputs[i].bound =
            growth * ROUNDOFF * fmax(1, largest_size(world->outputs[i].values, world->outputs[i].count));
    free(batch);
}

static void test_scans_agree(void **state)
{
    const struct scan_shape shapes[] = {
        {{1}, 1, 1, 1, 1, false, false, true, INFINITY, 1},
        {{5, 1, 70}, 20, 1, 1, 4, false, false, true, INFINITY, 1},
        {{200, 64, 65}, 37, 1, 1, 3, false, true, true, INFINITY, 0.3},
        {{130}, 600, 1, 1, 2, false, false, false, INFINITY, 1}, /* several tasks */
        {{3, 90}, 6, 5, 2, 7, true, true, true, INFINITY, 0.5},
        {{140, 2}, 4, 20, 2, 16, true, true, true, 0.9, 0.5},
        {{80}, 70, 4, 1, 3, true, true, false, INFINITY, 2},
        {{66}, 3, 9, 3, 2, false, true, true, INFINITY, 1},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) rivals_run(*state, run_scan, &shapes[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convolutions_agree),
        cmocka_unit_test(test_scans_agree),
    };
    return RUN_ON_ALL_MACHINES("cpu scan", tests, rivals_open, rivals_close);
}
