/* inputs.h: kernels of reference/inputs.c; backend/codes.h has the equations. */
#ifndef BACKEND_CUDA_KERNELS_INPUTS_H
#define BACKEND_CUDA_KERNELS_INPUTS_H

#include "backend/cuda/kernels/elementwise.h"

/* Threads that find an outlier in the same column write the same byte. */
KERNEL(round_mark, round_rows_args)
{
    EACH_ELEMENT(i, args->x.rows * args->x.columns)
    {
        if (fabsf(*element_of(args->x, i)) >= (float)args->threshold) args->left[i % args->x.columns] = 1;
    }
}

DEVICE float round_smoothed(const struct round_rows_args *args, const float *x, int64_t c)
{
    return args->smoothing == NULL ? x[c] : x[c] / args->smoothing[c];
}

/* Whether column c of a row counts for the row's maximum. */
DEVICE bool round_counts(const struct round_rows_args *args, int64_t c, float smoothed)
{
    if (args->spared != NULL && args->spared[c]) return false;
    if (args->threshold == 0) return true;
    return args->exact ? !args->left[c] : !(fabsf(smoothed) >= (float)args->threshold);
}

/* One row per block. */
KERNEL(round_rows, round_rows_args)
{
    SHARED double shared[KERNEL_THREADS];
    PRIVATE(double, largest);
    const int64_t columns = args->x.columns;
    const float *x = row_of(args->x, grid->block);
    EACH_THREAD(thread)
    {
        float most = 0;
        for (int64_t c = thread; c < columns; c += KERNEL_THREADS) {
            const float smoothed = round_smoothed(args, x, c);
            if (round_counts(args, c, smoothed) && fabsf(smoothed) > most) most = fabsf(smoothed);
        }
        largest[MINE(thread)] = (double)most;
    }
    const float most = (float)block_largest(grid, largest, shared), top = (float)((1 << (args->bits - 1)) - 1);
    EACH_THREAD(thread)
    {
        for (int64_t c = thread; c < columns; c += KERNEL_THREADS) {
            const float smoothed = round_smoothed(args, x, c), entry = x[c];
            const bool spared = args->spared != NULL && args->spared[c], left = args->threshold > 0 && args->left[c];
            const float code = most > 0 ? rintf(top * smoothed / most) : smoothed == smoothed ? 0 : smoothed;
            float value = code * (most / top);
            if (args->smoothing != NULL) value *= args->smoothing[c];
            if (left) value = args->exact ? 0 : entry;
            row_of(args->to, grid->block)[c] = spared ? entry : value;
            if (args->outliers.data != NULL) row_of(args->outliers, grid->block)[c] = left && !spared ? entry : 0;
        }
    }
}

DEVICE float *hadamard_number(const struct hadamard_args *args, struct matrix m, int64_t vector, int64_t i)
{
    return args->columns ? row_of(m, i) + vector : row_of(m, vector) + i;
}

/* Subtracts the mean from a block's vector. */
DEVICE void hadamard_centre(const struct launch *grid, int64_t size, double *v, double *shared)
{
    PRIVATE(double, sum);
    EACH_THREAD(thread)
    {
        sum[MINE(thread)] = 0;
        for (int64_t i = thread; i < size; i += KERNEL_THREADS) sum[MINE(thread)] += v[i];
    }
    const double mean = block_sum(grid, sum, shared) / (double)size;
    EACH_THREAD(thread)
    {
        for (int64_t i = thread; i < size; i += KERNEL_THREADS) v[i] = (double)(float)(v[i] - mean);
    }
}

/* Butterflies within each run of `power` numbers: pair i of a stage is (j, j + half). */
DEVICE void hadamard_sylvester(const struct launch *grid, int64_t size, int64_t power, double *v)
{
    for (int64_t half = 1; half < power; half *= 2) EACH_THREAD(thread)
        {
            for (int64_t i = thread; i < size / 2; i += KERNEL_THREADS) {
                double *at = v + 2 * (i & ~(half - 1)) + (i & (half - 1));
                const double a = at[0], b = at[half];
                at[0] = a + b;
                at[half] = a - b;
            }
        }
}

/* `to` [order, power] = the product of Paley's matrix, or its transpose, with v. */
DEVICE void hadamard_paley(const struct launch *grid, const struct hadamard_args *args, int64_t size, const double *v,
                           double *to)
{
    EACH_THREAD(thread)
    {
        for (int64_t i = thread; i < size; i += KERNEL_THREADS) {
            const int64_t j = i / args->power, offset = i % args->power;
            double sum = 0;
            for (int64_t k = 0; k < args->order; k++)
                sum += (double)args->paley[args->inverse ? j * args->order + k : k * args->order + j] *
                       v[k * args->power + offset];
            to[i] = sum;
        }
    }
}

KERNEL(hadamard, hadamard_kernel_args)
{
    SHARED double near[HADAMARD_SHARED], shared[KERNEL_THREADS];
    const struct hadamard_args *h = &args->hadamard;
    const int64_t size = args->size;
    double *far = args->scratch + grid->block * args->space, *v = size <= HADAMARD_SHARED ? near : far;
    double *result = h->order > 1 ? far + args->space - size : v;
    for (int64_t vector = grid->block; vector < args->vectors; vector += grid->blocks) {
        EACH_THREAD(thread)
        {
            for (int64_t i = thread; i < size; i += KERNEL_THREADS) v[i] = (double)*hadamard_number(h, h->x, vector, i);
        }
        if (h->centred) hadamard_centre(grid, size, v, shared);
        EACH_THREAD(thread)
        {
            for (int64_t i = thread; i < size && h->sign != NULL && !h->inverse; i += KERNEL_THREADS)
                v[i] *= (double)h->sign[i];
        }
        hadamard_sylvester(grid, size, h->power, v);
        if (h->order > 1) hadamard_paley(grid, h, size, v, result);
        EACH_THREAD(thread)
        {
            for (int64_t i = thread; i < size; i += KERNEL_THREADS) {
                const double factor = h->sign != NULL && h->inverse ? args->norm * (double)h->sign[i] : args->norm;
                *hadamard_number(h, h->to, vector, i) = (float)(factor * result[i]);
            }
        }
    }
}

/* One row of `from` per block. */
KERNEL(add_products, select_args)
{
    SHARED double shared[KERNEL_THREADS];
    PRIVATE(double, sum);
    const float *x = row_of(args->from, grid->block), *by = row_of(args->by, 0);
    EACH_THREAD(thread)
    {
        sum[MINE(thread)] = 0;
        for (int64_t c = thread; c < args->from.columns; c += KERNEL_THREADS)
            sum[MINE(thread)] += (double)x[c] * (double)by[c];
    }
    const double whole = block_sum(grid, sum, shared);
    EACH_THREAD(thread)
    {
        float *to = row_of(args->to, 0) + grid->block;
        if (thread == 0) *to = (float)((double)*to + whole);
    }
}

#endif
