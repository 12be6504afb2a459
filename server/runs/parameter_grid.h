/* parameter_grid.h: the Cartesian product of a sweep. */
#ifndef RUNS_PARAMETER_GRID_H
#define RUNS_PARAMETER_GRID_H

#include "postgres/connection.h"
#include "schema/faults.h"

#include <jansson.h>

enum { PARAMETER_GRID_MOST = 1000 }; /* the most runs of a sweep */

/* The grid as a sweep keeps it and runs are made of it. An object is laid over the object that base has for its field:
 * the fields that both have are the grid's, objects in them likewise. "method" comes before "method.bits", in whatever
 * order they are given. `more` NULL: all of the grid is new. Otherwise *out is `more` alone, further values for the
 * fields of a stored sweep; where an old one has a field in base too, its values stay as they are.
 * STATUS_INVALID with `faults`: base and grid have the field and not both an object, or a value of "method" has bits
 * and the grid has "method.bits". The caller owns *out. */
MUST_CHECK enum status parameter_grid_lay(const json_t *base, const json_t *grid, const json_t *more,
                                          struct faults *faults, json_t **out, struct error *error);

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
 * "/base/method/bits". Where the grid has the whole method it is "/grid/method", and the answer is "bits"; else it is
 * "". */
const char *parameter_grid_pointer(const json_t *grid, const char *params_pointer, char *out, size_t size);

#endif
