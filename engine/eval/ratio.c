#include "eval/ratio.h"

#include "eval/bootstrap.h"
#include "eval/leverage.h"
#include "eval/student.h"

#include <math.h>
#include <stddef.h>

double ratio_variance(const double *a, const double *b, const int64_t *weights, int64_t count)
{
    double sum_a = 0, sum_b = 0, squares = 0;
    if (count < 2) return NAN;
    const struct leverage leverage = leverage_of(weights, count);
    for (int64_t i = 0; i < count; i++) {
        sum_a += (double)weights[i] * (a != NULL ? a[i] : 1);
        sum_b += (double)weights[i] * b[i];
    }
    for (int64_t i = 0; i < count; i++) {
        const double whole = (double)weights[i] * (b[i] - sum_b / sum_a * (a != NULL ? a[i] : 1));
        const double residual = leverage_residual(&leverage, whole, weights[i]);
        squares += residual * residual;
    }
    const double variance = squares / (sum_a * sum_a) * leverage.over / leverage.under;
    return isfinite(variance) ? variance : NAN;
}

/* NAN in any of them: no interval. */
static struct ratio_interval around(double value, double variance, double t, enum ratio_method method)
{
    const double half = t * sqrt(variance);
    if (!isfinite(value) || !isfinite(half)) return (struct ratio_interval){NAN, NAN, RATIO_NONE};
    return (struct ratio_interval){value - half, value + half, method};
}

bool ratio_resampled(double degrees)
{
    return degrees + 1 >= RATIO_BOOTSTRAP_FROM;
}

enum status ratio_interval(const double *a, const double *b, const int64_t *weights, int64_t count, double value,
                           uint64_t seed, struct ratio_interval *out, struct error *error)
{
    const double degrees = leverage_degrees(weights, count);
    if (!ratio_resampled(degrees)) {
        *out = ratio_interval_mean(value, ratio_variance(a, b, weights, count), degrees);
        return STATUS_OK;
    }
    const enum status status = bootstrap_ratio(a, b, weights, count, value, seed, &out->low, &out->high, error);
    out->method = status == STATUS_OK && isfinite(out->low) ? RATIO_BOOTSTRAP : RATIO_NONE;
    return status;
}

struct ratio_interval ratio_interval_mean(double mean, double variance, double degrees)
{
    return around(mean, variance, student_quantile(degrees), RATIO_STUDENT);
}

struct ratio_interval ratio_interval_draws(double mean, double evaluation, double degrees, double between,
                                           int64_t draws)
{
    const double calibration = between / (double)draws, variance = evaluation + calibration;
    const double t_evaluation = student_quantile(degrees);
    const double t_calibration = student_quantile((double)(draws - 1));
    /* without any variance the weights do not matter */
    const double share = variance > 0 ? calibration / variance : 1;
    return around(mean, variance, (1 - share) * t_evaluation + share * t_calibration, RATIO_DRAWS);
}
