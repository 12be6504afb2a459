#include "tokenizer/text.h"

#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status text_reserve(struct text *text, size_t more, struct error *error)
{
    if (more >= SIZE_MAX / 4 - text->size) return error_set(error, STATUS_TOO_LARGE, "text does not fit in memory");
    size_t needed = text->size + more + 1;
    if (needed <= text->capacity) return STATUS_OK;
    size_t capacity = text->capacity * 2 > needed ? text->capacity * 2 : needed + 64;
    char *bytes = realloc(text->bytes, capacity);
    if (bytes == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for %zu bytes of text", capacity);
    text->bytes = bytes;
    text->capacity = capacity;
    return STATUS_OK;
}

enum status text_append(struct text *text, const char *bytes, size_t size, struct error *error)
{
    enum status status = text_reserve(text, size, error);
    if (status != STATUS_OK) return status;
    if (size > 0) memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
    text->bytes[text->size] = '\0';
    return STATUS_OK;
}

enum status text_format(struct text *text, struct error *error, const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (size < 0 || (size_t)size >= sizeof line)
        return error_set(error, STATUS_INTERNAL, "a formatted text is too long");
    return text_append(text, line, (size_t)size, error);
}

void text_free(struct text *text)
{
    free(text->bytes);
    *text = (struct text){0};
}

bool text_same(const struct text *a, const struct text *b)
{
    return a->size == b->size && (a->size == 0 || memcmp(a->bytes, b->bytes, a->size) == 0);
}
