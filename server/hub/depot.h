/* depot.h: what has been fetched, below $DATA/hub, bounded in size.
 *
 *   blobs/OID            a file by its content ("sha256-…", "git-…"), whichever revisions have it; read-only
 *   snapshots/KEY/…      the files of one revision under their names: hard links to blobs, there as a whole or not at
 * all
 *   snapshots/.KEY/…     one that is being put together; it keeps its blobs from being evicted
 *   partial/OID, .pieces a file that is being downloaded, and which parts of it are there (pieces.h)
 *   locks/KEY            locked shared by readers of a snapshot, exclusively by who makes or evicts it; touched when
 * used
 *
 * So the links of a blob count who needs it, a crash leaves nothing that is taken for a whole file, and a killed
 * process holds nothing. Locks are flock(2): where a network file system does not honour them between machines, what
 * running runs read is kept by the caller's list of needs alone. */
#ifndef HUB_DEPOT_H
#define HUB_DEPOT_H

#include "base/monitor.h"
#include "hub/names.h"

#include <stdint.h>

enum { DEPOT_KEY = 41 };

struct depot_hold;

/* For the files of this room. */
struct depot {
    char *directory;                      /* owned */
    int blobs, snapshots, partial, locks; /* descriptors */
    int64_t most;
};

/* Names the snapshot of these files of a commit; no files: those that a checkpoint needs. The order of names does not
 * matter. */
MUST_CHECK enum status depot_key(const char *repo, const char *commit, const char *const *files, size_t count,
                                 char out[DEPOT_KEY], struct error *error);

/* Opens (and makes) the cache in `directory`, which may hold `most` bytes. The caller owns *out (depot_close). */
MUST_CHECK enum status depot_open(const char *directory, int64_t most, struct depot **out, struct error *error);
void depot_close(struct depot *depot); /* NULL is fine */

/* Holds snapshot `key` for reading if it is there: *out is NULL when it is not. Waits while it is being made only if
 * `monitor` is given. The caller owns *out (depot_release), which may outlive the cache. */
MUST_CHECK enum status depot_take(const struct depot *depot, const char *key, const struct monitor *monitor,
                                  struct depot_hold **out, struct error *error);
/* Holds it to make or to evict it, without waiting when `monitor` is NULL: nobody else does. *out is NULL when it has
 * appeared meanwhile. */
MUST_CHECK enum status depot_take_to_make(const struct depot *depot, const char *key, const struct monitor *monitor,
                                          struct depot_hold **out, struct error *error);
void depot_release(struct depot_hold *hold);           /* NULL is fine */
const char *depot_path(const struct depot_hold *hold); /* of the snapshot; lent */

/* Making one, under a hold to make. depot_begin clears what an earlier try left. depot_link puts blob `oid` of `bytes`
 * bytes into it as `name` if the blob is there: *found. depot_adopt makes the finished file partial/OID a blob, in it
 * as `name` before that, so that there is no moment in which nobody needs the blob. depot_publish makes the snapshot
 * appear; to read it, take it. */
MUST_CHECK enum status depot_begin(const struct depot_hold *hold, struct error *error);
MUST_CHECK enum status depot_link(const struct depot_hold *hold, const char *oid, int64_t bytes, const char *name,
                                  bool *found, struct error *error);
/* Whether the blob is there, as for depot_link. */
MUST_CHECK enum status depot_has(const struct depot *depot, const char *oid, int64_t bytes, bool *found,
                                 struct error *error);
MUST_CHECK enum status depot_adopt(const struct depot_hold *hold, const struct depot *depot, const char *oid,
                                   const char *name, struct error *error);
MUST_CHECK enum status depot_publish(const struct depot_hold *hold, struct error *error);

/* Bytes of the files of a held snapshot. */
int64_t depot_bytes(const struct depot_hold *hold);

/* Removes directory `name` of `parent` with all that is in it. */
void depot_remove_tree(const char *parent, const char *name);

#endif
