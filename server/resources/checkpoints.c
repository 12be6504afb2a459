#include "hub/names.h"
#include "inputs/checkpoint_files.h"
#include "inputs/checkpoint_place.h"
#include "inputs/roots.h"
#include "objects/objects_place.h"
#include "resources/answer.h"
#include "resources/application.h"
#include "resources/handlers.h"
#include "resources/waiting.h"
#include "runs/prepare.h"
#include "schema/form.h"
#include "store/health.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 4000, NAME_BYTES = 200 };
#define COUNT_MAX 9007199254740992.0 /* 2^53: every JSON reader represents such integers */

struct checkpoint_body {
    const char *trajectory, *name;
    int64_t step, tokens;
    double learning_rate;
    struct source {
        const char *path, *repo, *revision, *config;
    } source;
    const char *tags;
};

static const struct param file_item = {
    .type = PARAM_STRING, .maximum = NAMES_FILE_MOST, .help = "Path in the repository or directory"};
static const struct param source_params[] = {
    {.name = "path",
     .type = PARAM_STRING,
     .offset = offsetof(struct source, path),
     .fallback = "null",
     .nullable = true,
     .maximum = PATH_BYTES,
     .help =
         "Directory in the Hugging Face layout, or one weights file with config.json beside it, below a root; or the"
         " directory of a bucket, s3://BUCKET/PREFIX, which is answered with the run that fetches it"},
    {.name = "repo",
     .type = PARAM_STRING,
     .schema = "Repository",
     .offset = offsetof(struct source, repo),
     .fallback = "null",
     .nullable = true,
     .maximum = NAMES_REPO_MOST,
     .form = &names_repo_form,
     .help = "Repository on the hub: ORGANISATION/NAME; answered with the run that fetches it"},
    {.name = "revision",
     .type = PARAM_STRING,
     .offset = offsetof(struct source, revision),
     .fallback = "null",
     .nullable = true,
     .maximum = NAME_BYTES,
     .help = "Branch, tag or commit of the repository; null: main"},
    {.name = "files",
     .type = PARAM_ARRAY,
     .item = &file_item,
     .minimum = 1,
     .fallback = "null",
     .nullable = true,
     .help = "Files of the repository or the bucket's directory; null: those that a checkpoint needs"},
    {.name = "config",
     .type = PARAM_JSON,
     .offset = offsetof(struct source, config),
     .fallback = "null",
     .nullable = true,
     .help = "Keys of a config.json that go before those of the file, or stand for it:"
             " for trainers' checkpoints without one, and for "
             "files that say something wrong"},
    {0},
};

#define PROGRESS_PARAMS                                                                                           \
    {.name = "step",                                                                                              \
     .type = PARAM_INTEGER,                                                                                       \
     .offset = offsetof(struct checkpoint_body, step),                                                            \
     .fallback = "null",                                                                                          \
     .nullable = true,                                                                                            \
     .maximum = COUNT_MAX,                                                                                        \
     .help = "Optimizer steps taken"},                                                                            \
        {.name = "tokens",                                                                                        \
         .type = PARAM_INTEGER,                                                                                   \
         .offset = offsetof(struct checkpoint_body, tokens),                                                      \
         .fallback = "null",                                                                                      \
         .nullable = true,                                                                                        \
         .maximum = COUNT_MAX,                                                                                    \
         .help = "Tokens trained on"},                                                                            \
    {                                                                                                             \
        .name = "learning_rate", .type = PARAM_NUMBER, .offset = offsetof(struct checkpoint_body, learning_rate), \
        .fallback = "null", .nullable = true, .maximum = 1e6, .help = "Learning rate at that step"                \
    }

const struct param checkpoints_post_body[] = {
    {.name = "trajectory",
     .type = PARAM_STRING,
     .offset = offsetof(struct checkpoint_body, trajectory),
     .maximum = NAME_BYTES,
     .form = &form_name,
     .help = "Name of its trajectory, which is made when it does not exist"},
    {.name = "name",
     .type = PARAM_STRING,
     .offset = offsetof(struct checkpoint_body, name),
     .maximum = NAME_BYTES,
     .form = &form_name,
     .help = "Unique in its trajectory"},
    PROGRESS_PARAMS,
    {.name = "source",
     .type = PARAM_OBJECT,
     .offset = offsetof(struct checkpoint_body, source),
     .schema = "WeightsSource",
     .children = source_params,
     .help = "Where the weights are"},
    {.name = "tags",
     .type = PARAM_JSON,
     .offset = offsetof(struct checkpoint_body, tags),
     .fallback = "{}",
     .help = "Anything worth remembering; keys are not empty and have no colon"},
    {0},
};

