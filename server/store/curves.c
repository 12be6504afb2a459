#include "store/curves.h"

#include "store/trajectories.h"

#include <string.h>

static const char *const axes[] = {
    [CURVE_STEP] = "step", [CURVE_TOKENS] = "tokens", [CURVE_LEARNING_RATE] = "learning_rate"};

/* What identifies a series beside its trajectory: the method with its options, the data and protocol, the
 * calibration. */
#define IDENTITY "label, dataset, protocol, calibration"

/* The newest number of each (checkpoint, metric, series), of runs that succeeded, from their last epoch. */
#define LATEST                                                                                                  \
    "(select distinct on (m.checkpoint, m.metric, m.label, m.dataset, m.protocol, m.calibration) m.*, r.number" \
    " from measurements m join runs r on r.id = m.run and r.result_epoch = m.epoch and r.state = 'succeeded'"   \
    " order by m.checkpoint, m.metric, m.label, m.dataset, m.protocol, m.calibration, r.number desc)"

/* A label that also distinguishes series which differ in their calibration alone, within `alike`: by the words for the
 * calibration, or by the first digits of its id where two have the same words. */
#define TOLD_APART(alike)                                                                                            \
    "label || case when min(calibration) over (partition by " alike ") = max(calibration) over (partition by " alike \
    ") then '' else ', calibrated on ' || coalesce(nullif(calibrated_on, ''), 'unknown data') ||"                    \
    " case when min(calibration) over (partition by " alike ", calibrated_on)"                                       \
    " = max(calibration) over (partition by " alike                                                                  \
    ", calibrated_on) then '' else ' (' || left(calibration, 6) || ')' end end"

static enum status resolve_all(struct connection *connection, const char *const *trajectories, size_t count,
                               json_t **out, struct error *error)
{
    enum status status = STATUS_OK;
    json_t *ids = json_array();
    for (size_t i = 0; status == STATUS_OK && i < count; i++) {
        struct store_id id;
        status = trajectory_resolve(connection, trajectories[i], &id, error);
        if (status == STATUS_OK && json_array_append_new(ids, json_string(id.text)) != 0)
            status = error_set(error, STATUS_NO_MEMORY, "no memory for %zu trajectories", count);
    }
    if (status == STATUS_OK)
        *out = ids;
    else
        json_decref(ids);
    return status;
}

enum status curve_read(struct connection *connection, const struct curve_query *query, json_t **document,
                       struct error *error)
{
    json_t *trajectories = NULL;
    enum status status = resolve_all(connection, query->trajectories, query->trajectory_count, &trajectories, error);
    *document = NULL;
    if (status != STATUS_OK) return status;
    status = connection_query_json(
        connection,
        "with wanted as (select w.id, w.place from json_array_elements_text($1::json) with ordinality as w (id,"
        " place)),"
        " at as (select c.id, c.name, c.sha256, c.trajectory, t.name as trajectory_name, w.place, c.learning_rate,"
        " case $3 when 'step' then c.step::double precision when 'tokens' then c.tokens::double precision else"
        " c.learning_rate end as x"
        " from checkpoints c join trajectories t on t.id = c.trajectory join wanted w on w.id = t.id),"
        " latest as materialized (select m.checkpoint, m.label, m.method, m.bits, m.dataset, m.protocol,"
        " m.calibration, m.calibrated_on,"
        " m.value, m.low, m.high, m.run, m.number, s.sha256 from " LATEST
        " m join checkpoints s on s.id = m.checkpoint where m.metric = $2 and ($4 is null or m.method = $4) and ($5"
        " is null or m.dataset = $5)"
        " and ($6 = 0 or m.bits = $6) and ($7 is null or m.protocol = $7) and ($8 is null or m.calibration = $8)),"
        /* Checkpoints of the same content share their measurements, except those that compare two checkpoints. */
        " shared as (select distinct on (sha256, " IDENTITY ") * from latest where sha256 is not null"
        " and $2 not in ('weight_change', 'weight_cosine') order by sha256, " IDENTITY ", number desc),"
        " measured as (select checkpoint as at, " IDENTITY
        ", method, bits, calibrated_on, value, low, high, run from latest"
        " union all select a.id, s.label, s.dataset, s.protocol, s.calibration, s.method, s.bits, s.calibrated_on,"
        " s.value, s.low, s.high, s.run"
        " from at a join shared s on s.sha256 = a.sha256 where not exists (select 1 from latest l where l.checkpoint"
        " = a.id"
        " and (l.label, l.dataset, l.protocol, l.calibration) = (s.label, s.dataset, s.protocol, s.calibration))),"
        " points as (select a.place, a.trajectory_name, m.label, m.method, m.bits, m.dataset, m.protocol,"
        " m.calibration, m.calibrated_on,"
        " a.x, m.value as y, m.low, m.high, a.id, a.name, m.run from at a join measured m on m.at = a.id where a.x is"
        " not null"
        " union all select a.place, a.trajectory_name, '', '', 0, '', '', '', '', a.x, a.learning_rate, null, null,"
        " a.id, a.name, null from at a"
        " where $2 = 'learning_rate' and a.x is not null and a.learning_rate is not null),"
        " grouped as (select place, trajectory_name, " IDENTITY ", method, bits, min(calibrated_on) as calibrated_on,"
        " json_agg(json_build_object('x', x, 'y', y, 'low', low, 'high', high, 'checkpoint', id, 'checkpoint_name',"
        " name, 'run', run)"
        " order by x, name) as points from points group by place, trajectory_name, " IDENTITY ", method, bits),"
        " series as (select *, " TOLD_APART(
            "label, dataset, protocol") " as told from grouped)"
                                        " select json_build_object('metric', $2, 'x', $3, 'series', coalesce((select"
                                        " json_agg(json_build_object('trajectory', trajectory_name,"
                                        " 'label', told, 'method', nullif(method, ''), 'bits', nullif(bits, 0),"
                                        " 'dataset', nullif(dataset, ''),"
                                        " 'protocol_id', nullif(protocol, ''), 'calibration_id', nullif(calibration,"
                                        " ''), 'calibrated_on', nullif(calibrated_on, ''),"
                                        " 'points', points) order by place, dataset, method, bits desc, told,"
                                        " protocol) from series), '[]'))",
        VALUES(value_json(trajectories), value_text(query->metric), value_text(axes[query->axis]),
               value_text(query->method), value_text(query->dataset), value_integer(query->bits),
               value_text(query->protocol), value_text(query->calibration)),
        document, error);
    json_decref(trajectories);
    return status;
}

