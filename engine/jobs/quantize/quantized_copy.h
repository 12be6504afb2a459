/* quantized_copy.h: a checkpoint's quantized weights as a checkpoint of its own (dequantized, F32) in a directory, for
 * runs that visit a quantized model more than once. What the method does to the inputs of linears is kept beside it and
 * done again in walks. */
#ifndef QUANTIZE_QUANTIZED_COPY_H
#define QUANTIZE_QUANTIZED_COPY_H

#include "base/monitor.h"
#include "base/plan.h"
#include "eval/likelihood.h"
#include "quant/activation.h"
#include "quant/quantizer.h"

struct quantized_copy_input; /* what becomes of a linear's inputs */

struct quantized_copy {
    struct model *model;          /* owned */
    const struct model *original; /* lent */
    struct backend *backend;      /* lent */
    double bits_per_weight;
    bool across_text; /* what a token gets depends on its whole text (LLM.int8's outlier columns) */
    int64_t input_count;
    struct quantized_copy_input *inputs; /* owned */
    struct activations activations;
};

struct quantized_copy_request {
    const struct model *model;
    struct backend *backend;
    struct quantize_method method;       /* settled */
    const struct sequences *calibration; /* NULL: none */
    const char *directory;               /* existing */
    uint64_t fingerprint;                /* of all that decides the numbers */
    const struct monitor *monitor;       /* progress by "block"; may be NULL */
};

/* STATUS_UNSUPPORTED with a pointer relative to the method: a rotation, quantized embeddings or outputs. */
MUST_CHECK enum status quantized_copy_check(const struct quantize_method *method, struct error *error);

/* Whether what a token gets from it depends on its whole text. */
bool quantized_copy_across_text(const struct quantize_method *method);

/* What making one takes, and what is there of it afterwards: live in the plan. */
struct quantized_copy_outlook {
    struct run_plan plan;
    int64_t stored_bytes; /* of its weights, and of the original's where they are wanted, which every walk reads */
    /* Of the backend's memory, in walks, for what is done to inputs: for each token of a chunk, and beside that. */
    int64_t token_bytes, treated_bytes;
};
/* Statuses of quantize_plan. */
MUST_CHECK enum status quantized_copy_plan(const struct quantized_copy_request *request,
                                           const struct plan_budget *budget, struct quantized_copy_outlook *out,
                                           struct error *error);

/* Opens what an earlier attempt of the same fingerprint left, else makes it. The caller owns *out
 * (quantized_copy_reset), also after a failure. Statuses of quantize_run, model_open and safetensors_writer_open. */
MUST_CHECK enum status quantized_copy_open(const struct quantized_copy_request *request, struct quantized_copy *out,
                                           struct error *error);
void quantized_copy_reset(struct quantized_copy *copy); /* {0} is fine */

/* For likelihood_run; NULL when inputs stay as they are. `room` holds it. */
const struct likelihood_products *quantized_copy_products(struct quantized_copy *copy,
                                                          struct likelihood_products *room);

#endif
