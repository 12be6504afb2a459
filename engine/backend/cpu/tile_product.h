/* tile_product.h: whole products on the tile units (tiles.h), cut for the team of threads by shape alone. */
#ifndef BACKEND_CPU_TILE_PRODUCT_H
#define BACKEND_CPU_TILE_PRODUCT_H

#include "backend/backend.h"

struct tile_scratch; /* belongs to one backend; one product at a time */

/* *out is NULL if the processor has no tile units. The caller owns *out (tile_scratch_free). STATUS_NO_MEMORY. */
MUST_CHECK enum status tile_scratch_new(int threads, struct tile_scratch **out, struct error *error);
void tile_scratch_free(struct tile_scratch *scratch); /* NULL is fine */

/* Whether the product is large enough to repay the packing of both operands. */
bool tile_product_pays(int64_t rows, int64_t columns, int64_t depth);

/* Like backend.h's gemm; `lower`: only the lower triangle of c (c square). */
void tile_product(struct tile_scratch *scratch, struct team *team, const struct gemm_args *args, bool lower);

#endif
