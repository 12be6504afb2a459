/* artifact_file.h: the bytes of a published artifact, wherever the worker that made it runs: from the data directory,
 * or else from the bucket where workers on other machines leave theirs. */
#ifndef KINDS_ARTIFACT_FILE_H
#define KINDS_ARTIFACT_FILE_H

#include "kinds/artifact_store.h"

struct hub;

struct artifact_place { /* lent */
    const char *data_directory;
    const struct artifact_store *store; /* NULL: artifacts lie in the data directory alone */
    const struct hub *visited;     /* for handlers, which are counted while they wait (hub_enter); NULL: a worker */
    const struct monitor *monitor; /* may stop what comes from the bucket; NULL: nobody does */
};

/* Whether the data directory has the file, so that nothing has to come from the bucket. */
bool artifact_file_here(const struct artifact_place *place, const char *sha256);

/* `sha256`: the file's name, as it was published, so nothing of a request is in the path. *fd, at its beginning, is the
 * caller's. STATUS_CORRUPT (another size, other bytes), STATUS_NOT_FOUND, STATUS_IO; statuses of artifact_store_get and
 * hub_enter. */
MUST_CHECK enum status artifact_file_open(const struct artifact_place *place, const char *sha256, int64_t bytes,
                                          int *fd, struct error *error);

#endif
