/* prepare.h: what has to happen between a posted {"kind", "params"} and a row in the queue, for single runs and for
 * sweeps. */
#ifndef RUNS_PREPARE_H
#define RUNS_PREPARE_H

#include "kinds/kind.h"
#include "schema/faults.h"
#include "store/runs.h"

struct roots;

struct prepared_run { /* start with {0} */
    const struct kind *kind;
    struct run_request request; /* owns params among other things */
    char dedupe_key[65];        /* "" when an equal run may not be shared */
    char named_key[65]; /* the same with ids in place of content, which may become known only when a run reads it */
    char batch[65];     /* the same for runs that may be a batch; "": it goes alone */
};

/* Checks `params` (lent; copied) by the kind's table, replaces references by ids, asks the kind's own check, and hashes
 * what decides the result: kind, parameters with content hashes in place of ids, the kind's identity, engine revision.
 * `make`: a trajectory that is to be made is made; without, nothing is, and its name stays.
 * STATUS_INVALID with `faults`, pointers beginning with "/params"; statuses of check and of the store. The caller
 * resets *out. */
MUST_CHECK enum status prepare_run(struct connection *connection, const struct kind *kind, const json_t *params,
                                   const struct roots *roots, const char *data_directory, bool make,
                                   struct faults *faults, struct prepared_run *out, struct error *error);
void prepare_reset(struct prepared_run *run);

/* The row for the store; lent from `run`. */
struct run_new prepare_row(const struct prepared_run *run);

#endif
