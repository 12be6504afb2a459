#include "base/buffer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buffer_init(struct buffer *buffer, size_t limit)
{
    *buffer = (struct buffer){.limit = limit, .status = STATUS_OK};
}

void buffer_reset(struct buffer *buffer)
{
    free(buffer->bytes);
    buffer_init(buffer, buffer->limit);
}

static void buffer_fail(struct buffer *buffer, enum status status)
{
    buffer_reset(buffer);
    buffer->status = status;
}

/* Makes space for `more` bytes and the final NUL. */
static bool buffer_reserve(struct buffer *buffer, size_t more)
{
    if (buffer->status != STATUS_OK) return false;
    if (more > (buffer->limit > 0 ? buffer->limit : SIZE_MAX / 4) - buffer->length) {
        buffer_fail(buffer, STATUS_TOO_LARGE);
        return false;
    }
    const size_t wanted = buffer->length + more + 1;
    if (wanted <= buffer->capacity) return true;
    size_t capacity = buffer->capacity < 256 ? 256 : buffer->capacity;
    while (capacity < wanted) capacity += capacity / 2;
    char *grown = realloc(buffer->bytes, capacity);
    if (grown == NULL) {
        buffer_fail(buffer, STATUS_NO_MEMORY);
        return false;
    }
    buffer->bytes = grown;
    buffer->capacity = capacity;
    return true;
}

void buffer_append(struct buffer *buffer, const void *bytes, size_t length)
{
    if (!buffer_reserve(buffer, length)) return;
    if (length) memcpy(buffer->bytes + buffer->length, bytes, length);
    buffer->length += length;
    buffer->bytes[buffer->length] = '\0';
}

void buffer_puts(struct buffer *buffer, const char *text)
{
    buffer_append(buffer, text, strlen(text));
}

void buffer_printf(struct buffer *buffer, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const int length = vsnprintf(NULL, 0, format, list);
    va_end(list);
    if (length < 0) {
        buffer_fail(buffer, STATUS_NO_MEMORY);
        return;
    }
    if (!buffer_reserve(buffer, (size_t)length)) return;
    va_start(list, format);
    (void)vsnprintf(buffer->bytes + buffer->length, (size_t)length + 1, format, list);
    va_end(list);
    buffer->length += (size_t)length;
}

char *buffer_take(struct buffer *buffer, size_t *length)
{
    char *bytes = buffer->bytes;
    *length = buffer->length;
    buffer->bytes = NULL;
    buffer->length = buffer->capacity = 0;
    return bytes;
}

enum status buffer_status(const struct buffer *buffer, const char *what, struct error *error)
{
    if (buffer->status == STATUS_TOO_LARGE)
        return error_set(error, STATUS_TOO_LARGE, "%s would be larger than %zu bytes", what, buffer->limit);
    if (buffer->status != STATUS_OK) return error_set(error, buffer->status, "out of memory for %s", what);
    return STATUS_OK;
}
