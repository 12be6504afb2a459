/* eviction.h: makes space in the cache. */
#ifndef HUB_EVICTION_H
#define HUB_EVICTION_H

#include "hub/hub_cache.h"

/* A snapshot that runs need: one that a running run reads is kept, one that a queued run will read is evicted last. */
struct eviction_need {
    char key[HUB_CACHE_KEY];
    bool running;
};

struct repository_file;

struct eviction_request {
    const struct hub_cache_hold *hold; /* of the snapshot that is being made, which is not evicted */
    const struct repository_file *files;
    size_t count; /* files that the snapshot lacks */
    const struct eviction_need *needs;
    size_t need_count;
    const struct monitor *monitor;
};

/* Reserves space for the files until the hold is released. Evicts until they, and what other fetches under way lack,
 * fit under the cache's bound and, with a tenth to spare, on the disk: first abandoned downloads, then snapshots that
 * no process holds, the least recently used first. STATUS_TOO_LARGE: more than the bound; STATUS_DISK_FULL: all that is
 * there would not be enough; STATUS_UNAVAILABLE: what is not in use is not, so it should be tried again when other runs
 * have ended (error->again_seconds). */
MUST_CHECK enum status eviction_make_space(const struct hub_cache *cache, const struct eviction_request *request,
                                           struct error *error);

/* The most bytes that could be fetched, if everything were evicted. */
MUST_CHECK enum status eviction_most(const struct hub_cache *cache, int64_t *out, struct error *error);
/* Refuses more bytes than that: STATUS_TOO_LARGE, STATUS_DISK_FULL. */
MUST_CHECK enum status eviction_check(const struct hub_cache *cache, int64_t bytes, struct error *error);

/* Bytes of all blobs, and of partial files as far as they are downloaded. */
MUST_CHECK enum status eviction_used(const struct hub_cache *cache, int64_t *out, struct error *error);

#endif
