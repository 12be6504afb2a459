/* parameter_grid.h: the Cartesian product of a sweep. */
#ifndef RUNS_PARAMETER_GRID_H
#define RUNS_PARAMETER_GRID_H

#include "postgres/connection.h"
#include "schema/faults.h"

#include <jansson.h>

enum { PARAMETER_GRID_MOST = 1000 }; /* the most runs of a sweep */

/* Multiplies `grid` out over `base` (both objects, lent): each key is a field, with dots for fields of objects
 * ("method.bits"); each value a list, or {"trajectory": NAME}, which stands for all its checkpoints. *out: an array of
 * objects, the first key varying slowest; without any when a trajectory has no checkpoints and that may be.
 * STATUS_INVALID with `faults` (pointers "/grid/method.bits"); statuses of the store. */
MUST_CHECK enum status parameter_grid_expand(struct connection *connection, const json_t *base, const json_t *grid,
                                             bool may_be_empty, struct faults *faults, json_t **out,
                                             struct error *error);

/* The value at a dotted key of a run's parameters; NULL: there is none. Lent. */
json_t *parameter_grid_value(const json_t *params, const char *key);

/* Turns the pointer of a parameter into that of its source: "/params/method/bits" into "/grid/method.bits" or
 * "/base/method/bits". */
void parameter_grid_pointer(const json_t *grid, const char *params_pointer, char *out, size_t size);

#endif
