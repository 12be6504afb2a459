/* unused_artifacts.h: removes artifacts that no run refers to, and temporary ones that were never published, a part of
 * the directory at a time: there may be millions, and the worker that removes them has signals and runs to heed. One
 * thread at a time; several processes may do it at once. */
#ifndef POOL_UNUSED_ARTIFACTS_H
#define POOL_UNUSED_ARTIFACTS_H

#include "postgres/connection.h"

#include <stdbool.h>

enum { UNUSED_ARTIFACTS_PART = 1000 }; /* the most files of a part */

struct unused_artifacts;

/* Begins with the first file of $DATA/artifacts. `keep`: published files stay, because an archive's earlier moments may
 * name them. The caller owns *out (unused_artifacts_free), which is NULL where no artifact was ever made. STATUS_IO,
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status unused_artifacts_new(const char *data_directory, bool keep, struct unused_artifacts **out,
                                            struct error *error);
void unused_artifacts_free(struct unused_artifacts *unused); /* NULL is fine */

/* Looks at the next part and removes what is unused of it and older than 24 hours. One statement tells which files are
 * recorded; when it fails, the part's published files stay, and its status is returned. *done: there are no more files,
 * or a backup is made (backup_lock.h) and published files stay.
 * *removed grows by the number of files. Statuses of the connection, STATUS_NO_MEMORY. */
MUST_CHECK enum status unused_artifacts_remove(struct unused_artifacts *unused, struct connection *connection,
                                               bool *done, int *removed, struct error *error);

#endif