const struct param checkpoints_patch_body[] = {
    {.name = "name",
     .type = PARAM_STRING,
     .offset = offsetof(struct checkpoint_body, name),
     .fallback = "null",
     .maximum = NAME_BYTES,
     .form = &form_name,
     .help = "A new name"},
    PROGRESS_PARAMS,
    {.name = "tags",
     .type = PARAM_JSON,
     .offset = offsetof(struct checkpoint_body, tags),
     .fallback = "null",
     .nullable = true,
     .help = "Takes the place of all tags; null: none"},
    {0},
};

static const struct list_field fields[] = {
    {"id", true},
    {"name", true},
    {"trajectory", true},
    {"step", true},
    {"tokens", true},
    {"learning_rate", true},
    {"source", false},
    {"architecture", false},
    {"parameters", false},
    {"dtype", false},
    {"bytes", false},
    {"sha256", false},
    {"derived_from", false},
    {"tags", true},
    {"created_at", true},
    {0},
};

enum status checkpoints_list(struct http_context *context, const struct request *request, struct response *response,
                             struct error *error)
{
    struct list_request asked;
    json_t *document = NULL;
    enum status status = answer_list_request(request, fields, &asked, error);
    if (status == STATUS_OK)
        status = checkpoint_list(application_connection(context), request_query(request, "trajectory"), &asked.filter,
                                 &asked.page, &document, error);
    return answer_listed(response, request, &asked, status, document, error);
}

enum status checkpoints_get(struct http_context *context, const struct request *request, struct response *response,
                            struct error *error)
{
    return answer_found(response, application_connection(context), checkpoint_get,
                        request_parameter(request, "checkpoint"), error);
}

/* Whether the files are not on this machine: on the hub, or in a bucket. */
static bool is_remote(const struct source *source)
{
    return source->repo != NULL || (source->path != NULL && objects_place_is(source->path));
}

static enum status check_source(const struct source *source, const json_t *files, struct error *error)
{
    if (source->config != NULL && strlen(source->config) >= CHECKPOINT_CONFIG_SIZE / 2)
        return error_set_at(error, STATUS_TOO_LARGE, "/source/config", "%zu bytes, at most %d are accepted",
                            strlen(source->config), CHECKPOINT_CONFIG_SIZE / 2 - 1);
    if (source->repo != NULL && source->path != NULL)
        return error_set_at(error, STATUS_INVALID, "/source/path", "either a path or a repo, not both");
    if (source->repo != NULL) return STATUS_OK;
    if (source->path == NULL)
        return error_set_at(error, STATUS_INVALID, "/source/path", "is missing: the directory of the checkpoint");
    if (source->revision != NULL) return error_set_at(error, STATUS_INVALID, "/source/revision", "goes with repo only");
    if (json_is_array(files) && !is_remote(source))
        return error_set_at(error, STATUS_INVALID, "/source/files",
                            "goes with repo, or with the directory of a bucket: name the weights file in path");
    return STATUS_OK;
}

/* Resolves the canonical path, which must lie below the roots, as must every link in its directory. */
static enum status resolve_path(const struct roots *roots, const char *path, char *out, size_t size,
                                struct error *error)
{
    struct stat found;
    char directory[PATH_MAX];
    const enum status status = roots_resolve(roots, path, "/source/path", out, size, error);
    if (status != STATUS_OK) return status;
    (void)snprintf(directory, sizeof directory, "%s", out);
    char *slash = strrchr(directory, '/');
    if (stat(out, &found) == 0 && S_ISREG(found.st_mode) && slash != NULL) *slash = '\0';
    return roots_check_links(roots, directory, "/source/path", error);
}

/* A missing or unreadable file is a fault of the body that names it: 404 would be about the address, and 403 about
 * tokens. */
static enum status blame_source(enum status status, struct error *error)
{
    if (status == STATUS_OK || error->pointer[0] != '\0') return status;
    (void)snprintf(error->pointer, sizeof error->pointer, "%s",
                   strncmp(error->detail, "source.config", 13) == 0 ? "/source/config" : "/source/path");
    if (status == STATUS_NOT_FOUND || status == STATUS_FORBIDDEN) status = error->status = STATUS_INVALID;
    return status;
}

