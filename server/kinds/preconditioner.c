#include "kinds/preconditioner.h"

#include "inputs/inputs.h"
#include "jobs/train/train.h"
#include "kinds/made_checkpoint.h"
#include "objects/objects_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POINTER    "/params/preconditioner"
#define AT(member) offsetof(struct sharpness_preconditioner, member)

#define BETA(label, member, text)                                                                                     \
    {                                                                                                                 \
        .name = (label), .type = PARAM_NUMBER, .offset = AT(member), .fallback = "null", .nullable = true,            \
        .null_is_negative = true, .minimum = 0, .maximum = 0.9999999,                                                 \
        .help = text " of its optimizer, for the correction of its step; null: that of the train run that wrote the " \
                     "checkpoint"                                                                                     \
    }

static const struct param state_params[] = {
    BETA("beta1", beta1, "Decay of the mean gradient"),
    BETA("beta2", beta2, "Decay of the mean square"),
    {.name = "epsilon",
     .type = PARAM_NUMBER,
     .offset = AT(epsilon),
     .fallback = "null",
     .nullable = true,
     .null_is_negative = true,
     .minimum = 1e-30,
     .maximum = 1,
     .help = "Added to the square root; null: that of the train run that wrote the checkpoint"},
    {0},
};

static const struct param gradients_params[] = {
    {.name = "batches",
     .type = PARAM_INTEGER,
     .offset = AT(batches),
     .fallback = "8",
     .minimum = 1,
     .maximum = 1 << 24,
     .help =
         "Batches of consecutive sequences of the run, in number as equal as can be; the second moments are the mean "
         "of the squared gradients of their mean losses"},
    {.name = "epsilon",
     .type = PARAM_NUMBER,
     .offset = AT(epsilon),
     .fallback = "1e-8",
     .minimum = 1e-30,
     .maximum = 1,
     .help = "Added to the square root"},
    {0},
};

const struct param_variant preconditioner_variants[] = {
    [SHARPNESS_MOMENTS_OF_STATE] = {"training_state", state_params, 0},
    [SHARPNESS_MOMENTS_OF_GRADIENTS] = {"squared_gradients", gradients_params, 0},
    {NULL, NULL, 0},
};

bool preconditioner_given(const struct sharpness_preconditioner *preconditioner)
{
    return preconditioner->epsilon != 0;
}

/* ---- The optimizer that the state is of ---- */

static enum status refuse_run(struct error *error)
{
    return error_set_at(error, STATUS_INVALID, POINTER,
                        "the checkpoint was not written by a train run of this server, so that the settings of its "
                        "optimizer are not known: give beta1, beta2 and epsilon");
}

static enum status optimizer_check(const json_t *optimizer, struct error *error)
{
    const char *name = json_string_value(json_object_get(optimizer, "name"));
    for (const struct optimizer_kind *const *kind = optimizer_kinds; *kind != NULL && name != NULL; kind++)
        if (strcmp((*kind)->name, name) == 0 && strcmp((*kind)->state, optimizer_adamw.state) == 0) return STATUS_OK;
    return error_set_at(
        error, STATUS_INVALID, POINTER,
        "the checkpoint was trained with \"%.40s\", whose state has no second moments of each parameter "
        "as AdamW's has: \"squared_gradients\" needs none",
        name != NULL ? name : "");
}

static enum status complete(struct run_request *request, const json_t *optimizer,
                            struct sharpness_preconditioner *preconditioner, struct error *error)
{
    struct {
        const char *name;
        double *value;
    } settings[] = {
        {"beta1", &preconditioner->beta1}, {"beta2", &preconditioner->beta2}, {"epsilon", &preconditioner->epsilon}};
    json_t *document = json_object_get(request->params, "preconditioner");
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        json_t *value = json_object_get(optimizer, settings[i].name);
        if (*settings[i].value >= 0) continue;
        if (!json_is_number(value)) return refuse_run(error);
        *settings[i].value = json_number_value(value);
        if (json_object_set(document, settings[i].name, value) != 0) return error_no_memory(error, "a run");
    }
    return STATUS_OK;
}

/* ---- The state ---- */

static void path_of(const char *directory, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%.*s/training.state", PATH_MAX - 16, directory);
}

static enum status identify(struct run_request *request, const struct state_mark *mark, const struct checkpoint *row,
                            struct error *error)
{
    json_t *text = mark != NULL           ? json_sprintf("%016llx", (unsigned long long)mark->checksum)
                   : row->repo[0] != '\0' ? inputs_pinned(row)
                                          : json_string(row->id.text);
    return text != NULL && json_object_set_new(request->identity, "training_state", text) == 0
               ? STATUS_OK
               : error_no_memory(error, "a run");
}

/* A state that lies elsewhere, on another node or in a bucket, is looked at by the run. */
static enum status state_check(struct run_request *request, const struct checkpoint *row, struct error *error)
{
    struct checkpoint_place place = {.hold = NULL};
    struct state_mark mark;
    struct error elsewhere;
    char path[PATH_MAX];
    enum status status =
        checkpoint_place_find(request->roots, request->data_directory, row, POINTER, &place, &elsewhere);
    if (status == STATUS_OK && (place.hold == NULL || !objects_place_is(row->repo))) {
        path_of(place.path, path);
        status = state_moments_mark(path, &mark, error);
        if (status == STATUS_NOT_FOUND)
            status = error_set_at(error, STATUS_INVALID, POINTER,
                                  "checkpoint \"%.200s\" has no training state; only train runs with keep_state leave "
                                  "one, beside checkpoints that are no averages: \"squared_gradients\" needs none",
                                  row->name);
        else if (status == STATUS_INVALID)
            (void)snprintf(error->pointer, sizeof error->pointer, "%s", POINTER);
        if (status == STATUS_OK) status = identify(request, &mark, row, error);
    } else {
        status = identify(request, NULL, row, error);
    }
    checkpoint_place_close(&place);
    return status;
}

enum status preconditioner_complete(struct run_request *request, const char *checkpoint,
                                    struct sharpness_preconditioner *preconditioner, struct error *error)
{
    json_t *run = NULL;
    if (preconditioner->moments != SHARPNESS_MOMENTS_OF_STATE) return STATUS_OK;
    struct checkpoint *row = malloc(sizeof *row);
    if (row == NULL) return error_no_memory(error, "a run");
    enum status status = made_checkpoint_run(request->connection, checkpoint, &run, error);
    const json_t *optimizer = json_object_get(json_object_get(run, "params"), "optimizer");
    if (status == STATUS_OK && run != NULL) status = optimizer_check(optimizer, error);
    if (status == STATUS_OK) status = checkpoint_find(request->connection, checkpoint, row, error);
    if (status == STATUS_OK) status = state_check(request, row, error);
    if (status == STATUS_OK) status = complete(request, optimizer, preconditioner, error);
    json_decref(run);
    free(row);
    return status;
}

enum status preconditioner_state(const struct run_context *context, const struct checkpoint *row,
                                 const struct checkpoint_place *place, const char *directory,
                                 struct checkpoint_place *hold, char out[PATH_MAX], struct error *error)
{
    path_of(directory, out);
    const enum status status = made_checkpoint_state(context, row, place, hold, error);
    if (status == STATUS_OK && hold->hold != NULL) (void)snprintf(out, PATH_MAX, "%s", hold->path);
    return status;
}
