/* rounding.h: backends whose products round their factors to bfloat16, and numbers that are rounded here, by another
 * rule of rounding. */
#ifndef TESTS_BACKEND_ROUNDING_H
#define TESTS_BACKEND_ROUNDING_H

#include "engine/backend/cases.h"

/* To eight significant bits, ties to even. All but the numbers of test_factors_are_rounded_to_nearest_even are far from
 * the largest and the smallest. */
static inline double rounded(double x)
{
    int exponent;
    const double fraction = frexp(x, &exponent);
    return ldexp(nearbyint(ldexp(fraction, 8)), exponent - 8);
}

static inline void round_all(struct world *world, struct matrix m)
{
    double *values = world_read(world, m);
    for (int64_t i = 0; i < m.rows * m.columns; i++) values[i] = rounded(values[i]);
    world->backend->ops->upload(world->backend, m, values, DTYPE_F64);
    free(values);
}

static inline struct backend *open_rounding(struct team *team)
{
    struct error error;
    struct backend *backend = NULL;
#ifdef TESTS_CUDA_STAND_IN_H
    const enum status status = stand_in_open("bf16", team, &backend, &error);
#else
    const enum status status = backend_new("cpu", "bf16", team, &backend, &error);
#endif
    if (status != STATUS_OK) fail_msg("%s", error.detail);
    return backend;
}

static inline int open_rounding_rivals(void **state)
{
    struct rivals *rivals = calloc(1, sizeof *rivals);
    struct error error;
    if (rivals == NULL || team_new(3, &rivals->team, &error) != STATUS_OK) return -1;
    if (backend_reference_new(true, rivals->team, &rivals->truth.backend, &error) != STATUS_OK) return -1;
    rivals->one.backend = open_rounding(NULL);
    rivals->many.backend = open_rounding(rivals->team);
    *state = rivals;
    return 0;
}

#endif
