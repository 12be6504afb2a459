/* statistics.h: the statistics that calibration collects of the inputs X [N tokens, columns] of a set of linears:
 * always the Hessian, the others if a quantizer needs them. */
#ifndef QUANT_STATISTICS_H
#define QUANT_STATISTICS_H

#include "backend/backend.h"
#include "base/error.h"

enum { STATISTICS_SAMPLE = 512 };

/* Statistics that a quantizer may need (quantizer.h). */
enum { NEED_INPUT_HESSIAN = 1, NEED_INPUT_MAGNITUDE = 2, NEED_INPUT_SAMPLE = 4 };

struct statistics {
    struct matrix hessian; /* [columns, columns] of 2/N XᵀX, lower triangle; `data` NULL: nothing was collected */
    const double *mean;    /* [columns] mean |x|; with NEED_INPUT_MAGNITUDE */
    const float *largest;  /* [columns] max |x|; likewise */
    /* [rows, columns]: tokens at equal distances, STATISTICS_SAMPLE at most; with NEED_INPUT_SAMPLE */
    struct matrix sample;
};

/* Collects one set of statistics after another in its own memory: Hessian and sample in the backend's, the rest in the
 * host's. */
struct statistics_collector {
    struct backend *backend;
    unsigned needs;
    int64_t tokens;         /* of a whole collection */
    int64_t seen, every;    /* tokens so far; every so many is sampled */
    void *hessian, *sample; /* [widest, widest], [STATISTICS_SAMPLE, widest] owned, like the rest */
    double *mean;           /* [widest] */
    float *largest;         /* [widest] */
    double *sums;           /* [widest] in the backend's memory: sums of |x| … */
    struct matrix peaks;    /* [1, widest] … and the largest */
    struct statistics result;
};

/* Memory for up to `widest` columns and collections of `tokens` tokens. The caller calls statistics_reset, also on
 * failure. */
MUST_CHECK enum status statistics_init(struct statistics_collector *collector, struct backend *backend, unsigned needs,
                                       int64_t widest, int64_t tokens, struct error *error);
/* Adds the allocations of statistics_init to a plan. */
void statistics_plan(const struct backend *backend, unsigned needs, int64_t widest, struct run_plan *plan);
void statistics_reset(struct statistics_collector *collector); /* a zeroed one is fine */

/* Prepares for collections of `tokens` tokens, for a quantizer with these needs (among those that have memory). */
void statistics_aim(struct statistics_collector *collector, unsigned needs, int64_t tokens);

/* A collection: begin, add chunks of tokens in order, finish. The result is lent until the next one; it covers the
 * tokens added (an expert sees only some of the calibration's) and is empty without any. */
void statistics_begin(struct statistics_collector *collector, int64_t columns);
void statistics_add(struct statistics_collector *collector, struct matrix x);
const struct statistics *statistics_finish(struct statistics_collector *collector);

#endif
