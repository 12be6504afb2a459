/* device.h: the interface between the CUDA backend and a device: memory, copies, kernels, matrix products. It needs no
 * headers of CUDA. build/libdeltaq-cuda.so implements it (plugin/), and so does the emulation of the unit tests. */
#ifndef BACKEND_CUDA_DEVICE_H
#define BACKEND_CUDA_DEVICE_H

#include "backend/cuda/kernels/args.h"
#include "backend/identity.h"
#include "backend/lane.h"

enum { CUDA_PLUGIN_VERSION = 10 }; /* raised whenever struct device_plugin changes */
enum { DEVICE_TEXT = 400, LANE_POINTS = 32 };

/* A product in cuBLAS's convention: column-major, c [m, n] = alpha op(a) op(b) + beta c; leading dimensions in
 * elements. */
struct device_gemm {
    bool transpose_a, transpose_b;
    int64_t m, n, k;
    float alpha, beta;
    const float *a, *b;
    float *c;
    int64_t lda, ldb, ldc;
    bool exact; /* computed in single precision, however the device was opened */
    bool bf16;  /* a and b point to bfloat16 numbers, which are multiplied without rounding and summed in float */
};

/* `count` products with the shapes of `each`; its a, b and c are not read. Their addresses are in arrays of pointers on
 * the device, which begin at multiples of 16 bytes. No two c overlap. aligned: all addresses in the arrays are
 * multiples of 16 bytes too, as they must be with bf16. */
struct device_gemm_batched {
    struct device_gemm each;
    float *const *a, *const *b, *const *c;
    int64_t count;
    bool aligned;
};

/* Kinds of failure, as the caller must treat them. After a fault the process cannot recover: all its later requests to
 * the device fail too (illegal addresses, failed launches, memory errors, a lost device). */
enum device_failure { DEVICE_REFUSED, DEVICE_FULL, DEVICE_FAULT };

/* One device and its stream: all work is queued on it in order. Functions return 0 or a number, which error_text
 * explains when the same thread calls it. The caller lets one thread in at a time, possibly another one each time. */
struct device {
    void *state;
    char text[DEVICE_TEXT]; /* its name, memory, libraries and products; always the same */
    struct device_identity identity;
    int64_t memory_free, memory_total; /* bytes, when it was opened */
    /* opened for products in "bf16": the caller rounds the factors of a product that need not be exact, because a
     * library that is given floats multiplies them as tf32 at half the rate of bf16 numbers */
    bool narrow;

    void (*close)(struct device *device);
    void (*error_text)(int code, char *text, size_t size);
    enum device_failure (*failure)(int code);
    /* Bytes that are free now, whichever processes hold the rest, and in total. */
    int (*memory)(struct device *device, int64_t *available, int64_t *total);
    int (*allocate)(struct device *device, size_t bytes, void **out);
    int (*release)(struct device *device, void *block);                    /* waits for the stream */
    int (*allocate_host)(struct device *device, size_t bytes, void **out); /* pinned */
    int (*release_host)(struct device *device, void *block);
    int (*clear)(struct device *device, void *to, size_t bytes);
    /* Copies `rows` rows of `width` bytes; pitches are the distances between rows in bytes. The host's memory may not
     * change until the stream has done the copy. */
    int (*upload)(struct device *device, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                  size_t rows);
    int (*download)(struct device *device, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                    size_t rows);
    int (*mark)(struct device *device, int which); /* marks a point of the stream, 0 or 1 */
    int (*wait)(struct device *device, int which); /* waits until the stream has passed it */
    int (*synchronize)(struct device *device);
    /* The lanes (backend/lane.h): streams of copies. carry and point may be called while another thread uses the
     * stream, by one thread at a time for each lane. point: number `which`, below LANE_POINTS, becomes the lane's
     * present place. await: the stream waits for that place; arrive: the caller does. follow: later copies of the lane
     * wait for the stream's present place. */
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

/* Things on which the program and the plugin must agree, in this order. A list: the sizes of all structs that one
 * passes to the other. */
#define DEVICE_SIZES(X) \
    X(device)           \
    X(device_identity)  \
    X(device_gemm)      \
    X(device_gemm_batched)

/* The plugin exports this as `deltaq_cuda_plugin`. It is a library of its own: it shares no symbols with the
 * program. */
struct device_plugin {
    int version;         /* CUDA_PLUGIN_VERSION */
    int size_count;      /* DEVICE_SIZE_COUNT */
    const char *sources; /* CUDA_SOURCES: the checksum of the sources that it was built from */
    const size_t *sizes; /* of the structs of DEVICE_SIZES, then of each kernel's arguments */
    /* Number of devices; `text` describes what was found, with versions, or why there are none. *sound: false when
     * something was found that cannot be used (a driver that is too old). */
    int (*count)(char *text, size_t size, bool *sound);
    /* Identifies device `ordinal` without making a context on it; false with the reason in `text`. */
    bool (*identify)(int ordinal, struct device_identity *out, char *text, size_t size);
    /* NULL with the reason in `text` and its kind in *failure. products: "f32", "tf32" or "bf16". */
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
