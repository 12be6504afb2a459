/* checkpoint_set.h: several registered checkpoints of the same model, for kinds that combine them. */
#ifndef INPUTS_CHECKPOINT_SET_H
#define INPUTS_CHECKPOINT_SET_H

#include "geometry/family.h"
#include "inputs/inputs.h"

enum { CHECKPOINT_SET_MOST = 1000 };

/* The parameter row of a list of `least` to `most` checkpoints; and the rows of such a list and of a trajectory that
 * may replace it. */
/* clang-format off */
#define CHECKPOINT_SET_PARAM(list_at, least, most, list_help) \
    {.name = "checkpoints", .type = PARAM_LIST, .offset = (list_at), .item = &checkpoint_set_item, \
     .fallback = "null", .nullable = true, .minimum = (least), .maximum = (most), .help = list_help}
#define CHECKPOINT_SET_PARAMS(list_at, least, list_help, trajectory_at, trajectory_help) \
    CHECKPOINT_SET_PARAM(list_at, least, CHECKPOINT_SET_MOST, list_help), \
    {.name = "trajectory", .type = PARAM_TRAJECTORY, .offset = (trajectory_at), \
     .fallback = "null", .nullable = true, .help = trajectory_help}
/* clang-format on */
extern const struct param checkpoint_set_item;

/* For check: appends the ids of a trajectory's checkpoints, by step, to `ids` (an array of the parameters), as inputs
 * of the run. STATUS_INVALID at `pointer` when the trajectory has none, more than CHECKPOINT_SET_MOST, or one that is
 * not on disk. */
MUST_CHECK enum status checkpoint_set_list(struct run_request *request, const char *trajectory, const char *pointer,
                                           json_t *ids, struct error *error);

/* For check: STATUS_OK when the headers of the checkpoints `ids` (an array) agree that they are of one model; else
 * STATUS_INVALID at `pointer`, which names the tensor. Adds the checkpoints' contents to request->identity. */
MUST_CHECK enum status checkpoint_set_check(struct run_request *request, const json_t *ids, const char *pointer,
                                            struct error *error);

/* The checkpoints, opened for the engine. */
struct checkpoint_set {
    int64_t count;
    struct inputs *inputs;       /* [count], owned; only the first has a backend */
    const struct model **models; /* [count] */
    const char **labels;         /* [count] */
    struct family family;
};

/* Opens each as inputs_open does. Statuses of inputs_open and family_init. The caller resets *out. */
MUST_CHECK enum status checkpoint_set_open(const struct run_context *context, const char *const *ids, int64_t count,
                                           int precision, struct checkpoint_set *out, struct error *error);
void checkpoint_set_reset(struct checkpoint_set *set); /* {0} is fine */

#endif
