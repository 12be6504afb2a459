/* convolution.c: reference/convolution.c on a strip of columns. Sums over rows are floats for a block of rows, doubles
 * beyond. */
#include "backend/cpu/kernels/all.h"

enum { STRIP = CONVOLUTION_STRIP, BLOCK = 64 };

#define INLINE static inline __attribute__((always_inline))

struct taps {
    float weight[CONVOLUTION_TAPS][STRIP];
};

/* The strip's columns of tap j, made contiguous. */
static void taps_load(struct taps *taps, const struct convolution_args *args, int64_t column, int64_t count)
{
    for (int64_t c = 0; c < count; c++)
        for (int64_t j = 0; j < args->weight.columns; j++) taps->weight[j][c] = float_row(args->weight, column + c)[j];
}

/* to = sum over j in [from, count) of taps[order j] times rows; `rows` is the row of tap `from`, its neighbours `step`
 * floats apart. */
INLINE void row_sum(float *restrict to, const float *bias, const struct taps *taps, const float *rows, int64_t step,
                    int64_t from, int64_t count, bool reversed, int64_t columns, bool accumulate)
{
#pragma omp simd
    for (int64_t c = 0; c < columns; c++) {
        float sum = bias != NULL ? bias[c] : 0;
        for (int64_t j = from; j < count; j++)
            sum += taps->weight[reversed ? count - 1 - j : j][c] * rows[(j - from) * step + c];
        to[c] = accumulate ? to[c] + sum : sum;
    }
}

void KERNEL(convolution_forward)(const struct convolution_args *args, int64_t column, int64_t count, int64_t first,
                                 int64_t end)
{
    const int64_t taps_count = args->weight.columns;
    const float *bias = args->bias.data != NULL ? float_row(args->bias, 0) + column : NULL;
    struct taps taps;
    taps_load(&taps, args, column, count);
    int64_t b = 0;
    for (int64_t t = first; t < end; t++) {
        while (t >= args->batch->starts[b + 1]) b++;
        const int64_t position = t - args->batch->starts[b], missing = taps_count - 1 - position,
                      from = missing > 0 ? missing : 0;
        const float *rows = float_row(args->x, t - taps_count + 1 + from) + column;
        float *y = float_row(args->y, t) + column;
        if (from == 0 && taps_count == 4)
            row_sum(y, bias, &taps, rows, args->x.stride, 0, 4, false, count, args->accumulate);
        else
            row_sum(y, bias, &taps, rows, args->x.stride, from, taps_count, false, count, args->accumulate);
        if (from > 0 && args->before.data != NULL) {
            const int64_t columns = args->x.columns;
            row_sum(y, NULL, &taps, float_row(args->before, b) + position * columns + column, columns, 0, from, false,
                    count, true);
        }
    }
}

/* dx of row t in a sequence that ends before row `end`. */
static void input_backward(const struct convolution_args *args, const struct taps *taps, int64_t column, int64_t count,
                           int64_t t, int64_t end)
{
    const int64_t taps_count = args->weight.columns, ahead = end - t < taps_count ? end - t : taps_count;
    const float *rows = float_row(args->dy, t) + column;
    float *dx = float_row(args->dx, t) + column;
    if (ahead == 4 && taps_count == 4) {
        row_sum(dx, NULL, taps, rows, args->dy.stride, 0, 4, true, count, args->accumulate);
        return;
    }
    for (int64_t c = 0; c < count; c++) {
        float sum = 0;
        for (int64_t j = 0; j < ahead; j++) sum += taps->weight[taps_count - 1 - j][c] * rows[j * args->dy.stride + c];
        dx[c] = args->accumulate ? dx[c] + sum : sum;
    }
}

struct sums {
    double weight[CONVOLUTION_TAPS][STRIP], bias[STRIP];
};

/* Adds the sums over rows [first, end) of a sequence that starts at row `start`. */
static void parameters_backward(const struct convolution_args *args, struct sums *sums, int64_t column, int64_t count,
                                int64_t start, int64_t first, int64_t end)
{
    const int64_t taps_count = args->weight.columns;
    for (int64_t j = args->dweight.data != NULL ? 0 : taps_count; j <= taps_count; j++) { /* the last is the bias */
        const int64_t back = taps_count - 1 - j, from = j < taps_count && first - back < start ? start + back : first;
        float block[STRIP] = {0};
        for (int64_t t = from; t < end; t++) {
            const float *dy = float_row(args->dy, t) + column;
            if (j < taps_count) {
                const float *x = float_row(args->x, t - back) + column;
#pragma omp simd
                for (int64_t c = 0; c < count; c++) block[c] += dy[c] * x[c];
            } else {
#pragma omp simd
                for (int64_t c = 0; c < count; c++) block[c] += dy[c];
            }
        }
        double *to = j < taps_count ? sums->weight[j] : sums->bias;
        for (int64_t c = 0; c < count; c++) to[c] += (double)block[c];
    }
}

void KERNEL(convolution_backward)(const struct convolution_args *args, int64_t column, int64_t count)
{
    const struct batch *batch = args->batch;
    struct sums sums = {0};
    struct taps taps;
    if (args->dx.data != NULL) taps_load(&taps, args, column, count);
    for (int64_t b = 0; b < batch->sequences; b++) {
        const int64_t start = batch->starts[b], end = batch->starts[b + 1];
        for (int64_t t = start; args->dx.data != NULL && t < end; t++)
            input_backward(args, &taps, column, count, t, end);
        for (int64_t first = start; (args->dweight.data != NULL || args->dbias.data != NULL) && first < end;
             first += BLOCK)
            parameters_backward(args, &sums, column, count, start, first, end - first < BLOCK ? end : first + BLOCK);
    }
    for (int64_t c = 0; args->dweight.data != NULL && c < count; c++)
        for (int64_t j = 0; j < args->dweight.columns; j++)
            float_row(args->dweight, column + c)[j] += (float)sums.weight[j][c];
    for (int64_t c = 0; args->dbias.data != NULL && c < count; c++)
        float_row(args->dbias, 0)[column + c] += (float)sums.bias[c];
}
