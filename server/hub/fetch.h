/* fetch.h: brings a revision of a repository, or a directory of a bucket, onto this machine: it is found in the cache,
 * or fetched into it. */
#ifndef HUB_FETCH_H
#define HUB_FETCH_H

#include "base/plan.h"
#include "hub/eviction.h"
#include "hub/hub.h"
#include "hub/hub_cache.h"

struct fetch_request {
    const struct hub *hub;
    const char *repo;         /* of the hub; or a directory of a bucket, "s3://bucket/prefix" */
    const char *revision;     /* of the hub */
    const char *commit;       /* pinned commit; NULL: the present one of the revision or directory */
    const char *const *files; /* names of files; none: the files that a checkpoint needs (selection.h) */
    size_t file_count;
    const struct eviction_need *needs; /* what runs need, which eviction spares */
    size_t need_count;
    const struct monitor *monitor; /* progress in bytes */
};

struct fetch_result {
    char commit[NAMES_COMMIT];
    char key[HUB_CACHE_KEY]; /* of the snapshot */
    char path[4096];         /* the directory of the files; when files were named, the deepest directory that has all of
                              * them */
    int64_t bytes;           /* of the files */
    int64_t came;            /* bytes that came over the network */
    struct hub_cache_hold *hold; /* keeps the files from eviction; the caller's (hub_cache_release) */
};

/* Resolves, lists, makes space, downloads, checks, publishes: statuses of repository_commit, repository_files,
 * selection_make, eviction_make_space and download_run; of bucket_files.h. STATUS_INPUT_CHANGED: the directory is not
 * the pinned one any more. It waits for another process that fetches the same snapshot. */
MUST_CHECK enum status fetch_run(const struct fetch_request *request, struct fetch_result *out, struct error *error);

/* Finds the present commit of the revision or directory; nothing is fetched. The server gets little time, because a
 * request waits. Statuses of fetch_run; STATUS_TOO_MANY (hub_enter). */
MUST_CHECK enum status fetch_commit(const struct fetch_request *request, char out[NAMES_COMMIT], struct error *error);

/* Plans fetch_run from the hub's list of files and the cache. It makes nothing, holds nothing, waits for nothing, and
 * gives the hub less time to answer. *available: the bytes of disk that the download may take (eviction_most). Statuses
 * of repository_commit, repository_files, selection_make and, with *out filled, eviction_check; STATUS_TOO_MANY
 * (hub_enter). */
MUST_CHECK enum status fetch_plan(const struct fetch_request *request, int64_t *available, struct run_plan *out,
                                  struct error *error);

/* Finds a snapshot in the cache without the network; out->hold is NULL when it is not there. It needs
 * `request`->commit, uses no monitor and does not wait. */
MUST_CHECK enum status fetch_find(const char *directory, const struct fetch_request *request, struct fetch_result *out,
                                  struct error *error);

#endif
