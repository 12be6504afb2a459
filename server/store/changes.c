#include "store/changes.h"

#include "store/run_durations.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *const change_kinds[] = {"run", "checkpoint", "measurement", "verdict", "alert", NULL};

#define LAST_DAYS "clock_timestamp() - $1 * interval '1 day'"
/* A change dated further into the future was written while a clock was set ahead. */
#define FUTURE "clock_timestamp() + interval '1 hour'"

enum { BATCH = 1000, WINDOW = 5000, PRUNE = 10000, CURSOR_DIGITS = 18, INPUTS_SHOWN = 20 };
/* More changes than a database has after a backup that is restored. */
enum { LOST = 1000000000 };

/* ---- ids ---- */

/* The lock on change_log's row is held until the commit, so the next transaction that gives ids sees all rows of this
 * one and continues above them. The statement after the lock sees everything that was committed during the wait. It
 * writes no row that another transaction may hold, and refers to none by a key: all would wait for whoever deletes a
 * checkpoint. */
static enum status number_body(struct connection *connection, void *context, struct error *error)
{
    int64_t *count = context;
    int64_t last;
    const enum status status = connection_query_integer(
        connection, CONNECTION_KEEPS_PLAN "select last from change_log for update", NO_VALUES, &last, error);
    if (status != STATUS_OK) return status;
    return connection_query_integer(
        connection,
        CONNECTION_KEEPS_PLAN
        "with taken as (delete from changes_pending where number in (select number from changes_pending order by number"
        " limit $1) returning *),"
        " placed as (select t.*, l.last + row_number() over (order by t.number) as id from taken t, change_log l),"
        " kept as (insert into changes (id, at, kind, run, checkpoint, trajectories, data) select p.id, p.at, p.kind,"
        " p.run, p.checkpoint, case when p.kind <> 'run' then array_remove(array[p.trajectory], null) else"
        " array(select distinct coalesce(i.trajectory, c.trajectory) from run_inputs i left join checkpoints c"
        " on c.id = i.checkpoint where i.run = p.run and coalesce(i.trajectory, c.trajectory) is not null) end,"
        " p.data || case when p.kind <> 'run' then '{}' else jsonb_build_object('checkpoints', coalesce((select"
        " jsonb_agg(jsonb_build_object('checkpoint', c.id, 'checkpoint_name', c.name, 'trajectory', c.trajectory_name)"
        " order by c.number) from (select distinct c.id, c.name, c.number, t.name as trajectory_name from run_inputs i"
        " join checkpoints c on c.id = i.checkpoint join trajectories t on t.id = c.trajectory where i.run = p.run"
        " order by c.number limit $2) c), '[]')) end from placed p),"
        " marked as (insert into change_marks (checkpoint, run, change) select p.checkpoint, coalesce(p.run, ''),"
        " max(p.id) from placed p join checkpoints c on c.id = p.checkpoint where p.kind in ('checkpoint',"
        " 'measurement') group by 1, 2 on conflict (checkpoint, run) do update set change = excluded.change),"
        " unmarked as (delete from change_marks m using placed p where p.kind = 'checkpoint'"
        " and p.data ->> 'action' = 'deleted' and m.checkpoint = p.checkpoint"
        " and not exists (select from checkpoints c where c.id = p.checkpoint)),"
        " counted as (insert into run_transitions as t (kind, from_state, to_state, reason, count)"
        " select data ->> 'run_kind', coalesce(data ->> 'from', ''), data ->> 'to', coalesce(data ->> 'reason',"
        " case when data ? 'error' then 'error' else '' end), count(*) from taken where kind = 'run'"
        " group by 1, 2, 3, 4"
        " on conflict (kind, from_state, to_state, reason) do update set count = t.count + excluded.count),"
        " timed as (insert into run_durations as d (kind, le, count, seconds, tokens) select r.kind, (select min(b)"
        " from " RUN_DURATIONS_BOUNDS " b where b >= r.usage_seconds), count(*), sum(r.usage_seconds),"
        " coalesce(sum(" RUN_DURATIONS_TOKENS "), 0) from taken t join runs r on r.id = t.run"
        " where t.kind = 'run' and t.data ->> 'to' = 'succeeded' and r.usage_seconds is not null group by 1, 2"
        " on conflict (kind, le) do update set count = d.count + excluded.count,"
        " seconds = d.seconds + excluded.seconds, tokens = d.tokens + excluded.tokens)"
        " update change_log set last = last + (select count(*) from taken) returning (select count(*) from taken)",
        VALUES(value_integer(BATCH), value_integer(INPUTS_SHOWN)), count, error);
}

enum status changes_number(struct connection *connection, struct error *error)
{
    for (;;) {
        int64_t count = 0;
        bool any;
        enum status status = connection_query_boolean(
            connection, CONNECTION_KEEPS_PLAN "select exists (select from changes_pending)", NO_VALUES, &any, error);
        if (status != STATUS_OK || !any) return status;
        status = connection_transaction(connection, number_body, &count, NULL, error);
        if (status != STATUS_OK || count < BATCH) return status;
    }
}

/* ---- reading ---- */

/* $1: a reader's position; l: change_log. Ids have no holes but those that changes_leave_lost left, so in one of these
 * is what neither has a change nor comes before one. Changes up to `pruned` are no longer there to be asked. */
#define KNOWN "$1 in (0, l.last) or $1 <= l.pruned or exists (select from changes where id in ($1, $1 + 1))"

enum status changes_span(struct connection *connection, int64_t after, struct change_span *out, struct error *error)
{
    struct rows *rows;
    const enum status status = connection_query_one(connection, "select l.last, l.pruned, " KNOWN " from change_log l",
                                                    VALUES(value_integer(after)), &rows, error);
    if (status != STATUS_OK) return status;
    *out = (struct change_span){
        .last = rows_integer(rows, 0, 0), .pruned = rows_integer(rows, 0, 1), .known = rows_boolean(rows, 0, 2)};
    rows_free(rows);
    return STATUS_OK;
}

