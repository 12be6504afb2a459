/* buffer.h: a byte buffer that grows, up to a ceiling. A failed append empties the buffer and marks it as failed; later
 * appends do nothing, so a caller appends freely and checks once at the end. {0} is an empty buffer without a
 * ceiling. */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include "base/error.h"

struct buffer {
    char *bytes;                    /* owned; always ends with a NUL that `length` does not count; NULL while empty */
    size_t length, capacity, limit; /* limit 0: no ceiling */
    enum status status;             /* STATUS_OK, STATUS_NO_MEMORY, STATUS_TOO_LARGE */
};

void buffer_init(struct buffer *buffer, size_t limit);
void buffer_append(struct buffer *buffer, const void *bytes, size_t length);
void buffer_puts(struct buffer *buffer, const char *text);
void buffer_printf(struct buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Hands the bytes to the caller (free) and empties the buffer; NULL when it failed or is empty. */
char *buffer_take(struct buffer *buffer, size_t *length);

/* STATUS_OK, or the failure with its error filled. */
MUST_CHECK enum status buffer_status(const struct buffer *buffer, const char *what, struct error *error);
void buffer_reset(struct buffer *buffer); /* frees; the limit stays */

#endif
