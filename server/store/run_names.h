/* run_names.h: the names that a run's document shows beside ids: of what the run reads and of what its result names.
 * `r` is a row of runs, `s` its row of run_specs. */
#ifndef STORE_RUN_NAMES_H
#define STORE_RUN_NAMES_H

/* TRAJECTORY/NAME of the checkpoint whose id follows in the SQL, after which the parenthesis must be closed. */
#define RUN_CHECKPOINT_NAMED \
    "(select t.name || '/' || c.name from checkpoints c join trajectories t on t.id = c.trajectory where c.id = "

/* The ids of checkpoints in the result. Only results of these kinds name checkpoints that the run does not read; other
 * results are too long to search for nothing. */
#define RUN_RESULT_NAMES                                                                                      \
    "select m.id, " RUN_CHECKPOINT_NAMED "m.id) as name from (select distinct f.value #>> '{}' as id"         \
    " from run_results x, (values ('$.**.checkpoint'::jsonpath), ('$.**.checkpoints[*]'),"                    \
    " ('$.**.ema_checkpoints[*]')) p (path), jsonb_path_query(x.result::jsonb, p.path) f (value)"             \
    " where x.run = r.id and x.epoch = r.result_epoch and (r.kind in ('average', 'compare', 'fetch', 'plan'," \
    " 'train') or r.kind = 'quantize' and s.params ->> 'export' = 'dequantized') and jsonb_typeof(f.value) =" \
    " 'string') m"

/* The names of the run's main checkpoint, of its only trajectory if it has one, and of every id; what it read and was
 * deleted since has its last name. */
#define RUN_NAMES                                                                                                     \
    "'checkpoint_name', (select c.name from checkpoints c where c.id = s.params ->> 'checkpoint'), 'trajectory',"     \
    " (select min(t.name) from run_trajectories x join trajectories t on t.id = x.trajectory where x.run = r.id"      \
    " having count(*) = 1), 'names', (select coalesce(json_object_agg(n.id, n.name order by n.id)"                    \
    " filter (where n.name is not null), '{}') from"                                                                  \
    " (select c.id, t.name || '/' || c.name as name from run_inputs i join checkpoints c on c.id = i.checkpoint join" \
    " trajectories t on t.id = c.trajectory where i.run = r.id union select d.id, d.name from run_inputs i"           \
    " join datasets d on d.id = i.dataset where i.run = r.id union select t.id, t.name from run_inputs i"             \
    " join trajectories t on t.id = i.trajectory where i.run = r.id union select i.gone, i.gone_name from run_inputs" \
    " i where i.run = r.id and i.gone is not null union " RUN_RESULT_NAMES ") n)"

#endif
