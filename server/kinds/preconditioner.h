/* preconditioner.h: the preconditioner in the parameters of a sharpness run: {"name": "training_state"} or
 * {"name": "squared_gradients", "batches": 8}. */
#ifndef KINDS_PRECONDITIONER_H
#define KINDS_PRECONDITIONER_H

#include "inputs/checkpoint_place.h"
#include "jobs/sharpness/sharpness.h"

#include <limits.h>

extern const struct param_variant preconditioner_variants[]; /* by enum sharpness_moments */

/* Whether the table found one; null leaves the struct zeroed. */
bool preconditioner_given(const struct sharpness_preconditioner *preconditioner);

/* For check: betas and epsilon of a training state that are null become those of the train run that wrote the
 * checkpoint, in *preconditioner and in the document. Which state it is goes into request->identity, if it lies where
 * the server reads it. STATUS_INVALID at "/params/preconditioner" where the run is not known or its optimizer has other
 * moments, and for a state that is not there or is another optimizer's. */
MUST_CHECK enum status preconditioner_complete(struct run_request *request, const char *checkpoint,
                                               struct sharpness_preconditioner *preconditioner, struct error *error);

/* For execute: the path of the training state beside a checkpoint whose files are in `directory`, fetched first where
 * it must be; there may be none. `place` is that of the checkpoint; `hold` keeps a fetched state, and the caller closes
 * it. Statuses of made_checkpoint_state. */
MUST_CHECK enum status preconditioner_state(const struct run_context *context, const struct checkpoint *row,
                                            const struct checkpoint_place *place, const char *directory,
                                            struct checkpoint_place *hold, char out[PATH_MAX], struct error *error);

#endif
