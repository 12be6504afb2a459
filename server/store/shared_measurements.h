/* shared_measurements.h: checkpoints of the same content share measurements. */
#ifndef STORE_SHARED_MEASUREMENTS_H
#define STORE_SHARED_MEASUREMENTS_H

/* The metrics that are not shared, as an SQL list. They compare a checkpoint with the one before it, so their value
 * depends on more than the checkpoint's own content. */
#define BETWEEN_CHECKPOINTS "('weight_change', 'weight_cosine')"

#endif
