/* optimizer.h: what turns gradients into updates. An optimizer is a row of a table; its state is a number of buffers laid out like
 * the parameters, so that saving a run knows nothing of the optimizer. */
#ifndef TRAIN_OPTIMIZER_H
#define TRAIN_OPTIMIZER_H

#include "base/param.h"
#include "model/parameters.h"

enum { OPTIMIZER_BUFFERS = 2 };

struct optimizer_settings {
    double beta1, beta2, epsilon, weight_decay;
    double clip; /* largest L2 norm of the whole gradient; 0: not clipped */
};

struct optimizer;

struct optimizer_update {
    double rate;
    int64_t step;          /* updates done before this one, of the whole training run */
    double gradient_scale; /* gradients are multiplied by this: clipping */
};

struct optimizer_kind {
    const char *name; /* as in the API */
    int buffers;      /* of state, at most OPTIMIZER_BUFFERS */
    void (*update)(struct optimizer *optimizer, struct parameters *parameters, const struct parameters *gradients,
                   const struct optimizer_update *update);
};

/* Tables of struct optimizer_settings, for the job's own table. */
extern const struct param optimizer_adamw_params[];

extern const struct optimizer_kind *const optimizer_kinds[]; /* ends with NULL; the job's variants have the same order */

struct optimizer {
    const struct optimizer_kind *kind;
    struct optimizer_settings settings;
    struct parameters state[OPTIMIZER_BUFFERS]; /* owned, zeroed at first */
};

/* The caller owns it (optimizer_reset). STATUS_NO_MEMORY. */
MUST_CHECK enum status optimizer_init(struct optimizer *optimizer, const struct optimizer_kind *kind,
                                      const struct optimizer_settings *settings, const struct parameters_layout *layout,
                                      struct backend *backend, struct error *error);
void optimizer_reset(struct optimizer *optimizer); /* {0} is fine */

/* Clips (Pascanu et al., arXiv 1211.5063: scaled by clip / norm when the norm is larger) and updates `parameters`. *norm gets the
 * gradient's norm before clipping; when it is not finite nothing is updated and false returned. */
bool optimizer_step(struct optimizer *optimizer, struct parameters *parameters, const struct parameters *gradients, double rate,
                    int64_t step, double *norm);

#endif
