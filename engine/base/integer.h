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

/* Sums and products of what is not negative, at most INT64_MAX: an estimate that is too large to hold stays larger than
 * any limit. */
static inline int64_t saturating_add(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

static inline int64_t saturating_multiply(int64_t a, int64_t b)
{
    return b > 0 && a > INT64_MAX / b ? INT64_MAX : a * b;
}

#endif
