/* spectrum.h: the spectral density of an operator by stochastic Lanczos quadrature (Ubaru, Chen and Saad 2017, "Fast
 * estimation of tr(f(A)) via stochastic Lanczos quadrature"; Ghorbani, Krishnan and Xiao 2019, arXiv 1901.10159): from
 * each of a few random vectors the Gauss quadrature of the density as that vector sees it, averaged. */
#ifndef CURVATURE_SPECTRUM_H
#define CURVATURE_SPECTRUM_H

#include "curvature/operator.h"
#include "curvature/saver.h"

struct spectrum_settings {
    int64_t probes, steps; /* at least 1; steps are cut to the dimension */
    uint64_t seed, stream; /* probe i is drawn from (seed, stream + i) */
};

/* The sum of weights[i] f(nodes[i]) estimates tr f(A) / dimension. */
struct spectrum {
    double *nodes, *weights; /* [count], nodes ascending, weights sum to 1; owned (spectrum_reset) */
    int64_t count;
};
void spectrum_reset(struct spectrum *spectrum); /* {0} is fine */

/* The saver may be NULL. Holds `steps` vectors. STATUS_NO_MEMORY, statuses of operator_apply and of the saver. */
MUST_CHECK enum status spectrum_run(const struct symmetric_operator *op, const struct spectrum_settings *settings,
                                    const struct saver *saver, struct spectrum *out, struct error *error);

#endif
