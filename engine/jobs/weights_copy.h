/* weights_copy.h: copies tensors from a checkpoint into a new one. */
#ifndef JOBS_WEIGHTS_COPY_H
#define JOBS_WEIGHTS_COPY_H

#include "backend/backend.h"
#include "weights/weights.h"
#include "weights/weights_writer.h"

/* Writes a matrix of floats as entry `index` in the layout of the original's file: by rows, or transposed. Statuses of
 * the writer and of the backend, STATUS_NO_MEMORY. */
MUST_CHECK enum status weights_copy_matrix(struct weights_writer *writer, int64_t index, struct backend *backend,
                                           struct matrix weight, bool transposed, struct error *error);

/* Copies tensor `tensor` to entry `index`, a slice at a time, converted to the entry's dtype (exact if that is its
 * own); a tensor that is not of floats becomes zeros. Statuses of weights_read_f32 and the writer, STATUS_NO_MEMORY. */
MUST_CHECK enum status weights_copy_tensor(const struct weights *weights, int64_t tensor, struct weights_writer *writer,
                                           int64_t index, struct error *error);

#endif
