/* train_plan.h: what a train request comes to in steps, and whether its parts fit. For train.c and the tests. */
#ifndef JOBS_TRAIN_PLAN_H
#define JOBS_TRAIN_PLAN_H

#include "jobs/train.h"
#include "model/config.h"

/* Whole steps that hold `tokens` tokens. */
int64_t train_plan_steps(const struct train_params *params, int64_t tokens);
struct schedule train_plan_schedule(const struct train_params *params);

/* STATUS_INVALID when sequences are longer than the model's positions or its vocabulary is smaller than the tokenizer. */
MUST_CHECK enum status train_plan_fit(const struct train_params *params, const struct model_config *config, struct error *error);

/* Passes a failed status on, with the parameter to blame unless one stands. */
enum status train_plan_blame(enum status status, const char *pointer, struct error *error);

#endif
