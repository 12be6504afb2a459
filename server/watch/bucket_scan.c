#include "watch/bucket_scan.h"

#include "hub/bucket_checkpoints.h"
#include "store/checkpoints.h"
#include "watch/scan.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bucket_scan_found {
    struct bucket_checkpoint *checkpoints; /* owned */
    size_t count;
};

/* Whether a directory of the path has a name that trainers rename later, or the path is deeper than a scan goes. */
static bool passed_over(const char *top, const char *place)
{
    char parts[OBJECTS_PLACE_MOST + 8], *rest = NULL;
    int depth = 0;
    (void)snprintf(parts, sizeof parts, "%s", place + strlen(top));
    for (const char *part = strtok_r(parts, "/", &rest); part != NULL; part = strtok_r(NULL, "/", &rest))
        if (scan_is_unfinished(part) || ++depth > SCAN_DEPTH) return true;
    return false;
}

enum status bucket_scan_look(const struct bucket_scan_request *request, struct bucket_scan_found **out,
                             struct error *error)
{
    size_t kept = 0;
    struct bucket_scan_found *found = calloc(1, sizeof *found);
    *out = NULL;
    if (found == NULL) return error_no_memory(error, "a list of checkpoints");
    enum status status =
        bucket_checkpoints_find(&request->caller, request->place, &found->checkpoints, &found->count, error);
    for (size_t i = 0; status == STATUS_OK && i < found->count; i++)
        if (!passed_over(request->place, found->checkpoints[i].place))
            found->checkpoints[kept++] = found->checkpoints[i];
    if (status == STATUS_OK) found->count = kept;
    if (status == STATUS_OK && kept == 0 && !request->may_be_empty)
        status = error_set(error, STATUS_INVALID,
                           "no checkpoint below it: expected directories with config.json and weights, or with one"
                           " .gguf file");
    if (status == STATUS_OK && kept > SCAN_MOST)
        status =
            error_set(error, STATUS_INVALID, "more than %d checkpoints below it: scan smaller directories", SCAN_MOST);
    if (status == STATUS_OK)
        *out = found;
    else
        bucket_scan_free(found);
    return status;
}

void bucket_scan_free(struct bucket_scan_found *found)
{
    if (found == NULL) return;
    free(found->checkpoints);
    free(found);
}

/* ---- registering ---- */

/* The machines of a store may disagree a little, so an age may be below 0. */
static bool is_restless(const struct bucket_scan_request *request, const struct bucket_checkpoint *checkpoint)
{
    return request->quiet_seconds > 0 && fabs(checkpoint->age) < request->quiet_seconds;
}

static json_t *number_or_null(int64_t value)
{
    return value >= 0 ? json_integer(value) : json_null();
}

static json_t *make_row(const char *name, const struct bucket_checkpoint *checkpoint)
{
    int64_t step, tokens;
    scan_read_name(name, &step, &tokens);
    return json_pack("{ss so so sn s{ss ss} s{}}", "name", name, "step", number_or_null(step), "tokens",
                     number_or_null(tokens), "learning_rate", "source", "path", checkpoint->place, "commit",
                     checkpoint->commit, "tags");
}

static enum status add_failed(json_t *failed, const char *name, enum status why, const char *detail,
                              struct error *error)
{
    return json_array_append_new(failed, scan_failed_item(name, why, detail)) == 0
               ? STATUS_OK
               : error_no_memory(error, "a list of checkpoints");
}

/* Adds a checkpoint whose name is registered with another source. */
static enum status add_different(const json_t *document, json_t *failed, struct error *error)
{
    enum status status = STATUS_OK;
    size_t index;
    const json_t *name;
    json_array_foreach(json_object_get(document, "different"), index, name)
    {
        if (status == STATUS_OK)
            status = add_failed(failed, json_string_value(name), STATUS_CONFLICT,
                                "a checkpoint of this name is registered whose objects were others", error);
    }
    return status;
}

/* Puts a checkpoint where it belongs: a name that cannot be registered keeps no other one from it. */
static enum status sort_out(const struct bucket_scan_request *request, const struct bucket_checkpoint *checkpoint,
                            json_t *rows, json_t *pending, json_t *failed, struct error *error)
{
    char name[PATH_MAX];
    struct error why;
    scan_name(request->place, checkpoint->place, name, sizeof name);
    const enum status fits = scan_check_name(name, &why);
    if (fits != STATUS_OK) return add_failed(failed, name, fits, why.detail, error);
    const bool waits = !checkpoint->whole || is_restless(request, checkpoint);
    if (json_array_append_new(waits ? pending : rows, waits ? json_string(name) : make_row(name, checkpoint)) == 0)
        return STATUS_OK;
    return error_no_memory(error, "a list of checkpoints");
}

enum status bucket_scan_register(struct connection *connection, const struct bucket_scan_request *request,
                                 const struct bucket_scan_found *found, json_t **document, struct error *error)
{
    json_t *rows = json_array(), *pending = json_array(), *failed = json_array(), *made = NULL;
    enum status status = STATUS_OK;
    *document = NULL;
    for (size_t i = 0; status == STATUS_OK && i < found->count; i++)
        status = sort_out(request, &found->checkpoints[i], rows, pending, failed, error);
    if (status == STATUS_OK && json_array_size(rows) > 0)
        status = checkpoint_insert_many(connection, request->trajectory, rows, &made, error);
    if (status == STATUS_OK) status = add_different(made, failed, error);
    if (status == STATUS_OK) {
        json_t *registered = json_object_get(made, "registered"), *existing = json_object_get(made, "existing");
        *document =
            json_pack("{so sI sO sO}", "registered", registered != NULL ? json_incref(registered) : json_array(),
                      "existing", (json_int_t)json_integer_value(existing), "pending", pending, "failed", failed);
        if (*document == NULL) status = error_no_memory(error, "a list of checkpoints");
    }
    json_decref(made);
    json_decref(rows);
    json_decref(pending);
    json_decref(failed);
    return status;
}
