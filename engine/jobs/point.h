/* point.h: the loss at one point of the space of a family's parameters, and the cost of quantization there. No file is
 * written: the point is computed as a combination of the members while it is read (geometry/family.h). */
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
    const char *directory;                /* where hidden states may be spilled; NULL: nowhere */
    const struct monitor *monitor;        /* only checked for a stop; gets no progress */
};

/* A struct of doubles alone, so that a saved table can keep it. NAN: not measured, or not finite. */
struct point {
    double loss;
    double loss_q, delta, delta_low, delta_high; /* NAN without a method */
};
enum { POINT_NUMBERS = sizeof(struct point) / sizeof(double) };

/* Whether a method was given (a nullable parameter may be null). */
bool point_method_given(const struct quantize_method *method);

/* At (sum of coefficients[k] times member k) / divisor. Statuses of evaluate_run and quantize_run. */
MUST_CHECK enum status point_measure(const struct point_request *request, const double *coefficients, double divisor,
                                     struct point *out, struct error *error);

/* The plan of a measurement: that of the evaluation or quantization (with their statuses), and the memory of mixing. */
MUST_CHECK enum status point_plan(const struct point_request *request, const double *coefficients, double divisor,
                                  const struct plan_budget *budget, struct run_plan *out, struct error *error);

/* Fingerprint of everything that decides a measurement, except the members' content, the data and the coefficients: for
 * saved_table_open. */
uint64_t point_fingerprint(const struct point_request *request);

#endif
