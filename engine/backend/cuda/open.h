/* open.h: a backend over a device, and the plugin that finds devices. */
#ifndef BACKEND_CUDA_OPEN_H
#define BACKEND_CUDA_OPEN_H

#include "backend/backend.h"
#include "backend/cuda/device.h"

/* Takes the device over (closed by backend_free, and here on failure; NULL: to plan with alone). budget: bytes of its
 * memory. STATUS_NO_MEMORY, STATUS_INVALID (DELTAQ_CUDA_SYNC). */
MUST_CHECK enum status cuda_open_device(struct device *device, int64_t budget, struct team *team, struct backend **out,
                                        struct error *error);

/* backend_cuda_count. *sound: false when there is something that should work and does not: a plugin of another build, a
 * driver that is too old. */
int cuda_look(char *text, size_t size, bool *sound);

/* Device `ordinal`, by the plugin; closed by its own `close`. products: as for backend_cuda_new. STATUS_UNSUPPORTED,
 * STATUS_DEVICE, STATUS_NO_MEMORY. */
MUST_CHECK enum status cuda_find_device(int ordinal, const char *products, struct device **out, struct error *error);
/* As backend_cuda_new, for a self-test, which takes little for a short time: of all that is free. */
MUST_CHECK enum status cuda_trial_new(int ordinal, const char *products, struct backend **out, struct error *error);
/* Whether there is a plugin; it is not loaded, and no driver is asked. */
bool cuda_installed(void);

/* Bytes of a device that no run plans with: a twentieth of its memory, and 512 MiB at least. They are for what no plan
 * counts (cuBLAS's kernels and workspace, local memory of kernels) and for what others take meanwhile. */
int64_t cuda_reserve(int64_t total);

#endif
