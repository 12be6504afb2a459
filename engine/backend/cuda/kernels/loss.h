/* loss.h: kernels of reference/cross_entropy.c, which has the equations. A block has one row. */
#ifndef BACKEND_CUDA_KERNELS_LOSS_H
#define BACKEND_CUDA_KERNELS_LOSS_H

#include "backend/cuda/kernels/kernel.h"

KERNEL(cross_entropy_forward, cross_entropy_args)
{
    SHARED double shared[KERNEL_THREADS];
    PRIVATE(double, mine);
    const int64_t t = grid->block, count = args->logits.columns;
    const float *z = row_of(args->logits, t);
    const bool wanted = args->targets[t] != TARGET_NONE;
    EACH_THREAD(thread)
    {
        mine[MINE(thread)] = -(double)INFINITY;
        for (int64_t v = thread; v < count && wanted; v += KERNEL_THREADS)
            if ((double)z[v] > mine[MINE(thread)]) mine[MINE(thread)] = (double)z[v];
    }
    const double largest = block_largest(grid, mine, shared);
    EACH_THREAD(thread)
    {
        mine[MINE(thread)] = 0;
        for (int64_t v = thread; v < count && wanted; v += KERNEL_THREADS) mine[MINE(thread)] += exp((double)z[v] - largest);
    }
    const double log_sum = largest + log(block_sum(grid, mine, shared));
    EACH_THREAD(thread)
    {
        if (thread > 0) continue;
        args->log_sum[t] = wanted ? log_sum : 0;
        args->losses[t] = wanted ? log_sum - (double)z[args->targets[t]] : 0;
    }
}

KERNEL(cross_entropy_backward, cross_entropy_args)
{
    const int64_t t = grid->block;
    const bool wanted = args->targets[t] != TARGET_NONE;
    float *z = row_of(args->logits, t);
    EACH_THREAD(thread)
    {
        for (int64_t v = thread; v < args->logits.columns; v += KERNEL_THREADS) {
            if (!wanted) {
                z[v] = 0;
                continue;
            }
            const double softmax = exp((double)z[v] - args->log_sum[t]), hit = v == (int64_t)args->targets[t] ? 1 : 0;
            z[v] = (float)(args->weight * (softmax - hit));
        }
    }
}

KERNEL(cross_entropy_backward_tangent, cross_entropy_args)
{
    SHARED double shared[KERNEL_THREADS];
    PRIVATE(double, sum);
    const int64_t t = grid->block, count = args->logits.columns;
    const bool wanted = args->targets[t] != TARGET_NONE;
    float *z = row_of(args->logits, t), *z_t = row_of(args->logits_t, t);
    EACH_THREAD(thread)
    {
        sum[MINE(thread)] = 0;
        for (int64_t v = thread; v < count && wanted; v += KERNEL_THREADS)
            sum[MINE(thread)] += exp((double)z[v] - args->log_sum[t]) * (double)z_t[v];
    }
    const double mean = block_sum(grid, sum, shared);
    EACH_THREAD(thread)
    {
        for (int64_t v = thread; v < count; v += KERNEL_THREADS) {
            if (!wanted) {
                z[v] = z_t[v] = 0;
                continue;
            }
            const double softmax = exp((double)z[v] - args->log_sum[t]), hit = v == (int64_t)args->targets[t] ? 1 : 0;
            z_t[v] = (float)(args->weight * softmax * ((double)z_t[v] - mean));
            z[v] = (float)(args->weight * (softmax - hit));
        }
    }
}

/* The index of the row's largest entry, the first of equals; NaN never wins but from the first place, where nothing beats it. */
DEVICE int64_t block_largest_index(const struct launch *grid, const float *z, int64_t count, int64_t *shared)
{
    EACH_THREAD(thread)
    {
        int64_t best = thread < count ? thread : 0;
        for (int64_t v = thread; v < count; v += KERNEL_THREADS)
            if (z[v] > z[best] || (isnan(z[best]) && !isnan(z[v]))) best = v;
        shared[thread] = best;
    }
    for (int half = KERNEL_THREADS / 2; half > 0; half /= 2) EACH_THREAD(thread)
        {
            if (thread >= half) continue;
            const int64_t a = shared[thread], b = shared[thread + half];
            const bool better = z[b] > z[a] || (isnan(z[a]) && !isnan(z[b])) || (z[a] == z[b] && b < a);
            if (better) shared[thread] = b;
        }
    const int64_t best = shared[0];
    BARRIER();
    return isnan(z[0]) ? 0 : best;
}

KERNEL(compare, compare_args)
{
    SHARED double shared[KERNEL_THREADS];
    SHARED int64_t indices[KERNEL_THREADS];
    PRIVATE(double, sum);
    const int64_t t = grid->block, count = args->p.columns;
    const float *p = row_of(args->p, t), *q = row_of(args->q, t);
    const bool wanted = args->targets[t] != TARGET_NONE;
    EACH_THREAD(thread)
    {
        sum[MINE(thread)] = 0;
        for (int64_t v = thread; v < count && wanted; v += KERNEL_THREADS) {
            const double log_p = (double)p[v] - args->p_log_sum[t], log_q = (double)q[v] - args->q_log_sum[t];
            sum[MINE(thread)] += exp(log_p) * (log_p - log_q);
        }
    }
    const double kl = block_sum(grid, sum, shared);
    const int64_t best_p = wanted ? block_largest_index(grid, p, count, indices) : 0;
    const int64_t best_q = wanted ? block_largest_index(grid, q, count, indices) : 0;
    EACH_THREAD(thread)
    {
        if (thread > 0) continue;
        args->kl[t] = kl;
        args->agree[t] = wanted && best_p == best_q ? 1 : 0;
    }
}

#endif
