#include "store/gates.h"

#include "store/list.h"
#include "store/shared_measurements.h"
#include "store/trajectories.h"

#include <stdio.h>
#include <string.h>

enum { BEFORE_MOST = 1000, AFTER_MOST = 100 };

#define DOCUMENT                                                                                          \
    "json_build_object('id', g.id, 'name', g.name, 'trajectory', t.name, 'rules', g.rules, 'created_at'," \
    " rfc3339(g.created_at))"
#define FROM  " from gates g join trajectories t on t.id = g.trajectory "
#define MATCH " g.id = $1 or g.name = $1 order by (g.id = $1) desc limit 1"

void gate_row_reset(struct gate_row *gate)
{
    json_decref(gate->rules);
    gate->rules = NULL;
}

/* ---- the gate ---- */

enum status gate_insert(struct connection *connection, const char *name, const char *trajectory, const json_t *rules,
                        enum store_outcome *outcome, json_t **document, struct error *error)
{
    struct rows *rows;
    *document = NULL;
    enum status status = connection_query(
        connection,
        "insert into gates (name, trajectory, rules) values ($1, $2, $3) on conflict (name) do nothing returning id",
        VALUES(value_text(name), value_text(trajectory), value_json(rules)), &rows, error);
    if (status != STATUS_OK) return status;
    *outcome = rows_count(rows) == 1 ? STORE_CREATED : STORE_EXISTED;
    rows_free(rows);
    if (*outcome == STORE_CREATED) return gate_get(connection, name, document, error);
    status = connection_query(connection,
                              "select 1 from gates where name = $1 and trajectory = $2 and rules::jsonb = $3::jsonb",
                              VALUES(value_text(name), value_text(trajectory), value_json(rules)), &rows, error);
    if (status != STATUS_OK) return status;
    const bool same = rows_count(rows) == 1;
    rows_free(rows);
    if (same) return gate_get(connection, name, document, error);
    return error_set_at(error, STATUS_CONFLICT, "/name", "another gate is called \"%.200s\": choose another name",
                        name);
}

enum status gate_get(struct connection *connection, const char *reference, json_t **document, struct error *error)
{
    return store_get(connection, "select " DOCUMENT FROM "where" MATCH, "gate", reference, document, error);
}

enum status gate_list(struct connection *connection, const char *name, const struct page *page, json_t **document,
                      struct error *error)
{
    int64_t limit, before;
    const enum status status = page_read(page, &limit, &before, error);
    *document = NULL;
    if (status != STATUS_OK) return status;
    return connection_query_json(
        connection, LIST_OF("select g.number, " DOCUMENT FROM "where g.number < $2" LIST_NAMED("g.name", "$3")),
        VALUES(value_integer(limit), value_integer(before), value_text(name)), document, error);
}

enum status gate_delete(struct connection *connection, const char *reference, struct error *error)
{
    int64_t affected;
    const enum status status =
        connection_execute(connection, "delete from gates where id = (select g.id from gates g where" MATCH ")",
                           VALUES(value_text(reference)), &affected, error);
    return status == STATUS_OK && affected == 0 ? store_unknown("gate", reference, error) : status;
}

enum status gate_find(struct connection *connection, const char *reference, struct gate_row *out, struct error *error)
{
    struct rows *rows;
    enum status status = connection_query_one(
        connection, CONNECTION_KEEPS_PLAN "select g.id, t.id, g.name, t.name, g.rules" FROM "where" MATCH,
        VALUES(value_text(reference)), &rows, error);
    if (status == STATUS_NOT_FOUND) return store_unknown("gate", reference, error);
    if (status != STATUS_OK) return status;
    out->id = store_id_of(rows);
    (void)snprintf(out->trajectory.text, sizeof out->trajectory.text, "%s", rows_text(rows, 0, 1));
    (void)snprintf(out->name, sizeof out->name, "%s", rows_text(rows, 0, 2));
    (void)snprintf(out->trajectory_name, sizeof out->trajectory_name, "%s", rows_text(rows, 0, 3));
    status = rows_json(rows, 0, 4, &out->rules, error);
    rows_free(rows);
    return status;
}

/* ---- what a rule is held against ---- */

/* The place of the checkpoint `c`, and of another one `a`, in the order of their trajectory. */
#define PLACE       " (coalesce(c.step, 9223372036854775807), c.number) "
#define OTHER_PLACE " (coalesce(a.step, 9223372036854775807), a.number) "
#define SHARED      "(k.own or m.metric not in " BETWEEN_CHECKPOINTS ")"
/* The quantizer among a run's parameters. `method` of a sharpness run is how it finds eigenvalues. */
#define METHOD "case r.kind when 'sharpness' then s.params::jsonb -> 'direction' else s.params::jsonb end -> 'method'"
/* $3: every key must have its value. method.NAME is a parameter of the run's method and matches quantized numbers
 * only. */
