/* extrapolate.h: predicts a number, measured at a few places of an axis (tokens), at a further place.
 *
 * Trends y = a + b g(x) are fitted by least squares. Each has a prediction interval by Student's t for one more
 * measurement with the measured scatter around the trend. A few places cannot tell which trend is right: the interval
 * is the hull of the intervals of all trends, except those whose sum of squares is at least EXTRAPOLATE_WORSE times the
 * best one's. So it also covers the uncertainty of the trend, and grows with the distance. */
#ifndef EVAL_EXTRAPOLATE_H
#define EVAL_EXTRAPOLATE_H

#include <stdint.h>

enum {
    EXTRAPOLATE_LEAST = 4, /* places: with fewer, the scatter has a single degree of freedom */
    EXTRAPOLATE_WORSE = 6
};

/* The sets of trends. */
enum extrapolate_trends {
    EXTRAPOLATE_LOSS,  /* g = -1 / sqrt(x), log(x), sqrt(x), x: a loss falls ever more slowly, or not yet so */
    EXTRAPOLATE_DAMAGE /* g = log(x), sqrt(x), x: the cost of quantization may continue to grow */
};

struct extrapolation {
    double value;     /* by the trend with the least scatter */
    double low, high; /* 95 % */
};

/* x [count] > 0, not all equal, in any order; at > 0. All NAN with fewer than EXTRAPOLATE_LEAST places, or if a y is
 * not finite. */
struct extrapolation extrapolate(enum extrapolate_trends trends, const double *x, const double *y, int64_t count,
                                 double at);

/* Extrapolates base · (1 + part), a quantized loss from the loss and ΔQL, which follow separate trends. Errors of both
 * are assumed independent: (1 + part) times that of base and base times that of part. */
struct extrapolation extrapolate_product(const struct extrapolation *base, const struct extrapolation *part);

#endif
