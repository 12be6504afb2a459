#include "store/curves.h"

#include "store/curve_points.h"
#include "store/shared_measurements.h"
#include "store/trajectories.h"

#include <string.h>

/* The columns that identify a series within its trajectory: method with options, data and protocol, calibration. */
#define IDENTITY "label, dataset, protocol, calibration"

/* A label that also distinguishes series which differ only in their calibration, by its description, or by the first
 * digits of its id where two have the same description. */
#define TOLD_APART                                                                            \
    "label || case when min(calibration) over (partition by label, dataset, protocol)"        \
    " = max(calibration) over (partition by label, dataset, protocol) then '' else"           \
    " ', calibrated on ' || coalesce(nullif(calibrated_on, ''), 'unknown data') ||"           \
    " case when min(calibration) over (partition by label, dataset, protocol, calibrated_on)" \
    " = max(calibration) over (partition by label, dataset, protocol, calibrated_on) then ''" \
    " else ' (' || left(calibration, 6) || ')' end end"
/* The same for series that differ in their evaluation, by dataset where that distinguishes them. */
#define TOLD_MEASURED                                                                                  \
    "case when dataset = '' or (min(dataset) over labelled = max(dataset) over labelled"               \
    " and min(protocol) over measured = max(protocol) over measured) then ''"                          \
    " else case when protocol = ''"                                                                    \
    " then ', in training on ' || dataset"                                                             \
    " when min(protocol) over measured = max(protocol) over measured then ', on ' || dataset"          \
    " else ', on ' || evaluated_on || case when min(protocol) over spoken = max(protocol) over spoken" \
    " then '' else ' (evaluation ' || left(protocol, 6) || ')' end end end"
#define TOLD_WINDOWS                                                                                 \
    " window labelled as (partition by label), measured as (partition by label, dataset), spoken as" \
    " (partition by label, evaluated_on)"

/* $1: the trajectories; $4: the series that have points. */
static enum status describe(struct connection *connection, const json_t *trajectories, const struct curve_query *query,
                            const json_t *series, json_t **document, struct error *error)
{
    return connection_query_json(
        connection,
        CONNECTION_KEEPS_PLAN
        "with grouped as (select g.place, (f ->> 0)::bigint as trajectory, t.name as trajectory_name,"
        " (f ->> 2)::bigint as total, (f ->> 3)::bigint as rank, coalesce(label, '') as label,"
        " coalesce(dataset, '') as dataset,"
        " coalesce(protocol, '') as protocol, coalesce(calibration, '') as calibration, coalesce(method, '') as method,"
        " coalesce(bits, 0) as bits, coalesce(calibrated_on, '') as calibrated_on,"
        " coalesce(evaluated_on, '') as evaluated_on from json_array_elements($4::json) with ordinality as g (f, place)"
        " join json_array_elements_text($1::json) with ordinality as w (id, nth) on w.nth = (f ->> 0)::bigint"
        " join trajectories t on t.id = w.id left join series s on s.id = (f ->> 1)::integer),"
        " series as (select *, " TOLD_APART " as told, " TOLD_MEASURED " as measured_on from grouped" TOLD_WINDOWS ")"
        " select json_build_object('metric', $2, 'x', $3, 'series', coalesce((select json_agg(json_build_object("
        "'trajectory', trajectory_name, 'label', case when told = '' and measured_on <> '' then 'full precision'"
        " else told end || measured_on, 'method_label', told, 'method', nullif(method, ''), 'bits', nullif(bits, 0),"
        " 'dataset', nullif(dataset, ''), 'protocol_id', nullif(protocol, ''), 'calibration_id', nullif(calibration,"
        " ''), 'calibrated_on', nullif(calibrated_on, ''), 'evaluated_on', nullif(evaluated_on, ''),"
        " 'total', total, 'rank', rank, 'points', place - 1)"
        " order by trajectory, dataset, method, bits desc, told, protocol) from series), '[]'))",
        VALUES(value_json(trajectories), value_text(query->metric), value_text(curve_points_axes[query->axis]),
               value_json(series)),
        document, error);
}

