#include "store/trajectories.h"
#include "inputs/public_rate.h"
#include "inputs/roots.h"
#include "kinds/integrity.h"
#include "resources/answer.h"
#include "resources/application.h"
#include "resources/handlers.h"
#include "schema/form.h"
#include "watch/bucket_scan.h"
#include "watch/scan.h"

#include <limits.h>

/* For who lists a bucket while a request waits. */
enum { LIST_SECONDS = 15, LIST_TRIES = 2 };

static const struct list_field fields[] = {
    {"id", true},          {"name", true},
    {"checkpoints", true}, {"first_step", false},
    {"last_step", true},   {"last_tokens", false},
    {"newest", false},     {"runs", false},
    {"watch", false},      {"watch_state", false},
    {"notes", false},      {"archived", true},
    {"created_at", true},  {0},
};

enum status trajectories_list(struct http_context *context, const struct request *request, struct response *response,
                              struct error *error)
{
    struct list_request asked;
    bool archived = false;
    json_t *document = NULL;
    enum status status = answer_list_request(request, fields, &asked, error);
    if (status == STATUS_OK) status = answer_query_boolean(request, "archived", &archived, error);
    if (status == STATUS_OK)
        status =
            trajectory_list(application_connection(context), archived, &asked.filter, &asked.page, &document, error);
    return answer_listed(response, request, &asked, status, document, error);
}

enum status trajectories_get(struct http_context *context, const struct request *request, struct response *response,
                             struct error *error)
{
    return answer_found(response, application_connection(context), trajectory_get,
                        request_parameter(request, "trajectory"), error);
}

struct patch_body {
    const char *name, *notes;
    bool archived;
};

const struct param trajectories_patch_body[] = {
    {.name = "name",
     .type = PARAM_STRING,
     .offset = offsetof(struct patch_body, name),
     .fallback = "null",
     .maximum = 200,
     .form = &form_name,
     .help = "A new name"},
    {.name = "notes",
     .type = PARAM_STRING,
     .offset = offsetof(struct patch_body, notes),
     .fallback = "null",
     .nullable = true,
     .maximum = 10000,
     .help = "Anything worth remembering; null: none"},
    {.name = "archived",
     .type = PARAM_BOOLEAN,
     .offset = offsetof(struct patch_body, archived),
     .fallback = "false",
     .help = "true: lists leave it out unless they are asked for archived ones; false: they show it again"},
    {0},
};

enum status trajectories_patch(struct http_context *context, const struct request *request, struct response *response,
                               struct error *error)
{
    json_t *document = NULL, *changes = NULL;
    enum status status =
        answer_changes(request, response, trajectories_patch_body, sizeof(struct patch_body), &changes, error);
    if (status == STATUS_OK)
        status = trajectory_patch(application_connection(context), request_parameter(request, "trajectory"), changes,
                                  &document, error);
    json_decref(changes);
    if (status != STATUS_OK) return status;
    store_notify(application_connection(context));
    return response_json(response, 200, document, error);
}

enum status trajectories_delete(struct http_context *context, const struct request *request, struct response *response,
                                struct error *error)
{
    struct connection *connection = application_connection(context);
    return answer_deleted(response, connection,
                          trajectory_delete(connection, request_parameter(request, "trajectory"), error));
}

enum status schedules_list(struct http_context *context, const struct request *request, struct response *response,
                           struct error *error)
{
    (void)context, (void)request;
    return response_json(response, 200, json_pack("{so sn}", "items", public_rate_table(), "next"), error);
}

enum status trajectories_integrity(struct http_context *context, const struct request *request,
                                   struct response *response, struct error *error)
{
    json_t *document = NULL;
    const enum status status =
        integrity_document(application_connection(context), request_parameter(request, "trajectory"),
                           request_query(request, "checkpoint"), &document, error);
    return status == STATUS_OK ? response_json(response, 200, document, error) : status;
}

struct scan_body {
    const char *path;
    bool watch;
};

