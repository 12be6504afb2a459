/* posted_model.h: what a checkpoint's model tells of a request when it is posted. */
#ifndef INPUTS_POSTED_MODEL_H
#define INPUTS_POSTED_MODEL_H

#include "inputs/run_context.h"
#include "model/model.h"

/* A question about a model; any status that it returns refuses the request. */
typedef enum status posted_model_look(const struct model *model, const void *context, struct error *error);

/* For check: asks about the model of a checkpoint (its id) whose files are here. One that is elsewhere, or cannot be
 * opened, is not asked about: the run refuses it. Statuses of `look` and of checkpoint_find, STATUS_NO_MEMORY. */
MUST_CHECK enum status posted_model_ask(const struct run_request *request, const char *checkpoint,
                                        posted_model_look *look, const void *context, struct error *error);

#endif
