/* standing.h: standing sweeps: each later checkpoint of their trajectory is measured without a request. */
#ifndef WATCH_STANDING_H
#define WATCH_STANDING_H

#include "postgres/connection.h"

struct roots;

/* Makes the runs of checkpoints that standing sweeps have not taken in yet, a bounded number at a time; *more tells
 * that there may be others. A checkpoint of which no runs can be made (no tokenizer, too few positions) is noted as
 * refused, with the reason; so is one with more runs than `queued_most`, which go in together. While the queue has no
 * space for a requester, `queued_most` as in run_new, the checkpoints of theirs stay for later and hold up nobody
 * else's. Several servers may do this at once: each checkpoint is taken in by one. STATUS_UNAVAILABLE,
 * STATUS_NO_MEMORY: try again. */
MUST_CHECK enum status standing_extend(struct connection *connection, const struct roots *roots,
                                       const char *data_directory, int64_t queued_most, bool *more,
                                       struct error *error);

#endif
