/* quantized_copy.h: a checkpoint's quantized weights as a checkpoint of their own (dequantized, F32) in a directory,
 * for runs that pass a quantized model more than once. The method's treatment of the inputs of linears is saved beside
 * the copy and applied in each pass. */
#ifndef QUANTIZE_QUANTIZED_COPY_H
#define QUANTIZE_QUANTIZED_COPY_H

#include "base/monitor.h"
#include "base/plan.h"
#include "eval/likelihood.h"
#include "quant/activation.h"
#include "quant/quantizer.h"

struct quantized_copy_input; /* the treatment of a linear's inputs */

struct quantized_copy {
    struct model *model;          /* owned */
    const struct model *original; /* lent */
    struct backend *backend;      /* lent */
    double bits_per_weight;
    bool across_text; /* the result of a token depends on its whole text (LLM.int8's outlier columns) */
    int64_t input_count;
    struct quantized_copy_input *inputs; /* owned */
    struct activations activations;
};

struct quantized_copy_request {
    const struct model *model;
    struct backend *backend;
    struct quantize_method method;       /* complete */
    const struct sequences *calibration; /* NULL: none */
    const char *directory;               /* existing */
    uint64_t fingerprint;                /* of everything that the numbers depend on */
    const struct monitor *monitor;       /* progress by "block"; may be NULL */
};

/* STATUS_UNSUPPORTED with a pointer relative to the method: a rotation, quantized embeddings or outputs. */
MUST_CHECK enum status quantized_copy_check(const struct quantize_method *method, struct error *error);

/* Whether the result of a token depends on its whole text. */
bool quantized_copy_across_text(const struct quantize_method *method);

/* Plan for making a copy, and the memory and reads of each pass over it. The parts of the copy that stay are live in
 * the plan. */
struct quantized_copy_plan {
    struct run_plan plan;
    int64_t stored_bytes; /* read in each pass: the copy's weights, and the original's where the method needs them */
    /* of the backend's memory in each pass, for the treatment of inputs: per token of a chunk, and in addition */
    int64_t token_bytes, treated_bytes;
};
/* Statuses of quantize_plan. */
MUST_CHECK enum status quantized_copy_plan(const struct quantized_copy_request *request,
                                           const struct plan_budget *budget, struct quantized_copy_plan *out,
                                           struct error *error);

/* Opens the copy that an earlier attempt of the same fingerprint left, or else makes one. The caller owns *out
 * (quantized_copy_reset), also after a failure. Statuses of quantize_run, model_open and safetensors_writer_open. */
MUST_CHECK enum status quantized_copy_open(const struct quantized_copy_request *request, struct quantized_copy *out,
                                           struct error *error);
void quantized_copy_reset(struct quantized_copy *copy); /* {0} is fine */

/* The treatment of inputs for likelihood_run, in *out; NULL when inputs are not treated. */
const struct likelihood_products *quantized_copy_products(struct quantized_copy *copy, struct likelihood_products *out);

#endif
