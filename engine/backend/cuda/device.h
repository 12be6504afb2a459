/* device.h: what the CUDA backend needs of a device: memory, copies, kernels, matrix products; nothing here needs
 * CUDA's headers. build/libdeltaq-cuda.so gives one (plugin/), and so does the emulation of the unit tests. */
#ifndef BACKEND_CUDA_DEVICE_H
#define BACKEND_CUDA_DEVICE_H

#include "backend/cuda/kernels/args.h"
#include "backend/identity.h"
#include "backend/lane.h"

enum { CUDA_PLUGIN_VERSION = 10 }; /* raised whenever struct device_plugin changes */
enum { DEVICE_TEXT = 400, LANE_POINTS = 32 };

/* As cuBLAS has it: column-major, c [m, n] = alpha op(a) op(b) + beta c; leading dimensions in elements. */
struct device_gemm {
    bool transpose_a, transpose_b;
    int64_t m, n, k;
    float alpha, beta;
    const float *a, *b;
    float *c;
    int64_t lda, ldb, ldc;
    bool exact; /* in single precision, whatever the device was opened with */
    bool bf16;  /* what a and b point to are bfloat16 numbers: multiplied as they are, summed in float */
};

/* `count` products like `each`, whose a, b and c are not read: they lie in arrays of pointers on the device, which
 * begin at multiples of 16 bytes. No two c share memory. aligned: all that the arrays point to begins at multiples of
 * 16 bytes, too. */
struct device_gemm_batched {
    struct device_gemm each;
    float *const *a, *const *b, *const *c;
    int64_t count;
    bool aligned;
};

/* What a failure is to who asked. Of a fault nothing recovers within the process: all that it asks of the device from
 * then on fails too (illegal addresses, failed launches, errors of its memory, a device that is lost). */
enum device_failure { DEVICE_REFUSED, DEVICE_FULL, DEVICE_FAULT };

/* One device and its stream: all work is queued on it in order. Functions return 0 or a number that error_text
 * explains by the thread that got it. The caller lets one thread in at a time; it may be another one each time. */
struct device {
    void *state;
    char text[DEVICE_TEXT]; /* its name, memory, libraries and products: the same every time */
    struct device_identity identity;
    int64_t memory_free, memory_total; /* bytes, when it was opened */

    void (*close)(struct device *device);
    void (*error_text)(int code, char *text, size_t size);
    enum device_failure (*failure)(int code);
    /* Bytes that are free now, whoever has the others, and in all. */
    int (*memory)(struct device *device, int64_t *available, int64_t *total);
    int (*allocate)(struct device *device, size_t bytes, void **out);
    int (*release)(struct device *device, void *block);                    /* waits for the stream */
    int (*allocate_host)(struct device *device, size_t bytes, void **out); /* pinned */
    int (*release_host)(struct device *device, void *block);
    int (*clear)(struct device *device, void *to, size_t bytes);
    /* `rows` rows of `width` bytes, the rows' distances in bytes; the host's side must stay as it is until the stream
     * was there */
    int (*upload)(struct device *device, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                  size_t rows);
    int (*download)(struct device *device, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                    size_t rows);
    int (*mark)(struct device *device, int which); /* notes a point of the stream, 0 or 1 */
    int (*wait)(struct device *device, int which); /* until the stream has passed it */
    int (*synchronize)(struct device *device);
    /* The lanes (backend/lane.h): streams of copies. carry and point may be called while another thread uses the
     * stream, one thread at a time for each lane; point `which`, below LANE_POINTS, is where the lane is now; the
     * stream waits for it (await), or the caller does (arrive); follow: what is carried from now on waits for the
     * stream as far as it is now. */
    int (*carry)(struct device *device, enum lane lane, void *to, size_t to_pitch, const void *from, size_t from_pitch,
                 size_t width, size_t rows, bool to_device);
    int (*point)(struct device *device, enum lane lane, int which);
    int (*follow)(struct device *device, enum lane lane);
    int (*await)(struct device *device, enum lane lane, int which);
    int (*arrive)(struct device *device, enum lane lane, int which);
    int (*launch)(struct device *device, enum kernel kernel, int64_t blocks, const void *args);
    int (*gemm)(struct device *device, const struct device_gemm *args);
    int (*gemm_batched)(struct device *device, const struct device_gemm_batched *args);
};

/* What the program and the plugin must have in common, in this order. A list: the sizes of all that one hands to the
 * other. */
#define DEVICE_SIZES(X) \
    X(device)           \
    X(device_identity)  \
    X(device_gemm)      \
    X(device_gemm_batched)

/* What the plugin exports as `deltaq_cuda_plugin`. It is its own library: it shares no symbols with the program. */
struct device_plugin {
    int version;         /* CUDA_PLUGIN_VERSION */
    int size_count;      /* DEVICE_SIZE_COUNT */
    const char *sources; /* CUDA_SOURCES: of which sources it was built */
    const size_t *sizes; /* of the structs of DEVICE_SIZES, then of every kernel's arguments */
    /* How many devices there are, and in `text` what was found, with versions, or why there are none. *sound: false
     * when what is there could not be used (a driver that is too old). */
    int (*count)(char *text, size_t size, bool *sound);
    /* What device `ordinal` is, with nothing made on it; false with the reason in `text`. */
    bool (*identify)(int ordinal, struct device_identity *out, char *text, size_t size);
    /* NULL with the reason in `text`, and what sort it is of. products: "f32", "tf32" or "bf16". */
    struct device *(*open)(int ordinal, const char *products, char *text, size_t size, enum device_failure *failure);
};

#define DEVICE_ONE(name)              +1
#define DEVICE_KERNEL_ONE(name, type) +1
enum { DEVICE_SIZE_COUNT = 0 DEVICE_SIZES(DEVICE_ONE) KERNEL_LIST(DEVICE_KERNEL_ONE) };
/* The rows of `sizes`. */
#define DEVICE_SIZE(name)              sizeof(struct name),
#define DEVICE_KERNEL_SIZE(name, type) sizeof(struct type),
#define DEVICE_ALL_SIZES                                          \
    {                                                             \
        DEVICE_SIZES(DEVICE_SIZE) KERNEL_LIST(DEVICE_KERNEL_SIZE) \
    }

#endif
