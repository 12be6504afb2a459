/* trace.h: the trace of an operator from products with random vectors.
 * Hutchinson (1990): the mean of zᵀ A z over Rademacher vectors z; its variance is 2 (|A|² - |diag A|²) a probe.
 * Hutch++ (Meyer, Musco, Musco and Woodruff 2021, arXiv 2010.09649): a third of the probes span the dominant range,
 * where the trace is taken exactly; the rest is estimated on what remains. It needs that many vectors in memory. With
 * as many probes as dimensions the diagonal is summed and the trace is exact. */
#ifndef CURVATURE_TRACE_H
#define CURVATURE_TRACE_H

#include "curvature/operator.h"
#include "curvature/saver.h"

enum trace_method { TRACE_HUTCHINSON, TRACE_HUTCHPP, TRACE_METHODS };
extern const char *const trace_method_names[TRACE_METHODS + 1]; /* ends with NULL */

struct trace_settings {
    int method;            /* enum trace_method */
    int64_t probes;        /* products in all, at least 1 */
    int64_t most_vectors;  /* Hutch++: that may be held; 0: a third of the probes */
    uint64_t seed, stream; /* probe i is drawn from (seed, stream + i) */
};

struct trace_estimate {
    double trace;
    double standard_error; /* 0 when exact, NAN from a single sample */
    int64_t probes;        /* products made */
    int64_t samples;       /* independent ones that standard_error is of: Hutch++ spends others on the range; 0: exact,
                              which has no interval */
    bool exact;
};

/* The saver may be NULL. STATUS_NO_MEMORY, statuses of operator_apply and of the saver. */
MUST_CHECK enum status trace_run(const struct symmetric_operator *op, const struct trace_settings *settings,
                                 const struct saver *saver, struct trace_estimate *out, struct error *error);

#endif
