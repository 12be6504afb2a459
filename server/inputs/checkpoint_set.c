#include "inputs/checkpoint_set.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

const struct param checkpoint_set_item = {.type = PARAM_CHECKPOINT};

/* Adds the field of the request to the error. */
static enum status blame(enum status status, const char *pointer, struct error *error)
{
    const struct error cause = *error;
    if (status == STATUS_OK || status == STATUS_NO_MEMORY || status == STATUS_UNAVAILABLE) return status;
    return error_set_at(error, status == STATUS_NOT_FOUND ? STATUS_INVALID : status, pointer, "%s", cause.detail);
}

enum status checkpoint_set_list(struct run_request *request, const char *trajectory, const char *pointer, json_t *ids,
                                struct error *error)
{
    struct checkpoint *rows = NULL;
    size_t count = 0;
    enum status status = checkpoint_of_trajectory(request->connection, trajectory, &rows, &count, error);
    if (status != STATUS_OK) return status;
    if (count == 0) status = error_set_at(error, STATUS_INVALID, pointer, "the trajectory has no checkpoints");
    if (count > CHECKPOINT_SET_MOST)
        status = error_set_at(error, STATUS_INVALID, pointer,
                              "the trajectory has %zu checkpoints, at most %d can be used: list some", count,
                              CHECKPOINT_SET_MOST);
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        if (!checkpoint_place_known(&rows[i]))
            status = error_set_at(error, STATUS_INVALID, pointer,
                                  "nothing is known of where the files of its checkpoint \"%.200s\" are", rows[i].name);
        else if ((status = run_request_uses_checkpoint(request, &rows[i].id, error)) == STATUS_OK &&
                 json_array_append_new(ids, json_string(rows[i].id.text)) != 0)
            status = error_no_memory(error, "a list of checkpoints");
    }
    free(rows);
    return status;
}

static void label_set(const struct checkpoint *row, char **out)
{
    const size_t size = strlen(row->trajectory_name) + strlen(row->name) + 2;
    *out = malloc(size);
    if (*out != NULL) (void)snprintf(*out, size, "%s/%s", row->trajectory_name, row->name);
}

/* Finds a checkpoint's files. One in a bucket or on the hub need not be on this machine: the run that opens all of them
 * compares them. */
static enum status find(const struct run_request *request, const struct checkpoint *row, struct checkpoint_place *out,
                        bool *here, struct error *error)
{
    const enum status status = checkpoint_place_find(request->roots, request->data_directory, row, "", out, error);
    *here = status == STATUS_OK;
    return status == STATUS_INVALID && row->repo[0] != '\0' && row->fingerprint[0] != '\0' ? STATUS_OK : status;
}

/* Reads the headers of one checkpoint; *model is NULL when its files are elsewhere. */
static enum status look(const struct run_request *request, const char *id, json_t *contents, char **label,
                        struct model **model, struct error *error)
{
    struct checkpoint_place place = {0};
    struct checkpoint *row = malloc(sizeof *row);
    bool here = false;
    if (row == NULL) return error_no_memory(error, "a list of checkpoints");
    enum status status = checkpoint_find(request->connection, id, row, error);
    if (status == STATUS_OK) status = find(request, row, &place, &here, error);
    if (here) status = model_open_as(place.path, checkpoint_config(row), model, error);
    checkpoint_place_close(&place); /* the model keeps its files open */
    if (status == STATUS_OK) {
        label_set(row, label);
        const char *content = row->sha256[0] != '\0' ? row->sha256 : row->id.text;
        if (*label == NULL || json_array_append_new(contents, json_string(content)) != 0)
            status = error_no_memory(error, "a list of checkpoints");
    }
    free(row);
    return status;
}

enum status checkpoint_set_check(struct run_request *request, const json_t *ids, const char *pointer,
                                 struct error *error)
{
    const int64_t count = (int64_t)json_array_size(ids);
    int64_t opened = 0;
    struct model **models = NULL;
    char **labels = NULL;
    struct family family = {0};
    json_t *contents = json_array();
    enum status status = contents == NULL ? error_no_memory(error, "a list of checkpoints") : STATUS_OK;
    if (status == STATUS_OK) status = memory_new(count, sizeof *models, "checkpoint list", &models, error);
    if (status == STATUS_OK) status = memory_new(count, sizeof *labels, "checkpoint list", &labels, error);
    for (int64_t k = 0; k < count && status == STATUS_OK; k++) {
        free(labels[opened]); /* of a checkpoint whose files are elsewhere */
        labels[opened] = NULL;
        status = look(request, json_string_value(json_array_get(ids, (size_t)k)), contents, &labels[opened],
                      &models[opened], error);
        opened += models[opened] != NULL;
    }
    if (status == STATUS_OK && opened > 0)
        status = family_init((const struct model *const *)models, (const char *const *)labels, opened, &family, error);
    status = blame(status, pointer, error);
    if (status == STATUS_OK && json_object_set(request->identity, "checkpoints", contents) != 0)
        status = error_no_memory(error, "a list of checkpoints");
    family_reset(&family);
    for (int64_t k = 0; k < count; k++) {
        if (models != NULL) model_close(models[k]);
        if (labels != NULL) free(labels[k]);
    }
    memory_free(models);
    memory_free(labels);
    json_decref(contents);
    return status;
}

enum status checkpoint_set_open(const struct run_context *context, const char *const *ids, int64_t count, int precision,
                                struct checkpoint_set *out, struct error *error)
{
    enum status status;
    *out = (struct checkpoint_set){.count = count};
    if ((status = memory_new(count, sizeof *out->inputs, "checkpoint list", &out->inputs, error)) != STATUS_OK ||
        (status = memory_new(count, sizeof *out->models, "checkpoint list", &out->models, error)) != STATUS_OK ||
        (status = memory_new(count, sizeof *out->labels, "checkpoint list", &out->labels, error)) != STATUS_OK)
        goto done;
    for (int64_t k = 0; k < count; k++) {
        struct inputs *inputs = &out->inputs[k];
        if ((status = inputs_open(context, ids[k], precision, inputs, error)) != STATUS_OK) goto done;
        if (k > 0) {
            backend_free(inputs->backend);
            inputs->backend = NULL;
        }
        out->models[k] = inputs->model;
        out->labels[k] = inputs->row.name;
        if ((status = monitor_check(context->monitor, error)) != STATUS_OK) goto done;
    }
    status = family_init(out->models, out->labels, count, &out->family, error);
done:
    if (status != STATUS_OK) checkpoint_set_reset(out);
    return status;
}

void checkpoint_set_reset(struct checkpoint_set *set)
{
    family_reset(&set->family);
    for (int64_t k = 0; k < set->count && set->inputs != NULL; k++) inputs_reset(&set->inputs[k]);
    memory_free(set->inputs);
    memory_free(set->models);
    memory_free(set->labels);
    *set = (struct checkpoint_set){0};
}