#define SERIES_FITS                                                                                              \
    " not exists (select 1 from jsonb_each($3::jsonb) f where case f.key when 'label' then to_jsonb(m.label)"    \
    " when 'dataset' then to_jsonb(m.dataset) when 'protocol' then to_jsonb(m.protocol) when 'calibration' then" \
    " to_jsonb(m.calibration) when 'method' then to_jsonb(m.method) when 'method.name' then to_jsonb(m.method)"  \
    " when 'method.bits' then to_jsonb(m.bits) else case when m.label <> '' then " METHOD " -> substr(f.key, 8)" \
    " end end is distinct from f.value)"

/* $1 the checkpoint, $2 the metric; $4 = 0: of it alone, else of $5 checkpoints up to it. */
#define NEWEST_UP_TO                                                                                              \
    "with target as (select c.id, c.trajectory, coalesce(c.step, 9223372036854775807) as step, c.number"          \
    " from checkpoints c where c.id = $1),"                                                                       \
    " at as (select c.id, c.name, c.sha256, coalesce(c.step, 9223372036854775807) as step, c.number"              \
    " from checkpoints c, target t where c.trajectory = t.trajectory and" PLACE "<= (t.step, t.number)"           \
    " order by" PLACE "desc limit case when $4 = 0 then 1 else $5 end),"                                          \
    " newest as (select at.id as at, at.name, at.step, at.number, m.* from at cross join lateral"                 \
    " (select distinct on (m.label, m.dataset, m.protocol, m.calibration) m.label, m.dataset, m.protocol,"        \
    " m.calibration, m.value, m.low, m.high, m.run, r.number as run_number from (select at.id as id, true as own" \
    " union all select c.id, false from checkpoints c where c.sha256 = at.sha256 and c.id <> at.id) k"            \
    " join measurements m on m.checkpoint = k.id and m.metric = $2 join runs r on r.id = m.run"                   \
    " and r.result_epoch = m.epoch and r.state = 'succeeded' join run_specs s on s.run = r.id where " SHARED      \
    " and" SERIES_FITS " order by m.label, m.dataset, m.protocol, m.calibration, k.own desc, r.number desc) m)"

enum status gate_values(struct connection *connection, const struct gate_question *question, json_t **document,
                        struct error *error)
{
    return connection_query_json(
        connection,
        CONNECTION_KEEPS_PLAN NEWEST_UP_TO
        " select coalesce(json_agg(json_build_object('series', n.label, 'value', n.value, 'low', n.low, 'high', n.high,"
        " 'run', n.run, 'base', b.base, 'compared_with', b.names) order by n.run_number desc, n.label, n.dataset,"
        " n.protocol, n.calibration), '[]') from newest n cross join lateral (select percentile_cont(0.5) within group"
        " (order by p.value) as base, coalesce(json_agg(p.name order by p.step, p.number), '[]') as names from"
        " (select * from newest o where o.at <> n.at and (o.label, o.dataset, o.protocol, o.calibration)"
        " = (n.label, n.dataset, n.protocol, n.calibration) order by o.step desc, o.number desc limit $4) p) b"
        " where n.at = $1",
        VALUES(value_text(question->checkpoint), value_text(question->metric), value_json(question->series),
               value_integer(question->last), value_integer(BEFORE_MOST + 1)),
        document, error);
}

enum status gate_history(struct connection *connection, const struct gate_question *question, json_t **document,
                         struct error *error)
{
    return connection_query_json(
        connection,
        CONNECTION_KEEPS_PLAN NEWEST_UP_TO
        " select coalesce(json_agg(json_build_object('series', n.label, 'value', n.value, 'low', n.low, 'high', n.high,"
        " 'run', n.run, 'points', h.points) order by n.run_number desc, n.label, n.dataset, n.protocol,"
        " n.calibration), '[]') from newest n cross join lateral (select json_agg(json_build_object('x',"
        " nullif(o.step, 9223372036854775807), 'y', o.value, 'checkpoint', o.at, 'checkpoint_name', o.name)"
        " order by o.step, o.at <> n.at, o.number) as points from newest o where"
        " (o.label, o.dataset, o.protocol, o.calibration) = (n.label, n.dataset, n.protocol, n.calibration)) h"
        " where n.at = $1",
        VALUES(value_text(question->checkpoint), value_text(question->metric), value_json(question->series),
               value_integer(question->last), value_integer(question->last + 1)),
        document, error);
}

/* The series of the metric $2 in the trajectory of the checkpoint $1: its own, stepping from one to the next along the
 * primary key, and those of other checkpoints of the same content. */
