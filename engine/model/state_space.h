/* state_space.h: the settings of config.json that only state space models have (mamba, mamba2). */
#ifndef MODEL_STATE_SPACE_H
#define MODEL_STATE_SPACE_H

#include "files/json_reader.h"
#include "model/config.h"

#include <math.h>

/* The keys as read: -1 and NAN if absent. */
struct state_space_raw {
    int64_t state_size, conv_kernel, time_step_rank, n_groups, num_heads, head_dim;
    int64_t use_bias, use_conv_bias; /* -1, 0, 1 */
    double expand, step_least, step_most;
};
#define STATE_SPACE_ABSENT                                                    \
    (struct state_space_raw)                                                  \
    {                                                                         \
        -1, -1, -1, -1, -1, -1, -1, -1, (double)NAN, (double)NAN, (double)NAN \
    }

/* time_step_rank: a number, or "auto" for what follows from the other sizes. time_step_limit: two numbers, Infinity
 * among them. */
void state_space_rank_read(struct json_reader *reader, struct state_space_raw *raw);
void state_space_limit_read(struct json_reader *reader, struct state_space_raw *raw);

/* Sets out->state_space and the fields that depend on it, from `raw` and from the fields that `out` has already; absent
 * keys get the published code's defaults. Such a model has no limit of positions. STATUS_UNSUPPORTED,
 * STATUS_INVALID. */
MUST_CHECK enum status state_space_complete(const char *name, const struct state_space_raw *raw,
                                            struct model_config *out, struct error *error);

#endif
