/* inputs.c: transforms of the inputs of linears for quantizers: rounding and Hadamard transforms (backend/codes.h has
 * the equations). */
#include "backend/reference/real.h"

#include <math.h>
#include <string.h>

static real magnitude(real x)
{
    return x < 0 ? -x : x;
}

static void mark(const struct round_rows_args *args)
{
    const real threshold = (real)(float)args->threshold;
    for (int64_t c = 0; c < args->x.columns; c++) args->left[c] = 0;
    for (int64_t t = 0; t < args->x.rows; t++)
        for (int64_t c = 0; c < args->x.columns; c++)
            if (magnitude(row_of(args->x, t)[c]) >= threshold) args->left[c] = 1;
}

/* Whether column c of a row counts for the row's maximum. */
static bool counts(const struct round_rows_args *args, int64_t c, real smoothed)
{
    if (args->spared != NULL && args->spared[c]) return false;
    if (args->threshold == 0) return true;
    return args->exact ? !args->left[c] : !(magnitude(smoothed) >= (real)(float)args->threshold);
}

static void round_row(const struct round_rows_args *args, const real *x, real *to, real *outliers)
{
    const real top = (real)((1 << (args->bits - 1)) - 1);
    real most = 0;
    for (int64_t c = 0; c < args->x.columns; c++) {
        const real smoothed = args->smoothing == NULL ? x[c] : x[c] / (real)args->smoothing[c];
        if (counts(args, c, smoothed) && magnitude(smoothed) > most) most = magnitude(smoothed);
    }
    for (int64_t c = 0; c < args->x.columns; c++) {
        const real smoothed = args->smoothing == NULL ? x[c] : x[c] / (real)args->smoothing[c];
        const bool spared = args->spared != NULL && args->spared[c], left = args->threshold > 0 && args->left[c];
        const real code = most > 0 ? (real)rint((double)(top * smoothed / most)) : smoothed == smoothed ? 0 : smoothed;
        real value = code * (most / top);
        if (args->smoothing != NULL) value *= (real)args->smoothing[c];
        if (left) value = args->exact ? 0 : x[c];
        to[c] = spared ? x[c] : value;
        if (outliers != NULL) outliers[c] = left && !spared ? x[c] : 0;
    }
}

void REFERENCE(round_rows)(struct backend *backend, const struct round_rows_args *args)
{
    (void)backend;
    if (args->threshold > 0) mark(args);
    for (int64_t t = 0; t < args->x.rows; t++)
        round_row(args, row_of(args->x, t), row_of(args->to, t),
                  args->outliers.data == NULL ? NULL : row_of(args->outliers, t));
}

/* v = v times Sylvester's matrix, in each run of `power`. */
static void sylvester(double *v, int64_t size, int64_t power)
{
    for (int64_t half = 1; half < power; half *= 2)
        for (int64_t i = 0; i < size; i += 2 * half)
            for (int64_t j = i; j < i + half; j++) {
                const double a = v[j], b = v[j + half];
                v[j] = a + b;
                v[j + half] = a - b;
            }
}

static void paley(const struct hadamard_args *args, double *v)
{
    for (int64_t offset = 0; offset < args->power; offset++) {
        double y[HADAMARD_ORDER] = {0};
        for (int64_t i = 0; i < args->order; i++)
            for (int64_t j = 0; j < args->order; j++)
                y[j] += args->paley[args->inverse ? j * args->order + i : i * args->order + j] *
                        v[i * args->power + offset];
        for (int64_t i = 0; i < args->order; i++) v[i * args->power + offset] = y[i];
    }
}

void REFERENCE(hadamard)(struct backend *backend, const struct hadamard_args *args)
{
    (void)backend;
    const int64_t size = args->columns ? args->x.rows : args->x.columns,
                  count = args->columns ? args->x.columns : args->x.rows;
    const double norm = 1 / sqrt((double)(args->order * args->power));
    double *v = args->scratch;
    for (int64_t n = 0; n < count; n++) {
        double mean = 0;
        for (int64_t i = 0; i < size; i++)
            v[i] = (double)(args->columns ? row_of(args->x, i)[n] : row_of(args->x, n)[i]);
        for (int64_t i = 0; i < size && args->centred; i++) mean += v[i];
        mean /= (double)size;
        for (int64_t i = 0; i < size && args->centred; i++) v[i] = (double)(real)(v[i] - mean);
        for (int64_t i = 0; i < size && args->sign != NULL && !args->inverse; i++) v[i] *= (double)args->sign[i];
        sylvester(v, size, args->power);
        if (args->order > 1) paley(args, v);
        for (int64_t i = 0; i < size; i++) {
            const double value = v[i] * (args->sign != NULL && args->inverse ? norm * (double)args->sign[i] : norm);
            *(args->columns ? row_of(args->to, i) + n : row_of(args->to, n) + i) = (real)value;
        }
    }
}

void REFERENCE(add_products)(struct backend *backend, struct matrix to, struct matrix x, struct matrix by)
{
    (void)backend;
    for (int64_t r = 0; r < x.rows; r++) {
        double sum = 0;
        for (int64_t c = 0; c < x.columns; c++) sum += (double)row_of(x, r)[c] * (double)row_of(by, 0)[c];
        row_of(to, 0)[r] = (real)((double)row_of(to, 0)[r] + sum);
    }
}
