#include "kinds/advice_settings.h"

#include "base/memory.h"
#include "inputs/checkpoint_place.h"
#include "jobs/train/train_plan.h"
#include "objects/objects_place.h"
#include "store/checkpoints.h"
#include "store/runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POINTER "/params/trajectory"

static const char *run_of(const json_t *checkpoint)
{
    return json_string_value(json_object_get(json_object_get(checkpoint, "derived_from"), "run"));
}

static enum status refuse_origin(struct error *error)
{
    return error_set_at(error, STATUS_INVALID, POINTER,
                        "its last checkpoint was not written by a train run of this server: how to go on training it"
                        " is not known");
}

/* Checks that the checkpoints are of one trajectory and sorted by step. */
static enum status check_order(const json_t *documents, const int64_t *steps, struct error *error)
{
    for (size_t i = 1; i < json_array_size(documents); i++) {
        const json_t *a = json_array_get(documents, i - 1), *b = json_array_get(documents, i);
        if (steps[i] <= steps[i - 1] || !json_equal(json_object_get(a, "trajectory"), json_object_get(b, "trajectory")))
            return error_set_at(error, STATUS_INVALID, "/params/checkpoints",
                                "must be of one trajectory, by rising step: \"%.200s\" cannot follow \"%.200s\"",
                                json_string_value(json_object_get(b, "name")),
                                json_string_value(json_object_get(a, "name")));
    }
    return STATUS_OK;
}

/* Reads the run's parameters, as they were completed when it was posted. */
static enum status run_read(struct connection *connection, const char *id, struct advice_settings *out,
                            struct error *error)
{
    json_t *document = NULL;
    struct error cause;
    const enum status found = id == NULL ? STATUS_NOT_FOUND : run_get(connection, id, &document, &cause);
    if (found == STATUS_NOT_FOUND) return refuse_origin(error);
    if (found != STATUS_OK) {
        *error = cause;
        return found;
    }
    enum status status = STATUS_OK;
    if (strcmp(json_string_value(json_object_get(document, "kind")), "train") != 0) status = refuse_origin(error);
    if (status == STATUS_OK) {
        out->run = json_deep_copy(json_object_get(document, "params"));
        status = out->run == NULL ? error_no_memory(error, "a run")
                                  : schema_fill(train_params, sizeof(struct train_params), out->run, "/params", NULL,
                                                &out->filled, error);
    }
    json_decref(document);
    return status;
}

enum status advice_settings_read(struct connection *connection, const char *const *ids, int64_t count,
                                 struct advice_settings *out, struct error *error)
{
    json_t *documents = json_array();
    *out = (struct advice_settings){.run = NULL};
    enum status status = documents == NULL
                             ? error_no_memory(error, "a run")
                             : memory_new(count, sizeof *out->steps, "checkpoint list", &out->steps, error);
    for (int64_t i = 0; i < count && status == STATUS_OK; i++) {
        json_t *document = NULL;
        if ((status = checkpoint_get(connection, ids[i], &document, error)) != STATUS_OK) break;
        out->steps[i] = json_integer_value(json_object_get(document, "step"));
        if (json_is_null(json_object_get(document, "step")))
            status = error_set_at(error, STATUS_INVALID, POINTER, "checkpoint \"%.200s\" has no step",
                                  json_string_value(json_object_get(document, "name")));
        if (json_array_append_new(documents, document) != 0 && status == STATUS_OK)
            status = error_no_memory(error, "a run");
    }
    if (status == STATUS_OK) status = check_order(documents, out->steps, error);
    const char *run = run_of(json_array_get(documents, (size_t)count - 1));
    if (status == STATUS_OK) status = run_read(connection, run, out, error);
    if (status == STATUS_OK) {
        const struct train_params *train = advice_settings_train(out);
        const int64_t warmup = train_plan_steps(train, train->schedule.warmup);
        for (int64_t i = count - 1; i >= 0; i--) {
            const char *other = run_of(json_array_get(documents, (size_t)i));
            if (other == NULL || strcmp(other, run) != 0 || out->steps[i] <= warmup) break;
            out->steady++;
        }
    }
    json_decref(documents);
    return status;
}

void advice_settings_reset(struct advice_settings *settings)
{
    schema_filled_reset(&settings->filled);
    memory_free(settings->steps);
    json_decref(settings->run);
    *settings = (struct advice_settings){.run = NULL};
}

const struct train_params *advice_settings_train(const struct advice_settings *settings)
{
    return settings->filled.params;
}

enum status advice_settings_check_step(const char *path, const char *name, int64_t step, struct error *error)
{
    struct state_about state;
    const enum status status = train_plan_blame(state_look(path, &state, error), POINTER, error);
    if (status != STATUS_OK || state.step == step) return status;
    return error_set_at(error, STATUS_INVALID, POINTER,
                        "its last checkpoint \"%.200s\" has step %lld, but its training state is of step %lld, from"
                        " which branches go on: set the step back",
                        name, (long long)step, (long long)state.step);
}

enum status advice_settings_check_last(const struct run_request *request, const char *trajectory, const char *id,
                                       struct error *error)
{
    struct checkpoint_place place = {.hold = NULL};
    struct checkpoint *row = malloc(sizeof *row);
    char path[sizeof place.path + 16];
    if (row == NULL) return error_no_memory(error, "a run");
    enum status status = checkpoint_find(request->connection, id, row, error);
    if (status == STATUS_OK && strcmp(row->trajectory.text, trajectory) != 0)
        status = error_set_at(error, STATUS_INVALID, "/params/checkpoints", "must be of the trajectory");
    if (status == STATUS_OK)
        status = checkpoint_place_find(request->roots, request->data_directory, row, POINTER, &place, error);
    /* When the checkpoint comes from a bucket, the state is fetched when the run asks for it. */
    if (status == STATUS_OK && (place.hold == NULL || !objects_place_is(row->repo))) {
        (void)snprintf(path, sizeof path, "%s/training.state", place.path);
        if (access(path, F_OK) != 0)
            status = error_set_at(error, STATUS_INVALID, POINTER,
                                  "its last checkpoint \"%.200s\" has no training state; branches continue a"
                                  " checkpoint that a train run wrote with keep_state",
                                  row->name);
        else
            status = advice_settings_check_step(path, row->name, row->step, error);
    }
    checkpoint_place_close(&place);
    free(row);
    return status;
}
