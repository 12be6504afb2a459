/* convolution.c: a causal convolution of each column, within a sequence. x [T, C], w [C, K]; by column:
 *
 *   y_t    = bias + sum_j w_j x_{t-K+1+j}
 *   dx_t   = sum_j w_j dy_{t+K-1-j}
 *   dw_j  += sum_t dy_t x_{t-K+1+j}
 *   dbias += sum_t dy_t
 *
 * Sums over t in double. */
#include "backend/reference/real.h"

/* The input of tap j at `position` of sequence b. */
static real input_of(const struct convolution_args *args, int64_t b, int64_t position, int64_t j, int64_t c)
{
    const int64_t back = args->weight.columns - 1 - j, from = position - back;
    if (from >= 0) return row_of(args->x, args->batch->starts[b] + from)[c];
    return args->before.data != NULL ? row_of(args->before, b)[(args->weight.columns - 1 + from) * args->x.columns + c]
                                     : 0;
}

void REFERENCE(convolution_forward)(struct backend *backend, const struct convolution_args *args)
{
    (void)backend;
    const struct batch *batch = args->batch;
    for (int64_t b = 0; b < batch->sequences; b++)
        for (int64_t t = batch->starts[b]; t < batch->starts[b + 1]; t++)
            for (int64_t c = 0; c < args->x.columns; c++) {
                real sum = args->bias.data != NULL ? row_of(args->bias, 0)[c] : 0;
                for (int64_t j = 0; j < args->weight.columns; j++)
                    sum += row_of(args->weight, c)[j] * input_of(args, b, t - batch->starts[b], j, c);
                real *y = row_of(args->y, t) + c;
                *y = args->accumulate ? *y + sum : sum;
            }
}

/* dx of row t in a sequence that ends before row `end`. */
static void input_backward(const struct convolution_args *args, int64_t t, int64_t end, int64_t c)
{
    const int64_t taps = args->weight.columns;
    real sum = 0;
    for (int64_t ahead = 0; ahead < taps && t + ahead < end; ahead++)
        sum += row_of(args->weight, c)[taps - 1 - ahead] * row_of(args->dy, t + ahead)[c];
    real *dx = row_of(args->dx, t) + c;
    *dx = args->accumulate ? *dx + sum : sum;
}

static void parameters_backward(const struct convolution_args *args, int64_t c)
{
    const int64_t taps = args->weight.columns, *starts = args->batch->starts;
    double sums[CONVOLUTION_TAPS] = {0}, bias = 0;
    for (int64_t b = 0; b < args->batch->sequences; b++)
        for (int64_t t = starts[b]; t < starts[b + 1]; t++) {
            const double dy = (double)row_of(args->dy, t)[c];
            bias += dy;
            for (int64_t j = 0; args->dweight.data != NULL && j < taps; j++)
                sums[j] += dy * (double)input_of(args, b, t - starts[b], j, c);
        }
    for (int64_t j = 0; args->dweight.data != NULL && j < taps; j++) row_of(args->dweight, c)[j] += (real)sums[j];
    if (args->dbias.data != NULL) row_of(args->dbias, 0)[c] += (real)bias;
}

void REFERENCE(convolution_backward)(struct backend *backend, const struct convolution_args *args)
{
    (void)backend;
    const struct batch *batch = args->batch;
    for (int64_t b = 0; args->dx.data != NULL && b < batch->sequences; b++)
        for (int64_t t = batch->starts[b]; t < batch->starts[b + 1]; t++)
            for (int64_t c = 0; c < args->dy.columns; c++) input_backward(args, t, batch->starts[b + 1], c);
    for (int64_t c = 0; (args->dweight.data != NULL || args->dbias.data != NULL) && c < args->dy.columns; c++)
        parameters_backward(args, c);
}
