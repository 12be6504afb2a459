#include "json/written.h"

#include "base/buffer.h"

/* After a failure nothing more is appended. */
static int append(const char *bytes, size_t length, void *owner)
{
    struct buffer *buffer = owner;
    buffer_append(buffer, bytes, length);
    return buffer->status == STATUS_OK ? 0 : -1;
}

char *written_json(const json_t *value, size_t flags)
{
    struct buffer buffer = {0};
    size_t length;
    const bool good = value != NULL && json_dump_callback(value, append, &buffer, flags) == 0;
    if (good && buffer.status == STATUS_OK) return buffer_take(&buffer, &length);
    buffer_reset(&buffer);
    return NULL;
}
