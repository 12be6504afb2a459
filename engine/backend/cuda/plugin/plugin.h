/* plugin.h: what kernels.cu and exact.cu give the rest of the plugin. */
#ifndef BACKEND_CUDA_PLUGIN_PLUGIN_H
#define BACKEND_CUDA_PLUGIN_PLUGIN_H

#include "backend/cuda/device.h"

/* A kernel's address for cudaLaunchKernel. */
const void *plugin_kernel(enum kernel kernel);
/* Of the second list alone; NULL for others. */
const void *plugin_exact_kernel(enum kernel kernel);

#endif
