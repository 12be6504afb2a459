#include "track/ledger_database.h"

#include "track/ledger.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char schema[] =
    "create table about (what text not null, cursor text not null);"
    "create table stream (id integer primary key, trajectory_id text not null, trajectory text not null,"
    " series text not null, name text not null, place text not null default '', length integer not null default 0,"
    " unique (trajectory_id, series), unique (trajectory_id, name));"
    "create table point (id integer primary key, stream integer not null references stream, metric text not null,"
    " checkpoint text not null, checkpoint_name text not null, step integer not null, time_ms integer not null,"
    " value real not null, state integer not null, written integer not null default 0,"
    " unique (stream, metric, checkpoint));"
    "create index point_state on point (state, stream) where state < 2;"
    "create index point_step on point (stream, metric, step);"
    "pragma user_version = 1;";

/* ---- opened ---- */

/* ?1: place, ?2: which trajectories, ?3: their ids. */
static enum status about_begin(struct ledger *ledger, struct ledger_query *query, const char *text,
                               const struct ledger_owner *owner, struct error *error)
{
    char *ids = json_dumps(owner->trajectories, JSON_COMPACT);
    enum status status = ledger_query_begin(ledger, query, text, error);
    if (ids == NULL && status == STATUS_OK) status = error_no_memory(error, "a ledger");
    if (status == STATUS_OK) status = ledger_query_bind_text(query, 1, owner->place, error);
    if (status == STATUS_OK) status = ledger_query_bind_text(query, 2, owner->of, error);
    if (status == STATUS_OK) status = ledger_query_bind_text(query, 3, ids, error);
    free(ids);
    return status;
}

static enum status about_write(struct ledger *ledger, const char *text, const struct ledger_owner *owner,
                               struct error *error)
{
    struct ledger_query query;
    enum status status = about_begin(ledger, &query, text, owner, error);
    if (status == STATUS_OK) status = ledger_query_run(&query, error);
    ledger_query_end(&query);
    return status;
}

/* The ledger is also that of trajectories under other names, where just those have streams; it is of these from then
 * on: a wider choice would lack what changed while it was narrower. One that has no stream may have got its name from
 * another since the last call: all changes are read again, of which those that are known already have no effect. */
static enum status prepare_about(struct ledger *ledger, const struct ledger_owner *owner, struct error *error)
{
    static const char ask[] =
        "select what, what = ?1 || ' of ' || ?2, substr(what, 1, length(?1) + 4) = ?1 || ' of ' and"
        " (select group_concat(value) from (select distinct value from json_each(?3) order by value))"
        " = (select group_concat(id) from (select distinct trajectory_id as id from stream order by id)),"
        " exists (select 1 from json_each(?3) where value not in (select trajectory_id from stream)) from about";
    char found[256] = "";
    bool row = false, same = false, alike = false, anew = false;
    struct ledger_query query;
    enum status status = about_begin(ledger, &query, ask, owner, error);
    if (status == STATUS_OK) status = ledger_query_row(&query, &row, error);
    if (row) {
        ledger_query_text(&query, 0, found, sizeof found);
        same = ledger_query_integer(&query, 1) != 0;
        alike = ledger_query_integer(&query, 2) != 0;
        anew = ledger_query_integer(&query, 3) != 0;
    }
    ledger_query_end(&query);
    if (status != STATUS_OK || (same && !anew)) return status;
    if (same)
        return about_write(ledger, "update about set what = ?1 || ' of ' || ?2, cursor = '0' where ?3 <> ''", owner,
                           error);
    if (alike) return about_write(ledger, "update about set what = ?1 || ' of ' || ?2 where ?3 <> ''", owner, error);
    if (row) return error_set(error, STATUS_CONFLICT, "the ledger is that of %.200s; give another one", found);
    return about_write(ledger, "insert into about select ?1 || ' of ' || ?2, '0' where ?3 <> ''", owner, error);
}

static enum status read_version(struct ledger *ledger, int64_t *version, struct error *error)
{
    bool row = false;
    struct ledger_query query;
    enum status status = ledger_query_begin(ledger, &query, "pragma user_version", error);
    if (status == STATUS_OK) status = ledger_query_row(&query, &row, error);
    *version = row ? ledger_query_integer(&query, 0) : 0;
    ledger_query_end(&query);
    return status;
}

enum status ledger_open(const char *path, const struct ledger_owner *owner, struct ledger **out, struct error *error)
{
    int64_t version;
    struct ledger *ledger;
    enum status status = ledger_database_open(path, &ledger, error);
    *out = NULL;
    if (ledger != NULL) ledger->shared = owner->shared;
    if (status == STATUS_OK) status = read_version(ledger, &version, error);
    if (status == STATUS_OK) status = ledger_begin(ledger, error);
    if (status == STATUS_OK && version == 0) status = ledger_execute(ledger, schema, error);
    if (status == STATUS_OK && version > 1)
        status = error_set(error, STATUS_CORRUPT, "the ledger was written by a newer deltaq");
    if (status == STATUS_OK) status = prepare_about(ledger, owner, error);
    if (status == STATUS_OK) status = ledger_commit(ledger, error);
    if (status == STATUS_OK)
        *out = ledger;
    else
        ledger_close(ledger);
    return status;
}

enum status ledger_cursor(struct ledger *ledger, char out[LEDGER_CURSOR], struct error *error)
{
    bool row = false;
    struct ledger_query query;
    enum status status = ledger_query_begin(ledger, &query, "select cursor from about", error);
    if (status == STATUS_OK) status = ledger_query_row(&query, &row, error);
    if (status == STATUS_OK && !row) status = error_set(error, STATUS_CORRUPT, "the ledger has no cursor");
    if (row) ledger_query_text(&query, 0, out, LEDGER_CURSOR);
    ledger_query_end(&query);
    return status;
}

