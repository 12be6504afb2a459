/* point.h: the loss at one point of the space of a family's parameters, and what quantization costs there. No file is
 * written: the point is read as a combination of the members while it is measured (geometry/family.h). */
#ifndef JOBS_POINT_H
#define JOBS_POINT_H

#include "base/monitor.h"
#include "base/plan.h"
#include "dataset/dataset.h"
#include "geometry/family.h"
#include "quant/quantizer.h"

struct point_request {
    const struct family *family;
    struct backend *backend;
    const struct sequences *evaluation;
    const struct quantize_method *method; /* complete; NULL: full precision only */
    const struct sequences *calibration;  /* for the method; NULL: none */
    uint64_t seed;                        /* of the bootstrap */
    const char *directory;         /* where hidden states may be spilled to when memory is short; NULL: nowhere */
    const struct monitor *monitor; /* asked whether to stop; hears of no progress */
};

/* A struct of doubles alone, so that a saved table can keep it. NAN: not measured, or not finite. */
struct point {
    double loss;
    double loss_q, delta, delta_low, delta_high; /* NAN without a method */
};
enum { POINT_NUMBERS = sizeof(struct point) / sizeof(double) };

/* A method of which nothing was given (a nullable parameter that is null). */
bool point_method_given(const struct quantize_method *method);

/* At (sum of coefficients[k] times member k) / divisor. Statuses of evaluate_run and quantize_run. */
MUST_CHECK enum status point_measure(const struct point_request *request, const double *coefficients, double divisor,
                                     struct point *out, struct error *error);

/* What that will need: the plan of the evaluation or quantization (statuses of theirs), and what mixing takes. */
MUST_CHECK enum status point_plan(const struct point_request *request, const double *coefficients, double divisor,
                                  const struct plan_budget *budget, struct run_plan *out, struct error *error);

/* Of all that decides a measurement but the members' content, the data and the coefficients: for saved_table_open. */
uint64_t point_fingerprint(const struct point_request *request);

#endif
