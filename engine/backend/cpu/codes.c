/* codes.c: the slots for quantizers, cut into tasks by rows. */
#include "backend/cpu/cpu.h"

#include <math.h>
#include <string.h>

enum { MIRROR_TILE = 64, MAGNITUDES_STRIP = 64, TASK_WEIGHTS = 16384 };

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

/* Mirrors one square tile of the upper triangle. */
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
    const struct codes *codes;
    int64_t first; /* row of the codes; encode: groups of a task */
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

/* Weight k of a group and the weights after it in the same row: returns their number, sets their place. */
static int64_t span_of(const struct codes *codes, int64_t group, int64_t k, int64_t *row, int64_t *column)
{
    codes_place(codes, group, k, row, column);
    if (codes->coding.layout == LAYOUT_TILES) return codes_width(codes, group);
    return smaller(codes_count(codes, group) - k, codes->columns - *column);
}

static void find_scale(const struct codes *codes, struct matrix weight, int64_t group, double *scale, double *zero)
{
    const int64_t count = codes_count(codes, group);
    int64_t row, column, span = span_of(codes, group, 0, &row, &column);
    float lo = 0, hi = 0;
    if (codes->coding.given) {
        *scale = (double)codes->scales[group];
        *zero = codes->zeros != NULL ? codes->zeros[group] : 0;
        return;
    }
    for (int64_t k = 0; k < count; k += span) {
        span = span_of(codes, group, k, &row, &column);
        coding_extend(float_row(weight, row) + column, span, &lo, &hi);
    }
    coding_scale(codes->coding, (double)lo, (double)hi, scale, zero);
}

static void encode_group(const struct codes *codes, struct matrix weight, const double *values, int64_t group)
{
    const int64_t count = codes_count(codes, group);
    int64_t row, column;
    double scale, zero;
    find_scale(codes, weight, group, &scale, &zero);
    if (!codes_keep_scale(codes, group, scale, zero)) return;
    for (int64_t k = 0, span; k < count; k += span) {
        span = span_of(codes, group, k, &row, &column);
        coding_encode(codes->coding, values, float_row(weight, row) + column, span, scale, zero,
                      codes->codes + row * codes->columns + column);
    }
}

static void encode_groups(void *context, int64_t task, int thread)
{
    (void)thread;
    const struct codes_job *job = context;
    const int64_t end = smaller((task + 1) * job->first, codes_all_groups(job->codes));
    double values[CODING_VALUES];
    coding_table(job->codes->coding, values);
    for (int64_t group = task * job->first; group < end; group++) encode_group(job->codes, job->from, values, group);
}

void cpu_encode(struct backend *backend, struct matrix weight, const struct codes *codes)
{
    const int64_t groups = larger(TASK_WEIGHTS / codes->coding.group_size, 1);
    struct codes_job job = {.from = weight, .codes = codes, .first = groups};
    team_run(backend->team, ceil_divide(codes_all_groups(codes), groups), encode_groups, &job);
}

/* Values of columns [first, end) of a row that share a scale. */
static void decode_span(const struct codes *codes, const uint8_t *line, int64_t first, int64_t end, int64_t group,
                        float *out)
{
    const float scale = codes->scales[group];
    if (codes->coding.values != NULL) {
        for (int64_t c = first; c < end; c++) out[c] = coding_value(codes->coding, line[c], 0) * scale;
        return;
    }
    const int zero = codes->zeros[group];
#pragma omp simd
    for (int64_t c = first; c < end; c++) out[c] = (float)(line[c] - zero) * scale;
}

static void decode_row(const struct codes *codes, int64_t row, float *out)
{
    const uint8_t *line = codes->codes + row * codes->columns;
    const int64_t size = codes->coding.group_size;
    const int64_t before = codes->coding.layout == LAYOUT_RUNS ? row * codes->columns % size : 0;
    if (codes->g_idx != NULL) {
        for (int64_t c = 0; c < codes->columns; c++)
            decode_span(codes, line, c, c + 1, codes_group(codes, row, c), out);
        return;
    }
    for (int64_t c = 0, end = size - before; c < codes->columns; c = end, end += size)
        decode_span(codes, line, c, smaller(end, codes->columns), codes_group(codes, row, c), out);
}

static void decode_rows(void *context, int64_t first, int64_t end)
{
    const struct codes_job *job = context;
    const struct codes *codes = job->codes;
    const float *scales = codes->column_scales;
    for (int64_t r = first; r < end; r++) {
        float *to = float_row(job->to, r);
        decode_row(codes, job->first + r, to);
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

/* One strip of columns; each column adds up in the order of the rows. */
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