/* ---- rows taken ---- */

static const char *text_of(const json_t *row, const char *name)
{
    const char *text = json_string_value(json_object_get(row, name));
    return text != NULL ? text : "";
}

/* Finds the id of the row's stream, or makes the stream. Files and experiments are found by their names, so a stream
 * keeps the names it had first. A name that is taken gets an id appended: of a trajectory its shortened id, of a series
 * its id; the latter also when a label is too long for a file name and is cut. */
static enum status find_stream(struct ledger *ledger, const json_t *row, int64_t *id, struct error *error)
{
    static const char insert[] =
        "insert into stream (trajectory_id, trajectory, series, name) values (?1,"
        " coalesce((select trajectory from stream where trajectory_id = ?1), case when exists"
        " (select 1 from stream where trajectory = ?2) then ?2 || ' ' || substr(?1, 1, 8) else ?2 end),"
        " ?3, case when length(cast(?4 as blob)) > 200 then substr(?4, 1, 50) || ' ' || ?3 when exists"
        " (select 1 from stream where trajectory_id = ?1 and name = ?4) then ?4 || ' ' || ?3 else ?4 end)"
        " on conflict (trajectory_id, series) do update set trajectory = trajectory returning id";
    static const char *const names[] = {"trajectory_id", "trajectory", "series", "label"};
    bool found = false;
    struct ledger_query query;
    enum status status = ledger_query_begin(ledger, &query, insert, error);
    for (int i = 0; status == STATUS_OK && i < 4; i++)
        status = ledger_query_bind_text(&query, i + 1, text_of(row, names[i]), error);
    if (status == STATUS_OK) status = ledger_query_row(&query, &found, error);
    if (found) *id = ledger_query_integer(&query, 0);
    ledger_query_end(&query);
    return status;
}

/* "2026-11-22T15:04:26.123Z" */
static int64_t milliseconds(const char *text)
{
    struct tm parts = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &parts);
    if (rest == NULL) return 0;
    return (int64_t)timegm(&parts) * 1000 + (*rest == '.' ? llround(strtod(rest, NULL) * 1000) : 0);
}

/* A number that is stored already and has not changed is skipped. One that has changed has a later time, also where the
 * run before counts again because a newer one was deleted: of two points of a step MLflow shows the later one. */
static enum status put_point(struct ledger *ledger, int64_t stream, const json_t *row, const char *metric, double value,
                             struct error *error)
{
    static const char upsert[] =
        "insert into point (stream, metric, checkpoint, checkpoint_name, step, time_ms, value, state)"
        " values (?, ?, ?, ?, ?, ?, ?, 0) on conflict (stream, metric, checkpoint) do update set"
        " checkpoint_name = excluded.checkpoint_name, step = excluded.step, value = excluded.value, state = 0,"
        " time_ms = max(excluded.time_ms, time_ms + 1)"
        " where value <> excluded.value or step <> excluded.step";
    struct ledger_query query;
    enum status status = ledger_query_begin(ledger, &query, upsert, error);
    if (status == STATUS_OK) status = ledger_query_bind_integer(&query, 1, stream, error);
    if (status == STATUS_OK) status = ledger_query_bind_text(&query, 2, metric, error);
    if (status == STATUS_OK) status = ledger_query_bind_text(&query, 3, text_of(row, "checkpoint"), error);
    if (status == STATUS_OK) status = ledger_query_bind_text(&query, 4, text_of(row, "checkpoint_name"), error);
    if (status == STATUS_OK)
        status = ledger_query_bind_integer(&query, 5, json_integer_value(json_object_get(row, "step")), error);
    if (status == STATUS_OK)
        status = ledger_query_bind_integer(&query, 6, milliseconds(text_of(row, "measured_at")), error);
    if (status == STATUS_OK) status = ledger_query_bind_real(&query, 7, value, error);
    if (status == STATUS_OK) status = ledger_query_run(&query, error);
    ledger_query_end(&query);
    return status;
}

/* Stores every number of the row except those that identify it. */
static enum status take_row(struct ledger *ledger, json_t *row, struct error *error)
{
    int64_t stream = 0;
    const char *name;
    json_t *value;
    enum status status = find_stream(ledger, row, &stream, error);
    json_object_foreach(row, name, value)
    {
        if (!json_is_number(value) || strcmp(name, "step") == 0 || strcmp(name, "bits") == 0) continue;
        if (status == STATUS_OK) status = put_point(ledger, stream, row, name, json_number_value(value), error);
    }
    return status;
}

static enum status set_cursor(struct ledger *ledger, const char *cursor, struct error *error)
{
    struct ledger_query query;
    enum status status = ledger_query_begin(ledger, &query, "update about set cursor = ?", error);
    if (status == STATUS_OK) status = ledger_query_bind_text(&query, 1, cursor, error);
    if (status == STATUS_OK) status = ledger_query_run(&query, error);
    ledger_query_end(&query);
    return status;
}

enum status ledger_read_again(struct ledger *ledger, struct error *error)
{
    return set_cursor(ledger, "0", error);
}

enum status ledger_take(struct ledger *ledger, const json_t *rows, const char *cursor, int64_t *left_out,
                        struct error *error)
{
    size_t index;
    json_t *row;
    enum status status = ledger_begin(ledger, error);
    json_array_foreach(rows, index, row)
    {
        if (!json_is_integer(json_object_get(row, "step")))
            (*left_out)++;
        else if (status == STATUS_OK)
            status = take_row(ledger, row, error);
    }
    if (status == STATUS_OK && cursor != NULL) status = set_cursor(ledger, cursor, error);
    if (status == STATUS_OK) return ledger_commit(ledger, error);
    ledger_rollback(ledger);
    return status;
}
