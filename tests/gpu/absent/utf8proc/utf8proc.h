/* utf8proc.h: in place of the library's on a machine for `make check-gpu` that lacks it. Tokenizers are not used there:
 * every call fails. */
#ifndef ABSENT_UTF8PROC_H
#define ABSENT_UTF8PROC_H

#include <stddef.h>
#include <stdint.h>

typedef uint8_t utf8proc_uint8_t;
typedef int32_t utf8proc_int32_t;
typedef ptrdiff_t utf8proc_ssize_t;
typedef int utf8proc_option_t;
enum {
    UTF8PROC_STABLE = 2,
    UTF8PROC_COMPAT = 4,
    UTF8PROC_COMPOSE = 8,
    UTF8PROC_DECOMPOSE = 16,
    UTF8PROC_ERROR_NOMEM = -1
};

static inline utf8proc_ssize_t utf8proc_iterate(const utf8proc_uint8_t *text, utf8proc_ssize_t size,
                                                utf8proc_int32_t *out)
{
    (void)text, (void)size;
    *out = -1;
    return -2;
}

static inline utf8proc_ssize_t utf8proc_encode_char(utf8proc_int32_t point, utf8proc_uint8_t *out)
{
    (void)point, (void)out;
    return 0;
}

static inline utf8proc_ssize_t utf8proc_map(const utf8proc_uint8_t *text, utf8proc_ssize_t size, utf8proc_uint8_t **out,
                                            int options)
{
    (void)text, (void)size, (void)options;
    *out = NULL;
    return -2;
}

static inline const char *utf8proc_errmsg(utf8proc_ssize_t code)
{
    (void)code;
    return "built without utf8proc";
}

static inline utf8proc_int32_t utf8proc_tolower(utf8proc_int32_t point)
{
    return point;
}

static inline utf8proc_int32_t utf8proc_totitle(utf8proc_int32_t point)
{
    return point;
}

#endif
