/* groups.h: the parameters of a model by function, for the curvature of each kind alone: the largest eigenvalues of
 * diagonal blocks of the Hessian. */
#ifndef CURVATURE_GROUPS_H
#define CURVATURE_GROUPS_H

#include "curvature/vector.h"
#include "model/parameters.h"

/* GROUP_OUTPUT has no numbers in a tied model: its matrix is the embedding. A bias belongs to its matrix. */
enum group { GROUP_EMBEDDING, GROUP_ATTENTION, GROUP_MLP, GROUP_NORMS, GROUP_OUTPUT, GROUPS };
extern const char *const groups_names[GROUPS + 1]; /* ends with NULL */

/* The group of every tensor of the layout. The caller owns *out [tensor_count] (memory_free). STATUS_NO_MEMORY. */
MUST_CHECK enum status groups_of_tensors(const struct parameters_layout *layout, enum group **out, struct error *error);

/* `all` with the spans of one group only, from its spans by tensor; writes them into `spans` [tensor_count], which is
 * lent to the result. */
struct vector_space groups_space(const struct vector_space *all, const enum group *groups, enum group group,
                                 struct vector_span *spans);

#endif
