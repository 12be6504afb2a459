/* codes.h: kernels of reference/codes.c and reference/gptq.c; backend/codes.h and backend/grid.h have the equations. */
#ifndef BACKEND_CUDA_KERNELS_CODES_H
#define BACKEND_CUDA_KERNELS_CODES_H

#include "backend/cuda/kernels/elementwise.h"

KERNEL(select, select_args)
{
    EACH_ELEMENT(i, args->to.rows * args->to.columns)
    {
        const int64_t r = i / args->to.columns, c = i % args->to.columns;
        row_of(args->to, r)[c] =
            row_of(args->from, args->rows == NULL ? r : args->rows[r])[args->columns == NULL ? c : args->columns[c]];
    }
}

KERNEL(scale_columns, select_args)
{
    EACH_ELEMENT(i, args->to.rows * args->to.columns)
    {
        const int64_t r = i / args->to.columns, c = i % args->to.columns;
        row_of(args->to, r)[c] = row_of(args->from, r)[c] * row_of(args->by, 0)[c];
    }
}

KERNEL(magnitudes, magnitudes_args)
{
    SHARED double shared[KERNEL_THREADS];
    SHARED float largest[KERNEL_THREADS];
    PRIVATE(double, sum);
    const struct split split = split_of(grid, args->rows, args->columns);
    EACH_THREAD(thread)
    {
        const int64_t column = split.column + thread % SPLIT_COLUMNS;
        sum[MINE(thread)] = 0;
        largest[thread] = 0;
        for (int64_t t = split.first + thread / SPLIT_COLUMNS; t < split.end && column < args->columns;
             t += SPLIT_LANES) {
            const float size = fabsf(row_of(args->from, t)[column]);
            sum[MINE(thread)] += (double)size;
            largest[thread] = size > largest[thread] ? size : largest[thread];
        }
    }
    split_store(grid, &split, sum, shared, args->partials, args->columns);
    EACH_THREAD(thread)
    {
        const int64_t column = split.column + thread;
        if (thread >= SPLIT_COLUMNS || column >= args->columns) continue;
        float most = 0;
        for (int lane = 0; lane < SPLIT_LANES; lane++)
            most = largest[lane * SPLIT_COLUMNS + thread] > most ? largest[lane * SPLIT_COLUMNS + thread] : most;
        args->peaks[split.index * args->columns + column] = most;
    }
}

KERNEL(magnitudes_end, magnitudes_args)
{
    const int64_t splits = (args->rows + SPLIT_ROWS - 1) / SPLIT_ROWS;
    EACH_ELEMENT(c, args->columns)
    {
        float *largest = row_of(args->largest, 0) + c;
        double sum = 0;
        for (int64_t s = 0; s < splits; s++) {
            const float peak = args->peaks[s * args->columns + c];
            sum += args->partials[s * args->columns + c];
            *largest = peak > *largest ? peak : *largest;
        }
        args->sums[c] += sum;
    }
}

/* The weights of one row's group. */
struct group_span {
    int64_t row, group, first, end; /* nothing when the block has no such group */
};

DEVICE struct group_span group_of(const struct launch *grid, const struct grid_kernel_args *args, int thread)
{
    const int64_t number = grid->block * CODES_GROUPS + thread / CODES_LANES;
    const struct group_span none = {0, 0, 0, 0};
    struct group_span span;
    if (number >= args->weight.rows * args->groups) return none;
    span.row = number / args->groups;
    span.group = number % args->groups;
    span.first = span.group * args->group_size;
    span.end = least(span.first + args->group_size, args->weight.columns);
    return span;
}

/* CODES_LANES threads have a group: its range, its grid, and where codes are wanted its codes. */
KERNEL(grid_encode, grid_kernel_args)
{
    SHARED float low[KERNEL_THREADS], high[KERNEL_THREADS];
    SHARED double scales[CODES_GROUPS], zeros[CODES_GROUPS];
    EACH_THREAD(thread)
    {
        const struct group_span span = group_of(grid, args, thread);
        if (span.end == 0) continue;
        const float *w = row_of(args->weight, span.row);
        low[thread] = high[thread] = grid_origin(args->grid, w[span.first]);
        for (int64_t c = span.first + thread % CODES_LANES; c < span.end; c += CODES_LANES) {
            low[thread] = w[c] < low[thread] ? w[c] : low[thread];
            high[thread] = w[c] > high[thread] ? w[c] : high[thread];
        }
    }
    for (int half = CODES_LANES / 2; half > 0; half /= 2) EACH_THREAD(thread)
        {
            if (thread % CODES_LANES >= half || group_of(grid, args, thread).end == 0) continue;
            low[thread] = low[thread + half] < low[thread] ? low[thread + half] : low[thread];
            high[thread] = high[thread + half] > high[thread] ? high[thread + half] : high[thread];
        }
    EACH_THREAD(thread)
    {
        const struct group_span span = group_of(grid, args, thread);
        const int slot = thread / CODES_LANES;
        double scale, zero;
        if (thread % CODES_LANES > 0 || span.end == 0) continue;
        grid_of_range(args->grid, (double)low[thread], (double)high[thread], &scale, &zero);
        zero = (double)(uint8_t)zero; /* never -0 */
        scales[slot] = scale;
        zeros[slot] = zero;
        if (args->grids.scales != NULL) {
            args->grids.scales[span.group * args->grids.stride + span.row] = scale;
            args->grids.zeros[span.group * args->grids.stride + span.row] = zero;
        } else {
            args->codes.scales[span.row * args->groups + span.group] = (float)scale;
            args->codes.zeros[span.row * args->groups + span.group] = (uint8_t)zero;
        }
    }
    EACH_THREAD(thread)
    {
        const struct group_span span = group_of(grid, args, thread);
        const int slot = thread / CODES_LANES;
        if (args->codes.codes == NULL || span.end == 0) continue;
        for (int64_t c = span.first + thread % CODES_LANES; c < span.end; c += CODES_LANES)
            args->codes.codes[span.row * args->codes.columns + c] = (uint8_t)(int32_t)grid_code(
                row_of(args->weight, span.row)[c], scales[slot], zeros[slot], grid_top(args->grid));
    }
}

