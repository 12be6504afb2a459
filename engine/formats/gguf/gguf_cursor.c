#include "formats/gguf/gguf_cursor.h"

#include <stdlib.h>
#include <string.h>

int64_t gguf_cursor_left(const struct gguf_cursor *cursor)
{
    return file_bytes(cursor->file) - cursor->at;
}

enum status gguf_cursor_corrupt(const struct gguf_cursor *cursor, const char *what, struct error *error)
{
    return error_set(error, STATUS_CORRUPT, "%s: byte %lld: %s", file_name(cursor->file), (long long)cursor->at, what);
}

enum status gguf_cursor_take(struct gguf_cursor *cursor, void *out, size_t size, struct error *error)
{
    char *to = out;
    if (size > (uint64_t)gguf_cursor_left(cursor)) return gguf_cursor_corrupt(cursor, "the file ends early", error);
    while (size > 0) {
        if (cursor->at < cursor->window || cursor->at >= cursor->window + cursor->size) {
            const int64_t left = gguf_cursor_left(cursor), span = left < GGUF_CURSOR_WINDOW ? left : GGUF_CURSOR_WINDOW;
            const enum status status = file_read(cursor->file, cursor->at, cursor->bytes, (size_t)span, error);
            if (status != STATUS_OK) return status;
            cursor->window = cursor->at;
            cursor->size = span;
        }
        const size_t there = (size_t)(cursor->window + cursor->size - cursor->at), now = size < there ? size : there;
        memcpy(to, cursor->bytes + (cursor->at - cursor->window), now);
        to += now;
        size -= now;
        cursor->at += (int64_t)now;
    }
    return STATUS_OK;
}

enum status gguf_cursor_skip(struct gguf_cursor *cursor, int64_t size, struct error *error)
{
    if (size < 0 || size > gguf_cursor_left(cursor)) return gguf_cursor_corrupt(cursor, "the file ends early", error);
    cursor->at += size;
    return STATUS_OK;
}

enum status gguf_cursor_name(struct gguf_cursor *cursor, size_t most, char **out, struct error *error)
{
    uint64_t size = 0;
    enum status status = gguf_cursor_take(cursor, &size, sizeof size, error);
    *out = NULL;
    if (status != STATUS_OK) return status;
    if (size < 1 || size > most || size > (uint64_t)gguf_cursor_left(cursor))
        return gguf_cursor_corrupt(cursor, "a name that is empty or too long", error);
    char *name = calloc(1, size + 1);
    if (name == NULL) return error_set(error, STATUS_NO_MEMORY, "cannot allocate a name");
    status = gguf_cursor_take(cursor, name, size, error);
    for (size_t i = 0; status == STATUS_OK && i < size; i++)
        if (name[i] < ' ' || name[i] > '~')
            status = gguf_cursor_corrupt(cursor, "a name that is not printable ASCII", error);
    if (status != STATUS_OK) {
        free(name);
        return status;
    }
    *out = name;
    return STATUS_OK;
}
