/* plugin.h: the interface of kernels.cu and exact.cu to the rest of the plugin. */
#ifndef BACKEND_CUDA_PLUGIN_PLUGIN_H
#define BACKEND_CUDA_PLUGIN_PLUGIN_H

#include "backend/cuda/device.h"

/* A kernel's address for cudaLaunchKernel. */
const void *plugin_kernel(enum kernel kernel);
/* For kernels of the second list; NULL for others. */
const void *plugin_exact_kernel(enum kernel kernel);

#endif
