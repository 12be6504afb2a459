/* cluster_lock.h: who has the cluster. flock tells processes of one kernel apart, also in different containers; the
 * text in the file (host, boot id, pid, nonce) tells hosts apart, where a shared volume has no working flock. A clean
 * stop empties the file. */
#ifndef POSTGRES_CLUSTER_LOCK_H
#define POSTGRES_CLUSTER_LOCK_H

#include "base/error.h"

/* Takes the lock `name` in `directory`; *fd is the caller's (cluster_lock_drop). STATUS_CONFLICT names the holder. */
MUST_CHECK enum status cluster_lock_take(int directory, const char *name, int *fd, struct error *error);
void cluster_lock_drop(int fd); /* -1 is fine */

#endif
