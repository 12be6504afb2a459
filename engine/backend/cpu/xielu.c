/* xielu.c: xIELU by parts of rows; each part has its own sums, which are added up in order. */
#include "backend/cpu/cpu.h"

#include <math.h>

enum { XIELU_PARTS = 64 };

struct parts {
    const struct kernels *kernels;
    struct xielu_run run;
    int64_t rows; /* rows per part */
    void (*body)(struct parts *parts, int64_t t, struct xielu_sums *sums);
    struct xielu_sums sums[XIELU_PARTS];
};

/* A learned number after softplus, its slope and curvature by alpha, and its tangent. */
struct learned {
    double value, slope, bend, direction;
};

static double scalar_of(struct matrix m)
{
    return m.data != NULL ? (double)*(const float *)m.data : 0;
}

static struct learned learned_of(struct matrix alpha, struct matrix alpha_t)
{
    const double a = scalar_of(alpha), slope = 1 / (1 + exp(-a));
    return (struct learned){(a > 0 ? a : 0) + log1p(exp(-fabs(a))), slope, slope * (1 - slope), scalar_of(alpha_t)};
}

static void part_task(void *context, int64_t i, int thread)
{
    (void)thread;
    struct parts *parts = context;
    struct xielu_sums sums = {0};
    for (int64_t t = i * parts->rows; t < smaller((i + 1) * parts->rows, parts->run.args->x.rows); t++)
        parts->body(parts, t, &sums);
    parts->sums[i] = sums;
}

static struct xielu_sums run(struct backend *backend, const struct xielu_args *args,
                             void (*body)(struct parts *parts, int64_t t, struct xielu_sums *sums))
{
    const struct learned p = learned_of(args->alpha_p, args->alpha_p_t), n = learned_of(args->alpha_n, args->alpha_n_t);
    const double beta = scalar_of(args->beta), epsilon = scalar_of(args->epsilon);
    struct parts parts = {.kernels = cpu_of(backend)->kernels,
                          .run = {args, (float)p.value, (float)(n.value + beta), (float)beta, (float)epsilon,
                                  (float)expm1(epsilon), (float)(p.slope * p.direction),
                                  (float)(n.slope * n.direction)},
                          .body = body};
    struct xielu_sums sums = {0};
    const int64_t tasks = ceil_divide(args->x.rows * args->x.columns, CPU_TASK_ELEMENTS);
    parts.rows = larger(1, ceil_divide(args->x.rows, larger(1, smaller(tasks, XIELU_PARTS))));
    const int64_t count = ceil_divide(args->x.rows, parts.rows);
    team_run(backend->team, count, part_task, &parts);
    for (int64_t i = 0; i < count; i++)
        for (int side = 0; side < 2; side++) {
            sums.dy_h[side] += parts.sums[i].dy_h[side];
            sums.tangent[side] += parts.sums[i].tangent[side];
        }
    return sums;
}

static void scalar_add(struct matrix to, double value)
{
    if (to.data != NULL) *(float *)to.data += (float)value;
}

static void forward_row(struct parts *parts, int64_t t, struct xielu_sums *sums)
{
    (void)sums;
    parts->kernels->xielu_forward(&parts->run, t, 0, parts->run.args->x.columns);
}

void cpu_xielu_forward(struct backend *backend, const struct xielu_args *args)
{
    (void)run(backend, args, forward_row);
}

static void backward_row(struct parts *parts, int64_t t, struct xielu_sums *sums)
{
    parts->kernels->xielu_backward(&parts->run, t, 0, parts->run.args->x.columns, sums);
}

void cpu_xielu_backward(struct backend *backend, const struct xielu_args *args)
{
    const struct xielu_sums sums = run(backend, args, backward_row);
    scalar_add(args->dalpha_p, learned_of(args->alpha_p, args->alpha_p_t).slope * sums.dy_h[0]);
    scalar_add(args->dalpha_n, learned_of(args->alpha_n, args->alpha_n_t).slope * sums.dy_h[1]);
}

static void tangent_row(struct parts *parts, int64_t t, struct xielu_sums *sums)
{
    (void)sums;
    parts->kernels->xielu_tangent(&parts->run, t, 0, parts->run.args->x.columns);
}

void cpu_xielu_tangent(struct backend *backend, const struct xielu_args *args)
{
    (void)run(backend, args, tangent_row);
}

static void backward_tangent_row(struct parts *parts, int64_t t, struct xielu_sums *sums)
{
    parts->kernels->xielu_backward_tangent(&parts->run, t, 0, parts->run.args->x.columns, sums);
}

void cpu_xielu_backward_tangent(struct backend *backend, const struct xielu_args *args)
{
    const struct xielu_sums sums = run(backend, args, backward_tangent_row);
    const struct learned p = learned_of(args->alpha_p, args->alpha_p_t), n = learned_of(args->alpha_n, args->alpha_n_t);
    scalar_add(args->dalpha_p_t, p.slope * sums.tangent[0] + p.bend * p.direction * sums.dy_h[0]);
    scalar_add(args->dalpha_n_t, n.slope * sums.tangent[1] + n.bend * n.direction * sums.dy_h[1]);
}