/* The values of one run of a matrix written out row by row; nothing when the block has no such run. */
DEVICE struct group_span run_of(const struct launch *grid, const struct codes *codes, int thread)
{
    const int64_t number = grid->block * CODES_GROUPS + thread / CODES_LANES;
    struct group_span span = {0, number, 0, 0};
    if (number >= codes->groups) return span;
    span.first = number * codes->group_size;
    span.end = least(span.first + codes->group_size, codes->rows * codes->columns);
    return span;
}

/* CODES_LANES threads have a run: its largest magnitude, then its codes. */
KERNEL(book_encode, grid_kernel_args)
{
    SHARED float largest[KERNEL_THREADS];
    SHARED double values[CODEBOOK_VALUES];
    EACH_THREAD(thread)
    {
        const struct group_span span = run_of(grid, &args->codes, thread);
        if (thread < CODEBOOK_VALUES) values[thread] = (double)args->codes.codebook[thread];
        largest[thread] = 0;
        for (int64_t i = span.first + thread % CODES_LANES; i < span.end; i += CODES_LANES) {
            const float size = fabsf(*element_of(args->weight, i));
            largest[thread] = size > largest[thread] ? size : largest[thread];
        }
    }
    for (int half = CODES_LANES / 2; half > 0; half /= 2) EACH_THREAD(thread)
        {
            if (thread % CODES_LANES >= half) continue;
            if (largest[thread + half] > largest[thread]) largest[thread] = largest[thread + half];
        }
    EACH_THREAD(thread)
    {
        const struct group_span span = run_of(grid, &args->codes, thread);
        const double most = (double)largest[thread - thread % CODES_LANES];
        if (span.end > 0 && thread % CODES_LANES == 0) args->codes.scales[span.group] = (float)most;
        for (int64_t i = span.first + thread % CODES_LANES; i < span.end; i += CODES_LANES)
            args->codes.codes[i] = (uint8_t)grid_nearest(values, CODEBOOK_VALUES,
                                                         most > 0 ? (double)*element_of(args->weight, i) / most : 0);
    }
}

KERNEL(decode, decode_args)
{
    const struct codes *codes = &args->codes;
    EACH_ELEMENT(i, args->to.rows * args->to.columns)
    {
        const int64_t r = i / args->to.columns, c = i % args->to.columns, at = (args->first + r) * codes->columns + c;
        float value;
        if (codes->codebook != NULL) {
            value = codes->codebook[codes->codes[at]] * codes->scales[at / codes->group_size];
        } else {
            const int64_t group = codes->g_idx != NULL ? codes->g_idx[c] : c / codes->group_size;
            const int64_t number = (args->first + r) * codes->groups + group;
            value = (float)(codes->codes[at] - codes->zeros[number]) * codes->scales[number];
        }
        if (codes->column_scales != NULL) value /= codes->column_scales[c];
        row_of(args->to, r)[c] = args->from.data == NULL ? value : row_of(args->from, r)[c] - value;
    }
}

/* A block has GPTQ_KERNEL_ROWS rows and all columns of the block, in shared memory. Column by column: a thread a row
 * finds the code and the error, then all threads take the error from the columns still to come. */
KERNEL(gptq_block, gptq_kernel_args)
{
    SHARED float weights[GPTQ_KERNEL_ROWS][GPTQ_BLOCK + 1]; /* + 1: rows begin in different banks */
    SHARED float errors[GPTQ_KERNEL_ROWS];
    SHARED uint8_t codes[GPTQ_KERNEL_ROWS][GPTQ_BLOCK];
    const struct gptq_block_args *block = &args->block;
    const int width = (int)block->weights.columns;
    const int64_t first = grid->block * GPTQ_KERNEL_ROWS;
    const int rows = (int)least(block->weights.rows - first, GPTQ_KERNEL_ROWS);
    EACH_THREAD(thread)
    {
        for (int i = thread; i < rows * width; i += KERNEL_THREADS)
            weights[i / width][i % width] = row_of(block->weights, first + i / width)[i % width];
    }
    for (int j = 0; j < width; j++) {
        const int64_t at = (block->position + j) / block->grids.group_size * block->grids.stride + first;
        EACH_THREAD(thread)
        {
            if (thread >= rows) continue;
            const double scale = block->grids.scales[at + thread], zero = block->grids.zeros[at + thread];
            const double code = grid_code(weights[thread][j], scale, zero, block->top);
            const float value = (float)(code - zero) * (float)scale;
            errors[thread] = (weights[thread][j] - value) / row_of(block->upper, j)[j];
            codes[thread][j] = (uint8_t)(int32_t)code;
            row_of(block->errors, j)[first + thread] = errors[thread];
        }
        EACH_THREAD(thread)
        {
            for (int r = thread / GPTQ_BLOCK; r < rows; r += KERNEL_THREADS / GPTQ_BLOCK) {
                const int c = thread % GPTQ_BLOCK;
                if (c > j && c < width) weights[r][c] -= errors[r] * row_of(block->upper, j)[c];
            }
        }
    }
    EACH_THREAD(thread)
    {
        for (int i = thread; i < rows * width; i += KERNEL_THREADS)
            block->codes[(first + i / width) * block->codes_stride + args->from[i % width]] =
                codes[i / width][i % width];
    }
}

#endif
