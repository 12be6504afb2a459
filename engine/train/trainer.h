/* trainer.h: one model in training: its parameters, gradients, optimizer and data. A step is a pure function of (state,
 * step number); results are bit-for-bit identical for any number of threads, memory budget, or number of
 * interruptions. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "base/monitor.h"
#include "model/gradient.h"
#include "train/batches.h"
#include "train/ema.h"
#include "train/optimizer.h"
#include "train/schedule.h"

struct trainer_setup {
    const struct optimizer_kind *optimizer;
    struct optimizer_settings settings;
    double ema_decay; /* 0: no average */
    struct schedule schedule;
    int64_t batch_sequences, sequence_length;
    uint64_t seed;
    const uint32_t *tokens; /* lent; every id below the vocabulary size */
    int64_t token_count;
    const struct monitor *monitor; /* lent; asked before each batch that goes through the model; NULL: nobody */
    /* bytes that the trainer may take; activations are kept if they fit and recomputed otherwise */
    int64_t memory_limit;
};

struct trainer {
    struct backend *backend;
    struct trainer_setup setup;
    struct parameters parameters, gradients;
    struct optimizer optimizer;
    struct ema ema;
    struct gradient *gradient;
    struct batches batches;
    double *losses; /* [largest batch] */
    int64_t step;   /* updates done */
    int64_t micro;  /* sequences that go through the model at once */
    enum gradient_mode mode;
    bool rounds; /* there is memory for a rounded copy of the weights, where the backend can use one */
    /* Loss and gradient norm of the last update, before it, where its gradient was taken: not at the parameters if the
     * optimizer departs from them. One with two gradients has the loss of the first, at its parameters, and the norm of
     * the second. */
    double loss, gradient_norm;
    bool shows_average;
};

/* Zeroed parameters: initialise or read them next. The layout is lent for its life. The caller owns it (trainer_reset).
 * STATUS_INVALID (a schedule or data that do not fit), STATUS_TOO_LARGE (says how much memory it would need),
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status trainer_init(struct trainer *trainer, const struct parameters_layout *layout,
                                    struct backend *backend, const struct trainer_setup *setup, struct error *error);
void trainer_reset(struct trainer *trainer); /* {0} is fine */

/* Adds the memory of trainer_init to a plan and returns the mode that it would choose; setup->tokens may be NULL. */
enum gradient_mode trainer_plan(const struct parameters_layout *layout, struct backend *backend,
                                const struct trainer_setup *setup, struct run_plan *out);

/* Makes one update, or none: STATUS_NOT_FINITE when the loss or the gradient is not finite; statuses of the monitor's
 * check. */
MUST_CHECK enum status trainer_step(struct trainer *trainer, struct error *error);

/* Mean loss over all predictions of `sequences`, each of at most sequence_length tokens; they are not cut.
 * STATUS_NOT_FINITE; late errors of the backend. */
struct chunks;
MUST_CHECK enum status trainer_validate(struct trainer *trainer, const struct chunks *chunks, double *loss,
                                        struct error *error);

/* Between steps: replace the parameters by the average (which needs one update), and restore them exactly. */
void trainer_show_average(struct trainer *trainer);
void trainer_show_parameters(struct trainer *trainer);

/* Most tokens of a chunk of trainer_validate. */
int64_t trainer_chunk_tokens(const struct trainer *trainer);

#endif
