/* gguf_cursor.h: reads a file from its beginning through a window; every length is checked against the bytes left. */
#ifndef GGUF_GGUF_CURSOR_H
#define GGUF_GGUF_CURSOR_H

#include "files/file.h"

enum { GGUF_CURSOR_WINDOW = 1 << 16 };

/* Caller's memory, zeroed, with `file` set (lent). */
struct gguf_cursor {
    const struct file *file;
    int64_t at;           /* offset of the next byte in the file */
    int64_t window, size; /* offset and size of the part in `bytes` */
    char bytes[GGUF_CURSOR_WINDOW];
};

int64_t gguf_cursor_left(const struct gguf_cursor *cursor);
MUST_CHECK enum status gguf_cursor_corrupt(const struct gguf_cursor *cursor, const char *what, struct error *error);
/* STATUS_CORRUPT when the file has fewer bytes; statuses of file_read. */
MUST_CHECK enum status gguf_cursor_take(struct gguf_cursor *cursor, void *out, size_t size, struct error *error);
MUST_CHECK enum status gguf_cursor_skip(struct gguf_cursor *cursor, int64_t size, struct error *error);
/* Reads a length, then a name of 1 to `most` bytes of printable ASCII. The caller frees the name. */
MUST_CHECK enum status gguf_cursor_name(struct gguf_cursor *cursor, size_t most, char **out, struct error *error);

#endif
