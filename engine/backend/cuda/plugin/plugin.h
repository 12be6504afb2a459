/* plugin.h: what kernels.cu gives runtime.cu. */
#ifndef BACKEND_CUDA_PLUGIN_PLUGIN_H
#define BACKEND_CUDA_PLUGIN_PLUGIN_H

#include "backend/cuda/device.h"

/* Queues a kernel; its address for cudaLaunchKernel. */
const void *plugin_kernel(enum kernel kernel);

#endif
