/* mma.h: products on the tensor cores inside a kernel. A warp, 32 threads side by side, computes c += a b for a
 * [16, 16] and b [16, 8] of bfloat16 numbers and c [16, 8] of floats. Each thread holds a part of the three matrices
 * (PTX ISA, mma.m16n8k16): of a and c the rows r and r + 8, of b the column r, where r = lane / 4. Which columns of a
 * and c, and rows of b, follows from lane % 4; a word has two neighbours of them.
 *
 * MMA and QUAD_* work on members of a PRIVATE array for all threads at once, between phases. EACH_LANE is a phase
 * without a barrier at its end, in which a thread touches nothing that others write. */
#ifndef BACKEND_CUDA_KERNELS_MMA_H
#define BACKEND_CUDA_KERNELS_MMA_H

#include "backend/cuda/kernels/elementwise.h"

enum { WARP = 32, MMA_ROWS = 16, MMA_COLUMNS = 8, MMA_SUMS = 16, MMA_PAIRS = MMA_SUMS / 2, QUAD = 4 };

/* In a: rows r and r + 8 of columns [2 (lane % 4), + 2), then both of the columns 8 further. */
struct mma_a {
    uint32_t pair[4];
};

/* In b: rows [2 (lane % 4), + 2), then those 8 further. */
struct mma_b {
    uint32_t pair[2];
};

/* In c: columns [2 (lane % 4), + 2) of row r, then of row r + 8. */
struct mma_c {
    float at[4];
};

#ifdef __CUDACC__
/* One access of the type's size and alignment. */
#define COPY(type, to, from) (*(type *)(to) = *(const type *)(from))
#define EACH_LANE(thread)    for (int thread = (int)threadIdx.x, phase_ = 1; phase_; phase_ = 0)

/* Two floats to bfloat16, to nearest, ties to even; `low` is the first in memory. */
DEVICE uint32_t bf16_pair(float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

DEVICE void mma_warp(struct mma_c *c, const struct mma_a *a, const struct mma_b *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c->at[0]), "+f"(c->at[1]), "+f"(c->at[2]), "+f"(c->at[3])
                 : "r"(a->pair[0]), "r"(a->pair[1]), "r"(a->pair[2]), "r"(a->pair[3]), "r"(b->pair[0]),
                   "r"(b->pair[1]));
}

