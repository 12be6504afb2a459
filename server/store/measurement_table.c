#include "store/measurement_table.h"

#include "store/changes.h"
#include "store/checkpoints.h"
#include "store/trajectories.h"

#include <string.h>

/* What a series is, beside its checkpoint, and a short id of it. */
#define IDENTITY  "label, dataset, protocol, calibration"
#define SERIES_ID "left(md5(concat_ws(chr(31), " IDENTITY ")), 12)"

/* The selected trajectories in the order in which they were named. */
#define WANTED                                                                                                 \
    "wanted as (select w.id, w.place from json_array_elements_text($1::json) with ordinality as w (id, place)" \
    " union all select id, number from trajectories where json_array_length($1::json) = 0)"

/* What a filter asks of a measurement `m`: $2 to $6. */
#define MEASURED                                                                                    \
    " ($2 is null or m.method = $2) and ($3 = 0 or m.bits = $3) and ($4 is null or m.dataset = $4)" \
    " and ($5 is null or m.protocol = $5) and ($6 is null or m.calibration = $6)"

/* What is measured between checkpoints is each one's own, whatever other checkpoints have the same content. */
#define BETWEEN_CHECKPOINTS "('weight_change', 'weight_cosine')"

enum status measurement_select(struct connection *connection, const struct measurement_filter *filter,
                               struct measurement_selection *out, struct error *error)
{
    enum status status = STATUS_OK;
    *out = (struct measurement_selection){.filter = filter, .trajectories = json_array()};
    for (size_t i = 0; status == STATUS_OK && i < filter->trajectory_count; i++) {
        struct store_id id;
        status = trajectory_resolve(connection, filter->trajectories[i], &id, error);
        if (status == STATUS_OK && json_array_append_new(out->trajectories, json_string(id.text)) != 0)
            status = error_set(error, STATUS_NO_MEMORY, "no memory for %zu trajectories", filter->trajectory_count);
    }
    if (status == STATUS_OK && filter->checkpoint != NULL) {
        struct checkpoint found;
        status = checkpoint_find(connection, filter->checkpoint, &found, error);
        if (status == STATUS_OK) out->checkpoint = found.id;
    }
    if (status != STATUS_OK) measurement_selection_reset(out);
    return status;
}

void measurement_selection_reset(struct measurement_selection *selection)
{
    json_decref(selection->trajectories);
    selection->trajectories = NULL;
}

enum status measurement_series(struct connection *connection, const struct measurement_selection *selection,
                               json_t **document, struct error *error)
{
    const struct measurement_filter *filter = selection->filter;
    return connection_query_json(
        connection,
        "with " WANTED ", at as (select c.id, c.sha256 from checkpoints c join wanted w on w.id = c.trajectory),"
        " alike as (select id from at union select c.id from at join checkpoints c on c.sha256 = at.sha256),"
        " found as (select m.metric, m.method, m.bits, " IDENTITY ", max(m.calibrated_on) as calibrated_on"
        " from alike join measurements m on m.checkpoint = alike.id group by m.metric, m.method, m.bits, " IDENTITY "),"
        " series as (select " IDENTITY ", max(calibrated_on) as calibrated_on from found group by " IDENTITY "),"
        " told as (select s.*, case label when '' then 'full precision' else label end"
        " || case when min(calibration) over same = max(calibration) over same then '' else"
        " ', calibrated on ' || coalesce(nullif(calibrated_on, ''), 'unknown data') || case when min(calibration) over"
        " worded = max(calibration) over worded then '' else ' (' || left(calibration, 6) || ')' end end"
        " || case when min(dataset) over labelled = max(dataset) over labelled then '' else"
        " ', on ' || coalesce(nullif(dataset, ''), 'no data') end"
        " || case when min(protocol) over measured = max(protocol) over measured then '' else"
        " ' (evaluation ' || left(protocol, 6) || ')' end as told from series s"
        " window same as (partition by label, dataset, protocol),"
        " worded as (partition by label, dataset, protocol, calibrated_on),"
        " labelled as (partition by label), measured as (partition by label, dataset))"
        " select json_build_object('labels', (select coalesce(json_object_agg(" SERIES_ID ", told), '{}') from told),"
        " 'metrics', (select coalesce(json_agg(distinct metric), '[]') from found m where" MEASURED
        " and ($7::json is null or metric in (select json_array_elements_text($7::json)))))",
        VALUES(value_json(selection->trajectories), value_text(filter->method), value_integer(filter->bits),
               value_text(filter->dataset), value_text(filter->protocol), value_text(filter->calibration),
               value_json(filter->metrics)),
        document, error);
}

