/* advice_settings.h: the training run behind a trajectory's last checkpoint, whose settings branches of it are trained
 * with. For advice.c. */
#ifndef KINDS_ADVICE_SETTINGS_H
#define KINDS_ADVICE_SETTINGS_H

#include "inputs/run_context.h"
#include "jobs/train/train.h"
#include "schema/schema.h"

struct advice_settings {
    json_t *run;                 /* its parameters; owned */
    struct schema_filled filled; /* from them; owned */
    int64_t *steps;              /* [count], of each checkpoint; owned */
    int64_t steady;              /* so many of the last were written by that run after its warm-up */
};

/* Of the run that wrote the last of `ids`, all of one trajectory by step. STATUS_INVALID at "/params/trajectory" when
 * that was no train run of this server, or one of the checkpoints has no step. The caller resets *out. */
MUST_CHECK enum status advice_settings_read(struct connection *connection, const char *const *ids, int64_t count,
                                            struct advice_settings *out, struct error *error);
void advice_settings_reset(struct advice_settings *settings); /* {0} is fine */

const struct train_params *advice_settings_train(const struct advice_settings *settings);

/* For check: whether checkpoint `id` is of the trajectory and has its training state beside it. STATUS_INVALID at
 * "/params/checkpoints" and "/params/trajectory". */
MUST_CHECK enum status advice_settings_check_last(const struct run_request *request, const char *trajectory,
                                                  const char *id, struct error *error);

#endif
