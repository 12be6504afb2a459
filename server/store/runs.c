#include "store/runs.h"

#include "store/checkpoints.h"
#include "store/list.h"
#include "store/run_again.h"
#include "store/run_fits.h"
#include "store/run_names.h"
#include "store/run_unfinished.h"
#include "store/sweeps.h"
#include "store/trajectories.h"

#include <stdio.h>
#include <string.h>

#define PROGRESS                                                                                                    \
    "json_build_object('done', r.progress_done, 'total', r.progress_total, 'unit', r.progress_unit, 'eta_seconds'," \
    " case when r.state = 'running' then r.progress_eta end)"
/* A result is visible only in the run's last epoch. */
#define RESULT "(select x.result from run_results x where x.run = r.id and x.epoch = r.result_epoch)"
/* The requirements in words. */
#define REQUIRED                                                                                              \
    "concat_ws(', ', 'device ' || (r.requires ->> 'device'), (select string_agg('label ' || l.value, ', ')"   \
    " from jsonb_array_elements_text(r.requires -> 'labels') l), 'memory of ' ||"                             \
    " greatest(r.memory_wanted, (r.requires ->> 'memory_bytes')::bigint) || ' bytes', 'device memory of ' ||" \
    " greatest(r.device_memory_wanted, (r.requires ->> 'device_memory_bytes')::bigint) || ' bytes',"          \
    " (select 'the files of ' || c.name from run_inputs i join node_lacks l on l.checkpoint = i.checkpoint"   \
    " join checkpoints c on c.id = i.checkpoint where i.run = r.id"                                           \
    " and l.noted_at > clock_timestamp() - interval '10 minutes' order by 1 limit 1))"
#define WAITING                                                                                  \
    "case when r.state <> 'queued' then null"                                                    \
    " when not exists (select from workers w where" WORKER_LIVES ") then 'no worker is running'" \
    " when not exists (select from workers w where" WORKER_LIVES "and" WORKER_TAKES ")"          \
    " then 'the devices of all running workers broke down and are put aside'"                    \
    " when not exists (select from workers w where" WORKER_LIVES "and" WORKER_FITS ")"           \
    " then 'no running worker has all that it needs: ' || " REQUIRED " end"
#define DOCUMENT DOCUMENT_WITH(RESULT)
#define DOCUMENT_WITH(result)                                                                               \
    "json_build_object('id', r.id, 'kind', r.kind, 'state', r.state, 'params', s.params,"                   \
    " 'requires', r.requires, 'waiting', " WAITING ", 'requester', nullif(r.requester, ''), " RUN_NAMES "," \
    " 'result', " result ", 'error', r.error,"                                                              \
    " 'progress', " PROGRESS ", 'attempt', r.attempts, 'worker', r.worker, 'device', r.device,"             \
    " 'created_at', rfc3339(r.created_at), 'started_at', rfc3339(r.started_at), 'finished_at',"             \
    " rfc3339(r.finished_at),"                                                                              \
    " 'usage', json_build_object('seconds', r.usage_seconds, 'peak_host_bytes', r.usage_host_bytes,"        \
    " 'peak_device_bytes', r.usage_device_bytes),"                                                          \
    " 'sweep', (select w.sweep from sweep_runs w where w.run = r.id order by 1 limit 1),"                   \
    " 'cancel_requested', r.cancel_requested_at is not null)"
#define FROM " from runs r join run_specs s on s.run = r.id"

/* ---- inserting ---- */

/* An equal run that has not ended may be joined if it is not being cancelled, which leaves no result, and, while it
 * waits, requires the same: it may wait for a worker that this request does not need, or not allow. */
#define JOINABLE(requires)                                                      \
    " (cancel_requested_at is null and (state = 'running' or (state = 'queued'" \
    " and requires is not distinct from " requires "::jsonb))) "
/* Whether a new run with the key $3 and the requirements $8 stands beside an equal one that it may not join. */
#define BESIDE_ANOTHER \
    " exists (select from runs where dedupe_key = $3 and state in ('queued', 'running') and not" JOINABLE("$8") ") "