#define SERIES_THERE                                                                                                   \
    "with recursive target as (select trajectory as id from checkpoints where id = $1),"                               \
    " own as (select f.series from target t cross join lateral (select n.series from newest n where n.trajectory ="    \
    " t.id and n.metric = $2 order by n.series limit 1) f union all select f.series from own o cross join target t"    \
    " cross join lateral (select n.series from newest n where n.trajectory = t.id and n.metric = $2"                   \
    " and n.series > o.series order by n.series limit 1) f),"                                                          \
    " found as (select series from own union select m.series from target t join same_content a on a.trajectory = t.id" \
    " join checkpoints at on at.id = a.checkpoint join checkpoints k on k.sha256 = at.sha256 and k.id <> at.id"        \
    " join newest m on m.checkpoint = k.id and m.metric = $2 where $2 not in " BETWEEN_CHECKPOINTS "),"                \
    " there as (select s.* from series s where s.id in (select series from found))"
#define VALUE_THERE                                                                                            \
    " case k.key when 'label' then s.label when 'dataset' then s.dataset when 'protocol' then s.protocol when" \
    " 'calibration' then s.calibration else s.method end "

enum status gate_unmatched(struct connection *connection, const struct gate_question *question, int64_t most,
                           json_t **document, struct error *error)
{
    return connection_query_json(
        connection,
        CONNECTION_KEEPS_PLAN SERIES_THERE
        ", keys as (select p.place, p.key, f.value from jsonb_each_text($3::jsonb) f join (values (1, 'label'),"
        " (2, 'method'), (2, 'method.name'), (3, 'dataset'), (4, 'protocol'), (5, 'calibration')) p (place, key)"
        " on p.key = f.key)"
        " select coalesce((select json_build_object('key', k.key, 'asked', left(k.value, 200), 'there',"
        " (select json_agg(left(v.value, 200) order by v.value) from (select distinct" VALUE_THERE
        "as value from there s order by value limit $4) v)) from keys k where exists (select from there)"
        " and not exists (select from there s where" VALUE_THERE "= k.value) order by k.place limit 1), 'null')",
        VALUES(value_text(question->checkpoint), value_text(question->metric), value_json(question->series),
               value_integer(most)),
        document, error);
}

/* What a series says that such a run would have had: it has none, because only finite numbers are measurements. */
#define WOULD_FIT                                                                                          \
    " not exists (select 1 from jsonb_each($3::jsonb) f where case when f.key = 'method' then"             \
    " p.params #> '{method,name}' when f.key = 'dataset' then (select to_jsonb(d.name) from datasets d"    \
    " where d.id = coalesce(p.params #>> '{evaluation,dataset}', p.params ->> 'dataset')) when f.key like" \
    " 'method.%' then p.params -> 'method' -> substr(f.key, 8) end is distinct from f.value)"

enum status gate_not_finite(struct connection *connection, const struct gate_question *question, json_t **document,
                            struct error *error)
{
    return connection_query_json(
        connection,
        CONNECTION_KEEPS_PLAN
        "select coalesce((select json_build_object('run', r.id) from run_inputs i join runs r on r.id = i.run"
        " and r.state = 'succeeded' join run_results x on x.run = r.id and x.epoch = r.result_epoch"
        " cross join lateral (select s.params::jsonb as params from run_specs s where s.run = r.id) p"
        " where i.checkpoint = $1 and p.params ->> 'checkpoint' = $1 and (r.kind, $2) in (('evaluate', 'loss'),"
        " ('evaluate', 'perplexity'), ('quantize', 'loss_fp'), ('quantize', 'loss_q'), ('quantize', 'delta'))"
        " and x.result ->> $2 is null and" WOULD_FIT " order by r.number desc limit 1), 'null')",
        VALUES(value_text(question->checkpoint), value_text(question->metric), value_json(question->series)), document,
        error);
}

enum status gate_read(struct connection *connection, const char *checkpoint, bool *read, struct error *error)
{
    return connection_query_boolean(connection, "select exists (select from checkpoint_health where checkpoint = $1)",
                                    VALUES(value_text(checkpoint)), read, error);
}

/* ---- following the log ---- */

/* Changes that may change a verdict. */
#define CONCERNS " (c.kind in ('checkpoint', 'measurement') or (c.kind = 'run' and c.data ->> 'to' = 'succeeded'))"

/* Whether the checkpoint of the change `c` left its place in the trajectory, and the step of that place. */
#define LEFT_PLACE "(c.data ->> 'action' = 'deleted' or c.data ? 'step_before')"
#define LEFT_STEP  "(c.data ->> case c.data ->> 'action' when 'deleted' then 'step' else 'step_before' end)::bigint"

