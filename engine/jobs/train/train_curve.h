/* train_curve.h: the training curve of a run, from its first update to its last: in memory while it goes on, in the
 * state that it resumes from (train/state.h), and as a file.
 *
 * The file is CSV (RFC 4180, except that lines end in LF), and equal for equal requests, however often the run was
 * interrupted:
 *   step            the update, counted from the trunk's beginning like all that follow; a branch begins behind the
 *                   step that it continues from
 *   tokens          seen after the update
 *   learning_rate   of the update
 *   loss            of the update's batch before it, nats
 *   gradient_norm   of all gradients together, before they are clipped
 * Numbers are as in eval/losses_table.h. A run of at most TRAIN_CURVE_ROWS steps has a row for each; a longer one only
 * for every k-th step and for the last, k = ceil(steps / TRAIN_CURVE_ROWS), of all steps, those before a branch
 * included. */
#ifndef TRAIN_TRAIN_CURVE_H
#define TRAIN_TRAIN_CURVE_H

#include "base/buffer.h"
#include "jobs/train/train.h"
#include "train/trainer.h"

enum { TRAIN_CURVE_ROWS = 100000 };

struct train_curve {
    struct state_point *points; /* [capacity], owned */
    int64_t count, capacity;
    int64_t every, total; /* steps */
};

/* An empty curve of a run whose last step is `total`. The caller owns *curve (train_curve_reset). STATUS_NO_MEMORY. */
MUST_CHECK enum status train_curve_init(struct train_curve *curve, int64_t total, struct error *error);
void train_curve_reset(struct train_curve *curve); /* {0} is fine */

/* Bytes that train_curve_init takes; and of files: the part of a saved state, and about those of the file. */
int64_t train_curve_bytes(int64_t total);
int64_t train_curve_disk_bytes(int64_t total);

/* Continues with what an earlier attempt at the run saved. STATUS_INPUT_CHANGED: it is of a longer run. */
MUST_CHECK enum status train_curve_continue(struct train_curve *curve, const struct state_point *points, int64_t count,
                                            struct error *error);

/* Notes the update that `trainer` has just made, if it is one of those with a row. */
void train_curve_note(struct train_curve *curve, const struct trainer *trainer);

/* Appends the line with the names of the columns, and rows of the file. STATUS_NO_MEMORY. */
void train_curve_head(struct buffer *text);
MUST_CHECK enum status train_curve_rows(struct buffer *text, const struct train_params *params,
                                        const struct state_point *points, int64_t count, struct error *error);

#endif
