#include "store/trajectories.h"

#include "store/list.h"
#include "store/run_unfinished.h"

#include <stdio.h>
#include <string.h>

/* Counts are kept by the writes: sql/0013_measurement_table.sql. */
#define COUNT(what) "'" what "', coalesce(sum(k.change) filter (where k.what = '" what "'), 0)"
#define RUNS                                                                                       \
    "json_build_object(" COUNT("queued") ", " COUNT("running") ", " COUNT("succeeded") ", " COUNT( \
        "failed") ", " COUNT("cancelled") ")"
#define NEWEST                                                                                            \
    "(select json_build_object('id', c.id, 'name', c.name, 'architecture', c.architecture, 'parameters'," \
    " c.parameters) from checkpoints c where c.trajectory = t.id order by c.number desc limit 1)"
#define DOCUMENT                                                                                                 \
    "(select json_build_object('id', t.id, 'name', t.name,"                                                      \
    " 'checkpoints', coalesce(sum(k.change) filter (where k.what = 'checkpoint'), 0),"                           \
    " 'first_step', (select min(step) from checkpoints c where c.trajectory = t.id),"                            \
    " 'last_step', (select max(step) from checkpoints c where c.trajectory = t.id),"                             \
    " 'last_tokens', (select max(tokens) from checkpoints c where c.trajectory = t.id),"                         \
    " 'newest', " NEWEST ", 'runs', " RUNS ", 'watch', t.watch, 'watch_state', t.watch_state, 'notes', t.notes," \
    " 'archived', t.archived_at is not null, 'created_at', rfc3339(t.created_at))"                               \
    " from trajectory_counts k where k.trajectory = t.id)"
/* An id has precedence over a name that looks like one. */
#define MATCH " t.id = $1 or t.name = $1 order by (t.id = $1) desc limit 1"

enum status trajectory_ensure(struct connection *connection, const char *name, struct store_id *id,
                              enum store_outcome *outcome, struct error *error)
{
    struct rows *rows;
    /* DO UPDATE would lock and rewrite the row each time; a row made in between is seen by the second SELECT of the
     * next call. */
    enum status status = connection_query(
        connection,
        "with made as (insert into trajectories (name) values ($1) on conflict (name) do nothing returning id)"
        " select id, true from made union all select id, false from trajectories where name = $1",
        VALUES(value_text(name)), &rows, error);
    if (status != STATUS_OK) return status;
    if (rows_count(rows) == 0) { /* made by another transaction after our snapshot */
        rows_free(rows);
        if (outcome != NULL) *outcome = STORE_EXISTED;
        return trajectory_resolve(connection, name, id, error);
    }
    *id = store_id_of(rows);
    if (outcome != NULL) *outcome = rows_boolean(rows, 0, 1) ? STORE_CREATED : STORE_EXISTED;
    rows_free(rows);
    return STATUS_OK;
}

enum status trajectory_resolve(struct connection *connection, const char *reference, struct store_id *id,
                               struct error *error)
{
    return store_resolve(connection, CONNECTION_KEEPS_PLAN "select t.id from trajectories t where" MATCH, "trajectory",
                         reference, id, error);
}

static enum status read_ids(const struct rows *rows, const json_t *references, json_t *ids, struct error *error)
{
    for (int i = 0; i < rows_count(rows); i++) {
        if (rows_null(rows, i, 0))
            return store_unknown("trajectory", json_string_value(json_array_get(references, (size_t)i)), error);
        if (rows_boolean(rows, i, 1) && json_array_append_new(ids, json_string(rows_text(rows, i, 0))) != 0)
            return error_no_memory(error, "trajectories");
    }
    return STATUS_OK;
}

