/* codes.h: weights as codes, and the arguments of backend.h's slots for quantizers. Arrays lie in memory of the backend
 * unless said otherwise. */
#ifndef BACKEND_CODES_H
#define BACKEND_CODES_H

#include "backend/coding.h"
#include "backend/matrix.h"

/* Scales and zero points as GPTQ needs them while it works: those of group g of row r are at [g * stride + r], in
 * double. */
struct grids {
    double *scales, *zeros; /* [groups, stride]; NULL: none */
    int64_t stride;
};

/* A matrix [rows, columns] as codes (coding.h). `groups` counts the groups in a row, or with LAYOUT_RUNS all groups;
 * `bands` are the rows, or with LAYOUT_TILES the rows of tiles. With column_scales s, the value of a column is divided
 * by its s. */
struct codes {
    struct coding coding;
    int64_t rows, columns, groups;
    uint8_t *codes;             /* [rows, columns] */
    float *scales;              /* [bands, groups]; of runs [groups] */
    uint8_t *zeros;             /* [bands, groups]; only of a grid */
    const int32_t *g_idx;       /* [columns] the group of a column; NULL: column / group_size */
    const float *column_scales; /* [columns], above 0; NULL: none */
    struct grids grids;         /* if set, encode writes scales and zero points of rows here and nothing else */
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

/* Index of the group of a weight among all groups. */
CODING_FUNCTION int64_t codes_group(const struct codes *codes, int64_t r, int64_t c)
{
    if (codes->coding.layout == LAYOUT_RUNS) return (r * codes->columns + c) / codes->coding.group_size;
    return r / codes_band(codes) * codes->groups +
           (codes->g_idx != NULL ? codes->g_idx[c] : c / codes->coding.group_size);
}

/* Number of a group's weights that are contiguous: the whole run, or a row of a tile. */
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

/* Keeps the scale of a group: in the grids where these alone are wanted (false), else beside the codes (true). */
CODING_FUNCTION bool codes_keep_scale(const struct codes *codes, int64_t group, double scale, double zero)
{
    if (codes->grids.scales != NULL) {
        const int64_t at = group % codes->groups * codes->grids.stride + group / codes->groups;
        codes->grids.scales[at] = scale;
        codes->grids.zeros[at] = zero;
        return false;
    }
    codes->scales[group] = (float)scale;
    if (codes->zeros != NULL) codes->zeros[group] = (uint8_t)zero;
    return true;
}

/* For each row and group of weight = W diag(s), lowers the largest magnitude m to the best of m (1 - i / parts), i <
 * steps, the first of equals. The error of a clamped and coded group is measured against the unclamped one by d H dᵀ, d
 * = (weight - values) / s, H the group's own block of the Hessian. The groups of `weight` are clamped in place. */
enum { CLIP_SEARCH_ROWS = 64 };
struct clip_search_args {
    struct coding coding;                  /* a grid on rows */
    struct matrix weight, scales, hessian; /* [R, C], [1, C], [C, C] */
    int64_t steps, parts;
    /* only for a host backend: 2 * CLIP_SEARCH_ROWS rows of group_size columns for each thread of the team */
    struct matrix scratch;
};

/* GPTQ inside one block of columns: quantizes a column and distributes its error over the block's later columns.
 *
 *     for each column j:  w = W[:, j] - sum_{i<j} E[:, i] U[i, j];  q = value(code(w));  E[:, j] = (w - q) / U[j, j]
 *
 * Rows are independent. Sums of w are in the backend's own type and order; codes are in double (coding.h). */
enum {
    GPTQ_BLOCK = 128,   /* most columns of a block */
    GPTQ_ROW_TILE = 32, /* arrays indexed by row have space up to a multiple of it */
};
struct gptq_block_args {
    struct matrix weights; /* [R, width] as the earlier blocks left it; undefined afterwards */
    struct matrix upper;   /* [width, width] U[block, block] */
    struct coding coding;  /* a grid on rows; group_size counts columns in visiting order */
    struct grids grids;    /* input; stride a multiple of GPTQ_ROW_TILE */
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
 * with smoothing s of x / s, and times s. Spared columns are not rounded and do not count for the maximum. With a
 * threshold the rows are one sequence, and a column with any |x| at or above the threshold is an outlier column: it is
 * not rounded, and its entries at or above the threshold do not count for the maximum; with `exact`, no entry of the
 * column counts, and the column becomes 0. A row whose maximum is 0 becomes 0; NaN stays. */
struct round_rows_args {
    int bits;
    double threshold; /* 0: none */
    bool exact;
    const float *smoothing; /* [columns] or NULL */
    const uint8_t *spared;  /* [columns] 1: spared; or NULL */
    uint8_t *left;          /* [columns] scratch if there is a threshold; 1: outlier column */
    struct matrix x, to;    /* [rows, columns] */
    struct matrix outliers; /* x in outlier columns that are not spared, 0 elsewhere; absent: not computed */
};

/* Every row of x (or every column), n numbers v, becomes v diag(sign) H / sqrt(order power), or the inverse of that: H
 * has n / (order power) blocks, each the Kronecker product of Paley's matrix and Sylvester's (quant/hadamard.h).
 * `centred` (not for the inverse): the mean of v is subtracted first, and the differences are rounded to an element.
 * Sums in double. */
enum { HADAMARD_PANEL = 8, HADAMARD_ORDER = 256 }; /* vectors side by side; order of the largest Paley matrix */
struct hadamard_args {
    struct matrix x, to; /* `to` may be x */
    bool columns, inverse, centred;
    int64_t order, power;
    const int8_t *paley; /* [order, order]; NULL for order 1 */
    const float *sign;   /* [n] of +1 and -1; NULL: all +1 */
    double *scratch;     /* only for a host backend: [threads of the team, n, HADAMARD_PANEL] */
};

#endif
