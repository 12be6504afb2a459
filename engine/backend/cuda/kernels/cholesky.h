/* cholesky.h: the kernels of the blocked factorisation in products.c, besides matrix products; reference/cholesky.c has
 * the equations. */
#ifndef BACKEND_CUDA_KERNELS_CHOLESKY_H
#define BACKEND_CUDA_KERNELS_CHOLESKY_H

#include "backend/cuda/kernels/elementwise.h"

/* Copies the lower triangle to the upper one. */
KERNEL(cholesky_mirror, cholesky_args)
{
    EACH_ELEMENT(i, args->h.rows * args->h.columns)
    {
        const int64_t r = i / args->h.columns, c = i % args->h.columns;
        if (c > r) row_of(args->h, r)[c] = row_of(args->h, c)[r];
    }
}

/* Factors one block: R from the last column back, then its inverse, both in shared memory. */
KERNEL(cholesky_factor, cholesky_args)
{
    SHARED float r[CHOLESKY_BLOCK][CHOLESKY_BLOCK + 1];
    SHARED float u[CHOLESKY_BLOCK][CHOLESKY_BLOCK + 1];
    const int count = (int)args->count;
    EACH_THREAD(thread)
    {
        for (int i = thread; i < count * count; i += KERNEL_THREADS) {
            r[i / count][i % count] = row_of(args->h, args->first + i / count)[args->first + i % count];
            u[i / count][i % count] = 0;
        }
    }
    for (int j = count - 1; j >= 0; j--) {
        EACH_THREAD(thread)
        {
            if (thread > 0) continue;
            const float square = r[j][j];
            const bool good = square > 0 && square - square == 0;
            if (!good) *args->failed = 1;
            r[j][j] = good ? sqrtf(square) : 1;
            u[j][j] = 1 / r[j][j];
        }
        EACH_THREAD(thread)
        {
            if (thread < j) r[thread][j] *= u[j][j];
        }
        EACH_THREAD(thread)
        {
            for (int i = thread; i < j * j; i += KERNEL_THREADS)
                if (i / j <= i % j) r[i / j][i % j] -= r[i / j][j] * r[i % j][j];
        }
    }
    EACH_THREAD(thread) /* each thread has a row of U, whose entries depend only on those to their left */
    {
        for (int j = thread + 1; thread < count && j < count; j++) {
            float sum = 0;
            for (int k = thread; k < j; k++) sum += u[thread][k] * r[k][j];
            u[thread][j] = -u[j][j] * sum;
        }
    }
    EACH_THREAD(thread)
    {
        for (int i = thread; i < count * count; i += KERNEL_THREADS) {
            row_of(args->h, args->first + i / count)[args->first + i % count] =
                i / count <= i % count ? r[i / count][i % count] : 0;
            args->inverse[i / count * CHOLESKY_BLOCK + i % count] = u[i / count][i % count];
        }
    }
}

/* Zeros below the diagonal. */
KERNEL(cholesky_clear, cholesky_args)
{
    EACH_ELEMENT(i, args->h.rows * args->h.columns)
    {
        const int64_t r = i / args->h.columns, c = i % args->h.columns;
        if (c < r) row_of(args->h, r)[c] = 0;
    }
}

#endif
