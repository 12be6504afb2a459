/* moments.h: what one reading of numbers tells of them: norms, central moments, what is not finite, and how many are
 * far out. Chunks are summed on their own and merged in order, so that the bits do not depend on how many threads share
 * the work. All sums are doubles; numbers that are not finite are counted and left out of them. */
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

/* Of `count` numbers: the mean first, then the powers around it, so that nothing cancels. */
void moments_of(const float *values, int64_t count, struct moments *out);

/* What both together have (Pebay, SAND2008-6212, eqs. 2.1 and 3.1). {0} is neutral. */
void moments_merge(struct moments *into, const struct moments *other);

double moments_l2(const struct moments *moments);
/* m4 n / m2 squared: 3 for a normal distribution; NaN when all numbers are equal or there are none. */
double moments_kurtosis(const struct moments *moments);

/* How many numbers have which magnitude: by the 15 highest bits below the sign (8 of exponent, 7 of mantissa). Counts
 * are whole numbers, so each thread may keep its own and they are added up in any order. */
enum { MAGNITUDE_BINS = 1 << 15 };

void magnitude_add(int64_t *bins, const float *values, int64_t count);
/* How many finite numbers are beyond `threshold`: for bf16 exactly, else beyond the end of the threshold's bin, at most
 * 1/128 above it. */
int64_t magnitude_beyond(const int64_t *bins, double threshold);

/* Sums over pairs of which both are finite. */
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
