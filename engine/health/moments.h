/* moments.h: one pass over numbers gives norms, central moments, and the counts of NaN, infinite and far-out numbers.
 * Chunks are summed on their own and merged in order, so that the result does not depend on the number of threads. All
 * sums are doubles; NaN and infinities are counted and left out of the sums. */
#ifndef HEALTH_MOMENTS_H
#define HEALTH_MOMENTS_H

#include <stdint.h>

struct moments {
    int64_t count;         /* finite numbers */
    int64_t nan, infinite; /* the others */
    double l1, squares;    /* sums of |x| and of x squared */
    double linf;           /* largest |x| */
    double mean;
    double m2, m3, m4; /* sums of (x - mean) to these powers */
};

/* Moments of `count` numbers. Two passes: the mean first, then the powers around it, so that nothing cancels. */
void moments_of(const float *values, int64_t count, struct moments *out);

/* Adds `other` to `into` (Pebay, SAND2008-6212, eqs. 2.1 and 3.1). {0} is neutral. */
void moments_merge(struct moments *into, const struct moments *other);

double moments_l2(const struct moments *moments);
/* m4 n / m2 squared: 3 for a normal distribution; NaN when all numbers are equal or there are none. */
double moments_kurtosis(const struct moments *moments);

/* A histogram of magnitudes, by the 15 highest bits below the sign (8 of exponent, 7 of mantissa). Counts are integers,
 * so each thread may keep its own and they may be added in any order. */
enum { MAGNITUDE_BINS = 1 << 15 };

void magnitude_add(int64_t *bins, const float *values, int64_t count);
/* Number of finite values beyond `threshold`: exact for bf16, otherwise beyond the end of the threshold's bin, which is
 * at most 1/128 above it. */
int64_t magnitude_beyond(const int64_t *bins, double threshold);

/* Sums over the pairs in which both numbers are finite. */
struct distance {
    double squares;     /* of (a - b) */
    double dot;         /* a b */
    double left, right; /* a a, b b */
};

void distance_of(const float *a, const float *b, int64_t count, struct distance *out);
void distance_merge(struct distance *into, const struct distance *other);
double distance_relative(const struct distance *distance); /* |a - b| / |b|; NaN when b is zero */
double distance_cosine(const struct distance *distance);   /* NaN when either is zero */

#endif
