#include "store/queue.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The fence: $1 run, $2 epoch, $3 owner. Every write about a leased run carries it. tests/pool builds this file with
 * the predicates taken away and expects its checker to notice. */
#ifndef QUEUE_FENCE
#define QUEUE_FENCE " id = $1 and epoch = $2 and owner = $3 and state = 'running' "
#endif
#define FENCE_OF(lease) value_text((lease)->run.text), value_integer((lease)->epoch), value_text((lease)->owner.text)

/* A lease had ended at `moment`. One that ends more than two lengths from now was given before the clock was set back.
 * It counts as ended, so that no run waits an hour for it. */
#define LEASE_ENDED(moment, seconds) \
    " (lease_until < " moment " or lease_until > clock_timestamp() + 2 * " seconds " * interval '1 second') "
#define LET_GO " owner = null, lease_until = null "
/* min(60 s, 1 s * 2^n) with full jitter; the exponent is bounded before it is used. */
#define DELAY(count) " clock_timestamp() + random() * least(60, power(2, least(" count ", 10))) * interval '1 second' "

/* STATUS_UNAVAILABLE has more tries than other errors: the delays between twelve tries add up to about four minutes. */
enum { AWAY_BUDGET = 12, RESCUE_BATCH = 100 };

/* The run got further than ever before, by at least a twentieth of its total: its counters are reset. Each unit of
 * progress has its own mark, which only grows, so a run that fails repeatedly at the same place is forgiven once. $5 …
 * $8: whether there is progress, done, total, unit. */
#define FURTHER \
    " $5 and $7 > 0 and $6::double precision / $7 >= coalesce((progress_marks ->> $8)::double precision, 0) + 0.05 "
#define FORGIVEN(counter) " " counter " = case when" FURTHER "then 0 else " counter " end,"
#define FORGIVE_ALL                                                \
    FORGIVEN("tries")                                              \
    FORGIVEN("crashes")                                            \
    FORGIVEN("stalls")                                             \
    FORGIVEN("expiries")                                           \
    " progress_marks = case when" FURTHER "then progress_marks ||" \
    " jsonb_build_object($8::text, $6::double precision / $7) else progress_marks end "

static enum status lease_lost(struct error *error)
{
    return error_set(error, STATUS_LEASE_LOST, "the run belongs to another worker, or has ended");
}

static enum status fenced(enum status status, int64_t affected, struct error *error)
{
    return status == STATUS_OK && affected == 0 ? lease_lost(error) : status;
}

json_t *queue_problem(enum status status, const char *pointer, const char *detail)
{
    const struct status_info *info = status_info(status);
    char type[96];
    (void)snprintf(type, sizeof type, "/problems/%s", info->name);
    json_t *document = json_pack("{s:s, s:s, s:i, s:s, s:s}", "type", type, "title", info->title, "status", info->http,
                                 "code", info->name, "detail", detail);
    if (document != NULL && pointer[0] != '\0')
        (void)json_object_set_new(document, "errors", json_pack("[{s:s, s:s}]", "pointer", pointer, "detail", detail));
    return document;
}

/* ---- leases are renewed ---- */

static enum status read_cancel(enum status status, struct rows *rows, bool *cancel, struct error *error)
{
    if (status != STATUS_OK) return status;
    const bool held = rows_count(rows) == 1;
    *cancel = held && rows_boolean(rows, 0, 0);
    rows_free(rows);
    return held ? STATUS_OK : lease_lost(error);
}

enum status queue_beat(struct connection *connection, const struct lease *lease, double lease_seconds,
                       const struct queue_progress *progress, bool *cancel, struct error *error)
{
    struct rows *rows = NULL;
    const struct queue_progress none = {.eta_seconds = NAN};
    const struct queue_progress *shown = progress != NULL ? progress : &none;
    *cancel = false;
    const enum status status = connection_query(
        connection,
        CONNECTION_KEEPS_PLAN
        "update runs set beat_at = clock_timestamp(), lease_until = clock_timestamp() + $4 * interval '1 second',"
        " progress_done = case when $5 then $6 else progress_done end,"
        " progress_total = case when $5 then $7 else progress_total end,"
        " progress_unit = case when $5 then $8 else progress_unit end,"
        " progress_eta = case when $5 then $9 else progress_eta end," FORGIVE_ALL " where" QUEUE_FENCE
        "returning cancel_requested_at is not null",
        VALUES(FENCE_OF(lease), value_double(lease_seconds), value_boolean(progress != NULL),
               value_integer(shown->done), value_integer(shown->total), value_text(shown->unit),
               value_double(shown->eta_seconds)),
        &rows, error);
    return read_cancel(status, rows, cancel, error);
}

