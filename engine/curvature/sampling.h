/* sampling.h: loss, slope and curvature along one vector, sequence by sequence: what they vary between
 * sequences. */
#ifndef CURVATURE_SAMPLING_H
#define CURVATURE_SAMPLING_H

#include "curvature/hvp.h"

/* The most units: of more sequences each unit is several that follow one another, since every unit takes a pass over
 * vectors as long as the parameters. Student's quantile of 31 degrees is 4 % above that without end. */
enum { SAMPLING_UNITS = 32 };

struct sampling {
    int64_t units;
    /* of each unit's mean loss: the loss, g'v and v'Hv; means over all predictions weigh units by `predictions` */
    double losses[SAMPLING_UNITS], slopes[SAMPLING_UNITS], curvatures[SAMPLING_UNITS];
    int64_t predictions[SAMPLING_UNITS];
};

/* Along `v`, a vector in the layout of the parameters. `scratch` is another one, overwritten. In units of hvp.h it
 * takes a gradient with recomputation and a product in `mode` (HVP_RECOMPUTE or HVP_KEEP_CHUNK), and memory for one of
 * them at a time, of chunks of at most `chunk_tokens`. STATUS_NOT_FINITE, STATUS_CANCELLED, STATUS_LEASE_LOST,
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status sampling_along(const struct parameters *parameters, const struct sequences *sequences,
                                      int64_t chunk_tokens, enum hvp_mode mode, struct matrix v, struct matrix scratch,
                                      const struct monitor *monitor, struct sampling *out, struct error *error);

/* The standard error of sum(w over) / sum(w under) over the units, by the delta method, `under` NULL for ones; NAN for
 * fewer than two units. */
double sampling_error(const struct sampling *sampling, const double *over, const double *under);

#endif
