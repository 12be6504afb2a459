/* standing.h: standing sweeps: each later checkpoint of their trajectory is measured without a request. */
#ifndef WATCH_STANDING_H
#define WATCH_STANDING_H

#include "postgres/connection.h"

#include <jansson.h>

struct roots;

/* What the looks of a watcher know. Start with {0}, end with
 * standing_looks_reset.
 *
 * A whole look reads every pair of a standing sweep and a checkpoint of its trajectory. The looks between two of them
 * read only checkpoints with numbers above `seen`, up to which the last whole look left nothing behind. Those miss a
 * checkpoint whose transaction committed late, or whose files became known later, until the next whole look. So whole
 * looks are as frequent as they are cheap: they take about a twentieth of the time.
 *
 * A checkpoint whose files cannot be read for a reason that may pass (a disk error, no descriptors) is left out for a
 * while. */
struct standing_looks {
    int64_t seen;
    double whole_at;    /* when the next whole look is due (clock_seconds) */
    json_t *later;      /* owned: ids of checkpoints that are left out until then; NULL: none */
    double later_until; /* clock_seconds */
};
void standing_looks_reset(struct standing_looks *looks);

/* Makes the runs of checkpoints that standing sweeps have not taken in yet, a bounded number at a time; *more tells
 * that there may be others. A checkpoint of which no runs can be made (no tokenizer, too few positions) is noted as
 * refused, with the reason; so is one with more runs than `queued_most`, which go in together. While the queue has no
 * space for a requester, `queued_most` as in run_new, the checkpoints of theirs stay for later and hold up nobody
 * else's; those that cannot be read at the moment stay for a while. Several servers may do this at once: each
 * checkpoint is taken in by one. STATUS_UNAVAILABLE, STATUS_NO_MEMORY: try again. */
MUST_CHECK enum status standing_extend(struct connection *connection, const struct roots *roots,
                                       const char *data_directory, int64_t queued_most, struct standing_looks *looks,
                                       bool *more, struct error *error);

#endif