enum status curve_open(struct connection *connection, const struct curve_query *query, struct curve_points *points,
                       json_t **document, struct error *error)
{
    json_t *trajectories = NULL;
    enum status status =
        trajectory_resolve_all(connection, query->trajectories, query->trajectory_count, &trajectories, error);
    *document = NULL;
    *points = (struct curve_points){0};
    if (status == STATUS_OK) status = curve_points_read(connection, trajectories, query, points, error);
    if (status == STATUS_OK) status = describe(connection, trajectories, query, points->series, document, error);
    if (status != STATUS_OK) curve_points_reset(points);
    json_decref(trajectories);
    return status;
}

enum status curve_attach(json_t *document, const struct curve_points *points, struct error *error)
{
    size_t i;
    json_t *series, *list;
    json_array_foreach(json_object_get(document, "series"), i, series)
    {
        const size_t span = (size_t)json_integer_value(json_object_get(series, "points"));
        const enum status status = curve_points_json(points, span, &list, error);
        if (status != STATUS_OK) return status;
        if (json_object_set_new(series, "points", list) != 0)
            return error_set(error, STATUS_NO_MEMORY, "no memory for a curve");
    }
    return STATUS_OK;
}

enum status curve_read(struct connection *connection, const struct curve_query *query, json_t **document,
                       struct error *error)
{
    struct curve_points points;
    enum status status = curve_open(connection, query, &points, document, error);
    if (status != STATUS_OK) return status;
    status = curve_attach(*document, &points, error);
    curve_points_reset(&points);
    if (status == STATUS_OK) return STATUS_OK;
    json_decref(*document);
    *document = NULL;
    return status;
}

/* The numbers of the checkpoints `at` for one axis of pairs. */
#define OF_CHECKPOINT(metric, column)                                                                           \
    " union all select id, " column "::double precision, null, '', '', '', '', '', 0, '' from at where " metric \
    " = '" column "' and " column " is not null"
#define NUMBERS(metric)                                                                                            \
    "select n.checkpoint, n.value, n.run, " IDENTITY ", s.method, s.bits, s.calibrated_on from newest n"           \
    " join series s on s.id = n.series where n.metric = " metric                                                   \
    " and (json_array_length($1::json) = 0 or n.trajectory = any (" CURVE_NAMED "))" OF_CHECKPOINT(metric, "step") \
        OF_CHECKPOINT(metric, "tokens") OF_CHECKPOINT(metric, "learning_rate")
/* Those of other checkpoints of the same content. */
#define SHARED_FROM(metric) SHARED_MEASUREMENTS("c.trajectory", metric, "")
#define SHARED_NUMBERS(metric)                                                                                     \
    " union all select t.checkpoint, m.value, m.run, " IDENTITY ", s.method, s.bits, s.calibrated_on" SHARED_FROM( \
        metric) " join series s on s.id = m.series"                                                                \
                " where (json_array_length($1::json) = 0 or t.trajectory = any (" CURVE_NAMED "))"                 \
                " and " metric " not in " BETWEEN_CHECKPOINTS
#define Y_ASKED SERIES_FILTER_FITS("m", "$4", "$5", "$6", "$7", "$8")

/* The checkpoint that the one with `derived_from` continues, or the first one that it averages. */
#define ORIGIN                                                                                                  \
    "coalesce(f.derived_from -> 'checkpoints' ->> 0, f.derived_from ->> 'from', (select params ->> 'from' from" \
    " run_specs where run = f.derived_from ->> 'run'))"
/* Its trajectory. The runs that read a deleted checkpoint keep its name, TRAJECTORY/NAME; where none is left, it is a
 * unit for all that go back to it. */
