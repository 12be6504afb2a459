#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum status size_multiply(size_t a, size_t b, const char *what, size_t *out, struct error *error)
{
    if (__builtin_mul_overflow(a, b, out)) return error_set(error, STATUS_TOO_LARGE, "%s: size overflows", what);
    return STATUS_OK;
}

enum status size_add(size_t a, size_t b, const char *what, size_t *out, struct error *error)
{
    if (__builtin_add_overflow(a, b, out)) return error_set(error, STATUS_TOO_LARGE, "%s: size overflows", what);
    return STATUS_OK;
}

enum status memory_new(int64_t count, size_t size, const char *what, void *out, struct error *error)
{
    void *block = NULL;
    size_t bytes = 0, padded = 0;
    enum status status;
    memcpy(out, &block, sizeof block);
    if (count < 0) return error_set(error, STATUS_TOO_LARGE, "%s: negative size", what);
    if ((status = size_multiply((size_t)count, size, what, &bytes, error)) != STATUS_OK) return status;
    if ((status = size_add(bytes, 64, what, &padded, error)) != STATUS_OK) return status;
    if (posix_memalign(&block, 64, padded) != 0)
        return error_set(error, STATUS_NO_MEMORY, "%s: cannot allocate %zu bytes", what, bytes);
    memset(block, 0, bytes);
    memcpy(out, &block, sizeof block);
    return STATUS_OK;
}

void memory_free(void *block)
{
    free(block);
}
