/* average_shape.h: weights of a mean of checkpoints that stands for a decay of the learning rate (Warmup-Stable and
 * Merge, arXiv 2507.17634). Of the rate 1 at the oldest checkpoint, f(x) is left when the share x of the decay has
 * passed; the step of the weights to checkpoint k counts by f(k / n), so that checkpoint k has the weight
 * f(k / n) − f((k + 1) / n), and the newest one f((n − 1) / n). */
#ifndef KINDS_AVERAGE_SHAPE_H
#define KINDS_AVERAGE_SHAPE_H

#include <stdint.h>

enum average_shape { AVERAGE_UNIFORM, AVERAGE_LINEAR, AVERAGE_COSINE, AVERAGE_SQRT };

/* Their names in this order; ends with NULL. */
extern const char *const average_shapes[];

/* weights [count], oldest first; AVERAGE_UNIFORM: all 1. */
void average_shape_weights(enum average_shape shape, int64_t count, double *weights);

#endif
