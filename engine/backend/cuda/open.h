/* open.h: makes a backend from a device, and loads the plugin that finds devices. */
#ifndef BACKEND_CUDA_OPEN_H
#define BACKEND_CUDA_OPEN_H

#include "backend/backend.h"
#include "backend/cuda/device.h"

/* Takes the device (closed by backend_free, and here on failure; NULL: a backend only for planning). budget: bytes of
 * its memory. STATUS_NO_MEMORY, STATUS_INVALID (DELTAQ_CUDA_SYNC). */
MUST_CHECK enum status cuda_open_device(struct device *device, int64_t budget, struct team *team, struct backend **out,
                                        struct error *error);

/* backend_cuda_count, which also says *sound: false when something is installed that should work and does not: a plugin
 * of another build, a driver that is too old. */
int cuda_look(char *text, size_t size, bool *sound);

/* Opens device `ordinal` through the plugin; the device's own `close` closes it. products: as for backend_cuda_new.
 * STATUS_UNSUPPORTED, STATUS_DEVICE, STATUS_NO_MEMORY. */
MUST_CHECK enum status cuda_find_device(int ordinal, const char *products, struct device **out, struct error *error);
/* Like backend_cuda_new, but with all free memory as its budget: for a self-test, which takes little for a short
 * time. */
MUST_CHECK enum status cuda_trial_new(int ordinal, const char *products, struct backend **out, struct error *error);
/* Whether the plugin is installed. Neither the plugin nor a driver is loaded. */
bool cuda_installed(void);

/* Bytes of a device that no run plans with: a twentieth of its memory, at least 512 MiB. They are for memory that no
 * plan counts (cuBLAS's kernels and workspace, local memory of kernels) and that other processes take meanwhile. */
int64_t cuda_reserve(int64_t total);

#endif
