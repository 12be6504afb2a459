/* prune.h: finds and removes what an archive (postgres/archive.h) no longer needs: base copies older than the oldest
 * one that is kept, segments of the log older than the first one which that copy needs, and the remains of copies and
 * removals that were killed. */
#ifndef BACKUP_PRUNE_H
#define BACKUP_PRUNE_H

#include "backup/base_list.h"
#include "postgres/archive_segments.h"

#include <time.h>

/* What is kept: enough for both members. 0: not set; one of them is set. */
struct prune_rule {
    int64_t copies; /* the newest undamaged copies */
    int64_t days;   /* every moment of that many last days */
};

struct prune_found {
    bool enough;           /* there are as many copies, and as old ones, as the rule asks for; otherwise none is
                            * removed */
    char since[BASE_TIME]; /* a recovery can reach any moment from then on; "": no copy is undamaged */
    int stay, go;          /* numbers of copies that are kept and removed */
    int64_t bytes;         /* of the removed copies */
    int unfinished;        /* unfinished copies, which are removed too */
    struct archive_amount segments; /* removed files */
    int damaged;                    /* copies that were read and are damaged: they do not count for the rule */
    char fault[300];                /* of the newest damaged copy */
};

/* Reads every copy that the rule counts, and with `remove` removes the rest, in an order that leaves an intact archive
 * whenever it is killed. `now`: the time of this machine. STATUS_CONFLICT: a restore from the archive, or a copy into
 * it, is running; STATUS_CORRUPT: a segment is missing that a kept copy needs, and nothing is removed; statuses of
 * archive_read; STATUS_IO and other errors name the file that cannot be removed. */
MUST_CHECK enum status prune_run(const char *archive, const struct prune_rule *rule, time_t now, bool remove,
                                 struct prune_found *out, struct error *error);

#endif
