/* leftovers.h: what a crash left of a cluster: processes of this very directory, and a postmaster.pid that blocks the
 * start. To be called by the holder of the cluster's lock only, while no postmaster of its own is running. */
#ifndef POSTGRES_LEFTOVERS_H
#define POSTGRES_LEFTOVERS_H

#include "base/error.h"

/* Number of processes called "postgres" that have the directory `data` (a descriptor) as their working directory, which
 * PostgreSQL's processes have and nothing else; `signal` (0: none) is sent to each, with SIGCONT. */
int leftovers_signal(int data, int signal);

/* Stops them (SIGINT, SIGQUIT, SIGKILL; at most 10 s) and then removes a postmaster.pid that is empty or names a live
 * process: it cannot be a postmaster of this directory. One that names a dead process stays: PostgreSQL clears up by
 * it. */
MUST_CHECK enum status leftovers_clear(int data, struct error *error);

#endif
