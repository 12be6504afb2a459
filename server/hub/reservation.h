/* reservation.h: the space of the cache that fetches under way will still take. Whoever makes a snapshot writes the
 * files that it lacks into the lock of that snapshot, which it holds alone. A reservation is worth something only while
 * the lock is held, so a process that is killed leaves none. Where a file system has no locks, only one's own
 * counts. */
#ifndef HUB_RESERVATION_H
#define HUB_RESERVATION_H

#include "hub/hub_cache.h"

struct repository_file;

/* The bytes of the files that the cache lacks. Each blob counts once, and a partial file as far as it is missing. */
MUST_CHECK enum status reservation_missing(const struct hub_cache *cache, const struct repository_file *files,
                                           size_t count, int64_t *bytes, struct error *error);

/* Reserves the space of these files until `hold`, which is one to make, is released. */
MUST_CHECK enum status reservation_write(const struct hub_cache_hold *hold, const struct repository_file *files,
                                         size_t count, struct error *error);

/* The bytes that all fetches under way still lack, that of `hold` among them; a blob that several fetch counts once. */
MUST_CHECK enum status reservation_bytes(const struct hub_cache *cache, const struct hub_cache_hold *hold,
                                         int64_t *bytes, struct error *error);

#endif
