/* zlib.h: in place of zlib's on a machine for `make check-gpu` that lacks it: the one function that the engine
 * calls. */
#ifndef ABSENT_ZLIB_H
#define ABSENT_ZLIB_H

#include <stddef.h>

typedef unsigned char Bytef;

static inline unsigned long crc32_z(unsigned long crc, const Bytef *bytes, size_t count)
{
    crc = ~crc & 0xffffffffUL;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320UL : 0);
    }
    return ~crc & 0xffffffffUL;
}

#endif
