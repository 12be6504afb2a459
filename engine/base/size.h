/* size.h: a number of bytes as people write it: "20G", "1.5M", "4096". K, M, G and T are powers of 1024. */
#ifndef BASE_SIZE_H
#define BASE_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/* False when `text` is no such number, or one of 9e18 and more; then *out stays as it is. */
bool size_read(const char *text, int64_t *out);

#endif
