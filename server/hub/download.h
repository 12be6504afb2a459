/* download.h: brings files of a repository into a snapshot of the cache: ranges of several files at a time, each
 * request a range, going on where an earlier try stood; every file is checked against the hash that the hub announced
 * before it is put in place. Where the hub sends us is kept for the ranges of a file and asked for again when it has
 * expired. */
#ifndef HUB_DOWNLOAD_H
#define HUB_DOWNLOAD_H

#include "hub/hub.h"
#include "hub/hub_cache.h"
#include "hub/repository.h"

struct download_request {
    const struct hub *hub;
    const char *repo, *commit;
    const struct repository_file *files; /* what is to be there; what is in the cache already is not fetched */
    size_t count;
    const struct hub_cache *cache;
    const struct hub_cache_hold *hold; /* to make; begun */
    const struct monitor *monitor;
    int tries; /* without progress, for each file */
    double longest_wait;
};

/* Progress counts bytes of the files that are fetched. *bytes: how many came over the network. STATUS_CORRUPT (other
 * bytes than announced, twice), STATUS_INPUT_CHANGED (another commit answers), STATUS_NOT_FOUND, STATUS_FORBIDDEN,
 * STATUS_UNAVAILABLE (given up), STATUS_DISK_FULL, STATUS_IO, STATUS_NO_MEMORY; statuses of the monitor. What is there
 * of a file stays for the next try. */
MUST_CHECK enum status download_run(const struct download_request *request, int64_t *bytes, struct error *error);

#endif