/* $8 checkpoint, $9 and $10 steps, $11 tags. */
#define CHECKPOINT_FITS                                                                                     \
    " ($8 = '' or c.id = $8) and ($9 = 0 or c.step >= $9) and ($10 = 9223372036854775807 or c.step <= $10)" \
    " and not exists (select 1 from json_array_elements($11::json) f where case when f ->> 'value' is null" \
    " then c.tags -> (f ->> 'key') is null else c.tags ->> (f ->> 'key') is distinct from f ->> 'value' end)"
#define PLACE "place, step_or_last, number"
/* The newest of each metric and series at the checkpoint `at`, its own before those of others of the same content. */
#define NEWEST                                                                                                   \
    "(select distinct on (m.metric, m.label, m.dataset, m.protocol, m.calibration) m.*, r.number, r.finished_at" \
    " from (select at.id as id, true as own union all select c.id, false from checkpoints c where c.sha256 ="    \
    " at.sha256 and c.id <> at.id) k join measurements m on m.checkpoint = k.id join runs r on r.id = m.run"     \
    " and r.result_epoch = m.epoch and r.state = 'succeeded' where" MEASURED                                     \
    " and ($7::json is null or m.metric in (select json_array_elements_text($7::json)))"                         \
    " and (k.own or m.metric not in " BETWEEN_CHECKPOINTS ")"                                                    \
    " order by m.metric, m.label, m.dataset, m.protocol, m.calibration, k.own desc, r.number desc)"

#define CHECKPOINT_PARTS                                                                                   \
    " c.id, c.name, c.trajectory, c.step, c.tokens, c.learning_rate, c.tags, c.sha256, c.number, w.place," \
    " t.name as trajectory_name "
/* A series at the checkpoint `at`, made of its newest measurements `n`. */
#define ROW_PARTS                                                                                                  \
    " method, bits, " IDENTITY                                                                                     \
    ", max(calibrated_on) as calibrated_on, (array_agg(n.run order by n.number desc))[1] as"                       \
    " run, max(n.finished_at) as measured_at, json_object_agg(n.metric, json_build_array(n.value, n.low, n.high))" \
    " as measured "
#define ROW                                                                                                         \
    "json_build_object('trajectory', at.trajectory_name, 'trajectory_id', at.trajectory, 'checkpoint', at.id,"      \
    " 'checkpoint_name', at.name, 'step', at.step, 'tokens', at.tokens, 'learning_rate', at.learning_rate, 'tags'," \
    " at.tags, 'series', " SERIES_ID ", 'method', nullif(method, ''), 'bits', nullif(bits, 0), 'dataset',"          \
    " nullif(dataset, ''), 'protocol_id', nullif(protocol, ''), 'calibration_id', nullif(calibration, ''),"         \
    " 'calibrated_on', nullif(calibrated_on, ''), 'run', run, 'measured_at', rfc3339(measured_at), 'values', measured)"

