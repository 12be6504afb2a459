/* correlation_report.h: the answer of GET /v1/correlations, a struct and its table. */
#ifndef RESOURCES_CORRELATION_REPORT_H
#define RESOURCES_CORRELATION_REPORT_H

#include "base/result.h"
#include "eval/correlation.h"

#include <jansson.h>
#include <stdbool.h>

/* The correlations of some pairs. */
struct correlation_numbers {
    struct correlation values, within, differences;
    const char *note; /* a constant; NULL: no number is missing */
};

/* What a series of pairs was measured of and on. The texts are lent; NULL: none. */
struct correlation_identity {
    const char *label, *method, *dataset, *protocol, *calibration, *calibrated_on;
    const char *label_x, *dataset_x, *protocol_x, *calibration_x;
    int64_t bits;
    bool has_bits;
};

struct correlation_series {
    struct correlation_identity identity;
    struct correlation_numbers numbers;
};

struct correlation_report {
    const char *x, *y;                  /* lent */
    struct correlation_numbers numbers; /* of all pairs but those left out */
    int64_t left_out;
    int64_t series_count;
    struct correlation_series *series; /* [series_count] */
    json_t *points;                    /* the pairs, as curve_pairs (store/curves.h) makes them */
};
extern const struct result_shape correlation_report_shape;

#endif
