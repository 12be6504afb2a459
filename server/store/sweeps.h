/* sweeps.h: the runs of a Cartesian product. The caller multiplies the product out (runs/sweep_plan.h); the runs are
 * inserted together. A standing sweep also takes in later checkpoints of its trajectory: the watcher (watch/) inserts
 * their runs.
 * Document: id, name, kind, base, grid, requires, standing, refused [{"checkpoint", "name", "error"}], runs {"queued",
 * "running", "succeeded", "failed", "cancelled", "total"}, created_at. */
#ifndef STORE_SWEEPS_H
#define STORE_SWEEPS_H

#include "store/runs.h"

struct sweep_new {
    const char *name; /* unique; NULL: its id */
    const char *kind;
    const json_t *base, *grid;
    const json_t *requires;     /* as run_new.requires, which the runs have too; NULL: nothing */
    const char *requester;      /* as run_new.requester; of the runs to come too */
    const char *standing;       /* id of the trajectory whose checkpoints to come are taken in; NULL: none */
    const struct run_new *runs; /* their `sweep` is filled in */
    size_t run_count;
    const json_t *taken; /* ids of the checkpoints that a trajectory in the grid stands for; NULL: there is none */
    const struct idempotency_record *record; /* NULL: the request has no key */
};

/* One transaction. An equal run that exists is shared. A sweep of the same name with the same kind, base and grid is
 * STORE_EXISTED, with another one STATUS_CONFLICT. */
MUST_CHECK enum status sweep_insert(struct connection *connection, const struct sweep_new *sweep,
                                    enum store_outcome *outcome, json_t **document, struct error *error);
/* STATUS_NOT_FOUND. */
MUST_CHECK enum status sweep_resolve(struct connection *connection, const char *reference, struct store_id *id,
                                     struct error *error);
MUST_CHECK enum status sweep_get(struct connection *connection, const char *reference, json_t **document,
                                 struct error *error);
MUST_CHECK enum status sweep_list(struct connection *connection, const struct list_filter *filter,
                                  const struct page *page, json_t **document, struct error *error);
/* What standing sweeps have not taken in yet: [{"sweep", "kind", "base", "grid", "requires", "requester",
 * "checkpoint"}], at most `most`, oldest first; not of the requesters `without`, a list of theirs. */
MUST_CHECK enum status sweep_behind(struct connection *connection, int64_t most, const json_t *without,
                                    json_t **document, struct error *error);
struct sweep_extension {
    const char *sweep, *checkpoint; /* ids */
    const json_t *grid;             /* that the runs were made of */
    const struct run_new *runs;
    size_t run_count;
    const json_t *refusal; /* {"status", "detail"}, why there are none; or NULL */
};
/* One transaction: notes that the standing sweep has taken in the checkpoint, and inserts the runs, or keeps the
 * refusal. *mine: it was; not when another process has done it before, or the grid is another one by now. */
MUST_CHECK enum status sweep_extend(struct connection *connection, const struct sweep_extension *extension, bool *mine,
                                    struct error *error);
/* Ids of the trajectory's checkpoints that it has taken in without a refusal, or (of sweeps before that was noted) has
 * runs of; oldest first. */
MUST_CHECK enum status sweep_taken(struct connection *connection, const char *sweep, const char *trajectory,
                                   json_t **ids, struct error *error);

struct sweep_widening {
    const char *sweep;         /* id */
    const json_t *grid, *more; /* as it was, and as it will be */
    const char *trajectory;    /* of the grid, an id; "": none */
    const json_t *taken;       /* what sweep_taken said of it; NULL without one */
    const json_t *later;       /* ids of the checkpoints that come in; NULL without one */
    const struct run_new *runs;
    size_t run_count;
    const struct idempotency_record *record; /* NULL: the request has no key */
};
/* One transaction: the sweep gets the larger grid and its new runs. STATUS_CONFLICT when the grid or what it has taken
 * in has changed since it was read. */
MUST_CHECK enum status sweep_widen(struct connection *connection, const struct sweep_widening *widening,
                                   json_t **document, struct error *error);
/* Cancels those of its runs that have not ended and belong to no other sweep. A standing sweep takes in no more
 * checkpoints. */
MUST_CHECK enum status sweep_cancel(struct connection *connection, const char *reference, json_t **document,
                                    struct error *error);
/* Queues its failed runs again, counters at zero, but for those that an equal run is queued or running for.
 * STATUS_TOO_MANY when not all of them find room: see run_insert. */
MUST_CHECK enum status sweep_retry_failed(struct connection *connection, const char *reference, int64_t queued_most,
                                          json_t **document, struct error *error);
/* Its runs stay. STATUS_CONFLICT while one of them has not ended, or it stands. */
MUST_CHECK enum status sweep_delete(struct connection *connection, const char *reference, struct error *error);

#endif
