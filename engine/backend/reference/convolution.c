/* convolution.c: y_t = bias + sum_j w_j x_{t-K+1+j}; dx_t = sum_j w_j dy_{t+K-1-j}, dw_j += sum_t dy_t x_{t-K+1+j},
 * dbias += sum_t dy_t; all by column, within a sequence. x [T, C], w [C, K]. Sums over t in double. */
#include "backend/reference/real.h"

/* The first tap whose input lies in the sequence of row t. */
static int64_t first_tap(const struct convolution_args *args, int64_t t)
{
    const int64_t before = args->weight.columns - 1 - args->batch->positions[t];
    return before > 0 ? before : 0;
}

void REFERENCE(convolution_forward)(struct backend *backend, const struct convolution_args *args)
{
    (void)backend;
    const int64_t taps = args->weight.columns;
    for (int64_t t = 0; t < args->x.rows; t++)
        for (int64_t c = 0; c < args->x.columns; c++) {
            real sum = args->bias.data ? row_of(args->bias, 0)[c] : 0;
            for (int64_t j = first_tap(args, t); j < taps; j++)
                sum += row_of(args->weight, c)[j] * row_of(args->x, t - taps + 1 + j)[c];
            real *y = row_of(args->y, t) + c;
            *y = args->accumulate ? *y + sum : sum;
        }
}

static void input_backward(const struct convolution_args *args, int64_t t, int64_t c)
{
    const int64_t taps = args->weight.columns;
    real sum = 0;
    for (int64_t ahead = 0; ahead < taps && t + ahead < args->dy.rows; ahead++)
        if (args->batch->positions[t + ahead] == args->batch->positions[t] + ahead)
            sum += row_of(args->weight, c)[taps - 1 - ahead] * row_of(args->dy, t + ahead)[c];
    real *dx = row_of(args->dx, t) + c;
    *dx = args->accumulate ? *dx + sum : sum;
}

static void parameters_backward(const struct convolution_args *args, int64_t c)
{
    const int64_t taps = args->weight.columns;
    double sums[CONVOLUTION_TAPS] = {0}, bias = 0;
    for (int64_t t = 0; t < args->dy.rows; t++) {
        const double dy = (double)row_of(args->dy, t)[c];
        bias += dy;
        for (int64_t j = first_tap(args, t); args->dweight.data && j < taps; j++)
            sums[j] += dy * (double)row_of(args->x, t - taps + 1 + j)[c];
    }
    for (int64_t j = 0; args->dweight.data && j < taps; j++) row_of(args->dweight, c)[j] += (real)sums[j];
    if (args->dbias.data) row_of(args->dbias, 0)[c] += (real)bias;
}

void REFERENCE(convolution_backward)(struct backend *backend, const struct convolution_args *args)
{
    (void)backend;
    for (int64_t t = 0; args->dx.data && t < args->dy.rows; t++)
        for (int64_t c = 0; c < args->dy.columns; c++) input_backward(args, t, c);
    for (int64_t c = 0; (args->dweight.data || args->dbias.data) && c < args->dy.columns; c++) parameters_backward(args, c);
}
