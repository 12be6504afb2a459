/* run_again.h: the SQL that queues ended runs again with their counters at zero. `before` is a query that locks them
 * (columns id and state). */
#ifndef STORE_RUN_AGAIN_H
#define STORE_RUN_AGAIN_H

#define RUN_AGAIN                                                                                        \
    " changed as (update runs r set state = 'queued', tries = 0, crashes = 0, stalls = 0, expiries = 0," \
    " attempts = 0, progress_marks = '{}', run_at = clock_timestamp(), error = null,"                    \
    " cancel_requested_at = null, started_at = null, finished_at = null, worker = null, device = null,"  \
    " progress_done = 0, progress_total = 0, progress_eta = null, usage_seconds = null,"                 \
    " usage_host_bytes = null, usage_device_bytes = null, usage_work = null, memory_wanted = null,"      \
    " device_memory_wanted = null"                                                                       \
    " from before b where r.id = b.id returning r.id, r.epoch, b.state)"                                 \
    " insert into run_events (run, epoch, type, data) select id, epoch, 'state',"                        \
    " json_build_object('from', state, 'to', 'queued', 'retry', true) from changed"

#endif
