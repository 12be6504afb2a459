#include "kinds/train_branch.h"

#include "kinds/made_checkpoint.h"

#include <stdlib.h>

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

enum status train_branch_open(struct run_request *request, const char *from, struct train_branch *out,
                              struct error *error)
{
    struct checkpoint *row = malloc(sizeof *row);
    *out = (struct train_branch){.step = -1};
    if (row == NULL) return error_no_memory(error, "a run");
    enum status status = checkpoint_find(request->connection, from, row, error);
    if (status == STATUS_OK) out->step = row->step;
    free(row);
    if (status == STATUS_OK) status = made_checkpoint_run(request->connection, from, &out->run, error);
    json_t *trunk = json_object_get(out->run, "params");
    if (status == STATUS_OK && trunk != NULL) status = inherit(request, trunk, error);
    if (status == STATUS_OK && trunk != NULL) status = fill(trunk, &out->trunk, error);
    if (status == STATUS_OK && trunk != NULL) out->steps = other_peak(request, out->trunk.params);
    return status == STATUS_OK ? fill(request->params, &out->own, error) : status;
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
