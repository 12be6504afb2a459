#include "kinds/made_checkpoint.h"

#include "hub/bucket_files.h"
#include "hub/selection.h"
#include "inputs/checkpoint_files.h"
#include "inputs/node_files.h"
#include "inputs/object_file.h"
#include "kinds/artifact_file.h"
#include "kinds/artifact_store.h"
#include "store/runs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { REQUEST_SECONDS = 300, TRIES = 5, LONGEST_WAIT_SECONDS = 10, CONTENT_DIGITS = 12 };

static enum status make_directory(const char *path, struct error *error)
{
    if (mkdir(path, 0700) == 0 || errno == EEXIST) return STATUS_OK;
    return error_set_errno(error, "making the directory of checkpoints");
}

enum status made_checkpoint_directory(const struct run_context *context, char *out, size_t size, struct error *error)
{
    if (snprintf(out, size, "%s/checkpoints/%s", context->data_directory, context->run) >= (int)size)
        return error_set(error, STATUS_INVALID, "the data directory's path is too long");
    char *slash = strrchr(out, '/');
    *slash = '\0';
    const enum status status = make_directory(out, error);
    *slash = '/';
    return status == STATUS_OK ? make_directory(out, error) : status;
}

/* ---- into the bucket ---- */

/* Whether an attempt at this run has registered the checkpoint with its place in a bucket, and its id. */
static enum status is_there(const struct run_context *context, const struct checkpoint_new *row, bool *there,
                            struct store_id *id, struct error *error)
{
    char reference[600];
    json_t *document = NULL;
    (void)snprintf(reference, sizeof reference, "%s/%s", row->trajectory, row->name);
    const enum status status = checkpoint_get(context->connection, reference, &document, error);
    const char *run = json_string_value(json_object_get(json_object_get(document, "derived_from"), "run"));
    *there = json_object_get(json_object_get(document, "source"), "commit") != NULL && run != NULL &&
             strcmp(run, context->run) == 0;
    if (*there) (void)snprintf(id->text, sizeof id->text, "%s", json_string_value(json_object_get(document, "id")));
    json_decref(document);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

/* "checkpoints/RUN/step0001000-1b2c3d4e5f60". An attempt on another kind of device may make other bits; the content in
 * the name gives these a place of their own, so nothing that is registered is ever overwritten. */
static enum status name_of(const struct run_context *context, const char *directory, char *out, size_t size,
                           struct error *error)
{
    char content[HASH_TEXT];
    struct model *model = NULL;
    const char *slash = strrchr(directory, '/');
    enum status status = model_open_as(directory, NULL, &model, error);
    if (status == STATUS_OK) status = checkpoint_files_fingerprint(model, content, error);
    model_close(model);
    if (status == STATUS_OK && snprintf(out, size, "checkpoints/%s/%s-%.*s", context->run,
                                        slash != NULL ? slash + 1 : directory, CONTENT_DIGITS, content) >= (int)size)
        status = error_set(error, STATUS_INVALID, "a checkpoint's path is too long");
    return status;
}

/* The value that serves as the commit of a place, as a run that fetches the checkpoint will find it. */
static enum status commit_of(const struct run_context *context, const char *place, char out[NAMES_COMMIT],
                             struct error *error)
{
    const struct repository_caller caller = {context->hub,
                                             {.monitor = context->monitor,
                                              .seconds = REQUEST_SECONDS,
                                              .tries = TRIES,
                                              .longest_wait = LONGEST_WAIT_SECONDS}};
    struct repository_file *files = NULL;
    size_t count = 0, taken = 0;
    enum status status = bucket_files_list(&caller, place, false, &files, &count, error);
    if (status == STATUS_OK) status = selection_make(files, count, NULL, 0, &taken, error);
    if (status == STATUS_OK) status = bucket_files_commit(files, taken, out, error);
    free(files);
    return status;
}

/* The files are on another node, whose attempt this one continues. *elsewhere: that attempt registered them. */
static enum status find_elsewhere(const struct checkpoint_new *row, bool there, bool *elsewhere, struct error *error)
{
    *elsewhere = access(row->path, F_OK) != 0 && errno == ENOENT;
    if (!*elsewhere || there) return STATUS_OK;
    return error_set(error, STATUS_INPUT_CHANGED,
                     "checkpoint \"%.200s\", which an earlier attempt at this run made on another machine, was deleted;"
                     " start a new run",
                     row->name);
}

/* *source: the source to register with; NULL where it is registered already. *elsewhere: nothing is left to do, and *id
 * is the checkpoint's. */
static enum status publish(const struct run_context *context, const struct checkpoint_new *row, json_t **source,
                           bool *elsewhere, struct store_id *id, struct error *error)
{
    char name[OBJECTS_PLACE_KEY], place[OBJECTS_PLACE_MOST + 1], commit[NAMES_COMMIT];
    bool there;
    *source = NULL;
    if (context->hub == NULL)
        return error_set(error, STATUS_UNSUPPORTED, "this worker has a bucket for artifacts and reads none");
    enum status status = is_there(context, row, &there, id, error);
    if (status == STATUS_OK) status = find_elsewhere(row, there, elsewhere, error);
    if (status != STATUS_OK || there) return status;
    monitor_log(context->monitor, "uploading checkpoint \"%.200s\"", row->name);
    if ((status = name_of(context, row->path, name, sizeof name, error)) != STATUS_OK) return status;
    if ((status = artifact_store_put_directory(context->artifact_place->store, row->path, name, context->monitor, place,
                                               error)) != STATUS_OK)
        return status;
    if ((status = commit_of(context, place, commit, error)) != STATUS_OK) return status;
    *source = json_pack("{ss ss}", "path", place, "commit", commit);
    return *source != NULL ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for a checkpoint");
}

enum status made_checkpoint_register(const struct run_context *context, const struct checkpoint_new *row,
                                     struct store_id *id, struct error *error)
{
    struct checkpoint_new new = *row;
    /* The bytes that are hashed are no part of the run's own progress, which counts steps or other units. */
    const struct monitor quiet = {
        .owner = context->monitor->owner, .log = context->monitor->log, .check = context->monitor->check};
    enum store_outcome outcome;
    json_t *source = NULL, *document = NULL;
    enum status status = STATUS_OK;
    bool elsewhere = false;
    if (context->artifact_place->store != NULL) status = publish(context, row, &source, &elsewhere, id, error);
    if (elsewhere) return status;
    new.source = source;
    if (status == STATUS_OK)
        status = checkpoint_files_register(context->connection, &new, NULL, &quiet, &outcome, &document, error);
    if (status == STATUS_OK) {
        (void)snprintf(id->text, sizeof id->text, "%s", json_string_value(json_object_get(document, "id")));
        node_files_at_path(context, id, true);
    }
    json_decref(document);
    json_decref(source);
    return status;
}

/* The directory belongs to one run and is never rewritten, so the file needs no commit of its own. */
enum status made_checkpoint_state(const struct run_context *context, const struct checkpoint *row,
                                  const struct checkpoint_place *place, struct checkpoint_place *out,
                                  struct error *error)
{
    struct object_file file = {.name = "training.state"};
    *out = (struct checkpoint_place){0};
    if (place->hold == NULL || !objects_place_is(row->repo)) return STATUS_OK;
    (void)snprintf(file.directory, sizeof file.directory, "%s", row->repo);
    const enum status status = object_file_open(context, &file, NULL, out->path, &out->hold, error);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

enum status made_checkpoint_run(struct connection *connection, const char *checkpoint, json_t **out,
                                struct error *error)
{
    json_t *document = NULL;
    *out = NULL;
    enum status status = checkpoint_get(connection, checkpoint, &document, error);
    const char *run = json_string_value(json_object_get(json_object_get(document, "derived_from"), "run"));
    if (status == STATUS_OK && run != NULL) status = run_get(connection, run, out, error);
    json_decref(document);
    if (*out != NULL && strcmp(json_string_value(json_object_get(*out, "kind")), "train") != 0) {
        json_decref(*out);
        *out = NULL;
    }
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}
