/* download.h: downloads files of a repository or a bucket into a snapshot of the cache. Each request is for one byte
 * range, and ranges of several files are requested at a time; a download goes on where an earlier try ended. A file is
 * put in place only after its hash is what was announced. The address that the hub redirects to is kept for all ranges
 * of a file and requested again when it has expired. */
#ifndef HUB_DOWNLOAD_H
#define HUB_DOWNLOAD_H

#include "hub/hub_cache.h"
#include "hub/source.h"

struct download_request {
    const struct source *source;
    const struct repository_file *files; /* the wanted files; those that are in the cache are not fetched */
    size_t count;
    const struct hub_cache *cache;
    const struct hub_cache_hold *hold; /* the snapshot to make, begun */
    const struct monitor *monitor;
    int tries; /* the most tries without progress, for each file */
    double longest_wait;
};

/* Progress counts the bytes of the fetched files. *bytes: those that came over the network. STATUS_CORRUPT (other bytes
 * than announced, twice), STATUS_INPUT_CHANGED (another commit or object answers), STATUS_NOT_FOUND, STATUS_FORBIDDEN,
 * STATUS_UNAVAILABLE (given up), STATUS_DISK_FULL, STATUS_IO, STATUS_NO_MEMORY; statuses of the monitor. The bytes of
 * an unfinished file stay for the next try. */
MUST_CHECK enum status download_run(const struct download_request *request, int64_t *bytes, struct error *error);

#endif
