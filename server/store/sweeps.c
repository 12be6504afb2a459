#include "store/sweeps.h"

#include "store/list.h"
#include "store/run_again.h"

#include <stdio.h>

#define COUNT(which) "'" which "', count(*) filter (where r.state = '" which "')"
#define DOCUMENT                                                                                                \
    "json_build_object('id', w.id, 'name', w.name, 'kind', w.kind, 'base', w.base, 'grid', w.grid, 'requires'," \
    " w.requires, 'standing',"                                                                                  \
    " w.standing is not null, 'refused',"                                                                       \
    " (select coalesce(json_agg(json_build_object('checkpoint', c.id, 'name', c.name, 'error', k.error)"        \
    " order by c.number), '[]')"                                                                                \
    " from sweep_checkpoints k join checkpoints c on c.id = k.checkpoint where k.sweep = w.id"                  \
    " and k.error is not null), 'runs',"                                                                        \
    " (select json_build_object(" COUNT("queued") ", " COUNT("running") ", " COUNT("succeeded") ", " COUNT(     \
        "failed") ", " COUNT("cancelled") ", 'total', count(*)) from sweep_runs x join runs r on r.id = x.run"  \
                                          " where x.sweep = w.id), 'created_at', rfc3339(w.created_at))"
#define MATCH " w.id = $1 or w.name = $1 order by (w.id = $1) desc limit 1"

struct insertion {
    const struct sweep_new *sweep;
    enum store_outcome outcome; /* out */
    struct store_id id;
    json_t *document; /* out, owned by whoever made the insertion */
};

static enum status compare(struct connection *connection, struct insertion *insertion, struct error *error)
{
    const struct sweep_new *new = insertion->sweep;
    struct rows *rows;
    const enum status status = connection_query_one(
        connection,
        "select id, kind = $2 and base::jsonb = $3::jsonb and grid::jsonb = $4::jsonb and standing is not distinct"
        " from $5 and requires is not distinct from $6::jsonb from sweeps where name = $1",
        VALUES(value_text(new->name), value_text(new->kind), value_json(new->base), value_json(new->grid),
               value_text(new->standing), value_json(new->requires)),
        &rows, error);
    if (status != STATUS_OK) return status;
    const bool same = rows_boolean(rows, 0, 1);
    insertion->id = store_id_of(rows);
    rows_free(rows);
    if (same) return STATUS_OK;
    return error_set_at(error, STATUS_CONFLICT, "/name", "another sweep is called \"%.200s\": choose another name",
                        new->name);
}

