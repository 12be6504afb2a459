/* real.h: shared by the plain loops. The build compiles each of them twice, with `real` defined as float and as double.
 * Products and sums of a few terms are computed in `real`; exp, log, statistics of a row and long scalar sums in
 * double. */
#ifndef BACKEND_REFERENCE_REAL_H
#define BACKEND_REFERENCE_REAL_H

#include "backend/backend.h"

#ifndef real
#define real float
#endif

#define REFERENCE_PASTE_(name, type) reference_##name##_##type
#define REFERENCE_PASTE(name, type)  REFERENCE_PASTE_(name, type)
#define REFERENCE(name)              REFERENCE_PASTE(name, real) /* reference_norm_forward_float */

static inline real *row_of(struct matrix m, int64_t t)
{
    return (real *)m.data + t * m.stride;
}

static inline real *head_of(struct head_view view, int64_t t, int64_t head)
{
    return row_of(view.matrix, t) + view.offset + head * view.head_stride;
}

/* Each family of slots has its own file: norm.c has norm_forward, norm_backward and their tangents. */
#define X(type, slot, ...) type REFERENCE(slot)(struct backend *, __VA_ARGS__);
BACKEND_SLOTS(X)
#undef X

#endif
