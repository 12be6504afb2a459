/* eviction.h: makes room in the cache. */
#ifndef HUB_EVICTION_H
#define HUB_EVICTION_H

#include "hub/hub_cache.h"

/* What runs need: a snapshot that a running one reads stays, one that a queued one will read goes last. */
struct eviction_need {
    char key[HUB_CACHE_KEY];
    bool running;
};

/* Evicts until `bytes` more fit under the cache's bound and, with a tenth to spare, on the disk: first what is left of
 * downloads that nobody goes on with, then snapshots that nobody holds, the least recently used first.
 * STATUS_TOO_LARGE: more than the bound; STATUS_DISK_FULL: what may go is not enough. */
MUST_CHECK enum status eviction_make_room(const struct hub_cache *cache, int64_t bytes,
                                          const struct eviction_need *needs, size_t need_count,
                                          const struct monitor *monitor, struct error *error);

/* The most bytes that room could be made for: if everything went that is there. */
MUST_CHECK enum status eviction_most(const struct hub_cache *cache, int64_t *out, struct error *error);
/* The refusal of more than that: STATUS_TOO_LARGE, STATUS_DISK_FULL. */
MUST_CHECK enum status eviction_check(const struct hub_cache *cache, int64_t bytes, struct error *error);

/* Bytes of all blobs and of what is there of partial files. */
MUST_CHECK enum status eviction_used(const struct hub_cache *cache, int64_t *out, struct error *error);

#endif