/* 2^x; numbers below normal become 0. */
DEVICE float power_of_2(float x)
{
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

DEVICE float quad_largest(float x)
{
    for (int other = 1; other < QUAD; other *= 2) {
        const float y = __shfl_xor_sync(0xffffffff, x, other);
        x = y > x ? y : x;
    }
    return x;
}

DEVICE double quad_sum(double x)
{
    for (int other = 1; other < QUAD; other *= 2) x += __shfl_xor_sync(0xffffffff, x, other);
    return x;
}

#define MMA(mine, c, a, b)         mma_warp(&(mine)[0].c, &(mine)[0].a, &(mine)[0].b)
#define QUAD_LARGEST(mine, member) ((mine)[0].member = quad_largest((mine)[0].member))
#define QUAD_SUM(mine, member)     ((mine)[0].member = quad_sum((mine)[0].member))
#else
#define COPY(type, to, from) memcpy(to, from, sizeof(type))
#define EACH_LANE(thread)    EACH_THREAD(thread)

DEVICE float power_of_2(float x)
{
    const float power = exp2f(x);
    return power < 0x1p-126F ? 0 : power; /* NaN stays */
}

DEVICE uint32_t bf16_pair(float low, float high)
{
    return bf16_of(low) | bf16_of(high) << 16;
}

/* Half `high` of a word, as a number. */
DEVICE float bf16_half(uint32_t pair, int high)
{
    const uint32_t bits = high ? pair & 0xffff0000u : pair << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* One warp's product, from the parts of its threads. */
DEVICE void mma_warp(struct mma_c *const c[WARP], const struct mma_a *const a[WARP], const struct mma_b *const b[WARP])
{
    float left[MMA_ROWS][MMA_SUMS], right[MMA_SUMS][MMA_COLUMNS];
    for (int lane = 0; lane < WARP; lane++)
        for (int part = 0; part < 4; part++)
            for (int i = 0; i < 2; i++) {
                const int row = lane / 4, column = lane % 4 * 2 + i;
                left[row + part % 2 * 8][column + part / 2 * 8] = bf16_half(a[lane]->pair[part], i);
                if (part < 2) right[column + part * 8][row] = bf16_half(b[lane]->pair[part], i);
            }
    for (int lane = 0; lane < WARP; lane++)
        for (int i = 0; i < 4; i++) {
            const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
            double sum = (double)c[lane]->at[i];
            for (int k = 0; k < MMA_SUMS; k++) sum += (double)(left[row][k] * right[k][column]);
            c[lane]->at[i] = (float)sum;
        }
}

#define MMA(mine, c, a, b)                                                              \
    for (int warp_ = 0; warp_ < KERNEL_THREADS; warp_ += WARP) {                        \
        struct mma_c *c_[WARP];                                                         \
        const struct mma_a *a_[WARP];                                                   \
        const struct mma_b *b_[WARP];                                                   \
        for (int lane_ = 0; lane_ < WARP; lane_++)                                      \
            c_[lane_] = &(mine)[warp_ + lane_].c, a_[lane_] = &(mine)[warp_ + lane_].a, \
            b_[lane_] = &(mine)[warp_ + lane_].b;                                       \
        mma_warp(c_, a_, b_);                                                           \
    }
#define QUAD_LARGEST(mine, member)                                                               \
    for (int quad_ = 0; quad_ < KERNEL_THREADS; quad_ += QUAD)                                   \
        for (int other_ = 1; other_ < QUAD; other_ *= 2) {                                       \
            float all_[QUAD];                                                                    \
            for (int i_ = 0; i_ < QUAD; i_++) all_[i_] = (mine)[quad_ + i_].member;              \
            for (int i_ = 0; i_ < QUAD; i_++)                                                    \
                if (all_[i_ ^ other_] > all_[i_]) (mine)[quad_ + i_].member = all_[i_ ^ other_]; \
        }
#define QUAD_SUM(mine, member)                                                                \
    for (int quad_ = 0; quad_ < KERNEL_THREADS; quad_ += QUAD)                                \
        for (int other_ = 1; other_ < QUAD; other_ *= 2) {                                    \
            double all_[QUAD];                                                                \
            for (int i_ = 0; i_ < QUAD; i_++) all_[i_] = (mine)[quad_ + i_].member;           \
            for (int i_ = 0; i_ < QUAD; i_++) (mine)[quad_ + i_].member += all_[i_ ^ other_]; \
        }
#endif

/* Parts of matrices from a tile of rows in shared memory, `pitch` words from a row to the next (a multiple of 4).
 * mma_a_rows: rows [first, + 16) and columns [16 k, + 16) of the tile. The others are two matrices b side by side.
 * mma_b_rows: the columns of b are rows [8 n, + 16) of the tile, its rows are columns [16 k, + 16). mma_b_columns: the
 * other way round, the columns of b are columns [8 n, + 16) of the tile, its rows are rows [16 k, + 16). */
#ifdef __CUDACC__
/* Each thread names one row of 8 numbers; every 8 threads name a matrix. */
#define LOAD_MATRICES(transposed, first, second, third, fourth)                                   \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" transposed ".shared.b16 {%0, %1, %2, %3}, [%4];" \
                 : "=r"(first), "=r"(second), "=r"(third), "=r"(fourth)                           \
                 : "r"((uint32_t)__cvta_generic_to_shared(row)))

DEVICE struct mma_a mma_a_rows(const uint32_t *tile, int pitch, int first, int k, int thread)
{
    const int lane = thread % WARP;
    const uint32_t *row = tile + (first + lane % 16) * pitch + lane / 16 * 4 + MMA_PAIRS * k;
    struct mma_a a;
    LOAD_MATRICES("", a.pair[0], a.pair[1], a.pair[2], a.pair[3]);
    return a;
}

DEVICE void mma_b_rows(struct mma_b b[2], const uint32_t *tile, int pitch, int n, int k, int thread)
{
    const int lane = thread % WARP;
    const uint32_t *row = tile + (lane / 16 * 8 + lane % 8 + 8 * n) * pitch + lane / 8 % 2 * 4 + MMA_PAIRS * k;
    LOAD_MATRICES("", b[0].pair[0], b[0].pair[1], b[1].pair[0], b[1].pair[1]);
}

DEVICE void mma_b_columns(struct mma_b b[2], const uint32_t *tile, int pitch, int n, int k, int thread)
{
    const int lane = thread % WARP;
    const uint32_t *row = tile + (lane % 16 + MMA_SUMS * k) * pitch + lane / 16 * 4 + MMA_COLUMNS / 2 * n;
    LOAD_MATRICES(".trans", b[0].pair[0], b[0].pair[1], b[1].pair[0], b[1].pair[1]);
}
#else
DEVICE struct mma_a mma_a_rows(const uint32_t *tile, int pitch, int first, int k, int thread)
{
    struct mma_a a;
    for (int i = 0; i < 4; i++)
        a.pair[i] =
            tile[(first + i % 2 * 8 + thread % WARP / QUAD) * pitch + MMA_PAIRS * k + i / 2 * 4 + thread % QUAD];
    return a;
}

DEVICE void mma_b_rows(struct mma_b b[2], const uint32_t *tile, int pitch, int n, int k, int thread)
{
    for (int i = 0; i < 4; i++)
        b[i / 2].pair[i % 2] =
            tile[(8 * (n + i / 2) + thread % WARP / QUAD) * pitch + MMA_PAIRS * k + i % 2 * 4 + thread % QUAD];
}

DEVICE void mma_b_columns(struct mma_b b[2], const uint32_t *tile, int pitch, int n, int k, int thread)
{
    for (int i = 0; i < 4; i++) {
        const int column = 8 * (n + i / 2) + thread % WARP / QUAD, shift = column % 2 * 16;
        const uint32_t *first = tile + (MMA_SUMS * k + i % 2 * 8 + thread % QUAD * 2) * pitch + column / 2;
        b[i / 2].pair[i % 2] = (first[0] >> shift & 0xffff) | (first[pitch] >> shift & 0xffff) << 16;
    }
}
#endif

/* The thread's part of a, rounded: columns [0, 8) are those of `left`, [8, 16) those of `right`. */
DEVICE struct mma_a mma_a_of(const struct mma_c *left, const struct mma_c *right)
{
    const struct mma_a a = {{bf16_pair(left->at[0], left->at[1]), bf16_pair(left->at[2], left->at[3]),
                             bf16_pair(right->at[0], right->at[1]), bf16_pair(right->at[2], right->at[3])}};
    return a;
}

#endif
