/* adamw.c: one step of AdamW (Loshchilov and Hutter, arXiv 1711.05101, algorithm 2) with g the scaled gradient:
 *
 *   m  = b1 m + (1 - b1) g
 *   v  = b2 v + (1 - b2) g²
 *   p -= rate (m / c1 / (√(v / c2) + epsilon) + decay p)
 *
 * Arithmetic in double, state in `real`. */
#include "backend/reference/real.h"

#include <math.h>

void REFERENCE(adamw)(struct backend *backend, const struct adamw_args *args)
{
    (void)backend;
    real *parameter = args->parameter, *moment1 = args->moment1, *moment2 = args->moment2;
    const real *gradient = args->gradient;
    for (int64_t i = 0; i < args->count; i++) {
        const double g = (double)gradient[i] * args->gradient_scale, p = (double)parameter[i];
        const double m = args->beta1 * (double)moment1[i] + (1 - args->beta1) * g;
        const double v = args->beta2 * (double)moment2[i] + (1 - args->beta2) * g * g;
        const double step = m / args->correction1 / (sqrt(v / args->correction2) + args->epsilon);
        moment1[i] = (real)m;
        moment2[i] = (real)v;
        parameter[i] = (real)(p - args->rate * (step + args->weight_decay * p));
    }
}
