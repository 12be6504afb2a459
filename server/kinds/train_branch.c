#include "kinds/train_branch.h"

#include "jobs/train/train_plan.h"
#include "kinds/made_checkpoint.h"
#include "objects/objects_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define POINTER "/params/from"

/* Each as a whole: an optimizer or a schedule that is posted has the defaults of its own fields. */
static const char *const inherited[] = {"seed", "optimizer", "schedule"};

static enum status inherit(struct run_request *request, const json_t *trunk, struct error *error)
{
    for (size_t i = 0; i < sizeof inherited / sizeof inherited[0]; i++) {
        const json_t *value = json_object_get(trunk, inherited[i]);
        if (value == NULL || json_object_get(request->posted, inherited[i]) != NULL) continue;
        if (json_object_set_new(request->params, inherited[i], json_deep_copy(value)) != 0)
            return error_no_memory(error, "a run");
    }
    return STATUS_OK;
}

static enum status fill(json_t *params, struct schema_filled *out, struct error *error)
{
    return schema_fill(train_params, sizeof(struct train_params), params, "/params", NULL, out, error);
}

/* Nobody means the default peak, or the trunk's own where the rate has left it already. */
static bool other_peak(const struct run_request *request, const struct train_params *trunk)
{
    const json_t *peak = json_object_get(json_object_get(request->posted, "schedule"), "peak");
    return json_is_number(peak) && json_number_value(peak) != trunk->schedule.peak;
}

enum status train_branch_look(const struct checkpoint_place *place, struct state_about *out, struct error *error)
{
    char path[sizeof place->path + 16];
    (void)snprintf(path, sizeof path, "%s/training.state", place->path);
    if (access(path, F_OK) != 0) return error_set_at(error, STATUS_INVALID, POINTER, TRAIN_NO_STATE);
    return train_plan_blame(state_look(path, out, error), POINTER, error);
}

/* The state tells the step that its run made; that of the row may have been changed, or not be known. */
static enum status look(const struct run_request *request, const struct checkpoint *row, struct train_branch *out,
                        struct error *error)
{
    struct checkpoint_place place = {.hold = NULL};
    struct error elsewhere;
    enum status status =
        checkpoint_place_find(request->roots, request->data_directory, row, POINTER, &place, &elsewhere);
    out->looked = status == STATUS_OK && (place.hold == NULL || !objects_place_is(row->repo));
    status = out->looked ? train_branch_look(&place, &out->state, error) : STATUS_OK;
    out->step = out->looked && status == STATUS_OK ? out->state.step : row->step;
    checkpoint_place_close(&place);
    return status;
}

enum status train_branch_open(struct run_request *request, const char *from, struct train_branch *out,
                              struct error *error)
{
    struct checkpoint *row = malloc(sizeof *row);
    *out = (struct train_branch){.step = -1};
    if (row == NULL) return error_no_memory(error, "a run");
    enum status status = checkpoint_find(request->connection, from, row, error);
    if (status == STATUS_OK) status = look(request, row, out, error);
    free(row);
    if (status == STATUS_OK) status = made_checkpoint_run(request->connection, from, &out->run, error);
    json_t *trunk = json_object_get(out->run, "params");
    if (status == STATUS_OK && trunk != NULL) status = inherit(request, trunk, error);
    if (status == STATUS_OK && trunk != NULL) status = fill(trunk, &out->trunk, error);
    if (status == STATUS_OK && trunk != NULL) out->steps = other_peak(request, out->trunk.params);
    if (status == STATUS_OK) status = fill(request->params, &out->own, error);
    return status == STATUS_OK && out->looked ? train_check_state(out->own.params, &out->state, error) : status;
}

enum status train_branch_check(const struct train_branch *branch, struct error *error)
{
    const struct train_params *trunk = branch->steps ? NULL : branch->trunk.params;
    return branch->step < 0 ? STATUS_OK : train_check_branch(branch->own.params, branch->step, trunk, error);
}

void train_branch_close(struct train_branch *branch)
{
    schema_filled_reset(&branch->own);
    schema_filled_reset(&branch->trunk);
    json_decref(branch->run);
    *branch = (struct train_branch){.step = -1};
}
