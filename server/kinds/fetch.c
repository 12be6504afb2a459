#include "hub/fetch.h"

#include "hub/revision_name.h"
#include "inputs/checkpoint_files.h"
#include "inputs/checkpoint_place.h"
#include "inputs/inputs.h"
#include "inputs/node_files.h"
#include "kinds/kind.h"
#include "objects/objects_place.h"
#include "schema/form.h"
#include "schema/result_render.h"
#include "json/written.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fetch_params {
    const char *repo, *path, *revision, *trajectory, *name, *config, *tags;
    struct param_list files;
    int64_t step, tokens;
    double learning_rate;
};
#define AT(field) offsetof(struct fetch_params, field)

enum { FILES_MOST = 200, FILES_TEXT = sizeof((struct checkpoint *)0)->files - 1 };
#define COUNT_MAX 9007199254740992.0

static const struct param file_item = {
    .type = PARAM_STRING, .maximum = NAMES_FILE_MOST, .help = "Path in the repository or directory"};
static const struct param fetch_params[] = {
    {.name = "repo",
     .type = PARAM_STRING,
     .schema = "Repository",
     .offset = AT(repo),
     .fallback = "null",
     .nullable = true,
     .maximum = NAMES_REPO_MOST,
     .form = &names_repo_form,
     .help = "Repository on the hub: ORGANISATION/NAME"},
    {.name = "path",
     .type = PARAM_STRING,
     .offset = AT(path),
     .fallback = "null",
     .nullable = true,
     .maximum = OBJECTS_PLACE_MOST,
     .help = "In place of repo: the directory of a bucket, s3://BUCKET/PREFIX"},
    {.name = "revision",
     .type = PARAM_STRING,
     .offset = AT(revision),
     .fallback = "\"main\"",
     .maximum = NAMES_REVISION_MOST,
     .help = "Of a repository: branch, tag or commit; the commit that it is when the run begins is what is registered"},
    {.name = "files",
     .type = PARAM_LIST,
     .offset = AT(files),
     .fallback = "null",
     .nullable = true,
     .minimum = 1,
     .maximum = FILES_MOST,
     .item = &file_item,
     .help = "Files to fetch; null: config.json, the tokenizer, and the weights at the top in one format"},
    INPUTS_NAME_PARAM(
        "trajectory", AT(trajectory),
        "Trajectory of the checkpoint, made when it does not exist; null: the repository's name without its"
        " organisation, or the name of the directory above"),
    INPUTS_NAME_PARAM("name", AT(name),
                      "Name of the checkpoint; null: the revision, with \"-\" for \"/\","
                      " or the name of the directory"),
    {.name = "step",
     .type = PARAM_INTEGER,
     .offset = AT(step),
     .fallback = "null",
     .nullable = true,
     .null_is_negative = true,
     .maximum = COUNT_MAX,
     .help = "Optimizer steps taken; null: what the training state or the revision's name says"},
    {.name = "tokens",
     .type = PARAM_INTEGER,
     .offset = AT(tokens),
     .fallback = "null",
     .nullable = true,
     .null_is_negative = true,
     .maximum = COUNT_MAX,
     .help = "Tokens trained on; null: likewise"},
    {.name = "learning_rate",
     .type = PARAM_NUMBER,
     .offset = AT(learning_rate),
     .fallback = "null",
     .nullable = true,
     .null_is_negative = true,
     .maximum = 1e6,
     .help = "Learning rate at that step; null: likewise"},
    {.name = "config",
     .type = PARAM_JSON,
     .offset = AT(config),
     .fallback = "null",
     .nullable = true,
     .help = "Keys of a config.json that override the repository's, or replace a missing one"},
    {.name = "tags",
     .type = PARAM_JSON,
     .offset = AT(tags),
     .fallback = "{}",
     .help = "Anything worth remembering; keys are not empty and have no colon"},
    {0},
};

/* ---- when posted ---- */

static enum status check_name(const char *name, const char *pointer, struct error *error)
{
    if (form_name.fits(name) && strlen(name) <= STORE_NAME_GIVEN) return STATUS_OK;
    return error_set_at(error, STATUS_INVALID, pointer,
                        "must have 1 to %d bytes without \"/\" and control characters, and"
                        " not be \".\" or \"..\"",
                        STORE_NAME_GIVEN);
}

/* Copies the text after the last slash of text[0 … length) into `out`; returns the length of the text before that
 * slash. */
static size_t last_part(const char *text, size_t length, char *out, size_t size)
{
    size_t begin = length;
    while (begin > 0 && text[begin - 1] != '/') begin--;
    (void)snprintf(out, size, "%.*s", (int)(length - begin), text + begin);
    return begin > 0 ? begin - 1 : 0;
}

/* The default trajectory and name: for a repository, its name and that of the revision; for a directory of a bucket,
 * the name of the directory above and its own. */
