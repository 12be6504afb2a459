#include "track/ledger.h"

#include "base/array.h"
#include "track/ledger_database.h"

#include <stdlib.h>

void ledger_batch_reset(struct ledger_batch *batch)
{
    free(batch->points);
    *batch = (struct ledger_batch){0};
}

enum status ledger_next(struct ledger *ledger, enum ledger_state state, struct ledger_stream *out, bool *found,
                        struct error *error)
{
    static const char text[] =
        "select id, case when ?2 then (select max(length) from stream) else length end, trajectory_id, trajectory,"
        " series, name, place from stream where id ="
        " (select min(stream) from point where state = ?1 and state < 2)";
    struct ledger_query query;
    enum status status = ledger_query_begin(ledger, &query, text, error);
    *found = false;
    *out = (struct ledger_stream){0};
    if (status == STATUS_OK) status = ledger_query_bind_integer(&query, 1, state, error);
    if (status == STATUS_OK) status = ledger_query_bind_integer(&query, 2, ledger->shared, error);
    if (status == STATUS_OK) status = ledger_query_row(&query, found, error);
    if (*found) {
        out->id = ledger_query_integer(&query, 0);
        out->length = ledger_query_integer(&query, 1);
        ledger_query_text(&query, 2, out->trajectory_id, sizeof out->trajectory_id);
        ledger_query_text(&query, 3, out->trajectory, sizeof out->trajectory);
        ledger_query_text(&query, 4, out->series, sizeof out->series);
        ledger_query_text(&query, 5, out->name, sizeof out->name);
        ledger_query_text(&query, 6, out->place, sizeof out->place);
    }
    ledger_query_end(&query);
    return status;
}

static enum status read_points(struct ledger_query *query, struct ledger_batch *out, struct error *error)
{
    bool row = true;
    enum status status = STATUS_OK;
    for (;;) {
        status = ledger_query_row(query, &row, error);
        if (status != STATUS_OK || !row) return status;
        status = array_grow(&out->points, out->count + 1, &out->capacity, sizeof *out->points, error);
        if (status != STATUS_OK) return status;
        struct ledger_point *point = &out->points[out->count++];
        point->id = ledger_query_integer(query, 0);
        point->step = ledger_query_integer(query, 1);
        point->time_ms = ledger_query_integer(query, 2);
        point->value = ledger_query_real(query, 3);
        ledger_query_text(query, 4, point->metric, sizeof point->metric);
        ledger_query_text(query, 5, point->checkpoint, sizeof point->checkpoint);
        ledger_query_text(query, 6, point->checkpoint_name, sizeof point->checkpoint_name);
    }
}

/* `low` to `high`: the range of states. */
static enum status select_points(struct ledger *ledger, const struct ledger_stream *stream, int low, int high,
                                 int64_t most, struct ledger_batch *out, struct error *error)
{
    static const char text[] = "select id, step, time_ms, value, metric, checkpoint, checkpoint_name from point"
                               " where stream = ? and state between ? and ? order by step, checkpoint, metric limit ?";
    const int64_t values[] = {stream->id, low, high, most > 0 ? most : -1};
    struct ledger_query query;
    enum status status = ledger_query_begin(ledger, &query, text, error);
    *out = (struct ledger_batch){0};
    for (int i = 0; status == STATUS_OK && i < 4; i++)
        status = ledger_query_bind_integer(&query, i + 1, values[i], error);
    if (status == STATUS_OK) status = read_points(&query, out, error);
    ledger_query_end(&query);
    if (status != STATUS_OK) ledger_batch_reset(out);
    return status;
}

enum status ledger_points(struct ledger *ledger, const struct ledger_stream *stream, enum ledger_state state,
                          int64_t most, struct ledger_batch *out, struct error *error)
{
    return select_points(ledger, stream, (int)state, (int)state, most, out, error);
}

enum status ledger_all(struct ledger *ledger, const struct ledger_stream *stream, struct ledger_batch *out,
                       struct error *error)
{
    return select_points(ledger, stream, LEDGER_PENDING, LEDGER_SENT, 0, out, error);
}

enum status ledger_late(struct ledger *ledger, const struct ledger_stream *stream, bool *late, struct error *error)
{
    static const char text[] =
        "with sent as materialized (select metric, max(step) as last from point where stream = ?1 and state = 2"
        " group by metric)"
        " select 1 from point as p left join sent on sent.metric = p.metric where p.stream = ?1 and p.state = 0"
        " and (p.written = 1 or sent.last >= p.step) limit 1";
    struct ledger_query query;
    enum status status = ledger_query_begin(ledger, &query, text, error);
    *late = false;
    if (status == STATUS_OK) status = ledger_query_bind_integer(&query, 1, stream->id, error);
    if (status == STATUS_OK) status = ledger_query_row(&query, late, error);
    ledger_query_end(&query);
    return status;
}

static enum status mark_points(struct ledger *ledger, const struct ledger_batch *batch, const bool *chosen,
                               enum ledger_state state, struct error *error)
{
    struct ledger_query query;
    enum status status = ledger_query_begin(
        ledger, &query, "update point set state = ?1, written = max(written, ?1 = 2) where id = ?2", error);
    for (int64_t i = 0; status == STATUS_OK && i < batch->count; i++) {
        if (chosen != NULL && !chosen[i]) continue;
        status = ledger_query_bind_integer(&query, 1, state, error);
        if (status == STATUS_OK) status = ledger_query_bind_integer(&query, 2, batch->points[i].id, error);
        if (status == STATUS_OK) status = ledger_query_run(&query, error);
        ledger_query_again(&query);
    }
    ledger_query_end(&query);
    return status;
}

static enum status mark_place(struct ledger *ledger, const struct ledger_stream *stream, struct error *error)
{
    struct ledger_query query;
    enum status status =
        ledger_query_begin(ledger, &query, "update stream set place = ?, length = ? where id = ?", error);
    if (status == STATUS_OK) status = ledger_query_bind_text(&query, 1, stream->place, error);
    if (status == STATUS_OK) status = ledger_query_bind_integer(&query, 2, stream->length, error);
    if (status == STATUS_OK) status = ledger_query_bind_integer(&query, 3, stream->id, error);
    if (status == STATUS_OK) status = ledger_query_run(&query, error);
    ledger_query_end(&query);
    return status;
}

enum status ledger_mark(struct ledger *ledger, const struct ledger_batch *batch, const bool *chosen,
                        enum ledger_state state, const struct ledger_stream *stream, struct error *error)
{
    enum status status = ledger_begin(ledger, error);
    if (status == STATUS_OK) status = mark_points(ledger, batch, chosen, state, error);
    if (status == STATUS_OK) status = mark_place(ledger, stream, error);
    if (status == STATUS_OK) return ledger_commit(ledger, error);
    ledger_rollback(ledger);
    return status;
}
