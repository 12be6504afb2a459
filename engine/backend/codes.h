/* codes.h: weights as codes, and what backend.h's slots for quantizers are given. Arrays lie in memory of the backend
 * unless said otherwise. */
#ifndef BACKEND_CODES_H
#define BACKEND_CODES_H

#include "backend/coding.h"
#include "backend/matrix.h"

/* Scales and zero points as GPTQ needs them while it works: those of group g of row r at [g * stride + r], in
 * double. */
struct grids {
    double *scales, *zeros; /* [groups, stride]; NULL: none */
    int64_t stride;
};

/* A matrix [rows, columns] as codes (coding.h). `groups` counts those side by side in a row, or with LAYOUT_RUNS all;
 * `bands` are the rows, or with LAYOUT_TILES rows of tiles. With column_scales s the value of a column is divided by
 * its s. */
struct codes {
    struct coding coding;
    int64_t rows, columns, groups;
    uint8_t *codes;             /* [rows, columns] */
    float *scales;              /* [bands, groups]; of runs [groups] */
    uint8_t *zeros;             /* [bands, groups]; of a grid */
    const int32_t *g_idx;       /* [columns] the group of a column; NULL: column / group_size */
    const float *column_scales; /* [columns], above 0; NULL: none */
    struct grids grids;         /* where encode puts scales and zero points of rows in place of all that */
};

/* Rows of a band. */
CODING_FUNCTION int64_t codes_band(const struct codes *codes)
{
    return codes->coding.layout == LAYOUT_TILES ? codes->coding.group_rows : 1;
}

CODING_FUNCTION int64_t codes_all_groups(const struct codes *codes)
{
    const int64_t band = codes_band(codes);
    return codes->coding.layout == LAYOUT_RUNS ? codes->groups : (codes->rows + band - 1) / band * codes->groups;
}

/* Which of all groups a weight is in. */
CODING_FUNCTION int64_t codes_group(const struct codes *codes, int64_t r, int64_t c)
{
    if (codes->coding.layout == LAYOUT_RUNS) return (r * codes->columns + c) / codes->coding.group_size;
    return r / codes_band(codes) * codes->groups +
           (codes->g_idx != NULL ? codes->g_idx[c] : c / codes->coding.group_size);
}

/* Weights of a group that lie side by side: all of a run, a row of a tile. */
CODING_FUNCTION int64_t codes_width(const struct codes *codes, int64_t group)
{
    const bool runs = codes->coding.layout == LAYOUT_RUNS;
    const int64_t size = codes->coding.group_size;
    const int64_t left =
        runs ? codes->rows * codes->columns - group * size : codes->columns - group % codes->groups * size;
    return left < size ? left : size;
}

/* Weights of a group. */
CODING_FUNCTION int64_t codes_count(const struct codes *codes, int64_t group)
{
    const int64_t band = codes_band(codes);
    if (codes->coding.layout != LAYOUT_TILES) return codes_width(codes, group);
    const int64_t left = codes->rows - group / codes->groups * band;
    return codes_width(codes, group) * (left < band ? left : band);
}

/* Row and column of weight k of a group. */
CODING_FUNCTION void codes_place(const struct codes *codes, int64_t group, int64_t k, int64_t *r, int64_t *c)
{
    const int64_t size = codes->coding.group_size;
    if (codes->coding.layout == LAYOUT_RUNS) {
        *r = (group * size + k) / codes->columns;
        *c = (group * size + k) % codes->columns;
    } else {
        const int64_t width = codes->coding.layout == LAYOUT_TILES ? codes_width(codes, group) : size;
        *r = group / codes->groups * codes_band(codes) + k / width;
        *c = group % codes->groups * size + k % width;
    }
}

/* For each row and group of weight = W diag(s), the largest magnitude m is lowered to the best of m (1 - i / parts), i
 * < steps, the first of equals: what is coded of the clamped group is weighed against the unclamped one by d H dᵀ, d =
 * (weight - values) / s, H the group's own block of the Hessian. The groups of `weight` are clamped in place. */
enum { CLIP_SEARCH_ROWS = 64 };
struct clip_search_args {
    struct coding coding;                  /* a grid on rows */
    struct matrix weight, scales, hessian; /* [R, C], [1, C], [C, C] */
    int64_t steps, parts;
    /* of a host backend: 2 * CLIP_SEARCH_ROWS rows of group_size columns for each thread of the team */
    struct matrix scratch;
};

/* GPTQ inside one block of columns: quantize a column, spread its error over the columns of the block still to come.
 *
 *     for each column j:  w = W[:, j] - sum_{i<j} E[:, i] U[i, j];  q = value(code(w));  E[:, j] = (w - q) / U[j, j]
 *
 * Rows do not meet. Sums of w in the backend's own type and order; codes in double (coding.h). */
enum {
    GPTQ_BLOCK = 128,   /* the most columns of a block */
    GPTQ_ROW_TILE = 32, /* what is indexed by row has room up to a multiple of it */
};
struct gptq_block_args {
    struct matrix weights; /* [R, width] as the blocks before left it; what becomes of it is not said */
    struct matrix upper;   /* [width, width] U[block, block] */
    struct coding coding;  /* a grid on rows; group_size columns in visiting order */
    struct grids grids;    /* given; stride a multiple of GPTQ_ROW_TILE */
    /* the block's first column in visiting order: column j belongs to group (position + j) / group_size */
    int64_t position;
    const int32_t *from; /* host: [width] the column of `codes` where column j belongs */
    uint8_t *codes;      /* [R, codes_stride] out */
    int64_t codes_stride;
    struct matrix errors; /* [width, R] out: E transposed; stride as that of the grids */
};

/* Rows as a linear with rounded inputs reads them: symmetric codes with a step for each row, m / top of its largest
 * magnitude m,
 *
 *     to = rint(top x / m) (m / top),  top = 2^(bits-1) - 1
 *
 * with smoothing s of x / s, and times s. Spared columns stay as they are and out of the maximum. With a threshold the
 * rows are one sequence, and columns in which any |x| reaches it leave: they stay as they are, and entries that reach
 * it stay out of the maximum; `exact`, the columns leave before the maximum and become 0. A row whose maximum is 0
 * becomes 0; NaN stays. */
struct round_rows_args {
    int bits;
    double threshold; /* 0: none */
    bool exact;
    const float *smoothing; /* [columns] or NULL */
    const uint8_t *spared;  /* [columns] 1: spared; or NULL */
    uint8_t *left;          /* [columns] scratch where there is a threshold */
    struct matrix x, to;    /* [rows, columns] */
    struct matrix outliers; /* of x what left and is not spared, 0 elsewhere; absent: not wanted */
};

/* Every row of x (or every column), n numbers, becomes v diag(sign) H / sqrt(order power), or the inverse of that: H
 * has n / (order power) blocks, each the Kronecker product of Paley's matrix and Sylvester's (quant/hadamard.h).
 * `centred` (not of the inverse): the mean of v is taken away first, and what is left rounded to an element. Sums in
 * double. */
enum { HADAMARD_PANEL = 8, HADAMARD_ORDER = 256 }; /* vectors side by side; the largest Paley matrix */
struct hadamard_args {
    struct matrix x, to; /* `to` may be x */
    bool columns, inverse, centred;
    int64_t order, power;
    const int8_t *paley; /* [order, order]; NULL for order 1 */
    const float *sign;   /* [n] of +1 and -1; NULL: all +1 */
    double *scratch;     /* of a host backend: [threads of the team, n, HADAMARD_PANEL] */
};

#endif
