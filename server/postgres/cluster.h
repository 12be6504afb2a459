/* cluster.h: directories, ids, creation and start of the embedded cluster. See embedded.h for the layout.
 *
 * PostgreSQL is given its data directory as a descriptor (/proc/self/fd/10) and its socket directory as "../socket". So
 * it needs no search permission above $DATA/pg, and root may keep $DATA below a directory of mode 0700 (its home, by
 * default) without opening that to anybody. The length of the path does not matter either. */
#ifndef POSTGRES_CLUSTER_H
#define POSTGRES_CLUSTER_H

#include "base/error.h"
#include "postgres/archive.h"

#include <stdint.h>
#include <sys/types.h>

struct recovery;

struct cluster {
    char binaries[512];
    char socket_directory[108]; /* for clients; short enough */
    uid_t uid;
    gid_t gid;
    int home, data; /* descriptors of $DATA/pg and $DATA/pg/data; -1: not open */
    int log;        /* descriptor of postgres.log; its size when PostgreSQL was started: */
    int64_t log_start;
    struct archive archive;          /* that it archives into, or that it is recovered from */
    const struct recovery *recovery; /* lent; NULL: a normal start */
};

/* Refuses network file systems by the magic number of statfs. STATUS_UNSUPPORTED. */
MUST_CHECK enum status cluster_check_filesystem(int64_t magic, struct error *error);

/* Opens (and makes) $DATA/pg and its socket directory, chooses ids and binaries, opens the log. The caller resets
 * *cluster, also after a failure. */
MUST_CHECK enum status cluster_open(const char *data_directory, const char *binaries, struct cluster *cluster,
                                    struct error *error);

/* Opens $DATA/pg/data, and creates it first if it is absent: as a new cluster, or for `recovery` (lent; NULL: none)
 * from its base copy; opens the archive (`archive`: as archive_open's `wanted`). The caller holds the lock.
 * STATUS_UNSUPPORTED for another major version; STATUS_CONFLICT: a recovery would overwrite a database; statuses of
 * archive_open. */
MUST_CHECK enum status cluster_ensure(struct cluster *cluster, const char *data_directory, const char *archive,
                                      const struct recovery *recovery, struct error *error);

/* Starts `postgres` in the foreground. */
MUST_CHECK enum status cluster_start(struct cluster *cluster, pid_t *pid, struct error *error);

/* Fills *error with the reason why PostgreSQL ended, from the last FATAL or PANIC in the log since cluster_start, and
 * returns its status. */
enum status cluster_diagnose(const struct cluster *cluster, struct error *error);

/* Keeps postgres.log below about 8 MiB: a longer log becomes postgres.log.1, which replaces the one before. PostgreSQL
 * keeps writing to the same file, which is emptied; a line that it writes at that moment may be lost. */
void cluster_rotate_log(struct cluster *cluster);

void cluster_reset(struct cluster *cluster);

#endif
