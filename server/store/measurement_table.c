#include "store/measurement_table.h"

#include "store/changes.h"
#include "store/checkpoints.h"
#include "store/list.h"
#include "store/shared_measurements.h"
#include "store/trajectories.h"

#include <string.h>

/* The columns that identify a series within its checkpoint, and a short id of them. */
#define IDENTITY  "label, dataset, protocol, calibration"
#define SERIES_ID "left(md5(concat_ws(chr(31), " IDENTITY ")), 12)"

/* The selected trajectories in the order in which they were named; all of them when none was named. */
#define WANTED                                                                                                 \
    "wanted as (select w.id, w.place from json_array_elements_text($1::json) with ordinality as w (id, place)" \
    " union all select id, number from trajectories where json_array_length($1::json) = 0)"

/* The filter's conditions on a series `s` and on a number `n`: $2 to $6, and an array of metrics. */
#define AMONG(metrics) \
    " (" metrics "::json is null or n.metric in (select json_array_elements_text(" metrics "::json)))"
#define MEASURED(metrics) SERIES_FILTER_FITS("s", "$2", "$3", "$4", "$5", "$6") " and" AMONG(metrics)
/* The metrics that a row must have one of, and those that are shown of it, these too. */
#define SELECTED "$7"
#define SHOWN    "$17"

enum status measurement_select(struct connection *connection, const struct measurement_filter *filter,
                               struct measurement_selection *out, struct error *error)
{
    *out = (struct measurement_selection){.filter = filter};
    enum status status =
        trajectory_resolve_all(connection, filter->trajectories, filter->trajectory_count, &out->trajectories, error);
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
        "with recursive " WANTED ","
        /* Steps from one series to the next along the primary key. */
        " own as (select w.id as trajectory, f.metric, f.series from wanted w cross join lateral (select metric, series"
        " from newest n where n.trajectory = w.id order by metric, series limit 1) f union all"
        " select o.trajectory, f.metric, f.series from own o cross join lateral (select metric, series from newest n"
        " where n.trajectory = o.trajectory and (n.metric, n.series) > (o.metric, o.series) order by metric, series"
        " limit 1) f),"
        " found as (select metric, series from own union select n.metric, n.series from wanted w join same_content t"
        " on t.trajectory = w.id join checkpoints at on at.id = t.checkpoint join checkpoints c"
        " on c.sha256 = at.sha256 and c.id <> at.id join newest n"
        " on n.checkpoint = c.id where n.metric not in " BETWEEN_CHECKPOINTS "),"
        " told as (select s.*, case label when '' then 'full precision' else label end"
        " || case when min(calibration) over same = max(calibration) over same then '' else"
        " ', calibrated on ' || coalesce(nullif(calibrated_on, ''), 'unknown data') || case when min(calibration) over"
        " worded = max(calibration) over worded then '' else ' (' || left(calibration, 6) || ')' end end"
        " || case when dataset = '' or (min(dataset) over labelled = max(dataset) over labelled"
        " and min(protocol) over measured = max(protocol) over measured) then ''"
        " when protocol = '' then ', in training on ' || dataset"
        " when min(protocol) over measured = max(protocol) over measured then ', on ' || dataset"
        " else ', on ' || evaluated_on || case when min(protocol) over spoken = max(protocol) over spoken then ''"
        " else ' (evaluation ' || left(protocol, 6) || ')' end end as told"
        " from series s where id in (select series from found)"
        " window same as (partition by label, dataset, protocol),"
        " worded as (partition by label, dataset, protocol, calibrated_on),"
        " labelled as (partition by label), measured as (partition by label, dataset),"
        " spoken as (partition by label, evaluated_on))"
        " select json_build_object('labels', (select coalesce(json_object_agg(" SERIES_ID ", told), '{}') from told),"
        " 'metrics', (select coalesce(json_agg(distinct metric), '[]') from found n join series s on s.id = n.series"
        " where" MEASURED(SELECTED) "))",
        VALUES(value_json(selection->trajectories), SERIES_FILTER_VALUES(filter->series), value_json(filter->metrics)),
        document, error);
}

/* $8: checkpoint; $9, $10: steps; $11: tags; $12: name; $13, $14: when it was measured. */
#define CHECKPOINT_FITS \
    " ($8 = '' or c.id = $8)" LIST_STEPS("c.step", "$9", "$10") LIST_TAGGED("c.tags", "$11") LIST_NAMED("c.name", "$12")
#define DATED                                                                                                    \
    " and ($13 = 0 and $14 = 9223372036854775807 or exists (select from runs d where d.id = n.run" LIST_CREATED( \
        "d.finished_at", "$13", "$14") "))"
