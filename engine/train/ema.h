/* ema.h: the exponential moving average of the parameters along training, without bias from its start: after n updates
 *   mean = sum over i <= n of decay^(n - i) parameters_i / sum over i <= n of decay^(n - i)
 * computed as mean += (1 - decay) / (1 - decay^n) (parameters_n - mean), which combines the zero start of Adam's
 * moments with its correction (Kingma and Ba, arXiv 1412.6980, section 3). Fresh weights are not part of it. The mean
 * is a float: at a decay of 0.9999 its rounding adds up to 1e-4 of the weights, at 0.99999 to 7e-4, so that requests
 * may have 0.9999 at most. */
#ifndef TRAIN_EMA_H
#define TRAIN_EMA_H

#include "model/parameters.h"

struct ema {
    double decay; /* 0: there is no average, and no buffer */
    int64_t updates;
    struct parameters mean; /* owned; zero before the first update */
};

/* The caller owns it (ema_reset). STATUS_NO_MEMORY. */
MUST_CHECK enum status ema_init(struct ema *ema, double decay, const struct parameters_layout *layout,
                                struct backend *backend, struct error *error);
void ema_reset(struct ema *ema); /* {0} is fine */

/* Adds the parameters after one more update. Does nothing when there is no average. */
void ema_add(struct ema *ema, const struct parameters *parameters);

#endif
