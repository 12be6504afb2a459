/* product.c: c = alpha op(a) op(b) + beta c on one thread, for the small products that OpenBLAS spends on packing:
 * those of attention and of narrow layers. Only b is packed, in panels of up to three vectors of columns (a part of it
 * that fits the first-level cache); elements of a are read in place and broadcast. The sums of a block of rows by a
 * panel stay in registers over a stretch of k (Goto and van de Geijn, ACM TOMS 34, 2008, with their a and b swapped and
 * their a left unpacked). */
#include "backend/cpu/kernels/all.h"

/* ROWS: the sums, one row of b and a broadcast fill the 32 (or 16) vector registers. */
#if defined(__AVX512F__) || defined(__aarch64__)
#define EIGHT_ROWS 1
enum { ROWS = 8 };
#else
#define EIGHT_ROWS 0
enum { ROWS = 4 };
#endif
enum {
    WIDTH = 3,
    DEPTH = 256,
    CHUNK = 128
}; /* vectors per panel, k per stretch, rows of a transposed a packed at once */

/* A block of rows of c against a panel. Element (row, k) of op(a) is a[row * a_row + k * a_depth]. */
struct block {
    const float *a;
    int64_t a_row, a_depth;
    const float *panel; /* [depth][width * LANES] */
    int64_t depth;
    float *c;
    int64_t c_stride, columns; /* columns of c, at most width * LANES */
    float alpha, beta;
};

#define INLINE static inline __attribute__((always_inline))

INLINE void put(const struct block *block, float *c, lanes sum)
{
    sum *= block->alpha;
    if (block->beta != 0) sum += block->beta * *(const lanes *)c;
    *(lanes *)c = sum;
}

/* The last columns of c, fewer than the panel has: the sums are stored to memory first. */
static __attribute__((noinline)) void put_some(const struct block *block, const float *sums, int64_t rows,
                                               int64_t width)
{
    for (int64_t r = 0; r < rows; r++) {
        float *c = block->c + r * block->c_stride;
        for (int64_t j = 0; j < block->columns; j++) {
            const float sum = block->alpha * sums[r * width + j];
            c[j] = block->beta == 0 ? sum : sum + block->beta * c[j];
        }
    }
}

/* `rows` and `width` are constants wherever this is inlined; so is the step through a that is 1. */
INLINE void multiply_block(const struct block *block, int rows, int width, bool transposed)
{
    lanes sums[ROWS][WIDTH];
    const float *a = block->a, *panel = block->panel;
    const int64_t a_row = transposed ? 1 : block->a_row, a_depth = transposed ? block->a_depth : 1;
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 3
        for (int w = 0; w < width; w++) sums[r][w] = (lanes){0};
    for (int64_t k = 0; k < block->depth; k++) {
        lanes b[WIDTH];
#pragma GCC unroll 3
        for (int w = 0; w < width; w++) b[w] = *(const lanes *)(panel + w * LANES);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            const float x = a[r * a_row];
#pragma GCC unroll 3
            for (int w = 0; w < width; w++) sums[r][w] += x * b[w];
        }
        a += a_depth;
        panel += width * LANES;
    }
    if (block->columns < width * LANES) {
        lanes some[ROWS][WIDTH];
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 3
            for (int w = 0; w < width; w++) some[r][w] = sums[r][w];
        put_some(block, (const float *)some, rows, WIDTH * LANES);
        return;
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 3
        for (int w = 0; w < width; w++) put(block, block->c + r * block->c_stride + w * LANES, sums[r][w]);
}

#define DEFINE_BLOCK(rows, width)                                 \
    static void block_##rows##_##width(const struct block *block) \
    {                                                             \
        if (block->a_row == 1)                                    \
            multiply_block(block, rows, width, true);             \
        else                                                      \
            multiply_block(block, rows, width, false);            \
    }
#define DEFINE_BLOCKS(rows) DEFINE_BLOCK(rows, 1) DEFINE_BLOCK(rows, 2) DEFINE_BLOCK(rows, 3)

