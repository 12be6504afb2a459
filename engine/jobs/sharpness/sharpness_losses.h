/* sharpness_losses.h: the mean loss of a sharpness run's sequences at moved weights. It needs the memory of the
 * products, which must have been released (hvp_free): a vector, and a gradient with recomputation over one chunk. */
#ifndef SHARPNESS_SHARPNESS_LOSSES_H
#define SHARPNESS_SHARPNESS_LOSSES_H

#include "jobs/sharpness/sharpness_tasks.h"

struct gradient;

struct sharpness_losses {
    const struct sharpness *s; /* lent */
    struct parameters moved;   /* the weights whose loss is taken; the caller writes them before each */
    struct gradient *gradient; /* for its forward pass over `moved` */
    double *losses;            /* of each token */
};

/* The caller resets *out, also after a failure. STATUS_NO_MEMORY. */
MUST_CHECK enum status sharpness_losses_new(const struct sharpness *s, struct sharpness_losses *out,
                                            struct error *error);
void sharpness_losses_reset(struct sharpness_losses *losses);

/* The loss at `moved`. STATUS_CANCELLED, STATUS_LEASE_LOST, statuses of the backend's sync. */
MUST_CHECK enum status sharpness_losses_at(const struct sharpness_losses *losses, double *mean, struct error *error);

#endif
