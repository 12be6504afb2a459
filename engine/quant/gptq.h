/* gptq.h: GPTQ (gptq.c has the equations) for any coding of rows: the scale of a group is computed when the block of
 * its first column begins, from the weights as corrected so far. */
#ifndef QUANT_GPTQ_H
#define QUANT_GPTQ_H

#include "quant/quantizer.h"

struct gptq_setup {
    struct coding coding; /* LAYOUT_ROWS; group_size as in the API */
    /* Completes the coding of one linear from its original weight; NULL: the coding is complete. */
    enum status (*look)(struct backend *backend, struct matrix weight, struct coding *coding, struct error *error);
    int64_t extra_bits; /* per layer, beside its codes and scales */
    bool desc_act, act_group_aware;
    double damp_percent;
    struct quantize_method nearest; /* replaces GPTQ if the inputs carry no information */
};

/* The `quantize` of a row (quantizer.h); the task has a Hessian. */
MUST_CHECK enum status gptq_solve(struct backend *backend, const struct gptq_setup *setup,
                                  const struct quantize_task *task, struct quantized_layer *out, struct error *error);

/* STATUS_INVALID at "/damp_percent" unless it is above 0 and below 1. */
MUST_CHECK enum status gptq_check_damping(double damp_percent, struct error *error);

#endif
