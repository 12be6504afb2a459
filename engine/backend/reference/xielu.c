/* xielu.c: xIELU (backend.h, xielu_args). With a = p, h = x² for x > 0, else a = n, h = expm1(min(x, ε)) - x:
 *   y = a h + β x,  dx = dy (a h' + β),  dα = softplus'(α) Σ dy h,  softplus' = σ,  softplus'' = σ (1 - σ)
 *   h' = 2x, h'' = 2;  otherwise h' = [x < ε] e^x - 1, h'' = [x < ε] e^x
 * Tangents, with a_t = σ(α) α_t:
 *   y_t = (a h' + β) x_t + a_t h,  dx_t = dy_t (a h' + β) + dy (a h'' x_t + a_t h')
 *   dα_t = σ Σ (dy_t h + dy h' x_t) + σ (1 - σ) α_t Σ dy h.  All in double. */
#include "backend/reference/real.h"

#include <math.h>

/* p and n, their slopes and curvatures by α, and their tangents; [0] for x > 0, [1] for the others. */
struct numbers {
    double a[2], slope[2], bend[2], direction[2], a_t[2], beta, epsilon;
};

static double scalar_of(struct matrix m)
{
    return m.data != NULL ? (double)*(const real *)m.data : 0;
}

static struct numbers numbers_of(const struct xielu_args *args)
{
    struct numbers n = {.beta = scalar_of(args->beta), .epsilon = scalar_of(args->epsilon)};
    const double alpha[2] = {scalar_of(args->alpha_p), scalar_of(args->alpha_n)};
    n.direction[0] = scalar_of(args->alpha_p_t);
    n.direction[1] = scalar_of(args->alpha_n_t);
    for (int i = 0; i < 2; i++) {
        n.a[i] = (alpha[i] > 0 ? alpha[i] : 0) + log1p(exp(-fabs(alpha[i]))) + (i == 1 ? n.beta : 0);
        n.slope[i] = 1 / (1 + exp(-alpha[i]));
        n.bend[i] = n.slope[i] * (1 - n.slope[i]);
        n.a_t[i] = n.slope[i] * n.direction[i];
    }
    return n;
}

struct side_values {
    int side;
    double h, slope, bend;
};

static struct side_values side_of(const struct numbers *n, double x)
{
    if (x > 0) return (struct side_values){0, x * x, 2 * x, 2};
    const bool inside = !(x >= n->epsilon); /* NaN stays NaN */
    const double rest = expm1(inside ? x : n->epsilon);
    return (struct side_values){1, rest - x, inside ? rest : -1, inside ? rest + 1 : 0};
}

void REFERENCE(xielu_forward)(struct backend *backend, const struct xielu_args *args)
{
    (void)backend;
    const struct numbers n = numbers_of(args);
    for (int64_t t = 0; t < args->x.rows; t++)
        for (int64_t c = 0; c < args->x.columns; c++) {
            const double x = (double)row_of(args->x, t)[c];
            const struct side_values f = side_of(&n, x);
            row_of(args->y, t)[c] = (real)(n.a[f.side] * f.h + n.beta * x);
        }
}

static void put(struct matrix to, int64_t t, int64_t c, double value, bool accumulate)
{
    real *out = row_of(to, t) + c;
    *out = accumulate ? *out + (real)value : (real)value;
}

static void scalar_add(struct matrix to, double value)
{
    if (to.data != NULL) *(real *)to.data += (real)value;
}

void REFERENCE(xielu_backward)(struct backend *backend, const struct xielu_args *args)
{
    (void)backend;
    const struct numbers n = numbers_of(args);
    double sums[2] = {0};
    for (int64_t t = 0; t < args->x.rows; t++)
        for (int64_t c = 0; c < args->x.columns; c++) {
            const struct side_values f = side_of(&n, (double)row_of(args->x, t)[c]);
            const double dy = (double)row_of(args->dy, t)[c];
            sums[f.side] += dy * f.h;
            put(args->dx, t, c, dy * (n.a[f.side] * f.slope + n.beta), args->accumulate);
        }
    scalar_add(args->dalpha_p, n.slope[0] * sums[0]);
    scalar_add(args->dalpha_n, n.slope[1] * sums[1]);
}

void REFERENCE(xielu_tangent)(struct backend *backend, const struct xielu_args *args)
{
    (void)backend;
    const struct numbers n = numbers_of(args);
    for (int64_t t = 0; t < args->x.rows; t++)
        for (int64_t c = 0; c < args->x.columns; c++) {
            const struct side_values f = side_of(&n, (double)row_of(args->x, t)[c]);
            const double x_t = (double)row_of(args->x_t, t)[c];
            row_of(args->y_t, t)[c] = (real)((n.a[f.side] * f.slope + n.beta) * x_t + n.a_t[f.side] * f.h);
        }
}

void REFERENCE(xielu_backward_tangent)(struct backend *backend, const struct xielu_args *args)
{
    (void)backend;
    const struct numbers n = numbers_of(args);
    double sums[2] = {0}, sums_t[2] = {0};
    for (int64_t t = 0; t < args->x.rows; t++)
        for (int64_t c = 0; c < args->x.columns; c++) {
            const struct side_values f = side_of(&n, (double)row_of(args->x, t)[c]);
            const double x_t = (double)row_of(args->x_t, t)[c];
            const double dy = (double)row_of(args->dy, t)[c], dy_t = (double)row_of(args->dy_t, t)[c];
            const double slope = n.a[f.side] * f.slope + n.beta;
            sums[f.side] += dy * f.h;
            sums_t[f.side] += dy_t * f.h + dy * f.slope * x_t;
            put(args->dx, t, c, dy * slope, args->accumulate);
            put(args->dx_t, t, c, dy_t * slope + dy * (n.a[f.side] * f.bend * x_t + n.a_t[f.side] * f.slope),
                args->accumulate);
        }
    scalar_add(args->dalpha_p_t, n.slope[0] * sums_t[0] + n.bend[0] * n.direction[0] * sums[0]);
    scalar_add(args->dalpha_n_t, n.slope[1] * sums_t[1] + n.bend[1] * n.direction[1] * sums[1]);
}
