/* watcher.h: one thread of `deltaq serve` that looks after watched directories and standing sweeps. What it watches
 * stands in the database, so it goes on after a restart. */
#ifndef WATCH_WATCHER_H
#define WATCH_WATCHER_H

#include "base/error.h"

#include <stdint.h>

struct hub;
struct watcher;

struct watcher_options {
    const char *conninfo;      /* copied by the connection */
    const struct roots *roots; /* lent until watcher_stop */
    const struct hub *hub;     /* likewise; for places in buckets */
    const char *data_directory;
    int64_t queued_most;  /* run_new.queued_most of standing sweeps' runs */
    double quiet_seconds; /* files must have been as they are for so long before a checkpoint is registered */
    double poll_seconds;  /* between looks where the kernel does not tell */
};

/* The caller owns *out. */
MUST_CHECK enum status watcher_start(const struct watcher_options *options, struct watcher **out, struct error *error);
void watcher_stop(struct watcher *watcher); /* NULL is fine */

#endif
