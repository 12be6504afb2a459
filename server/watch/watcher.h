/* watcher.h: a thread of `deltaq serve` for watched directories and standing sweeps. The list of what is watched is in
 * the database, so watching continues after a restart. */
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
    double quiet_seconds; /* how long files must have been unchanged before a checkpoint is registered */
    double poll_seconds;  /* seconds between looks where the kernel sends no notices */
};

/* The caller owns *out. */
MUST_CHECK enum status watcher_start(const struct watcher_options *options, struct watcher **out, struct error *error);
void watcher_stop(struct watcher *watcher); /* NULL is fine */

#endif
