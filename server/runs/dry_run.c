#include "runs/dry_run.h"

#include "schema/schema.h"
#include "store/checkpoints.h"
#include "store/queue.h"
#include "json/written.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HUB_ASKED = 16 };

/* What can be known about a run before it starts. */
struct dry_run {
    bool known; /* a plan was made */
    struct run_plan plan;
    struct plan_budget budget;
    double seconds; /* NAN: not known */
    char seconds_from[240];
    enum status status; /* the status that the run would fail with */
    struct error error;
};

struct run_context dry_run_context(const struct dry_run_place *place)
{
    return (struct run_context){
        .connection = place->connection,
        .data_directory = place->data_directory,
        .work_directory = place->data_directory,
        .roots = place->roots,
        .device = place->device,
        .memory_bytes = place->memory_bytes,
        .device_memory_bytes = place->device_memory_bytes,
        .threads = place->threads,
        .hub = place->hub,
        .artifact_place = place->artifact_place,
        .monitor = place->monitor,
        .planning = true,
    };
}

/* ---- One run ---- */

static enum status seconds_find(const struct dry_run_place *place, const struct prepared_run *run, struct dry_run *f,
                                struct error *error)
{
    const char *kind = run->kind->name;
    const char *precision = json_string_value(json_object_get(run->request.params, "precision"));
    const struct run_like like = {kind, place->device, precision, plan_work(&f->plan)};
    const char *in = precision != NULL ? " in " : "";
    double rate = 0;
    int64_t count = 0;
    enum status status = STATUS_OK;
    if (precision == NULL) precision = "";
    if (like.work > 0) status = run_rate(place->connection, &like, &rate, &count, error);
    if (status != STATUS_OK) return status;
    if (count > 0) f->seconds = like.work / rate;
    if (count > 0)
        (void)snprintf(f->seconds_from, sizeof f->seconds_from,
                       "%s over %.3g a second: the median of the %lld succeeded %s run%s%s%s on %s nearest in size",
                       f->plan.flops > 0 ? "flops" : "bytes", rate, (long long)count, kind, count == 1 ? "" : "s", in,
                       precision, place->device);
    else
        (void)snprintf(
            f->seconds_from, sizeof f->seconds_from,
            "not known: no %s run%s%s has yet succeeded on %s by itself and whole; a member of a batch, and a run that"
            " found its baseline saved, tell no rate",
            kind, in, precision, place->device);
    return STATUS_OK;
}

static enum status plan_find(const struct dry_run_place *place, const struct prepared_run *run, struct dry_run *f,
                             struct error *error)
{
    const struct kind *kind = run->kind;
    struct schema_filled filled = {0};
    bool too_long = false;
    struct run_context context = dry_run_context(place);
    context.too_long = &too_long;
    enum status status = monitor_check(place->monitor, error);
    if (status != STATUS_OK) return status;
    json_t *params = json_deep_copy(run->request.params);
    if (params == NULL) return error_no_memory(error, "a dry run");
    status = schema_fill(kind->params, kind->params_size, params, "/params", NULL, &filled, error);
    if (status == STATUS_OK) {
        f->status = kind->plan(&context, filled.params, &f->budget, &f->plan, &f->error);
        const bool too_much = f->status == STATUS_TOO_LARGE || f->status == STATUS_DISK_FULL;
        f->known = f->status == STATUS_OK || (too_much && f->plan.peak[PLAN_HOST] > 0);
        status = monitor_check(place->monitor, error); /* a stopped plan is not a fault of the run */
        if (status == STATUS_OK && too_long) {         /* neither is data that is too long to read */
            *error = f->error;
            status = f->status;
        }
    }
    schema_filled_reset(&filled);
    json_decref(params);
    return status;
}

/* Whether the failure is due to this server at this moment, and not to the run. */
static bool is_ours(const struct kind *kind, enum status status)
{
    return (status == STATUS_UNAVAILABLE && !kind->asks_hub) || status == STATUS_TOO_MANY || status == STATUS_INTERNAL;
}

