#include "inputs/checkpoint_place.h"

#include "inputs/checkpoint_files.h"
#include "inputs/node_files.h"
#include "inputs/roots.h"
#include "objects/objects_place.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool checkpoint_place_known(const struct checkpoint *row)
{
    return row->path[0] != '\0' || row->commit[0] != '\0';
}

/* ---- names of files, as a row has them ---- */

struct name_list {
    json_t *json; /* owned; the names are lent from it */
    const char **names;
    size_t count;
};

static void name_list_reset(struct name_list *list)
{
    free(list->names);
    json_decref(list->json);
    *list = (struct name_list){0};
}

static enum status name_list_read(const char *text, struct name_list *out, struct error *error)
{
    size_t index;
    const json_t *item;
    *out = (struct name_list){0};
    if (text[0] == '\0') return STATUS_OK;
    out->json = json_loads(text, 0, NULL);
    out->names = calloc(json_array_size(out->json) + 1, sizeof *out->names);
    if (out->json == NULL || out->names == NULL) {
        name_list_reset(out);
        return error_no_memory(error, "a checkpoint");
    }
    json_array_foreach(out->json, index, item) if (json_is_string(item)) out->names[out->count++] =
        json_string_value(item);
    return STATUS_OK;
}

/* ---- files that runs need ---- */

static enum status needs_read(struct connection *connection, struct eviction_need **out, size_t *count,
                              struct error *error)
{
    struct checkpoint_need *rows = NULL;
    size_t row_count = 0;
    enum status status = checkpoint_needs(connection, &rows, &row_count, error);
    *count = 0;
    *out = status == STATUS_OK ? calloc(row_count + 1, sizeof **out) : NULL;
    if (status == STATUS_OK && *out == NULL) status = error_no_memory(error, "a checkpoint");
    for (size_t i = 0; i < row_count && status == STATUS_OK; i++) {
        struct name_list files;
        status = name_list_read(rows[i].files, &files, error);
        if (status == STATUS_OK)
            status = hub_cache_key(rows[i].repo, rows[i].commit, files.names, files.count, (*out)[i].key, error);
        (*out)[i].running = rows[i].running;
        *count = i + 1;
        name_list_reset(&files);
    }
    free(rows);
    return status;
}

enum status checkpoint_place_fetch(const struct run_context *context, const struct fetch_request *request,
                                   struct fetch_result *out, struct error *error)
{
    struct eviction_need *needs = NULL;
    struct fetch_request complete = *request;
    *out = (struct fetch_result){0};
    if (context->hub == NULL) return error_set(error, STATUS_UNSUPPORTED, "this worker fetches nothing from a hub");
    enum status status = needs_read(context->connection, &needs, &complete.need_count, error);
    complete.hub = context->hub;
    complete.needs = needs;
    complete.monitor = context->monitor;
    if (status == STATUS_OK) status = fetch_run(&complete, out, error);
    free(needs);
    return status;
}

/* ---- a checkpoint that is fetched ---- */

enum status checkpoint_place_fill(struct connection *connection, struct checkpoint *row, const char *path,
                                  struct error *error)
{
    struct checkpoint_files files;
    if (row->fingerprint[0] != '\0') return STATUS_OK;
    enum status status = checkpoint_files_read(path, checkpoint_config(row), NULL, &files, error);
    if (status != STATUS_OK) return status;
    const struct checkpoint_new new = {
        .step = files.step >= 0 ? &files.step : NULL,
        .tokens = files.tokens >= 0 ? &files.tokens : NULL,
        .learning_rate = isfinite(files.learning_rate) ? &files.learning_rate : NULL,
        .architecture = files.architecture,
        .parameters = &files.parameters,
        .bytes = &files.bytes,
        .dtype = files.dtype,
        .fingerprint = files.fingerprint,
        .files = files.files,
        .sha256 = files.sha256[0] != '\0' ? files.sha256 : NULL,
    };
    status = checkpoint_fill(connection, &row->id, &new, error);
    (void)snprintf(row->fingerprint, sizeof row->fingerprint, "%s", files.fingerprint);
    (void)snprintf(row->sha256, sizeof row->sha256, "%s", files.sha256);
    (void)snprintf(row->architecture, sizeof row->architecture, "%s", files.architecture);
    checkpoint_files_reset(&files);
    return status;
}

static struct fetch_request request_of(const struct checkpoint *row, const struct name_list *files)
{
    return (struct fetch_request){.repo = row->repo,
                                  .revision = row->revision,
                                  .commit = row->commit,
                                  .files = files->names,
                                  .file_count = files->count};
}

static enum status open_fetched(const struct run_context *context, struct checkpoint *row, struct checkpoint_place *out,
                                struct error *error)
{
    struct fetch_result found = {0};
    struct name_list files;
    enum status status = name_list_read(row->files, &files, error);
    if (status != STATUS_OK) return status;
    const struct fetch_request request = request_of(row, &files);
    status = checkpoint_place_fetch(context, &request, &found, error);
    name_list_reset(&files);
    (void)snprintf(out->path, sizeof out->path, "%s", found.path);
    out->hold = found.hold;
    if (status == STATUS_OK) node_files_fetched(context, &row->id, &found);
    return status == STATUS_OK ? checkpoint_place_fill(context->connection, row, out->path, error) : status;
}

