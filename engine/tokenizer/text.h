/* text.h: a growing run of bytes. Start with {0}; the owner calls text_free. */
#ifndef TOKENIZER_TEXT_H
#define TOKENIZER_TEXT_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct text {
    char *bytes; /* NUL-terminated once anything was appended */
    size_t size, capacity;
};

/* Makes space for `more` bytes and a NUL behind the content. STATUS_NO_MEMORY, STATUS_TOO_LARGE. */
MUST_CHECK enum status text_reserve(struct text *text, size_t more, struct error *error);
MUST_CHECK enum status text_append(struct text *text, const char *bytes, size_t size, struct error *error);
MUST_CHECK enum status text_format(struct text *text, struct error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void text_free(struct text *text); /* leaves {0} */
bool text_same(const struct text *a, const struct text *b);

#endif