const struct param trajectories_scan_body[] = {
    {.name = "path",
     .type = PARAM_STRING,
     .offset = offsetof(struct scan_body, path),
     .maximum = 4000,
     .help = "Directory below a root, or place in a bucket (s3://BUCKET/PREFIX); every checkpoint below it is"
             " registered"},
    {.name = "watch",
     .type = PARAM_BOOLEAN,
     .offset = offsetof(struct scan_body, watch),
     .fallback = "null",
     .nullable = true,
     .help =
         "true: goes on registering what appears, also after a restart; false: ends that; null: leaves it as it is"},
    {0},
};

/* What the server of objects refuses is the fault of the request's path; that it is away is nobody's. */
static enum status blame(enum status status, struct error *error)
{
    const struct error cause = *error;
    const bool passes = status == STATUS_OK || status == STATUS_TOO_MANY || scan_ends_with(status);
    return passes ? status : error_set_at(error, STATUS_INVALID, "/path", "%s", cause.detail);
}

/* Without a limit to its time, which depends on the storage: it ends when the client has left. */
static enum status scan_bucket(struct http_context *context, const struct request *asked, const char *place,
                               bool watched, json_t **document, struct error *error)
{
    const struct application *application = application_of(context);
    const struct bucket_scan_request request = {
        .caller =
            {.hub = application->hub,
             .asking = {.monitor = asked->presence, .seconds = LIST_SECONDS, .tries = LIST_TRIES, .longest_wait = 1}},
        .trajectory = request_parameter(asked, "trajectory"),
        .place = place,
        .quiet_seconds = watched ? application->watch_quiet_seconds : 0,
        .may_be_empty = watched,
    };
    struct bucket_scan_found *found = NULL;
    enum status status = hub_enter(application->hub, error);
    if (status != STATUS_OK) return status;
    status = blame(bucket_scan_look(&request, &found, error), error);
    hub_leave(application->hub);
    if (status == STATUS_OK)
        status = bucket_scan_register(application_connection(context), &request, found, document, error);
    bucket_scan_free(found);
    return status;
}

static enum status scan_files(struct http_context *context, const struct request *asked, const char *path, bool watched,
                              json_t **document, struct error *error)
{
    const struct application *application = application_of(context);
    const struct scan_request request = {
        .roots = application->roots,
        .trajectory = request_parameter(asked, "trajectory"),
        .path = path,
        .quiet_seconds = watched ? application->watch_quiet_seconds : 0,
        .may_be_empty = watched,
        .monitor = asked->presence,
    };
    return scan_directory(application_connection(context), &request, document, error);
}

/* Scans, then watches: what comes in between is found by the first look of the watch. */
static enum status scan(struct http_context *context, const struct request *request, const struct scan_body *body,
                        json_t **document, struct error *error)
{
    const json_t *watch = json_object_get(request->body, "watch");
    const struct roots *roots = application_of(context)->roots;
    struct connection *connection = application_connection(context);
    const bool of_bucket = objects_place_is(body->path), watched = json_is_true(watch);
    struct objects_place place;
    char top[PATH_MAX];
    struct store_id id;
    enum status status = of_bucket ? objects_place_read(body->path, "/path", &place, error)
                                   : roots_resolve(roots, body->path, "/path", top, sizeof top, error);
    if (status == STATUS_OK && of_bucket) objects_place_write(&place, top, sizeof top);
    if (status == STATUS_OK)
        status = of_bucket ? scan_bucket(context, request, top, watched, document, error)
                           : scan_files(context, request, body->path, watched, document, error);
    if (status != STATUS_OK || !json_is_boolean(watch)) return status;
    status = trajectory_ensure(connection, request_parameter(request, "trajectory"), &id, NULL, error);
    if (status == STATUS_OK) status = trajectory_set_watch(connection, id.text, watched ? top : NULL, error);
    if (status == STATUS_OK) store_notify(connection);
    return status;
}

enum status trajectories_scan(struct http_context *context, const struct request *request, struct response *response,
                              struct error *error)
{
    struct schema_filled filled = {0};
    json_t *document = NULL;
    enum status status = answer_check_name(request_parameter(request, "trajectory"), "", error);
    if (status == STATUS_OK)
        status = answer_body(request, response, trajectories_scan_body, sizeof(struct scan_body), &filled, error);
    if (status != STATUS_OK) return status;
    status = scan(context, request, filled.params, &document, error);
    schema_filled_reset(&filled);
    if (status == STATUS_OK) return response_json(response, 200, document, error);
    json_decref(document);
    return status;
}
