/* runs.h: runs as the API sees them: inserted, read, cancelled, retried. How workers get them is in queue.h.
 * Document: id, kind, state, params, requires, waiting (why no worker that lives may take it; null: one may, or it is
 * not queued), requester (id of a token; null: it needed none), checkpoint_name, trajectory (names; null where it has
 * none, or several), result, error, progress, attempt, worker, device, created_at, started_at, finished_at, usage,
 * sweep, cancel_requested. */
#ifndef STORE_RUNS_H
#define STORE_RUNS_H

#include "store/idempotency.h"
#include "store/queue_quota.h"

struct run_request;

/* Everything is lent. */
struct run_new {
    const char *kind;
    const json_t *params; /* complete: with all defaults filled in */
    /* hash of everything that decides the result (kind, params, content, engine version); NULL: never shared */
    const char *dedupe_key;
    const char *named_key;  /* the same hash with ids in place of content; also NULL then */
    const char *batch;      /* equal for runs that a worker may take as members of one batch; NULL: the run is executed
                             * alone */
    const json_t *requires; /* requirements on the worker: {"device", "labels", "memory_bytes", "device_memory_bytes"},
                             * each may be absent; NULL: none */
    const char *requester;  /* id of the token of the request; NULL or "": none was needed */
    int64_t queued_most;    /* how many runs of the requester may wait; 0: a fair share (queue_quota.h) */
    bool force;             /* a new run even if an equal one exists */
    int priority;           /* larger goes first; 0 is usual */
    const char *sweep;      /* id, or NULL */
    const struct idempotency_record *record; /* of a request for this run alone; NULL: the request has no key */
    const struct store_id *checkpoints;      /* checkpoints that the run reads, for filters and for refusing their
                                              * deletion */
    size_t checkpoint_count;
    const struct store_id *trajectories;
    size_t trajectory_count;
    const struct store_id *datasets;
    size_t dataset_count;
    /* Asked before a new row is written, with `request`, in the same transaction and one transaction at a time; queries
     * go through the connection of the insertion. NULL: nothing is asked. */
    enum status (*vacant)(const struct run_request *request, struct error *error);
    const struct run_request *request;
};

/* How much of their results a list of runs contains; a summary leaves out lists and objects except intervals. */
enum run_result { RUN_RESULT_FULL, RUN_RESULT_SUMMARY, RUN_RESULT_NONE };

struct run_filter { /* NULL: any */
    enum run_result result;
    struct list_filter list; /* name, tags and steps are those of a checkpoint that the run reads */
    const char *kind, *state;
    const char *checkpoint, *trajectory, *sweep; /* references; unknown ones are STATUS_NOT_FOUND */
};

struct run_artifact {
    char name[128], sha256[65], media_type[128];
    int64_t bytes;
};

/* STORE_EXISTED: *document is an equal run that is running or succeeded, or is queued with the same requirements.
 * STATUS_TOO_MANY: the queue is full, or the requester has as many waiting runs as it may have. */
MUST_CHECK enum status run_insert(struct connection *connection, const struct run_new *run, enum store_outcome *outcome,
                                  json_t **document, struct error *error);
/* As run_insert, inside the caller's transaction (a sweep's); *id is all it returns. `quota` is that of all runs of the
 * transaction (run_quota), which ends with queue_quota_hold. */
MUST_CHECK enum status run_insert_within(struct connection *connection, const struct run_new *run,
                                         struct queue_quota *quota, enum store_outcome *outcome, struct store_id *id,
                                         struct error *error);
/* The run that run_insert would answer with in place of a new one; *found false: there is none. */
MUST_CHECK enum status run_find_equal(struct connection *connection, const struct run_new *run, bool *found,
                                      struct store_id *id, struct error *error);
/* The quota of the run's requester; lends from the run. */
struct queue_quota run_quota(const struct run_new *run);
MUST_CHECK enum status run_get(struct connection *connection, const char *id, json_t **document, struct error *error);
MUST_CHECK enum status run_list(struct connection *connection, const struct run_filter *filter, const struct page *page,
                                json_t **document, struct error *error);
/* A queued run is cancelled at once. The worker of a running one stops within about two seconds. A cancelled run gives
 * the same answer again. STATUS_CONFLICT: it has succeeded or failed. */
MUST_CHECK enum status run_cancel(struct connection *connection, const char *id, json_t **document,
                                  struct error *error);
/* Queues a failed or cancelled run again, with its counters at zero and for its requester. STATUS_CONFLICT: it is in
 * another state, or an equal run is queued or running. STATUS_TOO_MANY: see run_insert. */
MUST_CHECK enum status run_retry(struct connection *connection, const char *id, int64_t queued_most, json_t **document,
                                 struct error *error);
/* Deletes a run with its result, measurements, events and the record of its artifacts. A clean-up removes the
 * artifacts' bytes when they are a day old and no other run has the same (unused_artifacts.h). An older
 * measurement takes the place of a deleted one; checkpoints that the run made stay. STATUS_CONFLICT while it has not
 * ended, or while a run that compares it has not ended. */
MUST_CHECK enum status run_delete(struct connection *connection, const char *id, struct error *error);

/* Events with id > `after`, oldest first: [{"id", "type": "state"|"log", "at", "data": {...}}]. Ids of one run grow in
 * the order in which its events become visible. Progress is not an event: it is in the run's document. */
MUST_CHECK enum status run_events(struct connection *connection, const char *id, int64_t after, int limit,
                                  json_t **document, struct error *error);
enum { RUN_WATCH_MOST = 500 };
/* {"state", "progress", "events": [...]}: all that a stream of server-sent events needs, in one query. At most
 * RUN_WATCH_MOST events: when there are as many there may be more. */
MUST_CHECK enum status run_watch(struct connection *connection, const char *id, int64_t after, json_t **document,
                                 struct error *error);
/* {"items": [{"name", "bytes", "sha256", "media_type"}], "next": null}. */
MUST_CHECK enum status run_artifacts(struct connection *connection, const char *id, json_t **document,
                                     struct error *error);
/* The artifact's bytes are in $DATA/artifacts/<sha256>. STATUS_NOT_FOUND. */
MUST_CHECK enum status run_artifact_find(struct connection *connection, const char *id, const char *name,
                                         struct run_artifact *out, struct error *error);

struct run_like {
    const char *kind, *device;
    const char *precision; /* of the parameters; NULL: the kind has none */
    double work;           /* queue_usage */
};
/* The rate of earlier runs of this kind on the device in this precision, in units of work a second: the median over
 * the five whose work was nearest, of the last few hundred. *count: the number of runs in the median; 0: there were
 * none, and no rate. */
MUST_CHECK enum status run_rate(struct connection *connection, const struct run_like *like, double *rate,
                                int64_t *count, struct error *error);

#endif
