/* artifact_file.h: opens a published artifact: from the data directory if the file is there, else from the bucket in
 * which workers on other machines leave theirs. */
#ifndef KINDS_ARTIFACT_FILE_H
#define KINDS_ARTIFACT_FILE_H

#include "kinds/artifact_store.h"

struct hub;

struct artifact_place { /* lent */
    const char *data_directory;
    const struct artifact_store *store; /* NULL: all artifacts are in the data directory */
    const struct hub *visited;     /* for handlers, which are counted while they wait (hub_enter); NULL for a worker */
    const struct monitor *monitor; /* may stop a transfer from the bucket; NULL: nothing does */
};

/* Whether the data directory has the file, so that no transfer from the bucket is needed. */
bool artifact_file_here(const struct artifact_place *place, const char *sha256);

/* Opens an artifact. `sha256` is the file's name as it was published, so no text of a request gets into the path. The
 * caller owns *fd, which is at its beginning. STATUS_CORRUPT (the size or the bytes differ), STATUS_NOT_FOUND,
 * STATUS_IO; statuses of artifact_store_get and hub_enter. */
MUST_CHECK enum status artifact_file_open(const struct artifact_place *place, const char *sha256, int64_t bytes,
                                          int *fd, struct error *error);

#endif
