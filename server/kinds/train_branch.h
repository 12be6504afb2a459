/* train_branch.h: for check, what a train run with `from` takes over from its trunk, which is the run that made the
 * checkpoint. */
#ifndef KINDS_TRAIN_BRANCH_H
#define KINDS_TRAIN_BRANCH_H

#include "inputs/checkpoint_place.h"
#include "jobs/train/train.h"
#include "schema/schema.h"

struct train_branch {
    struct schema_filled own;   /* struct train_params: those of the request, completed; lent by request->params */
    struct schema_filled trunk; /* the trunk's; lent by `run` */
    json_t *run;                /* document of the trunk; NULL: not known */
    int64_t step;               /* of the checkpoint, -1: not known */
    bool looked;                /* the training state is here, and `state` has what its header says */
    struct state_about state;
    bool steps; /* the rate goes to another peak there: one was posted that is not the trunk's */
};

/* A seed, an optimizer and a schedule that were not posted become those of the trunk, in the document and in out->own.
 * `from` is the id of the checkpoint. STATUS_INVALID when its files are here without a training state, or with one that
 * the branch cannot go on from (train_check_state); what lies elsewhere, on another node or in a bucket, is looked at
 * by the run. The caller closes *out. */
MUST_CHECK enum status train_branch_open(struct run_request *request, const char *from, struct train_branch *out,
                                         struct error *error);
/* train_check_branch, where the checkpoint's step is known; a rate that steps is meant, and need not be the trunk's. */
MUST_CHECK enum status train_branch_check(const struct train_branch *branch, struct error *error);
/* The header of the training state beside the checkpoint whose files are at `place`. STATUS_INVALID at /params/from
 * without one; statuses of state_look. */
MUST_CHECK enum status train_branch_look(const struct checkpoint_place *place, struct state_about *out,
                                         struct error *error);
void train_branch_close(struct train_branch *branch); /* {0} is fine */

#endif
