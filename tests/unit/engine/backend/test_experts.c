/* Routing and the rows of experts: what goes where on the plain loops, and the fast backend against them in double, one
 * thread against three. The four passes of whole mixtures are held to differences as parts of models. */
#include "backend/routes.h"
#include "engine/backend/cases.h"

struct shape {
    int64_t tokens, experts, per_token, columns;
    bool normalise, accumulate;
};

static void route(struct world *world, const struct shape *s, struct route_args *args)
{
    *args = (struct route_args){.per_token = s->per_token, .normalise = s->normalise, .accumulate = s->accumulate};
    args->logits = world_random(world, s->tokens, s->experts, 0, 2);
    args->weights = world_zeros(world, s->tokens, s->per_token, 0);
    args->routes = world_zeros(world, s->tokens, routes_columns(s->experts, s->per_token), 0);
    world->backend->ops->route_forward(world->backend, args);
}

static void run_route(struct world *world, const void *context)
{
    const struct shape *s = context;
    const struct backend_ops *ops = world->backend->ops;
    struct route_args args;
    route(world, s, &args);
    world_record(world, "weights", args.weights, 8, 1);
    world_record(world, "routes", args.routes, 0, 1); /* whole numbers */
    args.dweights = world_random(world, s->tokens, s->per_token, 0, 1);
    args.dlogits = world_random(world, s->tokens, s->experts, 0, 1);
    ops->route_backward(world->backend, &args);
    world_record(world, "dlogits", args.dlogits, 24, 1);
    args.logits_t = world_random(world, s->tokens, s->experts, 0, 1);
    args.weights_t = world_zeros(world, s->tokens, s->per_token, 0);
    ops->route_tangent(world->backend, &args);
    world_record(world, "weights_t", args.weights_t, 24, 1);
    args.dweights_t = world_random(world, s->tokens, s->per_token, 0, 1);
    args.dlogits_t = world_random(world, s->tokens, s->experts, 0, 1);
    ops->route_backward_tangent(world->backend, &args);
    world_record(world, "dlogits again", args.dlogits, 32, 1);
    world_record(world, "dlogits_t", args.dlogits_t, 48, 1);
}

/* Sums of per_token terms, and of columns. */
static void run_rows(struct world *world, const void *context)
{
    const struct shape *s = context;
    const struct backend_ops *ops = world->backend->ops;
    struct route_args routing;
    route(world, s, &routing);
    struct experts_args args = {.per_token = s->per_token, .routes = routing.routes, .accumulate = s->accumulate};
    args.token = world_random(world, s->tokens, s->columns, 3, 1);
    args.sorted = world_random(world, s->tokens * s->per_token, s->columns, 0, 1);
    if (!s->accumulate) ops->fill(world->backend, args.sorted, (double)NAN);
    ops->experts_spread(world->backend, &args);
    world_record(world, "spread", args.sorted, 2, 1);
    args.weights = routing.weights;
    ops->experts_spread(world->backend, &args);
    world_record(world, "spread weighed", args.sorted, 12, 1);
    args.dot = world_random(world, s->tokens, s->per_token, 1, 1);
    ops->experts_dot(world->backend, &args);
    world_record(world, "dot", args.dot, 12 + 6 * sqrt((double)s->columns), sqrt((double)s->columns));
    if (!s->accumulate) ops->fill(world->backend, args.token, (double)NAN);
    ops->experts_collect(world->backend, &args);
    world_record(world, "collect", args.token, 16 + 6 * sqrt((double)s->per_token), 1);
}

static const struct shape shapes[] = {
    {1, 3, 1, 5, false, false},     {9, 5, 2, 17, false, true},    {9, 5, 5, 17, true, false},
    {700, 64, 8, 96, false, false}, {300, 12, 3, 400, true, true}, {30, 300, 4, 3, true, false},
};

static void test_routes_agree(void **state)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) rivals_run(*state, run_route, &shapes[i]);
}

static void test_rows_agree(void **state)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) rivals_run(*state, run_rows, &shapes[i]);
}

