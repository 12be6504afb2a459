/* coded.h: a quantized layer's codes where the backend works on them: on the host the layer's own arrays, on a device a
 * copy. Whoever fills one side says which way it goes: coded_push, coded_pull. */
#ifndef QUANT_CODED_H
#define QUANT_CODED_H

#include "backend/backend.h"
#include "quant/quantized_layer.h"

struct coded {
    struct backend *backend;       /* lent */
    struct quantized_layer *layer; /* lent; its arrays stay where they are until coded_reset */
    struct codes at;               /* what the backend's slots are given */
    void *block;                   /* owned, of the backend; NULL on the host */
    size_t offsets[6];             /* of what is in the block; 0: it is not */
};

/* `codes`: where the codes lie in memory of the backend already (lent; the layer's own must be those on a host); NULL:
 * room of its own. coded_reset is due in any case. STATUS_NO_MEMORY. */
MUST_CHECK enum status coded_init(struct coded *coded, struct backend *backend, struct quantized_layer *layer,
                                  uint8_t *codes, struct error *error);
void coded_reset(struct coded *coded); /* a zeroed one is fine */

/* The layer's scales, zero points, groups of columns, scales of columns and table go to the backend. */
void coded_push(struct coded *coded);
/* The layer's scales, on both sides, become the nearest float16; of codebooks they stay as they are. STATUS_UNSUPPORTED
 * where float16 has no such number (export_format_half). */
MUST_CHECK enum status coded_round_scales(struct coded *coded, struct error *error);
/* Codes, scales and zero points come into the layer. A late error of the device comes out here. */
MUST_CHECK enum status coded_pull(struct coded *coded, struct error *error);
MUST_CHECK enum status coded_pull_scales(struct coded *coded, struct error *error); /* the scales alone */

/* Finds the scale of every group of `weight` [rows, columns] of float, and its codes; a table was pushed before. With
 * column_scales, `weight` is W diag(s). */
void coded_encode(struct coded *coded, struct matrix weight);
/* Writes the values into `weight` [rows, columns]. */
void coded_decode(const struct coded *coded, struct matrix weight);

/* Rows of a layer's error that are measured at a time, at most: two matrices of so many rows are scratch. */
int64_t coded_slab_rows(const struct backend *backend);
/* tr(A H Aᵀ) of a [rows, columns]; `product` is scratch of its shape; H as below. */
double coded_energy(struct backend *backend, struct matrix a, struct matrix hessian, struct matrix product);
/* The proxy error alone. STATUS_NOT_FINITE when it is not finite, STATUS_NO_MEMORY. */
MUST_CHECK enum status coded_error(const struct coded *coded, struct matrix weight, struct matrix hessian, double *out,
                                   struct error *error);
/* Sets the layer's proxy_error and relative_error from the original weight. `hessian` is [columns, columns] with both
 * triangles, or absent: H = I. STATUS_NOT_FINITE when an error is not finite, STATUS_NO_MEMORY. */
MUST_CHECK enum status coded_measure(struct coded *coded, struct matrix weight, struct matrix hessian,
                                     struct error *error);

#endif
