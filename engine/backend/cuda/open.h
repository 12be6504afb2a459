/* open.h: a backend over a device, and the plugin that finds devices. */
#ifndef BACKEND_CUDA_OPEN_H
#define BACKEND_CUDA_OPEN_H

#include "backend/backend.h"
#include "backend/cuda/device.h"

/* Takes the device over (closed by backend_free, and here on failure; NULL: to plan with alone). budget: bytes of its
 * memory. STATUS_NO_MEMORY. */
MUST_CHECK enum status cuda_open_device(struct device *device, int64_t budget, struct team *team, struct backend **out,
                                        struct error *error);

/* Bytes of a device that no run plans with: a twentieth of its memory, and 512 MiB at least. They are for what no plan
 * counts (cuBLAS's kernels and workspace, local memory of kernels) and for what others take meanwhile. */
int64_t cuda_reserve(int64_t total);

#endif