/* `quota` is that of all the runs, which have one requester. */
static enum status insert_runs(struct connection *connection, const char *sweep, const struct run_new *runs,
                               size_t count, struct queue_quota *quota, struct error *error)
{
    if (count > 0) *quota = run_quota(&runs[0]);
    for (size_t i = 0; i < count; i++) {
        struct run_new run = runs[i];
        struct store_id id;
        enum store_outcome ignored;
        run.sweep = sweep;
        const enum status status = run_insert_within(connection, &run, quota, &ignored, &id, error);
        const struct error cause = *error;
        if (status == STATUS_TOO_MANY && count > 1)
            return error_set(error, status, "of %zu runs, which go in together, there is no space after %zu: %s", count,
                             i, cause.detail);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

static enum status note_taken(struct connection *connection, const char *sweep, const json_t *checkpoints,
                              struct error *error)
{
    if (checkpoints == NULL) return STATUS_OK;
    return connection_execute(connection,
                              "insert into sweep_checkpoints (sweep, checkpoint) select $1, c.id"
                              " from json_array_elements_text($2) e join checkpoints c on c.id = e.value"
                              " on conflict do nothing",
                              VALUES(value_text(sweep), value_json(checkpoints)), NULL, error);
}

static enum status insert_sweep(struct connection *connection, struct insertion *insertion, struct queue_quota *quota,
                                struct error *error)
{
    enum status status;
    struct rows *rows;
    const struct sweep_new *new = insertion->sweep;
    json_decref(insertion->document); /* of an attempt that was rolled back */
    insertion->document = NULL;
    insertion->id = store_id_new();
    status = connection_query(connection,
                              "insert into sweeps (id, name, kind, base, grid, standing, requires, requester)"
                              " values ($1, coalesce($2, $1), $3, $4, $5, $6, $7, coalesce($8, ''))"
                              " on conflict on constraint sweeps_name_unique do nothing returning id",
                              VALUES(value_text(insertion->id.text), value_text(new->name), value_text(new->kind),
                                     value_json(new->base), value_json(new->grid), value_text(new->standing),
                                     value_json(new->requires), value_text(new->requester)),
                              &rows, error);
    if (status != STATUS_OK) return status;
    insertion->outcome = rows_count(rows) == 1 ? STORE_CREATED : STORE_EXISTED;
    rows_free(rows);
    if (insertion->outcome == STORE_EXISTED) return compare(connection, insertion, error);
    status = insert_runs(connection, insertion->id.text, new->runs, new->run_count, quota, error);
    return status == STATUS_OK ? note_taken(connection, insertion->id.text, new->taken, error) : status;
}

static enum status insert_body(struct connection *connection, void *context, struct error *error)
{
    struct insertion *insertion = context;
    struct queue_quota quota = {0};
    enum status status = insert_sweep(connection, insertion, &quota, error);
    if (status == STATUS_OK) status = sweep_get(connection, insertion->id.text, &insertion->document, error);
    if (status == STATUS_OK)
        status = idempotency_record_within(connection, insertion->sweep->record, insertion->outcome,
                                           insertion->document, error);
    return status == STATUS_OK ? queue_quota_hold(connection, &quota, error) : status;
}

enum status sweep_insert(struct connection *connection, const struct sweep_new *sweep, enum store_outcome *outcome,
                         json_t **document, struct error *error)
{
    struct insertion insertion = {.sweep = sweep};
    const enum status status =
        store_transaction(connection, insert_body, &insertion, &insertion.document, document, error);
    if (status != STATUS_OK) return status;
    *outcome = insertion.outcome;
    if (insertion.outcome == STORE_CREATED) store_notify(connection);
    return STATUS_OK;
}

enum status sweep_exists(struct connection *connection, const struct sweep_new *sweep, bool *exists,
                         struct error *error)
{
    struct insertion insertion = {.sweep = sweep};
    const enum status status = sweep->name != NULL ? compare(connection, &insertion, error) : STATUS_NOT_FOUND;
    *exists = status == STATUS_OK;
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

enum status sweep_resolve(struct connection *connection, const char *reference, struct store_id *id,
                          struct error *error)
{
    return store_resolve(connection, "select w.id from sweeps w where" MATCH, "sweep", reference, id, error);
}

enum status sweep_get(struct connection *connection, const char *reference, json_t **document, struct error *error)
{
    return store_get(connection, "select " DOCUMENT " from sweeps w where" MATCH, "sweep", reference, document, error);
}

static const struct list_order orders[] = LIST_ORDERS("sweeps", "w", DOCUMENT);

enum status sweep_list(struct connection *connection, const struct list_filter *filter, const struct page *page,
                       json_t **document, struct error *error)
{
    return list_named(connection, orders, filter, page, document, error);
}

enum status sweep_newest_checkpoint(struct connection *connection, int64_t *number, struct error *error)
{
    return connection_query_integer(connection, "select coalesce(max(number), 0) from checkpoints", NO_VALUES, number,
                                    error);
}

enum status sweep_behind(struct connection *connection, int64_t after, int64_t most, const json_t *without,
                         const json_t *later, json_t **document, struct error *error)
{
    /* Without "offset 0" the planner walks all checkpoints in order, although most sweeps have none to take in. */
    return connection_query_json(
        connection,
        "select coalesce(json_agg(b.document), '[]') from (select document from (select json_build_object('sweep',"
        " w.id, 'kind', w.kind, 'base', w.base, 'grid', w.grid, 'requires', w.requires,"
        " 'requester', w.requester, 'checkpoint', c.id) as document, c.number,"
        " w.number as sweep from sweeps w join checkpoints c on c.trajectory = w.standing"
        " and c.number > $3 and (c.path is not null or c.source ->> 'commit' is not null)"
        " where w.standing is not null and w.requester <> all (array(select json_array_elements_text($2::json)))"
        " and c.id <> all (array(select json_array_elements_text($4::json)))"
        " and not exists (select 1 from sweep_checkpoints k where k.sweep = w.id and k.checkpoint = c.id) offset 0) f"
        " order by number, sweep limit $1) b",
        VALUES(value_integer(most), value_json(without), value_integer(after), value_json(later)), document, error);
}

struct extending {
    const struct sweep_extension *extension;
    bool mine; /* out */
};

static enum status extend_body(struct connection *connection, void *context, struct error *error)
{
    struct extending *extending = context;
    const struct sweep_extension *extension = extending->extension;
    struct queue_quota quota = {0};
    int64_t affected = 0;
    /* The lock makes a concurrent cancellation wait, so that it sees the runs that are inserted here. */
    enum status status = connection_execute(
        connection,
        "with standing as materialized (select from sweeps where id = $1 and standing is not null"
        " and grid::jsonb = $4::jsonb for share)"
        " insert into sweep_checkpoints (sweep, checkpoint, error) select $1, c.id, $3 from standing, checkpoints c"
        " where c.id = $2 on conflict do nothing",
        VALUES(value_text(extension->sweep), value_text(extension->checkpoint), value_json(extension->refusal),
               value_json(extension->grid)),
        &affected, error);
    extending->mine = status == STATUS_OK && affected == 1;
    if (status != STATUS_OK || !extending->mine) return status;
    status = insert_runs(connection, extension->sweep, extension->runs, extension->run_count, &quota, error);
    return status == STATUS_OK ? queue_quota_hold(connection, &quota, error) : status;
}

enum status sweep_extend(struct connection *connection, const struct sweep_extension *extension, bool *mine,
                         struct error *error)
{
    struct extending extending = {extension, false};
    const enum status status = connection_transaction(connection, extend_body, &extending, NULL, error);
    *mine = status == STATUS_OK && extending.mine;
    return status;
}

enum status sweep_taken(struct connection *connection, const char *sweep, const char *trajectory, json_t **ids,
                        struct error *error)
{
    return connection_query_json(
        connection,
        "select coalesce(json_agg(c.id order by c.number), '[]') from checkpoints c where c.trajectory = $2"
        " and (c.id in (select i.checkpoint from sweep_runs x join run_inputs i on i.run = x.run where x.sweep = $1)"
        " or c.id in (select k.checkpoint from sweep_checkpoints k where k.sweep = $1 and k.error is null))",
        VALUES(value_text(sweep), value_text(trajectory)), ids, error);
}

struct widening {
    const struct sweep_widening *widening;
    json_t *document; /* out, owned by whoever made the widening */
};

static enum status changed_meanwhile(struct error *error)
{
    return error_set(error, STATUS_CONFLICT, "the sweep was extended or took in a checkpoint just now: try again");
}

/* The row is locked first, so that no standing sweep takes in a checkpoint by the old grid meanwhile. */
static enum status widen_body(struct connection *connection, void *context, struct error *error)
{
    struct widening *widening = context;
    const struct sweep_widening *what = widening->widening;
    struct queue_quota quota = {0};
    int64_t affected = 0;
    json_decref(widening->document); /* of an attempt that was rolled back */
    widening->document = NULL;
    enum status status = connection_execute(
        connection, "update sweeps set grid = $3, cancelled_at = null where id = $1 and grid::jsonb = $2::jsonb",
        VALUES(value_text(what->sweep), value_json(what->grid), value_json(what->more)), &affected, error);
    if (status == STATUS_OK && affected == 0) status = changed_meanwhile(error);
    if (status == STATUS_OK && what->taken != NULL) {
        json_t *taken = NULL;
        status = sweep_taken(connection, what->sweep, what->trajectory, &taken, error);
        if (status == STATUS_OK && !json_equal(taken, what->taken)) status = changed_meanwhile(error);
        json_decref(taken);
    }
    if (status == STATUS_OK) status = insert_runs(connection, what->sweep, what->runs, what->run_count, &quota, error);
    if (status == STATUS_OK) status = note_taken(connection, what->sweep, what->later, error);
    if (status == STATUS_OK) status = sweep_get(connection, what->sweep, &widening->document, error);
    if (status == STATUS_OK)
        status = idempotency_record_within(
            connection, what->record, what->run_count > 0 ? STORE_CREATED : STORE_EXISTED, widening->document, error);
    return status == STATUS_OK ? queue_quota_hold(connection, &quota, error) : status;
}

enum status sweep_widen(struct connection *connection, const struct sweep_widening *widening, json_t **document,
                        struct error *error)
{
    struct widening made = {.widening = widening};
    return store_transaction(connection, widen_body, &made, &made.document, document, error);
}

struct cancelling {
    const char *sweep;
    int64_t affected; /* out */
};

/* Three statements, because each sees only what was committed before it began. The first makes the later of two
 * cancellations that share runs see the earlier. The second waits for whoever is joining one of the runs
 * (run_insert_within), and whoever joins later waits for the end of this. So the third sees every sweep that a run
 * belongs to. */
static enum status cancel_body(struct connection *connection, void *context, struct error *error)
{
    struct cancelling *cancelling = context;
    const struct value sweep = value_text(cancelling->sweep);
    enum status status = connection_execute(
        connection, "update sweeps set standing = null, cancelled_at = clock_timestamp() where id = $1", VALUES(sweep),
        NULL, error);
    if (status == STATUS_OK)
        status = connection_execute(connection,
                                    "select from runs r join sweep_runs x on x.run = r.id where x.sweep = $1"
                                    " and r.state in ('queued', 'running') order by r.id for update of r",
                                    VALUES(sweep), NULL, error);
    if (status != STATUS_OK) return status;
    return connection_execute(
        connection,
        "with mine as materialized (select r.id from runs r join sweep_runs x on x.run = r.id"
        " where x.sweep = $1 and r.state in ('queued', 'running') and r.cancel_requested_at is null"
        " and not exists (select 1 from sweep_runs o join sweeps s on s.id = o.sweep where o.run = r.id"
        " and o.sweep <> x.sweep and s.cancelled_at is null) order by r.id"
        " for update of r),"
        " changed as (update runs r set cancel_requested_at = clock_timestamp(),"
        " state = case r.state when 'queued' then 'cancelled' else r.state end,"
        " finished_at = case r.state when 'queued' then clock_timestamp() end from mine m where r.id = m.id"
        " and r.state in ('queued', 'running')"
        " returning r.id, r.epoch, r.state)"
        " insert into run_events (run, epoch, type, data) select id, epoch, 'state', json_build_object("
        " 'from', case state when 'cancelled' then 'queued' else state end, 'to', state, 'cancel_requested', true)"
        " from changed",
        VALUES(sweep), &cancelling->affected, error);
}

enum status sweep_cancel(struct connection *connection, const char *reference, json_t **document, struct error *error)
{
    struct store_id id;
    *document = NULL;
    enum status status = sweep_resolve(connection, reference, &id, error);
    if (status != STATUS_OK) return status;
    struct cancelling cancelling = {.sweep = id.text};
    status = connection_transaction(connection, cancel_body, &cancelling, NULL, error);
    if (status != STATUS_OK) return status;
    if (cancelling.affected != 0) store_notify(connection);
    return sweep_get(connection, id.text, document, error);
}

struct retrying {
    const char *sweep;
    int64_t queued_most, affected; /* affected: out */
};

/* Checks the quota of each requester after the runs were queued. */
static enum status hold_quota(struct connection *connection, const struct rows *requesters, int64_t queued_most,
                              struct error *error)
{
    enum status status = rows_count(requesters) > 1 ? queue_quota_hold_all(connection, error) : STATUS_OK;
    for (int i = 0; i < rows_count(requesters) && status == STATUS_OK; i++) {
        struct queue_quota quota = {.requester = rows_text(requesters, i, 0), .queued_most = queued_most};
        queue_quota_add(&quota, 1); /* at least one: queue_quota_hold counts them */
        status = queue_quota_hold(connection, &quota, error);
    }
    return status;
}

/* Queues only the oldest of several equal runs, because the queue takes one. */
static enum status retry_all(struct connection *connection, struct retrying *retrying, struct error *error)
{
    const enum status status = connection_execute(
        connection,
        "with failed as (select distinct on (coalesce(r.dedupe_key, r.id), case when r.forced then r.id end) r.id"
        " from runs r join sweep_runs x on x.run = r.id"
        " where x.sweep = $1 and r.state = 'failed' and (r.forced"
        " or r.dedupe_key is null or not exists (select 1 from runs q where q.dedupe_key = r.dedupe_key"
        " and q.state in ('queued', 'running') and not q.forced))"
        " order by coalesce(r.dedupe_key, r.id), case when r.forced then r.id end, r.number),"
        " before as materialized (select r.id, r.state from runs r where r.id in (select id from failed)"
        " and r.state = 'failed' order by r.id for update)," RUN_AGAIN,
        VALUES(value_text(retrying->sweep)), &retrying->affected, error);
    if (status == STATUS_CONFLICT)
        return error_set(error, STATUS_CONFLICT, "a run equal to a failed one was queued just now: try again");
    return status;
}

static enum status retry_body(struct connection *connection, void *context, struct error *error)
{
    struct retrying *retrying = context;
    struct rows *requesters;
    /* Before its runs, as a cancellation does. */
    enum status status = connection_execute(connection, "select from sweeps where id = $1 for no key update",
                                            VALUES(value_text(retrying->sweep)), NULL, error);
    if (status == STATUS_OK)
        status = connection_query(connection,
                                  "select distinct r.requester from runs r join sweep_runs x on x.run = r.id"
                                  " where x.sweep = $1 and r.state = 'failed' order by 1",
                                  VALUES(value_text(retrying->sweep)), &requesters, error);
    if (status != STATUS_OK) return status;
    status = retry_all(connection, retrying, error);
    if (status == STATUS_OK && retrying->affected != 0)
        status = connection_execute(connection, "update sweeps set cancelled_at = null where id = $1",
                                    VALUES(value_text(retrying->sweep)), NULL, error);
    if (status == STATUS_OK && retrying->affected != 0)
        status = hold_quota(connection, requesters, retrying->queued_most, error);
    rows_free(requesters);
    return status;
}

enum status sweep_retry_failed(struct connection *connection, const char *reference, int64_t queued_most,
                               json_t **document, struct error *error)
{
    struct store_id id;
    *document = NULL;
    enum status status = sweep_resolve(connection, reference, &id, error);
    if (status != STATUS_OK) return status;
    struct retrying retrying = {.sweep = id.text, .queued_most = queued_most};
    status = connection_transaction(connection, retry_body, &retrying, NULL, error);
    if (status != STATUS_OK) return status;
    if (retrying.affected != 0) store_notify(connection);
    return sweep_get(connection, id.text, document, error);
}

/* The row is locked first, so that no standing sweep takes in a checkpoint meanwhile. */
static enum status delete_body(struct connection *connection, void *context, struct error *error)
{
    const char *const *reference = context;
    struct store_id id;
    bool standing;
    struct rows *rows;
    enum status status = sweep_resolve(connection, *reference, &id, error);
    if (status != STATUS_OK) return status;
    status = connection_query_boolean(connection, "select standing is not null from sweeps where id = $1 for update",
                                      VALUES(value_text(id.text)), &standing, error);
    if (status == STATUS_NOT_FOUND) return store_unknown("sweep", *reference, error);
    if (status != STATUS_OK) return status;
    if (standing) return error_set(error, STATUS_CONFLICT, "the sweep takes in later checkpoints: cancel it first");
    status = connection_query(connection,
                              "select r.id, r.state from sweep_runs x join runs r on r.id = x.run where x.sweep = $1"
                              " and r.state in ('queued', 'running') limit 1",
                              VALUES(value_text(id.text)), &rows, error);
    if (status != STATUS_OK) return status;
    if (rows_count(rows) != 0)
        status = error_set(error, STATUS_CONFLICT, "its run %s is %s: cancel the sweep or wait for its end first",
                           rows_text(rows, 0, 0), rows_text(rows, 0, 1));
    rows_free(rows);
    if (status != STATUS_OK) return status;
    return connection_execute(connection, "delete from sweeps where id = $1", VALUES(value_text(id.text)), NULL, error);
}

enum status sweep_delete(struct connection *connection, const char *reference, struct error *error)
{
    return connection_transaction(connection, delete_body, &reference, NULL, error);
}
