/* kernels.cu: every kernel of kernels/, made for the device. Never run on a GPU yet. */
extern "C" {
#include "backend/cuda/kernels/all.h"
}

#include "backend/cuda/plugin/plugin.h"

#define X(name, type)                                                                                                \
    static __global__ void __launch_bounds__(KERNEL_THREADS) device_##name(const __grid_constant__ struct type args) \
    {                                                                                                                \
        const struct launch grid = {(int64_t)blockIdx.x, (int64_t)gridDim.x, false};                                 \
        name##_kernel(&grid, &args);                                                                                 \
    }
KERNEL_LIST(X)
#undef X

const void *plugin_kernel(enum kernel kernel)
{
    static const void *const kernels[] = {
#define X(name, type) (const void *)device_##name,
        KERNEL_LIST(X)
#undef X
    };
    return kernels[kernel];
}
