/* extrapolate.h: what a number that was measured at a few places of an axis (tokens) will be at a further one.
 *
 * Trends y = a + b g(x) are fitted by least squares. Each has a prediction interval by Student's t, which holds one
 * more measurement with the scatter that those at hand have around the trend. Which trend is right a few places cannot
 * tell: the interval is the hull of those of all trends but the ones whose sum of squares is EXTRAPOLATE_WORSE times
 * that of the best or more. So it holds what is not known of the trend, too, and grows with the distance. */
#ifndef EVAL_EXTRAPOLATE_H
#define EVAL_EXTRAPOLATE_H

#include <stdint.h>

enum {
    EXTRAPOLATE_LEAST = 4, /* places: with fewer, the scatter is that of a single degree of freedom */
    EXTRAPOLATE_WORSE = 6
};

/* Which trends there are. */
enum extrapolate_trends {
    EXTRAPOLATE_LOSS,  /* g = -1 / sqrt(x), log(x), sqrt(x), x: a loss falls ever more slowly, or not yet so */
    EXTRAPOLATE_DAMAGE /* g = log(x), sqrt(x), x: the cost of quantization may go on growing as it did */
};

struct extrapolation {
    double value;     /* of the trend that scatters least */
    double low, high; /* 95 % */
};

/* x [count] > 0, not all equal, in any order; at > 0. All NAN with fewer than EXTRAPOLATE_LEAST places and for a y that
 * is not finite. */
struct extrapolation extrapolate(enum extrapolate_trends trends, const double *x, const double *y, int64_t count,
                                 double at);

/* Of base (1 + part), for a quantized loss by the loss and ΔQL, which follow trends of their own: their errors are
 * taken for independent, (1 + part) times that of base and base times that of part. */
struct extrapolation extrapolate_product(const struct extrapolation *base, const struct extrapolation *part);

#endif
