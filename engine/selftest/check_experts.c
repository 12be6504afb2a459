/* check_experts.c: which experts tokens visit, their weights, and rows on their way to experts and back. Visits are
 * whole numbers and must be the same; logits are far enough apart that no rounding decides. */
#include "backend/routes.h"
#include "selftest/check.h"

#include <math.h>

static const struct expert_shape {
    int64_t tokens, experts, per_token, columns;
    bool normalise, accumulate;
} shapes[] = {
    {1, 3, 1, 5, false, false},
    {9, 5, 5, 17, true, true},
    {70, 64, 8, 24, false, false},
    {30, 300, 4, 3, true, true},
};

static struct route_args route(struct exam *exam, const struct expert_shape *s)
{
    struct route_args args = {.per_token = s->per_token, .normalise = s->normalise, .accumulate = s->accumulate};
    args.logits = exam_random(exam, s->tokens, s->experts, 0, 2);
    args.weights = exam_target(exam, s->tokens, s->per_token, 0, false);
    args.routes = exam_target(exam, s->tokens, routes_columns(s->experts, s->per_token), 0, false);
    exam->backend->ops->route_forward(exam->backend, &args);
    return args;
}

static void run_route(struct exam *exam, int64_t shape)
{
    const struct expert_shape *s = &shapes[shape];
    const struct backend_ops *ops = exam->backend->ops;
    struct route_args args = route(exam, s);
    struct matrix routes = args.routes; /* unused last columns: the parts are stored one after another */
    routes.columns = 3 * s->tokens * s->per_token + s->experts + 1, routes.rows = 1, routes.stride = routes.columns;
    const struct matrix copy = exam_target(exam, 1, routes.columns, 0, false);
    ops->add(exam->backend, copy, routes, 1, 0);
    exam_record(exam, "weights", args.weights, 8, 1);
    exam_record(exam, "visits", copy, 0, 1);
    args.dweights = exam_random(exam, s->tokens, s->per_token, 0, 1);
    args.dlogits = exam_target(exam, s->tokens, s->experts, 0, s->accumulate);
    ops->route_backward(exam->backend, &args);
    exam_record(exam, "dlogits", args.dlogits, 24, 1);
    args.logits_t = exam_random(exam, s->tokens, s->experts, 0, 1);
    args.weights_t = exam_target(exam, s->tokens, s->per_token, 0, false);
    ops->route_tangent(exam->backend, &args);
    exam_record(exam, "weights_t", args.weights_t, 24, 1);
    args.dweights_t = exam_random(exam, s->tokens, s->per_token, 0, 1);
    args.dlogits = exam_target(exam, s->tokens, s->experts, 0, s->accumulate);
    args.dlogits_t = exam_target(exam, s->tokens, s->experts, 0, s->accumulate);
    ops->route_backward_tangent(exam->backend, &args);
    exam_record(exam, "dlogits again", args.dlogits, 32, 1);
    exam_record(exam, "dlogits_t", args.dlogits_t, 48, 1);
}

/* Sums of per_token terms, and of columns. */
static void run_rows(struct exam *exam, int64_t shape)
{
    const struct expert_shape *s = &shapes[shape];
    const struct backend_ops *ops = exam->backend->ops;
    const struct route_args routing = route(exam, s);
    const double columns = sqrt((double)s->columns);
    struct experts_args args = {.per_token = s->per_token, .routes = routing.routes, .accumulate = s->accumulate};
    args.token = exam_random(exam, s->tokens, s->columns, 3, 1);
    args.sorted = exam_target(exam, s->tokens * s->per_token, s->columns, 0, s->accumulate);
    ops->experts_spread(exam->backend, &args);
    exam_record(exam, "spread", args.sorted, 2, 1);
    args.weights = routing.weights;
    ops->experts_spread(exam->backend, &args);
    exam_record(exam, "spread by weight", args.sorted, 12, 1);
    args.dot = exam_target(exam, s->tokens, s->per_token, 1, s->accumulate);
    ops->experts_dot(exam->backend, &args);
    exam_record(exam, "dot", args.dot, 12 + 6 * columns, columns);
    args.token = exam_target(exam, s->tokens, s->columns, 1, s->accumulate);
    ops->experts_collect(exam->backend, &args);
    exam_record(exam, "collected", args.token, 16 + 6 * sqrt((double)s->per_token), 1);
}

const struct check check_experts[] = {
    {"routes to experts", run_route, CHECK_COUNT(shapes), CHECK_DOUBLES, NULL},
    {"rows of experts", run_rows, CHECK_COUNT(shapes), CHECK_DOUBLES, NULL},
    {0},
};
