/* inputs.c: rounds inputs row by row, and applies Hadamard transforms to panels of vectors. */
#include "backend/cpu/cpu.h"

#include <math.h>
#include <string.h>

enum { MARK_STRIP = 256 };

static void mark_strip(void *context, int64_t task, int thread)
{
    (void)thread;
    const struct round_rows_args *args = context;
    const int64_t first = task * MARK_STRIP, last = smaller(first + MARK_STRIP, args->x.columns);
    const float threshold = (float)args->threshold;
    for (int64_t c = first; c < last; c++) args->left[c] = 0;
    for (int64_t t = 0; t < args->x.rows; t++) {
        const float *x = float_row(args->x, t);
        for (int64_t c = first; c < last; c++)
            if (fabsf(x[c]) >= threshold) args->left[c] = 1;
    }
}

/* Largest magnitude of the columns that are rounded; `to` has the values. */
static float row_maximum(const struct round_rows_args *args, const float *to)
{
    const float threshold = args->threshold > 0 ? (float)args->threshold : INFINITY;
    float most = 0;
    if (args->spared == NULL && args->threshold == 0) {
#pragma omp simd reduction(max : most)
        for (int64_t c = 0; c < args->x.columns; c++) most = fabsf(to[c]) > most ? fabsf(to[c]) : most;
        return most;
    }
    for (int64_t c = 0; c < args->x.columns; c++) {
        const bool out = args->exact ? args->left[c] != 0 : fabsf(to[c]) >= threshold;
        if (!out && (args->spared == NULL || !args->spared[c])) most = fmaxf(most, fabsf(to[c]));
    }
    return most;
}

static void keep_outliers(const struct round_rows_args *args, const float *x, float *outliers)
{
    for (int64_t c = 0; c < args->x.columns; c++) {
        const bool left = args->threshold > 0 && args->left[c];
        outliers[c] = left && (args->spared == NULL || !args->spared[c]) ? x[c] : 0;
    }
}

static void round_row(void *context, int64_t t, int thread)
{
    (void)thread;
    const struct round_rows_args *args = context;
    const float *x = float_row(args->x, t), *smoothing = args->smoothing;
    float *to = float_row(args->to, t);
    const int64_t columns = args->x.columns;
    const float top = (float)((1 << (args->bits - 1)) - 1);
#pragma omp simd
    for (int64_t c = 0; c < columns; c++) to[c] = smoothing == NULL ? x[c] : x[c] / smoothing[c];
    const float most = row_maximum(args, to), step = most / top;
#pragma omp simd
    for (int64_t c = 0; c < columns; c++) {
        const float code = most > 0 ? rintf(top * to[c] / most) : to[c] == to[c] ? 0 : to[c];
        to[c] = code * step;
        if (smoothing != NULL) to[c] *= smoothing[c];
    }
    for (int64_t c = 0; c < columns && args->threshold > 0; c++)
        if (args->left[c]) to[c] = args->exact ? 0 : x[c];
    for (int64_t c = 0; c < columns && args->spared != NULL; c++)
        if (args->spared[c]) to[c] = x[c];
    if (args->outliers.data != NULL) keep_outliers(args, x, float_row(args->outliers, t));
}

void cpu_round_rows(struct backend *backend, const struct round_rows_args *args)
{
    struct round_rows_args job = *args;
    if (args->threshold > 0) team_run(backend->team, ceil_divide(args->x.columns, MARK_STRIP), mark_strip, &job);
    team_run(backend->team, args->x.rows, round_row, &job);
}

enum { PANEL = HADAMARD_PANEL };

/* Butterflies within each run of `power` places of [count, PANEL]. */
static void sylvester(double *v, int64_t count, int64_t power)
{
    for (int64_t half = 1; half < power; half *= 2)
        for (int64_t i = 0; i < count; i += 2 * half)
            for (int64_t j = i; j < i + half; j++) {
                double *a = v + j * PANEL, *b = a + half * PANEL;
#pragma omp simd
                for (int p = 0; p < PANEL; p++) {
                    const double sum = a[p] + b[p];
                    b[p] = a[p] - b[p];
                    a[p] = sum;
                }
            }
}

