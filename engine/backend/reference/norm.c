/* norm.c: RMSNorm (Zhang and Sennrich, arXiv 1910.07467, eq. 4) and LayerNorm (Ba et al., arXiv 1607.06450, eq. 4), and their
 * backward passes. x [T, C]; each row is G segments of N = C / G columns, normalised apart.
 *
 *   n_i = (x_i - mean) r,  r = 1 / sqrt(var + epsilon)        NORM_LAYER, var biased
 *   n_i = x_i r,           r = 1 / sqrt(mean(x^2) + epsilon)  NORM_RMS
 *   y_i = n_i w_i + b_i
 *   dw_i += sum_t dy_i n_i,  db_i += sum_t dy_i
 *   dx_i = r (g_i - mean(g) - n_i mean(g n)),  g = dy w       NORM_RMS: without mean(g)
 * Statistics in double. */
#include "backend/reference/real.h"

#include <math.h>

struct statistics {
    double mean, scale;
};

static struct statistics segment_statistics(const struct norm_args *args, const real *x, int64_t count)
{
    double mean = 0, squares = 0;
    if (args->kind == NORM_LAYER) {
        for (int64_t i = 0; i < count; i++) mean += (double)x[i];
        mean /= (double)count;
    }
    for (int64_t i = 0; i < count; i++) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    return (struct statistics){mean, 1 / sqrt(squares / (double)count + args->epsilon)};
}

/* The part of a [1, C] or [1, C / G] parameter that belongs to segment `group`. */
static real *segment_parameter(struct matrix parameter, int64_t group, int64_t count)
{
    if (parameter.data == NULL) return NULL;
    return (real *)parameter.data + (parameter.columns == count ? 0 : group * count);
}

static void segment_forward(const struct norm_args *args, int64_t t, int64_t group)
{
    const int64_t count = args->x.columns / args->groups;
    const real *x = row_of(args->x, t) + group * count;
    const real *weight = segment_parameter(args->weight, group, count);
    const real *bias = segment_parameter(args->bias, group, count);
    real *y = row_of(args->y, t) + group * count;
    const struct statistics s = segment_statistics(args, x, count);
    for (int64_t i = 0; i < count; i++) {
        const double normal = ((double)x[i] - s.mean) * s.scale;
        y[i] = (real)(normal * (double)weight[i] + (bias ? (double)bias[i] : 0));
    }
}

static void segment_backward(const struct norm_args *args, int64_t t, int64_t group)
{
    const int64_t count = args->x.columns / args->groups;
    const real *x = row_of(args->x, t) + group * count, *dy = row_of(args->dy, t) + group * count;
    const real *weight = segment_parameter(args->weight, group, count);
    real *dweight = segment_parameter(args->dweight, group, count), *dbias = segment_parameter(args->dbias, group, count);
    real *dx = row_of(args->dx, t) + group * count;
    const struct statistics s = segment_statistics(args, x, count);
    double mean_g = 0, mean_gn = 0;
    for (int64_t i = 0; i < count; i++) {
        const double normal = ((double)x[i] - s.mean) * s.scale, g = (double)dy[i] * (double)weight[i];
        mean_g += g / (double)count;
        mean_gn += g * normal / (double)count;
        if (dweight) dweight[i] += (real)((double)dy[i] * normal);
        if (dbias) dbias[i] += dy[i];
    }
    if (args->kind == NORM_RMS) mean_g = 0;
    for (int64_t i = 0; i < count; i++) {
        const double normal = ((double)x[i] - s.mean) * s.scale, g = (double)dy[i] * (double)weight[i];
        const real gradient = (real)(s.scale * (g - mean_g - normal * mean_gn));
        dx[i] = args->accumulate ? dx[i] + gradient : gradient;
    }
}

void REFERENCE(norm_forward)(struct backend *backend, const struct norm_args *args)
{
    (void)backend;
    for (int64_t t = 0; t < args->x.rows; t++)
        for (int64_t group = 0; group < args->groups; group++) segment_forward(args, t, group);
}

void REFERENCE(norm_backward)(struct backend *backend, const struct norm_args *args)
{
    (void)backend;
    for (int64_t t = 0; t < args->x.rows; t++)
        for (int64_t group = 0; group < args->groups; group++) segment_backward(args, t, group);
}
