/* sequential_scratch.h: the memory for quantizing blocks with calibration tokens (sequential.h): statistics of inputs,
 * and slots held between cuts. Quantizations that take turns at a block share it. */
#ifndef QUANT_SEQUENTIAL_SCRATCH_H
#define QUANT_SEQUENTIAL_SCRATCH_H

#include "model/model.h"
#include "quant/statistics.h"

struct sequential_scratch {
    struct backend *backend;
    int64_t budget_width; /* columns that may be held of each token between cuts */
    int64_t held_width;   /* columns of `held` */
    /* [collector_count], one for each expert that is collected at a time; owned */
    struct statistics_collector *collectors;
    int64_t collector_count;
    void *held; /* [tokens, held_width] owned */
};

/* For calibrations of up to `tokens` tokens and quantizers whose needs (statistics.h) are among `needs`; slots held
 * between cuts take at most `hold_bytes`. The caller calls sequential_scratch_reset, also on failure.
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status sequential_scratch_init(struct sequential_scratch *scratch, const struct model *model,
                                               struct backend *backend, unsigned needs, int64_t tokens,
                                               int64_t hold_bytes, struct error *error);
void sequential_scratch_reset(struct sequential_scratch *scratch); /* {0} is fine */

/* Adds the allocations of sequential_scratch_init to a plan. */
void sequential_scratch_plan(const struct model *model, const struct backend *backend, unsigned needs, int64_t tokens,
                             int64_t hold_bytes, struct run_plan *plan);

/* Inputs of the widest linear of a model. */
int64_t sequential_scratch_widest(const struct model *model);

#endif
