/* prepare.h: the steps from a posted {"kind", "params"} to a row in the queue, for single runs and for sweeps. */
#ifndef RUNS_PREPARE_H
#define RUNS_PREPARE_H

#include "kinds/kind.h"
#include "schema/faults.h"
#include "store/runs.h"

struct roots;

struct prepared_run { /* start with {0} */
    const struct kind *kind;
    struct run_request request; /* owns the parameters and more */
    char dedupe_key[65];        /* "" when an equal run may not be shared */
    char named_key[65]; /* the same hash with ids in place of content, because the content may be known only when a run
                         * reads it */
    char batch[65];     /* equal for runs that may form a batch; "": the run is executed alone */
};

/* Checks `params` (lent; copied) against the kind's table, replaces references by ids, calls the kind's own check, and
 * hashes everything that decides the result: kind, parameters with content hashes in place of ids, the kind's identity,
 * engine revision. `make`: a trajectory that the run would make is made now; false: nothing is made and its name stays.
 * STATUS_INVALID with `faults`, whose pointers begin with "/params"; statuses of check and of the store. The caller
 * resets *out. */
MUST_CHECK enum status prepare_run(struct connection *connection, const struct kind *kind, const json_t *params,
                                   const struct roots *roots, const char *data_directory, bool make,
                                   struct faults *faults, struct prepared_run *out, struct error *error);
/* Refuses a run whose checkpoints would meet others (kind.vacant), unless an equal run answers the request of this row
 * (which none does when it is forced). STATUS_CONFLICT; statuses of the store. */
MUST_CHECK enum status prepare_check_vacant(const struct prepared_run *run, const struct run_new *row,
                                            struct error *error);
void prepare_reset(struct prepared_run *run);

/* The row for the store; lent from `run`. */
struct run_new prepare_row(const struct prepared_run *run);

#endif
