/* prune.h: what an archive (postgres/archive.h) no longer needs, found and removed: the copies of the database that are
 * older than the oldest one that stays, the segments of the log that are older than the first one which that copy
 * needs, and what a copy or a removal that was killed left. */
#ifndef BACKUP_PRUNE_H
#define BACKUP_PRUNE_H

#include "backup/base_list.h"
#include "postgres/archive_segments.h"

#include <time.h>

/* What stays: as much as either of them needs. 0: not asked for; one of them is. */
struct prune_rule {
    int64_t copies; /* the newest ones that are whole */
    int64_t days;   /* every moment of the last days */
};

struct prune_found {
    bool enough;           /* there are as many copies, and as old ones, as the rule asks for; else none goes */
    char since[BASE_TIME]; /* any moment from then on can be had afterwards; "": none is whole */
    int stay, go;          /* copies */
    int64_t bytes;         /* of those that go */
    int unfinished;        /* what was not finished, which goes too */
    struct archive_amount segments; /* files that go */
    int damaged;                    /* copies that were read and are damaged: they do not count for the rule */
    char fault[300];                /* of the newest of these */
};

/* Reads every copy that the rule counts, and with `remove` removes what goes, in an order in which whatever is killed
 * meanwhile leaves an archive that is whole. `now`: the time of this machine. STATUS_CONFLICT: a restore from it, or a
 * copy into it, goes on; STATUS_CORRUPT: it lacks a segment that what stays needs, and nothing is removed; statuses of
 * archive_read; STATUS_IO and the like name what cannot be removed. */
MUST_CHECK enum status prune_run(const char *archive, const struct prune_rule *rule, time_t now, bool remove,
                                 struct prune_found *out, struct error *error);

#endif