enum status trajectory_resolve_all(struct connection *connection, const char *const *references, size_t count,
                                   json_t **out, struct error *error)
{
    struct rows *rows = NULL;
    json_t *asked = NULL, *ids = json_array();
    enum status status = ids != NULL ? STATUS_OK : error_no_memory(error, "trajectories");
    if (status == STATUS_OK) status = store_texts(references, count, &asked, error);
    if (status == STATUS_OK)
        status = connection_query(connection,
                                  CONNECTION_KEEPS_PLAN
                                  "select f.id, row_number() over (partition by f.id order by w.place) = 1"
                                  " from json_array_elements_text($1::json) with ordinality as w (name, place)"
                                  " left join lateral (select t.id from trajectories t where t.id = w.name or"
                                  " t.name = w.name order by (t.id = w.name) desc limit 1) f on true order by w.place",
                                  VALUES(value_json(asked)), &rows, error);
    if (status == STATUS_OK) status = read_ids(rows, asked, ids, error);
    rows_free(rows);
    *out = status == STATUS_OK ? json_incref(ids) : NULL;
    json_decref(asked);
    json_decref(ids);
    return status;
}

enum status trajectory_get(struct connection *connection, const char *reference, json_t **document, struct error *error)
{
    return store_get(connection, "select " DOCUMENT " from trajectories t where" MATCH, "trajectory", reference,
                     document, error);
}

#define NAMED   LIST_NAMED("t.name", "$4")
#define CREATED LIST_CREATED("t.created_at", "$5", "$6")
#define FITS    " and (t.archived_at is not null) = $3" NAMED CREATED
static const struct list_order orders[] = LIST_NAMED_ORDERS("trajectories", "t", DOCUMENT, FITS, "$7");

enum status trajectory_list(struct connection *connection, bool archived, const struct list_filter *filter,
                            const struct page *page, json_t **document, struct error *error)
{
    struct list_cursor place;
    const enum status status = list_cursor_find(connection, page, orders, false, &place, error);
    *document = NULL;
    if (status != STATUS_OK) return status;
    return connection_query_json(connection, place.order->sql,
                                 VALUES(value_integer(place.limit), list_cursor_number(&place), value_boolean(archived),
                                        value_text(filter->name), value_integer(filter->created_from),
                                        value_integer(filter->created_to), list_cursor_key(&place)),
                                 document, error);
}

enum status trajectory_set_watch(struct connection *connection, const char *reference, const char *path,
                                 struct error *error)
{
    int64_t affected;
    const enum status status =
        connection_execute(connection,
                           "update trajectories set watch = $2, watch_state = case when watch = $2 then watch_state end"
                           " where id = (select t.id from trajectories t where" MATCH ")",
                           VALUES(value_text(reference), value_text(path)), &affected, error);
    if (status == STATUS_OK && affected == 0) return store_unknown("trajectory", reference, error);
    return status;
}

enum status trajectory_watched(struct connection *connection, json_t **document, struct error *error)
{
    return connection_query_json(
        connection,
        "select coalesce(json_agg(json_build_object('id', id, 'name', name, 'watch', watch) order by number), '[]')"
        " from trajectories where watch is not null",
        NO_VALUES, document, error);
}

enum status trajectory_set_watch_state(struct connection *connection, const char *id, const char *path,
                                       const json_t *state, struct error *error)
{
    return connection_execute(connection, "update trajectories set watch_state = $3 where id = $1 and watch = $2",
                              VALUES(value_text(id), value_text(path), value_json(state)), NULL, error);
}

/* ---- changes ---- */

/* Runs that have not ended and read the trajectory, write into it, or have its name among their parameters (fetch,
 * average). */
#define USERS                                                                                              \
    "select x.run from run_trajectories x join" RUN_UNFINISHED "r on r.id = x.run where x.trajectory = $1" \
    " union all select r.id from" RUN_UNFINISHED "r join run_specs s on s.run = r.id"                      \
    " join trajectories t on t.id = $1 and t.name in (s.params ->> 'trajectory', s.params ->> 'into') limit 1"

enum { DELETE_MILLISECONDS = 600000 };

