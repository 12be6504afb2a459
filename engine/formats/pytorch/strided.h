/* strided.h: reads tensors whose numbers are not contiguous in the file: a transposed matrix, columns of a larger
 * one. */
#ifndef PYTORCH_STRIDED_H
#define PYTORCH_STRIDED_H

#include "files/file.h"
#include "tensor/dtype.h"

enum { STRIDED_RANK_MAX = 8 };

/* A view: element [i, j, …] lies `i * stride[0] + j * stride[1] + …` elements behind `offset`. */
struct strided {
    enum dtype dtype; /* one that has to_f32 */
    int rank;
    const int64_t *shape, *stride; /* [rank], positive except for shapes of 0 */
    int64_t offset;                /* bytes from the start of the file */
};

/* Whether the elements are contiguous in the file, in row-major order. */
bool strided_contiguous(const struct strided *view);

/* Elements [first, first + count) of the view, flattened row-major, as float32; the span must lie in the view. Reads in
 * the order of the file, in bounded chunks, whatever the order in the view. Allocates nothing. Statuses of
 * file_read. */
MUST_CHECK enum status strided_read_f32(const struct file *file, const struct strided *view, int64_t first,
                                        int64_t count, float *out, struct error *error);

#endif
