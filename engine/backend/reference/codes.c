/* codes.c: what quantizers are made of, but for GPTQ's block (gptq.c); backend/codes.h and backend/grid.h have the
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

/* From the lowest to the highest of some weights, each clamped to [-most, most] first. */
static void find_range(struct grid grid, const real *weights, int64_t count, real most, double *lo, double *hi)
{
    *lo = *hi = (double)grid_origin(grid, (float)fmin(fmax((double)weights[0], -(double)most), (double)most));
    for (int64_t c = 0; c < count; c++) {
        const double w = fmin(fmax((double)weights[c], -(double)most), (double)most);
        *lo = w < *lo ? w : *lo;
        *hi = w > *hi ? w : *hi;
    }
}

static void find(struct grid grid, const real *weights, int64_t count, real most, double *scale, double *zero)
{
    double lo, hi;
    find_range(grid, weights, count, most, &lo, &hi);
    grid_of_range(grid, lo, hi, scale, zero);
    *zero = (double)(uint8_t)*zero;
}

void REFERENCE(grid_find)(struct backend *backend, struct grid grid, struct matrix weight, struct grids grids)
{
    (void)backend;
    for (int64_t r = 0; r < weight.rows; r++)
        for (int64_t first = 0, run = 0; first < weight.columns; first += grids.group_size, run++) {
            const int64_t left = weight.columns - first, at = run * grids.stride + r;
            find(grid, row_of(weight, r) + first, left < grids.group_size ? left : grids.group_size, (real)INFINITY,
                 &grids.scales[at], &grids.zeros[at]);
        }
}

void REFERENCE(grid_encode)(struct backend *backend, struct grid grid, struct matrix weight, const struct codes *codes)
{
    (void)backend;
    for (int64_t r = 0; r < codes->rows; r++)
        for (int64_t g = 0; g < codes->groups; g++) {
            const int64_t first = g * codes->group_size, left = codes->columns - first;
            const int64_t end = first + (left < codes->group_size ? left : codes->group_size);
            double scale, zero;
            find(grid, row_of(weight, r) + first, end - first, (real)INFINITY, &scale, &zero);
            codes->scales[r * codes->groups + g] = (float)scale;
            codes->zeros[r * codes->groups + g] = (uint8_t)zero;
            for (int64_t c = first; c < end; c++)
                codes->codes[r * codes->columns + c] =
                    (uint8_t)(int32_t)grid_code((float)row_of(weight, r)[c], scale, zero, grid_top(grid));
        }
}

void REFERENCE(book_encode)(struct backend *backend, struct matrix weight, const struct codes *codes)
{
    (void)backend;
    const int64_t size = codes->group_size, columns = codes->columns, total = codes->rows * columns;
    double values[CODEBOOK_VALUES];
    for (int i = 0; i < CODEBOOK_VALUES; i++) values[i] = (double)codes->codebook[i];
    for (int64_t block = 0; block < codes->groups; block++) {
        const int64_t first = block * size, last = first + size < total ? first + size : total;
        double most = 0;
        for (int64_t i = first; i < last; i++)
            most = fmax(most, fabs((double)row_of(weight, i / columns)[i % columns]));
        codes->scales[block] = (float)most;
        for (int64_t i = first; i < last; i++) {
            const double w = (double)row_of(weight, i / columns)[i % columns];
            codes->codes[i] = (uint8_t)grid_nearest(values, CODEBOOK_VALUES, most > 0 ? w / most : 0);
        }
    }
}

static real value_of(const struct codes *codes, int64_t r, int64_t c)
{
    const int64_t i = r * codes->columns + c;
    real value;
    if (codes->codebook != NULL) {
        value = (real)codes->codebook[codes->codes[i]] * (real)codes->scales[i / codes->group_size];
    } else {
        const int64_t at = r * codes->groups + (codes->g_idx != NULL ? codes->g_idx[c] : c / codes->group_size);
        value = (real)(codes->codes[i] - codes->zeros[at]) * (real)codes->scales[at];
    }
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

/* d H dᵀ of one row's group when it is clamped to `most`; d is scratch. */
static double clipped_error(const struct clip_search_args *args, const real *weight, int64_t first, int64_t count,
                            real most, real *d)
{
    double scale, zero, sum = 0;
    find(args->grid, weight, count, most, &scale, &zero);
    for (int64_t c = 0; c < count; c++) {
        const real clamped = weight[c] < -most ? -most : weight[c] > most ? most : weight[c];
        const double code = grid_code((float)clamped, scale, zero, grid_top(args->grid));
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
    for (int64_t r = 0; r < args->weight.rows; r++)
        for (int64_t first = 0; first < args->weight.columns; first += args->group_size) {
            const int64_t left = args->weight.columns - first,
                          count = left < args->group_size ? left : args->group_size;
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
