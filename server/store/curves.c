#include "store/curves.h"

#include "store/shared_measurements.h"
#include "store/trajectories.h"

#include <string.h>

static const char *const axes[] = {
    [CURVE_STEP] = "step", [CURVE_TOKENS] = "tokens", [CURVE_LEARNING_RATE] = "learning_rate"};

/* What identifies a series beside its trajectory: the method with its options, the data and protocol, the
 * calibration. */
#define IDENTITY "label, dataset, protocol, calibration"

/* The trajectories that were named. As an array they are few to the planner, which takes a hundred rows for granted. */
#define NAMED "array(select json_array_elements_text($1::json))"

/* A label that also distinguishes series which differ in their calibration or evaluation alone: by the words for it, or
 * by the first digits of its id where two have the same words. */
#define TOLD_APART                                                                            \
    "label || case when min(calibration) over (partition by label, dataset, protocol)"        \
    " = max(calibration) over (partition by label, dataset, protocol) then '' else"           \
    " ', calibrated on ' || coalesce(nullif(calibrated_on, ''), 'unknown data') ||"           \
    " case when min(calibration) over (partition by label, dataset, protocol, calibrated_on)" \
    " = max(calibration) over (partition by label, dataset, protocol, calibrated_on) then ''" \
    " else ' (' || left(calibration, 6) || ')' end end"
/* Likewise of the evaluation, by its data where those tell. */
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

enum status curve_read(struct connection *connection, const struct curve_query *query, json_t **document,
                       struct error *error)
{
    json_t *trajectories = NULL;
    enum status status =
        trajectory_resolve_all(connection, query->trajectories, query->trajectory_count, &trajectories, error);
    *document = NULL;
    if (status != STATUS_OK) return status;
    status = connection_query_json(
        connection,
        "with wanted as (select w.id, w.place from json_array_elements_text($1::json) with ordinality as w (id,"
        " place)),"
        " at as (select c.id, c.name, c.sha256, c.trajectory, t.name as trajectory_name, w.place, c.step,"
        " c.learning_rate,"
        " case $3 when 'step' then c.step::double precision when 'tokens' then c.tokens::double precision else"
        " c.learning_rate end as x"
        " from checkpoints c join trajectories t on t.id = c.trajectory join wanted w on w.id = t.id"
        " where c.trajectory = any (" NAMED ")),"
        " own as (select n.checkpoint as at, n.series, n.value, n.low, n.high, n.run from newest n"
        " where n.trajectory = any (" NAMED ") and n.metric = $2),"
        /* Checkpoints of the same content share their measurements, except those that compare two checkpoints. */
        " shared as (select distinct on (a.id, n.series) a.id as at, n.series, n.value, n.low, n.high, n.run from at a"
        " join checkpoints c on c.sha256 = a.sha256 and c.id <> a.id join newest n on n.checkpoint = c.id"
        " and n.metric = $2 where $2 not in " BETWEEN_CHECKPOINTS " and not exists (select from own o where o.at = a.id"
        " and o.series = n.series) order by a.id, n.series, n.number desc),"
        " points as (select a.place, a.trajectory_name, s.id as series, s.label, s.method, s.bits, s.dataset,"
        " s.protocol, s.calibration, s.calibrated_on, s.evaluated_on, a.x, a.step, m.value as y, m.low,"
        " m.high, a.id, a.name, m.run"
        " from (select * from own union all select * from shared) m join at a on a.id = m.at join series s"
        " on s.id = m.series where a.x is not null and ($4 is null or s.method = $4) and ($5 is null or s.dataset = $5)"
        " and ($6 = 0 or s.bits = $6) and ($7 is null or s.protocol = $7) and ($8 is null or s.calibration = $8)"
        " union all select a.place, a.trajectory_name, 0, '', '', 0, '', '', '', '', '', a.x, a.step, a.learning_rate,"
        " null, null,"
        " a.id, a.name, null from at a where $2 = 'learning_rate' and a.x is not null and a.learning_rate is not null),"
        /* Of more than $9 points: the first, the last, and of each part of the curve the lowest and the highest. */
        " numbered as (select *, row_number() over (partition by place, series order by x, name) as nth,"
        " count(*) over (partition by place, series) as total from points),"
        " ranked as (select *, row_number() over (partition by place, series, part order by y, nth) as lowest,"
        " row_number() over (partition by place, series, part order by y desc, nth) as highest"
        " from (select *, (nth - 1) * (($9 - 2) / 2) / total as part from numbered) n),"
        " kept as (select * from ranked where $9 = 0 or total <= $9 or nth in (1, total) or lowest = 1 or highest = 1),"
        " grouped as (select place, trajectory_name, " IDENTITY ", method, bits, min(calibrated_on) as calibrated_on,"
        " min(evaluated_on) as evaluated_on, min(total) as total,"
        " json_agg(json_build_object('x', x, 'y', y, 'low', low, 'high', high, 'checkpoint', id, 'checkpoint_name',"
        " name, 'step', step, 'run', run) order by x, name) as points from kept group by place, trajectory_name,"
        " " IDENTITY ", method, bits),"
        " series as (select *, " TOLD_APART " as told, " TOLD_MEASURED " as measured_on from grouped" TOLD_WINDOWS ")"
        " select json_build_object('metric', $2, 'x', $3, 'series', coalesce((select json_agg(json_build_object("
        "'trajectory', trajectory_name, 'label', case when told = '' and measured_on <> '' then 'full precision'"
        " else told end || measured_on, 'method_label', told, 'method', nullif(method, ''), 'bits', nullif(bits, 0),"
        " 'dataset', nullif(dataset, ''), 'protocol_id', nullif(protocol, ''), 'calibration_id', nullif(calibration,"
        " ''), 'calibrated_on', nullif(calibrated_on, ''), 'evaluated_on', nullif(evaluated_on, ''),"
        " 'total', total, 'points', points)"
        " order by place, dataset, method, bits desc, told, protocol) from series), '[]'))",
        VALUES(value_json(trajectories), value_text(query->metric), value_text(axes[query->axis]),
               value_text(query->method), value_text(query->dataset), value_integer(query->bits),
               value_text(query->protocol), value_text(query->calibration), value_integer(query->points)),
        document, error);
    json_decref(trajectories);
    return status;
}

