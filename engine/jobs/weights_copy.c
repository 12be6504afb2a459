#include "jobs/weights_copy.h"

#include "base/memory.h"

#include <string.h>

enum { CHUNK = 1 << 18 };

static enum status write_values(struct weights_writer *writer, int64_t index, struct matrix weight, bool transposed,
                                struct error *error)
{
    const float *values = weight.data;
    enum status status = STATUS_OK;
    if (!transposed) {
        for (int64_t r = 0; r < weight.rows && status == STATUS_OK; r++)
            status = weights_writer_f32(writer, index, values + r * weight.stride, weight.columns, error);
        return status;
    }
    float *column = NULL;
    status = memory_new(weight.rows, sizeof *column, "tensor to write", &column, error);
    for (int64_t c = 0; c < weight.columns && status == STATUS_OK; c++) {
        for (int64_t r = 0; r < weight.rows; r++) column[r] = values[r * weight.stride + c];
        status = weights_writer_f32(writer, index, column, weight.rows, error);
    }
    memory_free(column);
    return status;
}

enum status weights_copy_matrix(struct weights_writer *writer, int64_t index, struct backend *backend,
                                struct matrix weight, bool transposed, struct error *error)
{
    float *copy = NULL;
    if (backend->ops->host) return write_values(writer, index, weight, transposed, error);
    enum status status = memory_new(weight.rows * weight.columns, sizeof *copy, "tensor to write", &copy, error);
    if (status != STATUS_OK) return status;
    backend->ops->download(backend, weight, copy, DTYPE_F32);
    if ((status = backend->ops->sync(backend, error)) == STATUS_OK)
        status =
            write_values(writer, index, matrix_of(copy, weight.rows, weight.columns, sizeof *copy), transposed, error);
    memory_free(copy);
    return status;
}

enum status weights_copy_tensor(const struct weights *weights, int64_t tensor, struct weights_writer *writer,
                                int64_t index, struct error *error)
{
    struct weights_tensor from;
    float *values = NULL;
    enum status status = memory_new(CHUNK, sizeof *values, "tensor to copy", &values, error);
    if (status != STATUS_OK) return status;
    weights_tensor(weights, tensor, &from);
    const bool floats = dtype_info(from.dtype)->to_f32 != NULL;
    if (!floats) memset(values, 0, CHUNK * sizeof *values);
    for (int64_t at = 0, count; at < from.elements && status == STATUS_OK; at += count) {
        count = from.elements - at < CHUNK ? from.elements - at : CHUNK;
        if (floats) status = weights_read_f32(weights, tensor, at, count, values, error);
        if (status == STATUS_OK) status = weights_writer_f32(writer, index, values, count, error);
    }
    memory_free(values);
    return status;
}