/* What a run measured went with the checkpoint that it is of; datasets leave it behind. */
#define MEASURED_GONE                                                                \
    " exists (select from run_inputs i where i.run = runs.id and i.gone is not null" \
    " and not exists (select from datasets_gone d where d.id = i.gone)) "

#define EQUAL                                                       \
    "select id from runs where (dedupe_key = $1 or named_key = $2)" \
    " and ((state = 'succeeded' and ($4 or not" MEASURED_GONE       \
    ")) or" JOINABLE("$3") ") order by (state = 'succeeded') desc, number desc limit 1"

/* Finds an equal run by content or by ids, because the content of its inputs may have become known since (inputs.c).
 * Who joins it locks it, so that a cancellation of its other sweeps comes before, and it is not found, or sees the
 * joined one (sweeps.c). One that made a checkpoint still has that when what it read is gone. */
static enum status find_equal(struct connection *connection, const struct run_new *run, bool join, bool *found,
                              struct store_id *id, struct error *error)
{
    struct rows *rows;
    *found = false;
    if (run->dedupe_key == NULL || run->force) return STATUS_OK;
    const enum status status = connection_query(connection, join ? EQUAL " for key share" : EQUAL,
                                                VALUES(value_text(run->dedupe_key), value_text(run->named_key),
                                                       value_json(run->requires), value_boolean(run->vacant != NULL)),
                                                &rows, error);
    if (status != STATUS_OK) return status;
    *found = rows_count(rows) == 1;
    if (*found) *id = store_id_of(rows);
    rows_free(rows);
    return STATUS_OK;
}

enum status run_find_equal(struct connection *connection, const struct run_new *run, bool *found, struct store_id *id,
                           struct error *error)
{
    return find_equal(connection, run, false, found, id, error);
}

/* A run that waits takes over the larger priority of an equal request. */
static enum status raise_priority(struct connection *connection, const struct store_id *run, int priority,
                                  struct error *error)
{
    return connection_execute(connection,
                              "update runs set priority = $2 where id = $1 and state = 'queued' and priority < $2",
                              VALUES(value_text(run->text), value_integer(priority)), NULL, error);
}

static const char *requester_of(const struct run_new *run)
{
    return run->requester != NULL ? run->requester : "";
}

/* Inserts the row; *made is false when an equal run appeared meanwhile. Beside an equal one that may not be joined
 * (JOINABLE) it counts as forced, which the index of equal runs leaves out. */
static enum status insert_row(struct connection *connection, const struct run_new *run, bool *made, struct store_id *id,
                              struct error *error)
{
    struct rows *rows;
    const enum status status = connection_query(
        connection,
        "with made as (insert into runs (kind, priority, dedupe_key, forced, batch_key, named_key,"
        " requires, requester, checkpoint) values ($1, $2, $3, $4 or" BESIDE_ANOTHER ", $6, $7, $8, $9, $10)"
        " on conflict (dedupe_key) where state in ('queued', 'running') and not forced do nothing returning id),"
        " spec as (insert into run_specs (run, params) select id, $5::json from made),"
        " event as (insert into run_events (run, epoch, type, data)"
        " select id, 0, 'state', json_build_object('from', null, 'to', 'queued') from made) select id from made",
        VALUES(value_text(run->kind), value_integer(run->priority), value_text(run->dedupe_key),
               value_boolean(run->force), value_json(run->params), value_text(run->batch), value_text(run->named_key),
               value_json(run->requires), value_text(requester_of(run)),
               value_text(run->checkpoint_count > 0 ? run->checkpoints[0].text : NULL)),
        &rows, error);
    if (status != STATUS_OK) return status;
    *made = rows_count(rows) == 1;
    if (*made) *id = store_id_of(rows);
    rows_free(rows);
    return STATUS_OK;
}

