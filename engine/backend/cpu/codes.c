/* codes.c: what quantizers are made of, cut into tasks by rows. */
#include "backend/cpu/cpu.h"

#include <math.h>
#include <string.h>

enum { MIRROR_TILE = 64, MAGNITUDES_STRIP = 64, BLOCKS_A_TASK = 256 };

void cpu_write_bytes(struct backend *backend, void *to, const void *from, size_t bytes)
{
    (void)backend;
    if (bytes > 0) memcpy(to, from, bytes);
}

void cpu_read_bytes(struct backend *backend, const void *from, void *to, size_t bytes)
{
    (void)backend;
    if (bytes > 0) memcpy(to, from, bytes);
}

/* A square tile of the upper triangle at a time. */
static void mirror_task(void *context, int64_t i, int thread)
{
    (void)thread;
    const struct matrix *h = context;
    const int64_t first = i * MIRROR_TILE, last = smaller(first + MIRROR_TILE, h->rows);
    for (int64_t tile = first; tile < h->columns; tile += MIRROR_TILE) {
        const int64_t end = smaller(tile + MIRROR_TILE, h->columns);
        for (int64_t r = first; r < last; r++)
            for (int64_t c = larger(tile, r + 1); c < end; c++) float_row(*h, r)[c] = float_row(*h, c)[r];
    }
}

void cpu_mirror(struct backend *backend, struct matrix h)
{
    team_run(backend->team, ceil_divide(h.rows, MIRROR_TILE), mirror_task, &h);
}

struct codes_job {
    struct matrix to, from, by;
    const int32_t *rows, *columns;
    struct grid grid;
    struct grids grids;
    const struct codes *codes;
    int64_t first; /* row of the codes */
};

static void select_rows(void *context, int64_t first, int64_t end)
{
    const struct codes_job *job = context;
    for (int64_t r = first; r < end; r++) {
        const float *from = float_row(job->from, job->rows == NULL ? r : job->rows[r]);
        float *to = float_row(job->to, r);
        if (job->columns == NULL)
            memcpy(to, from, (size_t)job->to.columns * sizeof *to);
        else
            for (int64_t c = 0; c < job->to.columns; c++) to[c] = from[job->columns[c]];
    }
}

void cpu_select(struct backend *backend, struct matrix to, struct matrix from, const int32_t *rows,
                const int32_t *columns)
{
    struct codes_job job = {.to = to, .from = from, .rows = rows, .columns = columns};
    cpu_for_rows(backend->team, to.rows, to.columns, select_rows, &job);
}

static void scale_rows(void *context, int64_t first, int64_t end)
{
    const struct codes_job *job = context;
    const float *by = job->by.data;
    for (int64_t r = first; r < end; r++) {
        const float *from = float_row(job->from, r);
        float *to = float_row(job->to, r); /* may be `from` */
#pragma omp simd
        for (int64_t c = 0; c < job->to.columns; c++) to[c] = from[c] * by[c];
    }
}

void cpu_scale_columns(struct backend *backend, struct matrix to, struct matrix from, struct matrix by)
{
    struct codes_job job = {.to = to, .from = from, .by = by};
    cpu_for_rows(backend->team, to.rows, to.columns, scale_rows, &job);
}

static void find_rows(void *context, int64_t first, int64_t end)
{
    const struct codes_job *job = context;
    const int64_t size = job->grids.group_size, columns = job->from.columns;
    for (int64_t r = first; r < end; r++)
        for (int64_t run = 0; run * size < columns; run++) {
            const int64_t at = run * job->grids.stride + r;
            uint8_t zero;
            grid_find(job->grid, float_row(job->from, r) + run * size, smaller(size, columns - run * size),
                      &job->grids.scales[at], &zero);
            job->grids.zeros[at] = zero;
        }
}

void cpu_grid_find(struct backend *backend, struct grid grid, struct matrix weight, struct grids grids)
{
    struct codes_job job = {.from = weight, .grid = grid, .grids = grids};
    cpu_for_rows(backend->team, weight.rows, weight.columns, find_rows, &job);
}

static void encode_rows(void *context, int64_t first, int64_t end)
{
    const struct codes_job *job = context;
    const struct codes *codes = job->codes;
    for (int64_t r = first; r < end; r++)
        for (int64_t g = 0; g < codes->groups; g++) {
            const int64_t column = g * codes->group_size, count = smaller(codes->group_size, codes->columns - column);
            const float *weight = float_row(job->from, r) + column;
            double scale;
            uint8_t zero;
            grid_find(job->grid, weight, count, &scale, &zero);
            grid_encode(job->grid, weight, count, scale, zero, codes->codes + r * codes->columns + column);
            codes->scales[r * codes->groups + g] = (float)scale;
            codes->zeros[r * codes->groups + g] = zero;
        }
}

void cpu_grid_encode(struct backend *backend, struct grid grid, struct matrix weight, const struct codes *codes)
{
    struct codes_job job = {.from = weight, .grid = grid, .codes = codes};
    cpu_for_rows(backend->team, codes->rows, codes->columns, encode_rows, &job);
}

