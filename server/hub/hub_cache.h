/* hub_cache.h: the files that have been fetched, below $DATA/hub, bounded in size.
 *
 *   blobs/OID             a file by its content ("sha256-…", "git-…"), whichever revisions have it; read-only
 *   snapshots/KEY/…       the files of one revision under their names, as hard links to blobs; complete, or absent
 *   snapshots/.KEY/…      a snapshot that is being made; its links keep its blobs from being evicted
 *   partial/OID, .ranges  a file that is being downloaded, and which parts of it are there (ranges.h)
 *   locks/KEY             readers of a snapshot lock it shared, who makes or evicts the snapshot locks it alone; each
 *                         use touches it; what its maker has reserved (reservation.h)
 *   locks/space           who makes space, and reserves it, locks it alone
 *
 * So the links of a blob count its users, a crash leaves no partial file that is taken for a whole one, and a killed
 * process keeps no lock. Locks are flock(2): where a network file system does not honour them between machines, only
 * the caller's list of needs protects what running runs read. */
#ifndef HUB_HUB_CACHE_H
#define HUB_HUB_CACHE_H

#include "base/monitor.h"
#include "hub/names.h"

#include <stdint.h>

enum { HUB_CACHE_KEY = 41 };

struct hub_cache_hold;

/* For the files of this room. */
struct hub_cache {
    char *directory;                      /* owned */
    int blobs, snapshots, partial, locks; /* descriptors */
    int64_t most;
};

/* The key of the snapshot of these files of a commit, whatever the order of their names; no files: those that a
 * checkpoint needs. */
MUST_CHECK enum status hub_cache_key(const char *repo, const char *commit, const char *const *files, size_t count,
                                     char out[HUB_CACHE_KEY], struct error *error);

/* Opens (and makes) the cache in `directory`, which may hold `most` bytes. The caller owns *out (hub_cache_close). */
MUST_CHECK enum status hub_cache_open(const char *directory, int64_t most, struct hub_cache **out, struct error *error);
void hub_cache_close(struct hub_cache *cache); /* NULL is fine */

/* Holds snapshot `key` for reading. *out is NULL when the snapshot is not in the cache. With `monitor` it waits while
 * the snapshot is being made. The caller owns *out (hub_cache_release), which may outlive the cache. */
MUST_CHECK enum status hub_cache_take(const struct hub_cache *cache, const char *key, const struct monitor *monitor,
                                      struct hub_cache_hold **out, struct error *error);
/* Whether the cache in `directory` has snapshot `key`. This does not count as a use and does not hold it. */
bool hub_cache_there(const char *directory, const char *key);
/* Holds snapshot `key` exclusively, to make it; without `monitor` it does not wait. *out is NULL when the snapshot has
 * appeared meanwhile, or when another process holds it and there is no monitor. */
MUST_CHECK enum status hub_cache_take_to_make(const struct hub_cache *cache, const char *key,
                                              const struct monitor *monitor, struct hub_cache_hold **out,
                                              struct error *error);
void hub_cache_release(struct hub_cache_hold *hold);           /* NULL is fine */
const char *hub_cache_path(const struct hub_cache_hold *hold); /* of the snapshot; lent */

/* For the files of this room: the key of a held snapshot, and the descriptor of its lock; both lent. */
const char *hub_cache_key_of(const struct hub_cache_hold *hold);
int hub_cache_lock_of(const struct hub_cache_hold *hold);
/* Waits for the lock under which space is made and reserved; closing *fd gives it back. Statuses of the monitor. */
MUST_CHECK enum status hub_cache_lock_space(const struct hub_cache *cache, const struct monitor *monitor, int *fd,
                                            struct error *error);

/* Making a snapshot, under a hold to make. hub_cache_begin clears what an earlier try left. hub_cache_link links blob
 * `oid` of `bytes` bytes into the snapshot as `name` if the blob is there: *found. hub_cache_adopt makes the finished
 * file partial/OID a blob; it links it into the snapshot as `name` first, so that the blob is never without a user.
 * hub_cache_publish makes the snapshot appear; to read it, take it. */
MUST_CHECK enum status hub_cache_begin(const struct hub_cache_hold *hold, struct error *error);
MUST_CHECK enum status hub_cache_link(const struct hub_cache_hold *hold, const char *oid, int64_t bytes,
                                      const char *name, bool *found, struct error *error);
/* Whether the blob is there, as for hub_cache_link. */
MUST_CHECK enum status hub_cache_has(const struct hub_cache *cache, const char *oid, int64_t bytes, bool *found,
                                     struct error *error);
MUST_CHECK enum status hub_cache_adopt(const struct hub_cache_hold *hold, const struct hub_cache *cache,
                                       const char *oid, const char *name, struct error *error);
MUST_CHECK enum status hub_cache_publish(const struct hub_cache_hold *hold, struct error *error);

/* Bytes of the files of a held snapshot. */
int64_t hub_cache_bytes(const struct hub_cache_hold *hold);

#endif
