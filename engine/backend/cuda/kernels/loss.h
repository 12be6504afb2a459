/* loss.h: kernels of reference/cross_entropy.c, which has the equations. One row per block. */
#ifndef BACKEND_CUDA_KERNELS_LOSS_H
#define BACKEND_CUDA_KERNELS_LOSS_H

#include "backend/cuda/kernels/elementwise.h"

/* A sum of exponentials in one pass: `sum` is the sum of exp(z - largest), rescaled when `largest` grows. */
struct running {
    double largest, sum;
};

DEVICE struct running running_add(struct running a, struct running b)
{
    const double largest = b.largest > a.largest ? b.largest : a.largest;
    struct running both = {largest, 0};
    if (!(a.sum == 0)) both.sum += a.sum * exp(a.largest - largest);
    if (!(b.sum == 0)) both.sum += b.sum * exp(b.largest - largest);
    return both;
}

/* log of the sum of all threads' exponentials, merged in a fixed order; NaN stays. */
DEVICE double block_log_sum(const struct launch *grid, const struct running *values, struct running *shared)
{
    EACH_THREAD(thread)
    {
        shared[thread] = values[MINE(thread)];
    }
    for (int half = KERNEL_THREADS / 2; half > 0; half /= 2) EACH_THREAD(thread)
        {
            if (thread < half) shared[thread] = running_add(shared[thread], shared[thread + half]);
        }
    const double log_sum = shared[0].largest + log(shared[0].sum);
    BARRIER();
    return log_sum;
}

/* Adds a number; a run begins with sum 0 and largest -infinity. */
DEVICE void running_take(struct running *run, double z)
{
    if (z > run->largest) {
        run->sum =
            run->sum * exp(run->largest - z) + (1 + (z - z)); /* NaN for an infinite number, like the plain loops */
        run->largest = z;
    } else if (!(z == -(double)INFINITY)) {
        run->sum += exp(z - run->largest);
    }
}

/* Adds four numbers, the first `count` of them, with exponentials in float and their sum in double: some 4u of each. */
DEVICE void running_take_four(struct running *run, struct four z, int64_t count)
{
    float largest = z.value[0], known = (float)run->largest;
    UNROLL
    for (int k = 1; k < 4; k++)
        if (k < count) largest = fmaxf(largest, z.value[k]);
    if (largest > known) {
        run->sum *= exp(run->largest - (double)largest);
        run->largest = (double)largest;
        known = largest;
    }
    UNROLL
    for (int k = 0; k < 4; k++) /* NaN for an infinite number, like the plain loops */
        if (k < count && !(z.value[k] == -(float)INFINITY)) run->sum += (double)expf(z.value[k] - known);
}

KERNEL(cross_entropy_forward, cross_entropy_args)
{
    SHARED struct running shared[KERNEL_THREADS];
    PRIVATE(struct running, mine);
    const int64_t t = grid->block, count = args->logits.columns;
    const bool wanted = args->targets[t] != TARGET_NONE;
    EACH_THREAD(thread)
    {
        struct running run = {-(double)INFINITY, 0};
        for (int64_t v = 4 * thread; v < count && wanted; v += 4 * KERNEL_THREADS)
            running_take_four(&run, four_at(args->logits, t, v), count - v);
        mine[MINE(thread)] = run;
    }
    const double log_sum = block_log_sum(grid, mine, shared);
    EACH_THREAD(thread)
    {
        if (thread > 0) continue;
        args->log_sum[t] = wanted ? log_sum : 0;
        args->losses[t] = wanted ? log_sum - (double)row_of(args->logits, t)[args->targets[t]] : 0;
    }
}

KERNEL(cross_entropy_backward, cross_entropy_args)
{
    const int64_t t = grid->block, target = (int64_t)args->targets[t];
    const bool wanted = args->targets[t] != TARGET_NONE;
    const float weight = (float)args->weight;
    EACH_THREAD(thread)
    {
        for (int64_t v = 4 * thread; v < args->logits.columns; v += 4 * KERNEL_THREADS) {
            struct four z = four_at(args->logits, t, v);
            UNROLL
            for (int k = 0; k < 4; k++) {
                const float softmax = expf((float)((double)z.value[k] - args->log_sum[t]));
                z.value[k] = wanted ? weight * (softmax - (v + k == target ? 1.0F : 0.0F)) : 0;
            }
            put_four(args->logits, t, v, z);
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

/* Whether entry b of a row precedes entry a: it is larger, or equal and earlier; NaN never wins. */
DEVICE bool stands_before(const float *z, int64_t b, int64_t a)
{
    return z[b] > z[a] || (isnan(z[a]) && !isnan(z[b])) || (z[a] == z[b] && b < a);
}

/* The first of the threads' entries; NaN wins at the first place, because nothing precedes it there. */
DEVICE int64_t block_first(const struct launch *grid, const float *z, const int64_t *entries, int64_t *shared)
{
    EACH_THREAD(thread)
    {
        shared[thread] = entries[MINE(thread)];
    }
    for (int half = KERNEL_THREADS / 2; half > 0; half /= 2) EACH_THREAD(thread)
        {
            if (thread < half && stands_before(z, shared[thread + half], shared[thread]))
                shared[thread] = shared[thread + half];
        }
    const int64_t best = shared[0];
    BARRIER();
    return isnan(z[0]) ? 0 : best;
}

/* One pass over both rows: q's sum of exponentials, sum e^(p - P) (p - P - q) and sum e^(p - P), with P and Q the logs
 * of the sums; KL = the second sum + Q times the third. */
KERNEL(compare, compare_args)
{
    SHARED struct running runs[KERNEL_THREADS];
    SHARED double shared[KERNEL_THREADS];
    SHARED int64_t indices[KERNEL_THREADS];
    PRIVATE(struct running, run);
    PRIVATE(double, cross);
    PRIVATE(double, mass);
    PRIVATE(int64_t, best_p);
    PRIVATE(int64_t, best_q);
    const int64_t t = grid->block, count = args->p.columns;
    const float *p = row_of(args->p, t), *q = row_of(args->q, t);
    const bool wanted = args->targets[t] != TARGET_NONE;
    EACH_THREAD(thread)
    {
        const int me = MINE(thread);
        run[me].largest = -(double)INFINITY;
        run[me].sum = cross[me] = mass[me] = 0;
        best_p[me] = best_q[me] = thread < count ? thread : 0;
        for (int64_t v = thread; v < count && wanted; v += KERNEL_THREADS) {
            const double log_p = (double)p[v] - args->p_log_sum[t], share = exp(log_p);
            running_take(&run[me], (double)q[v]);
            cross[me] += share * (log_p - (double)q[v]);
            mass[me] += share;
            if (stands_before(p, v, best_p[me])) best_p[me] = v;
            if (stands_before(q, v, best_q[me])) best_q[me] = v;
        }
    }
    const double log_sum = block_log_sum(grid, run, runs);
    const double sum = block_sum(grid, cross, shared);
    const double whole = block_sum(grid, mass, shared);
    const int64_t first_p = block_first(grid, p, best_p, indices);
    const int64_t first_q = block_first(grid, q, best_q, indices);
    EACH_THREAD(thread)
    {
        if (thread > 0) continue;
        args->q_log_sum[t] = wanted ? log_sum : 0;
        args->losses[t] = wanted ? log_sum - (double)q[args->targets[t]] : 0;
        args->kl[t] = wanted ? sum + log_sum * whole : 0;
        args->agree[t] = wanted && first_p == first_q ? 1 : 0;
    }
}

#endif