/* Locks the row. run_insert takes a key lock on it through a foreign key, so no run is inserted meanwhile. */
static enum status lock(struct connection *connection, const char *reference, struct store_id *id, bool *watched,
                        struct error *error)
{
    enum status status = trajectory_resolve(connection, reference, id, error);
    if (status != STATUS_OK) return status;
    status = connection_query_boolean(connection, "select watch is not null from trajectories where id = $1 for update",
                                      VALUES(value_text(id->text)), watched, error);
    return status == STATUS_NOT_FOUND ? store_unknown("trajectory", reference, error) : status;
}

/* A run or scan that holds the trajectory's name would make a new trajectory of that name. */
static enum status check_unused(struct connection *connection, const struct store_id *id, bool watched,
                                struct error *error)
{
    struct rows *rows;
    enum status status;
    if (watched)
        return error_set(error, STATUS_CONFLICT,
                         "a directory is watched for this trajectory: end that first (a scan with \"watch\": false)");
    status = connection_query(connection, USERS, VALUES(value_text(id->text)), &rows, error);
    if (status != STATUS_OK) return status;
    if (rows_count(rows) != 0)
        status = error_set(error, STATUS_CONFLICT, "run %s still needs this trajectory: wait for its end, or cancel it",
                           rows_text(rows, 0, 0));
    rows_free(rows);
    return status;
}

struct change {
    const char *reference;
    const json_t *changes;
    struct store_id id; /* out */
};

static enum status patch_body(struct connection *connection, void *context, struct error *error)
{
    struct change *change = context;
    bool watched;
    enum status status = lock(connection, change->reference, &change->id, &watched, error);
    if (status != STATUS_OK) return status;
    if (json_object_get(change->changes, "name") != NULL)
        status = check_unused(connection, &change->id, watched, error);
    if (status != STATUS_OK) return status;
    status = connection_execute(
        connection,
        "update trajectories set name = coalesce($2::jsonb ->> 'name', name),"
        " notes = case when $2::jsonb ? 'notes' then $2::jsonb ->> 'notes' else notes end,"
        " archived_at = case when not $2::jsonb ? 'archived' then archived_at"
        " when ($2::jsonb ->> 'archived')::boolean then coalesce(archived_at, clock_timestamp()) end where id = $1",
        VALUES(value_text(change->id.text), value_json(change->changes)), NULL, error);
    if (status != STATUS_CONFLICT) return status;
    return error_set_at(error, STATUS_CONFLICT, "/name", "another trajectory has this name");
}

enum status trajectory_patch(struct connection *connection, const char *reference, const json_t *changes,
                             json_t **document, struct error *error)
{
    struct change change = {.reference = reference, .changes = changes};
    const enum status status = connection_transaction(connection, patch_body, &change, NULL, error);
    *document = NULL;
    return status == STATUS_OK ? trajectory_get(connection, change.id.text, document, error) : status;
}

/* Checkpoints are deleted first, because the changes that tell of their deletion name the trajectory. */
static enum status delete_body(struct connection *connection, void *context, struct error *error)
{
    struct change *change = context;
    bool watched;
    enum status status = lock(connection, change->reference, &change->id, &watched, error);
    if (status == STATUS_OK) status = check_unused(connection, &change->id, watched, error);
    if (status == STATUS_OK) status = connection_script(connection, "set local statement_timeout = 0", error);
    if (status == STATUS_OK)
        status = connection_execute(connection, "delete from checkpoints where trajectory = $1",
                                    VALUES(value_text(change->id.text)), NULL, error);
    if (status != STATUS_OK) return status;
    return connection_execute(connection, "delete from trajectories where id = $1", VALUES(value_text(change->id.text)),
                              NULL, error);
}

enum status trajectory_delete(struct connection *connection, const char *reference, struct error *error)
{
    struct change change = {.reference = reference};
    connection_set_deadline(connection, DELETE_MILLISECONDS);
    const enum status status = connection_transaction(connection, delete_body, &change, NULL, error);
    connection_set_deadline(connection, 0);
    return status;
}
