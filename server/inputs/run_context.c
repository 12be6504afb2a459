#include "inputs/run_context.h"

#include <stdlib.h>
#include <string.h>

/* Appends *id unless the list has it. */
static enum status uses(struct store_id **list, size_t *count, const struct store_id *id, struct error *error)
{
    for (size_t i = 0; i < *count; i++)
        if (strcmp((*list)[i].text, id->text) == 0) return STATUS_OK;
    struct store_id *larger = realloc(*list, (*count + 1) * sizeof *larger);
    if (larger == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a run's references");
    larger[(*count)++] = *id;
    *list = larger;
    return STATUS_OK;
}

enum status run_request_uses_checkpoint(struct run_request *request, const struct store_id *id, struct error *error)
{
    return uses(&request->checkpoints, &request->checkpoint_count, id, error);
}

enum status run_request_uses_trajectory(struct run_request *request, const struct store_id *id, struct error *error)
{
    return uses(&request->trajectories, &request->trajectory_count, id, error);
}

enum status run_request_uses_dataset(struct run_request *request, const struct store_id *id, struct error *error)
{
    return uses(&request->datasets, &request->dataset_count, id, error);
}

void run_request_reset(struct run_request *request)
{
    free(request->checkpoints);
    free(request->trajectories);
    free(request->datasets);
    json_decref(request->identity);
    json_decref(request->makes);
    *request = (struct run_request){0};
}

void run_context_note_work(const struct run_context *context, double work)
{
    if (context->work != NULL && context->attempt == 0) *context->work = work;
}