static void default_names(const struct fetch_params *params, char *trajectory, char *name, size_t size)
{
    if (params->path == NULL) {
        (void)last_part(params->repo, strlen(params->repo), trajectory, size);
        (void)snprintf(name, size, "%s", params->revision);
        for (char *at = name; *at != '\0'; at++)
            if (*at == '/') *at = '-';
        return;
    }
    const char *place = params->path + strlen(OBJECTS_PLACE_SCHEME);
    const size_t above = last_part(place, strlen(place), name, size);
    (void)last_part(place, above > 0 ? above : strlen(place), trajectory, size);
}

/* Writes defaults that depend on other parameters, and the canonical form of the place. */
static enum status complete(struct run_request *request, const struct fetch_params *params,
                            char trajectory[STORE_NAME_GIVEN + 8], char name[STORE_NAME_GIVEN + 8], struct error *error)
{
    char default_trajectory[STORE_NAME_GIVEN + 8], default_name[STORE_NAME_GIVEN + 8];
    default_names(params, default_trajectory, default_name, sizeof default_name);
    (void)snprintf(trajectory, STORE_NAME_GIVEN + 8, "%s",
                   params->trajectory != NULL ? params->trajectory : default_trajectory);
    (void)snprintf(name, STORE_NAME_GIVEN + 8, "%s", params->name != NULL ? params->name : default_name);
    if (json_object_set_new(request->params, "trajectory", json_string(trajectory)) != 0 ||
        json_object_set_new(request->params, "name", json_string(name)) != 0 ||
        (params->path != NULL && json_object_set_new(request->params, "path", json_string(params->path)) != 0))
        return error_set(error, STATUS_NO_MEMORY, "no memory for a run");
    return STATUS_OK;
}

/* Checks the repository, or the place in its canonical form: *params may lend from `place`. */
static enum status check_source(struct fetch_params *params, char place[OBJECTS_PLACE_MOST + 8], struct error *error)
{
    struct objects_place read;
    if ((params->repo == NULL) == (params->path == NULL))
        return error_set_at(error, STATUS_INVALID, params->repo == NULL ? "/params/repo" : "/params/path",
                            params->repo == NULL ? "is missing: a repository, or in its place a path"
                                                 : "either a path or a repo, not both");
    if (params->repo != NULL) {
        const enum status status = names_check_repo(params->repo, "/params/repo", error);
        return status == STATUS_OK ? names_check_revision(params->revision, "/params/revision", error) : status;
    }
    if (strcmp(params->revision, "main") != 0)
        return error_set_at(error, STATUS_INVALID, "/params/revision", "goes with repo only");
    const enum status status = objects_place_read(params->path, "/params/path", &read, error);
    if (status != STATUS_OK) return status;
    objects_place_write(&read, place, OBJECTS_PLACE_MOST + 8);
    params->path = place;
    return STATUS_OK;
}

/* The files as the store's row has them: JSON, or "" for none. */
static enum status files_text(const struct param_list *files, char out[FILES_TEXT + 1], struct error *error)
{
    json_t *list = json_array();
    out[0] = '\0';
    for (int64_t i = 0; i < files->count; i++) (void)json_array_append_new(list, json_string(files->texts[i]));
    char *text = files->count > 0 ? written_json(list, JSON_COMPACT) : NULL;
    const bool good = files->count == 0 || (text != NULL && strlen(text) <= FILES_TEXT);
    if (good && text != NULL) (void)snprintf(out, FILES_TEXT + 1, "%s", text);
    free(text);
    json_decref(list);
    return good ? STATUS_OK
                : error_set_at(error, STATUS_INVALID, "/params/files", "their names have more than %d bytes together",
                               (int)FILES_TEXT);
}

/* Whether both are the same document, or both are absent. */
static bool same_config(const char *a, const char *b)
{
    json_t *x = a != NULL ? json_loads(a, 0, NULL) : NULL, *y = b != NULL ? json_loads(b, 0, NULL) : NULL;
    const bool same = (x == NULL && y == NULL) || json_equal(x, y) == 1;
    json_decref(x);
    json_decref(y);
    return same;
}

/* The repository or place, as a row has it. */
static const char *remote_of(const struct fetch_params *params)
{
    return params->path != NULL ? params->path : params->repo;
}

