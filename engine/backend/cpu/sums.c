/* sums.c: reductions over rows: sum_rows, and the norms' backward pass with the gradients of weight and bias. The rows
 * are cut into at most CPU_PARTIALS groups, each sums into its own row of scratch, and those are added up in order.
 * Very wide rows are cut into strips of columns instead, which need no scratch. */
#include "backend/cpu/cpu.h"

#include <assert.h>

struct sums {
    const struct cpu *cpu;
    int64_t rows, step;
    int64_t width; /* floats of scratch per group */
    struct matrix from;
    const struct norm_args *norm;
    float *to[2]; /* sum i takes columns [offset[i], offset[i + 1]) of the scratch */
    int64_t offset[3];
};

static void sums_plan(struct sums *sums, int64_t rows, int64_t columns)
{
    const int64_t groups = smaller(CPU_PARTIALS, larger(1, rows * columns / CPU_TASK_ELEMENTS));
    sums->rows = rows;
    sums->step = larger(1, ceil_divide(rows, groups));
}

static int64_t sums_groups(const struct sums *sums)
{
    return ceil_divide(sums->rows, sums->step);
}

/* The final addition goes by strips of columns, so that the team shares it. */
enum { STRIP = 2048 };

static void add_strip(void *context, int64_t strip, int thread)
{
    (void)thread;
    const struct sums *sums = context;
    for (int i = 0; i < 2; i++) {
        const int64_t columns = sums->offset[i + 1] - sums->offset[i], first = strip * STRIP;
        const int64_t count = smaller(STRIP, columns - first);
        for (int64_t group = 0; count > 0 && group < sums_groups(sums); group++)
            sums->cpu->kernels->add(sums->to[i] + first,
                                    sums->cpu->partials + group * sums->width + sums->offset[i] + first, count, 1, 1);
    }
}

static void run_groups(struct backend *backend, struct sums *sums,
                       void (*body)(void *context, int64_t group, int thread))
{
    sums->width = sums->offset[2];
    assert(sums->width <= 2 * sums->cpu->partial_columns); /* prepare was given the widest row */
    team_run(backend->team, sums_groups(sums), body, sums);
    const int64_t widest = larger(sums->offset[1], sums->offset[2] - sums->offset[1]);
    team_run(backend->team, ceil_divide(widest, STRIP), add_strip, sums);
}

static void sum_group(void *context, int64_t group, int thread)
{
    (void)thread;
    const struct sums *sums = context;
    const int64_t first = group * sums->step, end = smaller(first + sums->step, sums->rows);
    float *to = sums->cpu->partials + group * sums->width;
    sums->cpu->kernels->add(to, float_row(sums->from, first), sums->from.columns, 1, 0);
    for (int64_t t = first + 1; t < end; t++)
        sums->cpu->kernels->add(to, float_row(sums->from, t), sums->from.columns, 1, 1);
}

static void sum_strip(void *context, int64_t strip, int thread)
{
    (void)thread;
    const struct sums *sums = context;
    const int64_t first = strip * STRIP, count = smaller(STRIP, sums->from.columns - first);
    for (int64_t t = 0; t < sums->rows; t++)
        sums->cpu->kernels->add(sums->to[0] + first, float_row(sums->from, t) + first, count, 1, 1);
}

void cpu_sum_rows(struct backend *backend, struct matrix to_row, struct matrix from)
{
    struct sums sums = {
        .cpu = cpu_of(backend), .from = from, .to = {to_row.data}, .offset = {0, from.columns, from.columns}};
    sums_plan(&sums, from.rows, from.columns);
    if (from.columns > CPU_LEAST_PARTIAL)
        team_run(backend->team, ceil_divide(from.columns, STRIP), sum_strip, &sums);
    else
        run_groups(backend, &sums, sum_group);
}

static void norm_group(void *context, int64_t group, int thread)
{
    (void)thread;
    const struct sums *sums = context;
    const int64_t first = group * sums->step, end = smaller(first + sums->step, sums->rows);
    float *dweight = sums->cpu->partials + group * sums->width, *dbias = dweight + sums->offset[1];
    sums->cpu->kernels->fill(dweight, sums->width, 0);
    sums->cpu->kernels->norm_backward(sums->norm, first, end, sums->to[0] != NULL ? dweight : NULL,
                                      sums->to[1] != NULL ? dbias : NULL);
}

void cpu_norm_backward(struct backend *backend, const struct norm_args *args)
{
    struct sums sums = {.cpu = cpu_of(backend), .norm = args, .to = {args->dweight.data, args->dbias.data}};
    sums.offset[1] = args->dweight.data != NULL ? args->dweight.columns : 0;
    sums.offset[2] = sums.offset[1] + (args->dbias.data != NULL ? args->dbias.columns : 0);
    sums_plan(&sums, args->x.rows, args->x.columns);
    run_groups(backend, &sums, norm_group);
}

static void norm_tangent_group(void *context, int64_t group, int thread)
{
    (void)thread;
    const struct sums *sums = context;
    const int64_t first = group * sums->step, end = smaller(first + sums->step, sums->rows);
    float *dweight_t = sums->cpu->partials + group * sums->width, *dbias_t = dweight_t + sums->offset[1];
    sums->cpu->kernels->fill(dweight_t, sums->width, 0);
    sums->cpu->kernels->norm_backward_tangent(sums->norm, first, end, sums->to[0] != NULL ? dweight_t : NULL,
                                              sums->to[1] != NULL ? dbias_t : NULL);
}

void cpu_norm_backward_tangent(struct backend *backend, const struct norm_args *args)
{
    struct sums sums = {.cpu = cpu_of(backend), .norm = args, .to = {args->dweight_t.data, args->dbias_t.data}};
    sums.offset[1] = args->dweight_t.data != NULL ? args->dweight_t.columns : 0;
    sums.offset[2] = sums.offset[1] + (args->dbias_t.data != NULL ? args->dbias_t.columns : 0);
    sums_plan(&sums, args->x.rows, args->x.columns);
    run_groups(backend, &sums, norm_tangent_group);
}