DEFINE_BLOCKS(1)
DEFINE_BLOCKS(2)
DEFINE_BLOCKS(4)
#if EIGHT_ROWS
DEFINE_BLOCKS(8)
#endif

static void (*const blocks[][WIDTH])(const struct block *block) = {
    {block_1_1, block_1_2, block_1_3},
    {block_2_1, block_2_2, block_2_3},
    {block_4_1, block_4_2, block_4_3},
#if EIGHT_ROWS
    {block_8_1, block_8_2, block_8_3},
#endif
};

/* All rows of c against one panel, in blocks of ROWS and then of the remaining powers of two. */
static void multiply_rows(struct block block, int64_t rows, int width)
{
    int kind = (int)(sizeof blocks / sizeof blocks[0]) - 1;
    for (int64_t row = 0; row < rows;) {
        while (rows - row < (INT64_C(1) << kind)) kind--;
        const int64_t count = INT64_C(1) << kind;
        blocks[kind][width - 1](&block);
        block.a += count * block.a_row;
        block.c += count * block.c_stride;
        row += count;
    }
}

typedef float four __attribute__((vector_size(16), aligned(4), may_alias));

/* Four rows of b become four columns of the panel. */
static inline void transpose_four(float *to, int64_t width, const float *b, int64_t b_stride)
{
    const four r0 = *(const four *)b, r1 = *(const four *)(b + b_stride);
    const four r2 = *(const four *)(b + 2 * b_stride), r3 = *(const four *)(b + 3 * b_stride);
    const four low01 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5),
               high01 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
    const four low23 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5),
               high23 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
    *(four *)to = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
    *(four *)(to + width) = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
    *(four *)(to + 2 * width) = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
    *(four *)(to + 3 * width) = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
}

static void pack_transposed(float *panel, int64_t width, const float *b, int64_t b_stride, int64_t depth,
                            int64_t columns)
{
    int64_t k = 0;
    for (; k + 4 <= depth; k += 4) {
        int64_t j = 0;
        for (; j + 4 <= columns; j += 4) transpose_four(panel + k * width + j, width, b + j * b_stride + k, b_stride);
        for (; j < columns; j++)
            for (int64_t i = k; i < k + 4; i++) panel[i * width + j] = b[j * b_stride + i];
    }
    for (; k < depth; k++)
        for (int64_t j = 0; j < columns; j++) panel[k * width + j] = b[j * b_stride + k];
}

static void pack_plain(float *panel, int64_t width, const float *b, int64_t b_stride, int64_t depth, int64_t columns)
{
    for (int64_t k = 0; k < depth; k++, panel += width, b += b_stride) {
        int64_t j = 0;
        for (; j + LANES <= columns; j += LANES) *(lanes *)(panel + j) = *(const lanes *)(b + j);
        for (; j < columns; j++) panel[j] = b[j];
    }
}

/* Packs a panel [depth][width] of op(b); `columns` of its columns are filled, the others are zero. */
static void pack(float *panel, int64_t width, const float *b, int64_t b_stride, bool transposed, int64_t depth,
                 int64_t columns)
{
    for (int64_t k = 0; columns < width && k < depth; k++)
        for (int64_t j = columns; j < width; j++) panel[k * width + j] = 0;
    if (transposed)
        pack_transposed(panel, width, b, b_stride, depth, columns);
    else
        pack_plain(panel, width, b, b_stride, depth, columns);
}

/* Rounds to bfloat16 in place: to nearest, ties to even; NaN stays. */
static void round_all(float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const uint32_t bits = bits_of(x[i]);
        const float rounded = float_of((bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u);
        x[i] = x[i] != x[i] ? x[i] : rounded;
    }
}

/* Rows of op(a) in groups of ROWS: [group][depth][ROWS]. */
static void pack_rows(float *to, const float *a, int64_t a_stride, int64_t depth, int64_t rows)
{
    for (int64_t k = 0; k < depth; k++, a += a_stride) {
        int64_t i = 0;
        for (; i + ROWS <= rows; i += ROWS)
#pragma omp simd
            for (int64_t r = 0; r < ROWS; r++) to[i * depth + k * ROWS + r] = a[i + r];
        for (int64_t r = 0; i + r < rows; r++) to[i * depth + k * ROWS + r] = a[i + r];
    }
}

