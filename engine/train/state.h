/* state.h: everything that a training run needs to continue, in one file: a header, the run's progress, its checkpoints
 * and its curve so far, parameters, optimizer state and average as float32, and a checksum over all of it. Replaced as
 * a whole: a reader finds the old state or the new one. */
#ifndef TRAIN_STATE_H
#define TRAIN_STATE_H

#include "train/ema.h"
#include "train/optimizer.h"

/* A checkpoint that a run has written. Losses are NAN when not measured. */
struct state_checkpoint {
    int64_t step, tokens;
    double learning_rate, train_loss, validation_loss;
    int64_t averaged; /* 1: of the moving average at that step, else 0 */
};

/* An update, and what was found before it was made. */
struct state_point {
    int64_t step; /* from 1 */
    double loss;  /* of its batch, nats */
    double gradient_norm;
};

struct state {
    int64_t step;         /* updates done */
    uint64_t fingerprint; /* of everything that decides the run: states of other runs are refused */
    int64_t batch_sequences, sequence_length;
    double train_loss;                    /* of the last update */
    struct state_checkpoint *checkpoints; /* owned by whoever holds the struct (state_reset) */
    int64_t checkpoint_count;
    /* The average in the file, as state_read found it, whether or not it was requested; updates 0: there was none. */
    int64_t ema_updates;
    double ema_decay;
    struct state_point *curve; /* by step; owned as the checkpoints are; NULL when there is none */
    int64_t curve_count;
};
void state_reset(struct state *state); /* frees checkpoints and curve; {0} is fine */

/* Writes `path`; `ema` NULL or without a decay: no average. The backend must have float or double elements in host
 * memory or be able to download. STATUS_DISK_FULL, STATUS_IO. */
MUST_CHECK enum status state_write(const char *path, const struct state *state, const struct parameters *parameters,
                                   const struct optimizer *optimizer, const struct ema *ema, struct error *error);

/* Reads `path` into buffers of the same layout and optimizer. An average is read when `ema` has a decay and the file
 * has one (if it has none, the average begins here: updates 0). The caller owns *state (state_reset). After a failure
 * the buffers are undefined. STATUS_NOT_FOUND, STATUS_CORRUPT (truncated, wrong checksum), STATUS_INVALID (of another
 * model or optimizer), STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status state_read(const char *path, struct state *state, struct parameters *parameters,
                                  struct optimizer *optimizer, struct ema *ema, struct error *error);

/* What the header of a state says of the run that wrote it, for those that may go on from it. */
struct state_about {
    char optimizer[32]; /* what its buffers hold: optimizer_kind.state */
    int64_t step, batch_sequences, sequence_length;
    int64_t ema_updates; /* as in struct state */
    double ema_decay;
};

/* Reads the header of `path` and nothing else. STATUS_NOT_FOUND, STATUS_CORRUPT, STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status state_look(const char *path, struct state_about *out, struct error *error);

/* What tells a state from others. */
struct state_mark {
    int64_t step;         /* updates done */
    uint64_t fingerprint; /* as in struct state */
    uint64_t checksum;    /* of all of the file, as it says itself */
};

/* For readers of AdamW's second moments, whose state SAM and ASAM have too. The first reads nothing but the header and
 * the end of `path`. The second reads the moments into `into`, and checks the whole file. STATUS_NOT_FOUND,
 * STATUS_CORRUPT, STATUS_INVALID (of another optimizer; of another model), STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status state_moments_mark(const char *path, struct state_mark *out, struct error *error);
MUST_CHECK enum status state_moments_read(const char *path, struct parameters *into, struct state_mark *out,
                                          struct error *error);

#endif
