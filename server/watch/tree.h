/* tree.h: one directory, or place in a bucket, that is watched for checkpoints. A checkpoint is registered once its
 * files have been as they are for a while and can be opened whole (headers that fit the files' sizes, every shard of an
 * index there); what cannot be opened is tried again when it has changed.
 *
 * The kernel tells when something below it happens (inotify); that is a hint about when to look and never about what is
 * there. On file systems where others write (NFS, Lustre, ...) it tells nothing, and where its watches are used up it
 * cannot: the tree is then looked at every few seconds. A bucket is listed now and then; what is complete there is told
 * by the names of shards and the times of objects. While a bucket does not answer, the time between two looks doubles,
 * up to 16 times the usual one. */
#ifndef WATCH_TREE_H
#define WATCH_TREE_H

#include "watch/scan.h"

struct hub;
struct monitor;
struct tree;

struct tree_options {
    const struct roots *roots;     /* lent */
    const struct hub *hub;         /* lent; for places in buckets */
    const struct monitor *monitor; /* lent; may stop a look with any status of scan_ends_with */
    const char *trajectory;        /* name; copied */
    const char *path;              /* as it was posted; copied */
    double look_seconds; /* a look opens no further checkpoint after this time, for which all other trees wait; what it
                          * leaves is due at once */
    double quiet_seconds;
    double poll_seconds; /* seconds between looks where inotify does not work; elsewhere 12 times as long, as a safety
                          * net */
    bool poll;           /* do not use inotify */
};

/* The caller owns *out. STATUS_NO_MEMORY. Nothing is read yet, so a missing path is no error. */
MUST_CHECK enum status tree_new(const struct tree_options *options, struct tree **out, struct error *error);
void tree_free(struct tree *tree); /* NULL is fine */
const char *tree_path(const struct tree *tree);

/* The descriptor to poll for input; -1: none. Call tree_touched when there was input. */
int tree_descriptor(const struct tree *tree);
void tree_touched(struct tree *tree);

/* The time of the next look on the caller's clock (seconds, monotonic), reckoned from the end of the last one. */
double tree_due(const struct tree *tree);
/* Makes a look, which begins at `now`: registers the checkpoints that are ready, and adds their number to *registered.
 * STATUS_UNAVAILABLE and STATUS_NO_MEMORY leave everything for the next look; other failures (the directory is gone)
 * are shown in the state. */
MUST_CHECK enum status tree_look(struct tree *tree, struct connection *connection, double now, int64_t *registered,
                                 struct error *error);

/* {"mode": "inotify" | "poll" | "away", "detail": text | null, "pending": [names], "failed": [{"path", "detail"}]}, at
 * most 20 of each. A new reference; NULL: no memory. */
json_t *tree_state(const struct tree *tree);

#endif
