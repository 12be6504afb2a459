/* codes.c: the slots for quantizers, except GPTQ's block (gptq.c); backend/codes.h and backend/coding.h have the
 * equations. */
#include "backend/reference/real.h"

#include <math.h>
#include <string.h>

void REFERENCE(write_bytes)(struct backend *backend, void *to, const void *from, size_t bytes)
{
    (void)backend;
    if (bytes > 0) memcpy(to, from, bytes);
}

void REFERENCE(read_bytes)(struct backend *backend, const void *from, void *to, size_t bytes)
{
    (void)backend;
    if (bytes > 0) memcpy(to, from, bytes);
}

void REFERENCE(mirror)(struct backend *backend, struct matrix h)
{
    (void)backend;
    for (int64_t r = 0; r < h.rows; r++)
        for (int64_t c = r + 1; c < h.columns; c++) row_of(h, r)[c] = row_of(h, c)[r];
}

void REFERENCE(select)(struct backend *backend, struct matrix to, struct matrix from, const int32_t *rows,
                       const int32_t *columns)
{
    (void)backend;
    for (int64_t r = 0; r < to.rows; r++)
        for (int64_t c = 0; c < to.columns; c++)
            row_of(to, r)[c] = row_of(from, rows == NULL ? r : rows[r])[columns == NULL ? c : columns[c]];
}

void REFERENCE(scale_columns)(struct backend *backend, struct matrix to, struct matrix from, struct matrix by)
{
    (void)backend;
    for (int64_t r = 0; r < to.rows; r++)
        for (int64_t c = 0; c < to.columns; c++) row_of(to, r)[c] = row_of(from, r)[c] * row_of(by, 0)[c];
}

void REFERENCE(add_magnitudes)(struct backend *backend, double *sums, struct matrix largest, struct matrix x)
{
    (void)backend;
    for (int64_t t = 0; t < x.rows; t++)
        for (int64_t c = 0; c < x.columns; c++) {
            const real size = row_of(x, t)[c] < 0 ? -row_of(x, t)[c] : row_of(x, t)[c];
            sums[c] += (double)size;
            if (size > row_of(largest, 0)[c]) row_of(largest, 0)[c] = size;
        }
}

void REFERENCE(encode)(struct backend *backend, struct matrix weight, const struct codes *codes)
{
    double values[CODING_VALUES];
    (void)backend;
    coding_table(codes->coding, values);
    for (int64_t group = 0; group < codes_all_groups(codes); group++) {
        const int64_t count = codes_count(codes, group);
        double lo = 0, hi = 0, scale, zero;
        int64_t r, c;
        for (int64_t k = 0; k < count; k++) {
            codes_place(codes, group, k, &r, &c);
            const float w = (float)row_of(weight, r)[c];
            lo = fmin(lo, (double)w);
            hi = fmax(hi, (double)w);
        }
        if (codes->coding.given) {
            scale = (double)codes->scales[group];
            zero = codes->zeros != NULL ? codes->zeros[group] : 0;
        } else {
            coding_scale(codes->coding, lo, hi, &scale, &zero);
        }
        if (!codes_keep_scale(codes, group, scale, zero)) continue;
        for (int64_t k = 0; k < count; k++) {
            codes_place(codes, group, k, &r, &c);
            const float w = (float)row_of(weight, r)[c];
            codes->codes[r * codes->columns + c] =
                (uint8_t)(codes->coding.values != NULL ? coding_look_up(codes->coding, values, w, scale)
                                                       : (int)coding_step(w, scale, zero, coding_top(codes->coding)));
        }
    }
}

static real value_of(const struct codes *codes, int64_t r, int64_t c)
{
    const int64_t group = codes_group(codes, r, c);
    const int code = codes->codes[r * codes->columns + c], zero = codes->zeros != NULL ? codes->zeros[group] : 0;
    const real value = (real)coding_value(codes->coding, code, zero) * (real)codes->scales[group];
    return codes->column_scales == NULL ? value : value / (real)codes->column_scales[c];
}

void REFERENCE(decode)(struct backend *backend, const struct codes *codes, int64_t first, struct matrix to,
                       struct matrix from)
{
    (void)backend;
    for (int64_t r = 0; r < to.rows; r++)
        for (int64_t c = 0; c < codes->columns; c++) {
            const real value = value_of(codes, first + r, c);
            row_of(to, r)[c] = from.data == NULL ? value : row_of(from, r)[c] - value;
        }
}

/* The scale and zero point of some weights of a row, each clamped to [-most, most] first. */
static void find_clamped(struct coding coding, const real *weights, int64_t count, real most, double *scale,
                         double *zero)
{
    double lo = 0, hi = 0;
    for (int64_t c = 0; c < count; c++) {
        const double w = fmin(fmax((double)weights[c], -(double)most), (double)most);
        lo = w < lo ? w : lo;
        hi = w > hi ? w : hi;
    }
    coding_scale(coding, lo, hi, scale, zero);
}

/* d H dᵀ of one row's group when it is clamped to `most`; d is scratch. */
static double clipped_error(const struct clip_search_args *args, const real *weight, int64_t first, int64_t count,
                            real most, real *d)
{
    double scale, zero, sum = 0;
    find_clamped(args->coding, weight, count, most, &scale, &zero);
    for (int64_t c = 0; c < count; c++) {
        const real clamped = weight[c] < -most ? -most : weight[c] > most ? most : weight[c];
        const double code = coding_step((float)clamped, scale, zero, coding_top(args->coding));
        d[c] = (weight[c] - (real)(code - zero) * (real)(float)scale) / row_of(args->scales, 0)[first + c];
    }
    for (int64_t i = 0; i < count; i++) {
        real product = 0;
        for (int64_t c = 0; c < count; c++) product += d[c] * row_of(args->hessian, first + c)[first + i];
        sum += (double)d[i] * (double)product;
    }
    return sum;
}

void REFERENCE(clip_search)(struct backend *backend, const struct clip_search_args *args)
{
    (void)backend;
    const int64_t size = args->coding.group_size;
    for (int64_t r = 0; r < args->weight.rows; r++)
        for (int64_t first = 0; first < args->weight.columns; first += size) {
            const int64_t left = args->weight.columns - first, count = left < size ? left : size;
            real *weight = row_of(args->weight, r) + first, most = 0, best;
            double least = (double)INFINITY;
            for (int64_t c = 0; c < count; c++)
                most = (real)fabs((double)weight[c]) > most ? (real)fabs((double)weight[c]) : most;
            best = most;
            for (int64_t step = 0; step < args->steps; step++) {
                const real tried =
                    (real)((float)most * (float)(1 - (double)step / (double)args->parts)); /* grids are of floats */
                const double error = clipped_error(args, weight, first, count, tried, row_of(args->scratch, 0));
                if (!(error < least)) continue;
                least = error;
                best = tried;
            }
            for (int64_t c = 0; c < count; c++)
                weight[c] = weight[c] < -best ? -best : weight[c] > best ? best : weight[c];
        }
}
