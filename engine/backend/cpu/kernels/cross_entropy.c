/* cross_entropy.c: reference/cross_entropy.c on rows of floats. Sums run in float over chunks of 512 columns and in
 * double over the chunks. exp(z - L) takes L in two floats: with L = high + low, (z - high) - low loses nothing where
 * the result is large. */
#include "backend/cpu/kernels/all.h"

#include <math.h>

enum { CHUNK = 512 };

static inline int64_t chunk_end(int64_t first, int64_t count)
{
    return first + CHUNK < count ? first + CHUNK : count;
}

static float largest_of(const float *z, int64_t count)
{
    float largest = -INFINITY;
#pragma omp simd reduction(max : largest)
    for (int64_t v = 0; v < count; v++) largest = z[v] > largest ? z[v] : largest;
    return largest;
}

static double sum_of_exp(const float *z, int64_t count, float largest)
{
    double total = 0;
    for (int64_t first = 0; first < count; first += CHUNK) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t v = first; v < chunk_end(first, count); v++) sum += exp_below(z[v] - largest);
        total += (double)sum;
    }
    return total;
}

void KERNEL(cross_entropy_forward)(const struct cross_entropy_args *args, int64_t first, int64_t end)
{
    for (int64_t t = first; t < end; t++) {
        args->losses[t] = args->log_sum[t] = 0;
        if (args->targets[t] == TARGET_NONE) continue;
        const float *z = float_row(args->logits, t), largest = largest_of(z, args->logits.columns);
        args->log_sum[t] = (double)largest + log(sum_of_exp(z, args->logits.columns, largest));
        args->losses[t] = args->log_sum[t] - (double)z[args->targets[t]];
    }
}

void KERNEL(cross_entropy_backward)(const struct cross_entropy_args *args, int64_t first, int64_t end)
{
    const float weight = (float)args->weight;
    for (int64_t t = first; t < end; t++) {
        float *z = float_row(args->logits, t);
        if (args->targets[t] == TARGET_NONE) {
            memset(z, 0, (size_t)args->logits.columns * sizeof *z);
            continue;
        }
        const float high = (float)args->log_sum[t], low = (float)(args->log_sum[t] - (double)high);
#pragma omp simd
        for (int64_t v = 0; v < args->logits.columns; v++) z[v] = weight * exp_below((z[v] - high) - low);
        z[args->targets[t]] -= weight;
    }
}

/* Index of the first entry equal to `largest`; 0 when every entry is NaN. */
static int64_t index_of(const float *z, int64_t count, float largest)
{
    for (int64_t first = 0; first < count; first += CHUNK) {
        uint32_t found = 0;
#pragma omp simd reduction(| : found)
        for (int64_t v = first; v < chunk_end(first, count); v++) found |= (uint32_t)(z[v] == largest);
        if (!found) continue;
        for (int64_t v = first; v < count; v++)
            if (z[v] == largest) return v;
    }
    return 0;
}

/* Compares one row of p and q: the divergence, and the largest entry of each. Differences are exact in double. */
static void compare_row(const struct compare_args *args, int64_t t)
{
    const float *restrict p = float_row(args->p, t), *restrict q = float_row(args->q, t);
    const int64_t count = args->p.columns;
    const double p_log_sum = args->p_log_sum[t], shift = p_log_sum - args->q_log_sum[t];
    const float high = (float)p_log_sum, low = (float)(p_log_sum - (double)high);
    float p_largest = -INFINITY, q_largest = -INFINITY;
    double sum = 0;
#pragma omp simd reduction(+ : sum) reduction(max : p_largest, q_largest)
    for (int64_t v = 0; v < count; v++) {
        p_largest = p[v] > p_largest ? p[v] : p_largest;
        q_largest = q[v] > q_largest ? q[v] : q_largest;
        sum += (double)exp_below((p[v] - high) - low) * ((double)p[v] - (double)q[v] - shift);
    }
    args->kl[t] = sum;
    args->agree[t] = index_of(p, count, p_largest) == index_of(q, count, q_largest);
}

void KERNEL(compare)(const struct compare_args *args, int64_t first, int64_t end)
{
    for (int64_t t = first; t < end; t++) {
        args->kl[t] = 0;
        args->agree[t] = 0;
        if (args->targets[t] != TARGET_NONE) compare_row(args, t);
    }
}

/* Replaces z by its softmax; returns the mean of z_t under it. */
static double softmax_mean(float *restrict z, const float *restrict z_t, double log_sum, int64_t count)
{
    const float high = (float)log_sum, low = (float)(log_sum - (double)high);
    double total = 0;
    for (int64_t first = 0; first < count; first += CHUNK) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t v = first; v < chunk_end(first, count); v++) {
            z[v] = exp_below((z[v] - high) - low);
            sum += z[v] * z_t[v];
        }
        total += (double)sum;
    }
    return total;
}

void KERNEL(cross_entropy_backward_tangent)(const struct cross_entropy_args *args, int64_t first, int64_t end)
{
    const float weight = (float)args->weight;
    const int64_t count = args->logits.columns;
    for (int64_t t = first; t < end; t++) {
        float *restrict z = float_row(args->logits, t), *restrict z_t = float_row(args->logits_t, t);
        if (args->targets[t] == TARGET_NONE) {
            memset(z, 0, (size_t)count * sizeof *z);
            memset(z_t, 0, (size_t)count * sizeof *z_t);
            continue;
        }
        const float mean = (float)softmax_mean(z, z_t, args->log_sum[t], count);
#pragma omp simd
        for (int64_t v = 0; v < count; v++) {
            const float p = weight * z[v];
            z_t[v] = p * (z_t[v] - mean);
            z[v] = p;
        }
        z[args->targets[t]] -= weight;
    }
}
