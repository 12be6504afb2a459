/* kind.h: what a kind of run is. Each kind is one file with one const row; `kinds` (registry.c) lists them.
 * A row is read twice: by the HTTP server when a run is posted (params, check) and by a worker that executes it
 * (execute). */
#ifndef KINDS_KIND_H
#define KINDS_KIND_H

#include "base/param.h"
#include "base/plan.h"
#include "base/result.h"
#include "inputs/run_context.h"
#include "store/measurements.h"

#include <jansson.h>

/* A member of a batch: one of several runs of a kind that are executed together. */
struct kind_member {
    struct run_context context;
    const void *params;                /* as for execute */
    struct measurements *measurements; /* likewise */
    void *owner;
    /* Whoever executes calls this once for each member, through kind_member_end, when it will do nothing more for
     * it. */
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
    /* The table of its result, with the numbers that it measures. */
    const struct result_shape *result;
    /* Further tables that it measures by: of items in its result, of checkpoints that it makes. Ends with NULL; NULL:
     * none. */
    const struct result_shape *const *measured;
    bool makes_trajectories; /* a trajectory in its parameters that does not exist is made when the run is posted */
    /* When posted: what the table cannot say (fields that contradict each other, a dataset without a tokenizer).
     * `params` is the filled struct. Blames a field with error_set_at ("/params/method/bits"). May be NULL. */
    enum status (*check)(struct run_request *request, const void *params, struct error *error);
    /* Does the work. `params` is the filled struct, its references ids. On STATUS_OK *result is a new reference (an
     * object in the API's shape; its numbers finite or null) and `out` the numbers that curves are drawn from. Any
     * other status fails the run with `error`, except STATUS_CANCELLED and STATUS_LEASE_LOST from monitor_check, which
     * are passed up untouched. */
    enum status (*execute)(const struct run_context *context, const void *params, json_t **result,
                           struct measurements *out, struct error *error);
    /* What execute would need (base/plan.h), by the plans that it chooses from itself, and what there is. Headers and
     * texts are read. The statuses that the run would fail with, but that it does not fit; with STATUS_TOO_LARGE or
     * STATUS_DISK_FULL *out may be filled all the same. NULL: nobody knows before. */
    enum status (*plan)(const struct run_context *context, const void *params, struct plan_budget *budget,
                        struct run_plan *out, struct error *error);
    /* Patterns (fnmatch) of the names of files in its work directory from which another attempt goes on, and which are
     * replaced as a whole: resume_store.h. Ends with NULL; NULL: its runs go on where they were, or begin again. */
    const char *const *resumes;
    bool asks_hub; /* `plan` does: that the hub is away is the run's problem, as it would be */
    /* Runs whose parameters are equal but for those in `apart` (ends with NULL) may be a batch; each member ends, fails
     * and is stopped as if it were alone. NULL: every run is executed alone. */
    const char *const *apart;
    void (*execute_batch)(struct kind_member *members, size_t count);
};

extern const struct kind evaluate_kind, quantize_kind, sharpness_kind, train_kind, average_kind, interpolate_kind,
    landscape_kind, health_kind, fetch_kind, tasks_kind, attribution_kind, compare_kind, advice_kind;

/* registry.c: every kind of the product; ends with NULL. */
extern const struct kind *const kinds[];
/* Their names in the same order, ends with NULL: for tables of parameters. */
extern const char *const kind_names[];
/* The row called `name`, or NULL. */
const struct kind *kind_find(const struct kind *const *table, const char *name);

#endif