/* Finds the row of that name, which must be of the same revision. row->id is "" when there is none. */
static enum status find_row(struct connection *connection, const struct fetch_params *params, const char *trajectory,
                            const char *name, struct checkpoint *row, struct error *error)
{
    char reference[2 * STORE_NAME_GIVEN + 24], files[FILES_TEXT + 1];
    enum status status = files_text(&params->files, files, error);
    if (status != STATUS_OK) return status;
    (void)snprintf(reference, sizeof reference, "%s/%s", trajectory, name);
    *row = (struct checkpoint){0};
    status = checkpoint_find(connection, reference, row, error);
    if (status == STATUS_NOT_FOUND) return STATUS_OK;
    if (status != STATUS_OK) return status;
    if (strcmp(row->repo, remote_of(params)) == 0 &&
        strcmp(row->revision, params->path != NULL ? "" : params->revision) == 0 && strcmp(row->files, files) == 0 &&
        same_config(checkpoint_config(row), params->config))
        return STATUS_OK;
    return error_set_at(error, STATUS_CONFLICT, "/params/name",
                        "a checkpoint \"%.200s\" with another source is registered there: choose another name", name);
}

static enum status fetch_check(struct run_request *request, const void *filled, struct error *error)
{
    struct fetch_params checked = *(const struct fetch_params *)filled;
    const struct fetch_params *params = &checked;
    char trajectory[STORE_NAME_GIVEN + 8], name[STORE_NAME_GIVEN + 8], pointer[64], place[OBJECTS_PLACE_MOST + 8];
    enum status status;
    struct checkpoint *row = NULL;
    if ((status = check_source(&checked, place, error)) != STATUS_OK) return status;
    for (int64_t i = 0; i < params->files.count; i++) {
        (void)snprintf(pointer, sizeof pointer, "/params/files/%lld", (long long)i);
        if ((status = names_check_file(params->files.texts[i], pointer, error)) != STATUS_OK) return status;
    }
    if (params->config != NULL && strlen(params->config) >= CHECKPOINT_CONFIG_SIZE / 2)
        return error_set_at(error, STATUS_TOO_LARGE, "/params/config", "%zu bytes, at most %d are accepted",
                            strlen(params->config), CHECKPOINT_CONFIG_SIZE / 2 - 1);
    if ((status = complete(request, params, trajectory, name, error)) != STATUS_OK) return status;
    if ((status = check_name(trajectory, "/params/trajectory", error)) != STATUS_OK) return status;
    if ((status = check_name(name, "/params/name", error)) != STATUS_OK) return status;
    status = form_check_tags(json_object_get(request->params, "tags"), "/params/tags", error);
    if (status != STATUS_OK) return status;
    if ((row = malloc(sizeof *row)) == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a checkpoint");
    status = find_row(request->connection, params, trajectory, name, row, error);
    if (status == STATUS_OK && row->id.text[0] != '\0') status = run_request_uses_checkpoint(request, &row->id, error);
    free(row);
    return status;
}

/* ---- what is told ---- */

struct fetch_report {
    struct fetch_result found;
    struct store_id id;
};
#define REPORT(field) offsetof(struct fetch_report, field)

static const struct result_field fetch_fields[] = {
    {.name = "checkpoint", .type = RESULT_CHARS, .offset = REPORT(id.text), .help = "Id of the registered checkpoint"},
    {.name = "bytes",
     .type = RESULT_INTEGER,
     .label = "Size",
     .format = RESULT_BYTES,
     .offset = REPORT(found.bytes),
     .unit = "bytes",
     .help = "Size of the checkpoint's files"},
    {.name = "commit",
     .type = RESULT_CHARS,
     .offset = REPORT(found.commit),
     .help = "Commit that the revision was; of a bucket's directory a hash of its files' names, ETags and sizes"},
    {.name = "downloaded",
     .type = RESULT_INTEGER,
     .label = "Downloaded",
     .format = RESULT_BYTES,
     .offset = REPORT(found.came),
     .unit = "bytes",
     .help = "Downloaded now; the rest was in the cache"},
    {0},
};
static const struct result_shape fetch_shape = {.name = "FetchResult", .fields = fetch_fields};

/* ---- in a worker ---- */

static json_t *make_source(const struct fetch_params *params, const char *commit)
{
    json_t *source = params->path != NULL ? json_pack("{ss ss}", "path", params->path, "commit", commit)
                                          : json_pack("{ss ss ss}", "repo", params->repo, "revision", params->revision,
                                                      "commit", commit);
    json_t *files = params->files.count > 0 ? json_array() : NULL;
    for (int64_t i = 0; i < params->files.count; i++)
        (void)json_array_append_new(files, json_string(params->files.texts[i]));
    if (files != NULL) (void)json_object_set_new(source, "files", files);
    if (params->config != NULL) (void)json_object_set_new(source, "config", json_loads(params->config, 0, NULL));
    return source;
}

/* The given tags, and what the revision's name says beyond step and tokens. */
static json_t *make_tags(const struct fetch_params *params, const struct revision_name *name)
{
    json_t *tags = json_loads(params->tags, 0, NULL);
    if (name->stage[0] != '\0' && json_object_get(tags, "stage") == NULL)
        (void)json_object_set_new(tags, "stage", json_string(name->stage));
    if (name->ingredient >= 0 && json_object_get(tags, "ingredient") == NULL)
        (void)json_object_set_new(tags, "ingredient", json_integer(name->ingredient));
    return tags;
}

static enum status insert(const struct run_context *context, const struct fetch_params *params,
                          const struct fetch_result *found, struct store_id *id, struct error *error)
{
    struct revision_names *names = NULL;
    struct revision_name name;
    enum store_outcome outcome;
    json_t *document = NULL;
    enum status status = revision_names_new(&names, error);
    if (status != STATUS_OK) return status;
    revision_name_read(names, params->path != NULL ? params->name : params->revision, &name);
    revision_names_free(names);
    json_t *source = make_source(params, found->commit), *tags = make_tags(params, &name);
    const struct checkpoint_guess guess = {.step = name.step, .tokens = name.tokens};
    const struct checkpoint_new row = {
        .trajectory = params->trajectory,
        .name = params->name,
        .step = params->step >= 0 ? &params->step : NULL,
        .tokens = params->tokens >= 0 ? &params->tokens : NULL,
        .learning_rate = params->learning_rate >= 0 ? &params->learning_rate : NULL,
        .source = source,
        .path = found->path,
        .tags = tags,
    };
    if (source == NULL || tags == NULL) status = error_set(error, STATUS_NO_MEMORY, "no memory for a checkpoint");
    if (status == STATUS_OK)
        status = checkpoint_files_register(context->connection, &row, &guess, NULL, &outcome, &document, error);
    (void)snprintf(id->text, sizeof id->text, "%s",
                   document != NULL ? json_string_value(json_object_get(document, "id")) : "");
    json_decref(document);
    json_decref(source);
    json_decref(tags);
    return status;
}

/* `row` is the checkpoint that already has the name, if there is one. */
static struct fetch_request request_of(const struct fetch_params *params, const struct checkpoint *row)
{
    return (struct fetch_request){
        .repo = remote_of(params),
        .revision = params->revision,
        .commit = row->id.text[0] != '\0' ? row->commit : NULL, /* pinned, because the branch may have moved since */
        .files = params->files.texts,
        .file_count = (size_t)params->files.count,
    };
}

/* As plan_work computes it for a plan: the fetched bytes were written, and read for their hash. */
static double work_of(const struct fetch_result *found)
{
    return 3 * (double)found->came;
}

static enum status fetch_run_plan(const struct run_context *context, const void *filled, struct plan_budget *budget,
                                  struct run_plan *out, struct error *error)
{
    const struct fetch_params *params = filled;
    struct backend *backend = NULL;
    struct checkpoint *row = malloc(sizeof *row);
    enum status status = row == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a checkpoint") : STATUS_OK;
    if (status == STATUS_OK)
        status = find_row(context->connection, params, params->trajectory, params->name, row, error);
    if (status == STATUS_OK) status = inputs_backend(context, PRECISION_F32, &backend, error);
    if (status == STATUS_OK) {
        struct fetch_request request = request_of(params, row);
        request.hub = context->hub;
        *budget = backend_budget(backend, context->data_directory);
        status = fetch_plan(&request, &budget->bytes[PLAN_DISK], out, error);
    }
    backend_free(backend);
    free(row);
    return status;
}

static enum status fetch_execute(const struct run_context *context, const void *filled, json_t **result,
                                 struct measurements *out, struct error *error)
{
    const struct fetch_params *params = filled;
    struct fetch_report report = {.id = {{0}}};
    struct checkpoint *row = malloc(sizeof *row);
    enum status status = row == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a checkpoint") : STATUS_OK;
    (void)out; /* a fetched checkpoint is measured by other runs */
    if (status == STATUS_OK)
        status = find_row(context->connection, params, params->trajectory, params->name, row, error);
    if (status != STATUS_OK) goto done;
    const bool registered = row->id.text[0] != '\0';
    const struct fetch_request request = request_of(params, row);
    if ((status = checkpoint_place_fetch(context, &request, &report.found, error)) != STATUS_OK) goto done;
    if (registered) report.id = row->id;
    status = registered ? checkpoint_place_fill(context->connection, row, report.found.path, error)
                        : insert(context, params, &report.found, &report.id, error);
    if (status != STATUS_OK) goto done;
    node_files_fetched(context, &report.id, &report.found);
    run_context_note_work(context, work_of(&report.found));
    status = result_render(&fetch_shape, &report, result, error);
done:
    hub_cache_release(report.found.hold);
    free(row);
    return status;
}

const struct kind fetch_kind = {
    .name = "fetch",
    .help = "Fetches a revision of a repository into the cache and registers it as a checkpoint",
    .params = fetch_params,
    .params_size = sizeof(struct fetch_params),
    .result = &fetch_shape,
    .check = fetch_check,
    .execute = fetch_execute,
    .plan = fetch_run_plan,
    .asks_hub = true,
};