static void encode_blocks(void *context, int64_t task, int thread)
{
    (void)thread;
    const struct codes_job *job = context;
    const struct codes *codes = job->codes;
    const int64_t size = codes->group_size, columns = codes->columns, total = codes->rows * columns;
    const int64_t end = smaller((task + 1) * BLOCKS_A_TASK, codes->groups);
    double values[CODEBOOK_VALUES];
    for (int i = 0; i < CODEBOOK_VALUES; i++) values[i] = (double)codes->codebook[i];
    for (int64_t block = task * BLOCKS_A_TASK; block < end; block++) {
        const int64_t first = block * size, last = smaller(first + size, total);
        float most = 0;
        for (int64_t i = first; i < last; i++) {
            const float w = fabsf(float_row(job->from, i / columns)[i % columns]);
            most = w > most ? w : most;
        }
        codes->scales[block] = most;
        for (int64_t i = first; i < last; i++) {
            const double w = (double)float_row(job->from, i / columns)[i % columns];
            codes->codes[i] = (uint8_t)grid_nearest(values, CODEBOOK_VALUES, most > 0 ? w / (double)most : 0);
        }
    }
}

void cpu_book_encode(struct backend *backend, struct matrix weight, const struct codes *codes)
{
    struct codes_job job = {.from = weight, .codes = codes};
    team_run(backend->team, ceil_divide(codes->groups, BLOCKS_A_TASK), encode_blocks, &job);
}

static void look_up_row(const struct codes *codes, int64_t row, float *out)
{
    const uint8_t *line = codes->codes + row * codes->columns;
    for (int64_t c = 0; c < codes->columns;) {
        const int64_t block = (row * codes->columns + c) / codes->group_size,
                      end = (block + 1) * codes->group_size - row * codes->columns;
        const float scale = codes->scales[block];
        for (; c < end && c < codes->columns; c++) out[c] = codes->codebook[line[c]] * scale;
    }
}

static void grid_row(const struct codes *codes, int64_t row, float *out)
{
    const uint8_t *line = codes->codes + row * codes->columns, *zeros = codes->zeros + row * codes->groups;
    const float *scales = codes->scales + row * codes->groups;
    const int32_t *g_idx = codes->g_idx;
    if (g_idx != NULL) {
        for (int64_t c = 0; c < codes->columns; c++) out[c] = (float)(line[c] - zeros[g_idx[c]]) * scales[g_idx[c]];
        return;
    }
    for (int64_t g = 0, c = 0; g < codes->groups; g++) {
        const int64_t end = smaller(c + codes->group_size, codes->columns);
        const float scale = scales[g];
        const int zero = zeros[g];
#pragma omp simd
        for (int64_t i = c; i < end; i++) out[i] = (float)(line[i] - zero) * scale;
        c = end;
    }
}

static void decode_rows(void *context, int64_t first, int64_t end)
{
    const struct codes_job *job = context;
    const struct codes *codes = job->codes;
    const float *scales = codes->column_scales;
    for (int64_t r = first; r < end; r++) {
        float *to = float_row(job->to, r);
        if (codes->codebook != NULL)
            look_up_row(codes, job->first + r, to);
        else
            grid_row(codes, job->first + r, to);
        if (scales != NULL) {
#pragma omp simd
            for (int64_t c = 0; c < codes->columns; c++) to[c] /= scales[c];
        }
        if (job->from.data == NULL) continue;
        const float *from = float_row(job->from, r);
#pragma omp simd
        for (int64_t c = 0; c < codes->columns; c++) to[c] = from[c] - to[c];
    }
}

void cpu_decode(struct backend *backend, const struct codes *codes, int64_t first, struct matrix to, struct matrix from)
{
    struct codes_job job = {.to = to, .from = from, .codes = codes, .first = first};
    cpu_for_rows(backend->team, to.rows, codes->columns, decode_rows, &job);
}

struct magnitudes_job {
    double *sums;
    struct matrix largest, x;
};

/* Columns in strips, so that each adds up in the order of the rows. */
static void add_strip(void *context, int64_t task, int thread)
{
    (void)thread;
    const struct magnitudes_job *job = context;
    const int64_t first = task * MAGNITUDES_STRIP, count = smaller(MAGNITUDES_STRIP, job->x.columns - first);
    double *sums = job->sums + first;
    float *largest = float_row(job->largest, 0) + first;
    for (int64_t t = 0; t < job->x.rows; t++) {
        const float *x = float_row(job->x, t) + first;
#pragma omp simd
        for (int64_t c = 0; c < count; c++) {
            const float magnitude = fabsf(x[c]);
            sums[c] += (double)magnitude;
            largest[c] = magnitude > largest[c] ? magnitude : largest[c];
        }
    }
}

void cpu_add_magnitudes(struct backend *backend, double *sums, struct matrix largest, struct matrix x)
{
    struct magnitudes_job job = {sums, largest, x};
    team_run(backend->team, ceil_divide(x.columns, MAGNITUDES_STRIP), add_strip, &job);
}
