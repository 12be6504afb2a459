/* quantized_layer.h: the result of quantizing one linear layer. */
#ifndef QUANT_QUANTIZED_LAYER_H
#define QUANT_QUANTIZED_LAYER_H

#include "backend/backend.h"
#include "base/error.h"

/* Why a layer was rounded to nearest instead of quantized by the method. */
enum degraded {
    DEGRADED_NO,
    DEGRADED_COLD,     /* too few calibration tokens reached it */
    DEGRADED_SINGULAR, /* the Hessian of its inputs has no factor with any damping */
    DEGRADED_SILENT    /* its inputs are zero on every calibration token */
};

/* A matrix [rows, columns] in a coding (backend/coding.h): value = (code - zero) * scale for a grid, values[code] *
 * scale for a table. With column_scales s the codes are of W diag(s): the value of a column is divided by its s.
 *
 * All arrays are owned (quantized_layer_reset), row-major, columns in the original order. */
struct quantized_layer {
    struct coding coding; /* group_size >= 1: -1 was resolved to the number of columns; a table is lent for ever */
    int64_t rows, columns, groups; /* groups per row; with LAYOUT_RUNS of the whole matrix */
    uint8_t *codes;                /* [rows, columns], in [0, 2^bits) */
    float *scales;                 /* [rows, groups]; of tiles [rows of tiles, groups], of runs [groups] */
    uint8_t *zeros;                /* [rows, groups] for a grid; NULL for a table */
    int32_t *g_idx;                /* [columns]: the group of a column; NULL for runs */
    bool ordered;                  /* g_idx may not be column / group_size: it must be stored */
    int64_t scale_bits;            /* of a scale in a checkpoint; and bits stored once per layer … */
    int64_t extra_bits;            /* … quantized_layer_init sets those of the coding's type, and 0 */
    float *column_scales;          /* [columns], above 0; NULL: none */
    bool folded;                   /* the maker of the inputs is divided by them (fold.h): they take no space */
    double alpha;                  /* the exponent they come from; NaN without */
    bool skipped;                  /* not quantized: no codes, no scales */
    int64_t kept; /* input columns that are not quantized; `columns` and all arrays are of the others, in order */
    int32_t *kept_columns; /* [kept] ascending; NULL: none */

    /* Treatment of the layer's inputs in the forward pass (activation.h). */
    int input_bits;         /* of the rounded inputs; 0: they are as they are */
    double input_threshold; /* of LLM.int8(); 0: none */
    /* [rows, columns] the original weights, which outliers multiply; NULL: they multiply the dequantized ones */
    float *original;

    double proxy_error; /* tr(D H Dᵀ), D = W - Q, H = 2/N XᵀX undamped, W the original weight */
    /* proxy_error / tr(W H Wᵀ): the part of the layer's output energy that is error; 0 when W H Wᵀ is 0 */
    double relative_error;
    double damp;            /* fraction of the mean diagonal that was added; 0 for methods without damping */
    int64_t damp_increases; /* steps by which it was raised until a factorisation worked */
    enum degraded degraded;
    int64_t dead_columns; /* inputs that were zero on every calibration token; -1: there were no tokens */
};

/* Empty arrays for a layer of this shape; the coding's group_size as in the API. The layer may be reset also after a
 * failure. */
MUST_CHECK enum status quantized_layer_init(struct quantized_layer *layer, int64_t rows, int64_t columns,
                                            struct coding coding, struct error *error);
int64_t quantized_layer_scales(const struct quantized_layer *layer); /* how many it has */
void quantized_layer_reset(struct quantized_layer *layer);           /* a zeroed one is fine */

/* Bits that a checkpoint needs: the codes, a scale for each group, a zero point of as many bits as a code for each
 * group of an asymmetric grid, 32 bits a column for g_idx where it must be stored, 16 for its scale where columns have
 * one that is not folded. */
int64_t quantized_layer_bits(const struct quantized_layer *layer);

#endif
