/* cluster_lock.h: the lock on the cluster. flock excludes other processes of the same kernel, also in other containers.
 * The text in the file (host, boot id, pid, nonce) excludes other hosts on a shared volume without a working flock. A
 * clean stop empties the file. The lock of a process of this machine that has ended is waited for, some seconds. */
#ifndef POSTGRES_CLUSTER_LOCK_H
#define POSTGRES_CLUSTER_LOCK_H

#include "base/error.h"

/* Takes the lock `name` in `directory`; *fd is the caller's (cluster_lock_drop). STATUS_CONFLICT: a process of this
 * kernel holds it; STATUS_FORBIDDEN: another host has it. Both name the holder. */
MUST_CHECK enum status cluster_lock_take(int directory, const char *name, int *fd, struct error *error);
void cluster_lock_drop(int fd); /* -1 is fine */

#endif