static enum status dry_run_find(const struct dry_run_place *place, const struct prepared_run *run, struct dry_run *f,
                                struct error *error)
{
    *f = (struct dry_run){.seconds = NAN};
    (void)snprintf(f->seconds_from, sizeof f->seconds_from, "not known: %s",
                   run->kind->plan == NULL ? "nothing is planned of this run before it starts"
                                           : "the run would fail before");
    if (run->kind->plan == NULL) return STATUS_OK;
    enum status status = plan_find(place, run, f, error);
    if (status == STATUS_OK && is_ours(run->kind, f->status)) {
        *error = f->error;
        return f->status;
    }
    if (status != STATUS_OK || !f->known) return status;
    if (f->status == STATUS_OK && !plan_fits(&f->plan, &f->budget))
        f->status =
            plan_refuse(&f->plan, &f->budget,
                        "give it fewer or shorter sequences, or more memory (--memory, --device-memory)", &f->error);
    return seconds_find(place, run, f, error);
}

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *space(const struct dry_run *f, enum plan_space which)
{
    const int64_t there = f->budget.bytes[which];
    return json_pack("{sI so}", "peak_bytes", (json_int_t)f->plan.peak[which], "available_bytes",
                     there == INT64_MAX ? json_null() : json_integer((json_int_t)there));
}

static bool on_device(const struct dry_run *f)
{
    return f->plan.peak[PLAN_DEVICE] > 0;
}

static json_t *figures(const struct dry_run *f)
{
    if (!f->known)
        return json_pack("{sn sn sn sn sn sn sn so ss}", "memory", "disk", "fetched_bytes", "tokens", "flops",
                         "at_most", "spilled_tokens", "seconds", number(f->seconds), "seconds_from", f->seconds_from);
    const struct run_plan *plan = &f->plan;
    json_t *disk = space(f, PLAN_DISK);
    if (disk != NULL) {
        (void)json_object_set_new(disk, "read_bytes", json_integer((json_int_t)plan->read_bytes));
        (void)json_object_set_new(disk, "written_bytes", json_integer((json_int_t)plan->written_bytes));
    }
    return json_pack("{s{so so} so sI sI so sb sI so ss}", "memory", "host", space(f, PLAN_HOST), "device",
                     on_device(f) ? space(f, PLAN_DEVICE) : json_null(), "disk", disk, "fetched_bytes",
                     (json_int_t)plan->fetched_bytes, "tokens", (json_int_t)plan->tokens, "flops", number(plan->flops),
                     "at_most", plan->at_most, "spilled_tokens", (json_int_t)plan->spilled_tokens, "seconds",
                     number(f->seconds), "seconds_from", f->seconds_from);
}

/* Whether the smallest plan fits; null when that is not known. */
static json_t *fits(const struct dry_run *f)
{
    if (!f->known || (f->status == STATUS_OK && on_device(f) && f->budget.bytes[PLAN_DEVICE] == INT64_MAX))
        return json_null();
    return json_boolean(f->status == STATUS_OK && plan_fits(&f->plan, &f->budget));
}

/* The document of a run: its kind and parameters, then the figures. */
static json_t *document(const struct prepared_run *run, const struct dry_run *f)
{
    json_t *out = figures(f);
    if (out == NULL) return NULL;
    const bool fails = f->status != STATUS_OK;
    int bad = json_object_set_new(out, "dry_run", json_true());
    bad |= json_object_set_new(out, "kind", json_string(run->kind->name));
    bad |= json_object_set(out, "params", run->request.params);
    bad |= json_object_set_new(out, "fits", fits(f));
    bad |= json_object_set_new(out, "problem",
                               fails ? queue_problem(f->status, f->error.pointer, f->error.detail) : json_null());
    if (bad == 0) return out;
    json_decref(out);
    return NULL;
}

enum status dry_run_of_run(const struct dry_run_place *place, const struct prepared_run *run, json_t **out,
                           struct error *error)
{
    struct dry_run *f = malloc(sizeof *f);
    enum status status = f == NULL ? error_no_memory(error, "a dry run") : dry_run_find(place, run, f, error);
    *out = status == STATUS_OK ? document(run, f) : NULL;
    if (status == STATUS_OK && *out == NULL) status = error_no_memory(error, "a dry run");
    free(f);
    return status;
}

/* ---- A sweep ---- */

/* Sums and maxima over the new runs of a sweep. */
struct totals {
    size_t runs, existing; /* different runs, and those of them that exist */
    struct run_plan sum;   /* peaks: the largest */
    struct plan_budget budget;
    double seconds;
    size_t unknown;
    bool fits;
};

