/* The fast backend's xIELU against the plain loops in double, and one thread against three: near zero, where e^x - 1 -
 * x would lose its digits, around the step at epsilon, and far out. The plain loops themselves are held to differences
 * as parts of models. */
#include "engine/backend/cases.h"

struct shape {
    int64_t rows, columns, gap;
    double scale;
    bool accumulate;
};

static struct matrix number(struct world *world, double value)
{
    const struct matrix m = world_zeros(world, 1, 1, 0);
    world->backend->ops->fill(world->backend, m, value);
    return m;
}

static struct matrix gradient(struct world *world, const struct shape *s)
{
    const struct matrix m = world_random(world, s->rows, s->columns, s->gap, 1);
    if (!s->accumulate) world->backend->ops->fill(world->backend, m, (double)NAN);
    return m;
}

/* Values are a few roundings of their terms; sums of n elements grow by 6 sqrt(n) u (Higham and Mary, SISC 41,
 * 2019). */
static void run_xielu(struct world *world, const void *context)
{
    const struct shape *s = context;
    const struct backend_ops *ops = world->backend->ops;
    const double terms = sqrt((double)(s->rows * s->columns)), size = 1 + s->scale * s->scale;
    struct xielu_args args = {.alpha_p = number(world, 0.3),
                              .alpha_n = number(world, -0.8),
                              .beta = number(world, 0.5),
                              .epsilon = number(world, -0x1p-20),
                              .accumulate = s->accumulate};
    args.x = world_random(world, s->rows, s->columns, s->gap, s->scale);
    args.y = world_zeros(world, s->rows, s->columns, 0);
    ops->xielu_forward(world->backend, &args);
    world_record(world, "y", args.y, 16, 0);
    args.dy = world_random(world, s->rows, s->columns, s->gap, 1);
    args.dx = gradient(world, s);
    args.dalpha_p = number(world, 1);
    args.dalpha_n = number(world, -1);
    ops->xielu_backward(world->backend, &args);
    world_record(world, "dx", args.dx, 24, 1);
    world_record(world, "dalpha_p", args.dalpha_p, 16 + 6 * terms, 4 * size);
    world_record(world, "dalpha_n", args.dalpha_n, 16 + 6 * terms, 4 * size);
    args.x_t = world_random(world, s->rows, s->columns, 0, 1);
    args.alpha_p_t = number(world, 0.7);
    args.alpha_n_t = number(world, -1.1);
    args.y_t = world_zeros(world, s->rows, s->columns, 3);
    ops->xielu_tangent(world->backend, &args);
    world_record(world, "y_t", args.y_t, 32, 1);
    args.dy_t = world_random(world, s->rows, s->columns, 0, 1);
    args.dx = gradient(world, s);
    args.dx_t = gradient(world, s);
    args.dalpha_p_t = number(world, 0);
    args.dalpha_n_t = number(world, 2);
    ops->xielu_backward_tangent(world->backend, &args);
    world_record(world, "dx again", args.dx, 24, 1);
    world_record(world, "dx_t", args.dx_t, 40, 1);
    world_record(world, "dalpha_p_t", args.dalpha_p_t, 16 + 6 * terms, 8 * size);
    world_record(world, "dalpha_n_t", args.dalpha_n_t, 16 + 6 * terms, 8 * size);
    args.y = args.x; /* in place */
    ops->xielu_forward(world->backend, &args);
    world_record(world, "y in place", args.y, 16, 0);
}

static void test_xielu_agrees(void **state)
{
    static const double scales[] = {1, 1e-3, 1e-6, 30};
    for (int form = 0; form < 8; form++)
        for (int big = 0; big < 2; big++) {
            const struct shape shape = {big ? 300 : 7, big ? 420 : 19, form & 4 ? 5 : 0, scales[form & 3], form & 4};
            rivals_run(*state, run_xielu, &shape);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_xielu_agrees)};
    return RUN_ON_ALL_MACHINES("xielu", tests, rivals_open, rivals_close);
}