static enum status insert_inputs(struct connection *connection, const struct store_id *run, const char *sql,
                                 const struct store_id *inputs, size_t count, struct error *error)
{
    for (size_t i = 0; i < count; i++) {
        const enum status status =
            connection_execute(connection, sql, VALUES(value_text(run->text), value_text(inputs[i].text)), NULL, error);
        if (status == STATUS_CONFLICT)
            return error_set(error, STATUS_CONFLICT, "something that the run reads was deleted just now");
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

struct queue_quota run_quota(const struct run_new *run)
{
    return (struct queue_quota){.requester = requester_of(run), .queued_most = run->queued_most};
}

/* Held until the commit, so that the second of two runs that would make the same checkpoints sees the first: it joins
 * an equal one and is refused beside another. The key is arbitrary. */
static enum status lock_names(struct connection *connection, const struct run_new *run, struct error *error)
{
    if (run->vacant == NULL) return STATUS_OK;
    return connection_execute(connection, "select pg_advisory_xact_lock(1986096754, 0)", NO_VALUES, NULL, error);
}

enum status run_insert_within(struct connection *connection, const struct run_new *run, struct queue_quota *quota,
                              enum store_outcome *outcome, struct store_id *id, struct error *error)
{
    bool found = false, made = false;
    *outcome = STORE_EXISTED;
    enum status status = lock_names(connection, run, error);
    if (status != STATUS_OK) return status;
    for (int i = 0; i < 3 && !made; i++) {
        if ((status = find_equal(connection, run, run->sweep != NULL, &found, id, error)) != STATUS_OK) return status;
        if (found) break;
        if ((status = queue_quota_ask(connection, quota, error)) != STATUS_OK) return status;
        if (run->vacant != NULL && (status = run->vacant(run->request, error)) != STATUS_OK) return status;
        if ((status = insert_row(connection, run, &made, id, error)) != STATUS_OK) return status;
    }
    if (!found && !made)
        return error_set(error, STATUS_UNAVAILABLE, "equal runs come and go at the same time; try again");
    if (made) {
        *outcome = STORE_CREATED;
        queue_quota_add(quota, 1);
        if ((status = insert_inputs(connection, id, "insert into run_inputs (run, checkpoint) values ($1, $2)",
                                    run->checkpoints, run->checkpoint_count, error)) != STATUS_OK)
            return status;
        if ((status = insert_inputs(connection, id, "insert into run_inputs (run, trajectory) values ($1, $2)",
                                    run->trajectories, run->trajectory_count, error)) != STATUS_OK)
            return status;
        if ((status = insert_inputs(connection, id, "insert into run_inputs (run, dataset) values ($1, $2)",
                                    run->datasets, run->dataset_count, error)) != STATUS_OK)
            return status;
    }
    if (found && (status = raise_priority(connection, id, run->priority, error)) != STATUS_OK) return status;
    if (run->sweep == NULL) return STATUS_OK;
    return connection_execute(connection, "insert into sweep_runs (sweep, run) values ($1, $2) on conflict do nothing",
                              VALUES(value_text(run->sweep), value_text(id->text)), NULL, error);
}

struct insertion {
    const struct run_new *run;
    enum store_outcome outcome; /* out */
    json_t *document;           /* out, owned by whoever made the insertion */
};

static enum status insert_body(struct connection *connection, void *context, struct error *error)
{
    struct insertion *insertion = context;
    const struct run_new *run = insertion->run;
    struct queue_quota quota = run_quota(run);
    struct store_id id;
    json_decref(insertion->document); /* of an attempt that was rolled back */
    insertion->document = NULL;
    enum status status = run_insert_within(connection, run, &quota, &insertion->outcome, &id, error);
    if (status == STATUS_OK) status = run_get(connection, id.text, &insertion->document, error);
    if (status == STATUS_OK)
        status = idempotency_record_within(connection, run->record, insertion->outcome, insertion->document, error);
    return status == STATUS_OK ? queue_quota_hold(connection, &quota, error) : status;
}

enum status run_insert(struct connection *connection, const struct run_new *run, enum store_outcome *outcome,
                       json_t **document, struct error *error)
{
    struct insertion insertion = {.run = run};
    const enum status status =
        store_transaction(connection, insert_body, &insertion, &insertion.document, document, error);
    if (status != STATUS_OK) return status;
    *outcome = insertion.outcome;
    if (insertion.outcome == STORE_CREATED) store_notify(connection);
    return STATUS_OK;
}

/* ---- reading ---- */

enum status run_get(struct connection *connection, const char *id, json_t **document, struct error *error)
{
    return store_get(connection, CONNECTION_KEEPS_PLAN "select " DOCUMENT FROM " where r.id = $1", "run", id, document,
                     error);
}

static enum status filter_ids(struct connection *connection, const struct run_filter *filter, struct store_id ids[3],
                              struct error *error)
{
    enum status status;
    struct checkpoint checkpoint;
    memset(ids, 0, 3 * sizeof *ids);
    if (filter->checkpoint != NULL) {
        if ((status = checkpoint_find(connection, filter->checkpoint, &checkpoint, error)) != STATUS_OK) return status;
        ids[0] = checkpoint.id;
    }
    if (filter->trajectory != NULL &&
        (status = trajectory_resolve(connection, filter->trajectory, &ids[1], error)) != STATUS_OK)
        return status;
    return filter->sweep != NULL ? sweep_resolve(connection, filter->sweep, &ids[2], error) : STATUS_OK;
}

/* The page's runs are selected before any document is made. The runs of a trajectory have their own index. PostgreSQL
 * plans each call with its values, because no plan is kept (CONNECTION_KEEPS_PLAN): what is not asked for disappears,
 * and a kind or a rare state is looked up in its own index (sql/0038_rare_runs.sql). */
#define CREATED LIST_CREATED("r.created_at", "$9", "$10")
#define TAGGED  LIST_TAGGED("c.tags", "$11")
#define STEPS   LIST_STEPS("c.step", "$12", "$13")
#define NAMED   LIST_NAMED("c.name", "$15")
/* The checkpoint, and those of the same content (sql/0032_same_content.sql): what was asked of one is answered with a
 * run of the other. */
#define ALIKE                                                                                            \
    "select $5 union all select k.id from same_content t join checkpoints c on c.id = t.checkpoint join" \
    " checkpoints k on k.sha256 = c.sha256 where t.checkpoint = $5"
#define CHOSEN(from, behind, order)                                                                                \
    "chosen as (select r.id from " from " and ($2::bigint is null or " behind ") and ($3 is null or r.kind = $3)"  \
    " and ($4 is null or r.state = $4)"                                                                            \
    " and ($5 = '' or r.id in (select i.run from run_inputs i where i.checkpoint in (" ALIKE ")))"                 \
    " and ($7 = '' or r.id in (select w.run from sweep_runs w where w.sweep = $7))" CREATED                        \
    " and (($11::json is null and $12 = 0 and $13 = 9223372036854775807 and $15::text is null) or exists"          \
    " (select 1 from run_inputs i join checkpoints c on c.id = i.checkpoint where i.run = r.id" TAGGED STEPS NAMED \
    "))"                                                                                                           \
    " order by " order " limit $1 + 1), "
/* A summary: no lists and no objects, except intervals. */
#define RESULT_SHOWN                                                                                       \
    "case $8 when 'full' then " RESULT " when 'summary' then (select json_object_agg(e.key, e.value) from" \
    " json_each(" RESULT ") e where case json_typeof(e.value) when 'object' then false when 'array' then"  \
    " json_array_length(e.value) = 2 and json_typeof(e.value -> 0) = 'number' else true end) end"
#define SHOWN         "select r.number, " DOCUMENT_WITH(RESULT_SHOWN) FROM " where r.id in (select id from chosen)"
#define OF_TRAJECTORY "run_trajectories t join runs r on r.id = t.run where t.trajectory = $6"
/* The index of this order contains the number. */
#define BY_NUMBER(way, direction)                                                                      \
    .sql = LIST_BY(CHOSEN("runs r where $6 = ''", "r.number " way " $2", "r.number" direction), SHOWN, \
                   "r.number" direction),                                                              \
    .sql_narrow =                                                                                      \
        LIST_BY(CHOSEN(OF_TRAJECTORY, "t.number " way " $2", "t.number" direction), SHOWN, "r.number" direction)
#define ENDED(way) "(r.finished_at, r.number) " way " ($14::timestamptz, $2)"
#define END_CURSOR LIST_MARKED("document ->> 'finished_at'") /* a run that was tried again may end again */
#define BY_END(way, direction)                                                                         \
    .sql = LIST_BY_CURSOR(CHOSEN("runs r where $6 = '' and r.finished_at is not null", ENDED(way),     \
                                 "r.finished_at" direction ", r.number" direction),                    \
                          SHOWN, "r.finished_at" direction ", r.number" direction, END_CURSOR),        \
    .sql_narrow = LIST_BY_CURSOR(CHOSEN(OF_TRAJECTORY " and r.finished_at is not null", ENDED(way),    \
                                        "r.finished_at" direction ", r.number" direction),             \
                                 SHOWN, "r.finished_at" direction ", r.number" direction, END_CURSOR), \
    .key = LIST_KEY("finished_at::text", "rfc3339(finished_at)", "runs")
static const struct list_order orders[] = {
    {.name = "-created", BY_NUMBER("<", " desc")},
    {.name = "created", BY_NUMBER(">", "")},
    {.name = "-finished", BY_END("<", " desc")},
    {.name = "finished", BY_END(">", "")},
    {0},
};

static const char *const results[] = {
    [RUN_RESULT_FULL] = "full", [RUN_RESULT_SUMMARY] = "summary", [RUN_RESULT_NONE] = ""};

enum status run_list(struct connection *connection, const struct run_filter *filter, const struct page *page,
                     json_t **document, struct error *error)
{
    struct list_cursor place;
    struct store_id ids[3];
    const struct list_filter *list = &filter->list;
    *document = NULL;
    enum status status = list_cursor_find(connection, page, orders, filter->trajectory != NULL, &place, error);
    if (status == STATUS_OK) status = filter_ids(connection, filter, ids, error);
    if (status != STATUS_OK) return status;
    return connection_query_json(
        connection, filter->trajectory != NULL ? place.order->sql_narrow : place.order->sql,
        VALUES(value_integer(place.limit), list_cursor_number(&place), value_text(filter->kind),
               value_text(filter->state), value_text(ids[0].text), value_text(ids[1].text), value_text(ids[2].text),
               value_text(results[filter->result]), value_integer(list->created_from), value_integer(list->created_to),
               value_json(list->tags), value_integer(list->step_from), value_integer(list->step_to),
               list_cursor_key(&place), value_text(list->name)),
        document, error);
}

/* ---- cancel and retry ---- */

enum status run_cancel(struct connection *connection, const char *id, json_t **document, struct error *error)
{
    int64_t affected;
    *document = NULL;
    enum status status = connection_execute(
        connection,
        "with changed as (update runs set cancel_requested_at = clock_timestamp(),"
        " state = case state when 'queued' then 'cancelled' else state end,"
        " finished_at = case state when 'queued' then clock_timestamp() end"
        " where id = $1 and state in ('queued', 'running') and cancel_requested_at is null returning id, epoch, state)"
        " insert into run_events (run, epoch, type, data) select id, epoch, 'state', json_build_object("
        " 'from', case state when 'cancelled' then 'queued' else state end, 'to', state, 'cancel_requested', true)"
        " from changed",
        VALUES(value_text(id)), &affected, error);
    if (status != STATUS_OK) return status;
    if (affected != 0) store_notify(connection);
    if ((status = run_get(connection, id, document, error)) != STATUS_OK) return status;
    const char *state = json_string_value(json_object_get(*document, "state"));
    if (state == NULL || (strcmp(state, "succeeded") != 0 && strcmp(state, "failed") != 0)) return STATUS_OK;
    (void)error_set(error, STATUS_CONFLICT, "the run has %s already", state);
    json_decref(*document);
    *document = NULL;
    return STATUS_CONFLICT;
}

struct retrying {
    const char *id;
    int64_t queued_most;
    json_t *document; /* out, owned by whoever retries */
};

static enum status not_ended(const json_t *document, struct error *error)
{
    return error_set(error, STATUS_CONFLICT, "the run is %s: only failed and cancelled runs are tried again",
                     json_string_value(json_object_get(document, "state")));
}

/* The quota is checked after the run was queued. */
static enum status retry_body(struct connection *connection, void *context, struct error *error)
{
    struct retrying *retrying = context;
    int64_t affected;
    json_decref(retrying->document); /* of an attempt that was rolled back */
    retrying->document = NULL;
    enum status status = connection_execute(
        connection,
        "with before as (select id, state from runs where id = $1 and state in ('failed', 'cancelled')"
        " for update)," RUN_AGAIN,
        VALUES(value_text(retrying->id)), &affected, error);
    if (status == STATUS_CONFLICT) return error_set(error, STATUS_CONFLICT, "an equal run is queued or running");
    if (status == STATUS_OK) status = run_get(connection, retrying->id, &retrying->document, error);
    if (status != STATUS_OK) return status;
    if (affected == 0) return not_ended(retrying->document, error);
    const char *requester = json_string_value(json_object_get(retrying->document, "requester"));
    struct queue_quota quota = {.requester = requester != NULL ? requester : "", .queued_most = retrying->queued_most};
    queue_quota_add(&quota, affected);
    return queue_quota_hold(connection, &quota, error);
}

enum status run_retry(struct connection *connection, const char *id, int64_t queued_most, json_t **document,
                      struct error *error)
{
    struct retrying retrying = {.id = id, .queued_most = queued_most};
    const enum status status =
        store_transaction(connection, retry_body, &retrying, &retrying.document, document, error);
    if (status == STATUS_OK) store_notify(connection);
    return status;
}

/* ---- deletion ---- */

static enum status delete_body(struct connection *connection, void *context, struct error *error)
{
    const char *id = context;
    struct rows *rows;
    enum status status =
        connection_query_one(connection, "select state, finished_at is not null from runs where id = $1 for update",
                             VALUES(value_text(id)), &rows, error);
    if (status == STATUS_NOT_FOUND) return store_unknown("run", id, error);
    if (status != STATUS_OK) return status;
    if (!rows_boolean(rows, 0, 1))
        status = error_set(error, STATUS_CONFLICT, "the run is %s: cancel it and wait for its end first",
                           rows_text(rows, 0, 0));
    rows_free(rows);
    if (status != STATUS_OK) return status;
    status = connection_query(connection,
                              "select r.id from" RUN_UNFINISHED "r join run_specs s on s.run = r.id"
                              " where r.kind = 'compare' and $1 in (s.params ->> 'a', s.params ->> 'b') limit 1",
                              VALUES(value_text(id)), &rows, error);
    if (status != STATUS_OK) return status;
    if (rows_count(rows) != 0)
        status = error_set(error, STATUS_CONFLICT, "run %s compares it: wait for its end, or cancel it",
                           rows_text(rows, 0, 0));
    rows_free(rows);
    if (status != STATUS_OK) return status;
    /* Only one run at a time that measured a checkpoint is deleted: two deletions at once would each restore the
     * other's number. */
    status = connection_execute(connection,
                                "select from checkpoints where id in (select checkpoint from measurements"
                                " where run = $1) order by id for no key update",
                                VALUES(value_text(id)), NULL, error);
    if (status != STATUS_OK) return status;
    return connection_execute(connection, "delete from runs where id = $1", VALUES(value_text(id)), NULL, error);
}

enum status run_delete(struct connection *connection, const char *id, struct error *error)
{
    char copy[64];
    if (strlen(id) >= sizeof copy) return store_unknown("run", id, error);
    (void)snprintf(copy, sizeof copy, "%s", id);
    return connection_transaction(connection, delete_body, copy, NULL, error);
}

/* ---- events ---- */

#define EVENTS                                                                                                     \
    "(select coalesce(json_agg(json_build_object('id', e.id, 'type', e.type, 'at', rfc3339(e.at), 'data', e.data)" \
    " order by e.id), '[]')"                                                                                       \
    " from (select * from run_events where run = r.id and id > $2 order by id limit $3) e)"

enum status run_events(struct connection *connection, const char *id, int64_t after, int limit, json_t **document,
                       struct error *error)
{
    const enum status status =
        connection_query_json(connection, "select " EVENTS " from runs r where r.id = $1",
                              VALUES(value_text(id), value_integer(after), value_integer(limit)), document, error);
    return status == STATUS_NOT_FOUND ? store_unknown("run", id, error) : status;
}

enum status run_watch(struct connection *connection, const char *id, int64_t after, json_t **document,
                      struct error *error)
{
    const enum status status = connection_query_json(
        connection,
        "select json_build_object('state', r.state, 'progress', " PROGRESS ", 'events', " EVENTS
        ") from runs r where r.id = $1",
        VALUES(value_text(id), value_integer(after), value_integer(RUN_WATCH_MOST)), document, error);
    return status == STATUS_NOT_FOUND ? store_unknown("run", id, error) : status;
}

/* Whose files a run shows: those of its result, or of the attempt that failed or was cancelled. */
#define LEFT_EPOCH "coalesce(r.result_epoch, case when r.finished_at is not null then r.epoch end)"

enum status run_artifacts(struct connection *connection, const char *id, json_t **document, struct error *error)
{
    const enum status status = connection_query_json(
        connection,
        "select json_build_object('items', coalesce((select json_agg(json_build_object('name', a.name,"
        " 'bytes', a.bytes,"
        " 'sha256', a.sha256, 'media_type', a.media_type) order by a.name) from artifacts a"
        " where a.run = r.id and a.epoch = " LEFT_EPOCH "), '[]'), 'next', null) from runs r where r.id = $1",
        VALUES(value_text(id)), document, error);
    return status == STATUS_NOT_FOUND ? store_unknown("run", id, error) : status;
}

enum status run_artifact_find(struct connection *connection, const char *id, const char *name, struct run_artifact *out,
                              struct error *error)
{
    struct rows *rows;
    const enum status status = connection_query_one(
        connection,
        "select a.name, a.sha256, a.media_type, a.bytes from artifacts a join runs r on r.id = a.run"
        " and a.epoch = " LEFT_EPOCH " where a.run = $1 and a.name = $2",
        VALUES(value_text(id), value_text(name)), &rows, error);
    if (status == STATUS_NOT_FOUND)
        return error_set(error, STATUS_NOT_FOUND, "the run has no artifact \"%.200s\"", name);
    if (status != STATUS_OK) return status;
    (void)snprintf(out->name, sizeof out->name, "%s", rows_text(rows, 0, 0));
    (void)snprintf(out->sha256, sizeof out->sha256, "%s", rows_text(rows, 0, 1));
    (void)snprintf(out->media_type, sizeof out->media_type, "%s", rows_text(rows, 0, 2));
    out->bytes = rows_integer(rows, 0, 3);
    rows_free(rows);
    return STATUS_OK;
}

enum status run_rate(struct connection *connection, const struct run_like *like, double *rate, int64_t *count,
                     struct error *error)
{
    struct rows *rows = NULL;
    *rate = 0;
    *count = 0;
    const enum status status = connection_query_one(
        connection,
        "select count(*), coalesce(percentile_cont(0.5) within group (order by r.usage_work / r.usage_seconds), 0) from"
        " (select l.* from (select id, usage_work, usage_seconds, finished_at from runs"
        " where kind = $1 and device = $2 and state = 'succeeded' and usage_work > 0 and usage_seconds > 0"
        " order by finished_at desc limit 400) l join run_specs s on s.run = l.id"
        " where s.params ->> 'precision' is not distinct from $4"
        " order by abs(ln(l.usage_work / $3::double precision)), l.finished_at desc limit 5) r",
        VALUES(value_text(like->kind), value_text(like->device), value_double(like->work), value_text(like->precision)),
        &rows, error);
    if (status != STATUS_OK) return status;
    *count = rows_integer(rows, 0, 0);
    *rate = rows_double(rows, 0, 1);
    rows_free(rows);
    return STATUS_OK;
}
