/* experts.c: moves rows between tokens and experts with the vectorised kernels. Routing costs little beside the
 * experts' products, so the plain loops do it, one row per task. */
#include "backend/cpu/cpu.h"
#include "backend/reference/table.h"
#include "backend/routes.h"

void cpu_route_forward(struct backend *backend, const struct route_args *args)
{
    reference_ops_float.route_forward(backend, args);
}

void cpu_route_backward(struct backend *backend, const struct route_args *args)
{
    reference_ops_float.route_backward(backend, args);
}

void cpu_route_tangent(struct backend *backend, const struct route_args *args)
{
    reference_ops_float.route_tangent(backend, args);
}

void cpu_route_backward_tangent(struct backend *backend, const struct route_args *args)
{
    reference_ops_float.route_backward_tangent(backend, args);
}

struct moving {
    const struct kernels *kernels;
    const struct experts_args *args;
};

static float visit_weight(const struct experts_args *args, int64_t a)
{
    return args->weights.data != NULL ? float_row(args->weights, a / args->per_token)[a % args->per_token] : 1;
}

static void spread_rows(void *context, int64_t first, int64_t end)
{
    const struct moving *moving = context;
    const struct experts_args *args = moving->args;
    for (int64_t r = first; r < end; r++) {
        const int64_t a = routes_at(args->routes, ROUTES_VISIT, args->per_token, r);
        moving->kernels->add(float_row(args->sorted, r), float_row(args->token, a / args->per_token),
                             args->sorted.columns, visit_weight(args, a), args->accumulate ? 1 : 0);
    }
}

void cpu_experts_spread(struct backend *backend, const struct experts_args *args)
{
    struct moving moving = {cpu_of(backend)->kernels, args};
    cpu_for_rows(backend->team, args->sorted.rows, args->sorted.columns, spread_rows, &moving);
}

static void collect_rows(void *context, int64_t first, int64_t end)
{
    const struct moving *moving = context;
    const struct experts_args *args = moving->args;
    for (int64_t t = first; t < end; t++)
        for (int64_t j = 0; j < args->per_token; j++) {
            const int64_t a = t * args->per_token + j, r = routes_at(args->routes, ROUTES_ROW, args->per_token, a);
            moving->kernels->add(float_row(args->token, t), float_row(args->sorted, r), args->token.columns,
                                 visit_weight(args, a), args->accumulate || j > 0 ? 1 : 0);
        }
}

void cpu_experts_collect(struct backend *backend, const struct experts_args *args)
{
    struct moving moving = {cpu_of(backend)->kernels, args};
    cpu_for_rows(backend->team, args->token.rows, args->token.columns * args->per_token, collect_rows, &moving);
}

static void dot_rows(void *context, int64_t first, int64_t end)
{
    const struct moving *moving = context;
    const struct experts_args *args = moving->args;
    for (int64_t t = first; t < end; t++)
        for (int64_t j = 0; j < args->per_token; j++) {
            const int64_t r = routes_at(args->routes, ROUTES_ROW, args->per_token, t * args->per_token + j);
            float *to = float_row(args->dot, t) + j;
            const float dot =
                (float)moving->kernels->dot(float_row(args->token, t), float_row(args->sorted, r), args->token.columns);
            *to = args->accumulate ? *to + dot : dot;
        }
}

void cpu_experts_dot(struct backend *backend, const struct experts_args *args)
{
    struct moving moving = {cpu_of(backend)->kernels, args};
    cpu_for_rows(backend->team, args->token.rows, args->token.columns * args->per_token, dot_rows, &moving);
}
