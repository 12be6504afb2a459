/* compare_pair.h: two checkpoints measured on the same sequences for a comparison: evaluated, or, with a method,
 * quantized. */
#ifndef KINDS_COMPARE_PAIR_H
#define KINDS_COMPARE_PAIR_H

#include "inputs/inputs.h"
#include "inputs/recipes.h"
#include "jobs/quantize/quantize.h"
#include "kinds/compared.h"
#include "kinds/protocol.h"

struct compare_pair_request {
    const char *checkpoints[2]; /* ids */
    const struct data_use *evaluation, *calibration;
    const struct quantize_method *method; /* NULL: none */
    int precision;
    bool per_token;
    int64_t seed; /* of the bootstrap that gives the intervals */
};

struct compare_pair_side {
    struct inputs inputs; /* only the first side has a backend; the second uses it */
    struct sequences evaluation, calibration;
    struct quantize_method method; /* complete */
    char protocol[PROTOCOL_TEXT], recipe[RECIPE_TEXT];
    struct protocol_calibration calibrated;
    struct evaluate_result evaluated;
    struct quantize_result quantized;
};

struct compare_pair {
    struct compare_pair_side sides[2];
    struct compare_pair_request request;
};

/* Opens both checkpoints and their sequences. STATUS_INVALID at "/params/checkpoints/1" when the second one's tokenizer
 * makes other tokens of the evaluation; statuses of inputs_open and inputs_sequences. The caller resets *out, which
 * must not move, also after a failure. */
MUST_CHECK enum status compare_pair_open(const struct run_context *context, const struct compare_pair_request *request,
                                         struct compare_pair *out, struct error *error);
void compare_pair_reset(struct compare_pair *pair); /* {0} is fine */

/* Plans both measurements, one after the other, with the results kept from the first. Statuses of evaluate_plan,
 * quantize_plan. */
MUST_CHECK enum status compare_pair_plan(const struct run_context *context, struct compare_pair *pair,
                                         struct plan_budget *budget, struct run_plan *out, struct error *error);

/* Measures both checkpoints; compare_pair_losses gives the results. Progress counts both. Statuses of evaluate_asked
 * and quantize_run. */
MUST_CHECK enum status compare_pair_measure(const struct run_context *context, struct compare_pair *pair,
                                            struct error *error);

/* Lent by the pair. */
struct compared_losses compare_pair_losses(const struct compare_pair *pair, int side);

#endif
