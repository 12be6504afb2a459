/* checkpoint_names.h: the names that a training run gives its checkpoints, which its request decides, against those
 * that are there. */
#ifndef STORE_CHECKPOINT_NAMES_H
#define STORE_CHECKPOINT_NAMES_H

#include "store/store.h"

/* "step0000010" for each step above `after` that is a multiple of `every` below `last`, or `last`. */
struct checkpoint_names {
    char trajectory[STORE_NAME];
    bool averages; /* also "step0000010-ema", in the trajectory NAME-ema */
    bool fresh;    /* the run continues no checkpoint: it wants the trajectories for itself */
    int64_t after, every, last;
};

enum { CHECKPOINT_NAMES_TEXT = 2 * STORE_NAME };

struct checkpoint_names_found {
    char name[CHECKPOINT_NAMES_TEXT]; /* TRAJECTORY/NAME; "": none */
    struct store_id run;              /* that made it; "": none did */
};

/* Finds the first checkpoint, by step, that stands in the way of the names: one of a name, or any one in the
 * trajectories of a fresh run. Checkpoints of the run `run` do not (NULL: it is none yet), and a run that has
 * checkpoints there already is not fresh any more. */
MUST_CHECK enum status checkpoint_names_find(struct connection *connection, const struct checkpoint_names *names,
                                             const char *run, struct checkpoint_names_found *out, struct error *error);

/* [{"id", "params"}] of the runs of a kind that have not ended and have the trajectory among their inputs, the oldest
 * first; owned by the caller. */
MUST_CHECK enum status checkpoint_names_unfinished(struct connection *connection, const char *kind,
                                                   const char *trajectory, json_t **out, struct error *error);

#endif
