/* gptq_block.h: GPTQ inside one block of columns: quantize a column, spread its error over the columns of the block still to come.
 *
 *     for each column j:  w = W[:, j] - sum_{i<j} E[:, i] U[i, j];  q = grid(w);  E[:, j] = (w - q) / U[j, j]
 *
 * which is the published update written from the receiving column's side: the running column stays in registers for many rows at
 * once and each U[i, j] is one broadcast. Rows do not meet, so tiles of rows go to threads. */
#ifndef QUANT_GPTQ_BLOCK_H
#define QUANT_GPTQ_BLOCK_H

#include <stdint.h>

enum {
    GPTQ_BLOCK = 128,   /* columns of a block */
    GPTQ_ROW_TILE = 32, /* rows solved together; scratch that is indexed by row is padded to a multiple */
};

struct gptq_block {
    int64_t rows, width;    /* width <= GPTQ_BLOCK */
    const float *weights;   /* [rows, …] the block's first column, as the blocks before left it */
    int64_t weights_stride; /* elements */
    const float *upper;     /* [width, GPTQ_BLOCK] U[block, block] transposed: U[i, j] at j * GPTQ_BLOCK + i */
    const double *scales;   /* [runs, padded rows] */
    const double *zeros;    /* [runs, padded rows] */
    int64_t padded;         /* rows rounded up to GPTQ_ROW_TILE */
    int64_t position;       /* the block's first column in visiting order … */
    int64_t group_size;     /* … so that column j belongs to run (position + j) / group_size */
    double top;             /* the largest code */
    const int32_t *from;    /* [width] where column j belongs in `codes` */
    uint8_t *codes;         /* [rows, codes_stride] out */
    int64_t codes_stride;   /* elements */
    float *errors;          /* [width, padded] out: E transposed */
};

/* Solves rows [tile * GPTQ_ROW_TILE, …) of the block. Tiles may run side by side. */
void gptq_block_solve(const struct gptq_block *block, int64_t tile);

/* The same for one level of x86-64; gptq_block_solve chooses by cpuid. */
void gptq_block_solve_v2(const struct gptq_block *block, int64_t tile);
void gptq_block_solve_v3(const struct gptq_block *block, int64_t tile);
void gptq_block_solve_v4(const struct gptq_block *block, int64_t tile);

#endif
