/* routes.h: the experts that each token of a batch visits, K per token, in a matrix [T, routes_columns] of the
 * backend's element type (so that it is stored and copied like any activation). Its numbers are integers, exact up to
 * 2^24. It has these parts, one after another without gaps:
 *
 *   ROUTES_VISIT   [T K]    the visit t K + j that row r of sorted activations belongs to; rows of an expert are
 *                           contiguous and ascend by visit
 *   ROUTES_ROW     [T K]    the row of visit t K + j
 *   ROUTES_EXPERT  [T K]    its expert
 *   ROUTES_START   [E + 1]  the first row of each expert, and the end of the last */
#ifndef BACKEND_ROUTES_H
#define BACKEND_ROUTES_H

#include "backend/backend.h"

enum routes_part { ROUTES_VISIT, ROUTES_ROW, ROUTES_EXPERT, ROUTES_START };

static inline int64_t routes_columns(int64_t experts, int64_t per_token)
{
    return 3 * per_token + experts + 1;
}

/* Offset of entry `index` of a part, in elements. */
static inline int64_t routes_index(struct matrix routes, enum routes_part part, int64_t per_token, int64_t index)
{
    return (int64_t)part * routes.rows * per_token + index;
}

static inline int64_t routes_at(struct matrix routes, enum routes_part part, int64_t per_token, int64_t index)
{
    const int64_t at = routes_index(routes, part, per_token, index);
    return routes.element == sizeof(float) ? (int64_t)((const float *)routes.data)[at]
                                           : (int64_t)((const double *)routes.data)[at];
}

static inline void routes_put(struct matrix routes, enum routes_part part, int64_t per_token, int64_t index,
                              int64_t value)
{
    const int64_t at = routes_index(routes, part, per_token, index);
    if (routes.element == sizeof(float))
        ((float *)routes.data)[at] = (float)value;
    else
        ((double *)routes.data)[at] = (double)value;
}

#endif
