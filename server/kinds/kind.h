/* kind.h: the definition of a kind of run. Each kind is one file with one const row; `kinds` (registry.c) lists them. A
 * row has two readers: the HTTP server when a run is posted (params, check), and the worker that executes the run
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
    /* The executing code calls this once for each member, through kind_member_end, when it will do nothing more for the
     * member. */
    void (*ended)(struct kind_member *member);
    enum status status;
    struct error error;
    json_t *result;
    bool given_back; /* not begun: the run returns to the queue unchanged */
};
void kind_member_end(struct kind_member *member, enum status status, const struct error *error);

enum { KIND_MEET_TEXT = 400 };

struct kind {
    const char *name; /* as in the API */
    const char *help;
    const struct param *params; /* the table of its parameters (base/param.h) */
    size_t params_size;         /* of the struct that the table fills */
    /* The table of its result; rows that are metrics become measurements. */
    const struct result_shape *result;
    /* Further tables with metrics: of items in its result, of checkpoints that it makes. Ends with NULL; NULL: none. */
    const struct result_shape *const *measured;
    bool makes_trajectories; /* posting a run makes the trajectory in its parameters when it does not exist */
    /* Called when a run is posted. Checks what the table cannot express (fields that contradict each other, a dataset
     * without a tokenizer). `params` is the filled struct. Names the field with error_set_at ("/params/method/bits").
     * May be NULL. */
    enum status (*check)(struct run_request *request, const void *params, struct error *error);
    /* Both read request->makes and are not called without it. `vacant`: STATUS_CONFLICT when a checkpoint that the run
     * would register is there already, or stands in its way. Called after check, for a run that has no equal; NULL:
     * check has looked. `meet`: whether two runs cannot both be executed, since their checkpoints would meet; `words`
     * says what both would do ("make a checkpoint ..."). NULL: runs of this kind never meet. */
    enum status (*vacant)(const struct run_request *request, struct error *error);
    bool (*meet)(const json_t *makes, const json_t *others, char words[KIND_MEET_TEXT]);
    /* Executes the run. `params` is the filled struct; its references are ids. On STATUS_OK *result is a new reference
     * (an object in the API's shape; its numbers finite or null) and `out` has the numbers for curves. Any other status
     * fails the run with `error`, except STATUS_CANCELLED and STATUS_LEASE_LOST from monitor_check, which are passed up
     * untouched. */
    enum status (*execute)(const struct run_context *context, const void *params, json_t **result,
                           struct measurements *out, struct error *error);
    /* Computes what execute would need (base/plan.h), with the same plans that execute chooses from, and the budget
     * there is. Reads headers and texts. Returns the status that the run would fail with, except when it does not fit:
     * then STATUS_TOO_LARGE or STATUS_DISK_FULL, and *out may be filled. NULL: the need cannot be known before. */
    enum status (*plan)(const struct run_context *context, const void *params, struct plan_budget *budget,
                        struct run_plan *out, struct error *error);
    /* Patterns (fnmatch) of the files in the run's work directory that make up its saved state; each file is replaced
     * as a whole (resume_store.h). Ends with NULL; NULL: nothing is uploaded, and an attempt on another node begins
     * again. */
    const char *const *resumes;
    bool asks_hub; /* `plan` asks the hub, so the run would fail when the hub is away */
    /* Runs whose parameters differ only in the fields of `apart` (ends with NULL) may form a batch; each member ends,
     * fails and is stopped as if it were alone. NULL: every run is executed alone. */
    const char *const *apart;
    void (*execute_batch)(struct kind_member *members, size_t count);
};

extern const struct kind evaluate_kind, quantize_kind, sharpness_kind, train_kind, average_kind, interpolate_kind,
    landscape_kind, health_kind, fetch_kind, tasks_kind, attribution_kind, compare_kind, advice_kind;

/* registry.c: every kind of the product; ends with NULL. */
extern const struct kind *const kinds[];
/* The names of `kinds` in the same order, ends with NULL: for tables of parameters. */
extern const char *const kind_names[];
/* The row called `name`, or NULL. */
const struct kind *kind_find(const struct kind *const *table, const char *name);

#endif
