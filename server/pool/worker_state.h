/* worker_state.h: what a worker's main thread knows, and how it holds the runs that it has leased: beats, progress,
 * log, cancellation, and their end (worker_hold.c). For worker.c. */
#ifndef POOL_WORKER_STATE_H
#define POOL_WORKER_STATE_H

#include "pool/batch.h"
#include "pool/drain.h"
#include "pool/gate.h"
#include "pool/worker.h"

enum { WORKER_KINDS_MOST = 64 };
#define WORKER_POLL_SECONDS 1.0

/* A leased run of the batch, as the main thread holds it. */
struct held_member {
    size_t number;                     /* in the batch */
    double renewed_at;                 /* when the last successful beat was *sent* */
    double beat_at, peek_at, flush_at; /* next */
    uint64_t version_written;
    bool cancelling, lost;
    bool doubted; /* no beat came through for long: paused until one does, or the lease is lost */
    double lost_at;
    bool unsure;   /* an end of the lease was sent and its outcome is not known */
    double end_at; /* when to try again */
    bool done;     /* its end stands, or is not ours to say */
};

struct worker {
    struct worker_options options;
    struct worker_identity identity;
    struct connection *connection, *engine_connection;
    struct team *team;
    struct gate *gate; /* NULL but in tests */
    const char *kinds[WORKER_KINDS_MOST];
    size_t kind_count;
    int signals, wake;
    double lease_seconds;

    bool registered;
    bool refused;   /* it is older than the database */
    double said_at; /* when it may next say why it takes no work */
    struct drain drain;
    bool broken;        /* its device: the process ends */
    bool device_proven; /* a run on it went well */
    bool stopping;
    int stops;                                    /* signals to stop so far */
    double stop_at;                               /* when it began to stop */
    double lease_at, housekeeping_at, cleanup_at; /* next */
    double answered_at;                           /* when housekeeping last reached the database */
    double steady_since;                          /* since when it has, without an outage */

    struct leased_batch *batch; /* NULL: idle */
    struct held_member members[WORKER_BATCH_MOST];
    uint64_t moves_seen;
    int64_t read_seen; /* machine_bytes_read at moved_at */
    double moved_at;
};

/* Seconds on CLOCK_BOOTTIME. */
double worker_now(void);

void worker_say(const char *what, const struct error *error);

/* Lent by the batch. */
const struct lease *worker_lease_of(const struct worker *worker, const struct held_member *member);

/* Does what is due of each member of the batch, and frees the batch when all are done. `hinted`: a notification came,
 * which may be a cancellation. Ends the process when the engine stands still. */
void worker_hold(struct worker *worker, bool hinted);

#endif