#define ORIGINATED                                                                                                   \
    "(select c.trajectory as ancestor, null as gone from checkpoints c where c.id = w.id union all (select t.id,"    \
    " case when t.id is null then coalesce('trajectory ' || g.name, 'checkpoint ' || w.id) end from (select (select" \
    " split_part(gone_name, '/', 1) from run_inputs where gone = w.id limit 1) as name) g left join trajectories t"  \
    " on t.name = g.name where w.id is not null and not exists (select from checkpoints where id = w.id)))"
/* The trajectories asked for, each with what it is independent as: the first of its line, which goes from a trajectory
 * whose first checkpoint continues or averages others to that of (the first of) these. No line is longer than 64. */
#define ROOTS                                                                                                        \
    "line as (select id as trajectory, id as ancestor, null::text as gone, 0 as depth from trajectories"             \
    " where json_array_length($1::json) = 0 or id = any (" CURVE_NAMED ")"                                           \
    " union all select l.trajectory, o.ancestor, o.gone, l.depth + 1 from line l cross join lateral (select " ORIGIN \
    " as id from (select derived_from from checkpoints where trajectory = l.ancestor order by number limit 1) f) w"  \
    " cross join lateral " ORIGINATED " o where o.ancestor is distinct from l.ancestor and l.depth < 64),"           \
    " roots as (select distinct on (l.trajectory) l.trajectory, coalesce('seed ' || (f.tags ->> 'seed'), l.gone,"    \
    " 'trajectory ' || t.name) as unit from line l left join trajectories t on t.id = l.ancestor left join lateral"  \
    " (select tags from checkpoints where trajectory = l.ancestor order by number limit 1) f on true"                \
    " order by l.trajectory, l.depth desc), "

/* The series of a checkpoint that pair: of the same label, or one of full precision. A method of x goes with full
 * precision of y only where there is neither x of full precision nor y of that method. */
#define PAIRED                                                                                            \
    " (x.label in (y.label, '') or (y.label = '' and y.checkpoint not in (select checkpoint from x where" \
    " label = '') and (y.checkpoint, x.label) not in (select checkpoint, label from y)))"
/* What identifies the series that looks for the nearest one of the other axis: that of y, or of x where it has a method
 * and y has none. */
#define SEEKING(column) " case when y.label = '' and x.label <> '' then x." column " else y." column " end"
#define SEEKER          SEEKING("label") "," SEEKING("dataset") "," SEEKING("protocol") "," SEEKING("calibration")

/* Pairs as they are counted, without or with other checkpoints of the same content. Of these a series has the pairs of
 * one trajectory, the first that was registered: a content is never in two units. */
#define ALL_PAIRS " pairs as (select * from joined limit nullif($9, 0)),"
#define PAIRS_ONCE                                                                                                   \
    " pairs as (select * from (select j.*, t.number as place, min(t.number) over (partition by coalesce(c.sha256,"   \
    " c.id), label, dataset, protocol, calibration, label_x, dataset_x, protocol_x, calibration_x) as place_counted" \
    " from joined j join checkpoints c on c.id = j.id join trajectories t on t.id = c.trajectory) p"                 \
    " where place = place_counted limit nullif($9, 0)),"

/* The planner may have no statistics of new checkpoints and expect few. It never executes a full join as a nested loop
 * over the other side; the conditions after the joins reduce them to inner joins. */
