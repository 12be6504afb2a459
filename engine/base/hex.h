/* hex.h: bytes as hexadecimal digits, two a byte. */
#ifndef BASE_HEX_H
#define BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>

/* By character: 1 + the value of the digit, or 0. A table, because whole trajectories come from the database as
 * digits. */
extern const unsigned char hex_digits[256];

/* The value of a digit of either case; -1 for other characters. */
static inline int hex_value(char c)
{
    return hex_digits[(unsigned char)c] - 1;
}

/* Lower-case digits of `count` bytes; out [2 count + 1] ends with a NUL. */
void hex_write(const unsigned char *bytes, size_t count, char *out);

/* The `count` bytes of a text of 2 count digits. False for any other text; `out` is then undefined. */
bool hex_read(const char *text, unsigned char *out, size_t count);

#endif