/* ---- a checkpoint at a path ---- */

/* A path may not exist on this machine: it may belong to another, or to the data directory of the worker that made the
 * files. */
static enum status not_here(const struct checkpoint *row, enum status status, const char *pointer, struct error *error)
{
    const struct error cause = *error;
    return error_set_at(
        error, status, pointer,
        "the files of checkpoint \"%.200s\" are not on this machine (%.200s): let its machines share them,"
        " or keep what runs make in a bucket (--artifacts)",
        row->name, cause.detail);
}

static enum status open_path(const struct run_context *context, const struct checkpoint *row,
                             struct checkpoint_place *out, struct error *error)
{
    const enum status status = roots_resolve(context->roots, row->path, "", out->path, sizeof out->path, error);
    node_files_at_path(context, &row->id, status == STATUS_OK);
    return status == STATUS_INVALID ? not_here(row, STATUS_NOT_FOUND, "", error) : status;
}

/* A checkpoint that a run made here and uploaded for the other machines. The files must be that checkpoint, because
 * another machine's data directory may have the same path. */
static bool made_here(const struct roots *roots, const struct checkpoint *row, char out[sizeof row->path])
{
    char fingerprint[HASH_TEXT];
    struct model *model = NULL;
    struct error ignored;
    const bool here = row->path[0] != '\0' &&
                      roots_resolve(roots, row->path, "", out, sizeof row->path, &ignored) == STATUS_OK &&
                      model_open_as(out, checkpoint_config(row), &model, &ignored) == STATUS_OK &&
                      checkpoint_files_fingerprint(model, fingerprint, &ignored) == STATUS_OK &&
                      strcmp(fingerprint, row->fingerprint) == 0;
    model_close(model);
    return here;
}

/* ---- both cases ---- */

enum status checkpoint_place_open(const struct run_context *context, struct checkpoint *row,
                                  struct checkpoint_place *out, struct error *error)
{
    *out = (struct checkpoint_place){0};
    if (row->repo[0] == '\0') return open_path(context, row, out, error);
    if (made_here(context->roots, row, out->path)) {
        node_files_at_path(context, &row->id, true);
        return STATUS_OK;
    }
    const enum status status = open_fetched(context, row, out, error);
    if (status != STATUS_OK) checkpoint_place_close(out);
    return status;
}

enum status checkpoint_place_find(const struct roots *roots, const char *data_directory, const struct checkpoint *row,
                                  const char *pointer, struct checkpoint_place *out, struct error *error)
{
    struct fetch_result found = {0};
    struct name_list files;
    char directory[PATH_MAX];
    *out = (struct checkpoint_place){0};
    if (row->repo[0] == '\0') {
        const enum status status = roots_resolve(roots, row->path, pointer, out->path, sizeof out->path, error);
        return status == STATUS_INVALID ? not_here(row, status, pointer, error) : status;
    }
    if (made_here(roots, row, out->path)) return STATUS_OK;
    enum status status = name_list_read(row->files, &files, error);
    if (status != STATUS_OK) return status;
    const struct fetch_request request = request_of(row, &files);
    (void)snprintf(directory, sizeof directory, "%s/hub", data_directory);
    status = fetch_find(directory, &request, &found, error);
    name_list_reset(&files);
    if (status != STATUS_OK) return status;
    (void)snprintf(out->path, sizeof out->path, "%s", found.path);
    out->hold = found.hold;
    if (out->hold != NULL) return STATUS_OK;
    const bool of_bucket = objects_place_is(row->repo);
    const bool chosen = row->files[0] != '\0', configured = checkpoint_config(row) != NULL;
    return error_set_at(
        error, STATUS_INVALID, pointer,
        "the files of checkpoint \"%.80s\" are not here: fetch them first, with a run of the kind fetch%s%s%s%s: "
        "{\"%s\": \"%.120s\", %s%.80s%s\"trajectory\": \"%.80s\", \"name\": \"%.80s\"}",
        row->name, chosen || configured ? " and its source's " : "", chosen ? "\"files\"" : "",
        chosen && configured ? " and " : "", configured ? "\"config\"" : "", of_bucket ? "path" : "repo", row->repo,
        of_bucket ? "" : "\"revision\": \"", row->revision, of_bucket ? "" : "\", ", row->trajectory_name, row->name);
}

enum status checkpoint_place_for_run(const struct run_context *context, struct checkpoint *row, const char *pointer,
                                     struct checkpoint_place *out, struct error *error)
{
    if (!context->planning) return checkpoint_place_open(context, row, out, error);
    return checkpoint_place_find(context->roots, context->data_directory, row, pointer, out, error);
}

void checkpoint_place_close(struct checkpoint_place *place)
{
    hub_cache_release(place->hold);
    *place = (struct checkpoint_place){0};
}
