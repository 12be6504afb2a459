/* ends.h: the matrices outside the blocks, embeddings and output, if a method quantizes them: they are rounded to the
 * nearest point of the symmetric min-max grid, in groups of ENDS_GROUP columns, whatever quantizer the blocks' linears
 * have. */
#ifndef QUANT_ENDS_H
#define QUANT_ENDS_H

#include "backend/backend.h"
#include "base/error.h"

enum { ENDS_GROUP = 128 };

/* Rounds `matrix` (host floats) in place; *stored_bits gets what a checkpoint needs for it. STATUS_NOT_FINITE,
 * STATUS_UNSUPPORTED, STATUS_NO_MEMORY. */
MUST_CHECK enum status ends_round(struct backend *backend, const char *name, struct matrix matrix, int64_t bits,
                                  int64_t *stored_bits, struct error *error);

#endif
