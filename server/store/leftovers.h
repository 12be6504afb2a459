/* leftovers.h: whether files that nobody holds open may be deleted: an artifact's bytes, a run's work directory. */
#ifndef STORE_LEFTOVERS_H
#define STORE_LEFTOVERS_H

#include "postgres/connection.h"

#include <stdbool.h>

/* Finds the hashes of which no artifact is recorded: *places, which the caller owns, has their places in `names` (a
 * list of texts), from 0. */
MUST_CHECK enum status leftovers_unrecorded(struct connection *connection, const json_t *names, json_t **places,
                                            struct error *error);

/* Locks the run's row for the caller's transaction, so that no worker takes the run meanwhile. *known: the run exists;
 * *ended: it exists and has ended. */
MUST_CHECK enum status leftovers_lock_run(struct connection *connection, const char *run, bool *known, bool *ended,
                                          struct error *error);

#endif
