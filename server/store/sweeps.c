#include "store/sweeps.h"

#include "store/list.h"

#include <stdio.h>

#define COUNT(which) "'" which "', count(*) filter (where r.state = '" which "')"
#define DOCUMENT                                                                                                                   \
    "json_build_object('id', w.id, 'name', w.name, 'kind', w.kind, 'base', w.base, 'grid', w.grid, 'runs',"                        \
    " (select json_build_object(" COUNT("queued") ", " COUNT("running") ", " COUNT("succeeded") ", " COUNT("failed") ", " COUNT(   \
        "cancelled") ", 'total', count(*)) from sweep_runs x join runs r on r.id = x.run where x.sweep = w.id), 'created_at', rfc3339(w.created_at))"
#define MATCH " w.id = $1 or w.name = $1 order by (w.id = $1) desc limit 1"

static enum status unknown(const char *reference, struct error *error)
{
    return error_set(error, STATUS_NOT_FOUND, "no sweep \"%.200s\"", reference);
}

struct insertion {
    const struct sweep_new *sweep;
    enum store_outcome outcome; /* out */
    struct store_id id;         /* out */
};

static enum status compare(struct connection *connection, struct insertion *insertion, struct error *error)
{
    const struct sweep_new *new = insertion->sweep;
    struct rows *rows;
    const enum status status = connection_query_one(
        connection, "select id, kind = $2 and base::jsonb = $3::jsonb and grid::jsonb = $4::jsonb from sweeps where name = $1",
        VALUES(value_text(new->name), value_text(new->kind), value_json(new->base), value_json(new->grid)), &rows, error);
    if (status != STATUS_OK) return status;
    const bool same = rows_boolean(rows, 0, 1);
    (void)snprintf(insertion->id.text, sizeof insertion->id.text, "%s", rows_text(rows, 0, 0));
    rows_free(rows);
    if (same) return STATUS_OK;
    return error_set_at(error, STATUS_CONFLICT, "/name", "another sweep is called \"%.200s\": choose another name", new->name);
}

static enum status insert_body(struct connection *connection, void *context, struct error *error)
{
    enum status status;
    struct rows *rows;
    struct insertion *insertion = context;
    const struct sweep_new *new = insertion->sweep;
    insertion->id = store_id_new();
    status = connection_query(connection,
                              "insert into sweeps (id, name, kind, base, grid) values ($1, coalesce($2, $1), $3, $4, $5)"
                              " on conflict on constraint sweeps_name_unique do nothing returning id",
                              VALUES(value_text(insertion->id.text), value_text(new->name), value_text(new->kind),
                                     value_json(new->base), value_json(new->grid)),
                              &rows, error);
    if (status != STATUS_OK) return status;
    insertion->outcome = rows_count(rows) == 1 ? STORE_CREATED : STORE_EXISTED;
    rows_free(rows);
    if (insertion->outcome == STORE_EXISTED) return compare(connection, insertion, error);
    for (size_t i = 0; i < new->run_count; i++) {
        struct run_new run = new->runs[i];
        struct store_id id;
        enum store_outcome ignored;
        run.sweep = insertion->id.text;
        if ((status = run_insert_within(connection, &run, &ignored, &id, error)) != STATUS_OK) return status;
    }
    return STATUS_OK;
}

enum status sweep_insert(struct connection *connection, const struct sweep_new *sweep, enum store_outcome *outcome,
                         json_t **document, struct error *error)
{
    struct insertion insertion = {.sweep = sweep};
    const enum status status = connection_transaction(connection, insert_body, &insertion, NULL, error);
    *document = NULL;
    if (status != STATUS_OK) return status;
    *outcome = insertion.outcome;
    if (insertion.outcome == STORE_CREATED) store_notify(connection);
    return sweep_get(connection, insertion.id.text, document, error);
}

enum status sweep_get(struct connection *connection, const char *reference, json_t **document, struct error *error)
{
    const enum status status = connection_query_json(connection, "select " DOCUMENT " from sweeps w where" MATCH,
                                                     VALUES(value_text(reference)), document, error);
    return status == STATUS_NOT_FOUND ? unknown(reference, error) : status;
}

enum status sweep_list(struct connection *connection, const struct page *page, json_t **document, struct error *error)
{
    int64_t limit, before;
    const enum status status = page_read(page, &limit, &before, error);
    *document = NULL;
    if (status != STATUS_OK) return status;
    return connection_query_json(connection, LIST_OF("select w.number, " DOCUMENT " from sweeps w where w.number < $2"),
                                 VALUES(value_integer(limit), value_integer(before)), document, error);
}

enum status sweep_cancel(struct connection *connection, const char *reference, json_t **document, struct error *error)
{
    int64_t affected;
    const enum status status = connection_execute(
        connection,
        "with mine as materialized (select r.id from runs r join sweep_runs x on x.run = r.id"
        " where x.sweep = (select w.id from sweeps w where" MATCH
        ") and r.state in ('queued', 'running') and r.cancel_requested_at is null"
        " and not exists (select 1 from sweep_runs o where o.run = r.id and o.sweep <> x.sweep) order by r.id for update of r),"
        " changed as (update runs r set cancel_requested_at = clock_timestamp(), state = case r.state when 'queued' then 'cancelled' else r.state end,"
        " finished_at = case r.state when 'queued' then clock_timestamp() end from mine m where r.id = m.id and r.state in ('queued', 'running')"
        " returning r.id, r.epoch, r.state)"
        " insert into run_events (run, epoch, type, data) select id, epoch, 'state', json_build_object("
        " 'from', case state when 'cancelled' then 'queued' else state end, 'to', state, 'cancel_requested', true) from changed",
        VALUES(value_text(reference)), &affected, error);
    *document = NULL;
    if (status != STATUS_OK) return status;
    if (affected != 0) store_notify(connection);
    return sweep_get(connection, reference, document, error);
}
