/* cross_entropy.c: the loss of each token, its gradient, and the comparison of two rows of logits. logits [T, V], in
 * double.
 *   L_t = log sum_v exp(z_tv),  loss_t = L_t - z_t,target,  dz_tv = weight (exp(z_tv - L_t) - [v = target])
 *   Tangent: dz._tv = weight p_tv (z._tv - sum_w p_tw z._tw),  p_tv = exp(z_tv - L_t)
 *   KL(p || q) = sum_v exp(p_v - L_p) ((p_v - L_p) - (q_v - L_q)) */
#include "backend/reference/real.h"

#include <math.h>

static double row_log_sum(const real *z, int64_t count)
{
    double largest = -INFINITY, sum = 0;
    for (int64_t v = 0; v < count; v++)
        if ((double)z[v] > largest) largest = (double)z[v];
    for (int64_t v = 0; v < count; v++) sum += exp((double)z[v] - largest);
    return largest + log(sum);
}

void REFERENCE(cross_entropy_forward)(struct backend *backend, const struct cross_entropy_args *args)
{
    (void)backend;
    for (int64_t t = 0; t < args->logits.rows; t++) {
        const real *z = row_of(args->logits, t);
        const bool wanted = args->targets[t] != TARGET_NONE;
        args->log_sum[t] = wanted ? row_log_sum(z, args->logits.columns) : 0;
        args->losses[t] = wanted ? args->log_sum[t] - (double)z[args->targets[t]] : 0;
    }
}

void REFERENCE(cross_entropy_backward)(struct backend *backend, const struct cross_entropy_args *args)
{
    (void)backend;
    for (int64_t t = 0; t < args->logits.rows; t++) {
        real *z = row_of(args->logits, t);
        for (int64_t v = 0; v < args->logits.columns; v++) {
            const double softmax = exp((double)z[v] - args->log_sum[t]);
            z[v] = args->targets[t] == TARGET_NONE ? 0 : (real)(args->weight * (softmax - (v == args->targets[t])));
        }
    }
}

void REFERENCE(cross_entropy_backward_tangent)(struct backend *backend, const struct cross_entropy_args *args)
{
    const int64_t count = args->logits.columns;
    for (int64_t t = 0; t < args->logits.rows; t++) {
        const real *z = row_of(args->logits, t);
        real *z_t = row_of(args->logits_t, t);
        double mean = 0;
        for (int64_t v = 0; v < count && args->targets[t] != TARGET_NONE; v++)
            mean += exp((double)z[v] - args->log_sum[t]) * (double)z_t[v];
        for (int64_t v = 0; v < count; v++) {
            const double softmax = exp((double)z[v] - args->log_sum[t]);
            z_t[v] = args->targets[t] == TARGET_NONE ? 0 : (real)(args->weight * softmax * ((double)z_t[v] - mean));
        }
    }
    REFERENCE(cross_entropy_backward)(backend, args);
}

static int64_t largest_index(const real *z, int64_t count)
{
    int64_t best = 0;
    for (int64_t v = 1; v < count; v++)
        if (z[v] > z[best]) best = v;
    return best;
}

void REFERENCE(compare)(struct backend *backend, const struct compare_args *args)
{
    const struct cross_entropy_args loss = {
        .logits = args->q, .targets = args->targets, .losses = args->losses, .log_sum = args->q_log_sum};
    REFERENCE(cross_entropy_forward)(backend, &loss);
    for (int64_t t = 0; t < args->p.rows; t++) {
        const real *p = row_of(args->p, t), *q = row_of(args->q, t);
        args->kl[t] = 0;
        args->agree[t] = 0;
        if (args->targets[t] == TARGET_NONE) continue;
        for (int64_t v = 0; v < args->p.columns; v++) {
            const double log_p = (double)p[v] - args->p_log_sum[t], log_q = (double)q[v] - args->q_log_sum[t];
            args->kl[t] += exp(log_p) * (log_p - log_q);
        }
        args->agree[t] = largest_index(p, args->p.columns) == largest_index(q, args->q.columns);
    }
}
