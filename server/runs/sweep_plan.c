#include "runs/sweep_plan.h"

#include "runs/parameter_grid.h"
#include "runs/requirements.h"

#include <stdlib.h>
#include <string.h>

static bool are_equal(const struct prepared_run *a, const struct prepared_run *b)
{
    return a->dedupe_key[0] != '\0' && strcmp(a->dedupe_key, b->dedupe_key) == 0;
}

/* Refuses a run that would make checkpoints which an earlier one of the product makes too. Equal runs are one. */
static enum status check_meeting(const struct kind *kind, const struct prepared_run *prepared, size_t last,
                                 struct error *error)
{
    const json_t *makes = prepared[last].request.makes;
    char words[KIND_MEET_TEXT];
    for (size_t i = 0; i < last && kind->meet != NULL && makes != NULL; i++) {
        const json_t *earlier = prepared[i].request.makes;
        if (earlier == NULL || are_equal(&prepared[i], &prepared[last]) || !kind->meet(makes, earlier, words)) continue;
        return error_set_at(error, STATUS_CONFLICT, json_string_value(json_object_get(makes, "pointer")),
                            "runs %zu and %zu of the product would both %s: post runs one by one, each under a name of"
                            " its own",
                            i + 1, last + 1, words);
    }
    return STATUS_OK;
}

void sweep_plan_blame(const json_t *grid, struct error *error)
{
    const struct error cause = *error;
    if (strncmp(cause.pointer, "/params/", 8) == 0)
        parameter_grid_pointer(grid, cause.pointer, error->pointer, sizeof error->pointer);
}

/* Prepares every run of the product; when one has faults, they are reported with pointers into base and grid. */
static enum status prepare_all(struct connection *connection, const struct sweep_plan_request *request,
                               const json_t *product, struct sweep_plan *plan, struct faults *faults,
                               struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < plan->count && status == STATUS_OK; i++) {
        struct faults found = {0};
        char pointer[160];
        status = prepare_run(connection, request->kind, json_array_get(product, i), request->roots,
                             request->data_directory, !request->dry_run, &found, &plan->prepared[i], error);
        if (status == STATUS_OK) status = check_meeting(request->kind, plan->prepared, i, error);
        if (status == STATUS_OK) {
            plan->rows[i] = prepare_row(&plan->prepared[i]);
            plan->rows[i].requester = request->requester;
            plan->rows[i].queued_most = request->queued_most;
            status = requirements_put(request->requires, &plan->rows[i], error);
            if (status != STATUS_OK) return status;
            status = prepare_check_vacant(&plan->prepared[i], &plan->rows[i], error);
        }
        if (status == STATUS_CONFLICT) sweep_plan_blame(request->grid, error);
        if (status != STATUS_OK && found.count == 0) faults_add(&found, error->pointer, "%s", error->detail);
        for (size_t j = 0; j < faults_kept(&found) && status_info(status)->http == 422; j++) {
            const char *below = parameter_grid_pointer(request->grid, found.items[j].pointer, pointer, sizeof pointer);
            faults_add(faults, pointer, "%s%s%s", below, below[0] != '\0' ? ": " : "", found.items[j].detail);
        }
    }
    return status;
}

enum status sweep_plan_of(struct connection *connection, const struct sweep_plan_request *request,
                          const json_t *product, struct faults *faults, struct sweep_plan *out, struct error *error)
{
    *out = (struct sweep_plan){.count = json_array_size(product)};
    out->prepared = calloc(out->count + 1, sizeof *out->prepared);
    out->rows = calloc(out->count + 1, sizeof *out->rows);
    if (out->prepared == NULL || out->rows == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a sweep");
    return prepare_all(connection, request, product, out, faults, error);
}

/* Notes the checkpoints, because runs are shared by content and do not say which checkpoints the sweep has. */
static enum status note_taken(const json_t *grid, const json_t *product, struct sweep_plan *plan, struct error *error)
{
    const char *key, *trajectory;
    size_t i;
    json_t *run, *seen = json_object();
    sweep_plan_trajectory(grid, &key, &trajectory);
    bool good = seen != NULL && (key == NULL || (plan->taken = json_array()) != NULL);
    json_array_foreach(product, i, run)
    {
        json_t *id = key != NULL ? parameter_grid_value(run, key) : NULL;
        if (!good || !json_is_string(id) || json_object_get(seen, json_string_value(id)) != NULL) continue;
        good = json_object_set_new(seen, json_string_value(id), json_true()) == 0 &&
               json_array_append(plan->taken, id) == 0;
    }
    json_decref(seen);
    return good ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for a sweep");
}

enum status sweep_plan_make(struct connection *connection, const struct sweep_plan_request *request,
                            struct faults *faults, struct sweep_plan *out, struct error *error)
{
    json_t *product = NULL;
    enum status status =
        parameter_grid_expand(connection, request->base, request->grid, request->may_be_empty, faults, &product, error);
    *out = (struct sweep_plan){0};
    if (status == STATUS_OK) status = sweep_plan_of(connection, request, product, faults, out, error);
    if (status == STATUS_OK) status = note_taken(request->grid, product, out, error);
    json_decref(product);
    return status;
}

void sweep_plan_reset(struct sweep_plan *plan)
{
    for (size_t i = 0; plan->prepared != NULL && i < plan->count; i++) prepare_reset(&plan->prepared[i]);
    free(plan->prepared);
    free(plan->rows);
    json_decref(plan->taken);
    *plan = (struct sweep_plan){0};
}

void sweep_plan_trajectory(const json_t *grid, const char **key, const char **trajectory)
{
    const char *name;
    json_t *value;
    int count = 0;
    *key = *trajectory = NULL;
    json_object_foreach((json_t *)(uintptr_t)grid, name, value)
    {
        const char *found = json_string_value(json_object_get(value, "trajectory"));
        if (found == NULL || json_object_size(value) != 1) continue;
        *key = name;
        *trajectory = found;
        count++;
    }
    if (count != 1) *key = *trajectory = NULL;
}
