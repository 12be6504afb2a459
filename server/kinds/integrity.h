/* integrity.h: the weight readings of a trajectory compared with each other (health/integrity.h), as documents. */
#ifndef KINDS_INTEGRITY_H
#define KINDS_INTEGRITY_H

#include "postgres/connection.h"

#include <jansson.h>

/* Reports on all checkpoints (`checkpoint` NULL), or on one: its point between those before and after, and what was
 * found of it. `checkpoint`: its id, its name, or TRAJECTORY/NAME. The caller owns the document, which has the fields
 * of integrity_report_shape. STATUS_NOT_FOUND. */
MUST_CHECK enum status integrity_document(struct connection *connection, const char *trajectory, const char *checkpoint,
                                          json_t **document, struct error *error);

/* {id of a checkpoint: ["identical", ...]} for the checkpoints of those trajectories that have any flag. Cheap for
 * trajectories of which no checkpoint was read. */
MUST_CHECK enum status integrity_flags(struct connection *connection, const char *const *trajectories, size_t count,
                                       json_t **out, struct error *error);

#endif
