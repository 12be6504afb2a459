/* kernels.cu: the kernels of the first list for the device, and the addresses of all kernels. With ALL_KERNELS it also
 * has those of exact.cu, compiled with the flags of this file, because the simulator of the PTX (make check-ptx) reads
 * one file. */
extern "C" {
#include "backend/cuda/plugin/device_kernels.h"
#include "backend/cuda/plugin/plugin.h"
}

#ifdef ALL_KERNELS
KERNEL_LIST(DEVICE_KERNEL)
#else
KERNEL_LIST_PLAIN(DEVICE_KERNEL)
#endif

extern "C" const void *plugin_kernel(enum kernel kernel)
{
    switch (kernel) {
#ifdef ALL_KERNELS
        KERNEL_LIST(DEVICE_KERNEL_CASE)
    default: return NULL;
#else
        KERNEL_LIST_PLAIN(DEVICE_KERNEL_CASE)
    default: return plugin_exact_kernel(kernel);
#endif
    }
}
