#include "inputs/posted_model.h"

#include "inputs/checkpoint_place.h"
#include "inputs/inputs.h"
#include "store/checkpoints.h"

#include <stdlib.h>

static enum status ask(const struct run_request *request, const struct checkpoint *row, posted_model_look *look,
                       const void *context, struct error *error)
{
    struct checkpoint_place place = {.hold = NULL};
    struct model *model = NULL;
    struct error ignored;
    enum status status = STATUS_OK;
    if (checkpoint_place_find(request->roots, request->data_directory, row, "/params/checkpoint", &place, &ignored) ==
            STATUS_OK &&
        model_open_as(place.path, checkpoint_config(row), &model, &ignored) == STATUS_OK)
        status = look(model, context, error);
    model_close(model);
    checkpoint_place_close(&place);
    return status;
}

enum status posted_model_ask(const struct run_request *request, const char *checkpoint, posted_model_look *look,
                             const void *context, struct error *error)
{
    struct checkpoint *row = malloc(sizeof *row);
    if (row == NULL) return error_no_memory(error, "a run");
    enum status status = checkpoint_find(request->connection, checkpoint, row, error);
    if (status == STATUS_OK) status = ask(request, row, look, context, error);
    free(row);
    return status;
}
