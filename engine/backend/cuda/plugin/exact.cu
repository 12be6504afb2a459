/* exact.cu: the kernels of the second list, compiled with -fmad=false. Otherwise ptxas fuses a product and a sum that
 * are separate in PTX and rounds once where the CPU rounds twice, so codes and rounded values would differ. */
extern "C" {
#include "backend/cuda/plugin/device_kernels.h"
#include "backend/cuda/plugin/plugin.h"
}

KERNEL_LIST_EXACT(DEVICE_KERNEL)

extern "C" const void *plugin_exact_kernel(enum kernel kernel)
{
    switch (kernel) {
        KERNEL_LIST_EXACT(DEVICE_KERNEL_CASE)
    default: return NULL;
    }
}