static int panel_width(int64_t columns)
{
    const int64_t vectors = (columns + LANES - 1) / LANES;
    return vectors == 4 || vectors == 2 ? 2 : vectors < 3 ? 1 : 3; /* 4 is 2 + 2 */
}

/* One stretch of k: rows of c (a as multiply_rows needs it) against every panel of b. */
static void multiply_stretch(struct block block, const struct gemm_args *args, int64_t k, int64_t rows, bool grouped,
                             bool rounds)
{
    float panel[DEPTH * WIDTH * LANES] __attribute__((aligned(64)));
    const struct matrix b = args->b;
    const int64_t columns = args->c.columns, group = grouped ? ROWS : rows;
    float *const first = block.c;
    const float *const a = block.a;
    for (int64_t column = 0; column < columns; column += block.columns) {
        const int width = panel_width(columns - column);
        const float *from = (const float *)b.data + (args->transpose_b ? column * b.stride + k : k * b.stride + column);
        block.panel = panel;
        block.columns = columns - column < width * LANES ? columns - column : width * LANES;
        pack(panel, width * LANES, from, b.stride, args->transpose_b, block.depth, block.columns);
        if (rounds) round_all(panel, block.depth * width * LANES);
        for (int64_t row = 0; row < rows; row += group) {
            block.a = grouped ? a + row * block.depth : a;
            block.c = first + row * block.c_stride + column;
            multiply_rows(block, rows - row < group ? rows - row : group, width);
        }
    }
}

/* Packs a, a chunk of its rows at a time. */
static void multiply_copied(struct block block, const struct gemm_args *args, int64_t k, bool rounds)
{
    float copy[CHUNK * DEPTH] __attribute__((aligned(64)));
    const bool transposed = args->transpose_a;
    const float *a = block.a;
    float *const first = block.c;
    block.a = copy;
    block.a_row = transposed ? 1 : block.depth;
    block.a_depth = transposed ? ROWS : 1;
    for (int64_t row = 0; row < args->c.rows; row += CHUNK) {
        const int64_t rows = args->c.rows - row < CHUNK ? args->c.rows - row : CHUNK;
        if (transposed)
            pack_rows(copy, a + row, args->a.stride, block.depth, rows);
        else
            for (int64_t r = 0; r < rows; r++)
                memcpy(copy + r * block.depth, a + (row + r) * args->a.stride, (size_t)block.depth * sizeof *copy);
        if (rounds) round_all(copy, block.depth * (transposed ? (rows + ROWS - 1) / ROWS * ROWS : rows));
        block.c = first + row * block.c_stride;
        multiply_stretch(block, args, k, rows, transposed, rounds);
    }
}

static void multiply_all(const struct gemm_args *args, bool rounds)
{
    const int64_t depth = args->transpose_a ? args->a.rows : args->a.columns;
    for (int64_t k = 0; k < depth || k == 0; k += DEPTH) {
        const struct block block = {
            .a = (const float *)args->a.data + (args->transpose_a ? k * args->a.stride : k),
            .a_row = args->transpose_a ? 1 : args->a.stride,
            .a_depth = args->transpose_a ? args->a.stride : 1,
            .depth = depth - k < DEPTH ? depth - k : DEPTH,
            .c = args->c.data,
            .c_stride = args->c.stride,
            .alpha = (float)args->alpha,
            .beta = k == 0 ? (float)args->beta : 1,
        };
        if (rounds || (args->transpose_a && args->c.columns > 2 * WIDTH * LANES))
            multiply_copied(block, args, k, rounds);
        else
            multiply_stretch(block, args, k, args->c.rows, false, false);
    }
}

void KERNEL(multiply)(const struct gemm_args *args)
{
    multiply_all(args, false);
}

void KERNEL(multiply_rounded)(const struct gemm_args *args)
{
    multiply_all(args, true);
}
