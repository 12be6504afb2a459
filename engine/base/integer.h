/* integer.h: the arithmetic of counts and sizes that C lacks. */
#ifndef BASE_INTEGER_H
#define BASE_INTEGER_H

#include <stdint.h>

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* a / b rounded up. a >= 0, b > 0; does not overflow. */
static inline int64_t ceil_divide(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

#endif
