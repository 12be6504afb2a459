/* convolution.h: kernels of reference/convolution.c, which has the equations. */
#ifndef BACKEND_CUDA_KERNELS_CONVOLUTION_H
#define BACKEND_CUDA_KERNELS_CONVOLUTION_H

#include "backend/cuda/kernels/elementwise.h"

/* The input of tap j at row t (of sequence b). */
DEVICE float tap_input(const struct convolution_kernel_args *args, int64_t b, int64_t t, int64_t j, int64_t c)
{
    const struct convolution_args *v = &args->convolution;
    const int64_t taps = v->weight.columns, from = t - args->starts[b] - (taps - 1 - j);
    if (from >= 0) return row_of(v->x, args->starts[b] + from)[c];
    return v->before.data != NULL ? row_of(v->before, b)[(taps - 1 + from) * v->x.columns + c] : 0;
}

KERNEL(convolution_forward, convolution_kernel_args)
{
    const struct convolution_args *v = &args->convolution;
    EACH_ELEMENT(i, v->x.rows * v->x.columns)
    {
        const int64_t t = i / v->x.columns, c = i % v->x.columns;
        float sum = v->bias.data != NULL ? row_of(v->bias, 0)[c] : 0;
        for (int64_t j = 0; j < v->weight.columns; j++)
            sum += row_of(v->weight, c)[j] * tap_input(args, args->numbers[t], t, j, c);
        put(row_of(v->y, t) + c, (double)sum, v->accumulate);
    }
}

KERNEL(convolution_backward, convolution_kernel_args)
{
    const struct convolution_args *v = &args->convolution;
    EACH_ELEMENT(i, v->dy.rows * v->dy.columns)
    {
        const int64_t t = i / v->dy.columns, c = i % v->dy.columns, end = args->starts[args->numbers[t] + 1],
                      taps = v->weight.columns;
        float sum = 0;
        for (int64_t ahead = 0; ahead < taps && t + ahead < end; ahead++)
            sum += row_of(v->weight, c)[taps - 1 - ahead] * row_of(v->dy, t + ahead)[c];
        put(row_of(v->dx, t) + c, (double)sum, v->accumulate);
    }
}

/* One channel per block; its threads share the rows. */
KERNEL(convolution_parameters, convolution_kernel_args)
{
    SHARED double shared[KERNEL_THREADS];
    PRIVATE(double, sum);
    const struct convolution_args *v = &args->convolution;
    const int64_t c = grid->block, taps = v->dweight.data != NULL ? v->weight.columns : 0;
    for (int64_t j = 0; j <= taps; j++) { /* the last is the bias */
        EACH_THREAD(thread)
        {
            sum[MINE(thread)] = 0;
            for (int64_t t = thread; t < v->dy.rows; t += KERNEL_THREADS)
                sum[MINE(thread)] +=
                    (double)row_of(v->dy, t)[c] * (j == taps ? 1 : (double)tap_input(args, args->numbers[t], t, j, c));
        }
        const double total = block_sum(grid, sum, shared);
        EACH_THREAD(thread)
        {
            if (thread > 0) continue;
            if (j < taps) row_of(v->dweight, c)[j] += (float)total;
            if (j == taps && v->dbias.data != NULL) row_of(v->dbias, 0)[c] += (float)total;
        }
    }
}

#endif
