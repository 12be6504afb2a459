/* train_plan.h: converts a train request to steps, and checks that its parts fit. For train.c and the tests. */
#ifndef TRAIN_TRAIN_PLAN_H
#define TRAIN_TRAIN_PLAN_H

#include "jobs/train/train.h"
#include "model/config.h"
#include "train/trainer.h"

enum { TRAIN_STOPS_MOST = 100000 };       /* steps after which a run writes a checkpoint: each is a row, and files */
#define TRAIN_PLAN_CONFIG_LIMIT (4 << 20) /* bytes of a config.json */

/* Number of whole steps that hold `tokens` tokens. */
int64_t train_plan_steps(const struct train_params *params, int64_t tokens);
struct schedule train_plan_schedule(const struct train_params *params);

/* The setup of the trainer, without the data. */
struct trainer_setup train_plan_setup(const struct train_params *params, int64_t memory_limit);

/* The plan of train_run if the data are at most `token_count` tokens. Of the request only params, from and backend are
 * read. Statuses of train_plan_fit; STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status train_plan_run(const struct train_request *request, int64_t token_count, struct run_plan *out,
                                      struct error *error);

/* STATUS_INVALID when sequences are longer than the model's positions or its vocabulary is smaller than the
 * tokenizer. */
MUST_CHECK enum status train_plan_fit(const struct train_params *params, const struct model_config *config,
                                      struct error *error);

/* Passes a failed status on, and sets the parameter to blame unless the error has one. */
enum status train_plan_blame(enum status status, const char *pointer, struct error *error);

#endif
