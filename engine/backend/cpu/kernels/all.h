/* all.h: every kernel of one level, for its table. */
#ifndef BACKEND_CPU_KERNELS_ALL_H
#define BACKEND_CPU_KERNELS_ALL_H

#include "backend/cpu/kernels/level.h"

#define X(type, kernel, ...) type KERNEL(kernel)(__VA_ARGS__);
CPU_KERNELS(X)
#undef X

#endif
