/* sharpness_ends.h: the ends of a spectrum in the result of a sharpness run (sharpness_report.c). */
#ifndef KINDS_SHARPNESS_ENDS_H
#define KINDS_SHARPNESS_ENDS_H

#include "base/result.h"
#include "jobs/sharpness/sharpness.h"

#define SHARPNESS_STUDENT_HELP                                                                                     \
    "; null of a single sequence. Curves show Student's 95 % interval of (Σw)²/Σw² − 1 degrees of freedom, " \
    "w the units' predictions"
#define SHARPNESS_UNITS_HELP "What the standard error is over: the sequences, of more than 32 as many groups of them"

/* The ends, and the intervals that contain the eigenvalues they approximate. */
struct sharpness_ends {
    struct spectrum_ends found;
    double top_low, top_high, largest_low, largest_high, smallest_low, smallest_high;
    double largest_error; /* NAN where it was not measured */
    double largest_degrees;
    int64_t largest_units;
};

/* With the intervals, and without an error, as of a single unit. `rounded`: products had factors in bf16. A residual is
 * that of the rounded products, so it bounds nothing about the Hessian, and there are no intervals then. */
struct sharpness_ends sharpness_ends_of(const struct spectrum_ends *ends, bool rounded);

/* Shapes of a struct sharpness_ends: that of the Hessian or of a part of it; that of the preconditioned Hessian, whose
 * fields have names of their own. */
extern const struct result_shape sharpness_ends_shape, sharpness_preconditioned_shape;
/* The number of the latter that curves keep: apart, because it is in a series of its preconditioner. */
extern const struct result_shape sharpness_preconditioned_measured;

#endif