enum status curve_pairs(struct connection *connection, const struct curve_pairs_query *query, json_t **document,
                        struct error *error)
{
    json_t *trajectories = NULL;
    enum status status =
        trajectory_resolve_all(connection, query->trajectories, query->trajectory_count, &trajectories, error);
    *document = NULL;
    if (status != STATUS_OK) return status;
    status = connection_query_json(
        connection,
        "with at as (select c.id, c.name, c.number, c.step, c.tokens, c.learning_rate, t.name as trajectory_name,"
        " coalesce('seed ' || (c.tags ->> 'seed'), 'trajectory ' || t.name) as unit from checkpoints c"
        " join trajectories t on t.id = c.trajectory where json_array_length($1::json) = 0"
        " or c.trajectory = any (" NAMED ")),"
        " measured as (select n.checkpoint, n.metric, n.value, " IDENTITY ", s.method, s.bits, s.calibrated_on"
        " from newest n join series s on s.id = n.series where n.metric in ($2, $3)"
        " and (json_array_length($1::json) = 0 or n.trajectory = any (" NAMED "))"
        " union all select id, 'step', step::double precision, '', '', '', '', '', 0, '' from at"
        " where 'step' in ($2, $3) and step is not null"
        " union all select id, 'tokens', tokens::double precision, '', '', '', '', '', 0, '' from at"
        " where 'tokens' in ($2, $3) and tokens is not null"
        " union all select id, 'learning_rate', learning_rate, '', '', '', '', '', 0, '' from at"
        " where 'learning_rate' in ($2, $3) and learning_rate is not null),"
        " y as (select m.*, " TOLD_APART
        " as told from measured m where m.metric = $3 and ($4 is null or m.method = $4)"
        " and ($5 is null or m.dataset = $5) and ($6 = 0 or m.bits = $6)"
        " and ($7 is null or m.protocol = $7) and ($8 is null or m.calibration = $8)),"
        " near as (select y.*, x.label as label_x, x.dataset as dataset_x, x.protocol as protocol_x,"
        " x.calibration as calibration_x, x.value as x, rank() over (partition by y.checkpoint, y.label, y.dataset,"
        " y.protocol, y.calibration, y.method, y.bits order by (x.label = y.label) desc,"
        " (x.protocol = y.protocol) desc, (x.dataset = y.dataset) desc, (x.calibration = y.calibration) desc) as far"
        " from y join measured x"
        " on x.checkpoint = y.checkpoint and x.metric = $2 and x.label in (y.label, '')),"
        " pairs as (select near.*, near.value as y, at.id, at.name, at.number, at.step, at.tokens, at.trajectory_name,"
        " at.unit from near join at on at.id = near.checkpoint where near.far = 1 limit nullif($9, 0)),"
        " numbered as (select *, dense_rank() over (order by told, dataset, protocol, calibration, label_x, dataset_x,"
        " protocol_x, calibration_x) - 1 as series from pairs)"
        " select coalesce(json_agg(json_build_object('trajectory', trajectory_name, 'checkpoint', id,"
        " 'checkpoint_name', name, 'step', step, 'tokens', tokens, 'unit', unit, 'series', series, 'label_x', label_x,"
        " 'dataset_x', nullif(dataset_x, ''), 'protocol_id_x', nullif(protocol_x, ''), 'calibration_id_x',"
        " nullif(calibration_x, ''), 'label', told, 'method', nullif(method, ''), 'bits', nullif(bits, 0), 'dataset',"
        " nullif(dataset, ''), 'protocol_id', nullif(protocol, ''), 'calibration_id', nullif(calibration, ''),"
        " 'calibrated_on', nullif(calibrated_on, ''), 'x', x, 'y', y)"
        " order by series, trajectory_name, step, tokens, number), '[]') from numbered",
        VALUES(value_json(trajectories), value_text(query->x), value_text(query->y), value_text(query->method),
               value_text(query->dataset), value_integer(query->bits), value_text(query->protocol),
               value_text(query->calibration), value_integer(query->most)),
        document, error);
    json_decref(trajectories);
    return status;
}

enum status curve_metrics(struct connection *connection, json_t **document, struct error *error)
{
    /* From one metric of a trajectory to the next, along the primary key. */
    return connection_query_json(
        connection,
        "with recursive found as (select f.* from (select trajectory, metric from newest order by trajectory, metric"
        " limit 1) f union all select n.* from found f cross join lateral (select trajectory, metric from newest n"
        " where (n.trajectory, n.metric) > (f.trajectory, f.metric) order by trajectory, metric limit 1) n)"
        " select coalesce(json_agg(distinct metric), '[]') from found",
        NO_VALUES, document, error);
}
