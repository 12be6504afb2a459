/* clip_search.c: threads take slabs of rows; one product gives the errors of all rows of a slab in one group. */
#include "backend/cpu/cpu.h"

#include <math.h>

/* Differences between `weight` and its coding after clamping to [-most, most], divided by s, as the inputs weigh
 * them. */
static void clipped_difference(struct coding coding, const float *weight, const float *scales, int64_t count,
                               float most, float *out)
{
    double step, zero;
    for (int64_t c = 0; c < count; c++) out[c] = fminf(fmaxf(weight[c], -most), most);
    coding_find(coding, out, count, &step, &zero);
    const double point = zero, top = coding_top(coding);
    const float stored = (float)step;
#pragma omp simd
    for (int64_t c = 0; c < count; c++)
        out[c] = (weight[c] - (float)(coding_step(out[c], step, point, top) - point) * stored) / scales[c];
}

struct clip_job {
    struct backend *backend;
    const struct clip_search_args *args;
};

/* Clamps the group [first, first + count) of some rows to each row's best magnitude. */
static void clip_group(const struct clip_job *job, int64_t row, int64_t rows, int64_t first, int64_t count,
                       float *scratch)
{
    const struct clip_search_args *args = job->args;
    const struct matrix d = matrix_of(scratch, rows, count, sizeof(float));
    const struct matrix product =
        matrix_of(scratch + CLIP_SEARCH_ROWS * args->scratch.columns, rows, count, sizeof(float));
    const struct matrix hessian = matrix_columns(matrix_rows(args->hessian, first, count), first, count);
    float most[CLIP_SEARCH_ROWS], best[CLIP_SEARCH_ROWS];
    double least[CLIP_SEARCH_ROWS];
    for (int64_t r = 0; r < rows; r++) {
        const float *weight = float_row(args->weight, row + r) + first;
        most[r] = 0;
        least[r] = (double)INFINITY;
        for (int64_t c = 0; c < count; c++) most[r] = fmaxf(most[r], fabsf(weight[c]));
        best[r] = most[r];
    }
    for (int64_t step = 0; step < args->steps; step++) {
        const float part = (float)(1 - (double)step / (double)args->parts);
        for (int64_t r = 0; r < rows; r++)
            clipped_difference(args->coding, float_row(args->weight, row + r) + first,
                               float_row(args->scales, 0) + first, count, most[r] * part, scratch + r * count);
        cpu_gemm(job->backend, &(struct gemm_args){.a = d, .b = hessian, .c = product, .alpha = 1, .exact = true});
        for (int64_t r = 0; r < rows; r++) {
            const double error = cpu_dot(job->backend, matrix_rows(d, r, 1), matrix_rows(product, r, 1));
            if (!(error < least[r])) continue;
            least[r] = error;
            best[r] = most[r] * part;
        }
    }
    for (int64_t r = 0; r < rows; r++) {
        float *weight = float_row(args->weight, row + r) + first;
        for (int64_t c = 0; c < count; c++) weight[c] = fminf(fmaxf(weight[c], -best[r]), best[r]);
    }
}

static void clip_slab(void *context, int64_t slab, int thread)
{
    const struct clip_job *job = context;
    const struct clip_search_args *args = job->args;
    const int64_t row = slab * CLIP_SEARCH_ROWS, rows = smaller(CLIP_SEARCH_ROWS, args->weight.rows - row);
    float *scratch = float_row(args->scratch, (int64_t)thread * 2 * CLIP_SEARCH_ROWS);
    const int64_t size = args->coding.group_size;
    for (int64_t first = 0; first < args->weight.columns; first += size)
        clip_group(job, row, rows, first, smaller(size, args->weight.columns - first), scratch);
}

void cpu_clip_search(struct backend *backend, const struct clip_search_args *args)
{
    struct clip_job job = {backend, args};
    team_run(backend->team, ceil_divide(args->weight.rows, CLIP_SEARCH_ROWS), clip_slab, &job);
}
