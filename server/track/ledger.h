/* ledger.h: records on disk which points a tracker has been given (SQLite, every commit synced), so that each point
 * reaches it once, whatever process is killed at whatever time. One ledger for each destination, one process for each
 * ledger. A point is a number of one checkpoint in one stream (a trajectory × series). Its state is PENDING, then
 * DOUBTFUL from before it is sent until its answer was read, then SENT. Points that are DOUBTFUL at a start may or may
 * not have been sent; the exporter finds out (exporter.h). A number that changes becomes PENDING again. */
#ifndef TRACK_LEDGER_H
#define TRACK_LEDGER_H

#include "base/error.h"

#include <jansson.h>
#include <stdint.h>

struct ledger;

enum ledger_state { LEDGER_PENDING, LEDGER_DOUBTFUL, LEDGER_SENT };
enum { LEDGER_NAME = 256, LEDGER_CURSOR = 40, LEDGER_METRIC = 100, LEDGER_ID = 64 };
/* A checkpoint that was found by a scan is called by its path: at most 200 characters of four bytes. */
enum { LEDGER_CHECKPOINT = 4 * 200 + 1 };

struct ledger_stream {
    int64_t id;
    char trajectory_id[LEDGER_ID], series[LEDGER_NAME];
    char trajectory[LEDGER_NAME]; /* its name when it was first seen; unique, never changes */
    /* The series' label when it was first seen, or its beginning; unique in its trajectory, never changes. */
    char name[LEDGER_NAME];
    /* Where the exporter stores the stream, in the exporter's own format; write and reconcile may change it. */
    char place[LEDGER_NAME];
    int64_t length;
};

struct ledger_point {
    int64_t id, step, time_ms; /* time: when it was measured */
    double value;
    char metric[LEDGER_METRIC], checkpoint[LEDGER_ID], checkpoint_name[LEDGER_CHECKPOINT];
};

struct ledger_batch {
    struct ledger_point *points; /* owned (ledger_batch_reset); by step, checkpoint and metric */
    int64_t count, capacity;
};

/* Whose a ledger is. */
struct ledger_owner {
    const char *place;          /* "mlflow http://…" */
    const char *of;             /* which trajectories, by the names that were given */
    const json_t *trajectories; /* their ids, by which the ledger knows them under other names; of all: empty */
    bool shared;                /* all streams are stored in one place, and have its length */
};

/* Opens or makes a ledger. STATUS_CONFLICT: it belongs to another destination or to other trajectories, or another
 * process uses it; STATUS_CORRUPT: it is no ledger. The caller owns *out. */
MUST_CHECK enum status ledger_open(const char *path, const struct ledger_owner *owner, struct ledger **out,
                                   struct error *error);
void ledger_close(struct ledger *ledger);

/* The change up to which the server's changes were read; "0" in a new ledger. */
MUST_CHECK enum status ledger_cursor(struct ledger *ledger, char out[LEDGER_CURSOR], struct error *error);

/* Sets that cursor to "0"; the points stay what they are. */
MUST_CHECK enum status ledger_read_again(struct ledger *ledger, struct error *error);

/* Stores rows of GET /v1/measurements (an array), all or none, together with the cursor that they reach (NULL: more
 * rows follow). *left_out: the number of rows without a step, which no tracker can place. */
MUST_CHECK enum status ledger_take(struct ledger *ledger, const json_t *rows, const char *cursor, int64_t *left_out,
                                   struct error *error);

/* Finds a stream that has points in that state; *found is false when there is none. */
MUST_CHECK enum status ledger_next(struct ledger *ledger, enum ledger_state state, struct ledger_stream *out,
                                   bool *found, struct error *error);

/* At most `most` points of the stream that have the state; 0: all of them. */
MUST_CHECK enum status ledger_points(struct ledger *ledger, const struct ledger_stream *stream, enum ledger_state state,
                                     int64_t most, struct ledger_batch *out, struct error *error);
/* All points of the stream, whatever their state. */
MUST_CHECK enum status ledger_all(struct ledger *ledger, const struct ledger_stream *stream, struct ledger_batch *out,
                                  struct error *error);
void ledger_batch_reset(struct ledger_batch *batch);

/* Whether a pending point would come before points of its metric that were sent: its step is earlier, or it is a number
 * that has changed. */
MUST_CHECK enum status ledger_late(struct ledger *ledger, const struct ledger_stream *stream, bool *late,
                                   struct error *error);

/* Sets the points' state and, in the same transaction, the stream's place. Points with `chosen` false are left
 * unchanged; NULL: all are set. */
MUST_CHECK enum status ledger_mark(struct ledger *ledger, const struct ledger_batch *batch, const bool *chosen,
                                   enum ledger_state state, const struct ledger_stream *stream, struct error *error);

#endif
