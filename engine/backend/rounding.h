/* rounding.h: rounded copies of parameters. A device that rounds the factors of its products would round a weight again
 * in every product; while the parameters do not change, products can read one rounded copy of them all. The bits of a
 * product are the same with and without a copy. Backends with matrices in host memory have none. */
#ifndef BACKEND_ROUNDING_H
#define BACKEND_ROUNDING_H

#include <stdint.h>

struct backend;

struct rounding_ops {
    /* Bytes of a copy of so many numbers; 0: this device's products round nothing in memory. */
    int64_t (*bytes)(const struct backend *backend, int64_t elements);
    /* Rounds `numbers` into `copy`, memory of the backend of that size. Until `end` products read the copy in place of
     * factors that lie in `numbers`, and nobody may change either. One copy at a time. */
    void (*begin)(struct backend *backend, const void *numbers, int64_t elements, void *copy);
    void (*end)(struct backend *backend);
};

#endif
