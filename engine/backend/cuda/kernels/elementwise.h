/* elementwise.h: kernels of reference/elementwise.c, adamw.c, rope.c and embedding.c, which have the equations. */
#ifndef BACKEND_CUDA_KERNELS_ELEMENTWISE_H
#define BACKEND_CUDA_KERNELS_ELEMENTWISE_H

#include "backend/cuda/kernels/kernel.h"

/* The elements of a matrix, shared among the threads of all blocks. */
#define EACH_ELEMENT(i, count) \
    EACH_THREAD(thread)        \
    for (int64_t i = grid->block * KERNEL_THREADS + thread; i < (count); i += grid->blocks * KERNEL_THREADS)

struct ALIGNED(16) four {
    float value[4];
};

/* The same, four at a time from column c of row t on, for kernels that do little with each element: a block has one
 * part of a row after another, so that rows and columns cost no division for each. */
#define EACH_FOUR(t, c, matrix)                                                              \
    EACH_THREAD(thread)                                                                      \
    for (int64_t parts_ = ((matrix).columns + ROW_PART - 1) / ROW_PART, unit_ = grid->block; \
         unit_ < (matrix).rows * parts_; unit_ += grid->blocks)                              \
        for (int64_t t = unit_ / parts_, c = unit_ % parts_ * ROW_PART + 4 * thread,         \
                     end_ = least(unit_ % parts_ * ROW_PART + ROW_PART, (matrix).columns);   \
             c < end_; c += 4 * KERNEL_THREADS)

/* In one access where they lie at a multiple of 16 bytes; behind the last column are zeros. */
DEVICE struct four four_at(struct matrix m, int64_t t, int64_t c)
{
    const float *from = row_of(m, t) + c;
    struct four x;
    if (c + 4 <= m.columns && (uintptr_t)from % sizeof x == 0) return *(const struct four *)(const void *)from;
    UNROLL
    for (int k = 0; k < 4; k++) x.value[k] = c + k < m.columns ? from[k] : 0;
    return x;
}

DEVICE void put_four(struct matrix m, int64_t t, int64_t c, struct four x)
{
    float *to = row_of(m, t) + c;
    if (c + 4 <= m.columns && (uintptr_t)to % sizeof x == 0) {
        *(struct four *)(void *)to = x;
        return;
    }
    UNROLL
    for (int k = 0; k < 4; k++)
        if (c + k < m.columns) to[k] = x.value[k];
}

KERNEL(fill, fill_args)
{
    const float value = (float)args->value;
    const struct four x = {{value, value, value, value}};
    EACH_FOUR(t, c, args->to)
    {
        put_four(args->to, t, c, x);
    }
}

KERNEL(add, add_args)
{
    const float alpha = (float)args->alpha, beta = (float)args->beta;
    EACH_FOUR(t, c, args->to)
    {
        struct four x = four_at(args->from, t, c);
        const struct four old = beta == 0 ? x : four_at(args->old, t, c);
        UNROLL
        for (int k = 0; k < 4; k++)
            x.value[k] = beta == 0 ? alpha * x.value[k] : alpha * x.value[k] + beta * old.value[k];
        put_four(args->to, t, c, x);
    }
}

KERNEL(scale_by_magnitude, add_args)
{
    EACH_ELEMENT(i, args->to.rows * args->to.columns)
    {
        float *to = element_of(args->to, i);
        *to = (float)((double)*to * (fabs((double)*element_of(args->from, i)) + args->beta));
    }
}

KERNEL(add_row, add_args)
{
    EACH_FOUR(t, c, args->to)
    {
        const struct four row = four_at(args->from, 0, c);
        struct four x = four_at(args->to, t, c);
        UNROLL
        for (int k = 0; k < 4; k++) x.value[k] += row.value[k];
        put_four(args->to, t, c, x);
    }
}

/* To bfloat16, to nearest, ties to even; NaN stays NaN. */
DEVICE uint32_t bf16_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return x == x ? (bits + 0x7fffu + (bits >> 16 & 1)) >> 16 : 0x7fc0u;
}

struct ALIGNED(8) two_pairs {
    uint32_t pair[2];
};

DEVICE struct two_pairs pairs_of(struct four x)
{
    struct two_pairs pairs;
    for (int k = 0; k < 2; k++) pairs.pair[k] = bf16_of(x.value[2 * k]) | bf16_of(x.value[2 * k + 1]) << 16;
    return pairs;
}