enum status measurement_page(struct connection *connection, const struct measurement_selection *selection,
                             const struct page *page, json_t **document, struct error *error)
{
    const struct measurement_filter *filter = selection->filter;
    const bool first = page->cursor == NULL || page->cursor[0] == '\0';
    int64_t limit, after;
    enum status status = page_read(page, &limit, &after, error);
    *document = NULL;
    if (status != STATUS_OK) return status;
    status = connection_query_json(
        connection,
        "with " WANTED ","
        " before as (select w.place, coalesce(c.step, 9223372036854775807) as step_or_last, c.number"
        " from checkpoints c join wanted w on w.id = c.trajectory where c.number = $13),"
        " ordered as (select" CHECKPOINT_PARTS ", coalesce(c.step, 9223372036854775807) as step_or_last"
        " from wanted w join trajectories t on t.id = w.id join checkpoints c on c.trajectory = w.id"
        " where" CHECKPOINT_FITS "),"
        " page as (select at.place, at.step_or_last, at.number, s.rows from ordered at cross join lateral"
        " (select json_agg(" ROW " order by method, bits desc, " IDENTITY ") as rows"
        " from (select" ROW_PARTS " from " NEWEST " n group by method, bits, " IDENTITY
        ") g) s where s.rows is not null"
        " and ($14 or (" PLACE ") > (select " PLACE " from before)) order by " PLACE " limit $12 + 1),"
        " shown as (select * from page order by " PLACE " limit $12)"
        " select json_build_object('found', $14 or exists (select 1 from before), 'items',"
        " coalesce((select json_agg(rows order by " PLACE ") from shown), '[]'), 'next', case when"
        " (select count(*) from page) > $12 then (select number::text from shown order by (" PLACE ") desc limit 1)"
        " end)",
        VALUES(value_json(selection->trajectories), value_text(filter->method), value_integer(filter->bits),
               value_text(filter->dataset), value_text(filter->protocol), value_text(filter->calibration),
               value_json(filter->metrics), value_text(selection->checkpoint.text), value_integer(filter->step_from),
               value_integer(filter->step_to), value_json(filter->tags), value_integer(limit),
               value_integer(first ? 0 : after), value_boolean(first)),
        document, error);
    if (status == STATUS_OK && !json_is_true(json_object_get(*document, "found"))) {
        json_decref(*document);
        *document = NULL;
        return error_set_at(error, STATUS_INVALID, "/cursor",
                            "the checkpoint that the page before ended with is gone: begin with the first page again");
    }
    return status;
}

enum status measurement_updates(struct connection *connection, const struct measurement_selection *selection,
                                const struct page *page, int64_t since, json_t **document, struct error *error)
{
    const struct measurement_filter *filter = selection->filter;
    const bool first = page->cursor == NULL || page->cursor[0] == '\0';
    int64_t limit, after;
    struct change_span span;
    enum status status = page_read(page, &limit, &after, error);
    *document = NULL;
    if (first) after = since;
    if (status == STATUS_OK) status = changes_span(connection, &span, error);
    if (status == STATUS_OK) status = changes_check(&(struct change_span){.last = span.last}, after, error);
    if (status != STATUS_OK) return status;
    /* A row changed with the newest change of what it is made of: its checkpoint's own mark (run '') and those of the
     * runs that measured it. Taken are marks, in their order; told are the rows that changed last within them: a row
     * with a later mark comes with that one. */
    return connection_query_json(
        connection,
        "with " WANTED ", taken as (select checkpoint, run, change from change_marks where change > $13"
        " order by change limit $12),"
        " upto as (select case when count(*) < $12 then (select last from change_log) else max(change) end as change,"
        " count(*) = $12 and max(change) < (select max(change) from change_marks) as more from taken),"
        " touched as (select checkpoint as id from taken union select c.id from taken k join checkpoints m"
        " on m.id = k.checkpoint join checkpoints c on c.sha256 = m.sha256 where k.run <> ''),"
        " changed as (select" CHECKPOINT_PARTS ", (select change from change_marks o where o.checkpoint = c.id"
        " and o.run = '') as own_change from touched join checkpoints c on c.id = touched.id"
        " join wanted w on w.id = c.trajectory join trajectories t on t.id = w.id where" CHECKPOINT_FITS "),"
        " found as (select g.change, at.number, " SERIES_ID " as series, " ROW " as row from changed at"
        " cross join lateral (select" ROW_PARTS ", greatest(at.own_change, max(k.change)) as change from " NEWEST
        " n left join change_marks k on k.checkpoint = n.checkpoint and k.run = n.run"
        " group by method, bits, " IDENTITY ") g where g.change > $13 and g.change <= (select change from upto))"
        " select json_build_object('items', coalesce((select json_agg(json_build_array(row) order by change, number,"
        " series) from found), '[]'), 'cursor', u.change::text, 'next', case when u.more then u.change::text end)"
        " from upto u",
        VALUES(value_json(selection->trajectories), value_text(filter->method), value_integer(filter->bits),
               value_text(filter->dataset), value_text(filter->protocol), value_text(filter->calibration),
               value_json(filter->metrics), value_text(selection->checkpoint.text), value_integer(filter->step_from),
               value_integer(filter->step_to), value_json(filter->tags), value_integer(limit), value_integer(after)),
        document, error);
}
