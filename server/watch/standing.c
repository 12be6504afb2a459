#include "watch/standing.h"

#include "base/clock.h"
#include "runs/sweep_plan.h"
#include "store/sweeps.h"

enum { AT_ONCE = 20 };
static const double WHOLE_REST = 20; /* times what a whole look took, until the next one */

/* The grid with one checkpoint in place of its trajectory; a new reference, NULL: no memory. */
static json_t *narrow(const json_t *grid, const char *checkpoint)
{
    const char *key, *trajectory;
    json_t *copy = json_deep_copy(grid);
    sweep_plan_trajectory(grid, &key, &trajectory);
    if (copy == NULL || key == NULL || json_object_set_new(copy, key, json_pack("[s]", checkpoint)) != 0) {
        json_decref(copy);
        return NULL;
    }
    return copy;
}

/* The reason why no runs can be made, for the sweep's document. */
static json_t *refusal_of(enum status status, const struct faults *faults, const struct error *error)
{
    const bool listed = faults_kept(faults) > 0;
    return json_pack("{ss ss ss}", "status", status_info(status)->name, "pointer",
                     listed ? faults->items[0].pointer : error->pointer, "detail",
                     listed ? faults->items[0].detail : error->detail);
}

static enum status take_in(struct connection *connection, const struct roots *roots, const char *data_directory,
                           int64_t queued_most, const json_t *item, struct error *error)
{
    const char *sweep = json_string_value(json_object_get(item, "sweep"));
    const char *checkpoint = json_string_value(json_object_get(item, "checkpoint"));
    json_t *grid = narrow(json_object_get(item, "grid"), checkpoint), *refusal = NULL;
    struct sweep_plan plan = {0};
    struct faults faults = {0};
    bool mine;
    const struct sweep_plan_request request = {
        .kind = kind_find(kinds, json_string_value(json_object_get(item, "kind"))),
        .base = json_object_get(item, "base"),
        .grid = grid,
        .requires = json_object_get(item, "requires"),
        .requester = json_string_value(json_object_get(item, "requester")),
        .queued_most = queued_most,
        .roots = roots,
        .data_directory = data_directory,
    };
    enum status status = grid == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a sweep")
                         : request.kind == NULL
                             ? error_set(error, STATUS_UNSUPPORTED, "this server does not know the sweep's kind")
                             : sweep_plan_make(connection, &request, &faults, &plan, error);
    if (status != STATUS_OK && status != STATUS_UNAVAILABLE && status != STATUS_NO_MEMORY) {
        refusal = refusal_of(status, &faults, error);
        status = refusal == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a sweep") : STATUS_OK;
    }
    struct sweep_extension extension = {.sweep = sweep,
                                        .checkpoint = checkpoint,
                                        .grid = json_object_get(item, "grid"),
                                        .runs = plan.rows,
                                        .run_count = refusal == NULL ? plan.count : 0,
                                        .refusal = refusal};
    if (status == STATUS_OK) status = sweep_extend(connection, &extension, &mine, error);
    /* Runs go in together, and these are more than ever fit. */
    if (status == STATUS_TOO_MANY && queued_most > 0 && (int64_t)plan.count > queued_most) {
        extension.refusal = refusal = refusal_of(status, &faults, error);
        extension.run_count = 0;
        status = refusal == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a sweep")
                                 : sweep_extend(connection, &extension, &mine, error);
    }
    sweep_plan_reset(&plan);
    json_decref(grid);
    json_decref(refusal);
    return status;
}

static bool is_listed(const json_t *list, const json_t *text)
{
    size_t i;
    const json_t *item;
    json_array_foreach(list, i, item) if (json_equal(item, text)) return true;
    return false;
}

/* Takes in the checkpoints of `list`, except those of requesters in `full`; a requester without space in the queue is
 * added to `full`. */
static enum status take_in_all(struct connection *connection, const struct roots *roots, const char *data_directory,
                               int64_t queued_most, const json_t *list, json_t *full, struct error *error)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        json_t *requester = json_object_get(item, "requester");
        if (is_listed(full, requester)) continue;
        const enum status status = take_in(connection, roots, data_directory, queued_most, item, error);
        if (status == STATUS_TOO_MANY && json_array_append(full, requester) != 0)
            return error_set(error, STATUS_NO_MEMORY, "no memory for a sweep");
        if (status != STATUS_OK && status != STATUS_TOO_MANY) return status;
    }
    return STATUS_OK;
}

/* One look; a whole one says when the next one is due. */
static enum status look(struct connection *connection, struct standing_looks *looks, bool whole, const json_t *full,
                        json_t **list, struct error *error)
{
    const double began = clock_seconds();
    const enum status status = sweep_behind(connection, whole ? 0 : looks->seen, AT_ONCE, full, list, error);
    const double now = clock_seconds();
    if (whole) looks->whole_at = now + WHOLE_REST * (now - began);
    return status;
}

enum status standing_extend(struct connection *connection, const struct roots *roots, const char *data_directory,
                            int64_t queued_most, struct standing_looks *looks, bool *more, struct error *error)
{
    size_t before = 0;
    int64_t newest = looks->seen;
    const bool whole = clock_seconds() >= looks->whole_at;
    json_t *full = json_array();
    enum status status = full == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a sweep") : STATUS_OK;
    *more = false;
    /* Before the look, which then knows all checkpoints up to it that are visible. */
    if (status == STATUS_OK && whole) status = sweep_newest_checkpoint(connection, &newest, error);
    do { /* repeated for the other requesters when one had no space; each time one requester more is left out */
        json_t *list = NULL;
        before = json_array_size(full);
        if (status == STATUS_OK) status = look(connection, looks, whole, full, &list, error);
        if (status == STATUS_OK)
            status = take_in_all(connection, roots, data_directory, queued_most, list, full, error);
        if (status == STATUS_OK && json_array_size(list) > 0) store_notify(connection);
        *more = json_array_size(list) == AT_ONCE;
        json_decref(list);
    } while (status == STATUS_OK && json_array_size(full) > before);
    if (whole && *more) looks->whole_at = 0;
    if (whole && status == STATUS_OK && !*more && before == 0) looks->seen = newest;
    json_decref(full);
    return status;
}
