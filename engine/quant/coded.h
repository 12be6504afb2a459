/* coded.h: a quantized layer's codes in memory of the backend: on the host these are the layer's own arrays, on a
 * device a copy. The caller moves data explicitly: coded_push, coded_pull. */
#ifndef QUANT_CODED_H
#define QUANT_CODED_H

#include "backend/backend.h"
#include "quant/quantized_layer.h"

struct coded {
    struct backend *backend;       /* lent */
    struct quantized_layer *layer; /* lent; its arrays may not move until coded_reset */
    struct codes at;               /* the argument of the backend's slots */
    void *block;                   /* owned, of the backend; NULL on the host */
    size_t offsets[6];             /* of the parts in the block; 0: not in it */
};

/* `codes`: codes that are in memory of the backend already (lent; on a host they must be the layer's own); NULL:
 * allocates memory. The caller calls coded_reset, also on failure. STATUS_NO_MEMORY. */
MUST_CHECK enum status coded_init(struct coded *coded, struct backend *backend, struct quantized_layer *layer,
                                  uint8_t *codes, struct error *error);
void coded_reset(struct coded *coded); /* a zeroed one is fine */

/* Copies the layer's scales, zero points, groups of columns, scales of columns and table to the backend. */
void coded_push(struct coded *coded);
/* Rounds the layer's scales, on both sides, to the nearest float16, except for codebooks; the layer's codes must have
 * been pulled. Where that would be 0 the smallest float16 becomes the scale and the group's codes are rounded to it,
 * which moves values by half of it at most. STATUS_UNSUPPORTED, naming the layer, if a scale is too large. */
MUST_CHECK enum status coded_round_scales(struct coded *coded, const char *name, struct error *error);
/* Copies codes, scales and zero points to the layer. Reports late errors of the device. */
MUST_CHECK enum status coded_pull(struct coded *coded, struct error *error);
MUST_CHECK enum status coded_pull_scales(struct coded *coded, struct error *error); /* the scales alone */

/* Computes the scale of every group of `weight` [rows, columns] of float, and its codes; a table must have been pushed.
 * With column_scales, `weight` is W diag(s). */
void coded_encode(struct coded *coded, struct matrix weight);
/* Writes the values into `weight` [rows, columns]. */
void coded_decode(const struct coded *coded, struct matrix weight);

/* Most rows of a layer's error that are measured at a time; two matrices of so many rows are scratch. */
int64_t coded_slab_rows(const struct backend *backend);
/* tr(A H Aᵀ) of a [rows, columns]; `product` is scratch of its shape; H as below. */
double coded_energy(struct backend *backend, struct matrix a, struct matrix hessian, struct matrix product);
/* Only the proxy error; `name` of the layer for messages. STATUS_NOT_FINITE when it is not finite, STATUS_NO_MEMORY. */
MUST_CHECK enum status coded_error(const struct coded *coded, const char *name, struct matrix weight,
                                   struct matrix hessian, double *out, struct error *error);
/* Sets the layer's proxy_error and relative_error from the original weight. `hessian` is [columns, columns] with both
 * triangles, or absent: H = I. STATUS_NOT_FINITE when an error is not finite, STATUS_NO_MEMORY. */
MUST_CHECK enum status coded_measure(struct coded *coded, const char *name, struct matrix weight, struct matrix hessian,
                                     struct error *error);

#endif
