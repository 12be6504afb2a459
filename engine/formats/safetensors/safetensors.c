#include "formats/safetensors/safetensors.h"

#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are little endian and read as they are");

enum { LENGTH_BYTES = 8, CHUNK_BYTES = 1 << 16 };

struct safetensors {
    struct file *file;
    struct safetensors_header *header;
    int64_t data_offset; /* of the first tensor byte in the file */
};

static enum status read_header(struct safetensors *file, struct error *error)
{
    enum status status;
    char *text = NULL;
    uint64_t length = 0;
    const char *name = file_name(file->file);
    const int64_t size = file_bytes(file->file);
    if (size < LENGTH_BYTES + 2)
        return error_set(error, STATUS_CORRUPT, "%s: %lld bytes are too few for a safetensors file", name,
                         (long long)size);
    if ((status = file_read(file->file, 0, &length, sizeof length, error)) != STATUS_OK) return status;
    if (length < 2 || length > (uint64_t)SAFETENSORS_HEADER_MAX || length > (uint64_t)(size - LENGTH_BYTES))
        return error_set(error, STATUS_CORRUPT, "%s: a header of %llu bytes in a file of %lld; 2 to %lld are accepted",
                         name, (unsigned long long)length, (long long)size, (long long)SAFETENSORS_HEADER_MAX);
    if ((status = memory_new((int64_t)length, 1, "safetensors header", &text, error)) != STATUS_OK) return status;
    file->data_offset = LENGTH_BYTES + (int64_t)length;
    if ((status = file_read(file->file, LENGTH_BYTES, text, (size_t)length, error)) != STATUS_OK) goto done;
    status = safetensors_header_new(name, text, (size_t)length, size - file->data_offset, &file->header, error);
done:
    memory_free(text);
    return status;
}

enum status safetensors_open(int directory, const char *path, struct safetensors **out, struct error *error)
{
    enum status status;
    *out = NULL;
    struct safetensors *file = calloc(1, sizeof *file);
    if (file == NULL) return error_set(error, STATUS_NO_MEMORY, "cannot allocate a safetensors file");
    if ((status = file_open(directory, path, FILE_FOLLOW_LINKS, INT64_MAX, &file->file, error)) != STATUS_OK) goto done;
    if ((status = read_header(file, error)) != STATUS_OK) goto done;
    *out = file;
    file = NULL;
done:
    safetensors_close(file);
    return status;
}

void safetensors_close(struct safetensors *file)
{
    if (file == NULL) return;
    safetensors_header_free(file->header);
    file_close(file->file);
    free(file);
}

int64_t safetensors_count(const struct safetensors *file)
{
    return safetensors_header_count(file->header);
}

void safetensors_tensor(const struct safetensors *file, int64_t index, struct safetensors_tensor *out)
{
    safetensors_header_tensor(file->header, index, out);
    out->offset += file->data_offset;
}

int64_t safetensors_find(const struct safetensors *file, const char *name)
{
    return safetensors_header_find(file->header, name);
}

const struct file *safetensors_file(const struct safetensors *file)
{
    return file->file;
}

static enum status check_span(int64_t first, int64_t count, int64_t total, const char *unit, struct error *error)
{
    if (first >= 0 && count >= 0 && first <= total && count <= total - first) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "%lld %s from %lld on, of a tensor that has %lld", (long long)count, unit,
                     (long long)first, (long long)total);
}

enum status safetensors_read_f32(const struct safetensors *file, int64_t index, int64_t first, int64_t count,
                                 float *out, struct error *error)
{
    enum status status;
    struct safetensors_tensor tensor;
    _Alignas(64) char chunk[CHUNK_BYTES];
    safetensors_tensor(file, index, &tensor);
    const struct dtype_info *dtype = dtype_info(tensor.dtype);
    const int64_t width = (int64_t)dtype->bits / 8;
    if ((status = check_span(first, count, tensor.elements, "elements", error)) != STATUS_OK) return status;
    if (dtype->to_f32 == NULL)
        return error_set(error, STATUS_UNSUPPORTED, "a tensor of %s is not one of weights", dtype->name);
    int64_t offset = tensor.offset + first * width;
    if (tensor.dtype == DTYPE_F32) return file_read(file->file, offset, out, (size_t)(count * width), error);
    while (count > 0) {
        const int64_t now = count < CHUNK_BYTES / width ? count : CHUNK_BYTES / width;
        if ((status = file_read(file->file, offset, chunk, (size_t)(now * width), error)) != STATUS_OK) return status;
        dtype->to_f32(chunk, out, now);
        out += now;
        count -= now;
        offset += now * width;
    }
    return STATUS_OK;
}

enum status safetensors_read_bytes(const struct safetensors *file, int64_t index, int64_t first, int64_t bytes,
                                   void *out, struct error *error)
{
    enum status status;
    struct safetensors_tensor tensor;
    safetensors_tensor(file, index, &tensor);
    if ((status = check_span(first, bytes, tensor.bytes, "bytes", error)) != STATUS_OK) return status;
    if ((status = file_read(file->file, tensor.offset + first, out, (size_t)bytes, error)) != STATUS_OK) return status;
    if (tensor.dtype != DTYPE_BOOL) return STATUS_OK;
    for (int64_t i = 0; i < bytes; i++)
        if (((const unsigned char *)out)[i] > 1)
            return error_set(error, STATUS_CORRUPT, "%s: a boolean is neither 0 nor 1", file_name(file->file));
    return STATUS_OK;
}

void safetensors_readahead(const struct safetensors *file, int64_t index)
{
    struct safetensors_tensor tensor;
    safetensors_tensor(file, index, &tensor);
    file_readahead(file->file, tensor.offset, tensor.bytes);
}