enum status queue_peek(struct connection *connection, const struct lease *lease, bool *cancel, struct error *error)
{
    struct rows *rows = NULL;
    *cancel = false;
    const enum status status = connection_query(
        connection, CONNECTION_KEEPS_PLAN "select cancel_requested_at is not null from runs where" QUEUE_FENCE,
        VALUES(FENCE_OF(lease)), &rows, error);
    return read_cancel(status, rows, cancel, error);
}

enum status queue_log(struct connection *connection, const struct lease *lease, const json_t *lines,
                      struct error *error)
{
    int64_t affected;
    /* FOR SHARE keeps a rescue out until the lines are inserted; a foreign key's lock would not. */
    const enum status status = connection_execute(
        connection,
        CONNECTION_KEEPS_PLAN
        "with held as (select id, epoch from runs where" QUEUE_FENCE "for share)"
        " insert into run_events (run, epoch, type, data) select h.id, h.epoch, 'log',"
        " json_build_object('line', l.line)"
        " from held h, json_array_elements_text($4::json) with ordinality as l (line, place) order by l.place",
        VALUES(FENCE_OF(lease), value_json(lines)), &affected, error);
    return json_array_size(lines) == 0 ? status : fenced(status, affected, error);
}

/* ---- leases end ---- */

struct finish {
    const struct lease *lease;
    const struct queue_result *result;
    const json_t *artifacts;
};

/* Behind a statement that has `changed` (id, epoch, state): records the files of a run that has ended, and an event. */
#define RECORD_END(files, more)                                                                               \
    ", kept as (insert into artifacts (run, epoch, name, sha256, bytes, media_type)"                          \
    " select c.id, c.epoch, a.name, a.sha256, a.bytes, a.media_type from changed c, json_to_recordset(" files \
    ") as a (name text, sha256 text, bytes bigint, media_type text) where c.state <> 'queued')"               \
    " insert into run_events (run, epoch, type, data) select id, epoch, 'state',"                             \
    " json_build_object('from', 'running', 'to', state, 'lease', $2" more ") from changed"

/* The rows of RECORD_END. The caller owns *out. */
static enum status artifact_rows(const struct queue_result *result, json_t **out, struct error *error)
{
    bool whole = (*out = json_array()) != NULL;
    for (size_t i = 0; whole && i < result->artifact_count; i++) {
        const struct queue_artifact *artifact = &result->artifacts[i];
        whole = json_array_append_new(*out, json_pack("{ss ss sI ss}", "name", artifact->name, "sha256",
                                                      artifact->sha256, "bytes", (json_int_t)artifact->bytes,
                                                      "media_type", artifact->media_type)) == 0;
    }
    if (whole) return STATUS_OK;
    json_decref(*out);
    *out = NULL;
    return error_set(error, STATUS_NO_MEMORY, "no memory to record the files that a run left");
}

static enum status finish_run(struct connection *connection, const struct finish *finish, struct error *error)
{
    int64_t affected;
    const struct lease *lease = finish->lease;
    const struct queue_usage *usage = &finish->result->usage;
    const enum status status = connection_execute(
        connection,
        CONNECTION_KEEPS_PLAN
        "with changed as (update runs set state = 'succeeded', finished_at = clock_timestamp(), result_epoch = epoch,"
        " progress_done = greatest(progress_done, progress_total), progress_eta = null, usage_seconds = $4,"
        " usage_host_bytes = nullif($5, -1), usage_device_bytes = nullif($6, -1), usage_work = nullif($7, 0)," LET_GO
        "where" QUEUE_FENCE "returning id, epoch, state)" RECORD_END("$8", ", 'owner', $3"),
        VALUES(FENCE_OF(lease), value_double(usage->seconds), value_integer(usage->peak_host_bytes),
               value_integer(usage->peak_device_bytes), value_double(usage->work), value_json(finish->artifacts)),
        &affected, error);
    return fenced(status, affected, error);
}

