/* leftovers.h: removes what a crash left of a cluster: processes that work in its directory, and a postmaster.pid that
 * blocks the start. Only the holder of the cluster's lock calls this, while it runs no postmaster. */
#ifndef POSTGRES_LEFTOVERS_H
#define POSTGRES_LEFTOVERS_H

#include "base/error.h"

/* Counts the processes called "postgres" whose working directory is `data` (a descriptor), which is true of
 * PostgreSQL's processes only; `signal` (0: none) is sent to each, with SIGCONT. */
int leftovers_signal(int data, int signal);

/* Stops them (SIGINT, SIGQUIT, SIGKILL; at most 10 s). Then removes a postmaster.pid that is empty or names a live
 * process, which cannot be a postmaster of this directory. A file that names a dead process stays, because PostgreSQL
 * cleans up with it. */
MUST_CHECK enum status leftovers_clear(int data, struct error *error);

#endif