/* y[j] = sum over i of v[i] P[i, j] (P[j, i] for the inverse), for the places i * power + offset. */
static void paley_product(const struct hadamard_args *args, double *v, int64_t offset)
{
    const int64_t order = args->order, stride = args->power * PANEL;
    double y[HADAMARD_ORDER * PANEL] = {0};
    for (int64_t i = 0; i < order; i++) {
        const double *from = v + i * stride + offset * PANEL;
        for (int64_t j = 0; j < order; j++) {
            const double entry = args->inverse ? args->paley[j * order + i] : args->paley[i * order + j];
#pragma omp simd
            for (int p = 0; p < PANEL; p++) y[j * PANEL + p] += entry * from[p];
        }
    }
    for (int64_t i = 0; i < order; i++) memcpy(v + i * stride + offset * PANEL, y + i * PANEL, PANEL * sizeof(double));
}

struct transform {
    const struct hadamard_args *args;
    int64_t size, vectors;
    int64_t along, across;       /* x: elements from a number of a vector to the next, and from a vector to the next */
    int64_t to_along, to_across; /* likewise for `to` */
};

/* Subtracts the mean from each of a panel's vectors, which are multiplied by their signs already. */
static void centre(double *v, int64_t size, const float *sign)
{
    double mean[PANEL] = {0};
    for (int64_t i = 0; i < size; i++)
        for (int p = 0; p < PANEL; p++) mean[p] += (sign == NULL ? 1 : (double)sign[i]) * v[i * PANEL + p];
    for (int p = 0; p < PANEL; p++) mean[p] /= (double)size;
    for (int64_t i = 0; i < size; i++)
        for (int p = 0; p < PANEL; p++) {
            const double part = (sign == NULL ? 1 : (double)sign[i]) * mean[p];
            v[i * PANEL + p] = (double)(float)(v[i * PANEL + p] - part);
        }
}

static void transform_panel(void *context, int64_t panel, int thread)
{
    const struct transform *job = context;
    const struct hadamard_args *args = job->args;
    const int64_t size = job->size, first = panel * PANEL, left = job->vectors - first;
    const int count = left < PANEL ? (int)left : PANEL;
    const double norm = 1 / sqrt((double)(args->order * args->power));
    double *v = args->scratch + (int64_t)thread * size * PANEL;
    const float *x = (const float *)args->x.data + first * job->across;
    float *to = (float *)args->to.data + first * job->to_across;
    for (int64_t i = 0; i < size; i++) {
        const double sign = args->sign == NULL || args->inverse ? 1 : (double)args->sign[i];
        for (int p = 0; p < PANEL; p++)
            v[i * PANEL + p] = p < count ? sign * (double)x[i * job->along + p * job->across] : 0;
    }
    if (args->centred) centre(v, size, args->sign);
    sylvester(v, size, args->power);
    for (int64_t offset = 0; offset < args->power && args->order > 1; offset++) paley_product(args, v, offset);
    for (int64_t i = 0; i < size; i++) {
        const double factor = args->sign == NULL || !args->inverse ? norm : norm * (double)args->sign[i];
        for (int p = 0; p < count; p++) to[i * job->to_along + p * job->to_across] = (float)(factor * v[i * PANEL + p]);
    }
}

void cpu_hadamard(struct backend *backend, const struct hadamard_args *args)
{
    struct transform job = {args, args->x.columns, args->x.rows, 1, args->x.stride, 1, args->to.stride};
    if (args->columns)
        job = (struct transform){args, args->x.rows, args->x.columns, args->x.stride, 1, args->to.stride, 1};
    team_run(backend->team, ceil_divide(job.vectors, PANEL), transform_panel, &job);
}

struct products_job {
    struct matrix to, x, by;
};

static void add_rows(void *context, int64_t first, int64_t end)
{
    const struct products_job *job = context;
    const float *by = job->by.data;
    float *to = job->to.data;
    for (int64_t r = first; r < end; r++) {
        const float *x = float_row(job->x, r);
        double sum = 0;
        for (int64_t c = 0; c < job->x.columns; c++) sum += (double)x[c] * (double)by[c];
        to[r] = (float)((double)to[r] + sum);
    }
}

void cpu_add_products(struct backend *backend, struct matrix to, struct matrix x, struct matrix by)
{
    struct products_job job = {to, x, by};
    cpu_for_rows(backend->team, x.rows, x.columns, add_rows, &job);
}
