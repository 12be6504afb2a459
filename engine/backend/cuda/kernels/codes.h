/* codes.h: kernels of reference/codes.c and reference/gptq.c; backend/codes.h and
 * backend/coding.h have the equations. */
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

DEVICE int64_t group_of(const struct launch *grid, int thread)
{
    return grid->block * CODES_GROUPS + thread / CODES_LANES;
}

/* Weights of a thread's group; 0 when there is no such group. */
DEVICE int64_t group_count(const struct launch *grid, const struct codes *codes, int thread)
{
    const int64_t group = group_of(grid, thread);
    return group < codes_all_groups(codes) ? codes_count(codes, group) : 0;
}

DEVICE float weight_of(const struct encode_args *args, int64_t group, int64_t k)
{
    int64_t r, c;
    codes_place(&args->codes, group, k, &r, &c);
    return row_of(args->weight, r)[c];
}

/* Stores the scale of a group; called by its first thread. */
DEVICE void put_scale(const struct codes *codes, int64_t group, double scale, double zero)
{
    const int64_t at = group % codes->groups * codes->grids.stride + group / codes->groups;
    if (codes->grids.scales != NULL) {
        codes->grids.scales[at] = scale;
        codes->grids.zeros[at] = zero;
        return;
    }
    codes->scales[group] = (float)scale;
    if (codes->zeros != NULL) codes->zeros[group] = (uint8_t)zero;
}

/* CODES_LANES threads take a group: its range, its scale, and, unless only grids are wanted, its codes. */
KERNEL(encode, encode_args)
{
    SHARED float low[KERNEL_THREADS], high[KERNEL_THREADS];
    SHARED double scales[CODES_GROUPS], zeros[CODES_GROUPS], values[CODING_VALUES];
    const struct codes *codes = &args->codes;
    const struct coding coding = codes->coding;
    EACH_THREAD(thread)
    {
        const int64_t group = group_of(grid, thread), count = group_count(grid, codes, thread);
        if (coding.values != NULL && thread < coding.count) values[thread] = (double)coding.values[thread];
        if (count == 0) continue;
        low[thread] = high[thread] = 0;
        for (int64_t k = thread % CODES_LANES; k < count; k += CODES_LANES) {
            const float w = weight_of(args, group, k);
            low[thread] = w < low[thread] ? w : low[thread];
            high[thread] = w > high[thread] ? w : high[thread];
        }
    }
    for (int half = CODES_LANES / 2; half > 0; half /= 2) EACH_THREAD(thread)
        {
            if (thread % CODES_LANES >= half || group_count(grid, codes, thread) == 0) continue;
            low[thread] = low[thread + half] < low[thread] ? low[thread + half] : low[thread];
            high[thread] = high[thread + half] > high[thread] ? high[thread + half] : high[thread];
        }
    EACH_THREAD(thread)
    {
        const int slot = thread / CODES_LANES;
        if (thread % CODES_LANES > 0) continue;
        scales[slot] = zeros[slot] = 0; /* compilers read them also for threads without a group */
        if (group_count(grid, codes, thread) == 0) continue;
        const int64_t group = group_of(grid, thread);
        if (coding.given) {
            scales[slot] = (double)codes->scales[group];
            zeros[slot] = codes->zeros != NULL ? codes->zeros[group] : 0;
            continue;
        }
        coding_scale(coding, (double)low[thread], (double)high[thread], &scales[slot], &zeros[slot]);
        put_scale(codes, group, scales[slot], zeros[slot]);
    }
    EACH_THREAD(thread)
    {
        const int64_t group = group_of(grid, thread), count = group_count(grid, codes, thread);
        const double scale = scales[thread / CODES_LANES], zero = zeros[thread / CODES_LANES];
        if (codes->grids.scales != NULL) continue;
        for (int64_t k = thread % CODES_LANES; k < count; k += CODES_LANES) {
            int64_t r, c;
            codes_place(codes, group, k, &r, &c);
            const float w = row_of(args->weight, r)[c];
            codes->codes[r * codes->columns + c] =
                (uint8_t)(coding.values != NULL ? coding_look_up(coding, values, w, scale)
                                                : (int)coding_step(w, scale, zero, coding_top(coding)));
        }
    }
}

KERNEL(decode, decode_args)
{
    const struct codes *codes = &args->codes;
    EACH_ELEMENT(i, args->to.rows * args->to.columns)
    {
        const int64_t r = i / args->to.columns, c = i % args->to.columns, row = args->first + r;
        const int64_t group = codes_group(codes, row, c);
        const int zero = codes->zeros != NULL ? codes->zeros[group] : 0;
        float value = coding_value(codes->coding, codes->codes[row * codes->columns + c], zero) * codes->scales[group];
        if (codes->column_scales != NULL) value /= codes->column_scales[c];
        row_of(args->to, r)[c] = args->from.data == NULL ? value : row_of(args->from, r)[c] - value;
    }
}

/* A block of threads takes GPTQ_KERNEL_ROWS rows and all columns of the block, in shared memory. Column by column, one
 * thread per row finds the code and the error, then all threads subtract the error from the later columns. */
KERNEL(gptq_block, gptq_kernel_args)
{
    SHARED float weights[GPTQ_KERNEL_ROWS][GPTQ_BLOCK + 1]; /* + 1: rows begin in different banks */
    SHARED float errors[GPTQ_KERNEL_ROWS];
    SHARED double values[CODING_VALUES];
    SHARED uint8_t codes[GPTQ_KERNEL_ROWS][GPTQ_BLOCK];
    const struct gptq_block_args *block = &args->block;
    const int width = (int)block->weights.columns;
    const int64_t first = grid->block * GPTQ_KERNEL_ROWS;
    const int rows = (int)least(block->weights.rows - first, GPTQ_KERNEL_ROWS);
    EACH_THREAD(thread)
    {
        if (block->coding.values != NULL && thread < block->coding.count)
            values[thread] = (double)block->coding.values[thread];
        for (int i = thread; i < rows * width; i += KERNEL_THREADS)
            weights[i / width][i % width] = row_of(block->weights, first + i / width)[i % width];
    }
    for (int j = 0; j < width; j++) {
        const int64_t at = (block->position + j) / block->coding.group_size * block->grids.stride + first;
        EACH_THREAD(thread)
        {
            if (thread >= rows) continue;
            const double scale = block->grids.scales[at + thread], zero = block->grids.zeros[at + thread];
            const int code = block->coding.values != NULL
                                 ? coding_look_up(block->coding, values, weights[thread][j], scale)
                                 : (int)coding_step(weights[thread][j], scale, zero, coding_top(block->coding));
            const float value = coding_value(block->coding, code, (int)zero) * (float)scale;
            errors[thread] = (weights[thread][j] - value) / row_of(block->upper, j)[j];
            codes[thread][j] = (uint8_t)code;
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