enum status curve_pairs(struct connection *connection, const struct curve_pairs_query *query, json_t **document,
                        struct error *error)
{
    json_t *trajectories = NULL;
    enum status status = resolve_all(connection, query->trajectories, query->trajectory_count, &trajectories, error);
    *document = NULL;
    if (status != STATUS_OK) return status;
    status = connection_query_json(
        connection,
        "with wanted as (select json_array_elements_text($1::json) as id),"
        " at as (select c.id, c.name, c.number, c.step, c.tokens, c.learning_rate, t.name as trajectory_name,"
        " coalesce('seed ' || (c.tags ->> 'seed'), 'trajectory ' || t.name) as unit from checkpoints c"
        " join trajectories t on t.id = c.trajectory where json_array_length($1::json) = 0 or t.id in (select id from"
        " wanted)),"
        " measured as (select m.checkpoint, m.metric, m.value, " IDENTITY
        ", m.method, m.bits, m.calibrated_on from " LATEST " m where m.metric in ($2, $3)"
        " union all select id, 'step', step::double precision, '', '', '', '', '', 0, '' from at where step is not null"
        " union all select id, 'tokens', tokens::double precision, '', '', '', '', '', 0, '' from at where tokens is"
        " not null"
        " union all select id, 'learning_rate', learning_rate, '', '', '', '', '', 0, '' from at where learning_rate"
        " is not null),"
        " y as (select m.*, " TOLD_APART(
            "label, dataset, protocol") " as told from measured m join at on at.id = m.checkpoint"
                                        " where m.metric = $3 and ($4 is null or m.method = $4) and ($5 is null or"
                                        " m.dataset = $5) and ($6 = 0 or m.bits = $6)"
                                        " and ($7 is null or m.protocol = $7) and ($8 is null or m.calibration = $8)),"
                                        " pairs as (select at.*, y.told, y.method, y.bits, y.dataset, y.protocol,"
                                        " y.calibration, y.calibrated_on, y.value as y,"
                                        " x.label as label_x, x.dataset as dataset_x, x.protocol as protocol_x,"
                                        " x.calibration as calibration_x, x.value as x"
                                        " from y join at on at.id = y.checkpoint"
                                        " join lateral (select l.*, rank() over (order by (l.label = y.label) desc,"
                                        " (l.protocol = y.protocol) desc, (l.dataset = y.dataset) desc,"
                                        " (l.calibration = y.calibration) desc) as place from measured l where"
                                        " l.checkpoint = y.checkpoint and l.metric = $2"
                                        " and l.label in (y.label, '')) x on x.place = 1),"
                                        " numbered as (select *, dense_rank() over (order by told, dataset, protocol,"
                                        " calibration, label_x, dataset_x, protocol_x, calibration_x)"
                                        " - 1 as series from pairs)"
                                        " select coalesce(json_agg(json_build_object('trajectory', trajectory_name,"
                                        " 'checkpoint', id, 'checkpoint_name', name, 'step', step,"
                                        " 'tokens', tokens, 'unit', unit, 'series', series, 'label_x', label_x,"
                                        " 'dataset_x', nullif(dataset_x, ''),"
                                        " 'protocol_id_x', nullif(protocol_x, ''), 'calibration_id_x',"
                                        " nullif(calibration_x, ''), 'label', told, 'method', nullif(method, ''),"
                                        " 'bits', nullif(bits, 0), 'dataset', nullif(dataset, ''), 'protocol_id',"
                                        " nullif(protocol, ''), 'calibration_id', nullif(calibration, ''),"
                                        " 'calibrated_on', nullif(calibrated_on, ''), 'x', x, 'y', y)"
                                        " order by series, trajectory_name, step, tokens, number), '[]') from numbered",
        VALUES(value_json(trajectories), value_text(query->x), value_text(query->y), value_text(query->method),
               value_text(query->dataset), value_integer(query->bits), value_text(query->protocol),
               value_text(query->calibration)),
        document, error);
    json_decref(trajectories);
    return status;
}

enum status curve_metrics(struct connection *connection, json_t **document, struct error *error)
{
    return connection_query_json(connection, "select coalesce(json_agg(distinct metric), '[]') from measurements",
                                 NO_VALUES, document, error);
}
