/* advice_settings.h: the settings of the training run that wrote a trajectory's last checkpoint. Its branches are
 * trained with the same settings. For advice.c. */
#ifndef KINDS_ADVICE_SETTINGS_H
#define KINDS_ADVICE_SETTINGS_H

#include "inputs/run_context.h"
#include "jobs/train/train.h"
#include "schema/schema.h"

struct advice_settings {
    json_t *run;                 /* the run's parameters; owned */
    struct schema_filled filled; /* the struct filled from them; owned */
    int64_t *steps;              /* [count], the step of each checkpoint; owned */
    int64_t steady;              /* how many of the last checkpoints that run wrote after its warm-up */
};

/* Reads the settings of the run that wrote the last of `ids`, all of one trajectory by step. STATUS_INVALID at
 * "/params/trajectory" when no train run of this server wrote it, or when a checkpoint has no step. The caller resets
 * *out. */
MUST_CHECK enum status advice_settings_read(struct connection *connection, const char *const *ids, int64_t count,
                                            struct advice_settings *out, struct error *error);
void advice_settings_reset(struct advice_settings *settings); /* {0} is fine */

const struct train_params *advice_settings_train(const struct advice_settings *settings);

/* For check: STATUS_OK when checkpoint `id` belongs to the trajectory and has its training state beside it, of the step
 * that the checkpoint has. STATUS_INVALID at "/params/checkpoints" and "/params/trajectory". */
MUST_CHECK enum status advice_settings_check_last(const struct run_request *request, const char *trajectory,
                                                  const char *id, struct error *error);

/* The step of a checkpoint may be set by hand, that of its training state says where branches begin: STATUS_INVALID at
 * "/params/trajectory" when the two differ. `path`: of the state. Statuses of state_look. */
MUST_CHECK enum status advice_settings_check_step(const char *path, const char *name, int64_t step,
                                                  struct error *error);

#endif
