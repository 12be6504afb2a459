/* simulated.h: a device whose kernels are the PTX that nvcc made of plugin/kernels.cu, one thread after the other
 * between barriers, and between what a warp does together. What it finds, besides wrong numbers: threads that do not
 * meet at one barrier, or at one instruction of their warp; two threads at the
 * same byte, one of them writing (unless both write the same), with no barrier between (or in two blocks of a launch);
 * bytes read that nobody has written; addresses outside an allocation, an array of shared memory, the thread's own
 * memory or the arguments; crooked addresses; launches and products that CUDA refuses. It says so on standard error and
 * in `text`, and nothing runs any more. What it cannot show: what ptxas makes of the PTX, the driver, speed. */
#ifndef TESTS_CUDA_PTX_SIMULATED_H
#define TESTS_CUDA_PTX_SIMULATED_H

#include "backend/cuda/device.h"

enum { PTX_WARP = 32 };

enum ptx_space { PTX_GENERIC, PTX_GLOBAL, PTX_SHARED, PTX_LOCAL, PTX_PARAM };

#define PTX_SHARED_WINDOW (UINT64_C(1) << 60)
#define PTX_LOCAL_WINDOW  (UINT64_C(2) << 60)
#define PTX_PARAM_WINDOW  (UINT64_C(3) << 60)

struct ptx_array {
    const char *name;
    uint32_t at, bytes;
};

struct simulated;

struct ptx_thread;

/* An instruction that the 32 threads of a warp execute together, and this thread's part in it. */
struct ptx_together {
    void (*run)(struct ptx_thread *const lanes[PTX_WARP]);
    void *registers[14]; /* in the order of the PTX */
    uint32_t numbers[3]; /* operands after these */
    int line;
};

struct ptx_thread {
    struct simulated *device;
    void *registers;
    uint8_t *local;
    uint32_t thread, block, blocks;
    int at; /* where it waits, counted from 1 in the order of the PTX; 0: before its first instruction */
    struct ptx_together together;
};

struct ptx_kernel {
    const char *name;
    /* up to the next barrier: its line in the PTX, or the next instruction of the whole warp: minus its line; 0: the
     * thread has ended */
    int (*run)(struct ptx_thread *t);
    size_t registers;               /* bytes, of one thread */
    size_t parameter, local;        /* bytes */
    const struct ptx_array *shared; /* up to one without a name */
};

extern const struct ptx_kernel ptx_kernels[KERNEL_COUNT];

/* Where the bytes lie for the host, which are read, or will be `value`; `line` of the PTX is for complaints, after
 * which it is memory that nobody looks at. */
void *ptx_at(struct ptx_thread *t, enum ptx_space space, uint64_t address, size_t bytes, const void *value, int line);
void ptx_wrong(struct ptx_thread *t, const char *what);
void ptx_aligned(struct ptx_thread *t, uint64_t address, size_t bytes, int line);

/* NULL: no memory. Closed by its own `close`. `reversed`: threads and blocks run the other way round. */
struct device *simulated_device(bool reversed);

#endif
