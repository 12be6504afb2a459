/* clip_search.h: the parts of reference/codes.c's clip_search between two products, for one group of the columns of
 * some rows at a time (backend/codes.h has the equations). */
#ifndef BACKEND_CUDA_KERNELS_CLIP_SEARCH_H
#define BACKEND_CUDA_KERNELS_CLIP_SEARCH_H

#include "backend/cuda/kernels/elementwise.h"

/* The range and largest magnitude of a row; one row per block. */
KERNEL(clip_begin, clip_search_kernel_args)
{
    SHARED double shared[KERNEL_THREADS];
    PRIVATE(double, low);
    PRIVATE(double, high);
    const int64_t r = grid->block;
    const float *w = row_of(args->weight, r);
    EACH_THREAD(thread)
    {
        low[MINE(thread)] = high[MINE(thread)] = 0;
        for (int64_t c = thread; c < args->weight.columns; c += KERNEL_THREADS) {
            if (-(double)w[c] > low[MINE(thread)]) low[MINE(thread)] = -(double)w[c];
            if ((double)w[c] > high[MINE(thread)]) high[MINE(thread)] = (double)w[c];
        }
    }
    const double lo = -block_largest(grid, low, shared);
    const double hi = block_largest(grid, high, shared);
    EACH_THREAD(thread)
    {
        if (thread > 0) continue;
        struct clip_row *row = &args->rows[r];
        row->low = (float)lo;
        row->high = (float)hi;
        row->best = row->most = (float)(hi > -lo ? hi : -lo);
        row->least = (double)INFINITY;
    }
}

DEVICE float clamped(float x, float most)
{
    return fminf(fmaxf(x, -most), most);
}

/* difference = (weight - values of the clamped weight) / s */
KERNEL(clip_difference, clip_search_kernel_args)
{
    const int64_t r = grid->block;
    struct clip_row *row = &args->rows[r];
    const float most = row->most * args->part;
    const float *w = row_of(args->weight, r), *s = row_of(args->scales, 0);
    EACH_THREAD(thread)
    {
        if (thread > 0) continue;
        coding_scale(args->coding, (double)clamped(row->low, most), (double)clamped(row->high, most), &row->scale,
                     &row->zero);
    }
    EACH_THREAD(thread)
    {
        for (int64_t c = thread; c < args->weight.columns; c += KERNEL_THREADS) {
            const double code = coding_step(clamped(w[c], most), row->scale, row->zero, coding_top(args->coding));
            row_of(args->difference, r)[c] = (w[c] - (float)(code - row->zero) * (float)row->scale) / s[c];
        }
    }
}

/* Keeps the part whose error is less than all before. */
KERNEL(clip_judge, clip_search_kernel_args)
{
    SHARED double shared[KERNEL_THREADS];
    PRIVATE(double, sum);
    const int64_t r = grid->block;
    const float *d = row_of(args->difference, r), *product = row_of(args->product, r);
    EACH_THREAD(thread)
    {
        sum[MINE(thread)] = 0;
        for (int64_t c = thread; c < args->weight.columns; c += KERNEL_THREADS)
            sum[MINE(thread)] += (double)d[c] * (double)product[c];
    }
    const double error = block_sum(grid, sum, shared);
    EACH_THREAD(thread)
    {
        struct clip_row *row = &args->rows[r];
        if (thread > 0 || !(error < row->least)) continue;
        row->least = error;
        row->best = row->most * args->part;
    }
}

KERNEL(clip_end, clip_search_kernel_args)
{
    EACH_ELEMENT(i, args->weight.rows * args->weight.columns)
    {
        float *w = element_of(args->weight, i);
        *w = clamped(*w, args->rows[i / args->weight.columns].best);
    }
}

#endif
