/* run_durations.h: counts of runs by duration (sql/0033_run_durations.sql). */
#ifndef STORE_RUN_DURATIONS_H
#define STORE_RUN_DURATIONS_H

/* Upper bounds in seconds. */
#define RUN_DURATIONS_BOUNDS "unnest(array[1, 10, 60, 300, 1800, 7200, 28800, 86400, 'Infinity']::float8[])"

/* Tokens of the checkpoint that the run `r` continues: counted when its trunk was trained, and part of a branch's own
 * number, which is in all. */
#define RUN_DURATIONS_TRUNK                                                                       \
    "coalesce((select c.tokens from run_specs p join checkpoints c on c.id = p.params ->> 'from'" \
    " where p.run = r.id and r.kind = 'train'), 0)"

/* Tokens that the run `r` was trained or evaluated on, from its result. Results do not record calibration tokens. */
#define RUN_DURATIONS_TOKENS                                                                                   \
    "(select greatest(0, (x.result ->> case r.kind when 'plan' then 'trained_tokens' else 'tokens' end"        \
    ")::numeric - " RUN_DURATIONS_TRUNK ") from run_results x where x.run = r.id and x.epoch = r.result_epoch" \
    " and r.kind in ('evaluate', 'quantize', 'sharpness', 'attribution', 'train', 'plan'))"

#endif
