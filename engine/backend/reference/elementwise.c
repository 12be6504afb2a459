/* elementwise.c: fill, scaled addition, reductions over a whole matrix or its rows, copies to and from the host. [T, C]
 * matrices. */
#include "backend/reference/real.h"

#include <math.h>

void REFERENCE(fill)(struct backend *backend, struct matrix to, double value)
{
    (void)backend;
    for (int64_t t = 0; t < to.rows; t++)
        for (int64_t c = 0; c < to.columns; c++) row_of(to, t)[c] = (real)value;
}

/* to = alpha from + beta to */
void REFERENCE(add)(struct backend *backend, struct matrix to, struct matrix from, double alpha, double beta)
{
    (void)backend;
    for (int64_t t = 0; t < to.rows; t++) {
        real *out = row_of(to, t);
        const real *in = row_of(from, t);
        for (int64_t c = 0; c < to.columns; c++) {
            const real term = (real)alpha * in[c];
            out[c] = beta == 0 ? term : term + (real)beta * out[c];
        }
    }
}

void REFERENCE(sum)(struct backend *backend, struct matrix to, struct matrix a, struct matrix b)
{
    if (to.data != a.data) REFERENCE(add)(backend, to, a, 1, 0);
    REFERENCE(add)(backend, to, b, 1, 1);
}

/* to = to (|by| + offset) */
void REFERENCE(scale_by_magnitude)(struct backend *backend, struct matrix to, struct matrix by, double offset)
{
    (void)backend;
    for (int64_t t = 0; t < to.rows; t++)
        for (int64_t c = 0; c < to.columns; c++)
            row_of(to, t)[c] = (real)((double)row_of(to, t)[c] * (fabs((double)row_of(by, t)[c]) + offset));
}

void REFERENCE(clip)(struct backend *backend, struct matrix to, struct matrix from, double bound)
{
    (void)backend;
    const real most = (real)bound;
    for (int64_t t = 0; t < to.rows; t++)
        for (int64_t c = 0; c < to.columns; c++) {
            const real x = row_of(from, t)[c]; /* NaN stays NaN */
            row_of(to, t)[c] = x > most ? most : x < -most ? -most : x;
        }
}

void REFERENCE(clip_pass)(struct backend *backend, struct matrix to, struct matrix from, struct matrix by, double bound,
                          bool accumulate)
{
    (void)backend;
    const real most = (real)bound;
    for (int64_t t = 0; t < to.rows; t++)
        for (int64_t c = 0; c < to.columns; c++) {
            const real x = row_of(by, t)[c], passed = x > most || x < -most ? 0 : row_of(from, t)[c];
            row_of(to, t)[c] = accumulate ? row_of(to, t)[c] + passed : passed;
        }
}

double REFERENCE(dot)(struct backend *backend, struct matrix a, struct matrix b)
{
    (void)backend;
    double sum = 0;
    for (int64_t t = 0; t < a.rows; t++)
        for (int64_t c = 0; c < a.columns; c++) sum += (double)row_of(a, t)[c] * (double)row_of(b, t)[c];
    return sum;
}

bool REFERENCE(finite)(struct backend *backend, struct matrix a)
{
    (void)backend;
    for (int64_t t = 0; t < a.rows; t++)
        for (int64_t c = 0; c < a.columns; c++)
            if (!isfinite(row_of(a, t)[c])) return false;
    return true;
}

void REFERENCE(add_row)(struct backend *backend, struct matrix to, struct matrix row)
{
    (void)backend;
    for (int64_t t = 0; t < to.rows; t++)
        for (int64_t c = 0; c < to.columns; c++) row_of(to, t)[c] += row_of(row, 0)[c];
}

void REFERENCE(sum_rows)(struct backend *backend, struct matrix to_row, struct matrix from)
{
    (void)backend;
    for (int64_t c = 0; c < from.columns; c++) {
        double sum = 0;
        for (int64_t t = 0; t < from.rows; t++) sum += (double)row_of(from, t)[c];
        row_of(to_row, 0)[c] += (real)sum;
    }
}

static real number_at(const void *from, int64_t i, enum dtype dtype)
{
    const struct dtype_info *info = dtype_info(dtype);
    float value;
    if (dtype == DTYPE_F64) return (real)((const double *)from)[i];
    info->to_f32((const char *)from + i * (int64_t)info->bits / 8, &value, 1);
    return (real)value;
}

void REFERENCE(upload)(struct backend *backend, struct matrix to, const void *from, enum dtype dtype)
{
    (void)backend;
    for (int64_t t = 0; t < to.rows; t++)
        for (int64_t c = 0; c < to.columns; c++) row_of(to, t)[c] = number_at(from, t * to.columns + c, dtype);
}

void REFERENCE(download)(struct backend *backend, struct matrix from, void *to, enum dtype dtype)
{
    (void)backend;
    float *floats = to;
    double *doubles = to;
    for (int64_t t = 0; t < from.rows; t++)
        for (int64_t c = 0; c < from.columns; c++) {
            const int64_t i = t * from.columns + c;
            if (dtype == DTYPE_F64)
                doubles[i] = (double)row_of(from, t)[c];
            else
                floats[i] = (float)row_of(from, t)[c];
        }
}
