/* weights_copy.h: tensors on their way from a checkpoint into a new one. */
#ifndef JOBS_WEIGHTS_COPY_H
#define JOBS_WEIGHTS_COPY_H

#include "backend/backend.h"
#include "weights/weights.h"
#include "weights/weights_writer.h"

/* A matrix of floats as entry `index`, as the original's file has it: row by row, or transposed. Statuses of the writer
 * and of the backend, STATUS_NO_MEMORY. */
MUST_CHECK enum status weights_copy_matrix(struct weights_writer *writer, int64_t index, struct backend *backend,
                                           struct matrix weight, bool transposed, struct error *error);

/* Tensor `tensor` as entry `index`, a slice at a time, converted to the entry's dtype (exact where that is its own);
 * one without floats becomes zeros. Statuses of weights_read_f32 and the writer, STATUS_NO_MEMORY. */
MUST_CHECK enum status weights_copy_tensor(const struct weights *weights, int64_t tensor, struct weights_writer *writer,
                                           int64_t index, struct error *error);

#endif
