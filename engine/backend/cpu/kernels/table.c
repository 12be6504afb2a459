/* table.c: the kernels of one level, in a table. */
#include "backend/cpu/kernels/all.h"

#define KERNEL_STRING_(level) #level
#define KERNEL_STRING(level)  KERNEL_STRING_(level)
#define KERNEL_TABLE_(level)  kernels_##level
#define KERNEL_TABLE(level)   KERNEL_TABLE_(level)

const struct kernels KERNEL_TABLE(KERNEL_LEVEL) = {
    .name = KERNEL_FAMILY KERNEL_STRING(KERNEL_LEVEL),
#define X(type, kernel, ...) .kernel = KERNEL(kernel),
    CPU_KERNELS(X)
#undef X
        .lanes = LANES,
#if defined(__ARM_FEATURE_SVE)
    .scalable = true,
#endif
};
