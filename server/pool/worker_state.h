/* worker_state.h: the state of a worker's main thread, and its handling of leased runs: beats, progress, log,
 * cancellation and end (worker_hold.c). For worker.c. */
#ifndef POOL_WORKER_STATE_H
#define POOL_WORKER_STATE_H

#include "pool/batch.h"
#include "pool/drain.h"
#include "pool/gate.h"
#include "pool/worker.h"

enum { WORKER_KINDS_MOST = 64 };
#define WORKER_POLL_SECONDS 1.0

/* A member of the batch as the main thread sees it. */
struct held_member {
    size_t number;                     /* in the batch */
    double renewed_at;                 /* when the last successful beat was *sent* */
    double beat_at, peek_at, flush_at; /* times of the next ones */
    uint64_t version_written;
    bool cancelling, lost;
    bool doubted; /* no beat succeeded for long: paused until one does, or the lease is lost */
    double lost_at;
    bool unsure;   /* the end of the lease was sent, and its outcome is not known */
    double end_at; /* when to send it again */
    bool done;     /* its end is committed, or another process decides it */
    bool uploaded; /* it has ended for good, and the bucket may have saved state of it */
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
    bool refused;   /* its deltaq is older than the database */
    double said_at; /* when it may next log why it takes no work */
    struct drain drain;
    bool broken;        /* its device broke down: the process ends */
    bool device_proven; /* a run has succeeded on the device */
    bool stopping;
    int stops;                                    /* signals to stop so far */
    double stop_at;                               /* when it started to stop */
    double lease_at, housekeeping_at, cleanup_at; /* times of the next ones */
    double overdue_at;                            /* when it looks next whether somebody should clean up */
    struct unused_artifacts *unused;              /* owned: a clean-up that goes on when idle; NULL: none */
    int cleaned;                                  /* what the present clean-up has removed */
    double answered_at;                           /* when housekeeping last reached the database */
    double steady_since;                          /* the database has answered since then, without an outage */
    double clock_ahead;                           /* the database's clock less worker_now() then */

    struct leased_batch *batch; /* NULL: idle */
    struct held_member members[WORKER_BATCH_MOST];
    uint64_t moves_seen;
    int64_t read_seen; /* machine_bytes_read at the engine's last sign of life */
    double watched_at; /* when the engine was last watched */
    double silence;    /* seconds without a sign of life since, in which this process ran */
};

/* Seconds on CLOCK_BOOTTIME. */
double worker_now(void);

void worker_say(const char *what, const struct error *error);

/* Lent by the batch. */
const struct lease *worker_lease_of(const struct worker *worker, const struct held_member *member);

/* Does everything that is due for each member of the batch, and frees the batch when all are done. `hinted`: a
 * notification came, which may be a cancellation. Ends the process when the engine hangs. */
void worker_hold(struct worker *worker, bool hinted);

#endif
