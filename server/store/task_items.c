#include "store/task_items.h"

#include "store/shared_measurements.h"
#include "store/trajectories.h"

#include <string.h>

enum { SLICE = 5000 }; /* rows in a statement */

/* What the trajectory $1 has of the accuracy of a task ($3), or of their mean; shared as in curves. */
#define FLIPS_METRIC "(case when $3::text is null then 'mean_accuracy' else 'accuracy' end)"
#define FLIPS_SHARED SHARED_MEASUREMENTS("$1", FLIPS_METRIC, "")
#define FLIPS_TOLD                                                 \
    "select n.series, n.run, n.checkpoint, n.number from newest n" \
    " where n.trajectory = $1 and n.metric = " FLIPS_METRIC        \
    " union all select m.series, m.run, c.id, m.number" FLIPS_SHARED " where t.trajectory = $1"

enum status task_items_add(struct task_items *items, const struct task_item *item, struct error *error)
{
    if (items->rows == NULL) items->rows = json_array();
    json_t *row =
        json_pack("{ss ss sI ss% si si si so so}", "s", item->sha256, "t", item->task, "d", (json_int_t)item->doc, "x",
                  item->question, item->question_size, "g", item->gold, "c", item->choice, "n", item->choice_norm, "cq",
                  item->quantized ? json_integer(item->choice_q) : json_null(), "nq",
                  item->quantized ? json_integer(item->choice_norm_q) : json_null());
    if (row != NULL && json_array_append_new(items->rows, row) == 0) return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for the items of a task");
}

void task_items_reset(struct task_items *items)
{
    json_decref(items->rows);
    *items = (struct task_items){0};
}

static enum status insert_slice(struct connection *connection, const char *run, int64_t epoch, const json_t *rows,
                                struct error *error)
{
    /* The statement does not see a question that another run is adding at this moment. Both write the same text, so
     * that is harmless. */
    return connection_execute(
        connection,
        "with given as (select * from json_to_recordset($3::json) as g (s text, t text, d integer, x text,"
        " g smallint, c smallint,"
        " n smallint, cq smallint, nq smallint)),"
        " asked as (insert into task_questions (sha256, task, doc, question, gold) select s, t, d, x, g from given"
        " order by s, t, d"
        " on conflict on constraint task_questions_once do update set gold = excluded.gold returning id,"
        " sha256, task, doc)"
        " insert into task_items (run, epoch, question, choice, choice_norm, choice_q, choice_norm_q)"
        " select $1, $2, a.id, g.c, g.n, g.cq, g.nq from given g join asked a on a.sha256 = g.s and a.task = g.t"
        " and a.doc = g.d",
        VALUES(value_text(run), value_integer(epoch), value_json(rows)), NULL, error);
}

enum status task_items_insert(struct connection *connection, const char *run, int64_t epoch,
                              const struct task_items *items, struct error *error)
{
    const size_t count = items == NULL ? 0 : json_array_size(items->rows);
    if (count == 0) return STATUS_OK;
    enum status status = connection_execute(
        connection,
        "insert into task_runs (run, epoch, checkpoint, label, shots) select $1, $2, id, $4, $5 from checkpoints"
        " where id = $3",
        VALUES(value_text(run), value_integer(epoch), value_text(items->checkpoint.text), value_text(items->label),
               value_integer(items->shots)),
        NULL, error);
    for (size_t first = 0; first < count && status == STATUS_OK; first += SLICE) {
        json_t *slice = json_array();
        for (size_t i = first; slice != NULL && i < count && i < first + SLICE; i++)
            if (json_array_append(slice, json_array_get(items->rows, i)) != 0) break;
        status = slice == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for the items of a task")
                               : insert_slice(connection, run, epoch, slice, error);
        json_decref(slice);
    }
    return status;
}

enum status task_items_known(struct connection *connection, const char *task, bool *known, struct error *error)
{
    return connection_query_boolean(connection,
                                    "select exists (select from task_questions q where q.task = $1"
                                    " or starts_with(q.task, $1 || '_'))",
                                    VALUES(value_text(task)), known, error);
}

enum status task_items_label_known(struct connection *connection, const char *label, bool *known, struct error *error)
{
    return connection_query_boolean(connection, "select $1 = '' or exists (select from series where label = $1)",
                                    VALUES(value_text(label)), known, error);
}