/* The properties of a checkpoint that a plan depends on. */
static json_t *likeness(const json_t *checkpoint)
{
    static const char *const names[] = {"trajectory", "architecture", "parameters", "dtype", "bytes"};
    json_t *out = json_object();
    for (size_t i = 0; out != NULL && i < sizeof names / sizeof names[0]; i++)
        (void)json_object_set(out, names[i], json_object_get(checkpoint, names[i]));
    (void)json_object_set(out, "config", json_object_get(json_object_get(checkpoint, "source"), "config"));
    return out;
}

/* A key for the run's plan: its parameters, with properties of checkpoints in place of their ids. */
static enum status plan_key(const struct dry_run_place *place, const struct prepared_run *run, json_t **out,
                            struct error *error)
{
    char *text = written_json(run->request.params, JSON_COMPACT | JSON_SORT_KEYS);
    json_t *likes = json_array();
    enum status status = text == NULL || likes == NULL ? error_no_memory(error, "a dry run") : STATUS_OK;
    for (size_t i = 0; i < run->request.checkpoint_count && status == STATUS_OK; i++) {
        const char *id = run->request.checkpoints[i].text;
        json_t *checkpoint = NULL;
        if ((status = checkpoint_get(place->connection, id, &checkpoint, error)) != STATUS_OK) break;
        for (char *at = strstr(text, id); at != NULL; at = strstr(at, id)) memset(at, '.', strlen(id));
        (void)json_array_append_new(likes, likeness(checkpoint));
        json_decref(checkpoint);
    }
    *out = status == STATUS_OK ? json_pack("[sO]", text, likes) : NULL;
    if (status == STATUS_OK && *out == NULL) status = error_no_memory(error, "a dry run");
    free(text);
    json_decref(likes);
    return status;
}

static void totals_add(struct totals *totals, const struct dry_run *f, int64_t runs)
{
    totals->seconds += f->seconds * (double)runs; /* NAN stays */
    totals->unknown += f->known ? 0 : (size_t)runs;
    totals->fits = totals->fits && f->status == STATUS_OK;
    if (!f->known) return;
    totals->budget = f->budget;
    plan_add(&totals->sum, &f->plan, runs);
}

static json_t *totals_document(const struct totals *totals, const char *kind, json_t *plans)
{
    const struct run_plan *sum = &totals->sum;
    const bool known = totals->unknown == 0;
    return json_pack(
        "{sb ss sI sI sb s{so so so so so so} s{so so so} sO}", "dry_run", 1, "kind", kind, "runs",
        (json_int_t)totals->runs, "existing", (json_int_t)totals->existing, "fits", totals->fits, "total", "tokens",
        known ? json_integer((json_int_t)sum->tokens) : json_null(), "flops", known ? number(sum->flops) : json_null(),
        "read_bytes", known ? json_integer((json_int_t)sum->read_bytes) : json_null(), "written_bytes",
        known ? json_integer((json_int_t)sum->written_bytes) : json_null(), "fetched_bytes",
        known ? json_integer((json_int_t)sum->fetched_bytes) : json_null(), "seconds", number(totals->seconds),
        "maximum", "host_bytes", known ? json_integer((json_int_t)sum->peak[PLAN_HOST]) : json_null(), "device_bytes",
        known && sum->peak[PLAN_DEVICE] > 0 ? json_integer((json_int_t)sum->peak[PLAN_DEVICE]) : json_null(),
        "disk_bytes", known ? json_integer((json_int_t)sum->peak[PLAN_DISK]) : json_null(), "plans", plans);
}

/* Counts the run where no earlier one of the sweep is the same (`seen`), by the keys and the search of run_insert;
 * *fresh: the run would be queued. */
static enum status count_run(struct connection *connection, const struct run_new *run, json_t *seen,
                             struct totals *totals, bool *fresh, struct error *error)
{
    struct store_id id;
    bool found;
    const enum status status = run_find_equal(connection, run, &found, &id, error);
    *fresh = false;
    if (status != STATUS_OK) return status;
    const char *keys[] = {found ? id.text : run->dedupe_key, found ? NULL : run->named_key};
    for (size_t i = 0; i < 2; i++)
        if (keys[i] != NULL && json_object_get(seen, keys[i]) != NULL) return STATUS_OK;
    for (size_t i = 0; i < 2; i++)
        if (keys[i] != NULL && json_object_set_new(seen, keys[i], json_true()) != 0)
            return error_no_memory(error, "a dry run");
    *fresh = !found;
    totals->runs++;
    totals->existing += found;
    return STATUS_OK;
}

