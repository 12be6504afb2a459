/* device_kernels.h: defines a list of kernels (kernels/args.h) for the device. Included by the files that nvcc
 * compiles. */
#ifndef BACKEND_CUDA_PLUGIN_DEVICE_KERNELS_H
#define BACKEND_CUDA_PLUGIN_DEVICE_KERNELS_H

#include "backend/cuda/kernels/all.h"

/* Blocks of threads for which a multiprocessor must have registers; 0: as many as the compiler thinks good. Attention
 * of narrow heads is up to 1.3 times as fast with two blocks as with one that spills nothing (H200). */
#define DEVICE_BLOCKS(kernel)                                                         \
    ((kernel) == KERNEL_attention_fused_64 || (kernel) == KERNEL_attention_keys_64 || \
             (kernel) == KERNEL_attention_queries_64                                  \
         ? 2                                                                          \
         : 0)

#define DEVICE_KERNEL(name, type)                                                          \
    static __global__ void __launch_bounds__(KERNEL_THREADS, DEVICE_BLOCKS(KERNEL_##name)) \
        device_##name(const __grid_constant__ struct type args)                            \
    {                                                                                      \
        const struct launch grid = {(int64_t)blockIdx.x, (int64_t)gridDim.x, false};       \
        name##_kernel(&grid, &args);                                                       \
    }
/* A case of a switch that returns a kernel's address. */
#define DEVICE_KERNEL_CASE(name, type) \
    case KERNEL_##name:                \
        return (const void *)device_##name;

#endif
