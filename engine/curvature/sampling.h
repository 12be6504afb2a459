/* sampling.h: loss, slope and curvature along one vector, for each of some units of sequences, and the standard errors
 * over them. */
#ifndef CURVATURE_SAMPLING_H
#define CURVATURE_SAMPLING_H

#include "curvature/hvp.h"

/* Most units. With more sequences a unit is several consecutive ones, because each unit takes a pass over vectors as
 * long as the parameters. Student's quantile of 31 degrees is 4 % above the normal distribution's. */
enum { SAMPLING_UNITS = 32 };

struct sampling {
    int64_t units;
    /* [units] of the mean loss L of a unit, in nats: L itself, its slope g'v and its curvature v'Hv. A mean over all
     * predictions weighs each unit by its `predictions`. */
    double losses[SAMPLING_UNITS], slopes[SAMPLING_UNITS], curvatures[SAMPLING_UNITS];
    int64_t predictions[SAMPLING_UNITS];
};

/* Unit `unit` of `units`: the consecutive sequences from unit * count / units on, cut into chunks of at most
 * `chunk_tokens` or one sequence. The caller owns *out (chunks_reset). STATUS_NO_MEMORY. */
MUST_CHECK enum status sampling_unit(const struct sequences *sequences, int64_t units, int64_t unit,
                                     int64_t chunk_tokens, struct chunks *out, struct error *error);

/* Measures along `v`, a vector in the layout of the parameters. `scratch` is another one, which is overwritten. In the
 * units of hvp.h it takes a product in `mode` (HVP_RECOMPUTE or HVP_KEEP_CHUNK), and a gradient with recomputation
 * unless it measures SAMPLING_CURVATURES alone, which leaves losses and slopes 0. It
 * has the memory of one of these at a time, for chunks of at most `chunk_tokens` or one sequence. STATUS_NOT_FINITE,
 * STATUS_CANCELLED, STATUS_LEASE_LOST, STATUS_NO_MEMORY. */
enum sampling_measures { SAMPLING_ALL, SAMPLING_CURVATURES };
MUST_CHECK enum status sampling_along(const struct parameters *parameters, const struct sequences *sequences,
                                      enum sampling_measures measures, int64_t chunk_tokens, enum hvp_mode mode,
                                      struct matrix v, struct matrix scratch, const struct monitor *monitor,
                                      struct sampling *out, struct error *error);

/* The standard error of sum(w over) / sum(w under) over the units, by the delta method, `under` NULL for ones; NAN for
 * fewer than two units. */
double sampling_error(const struct sampling *sampling, const double *over, const double *under);

/* Degrees of freedom of such an error over these sequences: eval/leverage.h of the units' predictions. 0 for one. */
double sampling_degrees(const struct sequences *sequences);

#endif
