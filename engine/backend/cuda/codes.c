/* codes.c: launches kernels/codes.h and kernels/clip_search.h, and copies bytes. */
#include "backend/cuda/cuda.h"

#include <string.h>

enum { CHUNK = 4 << 20, CLIP_FLOATS = 16 << 20 }; /* bytes staged at a time; scratch for a slab of clip_search */

void cuda_write_bytes(struct backend *backend, void *to, const void *from, size_t bytes)
{
    struct cuda *cuda = cuda_enter(backend);
    for (size_t at = 0; at < bytes; at += CHUNK)
        cuda_put(cuda, (char *)to + at, (const char *)from + at, bytes - at < CHUNK ? bytes - at : CHUNK);
    cuda_leave(cuda);
}

void cuda_read_bytes(struct backend *backend, const void *from, void *to, size_t bytes)
{
    struct cuda *cuda = cuda_enter(backend);
    for (size_t at = 0; at < bytes; at += CHUNK)
        cuda_take(cuda, (char *)to + at, (const char *)from + at, bytes - at < CHUNK ? bytes - at : CHUNK);
    cuda_leave(cuda);
}

void cuda_mirror(struct backend *backend, struct matrix h)
{
    struct cuda *cuda = cuda_enter(backend);
    cuda_launch(cuda, KERNEL_cholesky_mirror, cuda_blocks(h.rows * h.columns), &(struct cholesky_args){.h = h});
    cuda_leave(cuda);
}

void cuda_select(struct backend *backend, struct matrix to, struct matrix from, const int32_t *rows,
                 const int32_t *columns)
{
    struct cuda *cuda = cuda_enter(backend);
    const size_t row_bytes = rows == NULL ? 0 : (size_t)to.rows * sizeof *rows;
    const size_t column_bytes = columns == NULL ? 0 : (size_t)to.columns * sizeof *columns;
    struct select_args args = {.to = to, .from = from};
    cuda_announce(cuda, row_bytes + column_bytes);
    args.rows = cuda_staged(cuda, rows, row_bytes);
    args.columns = cuda_staged(cuda, columns, column_bytes);
    cuda_launch(cuda, KERNEL_select, cuda_blocks(to.rows * to.columns), &args);
    cuda_leave(cuda);
}

void cuda_scale_columns(struct backend *backend, struct matrix to, struct matrix from, struct matrix by)
{
    struct cuda *cuda = cuda_enter(backend);
    cuda_launch(cuda, KERNEL_scale_columns, cuda_blocks(to.rows * to.columns),
                &(struct select_args){.to = to, .from = from, .by = by});
    cuda_leave(cuda);
}

void cuda_add_magnitudes(struct backend *backend, double *sums, struct matrix largest, struct matrix x)
{
    struct cuda *cuda = cuda_enter(backend);
    const int64_t splits = (x.rows + SPLIT_ROWS - 1) / SPLIT_ROWS,
                  across = (x.columns + SPLIT_COLUMNS - 1) / SPLIT_COLUMNS;
    double *partials = cuda_scratch(cuda, (size_t)(splits * x.columns) * (sizeof(double) + sizeof(float)));
    if (partials != NULL) {
        const struct magnitudes_args args = {.from = x,
                                             .largest = largest,
                                             .sums = sums,
                                             .partials = partials,
                                             .peaks = (float *)(partials + splits * x.columns),
                                             .rows = x.rows,
                                             .columns = x.columns};
        cuda_launch(cuda, KERNEL_magnitudes, splits * across, &args);
        cuda_launch(cuda, KERNEL_magnitudes_end, cuda_blocks(x.columns), &args);
    }
    cuda_leave(cuda);
}

void cuda_encode(struct backend *backend, struct matrix weight, const struct codes *codes)
{
    struct cuda *cuda = cuda_enter(backend);
    cuda_launch(cuda, KERNEL_encode, (codes_all_groups(codes) + CODES_GROUPS - 1) / CODES_GROUPS,
                &(struct encode_args){weight, *codes});
    cuda_leave(cuda);
}

void cuda_decode(struct backend *backend, const struct codes *codes, int64_t first, struct matrix to,
                 struct matrix from)
{
    struct cuda *cuda = cuda_enter(backend);
    cuda_launch(cuda, KERNEL_decode, cuda_blocks(to.rows * to.columns), &(struct decode_args){*codes, first, to, from});
    cuda_leave(cuda);
}

/* One group of some rows. */
static void clip_group(struct cuda *cuda, struct clip_search_kernel_args *args, struct matrix hessian, int64_t steps,
                       int64_t parts)
{
    const int64_t rows = args->weight.rows;
    cuda_launch(cuda, KERNEL_clip_begin, rows, args);
    for (int64_t step = 0; step < steps; step++) {
        args->part = (float)(1 - (double)step / (double)parts);
        cuda_launch(cuda, KERNEL_clip_difference, rows, args);
        cuda_multiply(cuda, &(struct gemm_args){
                                .a = args->difference, .b = hessian, .c = args->product, .alpha = 1, .exact = true});
        cuda_launch(cuda, KERNEL_clip_judge, rows, args);
    }
    cuda_launch(cuda, KERNEL_clip_end, cuda_blocks(rows * args->weight.columns), args);
}

void cuda_clip_search(struct backend *backend, const struct clip_search_args *args)
{
    struct cuda *cuda = cuda_enter(backend);
    const int64_t widest =
        args->coding.group_size < args->weight.columns ? args->coding.group_size : args->weight.columns;
    const int64_t most = CLIP_FLOATS / (2 * widest) + 1, slab = args->weight.rows < most ? args->weight.rows : most;
    struct clip_row *scratch =
        cuda_scratch(cuda, (size_t)slab * (sizeof *scratch + 2 * (size_t)widest * sizeof(float)));
    for (int64_t row = 0; row < args->weight.rows && scratch != NULL; row += slab)
        for (int64_t first = 0; first < args->weight.columns; first += widest) {
            const int64_t left = args->weight.columns - first, count = left < widest ? left : widest;
            const int64_t rest = args->weight.rows - row, rows = rest < slab ? rest : slab;
            float *floats = (float *)(void *)(scratch + slab);
            struct clip_search_kernel_args call = {
                .coding = args->coding,
                .weight = matrix_columns(matrix_rows(args->weight, row, rows), first, count),
                .scales = matrix_columns(args->scales, first, count),
                .difference = matrix_of(floats, rows, count, sizeof(float)),
                .product = matrix_of(floats + slab * widest, rows, count, sizeof(float)),
                .rows = scratch,
            };
            clip_group(cuda, &call, matrix_columns(matrix_rows(args->hessian, first, count), first, count), args->steps,
                       args->parts);
        }
    cuda_leave(cuda);
}

void cuda_gptq_block(struct backend *backend, const struct gptq_block_args *args)
{
    struct cuda *cuda = cuda_enter(backend);
    const size_t bytes = (size_t)args->weights.columns * sizeof *args->from;
    struct gptq_kernel_args call = {.block = *args};
    cuda_announce(cuda, bytes);
    call.from = cuda_staged(cuda, args->from, bytes);
    cuda_launch(cuda, KERNEL_gptq_block, (args->weights.rows + GPTQ_KERNEL_ROWS - 1) / GPTQ_KERNEL_ROWS, &call);
    cuda_leave(cuda);
}
