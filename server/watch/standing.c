#include "watch/standing.h"

#include "base/clock.h"
#include "log/log.h"
#include "runs/sweep_plan.h"
#include "store/sweeps.h"
#include "watch/scan.h"

enum { AT_ONCE = 20 };
static const double WHOLE_REST = 20; /* times what a whole look took, until the next one */
static const double LATER_SECONDS = 20;

void standing_looks_reset(struct standing_looks *looks)
{
    json_decref(looks->later);
    *looks = (struct standing_looks){0};
}

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

/* Whether the same plan may be made later: the files cannot be read at the moment, or memory is short. */
static bool may_pass(enum status status)
{
    return status_info(status)->retry && status != STATUS_TOO_MANY;
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
    if (status != STATUS_OK && !may_pass(status)) {
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

/* Leaves a checkpoint out for a while. */
static enum status put_off(struct standing_looks *looks, json_t *checkpoint, const char *detail, struct error *error)
{
    if (looks->later == NULL) { /* then others may follow, for the same reason */
        log_warning(LOG_COMPONENT_SERVE, "standing sweeps leave checkpoints that cannot be read for a while: %s: %s",
                    json_string_value(checkpoint), detail);
        looks->later = json_array();
        looks->later_until = clock_seconds() + LATER_SECONDS;
    }
    return json_array_append(looks->later, checkpoint) == 0
               ? STATUS_OK
               : error_set(error, STATUS_NO_MEMORY, "no memory for a sweep");
}

/* Takes in the checkpoints of `list`, except those of requesters in `full`; a requester without space in the queue is
 * added to `full`, a checkpoint that cannot be read at the moment to what comes later. */
static enum status take_in_all(struct connection *connection, const struct roots *roots, const char *data_directory,
                               int64_t queued_most, const json_t *list, struct standing_looks *looks, json_t *full,
                               struct error *error)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        json_t *requester = json_object_get(item, "requester"), *checkpoint = json_object_get(item, "checkpoint");
        if (is_listed(full, requester) || is_listed(looks->later, checkpoint)) continue;
        enum status status = take_in(connection, roots, data_directory, queued_most, item, error);
        if (status == STATUS_TOO_MANY && json_array_append(full, requester) != 0)
            return error_set(error, STATUS_NO_MEMORY, "no memory for a sweep");
        if (may_pass(status) && !scan_ends_with(status)) status = put_off(looks, checkpoint, error->detail, error);
        if (status != STATUS_OK && status != STATUS_TOO_MANY) return status;
    }
    return STATUS_OK;
}

/* One look; a whole one says when the next one is due. */
static enum status look(struct connection *connection, struct standing_looks *looks, bool whole, const json_t *full,
                        json_t **list, struct error *error)
{
    const double began = clock_seconds();
    const enum status status =
        sweep_behind(connection, whole ? 0 : looks->seen, AT_ONCE, full, looks->later, list, error);
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
    if (looks->later != NULL && clock_seconds() >= looks->later_until) {
        json_decref(looks->later);
        looks->later = NULL;
    }
    enum status status = full == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a sweep") : STATUS_OK;
    *more = false;
    /* Before the look, which then knows all checkpoints up to it that are visible. */
    if (status == STATUS_OK && whole) status = sweep_newest_checkpoint(connection, &newest, error);
    do { /* repeated for the other requesters when one had no space; each time one requester more is left out */
        json_t *list = NULL;
        before = json_array_size(full);
        if (status == STATUS_OK) status = look(connection, looks, whole, full, &list, error);
        if (status == STATUS_OK)
            status = take_in_all(connection, roots, data_directory, queued_most, list, looks, full, error);
        if (status == STATUS_OK && json_array_size(list) > 0) store_notify(connection);
        *more = json_array_size(list) == AT_ONCE;
        json_decref(list);
    } while (status == STATUS_OK && json_array_size(full) > before);
    if (whole && *more) looks->whole_at = 0;
    if (whole && status == STATUS_OK && !*more && before == 0) looks->seen = newest;
    json_decref(full);
    return status;
}
