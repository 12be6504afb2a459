/* utf8.h: UTF-8 (RFC 3629) one character at a time. All but utf8_check expect valid text. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Number of leading bytes of `text` that are valid UTF-8 (`bytes` when all are). Overlong forms and surrogates are
 * invalid. */
size_t utf8_check(const char *text, size_t bytes);

/* Replaces every byte that belongs to no valid character by "?", in place: for messages that quote bytes of files or
 * that were truncated. */
void utf8_repair(char *text);

/* Number of bytes of the character that starts with `first`. */
static inline size_t utf8_width(char first)
{
    uint8_t byte = (uint8_t)first;
    return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

static inline bool utf8_is_start(char byte)
{
    return ((uint8_t)byte & 0xc0) != 0x80;
}

/* The character at `text`. */
uint32_t utf8_decode(const char *text);
/* Writes `character` to `out` [4]; returns its width. */
size_t utf8_encode(uint32_t character, char *out);

/* Unicode's White_Space (PropList.txt; stable since 6.3). */
bool utf8_is_white_space(uint32_t character);

#endif