static enum status register_body(struct http_context *context, const struct monitor *monitor,
                                 const struct checkpoint_body *body, const json_t *document,
                                 enum store_outcome *outcome, json_t **made, struct error *error)
{
    char path[PATH_MAX];
    enum status status;
    status = resolve_path(application_of(context)->roots, body->source.path, path, sizeof path, error);
    if (status != STATUS_OK) return status;
    json_t *source = json_pack("{ss}", "path", path),
           *config = json_object_get(json_object_get(document, "source"), "config");
    if (json_is_object(config) && json_object_set(source, "config", config) != 0) {
        json_decref(source);
        source = NULL;
    }
    const struct checkpoint_new row = {
        .trajectory = body->trajectory,
        .name = body->name,
        .step = json_is_null(json_object_get(document, "step")) ? NULL : &body->step,
        .tokens = json_is_null(json_object_get(document, "tokens")) ? NULL : &body->tokens,
        .learning_rate = json_is_null(json_object_get(document, "learning_rate")) ? NULL : &body->learning_rate,
        .path = path,
        .source = source,
        .tags = json_object_get(document, "tags"),
    };
    if (source == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a checkpoint");
    status = checkpoint_files_register(application_connection(context), &row, NULL, monitor, outcome, made, error);
    json_decref(source);
    return blame_source(status, error);
}

/* Turns the body into parameters of a fetch run. */
static json_t *fetch_params(const struct checkpoint_body *body, const json_t *document)
{
    static const char *const names[] = {"trajectory", "name", "step", "tokens", "learning_rate", "tags"};
    json_t *params = body->source.repo == NULL
                         ? json_pack("{ss}", "path", body->source.path)
                         : json_pack("{ss ss}", "repo", body->source.repo, "revision",
                                     body->source.revision != NULL ? body->source.revision : "main");
    const json_t *source = json_object_get(document, "source");
    json_t *files = json_object_get(source, "files"), *config = json_object_get(source, "config");
    if (params != NULL && json_is_array(files)) (void)json_object_set(params, "files", files);
    if (params != NULL && json_is_object(config)) (void)json_object_set(params, "config", config);
    for (size_t i = 0; params != NULL && i < sizeof names / sizeof names[0]; i++) {
        json_t *value = json_object_get(document, names[i]);
        if (value != NULL && !json_is_null(value)) (void)json_object_set(params, names[i], value);
    }
    return params;
}

/* Translates the pointer "/params/repo" to "/source/repo" of the body. */
static void point_to_body(char pointer[sizeof((struct error *)0)->pointer])
{
    char found[sizeof((struct error *)0)->pointer];
    if (strncmp(pointer, "/params", 7) != 0) return;
    (void)snprintf(found, sizeof found, "%s", pointer + 7);
    const bool of_source = strncmp(found, "/repo", 5) == 0 || strncmp(found, "/path", 5) == 0 ||
                           strncmp(found, "/revision", 9) == 0 || strncmp(found, "/files", 6) == 0 ||
                           strncmp(found, "/config", 7) == 0;
    (void)snprintf(pointer, sizeof found, "%s%.120s", of_source ? "/source" : "", found);
}

static enum status post_fetch(struct http_context *context, const struct request *request,
                              const struct checkpoint_body *body, enum store_outcome *outcome, json_t **made,
                              struct error *error)
{
    struct connection *connection = application_connection(context);
    const struct application *application = application_of(context);
    struct faults faults = {0};
    struct prepared_run run = {0};
    struct idempotency_record record;
    json_t *params = fetch_params(body, request->body);
    enum status status = params == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a run")
                                        : prepare_run(connection, &fetch_kind, params, application->roots,
                                                      application->data_directory, true, &faults, &run, error);
    if (status == STATUS_OK) {
        struct run_new row = prepare_row(&run);
        row.requester = request->principal.name;
        row.queued_most = application->queue_per_token;
        row.record = application_record(request, waiting_for_run.prefix, 202, 200, &record);
        status = run_insert(connection, &row, outcome, made, error);
    }
    if (status != STATUS_OK) point_to_body(error->pointer);
    prepare_reset(&run);
    json_decref(params);
    return status;
}

enum status checkpoints_post(struct http_context *context, const struct request *request, struct response *response,
                             struct error *error)
{
    struct schema_filled filled = {0};
    enum store_outcome outcome = STORE_CREATED;
    json_t *document = NULL;
    enum status status;
    if (waiting_resume(context, request, response, &waiting_for_run, &status, error)) return status;
    status = answer_body(request, response, checkpoints_post_body, sizeof(struct checkpoint_body), &filled, error);
    const struct checkpoint_body *body = filled.params;
    if (status == STATUS_OK)
        status = check_source(&body->source, json_object_get(json_object_get(request->body, "source"), "files"), error);
    if (status == STATUS_OK) status = form_check_tags(json_object_get(request->body, "tags"), "/tags", error);
    const bool fetched = status == STATUS_OK && is_remote(&body->source);
    if (fetched)
        status = post_fetch(context, request, body, &outcome, &document, error);
    else if (status == STATUS_OK)
        status = register_body(context, request->monitor, body, request->body, &outcome, &document, error);
    schema_filled_reset(&filled);
    if (status != STATUS_OK) return status;
    store_notify(application_connection(context));
    const bool existed = outcome == STORE_EXISTED;
    if (fetched) return waiting_made(request, response, &waiting_for_run, existed ? 200 : 202, document, error);
    return answer_made(response, existed ? 200 : 201, "/v1/checkpoints/", document, error);
}

enum status checkpoints_patch(struct http_context *context, const struct request *request, struct response *response,
                              struct error *error)
{
    json_t *document = NULL, *changes = NULL;
    enum status status =
        answer_changes(request, response, checkpoints_patch_body, sizeof(struct checkpoint_body), &changes, error);
    if (status == STATUS_OK) status = form_check_tags(json_object_get(changes, "tags"), "/tags", error);
    if (status == STATUS_OK)
        status = checkpoint_patch(application_connection(context), request_parameter(request, "checkpoint"), changes,
                                  &document, error);
    json_decref(changes);
    if (status != STATUS_OK) return status;
    store_notify(application_connection(context));
    return response_json(response, 200, document, error);
}

enum status checkpoints_delete(struct http_context *context, const struct request *request, struct response *response,
                               struct error *error)
{
    struct connection *connection = application_connection(context);
    return answer_deleted(response, connection,
                          checkpoint_delete(connection, request_parameter(request, "checkpoint"), error));
}

static json_t *describe_tensor(const struct weights *weights, int64_t index)
{
    struct weights_tensor tensor;
    json_t *shape = json_array();
    weights_tensor(weights, index, &tensor);
    for (int i = 0; shape != NULL && i < tensor.rank; i++)
        (void)json_array_append_new(shape, json_integer(tensor.shape[i]));
    return json_pack("{ss ss so sI}", "name", tensor.name, "dtype", dtype_info(tensor.dtype)->name, "shape", shape,
                     "bytes", (json_int_t)tensor.bytes);
}

static enum status list_tensors(const struct application *application, const struct checkpoint *row, json_t **document,
                                struct error *error)
{
    struct checkpoint_place place = {0};
    struct weights *weights = NULL;
    json_t *items = json_array();
    enum status status = checkpoint_place_find(application->roots, application->data_directory, row, "", &place, error);
    if (status == STATUS_OK && place.hold == NULL)
        status = resolve_path(application->roots, row->path, place.path, sizeof place.path, error);
    error->pointer[0] = '\0';
    if (status == STATUS_OK) status = weights_open(place.path, &weights, error);
    for (int64_t i = 0; status == STATUS_OK && i < weights_count(weights); i++)
        if (json_array_append_new(items, describe_tensor(weights, i)) != 0)
            status = error_set(error, STATUS_NO_MEMORY, "no memory for a list");
    weights_close(weights);
    checkpoint_place_close(&place);
    *document = json_pack("{so sn}", "items", items, "next");
    return status;
}

enum status checkpoints_tensors(struct http_context *context, const struct request *request, struct response *response,
                                struct error *error)
{
    json_t *document = NULL;
    struct checkpoint *row = malloc(sizeof *row);
    if (row == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a checkpoint");
    enum status status =
        checkpoint_find(application_connection(context), request_parameter(request, "checkpoint"), row, error);
    if (status == STATUS_OK) status = list_tensors(application_of(context), row, &document, error);
    free(row);
    if (status == STATUS_OK) return response_json(response, 200, document, error);
    json_decref(document);
    return status;
}

enum status checkpoints_health(struct http_context *context, const struct request *request, struct response *response,
                               struct error *error)
{
    return answer_found(response, application_connection(context), health_get, request_parameter(request, "checkpoint"),
                        error);
}