static enum status finish_body(struct connection *connection, void *context, struct error *error)
{
    enum status status;
    const struct finish *finish = context;
    const struct queue_result *result = finish->result;
    const char *run = finish->lease->run.text;
    const int64_t epoch = finish->lease->epoch;
    if ((status = finish_run(connection, finish, error)) != STATUS_OK) return status;
    if ((status = connection_execute(
             connection, CONNECTION_KEEPS_PLAN "insert into run_results (run, epoch, result) values ($1, $2, $3)",
             VALUES(value_text(run), value_integer(epoch), value_json(result->result)), NULL, error)) != STATUS_OK)
        return status;
    if ((status = measurements_insert(connection, run, epoch, result->measurements, error)) != STATUS_OK) return status;
    return task_items_insert(connection, run, epoch, result->items, error);
}

enum status queue_finish(struct connection *connection, const struct lease *lease, const struct queue_result *result,
                         struct error *error)
{
    json_t *artifacts = NULL;
    enum status status = artifact_rows(result, &artifacts, error);
    if (status != STATUS_OK) return status;
    struct finish finish = {.lease = lease, .result = result, .artifacts = artifacts};
    status = connection_transaction(connection, finish_body, &finish, NULL, error);
    json_decref(artifacts);
    return status;
}

enum status queue_fail(struct connection *connection, const struct lease *lease, const struct error *cause,
                       const struct queue_result *left, struct error *error)
{
    int64_t affected;
    json_t *artifacts = NULL;
    const struct queue_usage *usage = &left->usage;
    /* Only a pointer into the run's own request is kept. One that belongs to another request (for a checkpoint that the
     * run registered) would lead nowhere. */
    const bool ours = strncmp(cause->pointer, "/params", strlen("/params")) == 0;
    json_t *document = queue_problem(cause->status, ours ? cause->pointer : "", cause->detail);
    if (document == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory to record why the run failed");
    enum status status = artifact_rows(left, &artifacts, error);
    if (status != STATUS_OK) goto done;
    status = connection_execute(
        connection,
        "with changed as (update runs set tries = tries + $4::int, attempts = attempts + $4::int,"
        " state = case when cancel_requested_at is not null then 'cancelled'"
        " when $4 = 1 and tries + 1 < $5 then 'queued' else 'failed' end,"
        " finished_at = case when cancel_requested_at is null and $4 = 1 and tries + 1 < $5 then null"
        " else clock_timestamp() end,"
        " error = case when cancel_requested_at is null and not ($4 = 1 and tries + 1 < $5) then $6::json end,"
        " run_at = $10::int * interval '1 second' +" DELAY(
            "tries") ", usage_seconds = $7, usage_host_bytes = nullif($8, -1),"
                     " usage_device_bytes = nullif($9, -1)," LET_GO "where" QUEUE_FENCE
                     "returning id, epoch, state)" RECORD_END("$11", ", 'error', $6::json"),
        VALUES(FENCE_OF(lease), value_integer(status_info(cause->status)->retry),
               value_integer(cause->status == STATUS_UNAVAILABLE ? AWAY_BUDGET : QUEUE_ERROR_BUDGET),
               value_json(document), value_double(usage->seconds), value_integer(usage->peak_host_bytes),
               value_integer(usage->peak_device_bytes), value_integer(cause->again_seconds), value_json(artifacts)),
        &affected, error);
    status = fenced(status, affected, error);
done:
    json_decref(artifacts);
    json_decref(document);
    return status;
}

/* The run goes where there is more than $4 bytes: `wanted` is a column of runs, `has` an expression of worker w,
 * `gives` a column of launchers. */
#define TO_MORE(wanted, has, gives)                                                                                \
    "with changed as (update runs r set state = 'queued', " wanted " = $4::bigint + 1," LET_GO "where" QUEUE_FENCE \
    "and cancel_requested_at is null and exists (select from workers w where " has " > $4 and" WORKER_LIVES        \
    "and" WORKER_FITS " union all select from launchers l"                                                         \
    " where l.seen_at > clock_timestamp() - interval '1 minute' and l." gives " > $4) returning id, epoch)"        \
    " insert into run_events (run, epoch, type, data)"                                                             \
    " select id, epoch, 'state', json_build_object('from', 'running', 'to', 'queued', 'lease', $2, 'reason',"      \
    " 'released', 'evidence', cast($5 as text)) from changed"

enum status queue_too_large(struct connection *connection, const struct lease *lease,
                            const struct worker_identity *worker, const struct error *cause, bool *elsewhere,
                            struct error *error)
{
    int64_t affected;
    const int64_t had = cause->of_device ? worker->device_state.memory_bytes : worker->memory_bytes;
    *elsewhere = false;
    if (had <= 0) return STATUS_OK;
    const enum status status = connection_execute(
        connection,
        cause->of_device ? TO_MORE("device_memory_wanted", WORKER_DEVICE_MEMORY, "device_memory_bytes")
                         : TO_MORE("memory_wanted", "w.memory_bytes", "memory_bytes"),
        VALUES(FENCE_OF(lease), value_integer(had), value_text(cause->detail)), &affected, error);
    *elsewhere = status == STATUS_OK && affected == 1;
    return status;
}

#define HAS_ALL_FILES RUN_FITS_FILES("r", "$4")

enum status queue_elsewhere(struct connection *connection, const struct lease *lease,
                            const struct worker_identity *worker, const char *evidence, bool *elsewhere,
                            struct error *error)
{
    int64_t affected;
    const enum status status = connection_execute(
        connection,
        "with changed as (update runs r set state = 'queued'," LET_GO "where" QUEUE_FENCE
        "and cancel_requested_at is null and not" HAS_ALL_FILES "and exists (select from workers w"
        " where w.node <> $4 and" WORKER_LIVES "and" WORKER_FITS ") returning id, epoch)"
        " insert into run_events (run, epoch, type, data)"
        " select id, epoch, 'state', json_build_object('from', 'running', 'to', 'queued', 'lease', $2, 'reason',"
        " 'released', 'evidence', cast($5 as text)) from changed",
        VALUES(FENCE_OF(lease), value_text(worker->node.text), value_text(evidence)), &affected, error);
    *elsewhere = status == STATUS_OK && affected == 1;
    return status;
}

enum status queue_cancelled(struct connection *connection, const struct lease *lease, const struct queue_result *left,
                            struct error *error)
{
    int64_t affected;
    json_t *artifacts = NULL;
    const struct queue_usage *usage = &left->usage;
    enum status status = artifact_rows(left, &artifacts, error);
    if (status != STATUS_OK) return status;
    status = connection_execute(
        connection,
        "with changed as (update runs set state = 'cancelled', finished_at = clock_timestamp(), usage_seconds = $4,"
        " usage_host_bytes = nullif($5, -1), usage_device_bytes = nullif($6, -1)," LET_GO "where" QUEUE_FENCE
        "returning id, epoch, state)" RECORD_END("$7", ""),
        VALUES(FENCE_OF(lease), value_double(usage->seconds), value_integer(usage->peak_host_bytes),
               value_integer(usage->peak_device_bytes), value_json(artifacts)),
        &affected, error);
    json_decref(artifacts);
    return fenced(status, affected, error);
}

enum status queue_release(struct connection *connection, const struct lease *lease, struct error *error)
{
    int64_t affected;
    const enum status status = connection_execute(
        connection,
        "with changed as (update runs set state = case when cancel_requested_at is null then 'queued'"
        " else 'cancelled' end,"
        " finished_at = case when cancel_requested_at is not null then clock_timestamp() end, " LET_GO
        "where" QUEUE_FENCE "returning id, epoch, state) insert into run_events (run, epoch, type, data)"
        " select id, epoch, 'state', json_build_object('from', 'running', 'to', state, 'lease', $2, 'reason',"
        " 'released') from changed",
        VALUES(FENCE_OF(lease)), &affected, error);
    return fenced(status, affected, error);
}

enum status queue_stalled(struct connection *connection, const struct lease *lease, const char *evidence,
                          struct error *error)
{
    int64_t affected;
    json_t *document = queue_problem(STATUS_INTERNAL, "", evidence);
    const enum status status = connection_execute(
        connection,
        "with changed as (update runs set stalls = stalls + 1, attempts = attempts + 1,"
        " state = case when cancel_requested_at is not null then 'cancelled'"
        " when stalls + 1 < $4 then 'queued' else 'failed' end,"
        " finished_at = case when cancel_requested_at is null and stalls + 1 < $4 then null else clock_timestamp() end,"
        " error = case when cancel_requested_at is null and stalls + 1 >= $4 then $5::json end, run_at =" DELAY(
            "stalls") "," LET_GO "where" QUEUE_FENCE
                      "returning id, epoch, state) insert into run_events (run, epoch, type, data)"
                      " select id, epoch, 'state', json_build_object('from', 'running', 'to', state, 'lease', $2,"
                      " 'reason', 'stalled', 'error', $5::json) from changed",
        VALUES(FENCE_OF(lease), value_integer(QUEUE_STALL_BUDGET), value_json(document)), &affected, error);
    json_decref(document);
    return fenced(status, affected, error);
}

enum status queue_outcome(struct connection *connection, const struct lease *lease, bool *open, struct error *error)
{
    bool cancel;
    const enum status status = queue_peek(connection, lease, &cancel, error);
    *open = status == STATUS_OK;
    return status == STATUS_LEASE_LOST ? STATUS_OK : status;
}

/* ---- runs of workers that died ---- */

/* One statement: rows are locked and their predicate is checked again under the lock, so nothing is read first and then
 * updated by id. It does not depend on kinds. A run that is counted for the first time keeps its place in the queue and
 * is retried at once, later ones after a delay. */
#define BURY(predicate, counter, reason)                                                                   \
    "with dead as materialized (select id from runs where state = 'running' and" predicate                 \
    "order by id limit $2 for update skip locked),"                                                        \
    " changed as (update runs r set " counter " = " counter " + 1, attempts = attempts + 1,"               \
    " state = case when cancel_requested_at is not null then 'cancelled'"                                  \
    " when " counter " + 1 < $3 then 'queued' else 'failed' end,"                                          \
    " finished_at = case when cancel_requested_at is null and " counter " + 1 < $3 then null"              \
    " else clock_timestamp() end,"                                                                         \
    " error = case when cancel_requested_at is null and " counter " + 1 >= $3 then $4::json end,"          \
    " run_at = case " counter " when 0 then run_at else" DELAY(                                            \
        counter) "end," LET_GO                                                                             \
                 "from dead d where r.id = d.id and r.state = 'running' returning r.id, r.epoch, r.state)" \
                 " insert into run_events (run, epoch, type, data) select id, epoch, 'state',"             \
                 " json_build_object('from', 'running', 'to', state,"                                      \
                 " 'lease', epoch, 'reason', '" reason "', 'evidence', $5::text) from changed"

/* The counter of a kind of death, and the message of a run that is over the budget. */
struct death {
    const char *of_owner;
    int budget;
    const char *what, *when;
};

static const struct death deaths[] = {
    [QUEUE_CRASHED] = {BURY(" owner = $1 ", "crashes", "crashed"), QUEUE_CRASH_BUDGET, "the worker died",
                       "with this run"},
    [QUEUE_VANISHED] = {BURY(" owner = $1 ", "expiries", "expired"), QUEUE_EXPIRY_BUDGET, "the run's worker vanished",
                        "before the run got 5 % further"},
};

static enum status bury(struct connection *connection, const char *sql, const struct death *death, struct value whose,
                        const char *evidence, int *count, struct error *error)
{
    int64_t affected;
    char detail[320];
    (void)snprintf(detail, sizeof detail, "%s %d times %s, the last time: %.200s", death->what, death->budget,
                   death->when, evidence);
    json_t *document = queue_problem(STATUS_INTERNAL, "", detail);
    const enum status status =
        connection_execute(connection, sql,
                           VALUES(whose, value_integer(RESCUE_BATCH), value_integer(death->budget),
                                  value_json(document), value_text(evidence)),
                           &affected, error);
    json_decref(document);
    if (count != NULL) *count = (int)affected;
    if (status == STATUS_OK && affected > 0) store_notify(connection);
    return status;
}

enum status queue_release_dead(struct connection *connection, const struct store_id *owner, enum queue_death death,
                               const char *evidence, int *released, struct error *error)
{
    return bury(connection, deaths[death].of_owner, &deaths[death], value_text(owner->text), evidence, released, error);
}

enum status queue_rescue(struct connection *connection, double lease_seconds, int *rescued, struct error *error)
{
    return bury(connection, BURY(LEASE_ENDED("clock_timestamp()", "$1"), "expiries", "expired"),
                &deaths[QUEUE_VANISHED], value_double(lease_seconds), "its lease ended without a sign of life", rescued,
                error);
}

enum status queue_rescue_older(struct connection *connection, double moment, int *rescued, struct error *error)
{
    static_assert(QUEUE_LEASE_SECONDS == 30, "the statement has it as a number");
    return bury(connection, BURY(LEASE_ENDED("to_timestamp($1)", "30"), "expiries", "expired"), &deaths[QUEUE_VANISHED],
                value_double(moment), "its lease ended without a sign of life", rescued, error);
}
