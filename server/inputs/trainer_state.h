/* trainer_state.h: what trainer_state.json, which the Transformers library writes beside the weights, says of a
 * training. */
#ifndef INPUTS_TRAINER_STATE_H
#define INPUTS_TRAINER_STATE_H

#include <stdint.h>

struct trainer_state {
    int64_t step, tokens; /* -1: not said */
    double learning_rate; /* the last one of log_history; NAN: not said */
};

/* Reads the file in `directory`. Nothing is said by a missing file, a file of another form, or one that is too large to
 * be one. */
void trainer_state_read(const char *directory, struct trainer_state *out);

#endif
