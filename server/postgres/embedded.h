/* embedded.h: a private PostgreSQL cluster in $DATA/pg, run as a child of this process on a unix socket.
 *
 *   $DATA/pg/lock       ours: flock + host, boot id, pid, nonce; held while the cluster is ours
 *   $DATA/pg/data       PGDATA, made under another name and renamed when complete; never deleted, never made again
 *   $DATA/pg/socket     mode 0700
 *   $DATA/pg/archive    where its log is archived, see archive.h
 *   $DATA/pg/postgres.log (and .1, the one before), $DATA/pg/ballast (64 MiB, given back to a full disk)
 *
 * All calls but embedded_state come from the *main thread*: the parent-death signal of the child follows the thread
 * that made it. */
#ifndef POSTGRES_EMBEDDED_H
#define POSTGRES_EMBEDDED_H

#include "base/error.h"

#include <stdint.h>
#include <sys/types.h>

struct embedded;
struct recovery;

struct embedded_options {
    const char *data_directory; /* must exist; "pg" is made in it */
    const char *binaries;       /* directory of `postgres` and `initdb`; NULL: the newest /usr/lib/postgresql/N/bin */
    int64_t ballast_bytes;      /* -1: 64 MiB */
    const char *archive;        /* as archive_open's `wanted`: NULL: as the data directory's record says */
    const struct recovery *recovery; /* how to make a missing database; NULL: as a new one. Lent until the start */
};

/* Takes the lock, makes the cluster if there is none, clears what a crash left, starts PostgreSQL and waits until it
 * answers. Works as root (PostgreSQL then runs as the owner of $DATA/pg, else of $DATA, else `postgres`, else
 * `nobody`). STATUS_CONFLICT: another deltaq has the directory (the detail names it), and embedded_attach may find its
 * cluster; STATUS_FORBIDDEN: one of another host has it, or it is a copy (archive_open); STATUS_UNSUPPORTED: network
 * file system, another major version (the detail says what to do); STATUS_NOT_FOUND: no PostgreSQL server installed;
 * STATUS_DISK_FULL, STATUS_CORRUPT, STATUS_UNAVAILABLE: it does not start, and why; statuses of archive_open. A
 * recovery takes as long as it does. */
MUST_CHECK enum status embedded_start(const struct embedded_options *options, struct embedded **out,
                                      struct error *error);

/* The connection string of the cluster in `data_directory` while another process of this machine runs it. */
MUST_CHECK enum status embedded_attach(const char *data_directory, char *conninfo, size_t size, struct error *error);

/* The connection string; lent until embedded_stop. It contains no secret. */
const char *embedded_conninfo(const struct embedded *embedded);

/* Call it on every SIGCHLD and at least once a second. Restarts PostgreSQL when it has died (backoff 0.2 to 10 s; after
 * 5 fast failures it is `degraded` and tried every 10 s), and releases and remakes the ballast. Does not block for
 * long. */
void embedded_tick(struct embedded *embedded);

/* STATUS_OK, or the reason why the database is unavailable (STATUS_DISK_FULL, STATUS_UNAVAILABLE, ...). Any thread. */
enum status embedded_state(struct embedded *embedded, struct error *error);

pid_t embedded_pid(const struct embedded *embedded); /* of the postmaster; 0 while it is down */

/* SIGINT, after 8 s SIGQUIT, after 4 s SIGKILL; gives the lock back and frees. NULL is fine. */
void embedded_stop(struct embedded *embedded);

#endif
