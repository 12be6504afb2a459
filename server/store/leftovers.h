/* leftovers.h: whether files that nobody holds open may be deleted: an artifact's bytes, a run's work directory. */
#ifndef STORE_LEFTOVERS_H
#define STORE_LEFTOVERS_H

#include "postgres/connection.h"

#include <stdbool.h>

/* Whether an artifact with these bytes is recorded. Also true when the database does not answer, so that the file
 * stays. */
bool leftovers_artifact_is_recorded(struct connection *connection, const char *sha256);

/* Locks the run's row for the caller's transaction, so that no worker takes the run meanwhile. *known: the run exists;
 * *ended: it exists and has ended. */
MUST_CHECK enum status leftovers_lock_run(struct connection *connection, const char *run, bool *known, bool *ended,
                                          struct error *error);

#endif
