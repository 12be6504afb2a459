#include "base/array.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum status array_grow(void *items, int64_t count, int64_t *capacity, size_t size, struct error *error)
{
    if (count <= *capacity) return STATUS_OK;
    int64_t wanted = *capacity < INT64_MAX / 4 && *capacity * 2 > count ? *capacity * 2 : count + 16;
    size_t bytes;
    enum status status = size_multiply((size_t)wanted, size, "array", &bytes, error);
    if (status != STATUS_OK) return status;
    void *old, *grown;
    memcpy(&old, items, sizeof old);
    if ((grown = realloc(old, bytes)) == NULL)
        return error_set(error, STATUS_NO_MEMORY, "no memory for an array of %zu bytes", bytes);
    memcpy(items, &grown, sizeof grown);
    *capacity = wanted;
    return STATUS_OK;
}
