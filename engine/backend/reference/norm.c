/* norm.c: RMSNorm (Zhang and Sennrich, arXiv 1910.07467, eq. 4) and LayerNorm (Ba et al., arXiv 1607.06450, eq. 4).
 * x [T, C]; each row has G segments of N = C / G columns, and each segment is normalized by itself. Statistics in
 * double; the variance is biased.
 *
 *   n_i = (x_i - mean) r,  r = 1 / sqrt(var + epsilon)          NORM_LAYER
 *   n_i = x_i r,           r = 1 / sqrt(mean(x^2) + epsilon)    NORM_RMS
 *   y_i = n_i w_i + b_i
 *
 * Backward, with g = dy w:
 *   dw_i += sum_t dy_i n_i,  db_i += sum_t dy_i
 *   dx_i = r h_i,  h_i = g_i - mean(g) - n_i mean(g n)          NORM_RMS: without mean(g)
 *
 * Tangents (a dot stands for _t):                               NORM_RMS: without mean(x.) and mean(g.)
 *   c_i = x._i - mean(x.),  q = mean(n c),  n._i = r (c_i - n_i q),  r. = -r^2 q
 *   y._i = n._i w_i + n_i w._i + b._i
 *   g. = dy. w + dy w.,  h._i = g._i - mean(g.) - n._i mean(g n) - n_i mean(g. n + g n.),  dx._i = r (h._i - r q h_i)
 *   dw._i += sum_t dy._i n_i + dy_i n._i,  db._i += sum_t dy._i */
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

/* The part of a [1, C] or [1, C / G] parameter for segment `group`. */
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
        y[i] = (real)(normal * (double)weight[i] + (bias != NULL ? (double)bias[i] : 0));
    }
}

static void segment_backward(const struct norm_args *args, int64_t t, int64_t group)
{
    const int64_t count = args->x.columns / args->groups;
    const real *x = row_of(args->x, t) + group * count, *dy = row_of(args->dy, t) + group * count;
    const real *weight = segment_parameter(args->weight, group, count);
    real *dweight = segment_parameter(args->dweight, group, count),
         *dbias = segment_parameter(args->dbias, group, count);
    real *dx = row_of(args->dx, t) + group * count;
    const struct statistics s = segment_statistics(args, x, count);
    double mean_g = 0, mean_gn = 0;
    for (int64_t i = 0; i < count; i++) {
        const double normal = ((double)x[i] - s.mean) * s.scale, g = (double)dy[i] * (double)weight[i];
        mean_g += g / (double)count;
        mean_gn += g * normal / (double)count;
        if (dweight != NULL) dweight[i] += (real)((double)dy[i] * normal);
        if (dbias != NULL) dbias[i] += dy[i];
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

/* One segment of a row with its tangents. */
struct direction {
    const real *x, *x_t, *weight, *weight_t; /* weight_t: NULL for none */
    int64_t count;
    struct statistics s;
    double mean_t, q; /* mean(x.), mean(n c) */
};

static double normal_of(const struct direction *d, int64_t i)
{
    return ((double)d->x[i] - d->s.mean) * d->s.scale;
}

static double normal_tangent_of(const struct direction *d, int64_t i)
{
    return d->s.scale * ((double)d->x_t[i] - d->mean_t - normal_of(d, i) * d->q);
}

static double weight_tangent_of(const struct direction *d, int64_t i)
{
    return d->weight_t != NULL ? (double)d->weight_t[i] : 0;
}

static struct direction segment_direction(const struct norm_args *args, int64_t t, int64_t group)
{
    const int64_t count = args->x.columns / args->groups;
    struct direction d = {
        .x = row_of(args->x, t) + group * count,
        .x_t = row_of(args->x_t, t) + group * count,
        .weight = segment_parameter(args->weight, group, count),
        .weight_t = segment_parameter(args->weight_t, group, count),
        .count = count,
    };
    d.s = segment_statistics(args, d.x, count);
    for (int64_t i = 0; args->kind == NORM_LAYER && i < count; i++) d.mean_t += (double)d.x_t[i] / (double)count;
    for (int64_t i = 0; i < count; i++) d.q += normal_of(&d, i) * ((double)d.x_t[i] - d.mean_t) / (double)count;
    return d;
}

static void segment_tangent(const struct norm_args *args, int64_t t, int64_t group)
{
    const struct direction d = segment_direction(args, t, group);
    const real *bias_t = segment_parameter(args->bias_t, group, d.count);
    real *y_t = row_of(args->y_t, t) + group * d.count;
    for (int64_t i = 0; i < d.count; i++)
        y_t[i] = (real)(normal_tangent_of(&d, i) * (double)d.weight[i] + normal_of(&d, i) * weight_tangent_of(&d, i) +
                        (bias_t != NULL ? (double)bias_t[i] : 0));
}

struct means {
    double g, gn, g_t, gn_t; /* mean(g), mean(g n), and their tangents */
};

static void segment_backward_tangent(const struct norm_args *args, int64_t t, int64_t group)
{
    const struct direction d = segment_direction(args, t, group);
    const real *dy = row_of(args->dy, t) + group * d.count, *dy_t = row_of(args->dy_t, t) + group * d.count;
    real *dx = row_of(args->dx, t) + group * d.count, *dx_t = row_of(args->dx_t, t) + group * d.count;
    real *dweight_t = segment_parameter(args->dweight_t, group, d.count);
    real *dbias_t = segment_parameter(args->dbias_t, group, d.count);
    struct means mean = {0};
    for (int64_t i = 0; i < d.count; i++) {
        const double n = normal_of(&d, i), n_t = normal_tangent_of(&d, i), g = (double)dy[i] * (double)d.weight[i];
        const double g_t = (double)dy_t[i] * (double)d.weight[i] + (double)dy[i] * weight_tangent_of(&d, i);
        mean.g += g / (double)d.count;
        mean.gn += g * n / (double)d.count;
        mean.g_t += g_t / (double)d.count;
        mean.gn_t += (g_t * n + g * n_t) / (double)d.count;
        if (dweight_t != NULL) dweight_t[i] += (real)((double)dy_t[i] * n + (double)dy[i] * n_t);
        if (dbias_t != NULL) dbias_t[i] += dy_t[i];
    }
    if (args->kind == NORM_RMS) mean.g = mean.g_t = 0;
    for (int64_t i = 0; i < d.count; i++) {
        const double n = normal_of(&d, i), n_t = normal_tangent_of(&d, i), g = (double)dy[i] * (double)d.weight[i];
        const double g_t = (double)dy_t[i] * (double)d.weight[i] + (double)dy[i] * weight_tangent_of(&d, i);
        const double h = g - mean.g - n * mean.gn, h_t = g_t - mean.g_t - n_t * mean.gn - n * mean.gn_t;
        const real gradient = (real)(d.s.scale * h), tangent = (real)(d.s.scale * (h_t - d.s.scale * d.q * h));
        dx[i] = args->accumulate ? dx[i] + gradient : gradient;
        dx_t[i] = args->accumulate ? dx_t[i] + tangent : tangent;
    }
}

void REFERENCE(norm_tangent)(struct backend *backend, const struct norm_args *args)
{
    (void)backend;
    for (int64_t t = 0; t < args->x.rows; t++)
        for (int64_t group = 0; group < args->groups; group++) segment_tangent(args, t, group);
}

void REFERENCE(norm_backward_tangent)(struct backend *backend, const struct norm_args *args)
{
    (void)backend;
    for (int64_t t = 0; t < args->x.rows; t++)
        for (int64_t group = 0; group < args->groups; group++) segment_backward_tangent(args, t, group);
}
