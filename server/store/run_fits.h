/* run_fits.h: whether a worker may take a run: one condition for the lease, for the members of a batch, and for the
 * reason why a queued run waits. `run` is a row of runs. The other arguments are expressions of a worker: its device
 * ("cuda:0"), its labels (jsonb, a list), the bytes of memory that a run may take there (null: not known, and no run is
 * too large), those of its device's own memory (null: it has none, or they are not known, and no run that asks for such
 * memory goes there) and its node (null or '': not known). */
#ifndef STORE_RUN_FITS_H
#define STORE_RUN_FITS_H

/* `kind` is "cpu" or "cuda"; null: any device. */
#define RUN_FITS_DEVICE(device, kind) " coalesce(" device " = " kind " or " device " like " kind " || ':%', true) "

#define RUN_FITS_MEMORY(memory, bytes)        " coalesce(" bytes " <= " memory ", true) "
#define RUN_FITS_DEVICE_MEMORY(memory, bytes) " coalesce(" bytes " <= " memory ", " bytes " is null) "
#define RUN_LABELS_HELD(run, labels)          " coalesce(" run ".requires -> 'labels' <@ " labels ", true) "
#define RUN_REQUIRES(run, name)               "(" run ".requires ->> '" name "')"
/* True unless the worker's node was recently found to lack files of a checkpoint that the run reads. It is a subselect,
 * which the planner cannot turn into a join, so it is evaluated only for the rows that are examined. */
#define RUN_FITS_FILES(run, node)                                                                                    \
    " coalesce((select false from run_inputs needed join node_lacks lacked on lacked.checkpoint = needed.checkpoint" \
    " where needed.run = " run ".id and lacked.node = " node                                                         \
    " and lacked.noted_at > clock_timestamp() - interval '10 minutes' limit 1), true) "
/* clang-format off */
#define RUN_FITS(run, device, labels, memory, device_memory, node)                                        \
    RUN_FITS_FILES(run, node)                                                                             \
    "and" RUN_FITS_MEMORY(memory, run ".memory_wanted")                                                   \
    "and" RUN_FITS_DEVICE_MEMORY(device_memory, run ".device_memory_wanted")                              \
    "and (" run ".requires is null or" RUN_FITS_DEVICE(device, RUN_REQUIRES(run, "device"))               \
    "and" RUN_LABELS_HELD(run, labels)                                                                    \
    "and" RUN_FITS_MEMORY(memory, RUN_REQUIRES(run, "memory_bytes") "::bigint")                           \
    "and" RUN_FITS_DEVICE_MEMORY(device_memory, RUN_REQUIRES(run, "device_memory_bytes") "::bigint") ") "
/* clang-format on */

/* Worker w was seen within the last minute. A moment ahead is from before the database's clock was set back: a worker
 * that lives replaces it with its next sign. */
#define WORKER_LIVES \
    " w.seen_at between clock_timestamp() - interval '1 minute' and clock_timestamp() + interval '1 minute' "
/* Worker w has not put its device aside. */
#define WORKER_TAKES         " coalesce(w.device_state ->> 'state' <> 'aside', true) "
#define WORKER_DEVICE_MEMORY "(w.device_state ->> 'memory_bytes')::bigint"
/* Worker w may take run r. */
#define WORKER_FITS \
    WORKER_TAKES "and" RUN_FITS("r", "w.device", "w.labels", "w.memory_bytes", WORKER_DEVICE_MEMORY, "w.node")

#endif
