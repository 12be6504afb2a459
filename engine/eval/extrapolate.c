#include "eval/extrapolate.h"

#include "eval/student.h"

#include <math.h>
#include <stddef.h>

static double flattening(double x)
{
    return -1 / sqrt(x);
}

static double straight(double x)
{
    return x;
}

/* By enum extrapolate_trends; NULL: no more. */
enum { TRENDS = 4 };
static double (*const shapes[][TRENDS])(double) = {
    [EXTRAPOLATE_LOSS] = {flattening, log, sqrt, straight},
    [EXTRAPOLATE_DAMAGE] = {log, sqrt, straight},
};

/* Least squares of y on u = g(x). A prediction at u0 has the variance
 *     s^2 (1 + 1 / n + (u0 - mean u)^2 / sum((u - mean u)^2)),  s^2 = squares / (n - 2)
 * (Draper and Smith, Applied Regression Analysis, 1998, 3.1). x is divided by `at`, so that no power of it overflows;
 * no fit depends on its unit. */
static struct extrapolation predict(double (*g)(double), const double *x, const double *y, int64_t count, double at,
                                    double *squares)
{
    const double n = (double)count;
    double mean_u = 0, mean_y = 0, uu = 0, uy = 0;
    for (int64_t i = 0; i < count; i++) {
        mean_u += g(x[i] / at) / n;
        mean_y += y[i] / n;
    }
    for (int64_t i = 0; i < count; i++) {
        const double u = g(x[i] / at) - mean_u;
        uu += u * u;
        uy += u * (y[i] - mean_y);
    }
    const double slope = uy / uu, far = g(1) - mean_u, value = mean_y + slope * far;
    *squares = 0;
    for (int64_t i = 0; i < count; i++) {
        const double residual = y[i] - mean_y - slope * (g(x[i] / at) - mean_u);
        *squares += residual * residual;
    }
    const double half = student_quantile(n - 2) * sqrt(*squares / (n - 2) * (1 + 1 / n + far * far / uu));
    return (struct extrapolation){value, value - half, value + half};
}

struct extrapolation extrapolate(enum extrapolate_trends trends, const double *x, const double *y, int64_t count,
                                 double at)
{
    const struct extrapolation none = {NAN, NAN, NAN};
    struct extrapolation found[TRENDS], out;
    double squares[TRENDS];
    int best = 0, tried = 0;
    if (count < EXTRAPOLATE_LEAST) return none;
    for (; tried < TRENDS && shapes[trends][tried] != NULL; tried++) {
        found[tried] = predict(shapes[trends][tried], x, y, count, at, &squares[tried]);
        if (!isfinite(found[tried].low) || !isfinite(found[tried].high)) return none;
        if (squares[tried] < squares[best]) best = tried;
    }
    out = found[best];
    for (int i = 0; i < tried; i++) {
        if (squares[i] >= EXTRAPOLATE_WORSE * squares[best] && i != best) continue;
        out.low = fmin(out.low, found[i].low);
        out.high = fmax(out.high, found[i].high);
    }
    return out;
}

struct extrapolation extrapolate_product(const struct extrapolation *base, const struct extrapolation *part)
{
    const double value = base->value * (1 + part->value), slope = 1 + part->value;
    return (struct extrapolation){
        value,
        value - hypot(slope * (base->value - base->low), base->value * (part->value - part->low)),
        value + hypot(slope * (base->high - base->value), base->value * (part->high - part->value)),
    };
}
