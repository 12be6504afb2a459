/* emulated.h: a device made of host memory: the kernels' own source, compiled by the C compiler and run block after
 * block, and plain loops in place of cuBLAS. What it finds: wrong indices and launches (with AddressSanitizer: every
 * block of memory is its own), threads that read what others of the phase write (`reversed` runs threads and blocks the
 * other way round: the bits must be the same), and host code that touches memory of the device (without a sanitizer it
 * may not be touched outside kernels and copies: it faults). */
#ifndef TESTS_CUDA_EMULATED_H
#define TESTS_CUDA_EMULATED_H

#include "backend/cuda/device.h"

/* NULL: no memory. Closed by its own `close`. */
struct device *emulated_device(bool reversed);
/* From now on factors of products that need not be exact are rounded to bfloat16, as with DELTAQ_CUDA_PRODUCTS=bf16. */
void emulated_round(struct device *device);
/* From now on memory of the device is open to the host, too: closing and opening it for each order takes longer than
 * small orders do, and where many of those are made, other tests look for such accesses. */
bool emulated_trust(struct device *device);

#endif