enum status task_items_flips(struct connection *connection, const struct task_flips_query *query, json_t **document,
                             struct error *error)
{
    struct store_id id;
    const enum status status = trajectory_resolve(connection, query->trajectory, &id, error);
    *document = NULL;
    if (status != STATUS_OK) return status;
    return connection_query_json(
        connection,
        /* As in curves: one series, of each checkpoint its newest run, or that of another one of the same content.
         * Answers in full precision of a series without a method stay alone, whatever method their run had. */
        "with told as (" FLIPS_TOLD "),"
        " asked as (select s.*, n.run, n.checkpoint, n.number as told from told n join series s on s.id = n.series"
        " where ($2 is null or s.label = $2) and ($6 is null or s.protocol = $6) and ($7 is null or s.calibration = $7)"
        " and ($5 < 0 or ' ' || s.dataset like '% ' || $5::text || '-shot')"
        " and ($3 is null or split_part(s.dataset, ' ', 1) = $3"
        " or starts_with($3, split_part(s.dataset, ' ', 1) || '_'))),"
        " chosen as (select * from asked order by told desc, label <> '' desc limit 1),"
        " latest as (select a.checkpoint, i.question, q.task, q.doc, q.question as text, q.gold,"
        " i.choice = q.gold as good, case when a.label <> '' then i.choice_q = q.gold end as good_q,"
        " c.name, c.step, c.number"
        " from asked a join chosen h on h.id = a.id join runs r on r.id = a.run and r.state = 'succeeded'"
        " join task_runs t on t.run = r.id and t.epoch = r.result_epoch"
        " join checkpoints c on c.id = a.checkpoint join task_items i on i.run = t.run and i.epoch = t.epoch"
        " join task_questions q on q.id = i.question"
        " where ($3 is null or q.task = $3 or starts_with(q.task, $3 || '_'))),"
        " marked as (select *, lag(good) over (partition by question order by step nulls last, number) as before"
        " from latest),"
        " counted as (select question, task, doc, text, gold, count(*) as checkpoints,"
        " count(*) filter (where before <> good) as changes,"
        " count(*) filter (where good_q and not good) as up, count(*) filter (where good and not good_q) as down,"
        " json_agg(json_build_object('checkpoint', checkpoint, 'name', name, 'step', step, 'right', good,"
        " 'right_q', good_q)"
        " order by step nulls last, number) as course from marked group by question, task, doc, text, gold),"
        " most as (select * from counted where changes + up + down > 0 order by up + down desc, changes desc, task,"
        " doc limit $4),"
        " along as (select checkpoint, name, step, number, count(*) as items, count(*) filter (where good) as good,"
        " case when count(good_q) > 0 then count(*) filter (where good_q) end as good_q, count(*) filter (where good_q"
        " and not good) as up,"
        " count(*) filter (where good and not good_q) as down from marked group by checkpoint, name, step, number)"
        " select json_build_object('trajectory', (select name from trajectories where id = $1), 'series',"
        " (select json_build_object('label', h.label, 'dataset', h.dataset, 'shots', t.shots,"
        " 'protocol_id', h.protocol, 'calibration_id', nullif(h.calibration, ''),"
        " 'calibrated_on', nullif(h.calibrated_on, '')) from chosen h join runs r on r.id = h.run"
        " join task_runs t on t.run = r.id and t.epoch = r.result_epoch), 'items',"
        " coalesce((select json_agg(json_build_object('task', task, 'doc', doc,"
        " 'question', text, 'gold', gold, 'checkpoints', checkpoints, 'changes', changes, 'up', up, 'down', down,"
        " 'course', course)"
        " order by up + down desc, changes desc, task, doc) from most), '[]'), 'checkpoints',"
        " coalesce((select json_agg(json_build_object("
        "'checkpoint', checkpoint, 'name', name, 'step', step, 'items', items, 'right', good, 'right_q', good_q, 'up',"
        " up, 'down', down)"
        " order by step nulls last, number) from along), '[]'))",
        VALUES(value_text(id.text), value_text(query->label), value_text(query->task), value_integer(query->limit),
               value_integer(query->shots), value_text(query->protocol), value_text(query->calibration)),
        document, error);
}