enum status changes_check(const struct change_span *span, int64_t after, struct error *error)
{
    if (!span->known)
        return error_set(error, STATUS_GONE,
                         "%lld is the id of a change that this database does not have: it is another one, or was"
                         " restored from a backup since; its log ends with %lld: read everything anew and go on from"
                         " there",
                         (long long)after, (long long)span->last);
    if (after != 0 && after < span->pruned)
        return error_set(error, STATUS_GONE,
                         "changes up to %lld were removed for their age, so that what followed %lld cannot be told"
                         " whole: read everything anew and go on from %lld",
                         (long long)span->pruned, (long long)after, (long long)span->last);
    return STATUS_OK;
}

enum status changes_cursor(const char *text, const char *name, int64_t *out, struct error *error)
{
    const size_t length = strlen(text);
    if (length == 0 || length > CURSOR_DIGITS || strspn(text, "0123456789") != length) {
        char pointer[64];
        (void)snprintf(pointer, sizeof pointer, "/%s", name);
        return error_set_at(error, STATUS_INVALID, pointer, "not the id of a change: a whole number was expected");
    }
    *out = strtoll(text, NULL, 10);
    return STATUS_OK;
}

/* *found: the JSON was read. One change that is not readable makes all of the JSON so; then *newest is the newest of
 * the ids in it. *far: the last id that was examined. The search begins at the first change there is, so that it steps
 * over a hole. */
static enum status read_changes(struct connection *connection, const struct change_query *query,
                                struct change_span *span, json_t **items, int64_t *newest, int64_t *far, bool *found,
                                struct error *error)
{
    struct rows *rows;
    *items = NULL;
    enum status status = connection_query_one(
        connection,
        "select l.last, l.pruned, coalesce(i.items, '[]'), coalesce(i.newest, 0), " KNOWN
        ", case when b.id + $5 >= l.last then l.last else (select max(id) from changes where id <= b.id + $5) end"
        " from change_log l,"
        " lateral (select coalesce((select min(id) - 1 from changes where id > $1), l.last) as id) b,"
        " lateral (select json_agg(json_build_object('id', c.id, 'kind', c.kind, 'data',"
        " jsonb_build_object('at', rfc3339(c.at)) || c.data) order by c.id) as items, max(c.id) as newest"
        " from (select * from changes where id > b.id and id <= b.id + $5"
        " and ($2::json is null or kind in (select json_array_elements_text($2::json)))"
        " and ($3::json is null or trajectories && array(select json_array_elements_text($3::json)))"
        " order by id limit $4) c) i",
        VALUES(value_integer(query->after), value_json(query->kinds), value_json(query->trajectories),
               value_integer(query->limit), value_integer(WINDOW)),
        &rows, error);
    if (status != STATUS_OK) return status;
    *span = (struct change_span){
        .last = rows_integer(rows, 0, 0), .pruned = rows_integer(rows, 0, 1), .known = rows_boolean(rows, 0, 4)};
    *newest = rows_integer(rows, 0, 3);
    *far = rows_integer(rows, 0, 5);
    status = rows_json(rows, 0, 2, items, error);
    rows_free(rows);
    *found = status == STATUS_OK;
    return status == STATUS_INTERNAL ? STATUS_OK : status;
}

enum status changes_read(struct connection *connection, const struct change_query *query, struct change_span *span,
                         int64_t *until, json_t **items, struct error *error)
{
    struct change_query each = *query;
    int64_t newest = 0, far = 0;
    bool found = false;
    enum status status = read_changes(connection, &each, span, items, &newest, &far, &found, error);
    if (status == STATUS_OK && !found) { /* one at a time, up to the one that cannot be read */
        each.limit = 1;
        status = read_changes(connection, &each, span, items, &newest, &far, &found, error);
    }
    if (status != STATUS_OK) return status;
    if (!found) {
        *items = json_array();
        span->unreadable = newest;
        *until = newest;
        return *items != NULL ? STATUS_OK : error_no_memory(error, "changes");
    }
    *until = (int)json_array_size(*items) < each.limit ? far : newest;
    return STATUS_OK;
}

/* ---- restored ---- */

enum status changes_leave_lost(struct connection *connection, struct error *error)
{
    bool kept = false; /* a dump of an early deltaq has no log */
    const enum status status =
        connection_query_boolean(connection, "select to_regclass('change_log') is not null", NO_VALUES, &kept, error);
    if (status != STATUS_OK || !kept) return status;
    return connection_execute(connection, "update change_log set last = last + $1", VALUES(value_integer(LOST)), NULL,
                              error);
}

/* ---- age ---- */

/* Removes from the beginning up to the last change that is too old and lies before all that are to be kept. One with a
 * date in the future tells nothing: it goes when one behind it is too old. */
enum status changes_prune(struct connection *connection, int64_t days, bool *more, struct error *error)
{
    int64_t affected = 0;
    const enum status status = connection_execute(
        connection,
        "with gone as (delete from changes where id in (select id from changes where id <= (select max(id)"
        " from changes where at < " LAST_DAYS " and id < coalesce((select min(id) from changes"
        " where at >= " LAST_DAYS " and at <= " FUTURE "), 9223372036854775807))"
        " order by id limit $2) returning id)"
        " update change_log set pruned = (select max(id) from gone) where (select count(*) from gone) > 0",
        VALUES(value_integer(days), value_integer(PRUNE)), &affected, error);
    *more = status == STATUS_OK && affected > 0;
    return status;
}
