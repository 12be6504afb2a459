/* shared_measurements.h: checkpoints of the same content share what was measured of it. */
#ifndef STORE_SHARED_MEASUREMENTS_H
#define STORE_SHARED_MEASUREMENTS_H

/* The metrics that are not shared, as an SQL list: they compare a checkpoint with the one before, so they are each
 * one's own whatever other checkpoints have the same content. */
#define BETWEEN_CHECKPOINTS "('weight_change', 'weight_cosine')"

#endif
