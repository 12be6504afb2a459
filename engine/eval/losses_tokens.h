/* losses_tokens.h: values of every predicted token as a file: NumPy's .npy (format 1.0, "<f4"), a head and the values
 * in the order of the sequences, those of a sequence in its order. */
#ifndef EVAL_LOSSES_TOKENS_H
#define EVAL_LOSSES_TOKENS_H

#include "base/error.h"

#include <stdint.h>

enum { LOSSES_TOKENS_HEAD = 128 };

/* Writes the head of a file of `predictions` values. */
void losses_tokens_head(int64_t predictions, char head[LOSSES_TOKENS_HEAD]);

/* Reads a file of `predictions` values. The caller owns *out (memory_free). STATUS_CORRUPT when it is not such a file,
 * STATUS_NOT_FOUND, STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status losses_tokens_read(const char *path, int64_t predictions, float **out, struct error *error);

#endif