static void test_rows_of_an_expert_stand_together_in_order(void **state)
{
    (void)state;
    struct error error;
    struct world world = {.seed = 3};
    struct route_args args;
    const struct shape s = {50, 7, 3, 1, false, false};
    assert_int_equal(backend_reference_new(true, NULL, &world.backend, &error), STATUS_OK);
    route(&world, &s, &args);
    assert_int_equal(routes_at(args.routes, ROUTES_START, 3, 0), 0);
    assert_int_equal(routes_at(args.routes, ROUTES_START, 3, 7), 150);
    for (int64_t e = 0; e < 7; e++) {
        const int64_t first = routes_at(args.routes, ROUTES_START, 3, e),
                      end = routes_at(args.routes, ROUTES_START, 3, e + 1);
        for (int64_t r = first; r < end; r++) {
            const int64_t visit = routes_at(args.routes, ROUTES_VISIT, 3, r);
            assert_int_equal(routes_at(args.routes, ROUTES_EXPERT, 3, visit), e);
            assert_int_equal(routes_at(args.routes, ROUTES_ROW, 3, visit), r);
            if (r > first)
                assert_true(visit / 3 > routes_at(args.routes, ROUTES_VISIT, 3, r - 1) / 3); /* no token twice */
        }
    }
    world_clear(&world);
    backend_free(world.backend);
}

/* Rows of 40 logits, 0 where nothing is said, and the two that are chosen: of equals the first; NaN only from the first
 * place among those left, so that a row of NaN still goes somewhere, to different experts. */
static const struct {
    double everywhere;
    int at[2];
    double value[2];
    int64_t chosen[2];
} picks[] = {
    {0, {0, 0}, {0, 0}, {0, 1}},
    {0, {35, 3}, {2, 2}, {3, 35}},
    {0, {33, 39}, {3, 2}, {33, 39}},
    {(double)NAN, {0, 0}, {(double)NAN, (double)NAN}, {0, 1}},
    {0, {1, 38}, {(double)NAN, 1}, {38, 0}},
    {0, {0, 38}, {(double)NAN, 1}, {0, 38}},
    {-(double)INFINITY, {20, 20}, {1, 1}, {20, 0}},
};
enum { PICKS = sizeof picks / sizeof picks[0] };

static void test_ties_and_nan_choose_the_first(void **state)
{
    struct rivals *rivals = *state;
    struct world *worlds[] = {&rivals->truth, &rivals->one, &rivals->many};
    double logits[PICKS][40];
    for (int t = 0; t < PICKS; t++) {
        for (int e = 0; e < 40; e++) logits[t][e] = picks[t].everywhere;
        for (int i = 0; i < 2; i++) logits[t][picks[t].at[i]] = picks[t].value[i];
    }
    for (int i = 0; i < 3; i++) {
        struct world *world = worlds[i];
        struct route_args args = {.per_token = 2};
        args.logits = world_zeros(world, PICKS, 40, 3);
        args.weights = world_zeros(world, PICKS, 2, 1);
        args.routes = world_zeros(world, PICKS, routes_columns(40, 2), 0);
        world->backend->ops->upload(world->backend, args.logits, logits, DTYPE_F64);
        world->backend->ops->route_forward(world->backend, &args);
        double *routes = world_read(world, args.routes), *weights = world_read(world, args.weights);
        for (int t = 0; t < PICKS; t++)
            for (int j = 0; j < 2; j++)
                assert_int_equal((int64_t)routes[ROUTES_EXPERT * 2 * PICKS + 2 * t + j], picks[t].chosen[j]);
        assert_true(fabs(weights[0] - 0.025) < 1e-8 && weights[0] == weights[1] && isnan(weights[6]) &&
                    isnan(weights[7]));
        assert_true(weights[12] == 1 && weights[13] == 0);
        free(routes);
        free(weights);
        world_clear(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_routes_agree),
        cmocka_unit_test(test_rows_agree),
        cmocka_unit_test(test_rows_of_an_expert_stand_together_in_order),
        cmocka_unit_test(test_ties_and_nan_choose_the_first),
    };
    return RUN_ON_ALL_MACHINES("experts", tests, rivals_open, rivals_close);
}
