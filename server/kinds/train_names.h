/* train_names.h: keeps a train run out of a trajectory where its checkpoints would meet others: of the same names, or,
 * for fresh weights, any at all, since two trainings in one curve are neither's. Looked for when the run is posted,
 * after an equal run has been looked for, and again when it starts. */
#ifndef KINDS_TRAIN_NAMES_H
#define KINDS_TRAIN_NAMES_H

#include "jobs/train/train.h"
#include "kinds/kind.h"

/* For check: puts the names into request->makes. `after`: the step of the checkpoint that the run continues, 0 for
 * fresh weights; -1: not known, so that only the run can look. STATUS_NO_MEMORY; statuses of the store. */
MUST_CHECK enum status train_names_note(struct run_request *request, const struct train_params *params, int64_t after,
                                        struct error *error);

/* kind.vacant and kind.meet. */
MUST_CHECK enum status train_names_vacant(const struct run_request *request, struct error *error);
bool train_names_meet(const json_t *makes, const json_t *others, char words[KIND_MEET_TEXT]);

/* For execute, before anything is trained: `trajectory` is the name. What an earlier attempt made is the run's own.
 * STATUS_CONFLICT. */
MUST_CHECK enum status train_names_check(const struct run_context *context, const struct train_params *params,
                                         const char *trajectory, int64_t after, struct error *error);

#endif
