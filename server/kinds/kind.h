/* kind.h: what a kind of run is. Each kind is one file with one const row; `kinds` (registry.c) lists them.
 * A row is read twice: by the HTTP server when a run is posted (params, check) and by a worker that executes it (execute). */
#ifndef KINDS_KIND_H
#define KINDS_KIND_H

#include "base/error.h"
#include "base/monitor.h"
#include "base/param.h"
#include "base/plan.h"
#include "base/result.h"
#include "store/measurements.h"
#include "store/store.h"
#include "store/task_items.h"

#include <jansson.h>

struct artifacts;
struct hub;
struct team;

/* What `check` is given and what it finds out. */
struct kind_request {
    struct connection *connection; /* for questions through server/store */
    const char *const *roots;      /* paths must lie below one; ends with NULL */
    const char *data_directory;
    const json_t *posted; /* the parameters as they came in, without defaults; NULL: none. Lent */
    json_t *params;       /* complete and valid by the table; references in it are already ids. check may complete it further */
    /* Filled by check through kind_uses_*: what the run reads. */
    struct store_id *checkpoints, *trajectories, *datasets; /* owned (kind_request_reset) */
    size_t checkpoint_count, trajectory_count, dataset_count;
    bool alone;         /* check says: never to be executed in a batch with others */
    const char *device; /* check says: only on devices of this kind ("cuda"); NULL: anywhere */
    json_t *identity;   /* object, owned: what else decides the result (content hashes, ...). NULL after check: never shared */
};

/* What `execute` is given. All of it is lent until execute returns; it runs on the worker's engine thread. */
struct kind_context {
    const char *run; /* id */
    int64_t epoch;
    int attempt;                   /* 0 the first time */
    const struct monitor *monitor; /* progress, log lines; check says when to stop: call it at least once a second or so */
    struct connection *connection; /* this thread's own, reconnecting; only for questions through server/store */
    const char *data_directory;
    const char *work_directory; /* this run's own, below $DATA/tmp: kept between attempts, removed when the run is final */
    const char *const *roots;
    const char *device;          /* "cpu", "cuda:0" */
    int threads;                 /* for the engine; 0: one for each processor */
    struct team *team;           /* of `threads`, made once for the process */
    struct artifacts *artifacts; /* kinds/artifacts.h */
    struct task_items *items;    /* for the kind "tasks": committed with the result */
    const struct hub *hub;       /* where repositories are fetched from; NULL: from nowhere */
    int64_t memory_bytes;        /* of the host that the run may take; 0: what is free */
    int64_t *device_bytes;       /* the most that was taken of the device, -1 at first; NULL: nobody asks */
    double *work;                /* execute puts what its plan says it takes (plan_work) here; NULL: nobody asks */
    bool planning;               /* for `plan`: nothing is fetched, hashed or made; run, artifacts, items and team are not there */
};

/* For execute: puts it there, unless an earlier attempt may have done some of it. */
void kind_note_work(const struct kind_context *context, double work);

/* A member of a batch: one of several runs of a kind that are executed together. */
struct kind_member {
    struct kind_context context;
    const void *params;                /* as for execute */
    struct measurements *measurements; /* likewise */
    void *owner;
    /* Whoever executes calls this once for each member, through kind_member_end, when it will do nothing more for it. */
    void (*ended)(struct kind_member *member);
    enum status status;
    struct error error;
    json_t *result;
    bool given_back; /* not begun: the run goes back to the queue as it came */
};
void kind_member_end(struct kind_member *member, enum status status, const struct error *error);

struct kind {
    const char *name; /* as in the API */
    const char *help;
    const struct param *params; /* the table of its parameters (base/param.h) */
    size_t params_size;         /* of the struct that the table fills */
    /* The table of its result, with the numbers that it measures; NULL: `execute` makes the document by hand. */
    const struct result_shape *result;
    /* Further tables that it measures by: of items in its result, of checkpoints that it makes. Ends with NULL; NULL: none. */
    const struct result_shape *const *measured;
    bool makes_trajectories; /* a trajectory in its parameters that does not exist is made when the run is posted */
    /* When posted: what the table cannot say (fields that contradict each other, a dataset without a tokenizer). `params` is the
     * filled struct. Blames a field with error_set_at ("/params/method/bits"). May be NULL. */
    enum status (*check)(struct kind_request *request, const void *params, struct error *error);
    /* Does the work. `params` is the filled struct, its references ids. On STATUS_OK *result is a new reference (an object in the
     * API's shape; its numbers finite or null) and `out` the numbers that curves are drawn from. Any other status fails the run
     * with `error`, except STATUS_CANCELLED and STATUS_LEASE_LOST from monitor_check, which are passed up untouched. */
    enum status (*execute)(const struct kind_context *context, const void *params, json_t **result, struct measurements *out,
                           struct error *error);
    /* What execute would need (base/plan.h), by the plans that it chooses from itself, and what there is. Headers and texts are
     * read. The statuses that the run would fail with, but that it does not fit; with STATUS_TOO_LARGE or STATUS_DISK_FULL *out may
     * be filled all the same. NULL: nobody knows before. */
    enum status (*plan)(const struct kind_context *context, const void *params, struct plan_budget *budget, struct run_plan *out,
                        struct error *error);
    bool asks_hub; /* `plan` does: that the hub is away is the run's problem, as it would be */
    /* Runs whose parameters are equal but for those in `apart` (ends with NULL) may be a batch; each member ends, fails and is
     * stopped as if it were alone. NULL: every run is executed alone. */
    const char *const *apart;
    void (*execute_batch)(struct kind_member *members, size_t count);
};

extern const struct kind evaluate_kind, quantize_kind, sharpness_kind, train_kind, average_kind, interpolate_kind, landscape_kind,
    health_kind, fetch_kind, tasks_kind, attribution_kind;

/* registry.c: every kind of the product; ends with NULL. */
extern const struct kind *const kinds[];
/* Their names in the same order, ends with NULL: for tables of parameters. */
extern const char *const kind_names[];
/* The row called `name`, or NULL. */
const struct kind *kind_find(const struct kind *const *table, const char *name);

/* For check: notes that the run reads this. STATUS_NO_MEMORY. */
MUST_CHECK enum status kind_uses_checkpoint(struct kind_request *request, const struct store_id *id, struct error *error);
MUST_CHECK enum status kind_uses_trajectory(struct kind_request *request, const struct store_id *id, struct error *error);
MUST_CHECK enum status kind_uses_dataset(struct kind_request *request, const struct store_id *id, struct error *error);
void kind_request_reset(struct kind_request *request);

#endif