/* The keys of the plans, one for each run: null for a run that is not queued. */
static enum status keys_find(const struct dry_run_place *place, const struct sweep_plan *sweep, bool exists,
                             struct totals *totals, json_t *keys, struct error *error)
{
    json_t *seen = json_object();
    enum status status = seen == NULL ? error_no_memory(error, "a dry run") : STATUS_OK;
    for (size_t i = 0; i < sweep->count && status == STATUS_OK; i++) {
        json_t *key = NULL;
        bool fresh;
        status = count_run(place->connection, &sweep->rows[i], seen, totals, &fresh, error);
        if (status == STATUS_OK && fresh && !exists) status = plan_key(place, &sweep->prepared[i], &key, error);
        if (status == STATUS_OK && json_array_append_new(keys, key != NULL ? key : json_null()) != 0)
            status = error_no_memory(error, "a dry run");
    }
    if (exists) totals->existing = totals->runs;
    json_decref(seen);
    return status;
}

/* Counts the runs from `first` on that have the key of that run, and removes their keys. */
static int64_t count_alike(json_t *keys, size_t first)
{
    json_t *key = json_incref(json_array_get(keys, first));
    int64_t alike = 0;
    for (size_t i = first; i < json_array_size(keys); i++) {
        if (!json_equal(json_array_get(keys, i), key)) continue;
        alike++;
        (void)json_array_set_new(keys, i, json_null());
    }
    json_decref(key);
    return alike;
}

/* Plans a run, unless its plan asks the hub and the hub was asked often enough or was unavailable: then *f says so, or
 * keeps its value. */
static enum status next_find(const struct dry_run_place *place, const struct prepared_run *run, int64_t *asked,
                             struct dry_run *f, struct error *error)
{
    if (!run->kind->asks_hub || (*asked < HUB_ASKED && (*asked == 0 || f->status != STATUS_UNAVAILABLE))) {
        *asked += run->kind->asks_hub;
        return dry_run_find(place, run, f, error);
    }
    if (f->status == STATUS_UNAVAILABLE) return STATUS_OK;
    *f = (struct dry_run){.seconds = NAN};
    (void)snprintf(f->seconds_from, sizeof f->seconds_from, "not known: of a sweep the hub is asked about %d runs",
                   HUB_ASKED);
    return STATUS_OK;
}

static enum status plans_find(const struct dry_run_place *place, const struct prepared_run *runs, size_t count,
                              json_t *keys, struct totals *totals, json_t *plans, struct error *error)
{
    struct dry_run *f = malloc(sizeof *f);
    enum status status = f == NULL ? error_no_memory(error, "a dry run") : STATUS_OK;
    int64_t asked = 0;
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        if (json_is_null(json_array_get(keys, i))) continue;
        if ((status = next_find(place, &runs[i], &asked, f, error)) != STATUS_OK) break;
        const int64_t alike = count_alike(keys, i);
        json_t *plan = document(&runs[i], f);
        totals_add(totals, f, alike);
        if (plan == NULL || json_object_set_new(plan, "runs", json_integer((json_int_t)alike)) != 0)
            status = error_no_memory(error, "a dry run");
        (void)json_array_append_new(plans, plan);
    }
    free(f);
    return status;
}

enum status dry_run_of_sweep(const struct dry_run_place *place, const struct kind *kind, const struct sweep_plan *sweep,
                             bool exists, json_t **out, struct error *error)
{
    struct totals totals = {.fits = true};
    json_t *keys = json_array(), *plans = json_array();
    enum status status = keys == NULL || plans == NULL ? error_no_memory(error, "a dry run") : STATUS_OK;
    *out = NULL;
    if (status == STATUS_OK) status = keys_find(place, sweep, exists, &totals, keys, error);
    if (status == STATUS_OK) status = plans_find(place, sweep->prepared, sweep->count, keys, &totals, plans, error);
    if (status == STATUS_OK) {
        *out = totals_document(&totals, kind->name, plans);
        if (*out == NULL) status = error_no_memory(error, "a dry run");
    }
    json_decref(keys);
    json_decref(plans);
    return status;
}