/* A lane's part of a head: fours that lie at multiples of 16 bytes, then pairs, with a zero behind an odd last one. */
DEVICE void narrow_head(const float *from, uint32_t *to, int columns, int lane, int lanes)
{
    const int fours = (uintptr_t)from % sizeof(struct four) == 0 ? columns / 4 : 0;
    for (int i = lane; i < fours; i += lanes)
        ((struct two_pairs *)(void *)to)[i] = pairs_of(((const struct four *)(const void *)from)[i]);
    for (int c = 4 * fours + 2 * lane; c < columns; c += 2 * lanes) {
        const uint32_t second = c + 1 < columns ? bf16_of(from[c + 1]) : 0;
        to[c / 2] = bf16_of(from[c]) | second << 16;
    }
}

KERNEL(narrow, narrow_args)
{
    const int lanes = args->lanes, teams = KERNEL_THREADS / lanes;
    EACH_THREAD(thread)
    {
        for (int64_t i = grid->block * teams + thread / lanes; i < args->rows * args->heads; i += grid->blocks * teams)
            narrow_head(head_of(args->from, i / args->heads, i % args->heads), args->to + i * args->pitch / 2,
                        (int)args->columns, thread % lanes, lanes);
    }
}

/* The float with the value of a number of 16 bits. */
DEVICE float widened(uint32_t number, bool half)
{
    const uint32_t sign = (number & 0x8000u) << 16, magnitude = number & 0x7fffu;
    uint32_t bits = magnitude << 16;
    float value;
    if (half && magnitude >= 0x7c00u) {
        bits = 0x7f800000u | (magnitude & 0x3ffu) << 13;
    } else if (half && magnitude >= 0x400u) {
        bits = (magnitude << 13) + 0x38000000u;
    } else if (half) { /* subnormal: the floats from 0.5 on have its spacing, 2^-24 */
        bits = magnitude | 0x3f000000u;
        memcpy(&value, &bits, sizeof value);
        value -= 0.5f;
        memcpy(&bits, &value, sizeof bits);
    }
    bits |= sign;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A thread takes four numbers of a row after another, all at once where they lie at round addresses. */
KERNEL(widen, widen_args)
{
    const int64_t columns = args->to.columns, fours = (columns + 3) / 4;
    const bool half = args->half;
    EACH_ELEMENT(i, args->to.rows * fours)
    {
        const int64_t t = args->to.rows == 1 ? 0 : i / fours, c = 4 * (i - t * fours);
        const uint16_t *from = args->from + t * columns + c;
        float *to = row_of(args->to, t) + c;
        if (c + 4 <= columns && (uintptr_t)from % sizeof(struct two_pairs) == 0 &&
            (uintptr_t)to % sizeof(struct four) == 0) {
            const struct two_pairs pairs = *(const struct two_pairs *)(const void *)from;
            struct four values;
            for (int k = 0; k < 4; k++) values.value[k] = widened(pairs.pair[k / 2] >> k % 2 * 16 & 0xffffu, half);
            *(struct four *)(void *)to = values;
        } else {
            for (int k = 0; k < 4 && c + k < columns; k++) to[k] = widened(from[k], half);
        }
    }
}

/* A thread reads several fours before it writes the first, so that enough of them are on their way. */
KERNEL(narrow_all, narrow_all_args)
{
    const struct four *from = (const struct four *)(const void *)args->from;
    struct two_pairs *to = (struct two_pairs *)(void *)args->to;
    const int64_t fours = args->count / 4;
    EACH_THREAD(thread)
    {
        for (int64_t first = grid->block * NARROW_FOURS * KERNEL_THREADS + thread; first < fours;
             first += grid->blocks * NARROW_FOURS * KERNEL_THREADS) {
            struct four x[NARROW_FOURS];
            UNROLL
            for (int k = 0; k < NARROW_FOURS; k++)
                if (first + k * KERNEL_THREADS < fours) x[k] = from[first + k * KERNEL_THREADS];
            UNROLL
            for (int k = 0; k < NARROW_FOURS; k++)
                if (first + k * KERNEL_THREADS < fours) to[first + k * KERNEL_THREADS] = pairs_of(x[k]);
        }
    }
}

/* Comparisons are written so that NaN stays NaN. */
KERNEL(clip, clip_args)
{
    const float bound = (float)args->bound;
    EACH_ELEMENT(i, args->to.rows * args->to.columns)
    {
        const float x = *element_of(args->from, i);
        *element_of(args->to, i) = x > bound ? bound : x < -bound ? -bound : x;
    }
}

KERNEL(clip_pass, clip_args)
{
    EACH_ELEMENT(i, args->to.rows * args->to.columns)
    {
        const float by = *element_of(args->by, i);
        put(element_of(args->to, i), fabsf(by) > (float)args->bound ? 0 : (double)*element_of(args->from, i),
            args->accumulate);
    }
}

DEVICE double dot_term(const struct dot_args *args, int64_t i)
{
    const bool row = args->a.rows == 1 && (args->b.data == NULL || args->b.rows == 1); /* no division for each */
    const float a = row ? row_of(args->a, 0)[i] : *element_of(args->a, i);
    if (args->b.data == NULL) return a - a == 0 ? 0 : 1;
    return (double)a * (double)(row ? row_of(args->b, 0)[i] : *element_of(args->b, i));
}

/* A thread reads several of its numbers before it adds them, one after the other. */
KERNEL(dot, dot_args)
{
    SHARED double shared[KERNEL_THREADS];
    PRIVATE(double, sum);
    const int64_t count = args->a.rows * args->a.columns, step = grid->blocks * KERNEL_THREADS;
    EACH_THREAD(thread)
    {
        double all = 0;
        int64_t i = grid->block * KERNEL_THREADS + thread;
        for (; i + (DOT_TERMS - 1) * step < count; i += DOT_TERMS * step) {
            double terms[DOT_TERMS];
            UNROLL
            for (int k = 0; k < DOT_TERMS; k++) terms[k] = dot_term(args, i + k * step);
            UNROLL
            for (int k = 0; k < DOT_TERMS; k++) all += terms[k];
        }
        for (; i < count; i += step) all += dot_term(args, i);
        sum[MINE(thread)] = all;
    }
    const double total = block_sum(grid, sum, shared);
    EACH_THREAD(thread)
    {
        if (thread == 0) args->partials[grid->block] = total;
    }
}

KERNEL(dot_end, dot_args)
{
    SHARED double shared[KERNEL_THREADS];
    PRIVATE(double, sum);
    EACH_THREAD(thread)
    {
        sum[MINE(thread)] = 0;
        for (int i = thread; i < DOT_PARTS; i += KERNEL_THREADS) sum[MINE(thread)] += args->partials[i];
    }
    const double total = block_sum(grid, sum, shared);
    EACH_THREAD(thread)
    {
        if (thread == 0) args->partials[0] = total;
    }
}

/* A block takes SPLIT_ROWS rows of SPLIT_COLUMNS columns; a thread takes every eighth row of its column. `shared` is
 * scratch. */
enum { SPLIT_LANES = KERNEL_THREADS / SPLIT_COLUMNS };

struct split {
    int64_t first, end, column; /* rows; the first column */
    int64_t index;              /* index of the split */
};

DEVICE struct split split_of(const struct launch *grid, int64_t rows, int64_t columns)
{
    const int64_t across = (columns + SPLIT_COLUMNS - 1) / SPLIT_COLUMNS, index = grid->block / across;
    struct split split;
    split.index = index;
    split.first = index * SPLIT_ROWS;
    split.end = least(rows, split.first + SPLIT_ROWS);
    split.column = grid->block % across * SPLIT_COLUMNS;
    return split;
}

/* partials[split, column] = the lanes' sums, in order. */
DEVICE void split_store(const struct launch *grid, const struct split *split, const double *sums, double *shared,
                        double *partials, int64_t columns)
{
    EACH_THREAD(thread)
    {
        shared[thread] = sums[MINE(thread)];
    }
    EACH_THREAD(thread)
    {
        const int64_t column = split->column + thread;
        if (thread >= SPLIT_COLUMNS || column >= columns) continue;
        double sum = 0;
        for (int lane = 0; lane < SPLIT_LANES; lane++) sum += shared[lane * SPLIT_COLUMNS + thread];
        partials[split->index * columns + column] = sum;
    }
}

/* Threads side by side take four columns each, and the block's teams of them every SUM_TEAMS-th row; a thread reads
 * several rows before it writes. */
enum { SUM_THREADS = SPLIT_COLUMNS / 4, SUM_TEAMS = KERNEL_THREADS / SUM_THREADS, SUM_FOURS = 4 };

/* Adds rows t, t + SUM_TEAMS, … of four columns, and rounds them to bf16 where that is wanted. */
DEVICE void sum_four(const struct sum_rows_args *args, int64_t t, int64_t end, int64_t c, double *sums)
{
    struct four x[SUM_FOURS];
    UNROLL
    for (int i = 0; i < SUM_FOURS; i++)
        if (t + i * SUM_TEAMS < end) x[i] = four_at(args->from, t + i * SUM_TEAMS, c);
    UNROLL
    for (int i = 0; i < SUM_FOURS; i++) {
        const int64_t row = t + i * SUM_TEAMS;
        if (row >= end) continue;
        for (int k = 0; k < 4; k++) sums[k] += (double)x[i].value[k];
        if (args->rounded != NULL)
            *(struct two_pairs *)(void *)(args->rounded + (row * args->pitch + c) / 2) = pairs_of(x[i]);
    }
}

KERNEL(sum_rows, sum_rows_args)
{
    SHARED double shared[SUM_TEAMS * SPLIT_COLUMNS];
    const struct split split = split_of(grid, args->rows, args->columns);
    EACH_THREAD(thread)
    {
        const int team = thread / SUM_THREADS, four = thread % SUM_THREADS;
        const int64_t c = split.column + 4 * four;
        double sums[4] = {0, 0, 0, 0};
        for (int64_t t = split.first + team; t < split.end && c < args->columns; t += SUM_FOURS * SUM_TEAMS)
            sum_four(args, t, split.end, c, sums);
        for (int k = 0; k < 4; k++) shared[team * SPLIT_COLUMNS + 4 * four + k] = sums[k];
    }
    EACH_THREAD(thread)
    {
        const int64_t column = split.column + thread;
        if (thread >= SPLIT_COLUMNS || column >= args->columns) continue;
        double sum = 0;
        for (int team = 0; team < SUM_TEAMS; team++) sum += shared[team * SPLIT_COLUMNS + thread];
        args->partials[split.index * args->columns + column] = sum;
    }
}

KERNEL(sum_rows_end, sum_rows_args)
{
    const int64_t splits = (args->rows + SPLIT_ROWS - 1) / SPLIT_ROWS;
    EACH_ELEMENT(c, args->columns)
    {
        double sum = 0;
        for (int64_t s = 0; s < splits; s++) sum += args->partials[s * args->columns + c];
        row_of(args->to, 0)[c] += (float)sum;
    }
}

/* One element: the new moments and parameter. */
DEVICE void adamw_step(const struct adamw_args *args, float gradient, float *parameter, float *moment1, float *moment2)
{
    const double g = (double)gradient * args->gradient_scale, p = (double)*parameter;
    const double m = args->beta1 * (double)*moment1 + (1 - args->beta1) * g;
    const double v = args->beta2 * (double)*moment2 + (1 - args->beta2) * g * g;
    const double step = m / args->correction1 / (sqrt(v / args->correction2) + args->epsilon);
    *moment1 = (float)m;
    *moment2 = (float)v;
    *parameter = (float)(p - args->rate * (step + args->weight_decay * p));
}

DEVICE struct matrix adamw_row(const void *data, int64_t count)
{
    struct matrix row;
    row.data = (void *)(uintptr_t)data;
    row.rows = 1;
    row.columns = row.stride = count;
    row.element = sizeof(float);
    return row;
}

KERNEL(adamw, adamw_args)
{
    const struct matrix parameters = adamw_row(args->parameter, args->count),
                        moments1 = adamw_row(args->moment1, args->count),
                        moments2 = adamw_row(args->moment2, args->count),
                        gradients = adamw_row(args->gradient, args->count);
    EACH_FOUR(t, c, parameters)
    {
        const struct four gradient = four_at(gradients, t, c);
        struct four parameter = four_at(parameters, t, c), moment1 = four_at(moments1, t, c),
                    moment2 = four_at(moments2, t, c);
        UNROLL
        for (int k = 0; k < 4; k++)
            adamw_step(args, gradient.value[k], &parameter.value[k], &moment1.value[k], &moment2.value[k]);
        put_four(parameters, t, c, parameter);
        put_four(moments1, t, c, moment1);
        put_four(moments2, t, c, moment2);
    }
}

KERNEL(rope, rope_kernel_args)
{
    const struct rope_args *rope = &args->rope;
    const int64_t half = rope->rotary / 2;
    EACH_ELEMENT(i, rope->x.matrix.rows * rope->heads * half)
    {
        const int64_t j = i % half, head = i / half % rope->heads, t = i / half / rope->heads,
                      position = args->positions[t];
        float *x = head_of(rope->x, t, head);
        const float a = x[j], b = x[j + half], cosine = row_of(rope->cosine, position)[j];
        const float sine = rope->inverse ? -row_of(rope->sine, position)[j] : row_of(rope->sine, position)[j];
        x[j] = a * cosine - b * sine;
        x[j + half] = b * cosine + a * sine;
    }
}

KERNEL(gather, embedding_args)
{
    EACH_ELEMENT(i, args->rows.rows * args->rows.columns)
    {
        *element_of(args->rows, i) = row_of(args->table, args->ids[i / args->rows.columns])[i % args->rows.columns];
    }
}

/* A block adds to one row of the table: no two blocks write to the same row, and tokens are added in order. */
KERNEL(scatter_add, embedding_args)
{
    float *to = row_of(args->table, args->ids[grid->block]);
    EACH_THREAD(thread)
    {
        for (int64_t c = thread; c < args->rows.columns; c += KERNEL_THREADS)
            for (int64_t i = args->starts[grid->block]; i < args->starts[grid->block + 1]; i++)
                to[c] += row_of(args->rows, args->order[i])[c];
    }
}

#endif
