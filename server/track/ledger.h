/* ledger.h: what a tracker was given and what it was not, on disk (SQLite, every commit synced), so that a point
 * reaches it once whatever is killed when. One ledger a destination, one process a ledger.
 *
 * A point is a number of one checkpoint in one stream (a trajectory × series). Its state: PENDING, then DOUBTFUL from
 * before it is sent until the answer was seen, then SENT. Doubtful points that are found at a start were sent or were
 * not; the exporter looks which (exporter.h). A number that has changed is pending again. */
#ifndef TRACK_LEDGER_H
#define TRACK_LEDGER_H

#include "base/error.h"

#include <jansson.h>
#include <stdint.h>

struct ledger;

enum ledger_state { LEDGER_PENDING, LEDGER_DOUBTFUL, LEDGER_SENT };
enum { LEDGER_NAME = 256, LEDGER_CURSOR = 40, LEDGER_METRIC = 100, LEDGER_ID = 64 };

struct ledger_stream {
    int64_t id;
    char trajectory_id[LEDGER_ID], series[LEDGER_NAME];
    char trajectory[LEDGER_NAME]; /* its name when it was first seen; unique, never changes */
    /* The series' label when it was first seen, or its beginning; unique in its trajectory, never changes. */
    char name[LEDGER_NAME];
    /* Where the exporter keeps it: the exporter's own words, which it changes in write and reconcile. */
    char place[LEDGER_NAME];
    int64_t length;
};

struct ledger_point {
    int64_t id, step, time_ms; /* time: when it was measured */
    double value;
    char metric[LEDGER_METRIC], checkpoint[LEDGER_ID], checkpoint_name[LEDGER_NAME];
};

struct ledger_batch {
    struct ledger_point *points; /* owned (ledger_batch_reset); by step, checkpoint and metric */
    int64_t count, capacity;
};

/* Opens or makes the ledger of `about` ("mlflow http://…"). `shared`: all streams are kept in one place, whose length
 * is that of each. STATUS_CONFLICT: it is another destination's, or another process uses it; STATUS_CORRUPT: not a
 * ledger. The caller owns *out. */
MUST_CHECK enum status ledger_open(const char *path, const char *about, bool shared, struct ledger **out,
                                   struct error *error);
void ledger_close(struct ledger *ledger);

/* What the server's changes were read up to; "0" in a new one. */
MUST_CHECK enum status ledger_cursor(struct ledger *ledger, char out[LEDGER_CURSOR], struct error *error);

/* Takes rows of GET /v1/measurements (an array), all or none, and with them the cursor that they reach (NULL: there is
 * more of them to come). *left_out counts those without a step, which no tracker can place. */
MUST_CHECK enum status ledger_take(struct ledger *ledger, const json_t *rows, const char *cursor, int64_t *left_out,
                                   struct error *error);

/* A stream with points in that state; *found false: none. */
MUST_CHECK enum status ledger_next(struct ledger *ledger, enum ledger_state state, struct ledger_stream *out,
                                   bool *found, struct error *error);

/* At most `most` points of the stream in that state; 0: all. */
MUST_CHECK enum status ledger_points(struct ledger *ledger, const struct ledger_stream *stream, enum ledger_state state,
                                     int64_t most, struct ledger_batch *out, struct error *error);
/* All points of the stream, whatever their state. */
MUST_CHECK enum status ledger_all(struct ledger *ledger, const struct ledger_stream *stream, struct ledger_batch *out,
                                  struct error *error);
void ledger_batch_reset(struct ledger_batch *batch);

/* Whether a pending point does not come after all that was sent of its metric: it has an earlier step, or is a number
 * that has changed. */
MUST_CHECK enum status ledger_late(struct ledger *ledger, const struct ledger_stream *stream, bool *late,
                                   struct error *error);

/* Sets the points' state, and in the same transaction the stream's place. `points` with `chosen` false are left; NULL:
 * all. */
MUST_CHECK enum status ledger_mark(struct ledger *ledger, const struct ledger_batch *batch, const bool *chosen,
                                   enum ledger_state state, const struct ledger_stream *stream, struct error *error);

#endif