#define CHECKPOINT                                                                               \
    "c.id, c.name, c.trajectory, c.step, c.tokens, c.learning_rate, c.tags, c.sha256, c.number," \
    " coalesce(c.step, 9223372036854775807) as step_or_last"
/* Numbers of the checkpoint `c`: its own, and those of other checkpoints of the same content
 * (sql/0032_same_content.sql). */
#define SHARED(metrics)                                                                       \
    "same_content t join checkpoints k on k.sha256 = c.sha256 and k.id <> c.id join newest n" \
    " on n.checkpoint = k.id join series s on s.id = n.series where" MEASURED(metrics) DATED  \
        " and t.checkpoint = c.id and n.metric not in " BETWEEN_CHECKPOINTS
#define OWN(metrics) "newest n join series s on s.id = n.series where n.checkpoint = c.id and" MEASURED(metrics) DATED
#define OWN_SHOWN    OWN(SHOWN)
#define SHARED_SHOWN SHARED(SHOWN)
#define NEWEST                                                                                   \
    "(select distinct on (n.metric, n.series) n.* from (select n.*, true as own from " OWN_SHOWN \
    " union all select n.*, false from " SHARED_SHOWN ") n order by n.metric, n.series, n.own desc, n.number desc)"
#define HAS_NUMBERS "exists (select from " OWN(SELECTED) " union all select from " SHARED(SELECTED) ")"
#define BY_SERIES   " group by n.series having bool_or(" AMONG(SELECTED) ")"

/* The series of the checkpoint `c`, each from its newest numbers `n`: (series, run, measured). */
#define SERIES_PARTS                                                                            \
    " n.series, (array_agg(n.run order by n.number desc))[1] as run, json_object_agg(n.metric," \
    " json_build_array(n.value, n.low, n.high)) as measured "
/* The row of such a series `g`, joined with `series`. */
#define ROW                                                                                                     \
    "json_build_object('trajectory', c.trajectory_name, 'trajectory_id', c.trajectory, 'checkpoint', c.id,"     \
    " 'checkpoint_name', c.name, 'step', c.step, 'tokens', c.tokens, 'learning_rate', c.learning_rate, 'tags'," \
    " c.tags, 'series', " SERIES_ID                                                                             \
    ", 'method_label', label, 'method', nullif(method, ''), 'bits', nullif(bits, 0), 'dataset',"                \
    " nullif(dataset, ''), 'evaluated_on', nullif(evaluated_on, ''), 'protocol_id', nullif(protocol, ''),"      \
    " 'calibration_id', nullif(calibration, ''), 'calibrated_on', nullif(calibrated_on, ''), 'run', g.run,"     \
    " 'measured_at', (select rfc3339(finished_at) from runs r where r.id = g.run), 'values', measured)"

#define STEP_MARK   LIST_MARK("coalesce(c.step, 9223372036854775807)::text")
#define STEP_CURSOR LIST_MARKED("step_or_last::text")

/* $15: limit; $16: the last checkpoint of the page before; $18: whether there is none; $19: its mark, of its step.
 * `way` and `order`: of steps within a trajectory. The query reads at most a page after the cursor from each
 * trajectory, in index order. It asks for each checkpoint separately whether it has numbers: because that question is a
 * union, the planner never answers it by hashing all numbers. */
