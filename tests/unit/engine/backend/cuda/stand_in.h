/* stand_in.h: included before a test (-include), puts the CUDA backend where the test asks for the fast one. Which
 * device it is over is decided when the test is linked (stand_in.c): the emulated one, one that runs the kernels' PTX,
 * or the first real one. */
#ifndef TESTS_CUDA_STAND_IN_H
#define TESTS_CUDA_STAND_IN_H

#include "backend/backend.h"

/* A backend over the device. `products` is "bf16" for products in bf16; what else there is (backend_new), NULL too,
 * decides on a real device alone: the others' are exact. Errors as of backend_new. */
MUST_CHECK enum status stand_in_open(const char *products, struct team *team, struct backend **out,
                                     struct error *error);

static inline enum status stand_in_new(struct team *team, struct backend **out, struct error *error)
{
    return stand_in_open(NULL, team, out, error);
}

#define backend_cpu_new stand_in_new

#endif