#define PAIRS(x_numbers, y_numbers, counted)                                                                         \
    "with recursive " ROOTS "at as (select c.id, c.name, c.number, c.step, c.tokens, c.learning_rate, t.name as"     \
    " trajectory_name, coalesce('seed ' || (c.tags ->> 'seed'), r.unit) as unit from checkpoints c"                  \
    " join trajectories t on t.id = c.trajectory join roots r on r.trajectory = t.id),"                              \
    " x as (select m.* from (" x_numbers ") m where $10::text is null or m.protocol = $10),"                         \
    " y as (select m.*, " TOLD_APART " as told from (" y_numbers ") m where" Y_ASKED "),"                            \
    " near as (select y.*, x.label as label_x, x.dataset as dataset_x, x.protocol as protocol_x, x.calibration as"   \
    " calibration_x, x.value as x, x.run as run_x, rank() over (partition by y.checkpoint, y.method, y.bits," SEEKER \
    " order by (x.label = y.label) desc, (x.protocol = y.protocol) desc, (x.dataset = y.dataset) desc,"              \
    " (x.calibration = y.calibration) desc) as far from y full join x on x.checkpoint = y.checkpoint"                \
    " where coalesce(x.checkpoint = y.checkpoint and" PAIRED ", false)),"                                            \
    " joined as (select near.*, near.value as y, at.id, at.name, at.number, at.step, at.tokens, at.trajectory_name," \
    " at.unit from near full join at on at.id = near.checkpoint"                                                     \
    " where coalesce(near.far = 1 and at.id is not null, false))," counted                                           \
    " numbered as (select *, dense_rank() over (order by told, dataset, protocol, calibration, label_x, dataset_x,"  \
    " protocol_x, calibration_x) - 1 as series from pairs)"                                                          \
    " select coalesce(json_agg(json_build_object('trajectory', trajectory_name, 'checkpoint', id,"                   \
    " 'checkpoint_name', name, 'step', step, 'tokens', tokens, 'unit', unit, 'series', series, 'label_x', label_x,"  \
    " 'dataset_x', nullif(dataset_x, ''), 'protocol_id_x', nullif(protocol_x, ''), 'calibration_id_x',"              \
    " nullif(calibration_x, ''), 'label', told, 'method', nullif(method, ''), 'bits', nullif(bits, 0), 'dataset',"   \
    " nullif(dataset, ''), 'protocol_id', nullif(protocol, ''), 'calibration_id', nullif(calibration, ''),"          \
    " 'calibrated_on', nullif(calibrated_on, ''), 'x', x, 'y', y, 'run_x', run_x, 'run_y', run)"                     \
    " order by series, trajectory_name, step, tokens, number), '[]') from numbered"

static const char own_pairs[] = PAIRS(NUMBERS("$2"), NUMBERS("$3"), ALL_PAIRS);
static const char own_and_shared_pairs[] =
    PAIRS(NUMBERS("$2") SHARED_NUMBERS("$2"), NUMBERS("$3") SHARED_NUMBERS("$3"), PAIRS_ONCE);

enum status curve_pairs(struct connection *connection, const struct curve_pairs_query *query, json_t **document,
                        struct error *error)
{
    json_t *trajectories = NULL;
    bool shared = false;
    enum status status =
        trajectory_resolve_all(connection, query->trajectories, query->trajectory_count, &trajectories, error);
    *document = NULL;
    if (status == STATUS_OK) status = curve_points_shared(connection, trajectories, &shared, error);
    if (status == STATUS_OK)
        status = connection_query_json(connection, shared ? own_and_shared_pairs : own_pairs,
                                       VALUES(value_json(trajectories), value_text(query->x), value_text(query->y),
                                              SERIES_FILTER_VALUES(query->series), value_integer(query->most),
                                              value_text(query->protocol_x)),
                                       document, error);
    json_decref(trajectories);
    return status;
}

enum status curve_metrics(struct connection *connection, json_t **document, struct error *error)
{
    /* Steps from one metric of a trajectory to the next along the primary key. */
    return connection_query_json(
        connection,
        "with recursive found as (select f.* from (select trajectory, metric from newest order by trajectory, metric"
        " limit 1) f union all select n.* from found f cross join lateral (select trajectory, metric from newest n"
        " where (n.trajectory, n.metric) > (f.trajectory, f.metric) order by trajectory, metric limit 1) n)"
        " select coalesce(json_agg(distinct metric), '[]') from found",
        NO_VALUES, document, error);
}