enum status gate_horizon(struct connection *connection, int64_t after, int64_t most, int64_t *until,
                         struct error *error)
{
    return connection_query_integer(
        connection,
        CONNECTION_KEEPS_PLAN
        "with next as (select c.id from changes c where c.id > $1 and" CONCERNS
        " and exists (select 1 from gates g where g.trajectory = any (c.trajectories)) order by c.id limit $2)"
        " select case when (select count(*) from next) < $2 then (select last from change_log)"
        " else (select max(id) from next) end",
        VALUES(value_integer(after), value_integer(most)), until, error);
}

enum status gate_touched(struct connection *connection, int64_t after, int64_t until, json_t **document,
                         struct error *error)
{
    return connection_query_json(
        connection,
        CONNECTION_KEEPS_PLAN
        "with touched as (select distinct c.checkpoint as id from changes c where c.id > $1 and c.id <= $2"
        " and c.kind in ('checkpoint', 'measurement') and c.checkpoint is not null"
        " union select k ->> 'checkpoint' from changes c, jsonb_array_elements(c.data -> 'checkpoints') k"
        " where c.id > $1 and c.id <= $2 and c.kind = 'run' and c.data ->> 'to' = 'succeeded'),"
        " alike as (select c.id, c.trajectory, c.step, c.number from checkpoints c join touched t on t.id = c.id"
        " union select o.id, o.trajectory, o.step, o.number from checkpoints c join touched t on t.id = c.id"
        " join checkpoints o on o.sha256 = c.sha256),"
        " places as (select trajectory, step, number from alike union select c.data ->> 'trajectory_id', " LEFT_STEP ","
        " coalesce((c.data ->> 'number')::bigint, k.number, 0) from changes c left join checkpoints k"
        " on k.id = c.checkpoint where c.id > $1 and c.id <= $2 and c.kind = 'checkpoint' and " LEFT_PLACE "),"
        " pairs as (select g.id as gate, a.id as checkpoint from alike a join gates g on g.trajectory = a.trajectory"
        " union select g.id, n.id from places a join gates g on g.trajectory = a.trajectory cross join lateral"
        " (select c.id from checkpoints c join gate_verdicts v on v.gate = g.id and v.checkpoint = c.id"
        " where c.trajectory = g.trajectory and" PLACE ">" OTHER_PLACE "order by" PLACE "limit $3) n"
        " where exists (select 1 from json_array_elements(g.rules) r where r ->> 'against_last' is not null"
        " or r ->> 'changepoint' is not null)"
        " union select g.id, v.checkpoint from changes c join gates g on g.trajectory = any (c.trajectories)"
        " join gate_verdicts v on v.gate = g.id where c.id > $1 and c.id <= $2 and (c.kind = 'run'"
        " and c.data ->> 'to' = 'succeeded' and c.data ->> 'run_kind' = 'health'"
        " or c.kind = 'checkpoint' and " LEFT_PLACE ")"
        " and exists (select 1 from json_array_elements(g.rules) r where r ->> 'integrity' is not null))"
        " select coalesce(json_agg(json_build_object('gate', gate, 'checkpoint', checkpoint)"
        " order by gate, checkpoint), '[]') from pairs",
        VALUES(value_integer(after), value_integer(until), value_integer(AFTER_MOST)), document, error);
}

enum status gate_forget(struct connection *connection, int64_t after, int64_t until, struct error *error)
{
    return connection_execute(connection,
                              CONNECTION_KEEPS_PLAN
                              "delete from gate_verdicts v using changes c where c.id > $1 and c.id <= $2"
                              " and c.kind = 'checkpoint' and c.data ->> 'action' = 'deleted'"
                              " and v.checkpoint = c.checkpoint",
                              VALUES(value_integer(after), value_integer(until)), NULL, error);
}

enum status gate_tell(struct connection *connection, const struct gate_row *gate, const json_t *verdict,
                      struct error *error)
{
    return connection_execute(
        connection,
        CONNECTION_KEEPS_PLAN
        "with before as (select coalesce((select verdict from gate_verdicts where gate = $1 and checkpoint = $2),"
        " 'pending') as verdict),"
        " kept as (insert into gate_verdicts (gate, checkpoint, verdict) select $1, c.id, $3::jsonb ->> 'verdict'"
        " from checkpoints c where c.id = $2 on conflict (gate, checkpoint)"
        " do update set verdict = excluded.verdict, at = clock_timestamp() returning verdict)"
        " insert into changes_pending (kind, checkpoint, trajectory, data) select k.kind, $2, $4,"
        " $3::jsonb || jsonb_build_object('from', b.verdict) from before b, kept v, (values (1, 'verdict'), (2,"
        " 'alert')) k (place, kind) where b.verdict <> v.verdict and (k.kind = 'verdict' or v.verdict = 'fail')"
        " order by k.place",
        VALUES(value_text(gate->id.text), value_text(json_string_value(json_object_get(verdict, "checkpoint"))),
               value_json(verdict), value_text(gate->trajectory.text)),
        NULL, error);
}