#define PAGE(way, order)                                                                                               \
    "with " WANTED ","                                                                                                 \
    " before as (select w.place, coalesce(c.step, 9223372036854775807) as step_or_last, c.number"                      \
    " from checkpoints c join wanted w on w.id = c.trajectory where c.number = $16 and"                                \
    " ($19::text is null or $19 = " STEP_MARK ")),"                                                                    \
    " ordered as (select c.*, w.place, t.name as trajectory_name from wanted w join trajectories t on t.id = w.id"     \
    " left join before b on true cross join lateral (select " CHECKPOINT " from checkpoints c"                         \
    " where c.trajectory = w.id and ($18 or w.place > b.place or (w.place = b.place"                                   \
    " and (coalesce(c.step, 9223372036854775807), c.number) " way " (b.step_or_last, b.number))) and" CHECKPOINT_FITS  \
    " and " HAS_NUMBERS " order by coalesce(c.step, 9223372036854775807)" order ", c.number" order " limit $15 + 1) c" \
    " where $18 or w.place >= b.place),"                                                                               \
    " page as (select *, row_number() over (order by place, step_or_last" order ", number" order ") as nth"            \
    " from ordered order by nth limit $15 + 1),"                                                                       \
    " shown as (select c.nth, c.number, c.step_or_last, r.rows from (select * from page where nth <= $15) c"           \
    " cross join lateral (select json_agg(" ROW " order by method, bits desc, " IDENTITY ") as rows"                   \
    " from (select" SERIES_PARTS "from " NEWEST " n" BY_SERIES ") g join series s on s.id = g.series) r)"              \
    " select json_build_object('found', $18 or exists (select 1 from before), 'items',"                                \
    " coalesce((select json_agg(rows order by nth) from shown), '[]'), 'next', case when"                              \
    " (select count(*) from page) > $15 then (select " STEP_CURSOR " from shown order by nth desc limit 1) end)"

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
        connection, filter->descending ? PAGE("<", " desc") : PAGE(">", ""),
        VALUES(value_json(selection->trajectories), SERIES_FILTER_VALUES(filter->series), value_json(filter->metrics),
               value_text(selection->checkpoint.text), value_integer(filter->step_from), value_integer(filter->step_to),
               value_json(filter->tags), value_text(filter->name), value_integer(filter->measured_from),
               value_integer(filter->measured_to), value_integer(limit), value_integer(first ? 0 : after),
               value_json(filter->shown), value_boolean(first), value_text(page_mark(page))),
        document, error);
    if (status == STATUS_OK && !json_is_true(json_object_get(*document, "found"))) {
        json_decref(*document);
        *document = NULL;
        return error_set_at(
            error, STATUS_INVALID, "/cursor",
            "the checkpoint that the page before ended with is gone, or has another step since: begin with"
            " the first page again");
    }
    return status;
}

enum status measurement_updates(struct connection *connection, const struct measurement_selection *selection,
                                const struct page *page, int64_t since, json_t **document, struct error *error)
{
    const struct measurement_filter *filter = selection->filter;
    const bool first = page->cursor == NULL || page->cursor[0] == '\0';
    int64_t limit, after;
    struct change_span span = {0};
    enum status status = page_read(page, &limit, &after, error);
    *document = NULL;
    if (first) after = since;
    if (status == STATUS_OK) status = changes_span(connection, after, &span, error);
    span.pruned = 0; /* the marks have no age */
    if (status == STATUS_OK) status = changes_check(&span, after, error);
    if (status != STATUS_OK) return status;
    /* A row's last change is the newest mark among those of its checkpoint (run '') and of the runs that measured it.
     * The query reads marks in order and returns the rows whose last mark is among them; a row with a later mark is
     * returned with that mark. */
    return connection_query_json(
        connection,
        "with " WANTED ", taken as (select checkpoint, run, change from change_marks where change > $16"
        " order by change limit $15),"
        " upto as (select more, case when more then change else (select last from change_log) end as change"
        " from (select max(change) as change,"
        " count(*) = $15 and max(change) < (select max(change) from change_marks) as more from taken) t),"
        " touched as (select checkpoint as id from taken union select c.id from taken k join checkpoints m"
        " on m.id = k.checkpoint join checkpoints c on c.sha256 = m.sha256 where k.run <> ''),"
        " changed as (select " CHECKPOINT ", t.name as trajectory_name, (select change from change_marks o"
        " where o.checkpoint = c.id and o.run = '') as own_change from touched join checkpoints c on c.id = touched.id"
        " join wanted w on w.id = c.trajectory join trajectories t on t.id = w.id where" CHECKPOINT_FITS "),"
        " found as (select g.change, c.number, " SERIES_ID " as series, " ROW " as row from changed c"
        " cross join lateral (select" SERIES_PARTS ", greatest(c.own_change, max(k.change)) as change from " NEWEST
        " n left join change_marks k on k.checkpoint = n.checkpoint and k.run = n.run" BY_SERIES ") g"
        " join series s on s.id = g.series where g.change > $16 and g.change <= (select change from upto))"
        " select json_build_object('items', coalesce((select json_agg(json_build_array(row) order by change, number,"
        " series) from found), '[]'), 'cursor', u.change::text, 'next', case when u.more then u.change::text end)"
        " from upto u",
        VALUES(value_json(selection->trajectories), SERIES_FILTER_VALUES(filter->series), value_json(filter->metrics),
               value_text(selection->checkpoint.text), value_integer(filter->step_from), value_integer(filter->step_to),
               value_json(filter->tags), value_text(filter->name), value_integer(filter->measured_from),
               value_integer(filter->measured_to), value_integer(limit), value_integer(after),
               value_json(filter->shown)),
        document, error);
}
