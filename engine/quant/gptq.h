/* gptq.h: GPTQ (gptq.c has the equations) for any coding of rows: the scale of a group is found when its first column's
 * block begins, and what is left of each weight is coded with it. */
#ifndef QUANT_GPTQ_H
#define QUANT_GPTQ_H

#include "quant/quantizer.h"

struct gptq_setup {
    struct coding coding; /* LAYOUT_ROWS; group_size as in the API */
    /* Completes the coding of one linear from its untouched weight; NULL: there is nothing to complete. */
    enum status (*look)(struct backend *backend, struct matrix weight, struct coding *coding, struct error *error);
    int64_t extra_bits; /* of a layer, beside its codes and scales */
    bool desc_act, act_group_aware;
    double damp_percent;
    struct quantize_method nearest; /* what takes its place where inputs teach nothing */
};

/* The `quantize` of a row (quantizer.h); the task has a Hessian. */
MUST_CHECK enum status gptq_solve(struct backend *backend, const struct gptq_setup *setup,
                                  const struct quantize_task *task, struct quantized_layer *out, struct error *error);

/* STATUS_INVALID at "/damp_percent" unless it is above 0 and below 1. */
MUST_CHECK enum status gptq_check_damping(double damp_percent, struct error *error);

#endif
