/* sweeps.h: the runs of a Cartesian product. The caller computes the product (runs/sweep_plan.h); the runs are inserted
 * together. A standing sweep also takes in later checkpoints of its trajectory: the watcher (watch/) inserts their
 * runs. Document: id, name, kind, base, grid, requires, standing, refused [{"checkpoint", "name", "error"}], runs
 * {"queued", "running", "succeeded", "failed", "cancelled", "total"}, created_at. */
#ifndef STORE_SWEEPS_H
#define STORE_SWEEPS_H

#include "store/runs.h"

struct sweep_new {
    const char *name; /* unique; NULL: its id */
    const char *kind;
    const json_t *base, *grid;
    const json_t *requires;     /* as run_new.requires, for all runs; NULL: nothing */
    const char *requester;      /* as run_new.requester; later runs of a standing sweep have it too */
    const char *standing;       /* id of the trajectory whose later checkpoints are taken in; NULL: not a standing
                                 * sweep */
    const struct run_new *runs; /* the insertion fills in their `sweep` */
    size_t run_count;
    const json_t *taken; /* ids of the checkpoints that the grid's trajectory stands for; NULL: the grid has no
                          * trajectory */
    const struct idempotency_record *record; /* NULL: the request has no key */
};

/* Inserts a sweep in one transaction. An equal run that exists is shared. A sweep of the same name with the same kind,
 * base and grid is STORE_EXISTED, a different one STATUS_CONFLICT. */
MUST_CHECK enum status sweep_insert(struct connection *connection, const struct sweep_new *sweep,
                                    enum store_outcome *outcome, json_t **document, struct error *error);
/* Whether sweep_insert would be STORE_EXISTED; nothing is inserted. STATUS_CONFLICT as there. */
MUST_CHECK enum status sweep_exists(struct connection *connection, const struct sweep_new *sweep, bool *exists,
                                    struct error *error);
/* STATUS_NOT_FOUND. */
MUST_CHECK enum status sweep_resolve(struct connection *connection, const char *reference, struct store_id *id,
                                     struct error *error);
MUST_CHECK enum status sweep_get(struct connection *connection, const char *reference, json_t **document,
                                 struct error *error);
MUST_CHECK enum status sweep_list(struct connection *connection, const struct list_filter *filter,
                                  const struct page *page, json_t **document, struct error *error);
/* Checkpoints that standing sweeps have not taken in yet: [{"sweep", "kind", "base", "grid", "requires", "requester",
 * "checkpoint"}], at most `most`, oldest first, except those of the requesters in the list `without` and the
 * checkpoints with the ids in the list `later` (NULL: none). Only checkpoints with numbers above `after` are looked at:
 * with 0 every pair of a sweep and a checkpoint of its trajectory is read. */
MUST_CHECK enum status sweep_behind(struct connection *connection, int64_t after, int64_t most, const json_t *without,
                                    const json_t *later, json_t **document, struct error *error);
/* The highest number of a checkpoint; 0: there is none. */
MUST_CHECK enum status sweep_newest_checkpoint(struct connection *connection, int64_t *number, struct error *error);
struct sweep_extension {
    const char *sweep, *checkpoint; /* ids */
    const json_t *grid;             /* the grid that the runs were made of */
    const struct run_new *runs;
    size_t run_count;
    const json_t *refusal; /* {"status", "detail"}: the reason why there are no runs; or NULL */
};
/* Notes, in one transaction, that the standing sweep has taken in the checkpoint, and inserts the runs or stores the
 * refusal. *mine is false when another process has done so before, or the grid has changed. */
MUST_CHECK enum status sweep_extend(struct connection *connection, const struct sweep_extension *extension, bool *mine,
                                    struct error *error);
/* Ids of the trajectory's checkpoints that the sweep has taken in without a refusal, oldest first. For sweeps from
 * before this was recorded: checkpoints that the sweep has runs of. */
MUST_CHECK enum status sweep_taken(struct connection *connection, const char *sweep, const char *trajectory,
                                   json_t **ids, struct error *error);

struct sweep_widening {
    const char *sweep;         /* id */
    const json_t *grid, *more; /* the grid as it was, and as it will be */
    const char *trajectory;    /* id of the grid's trajectory; "": none */
    const json_t *taken;       /* the result of sweep_taken; NULL without a trajectory */
    const json_t *later;       /* ids of the checkpoints to take in; NULL without a trajectory */
    const struct run_new *runs;
    size_t run_count;
    const struct idempotency_record *record; /* NULL: the request has no key */
};
/* Gives the sweep the larger grid and its new runs, in one transaction. STATUS_CONFLICT when the grid, or the set of
 * checkpoints taken in, has changed since it was read. */
MUST_CHECK enum status sweep_widen(struct connection *connection, const struct sweep_widening *widening,
                                   json_t **document, struct error *error);
/* Cancels the sweep's runs that have not ended and belong to no other sweep. A standing sweep takes in no more
 * checkpoints. */
MUST_CHECK enum status sweep_cancel(struct connection *connection, const char *reference, json_t **document,
                                    struct error *error);
/* Queues the sweep's failed runs again with their counters at zero, except runs that have an equal one queued or
 * running. STATUS_TOO_MANY when not all of them find space: see run_insert. */
MUST_CHECK enum status sweep_retry_failed(struct connection *connection, const char *reference, int64_t queued_most,
                                          json_t **document, struct error *error);
/* Deletes the sweep; its runs stay. STATUS_CONFLICT while one of them has not ended, or while the sweep is standing. */
MUST_CHECK enum status sweep_delete(struct connection *connection, const char *reference, struct error *error);

#endif
