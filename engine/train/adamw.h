/* adamw.h: the update of AdamW, for the optimizers that are built on it. */
#ifndef TRAIN_ADAMW_H
#define TRAIN_ADAMW_H

#include "train/optimizer.h"

/* Updates `parameters` and the moments in optimizer->state. */
void adamw_update(struct optimizer *optimizer, struct parameters *parameters, struct parameters *gradients,
                  const struct optimizer_update *update);

/* adamw_update for a part of them. */
void adamw_update_span(struct optimizer *optimizer, struct parameters *parameters, const struct parameters *gradients,
                       const struct optimizer_update *update, const struct parameters_span *span);

#endif
