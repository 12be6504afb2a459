/* kernel.h: how a kernel is written, once, in what C and CUDA C++ have in common: nvcc makes it for the device, and any
 * C compiler makes an emulation of it, which the unit tests run on machines without a device
 * (tests/unit/engine/backend/cuda/emulated.h).
 *
 * A kernel is a function of one block of KERNEL_THREADS threads. What its threads do lies in phases,
 * EACH_THREAD(thread) { … }, and a barrier ends each phase; on a processor a phase is a loop over the threads. So
 * within a phase a thread may not read what another writes; the emulation runs the loops in both directions, and the
 * bits must be the same. `continue` ends a thread's phase, `break` and `return` may not leave one. What a thread keeps
 * between phases is PRIVATE(type, name), its own element name[MINE(thread)]. Code between phases is the same for all
 * threads of the block. */
#ifndef BACKEND_CUDA_KERNELS_KERNEL_H
#define BACKEND_CUDA_KERNELS_KERNEL_H

#include "backend/cuda/kernels/args.h"

#include <math.h>
#include <string.h>

struct launch {
    int64_t block, blocks;
    bool reversed; /* emulation only: the order of the threads */
};

#ifdef __CUDACC__
#define DEVICE              static __device__ __forceinline__
#define SHARED              __shared__
#define PRIVATE(type, name) type name[1]
#define MINE(thread)        0
#define EACH_THREAD(thread) for (int thread = (int)threadIdx.x, phase_ = 1; phase_; phase_ = 0, __syncthreads())
#define BARRIER()           __syncthreads()
#define ALIGNED(bytes)      __align__(bytes)
#define UNROLL              _Pragma("unroll")
#else
#define DEVICE static inline
#define SHARED
#define PRIVATE(type, name) type name[KERNEL_THREADS]
#define MINE(thread)        (thread)
#define EACH_THREAD(thread)                                                                         \
    for (int phase_ = 0, thread = grid->reversed ? KERNEL_THREADS - 1 : 0; phase_ < KERNEL_THREADS; \
         phase_++, thread += grid->reversed ? -1 : 1)
#define BARRIER()      (void)0
#define ALIGNED(bytes) __attribute__((aligned(bytes)))
#define UNROLL
#endif

#define KERNEL(name, type) DEVICE void name##_kernel(const struct launch *grid, const struct type *args)

DEVICE float *row_of(struct matrix m, int64_t t)
{
    return (float *)m.data + t * m.stride;
}

DEVICE float *head_of(struct head_view view, int64_t t, int64_t head)
{
    return row_of(view.matrix, t) + view.offset + head * view.head_stride;
}

DEVICE float *element_of(struct matrix m, int64_t i)
{
    return row_of(m, i / m.columns) + i % m.columns;
}

DEVICE int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

DEVICE int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

DEVICE void put(float *to, double value, bool accumulate)
{
    *to = accumulate ? *to + (float)value : (float)value;
}

/* The sum of all threads' values, always in the same order. `shared` is scratch of KERNEL_THREADS. */
DEVICE double block_sum(const struct launch *grid, const double *values, double *shared)
{
    EACH_THREAD(thread)
    {
        shared[thread] = values[MINE(thread)];
    }
    for (int half = KERNEL_THREADS / 2; half > 0; half /= 2) EACH_THREAD(thread)
        {
            if (thread < half) shared[thread] += shared[thread + half];
        }
    const double sum = shared[0];
    BARRIER();
    return sum;
}

/* The largest; NaN never wins. */
DEVICE double block_largest(const struct launch *grid, const double *values, double *shared)
{
    EACH_THREAD(thread)
    {
        shared[thread] = values[MINE(thread)];
    }
    for (int half = KERNEL_THREADS / 2; half > 0; half /= 2) EACH_THREAD(thread)
        {
            if (thread < half && shared[thread + half] > shared[thread]) shared[thread] = shared[thread + half];
        }
    const double largest = shared[0];
    BARRIER();
    return largest;
}

/* Each thread's value becomes the sum of its `lanes`, a power of two of threads side by side, always in the same
 * order. */
DEVICE void lanes_sum(const struct launch *grid, double *values, double *shared, int lanes)
{
    EACH_THREAD(thread)
    {
        shared[thread] = values[MINE(thread)];
    }
    for (int half = lanes / 2; half > 0; half /= 2) EACH_THREAD(thread)
        {
            if (thread % lanes < half) shared[thread] += shared[thread + half];
        }
    EACH_THREAD(thread)
    {
        values[MINE(thread)] = shared[thread / lanes * lanes];
    }
}

/* The largest of its lanes; NaN never wins. */
DEVICE void lanes_largest(const struct launch *grid, double *values, double *shared, int lanes)
{
    EACH_THREAD(thread)
    {
        shared[thread] = values[MINE(thread)];
    }
    for (int half = lanes / 2; half > 0; half /= 2) EACH_THREAD(thread)
        {
            if (thread % lanes < half && shared[thread + half] > shared[thread]) shared[thread] = shared[thread + half];
        }
    EACH_THREAD(thread)
    {
        values[MINE(thread)] = shared[thread / lanes * lanes];
    }
}

#endif
