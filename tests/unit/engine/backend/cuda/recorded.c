#include "engine/backend/cuda/recorded.h"

#include "backend/cuda/plugin/plugin.h"

#include <cuda_runtime_api.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct recorded recorded;

/* Streams and events have numbers, so that a test can say which one it means. */
struct CUstream_st {
    int number;
};
struct CUevent_st {
    int number;
};

void recorded_reset(void)
{
    recorded = (struct recorded){.devices = 1, .driver = 13000, .runtime = 13000, .major = 9, .free_mib = 70 << 10};
}

int recorded_find(const char *start)
{
    for (int i = 0; i < recorded.count; i++)
        if (strncmp(recorded.calls[i], start, strlen(start)) == 0) return i + 1;
    return 0;
}

static bool write_down(const char *format, va_list values)
{
    if (recorded.count == RECORDED_CALLS) abort();
    (void)vsnprintf(recorded.calls[recorded.count++], RECORDED_TEXT, format, values);
    return recorded.fails_at != 0 &&
           (recorded.sticky ? recorded.count >= recorded.fails_at : recorded.count == recorded.fails_at);
}

__attribute__((format(printf, 1, 2))) static cudaError_t call(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    const bool fails = write_down(format, values);
    va_end(values);
    if (fails) recorded.last = recorded.code;
    return fails ? (cudaError_t)recorded.code : cudaSuccess;
}

int recorded_blas(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    const bool fails = write_down(format, values);
    va_end(values);
    return fails ? recorded.status : 0;
}

int recorded_blas_start(const char *path, int version, int *out)
{
    const int status = recorded_blas("%s %s", out == NULL ? "cublasCreate" : "cublasGetVersion", path);
    if (out != NULL) *out = recorded.version != 0 ? recorded.version : version;
    return status == 0 && recorded.refusing != NULL && strstr(path, recorded.refusing) != NULL ? 1 : status;
}

void recorded_blas_alive(int change)
{
    recorded.alive += change;
}

const void *plugin_kernel(enum kernel kernel)
{
    static const char addresses[KERNEL_COUNT];
    return &addresses[kernel];
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = recorded.devices;
    return (cudaError_t)recorded.counting;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = recorded.driver;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = recorded.runtime;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device)
{
    const cudaError_t code = call("cudaGetDeviceProperties %d", device);
    *out = (struct cudaDeviceProp){.name = "NVIDIA H100 80GB HBM3",
                                   .major = recorded.major,
                                   .minor = recorded.minor,
                                   .pciBusID = 0x3b,
                                   .pciDomainID = 1};
    for (int i = 0; i < 16; i++) out->uuid.bytes[i] = (char)(0x70 + i);
    return code;
}

cudaError_t cudaSetDevice(int device)
{
    return call("cudaSetDevice %d", device);
}

cudaError_t cudaSetDeviceFlags(unsigned flags)
{
    return call("cudaSetDeviceFlags %u", flags);
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    *available = (size_t)recorded.free_mib << 20;
    *total = (size_t)80 << 30;
    return call("cudaMemGetInfo");
}

static cudaError_t take(cudaError_t code, void **out, size_t bytes)
{
    *out = code == cudaSuccess ? calloc(1, bytes) : NULL;
    recorded.alive += *out != NULL;
    return code;
}

/* What could not be ended is gone all the same. */
static cudaError_t drop(cudaError_t code, void *what)
{
    recorded.alive -= what != NULL;
    free(what);
    return code;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    return take(call("cudaMalloc %zu", bytes), out, bytes);
}

cudaError_t cudaFree(void *block)
{
    return drop(call("cudaFree"), block);
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    return take(call("cudaMallocHost %zu", bytes), out, bytes);
}

cudaError_t cudaFreeHost(void *block)
{
    return drop(call("cudaFreeHost"), block);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    memset(to, value, bytes);
    return call("cudaMemsetAsync %d %zu on %d", value, bytes, stream->number);
}

static const char *direction(enum cudaMemcpyKind kind)
{
    return kind == cudaMemcpyHostToDevice ? "in" : "out";
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    memcpy(to, from, bytes);
    return call("cudaMemcpyAsync %zu %s on %d", bytes, direction(kind), stream->number);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows,
                              enum cudaMemcpyKind kind, cudaStream_t stream)
{
    for (size_t i = 0; i < rows; i++) memcpy((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width);
    return call("cudaMemcpy2DAsync %zu from %zu, %zu x %zu %s on %d", to_pitch, from_pitch, rows, width,
                direction(kind), stream->number);
}

/* The next number of those that were made. */
static int next_number(const char *what)
{
    int number = 0;
    for (int i = 0; i < recorded.count; i++) number += strncmp(recorded.calls[i], what, strlen(what)) == 0;
    return number;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    void *made = NULL;
    const cudaError_t code = take(call("cudaStreamCreate %u", flags), &made, sizeof **out);
    if ((*out = made) != NULL) (*out)->number = next_number("cudaStreamCreate");
    return code;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    const cudaError_t code = call("cudaStreamSynchronize %d", stream->number);
    return code == cudaSuccess && recorded.launched > 0 ? (cudaError_t)recorded.late : code;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    return drop(call("cudaStreamDestroy %d", stream->number), stream);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    return call("cudaStreamWaitEvent %d for %d, %u", stream->number, event->number, flags);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    void *made = NULL;
    const cudaError_t code = take(call("cudaEventCreate %u", flags), &made, sizeof **out);
    if ((*out = made) != NULL) (*out)->number = next_number("cudaEventCreate");
    return code;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return call("cudaEventRecord %d on %d", event->number, stream->number);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    return call("cudaEventSynchronize %d", event->number);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    return drop(call("cudaEventDestroy %d", event->number), event);
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 threads, void **args, size_t shared,
                             cudaStream_t stream)
{
    const long number = (const char *)kernel - (const char *)plugin_kernel(0);
    recorded.launched++;
    return call("cudaLaunchKernel %ld, %u %u %u blocks of %u %u %u, %zu, argument %d, on %d", number, grid.x, grid.y,
                grid.z, threads.x, threads.y, threads.z, shared, *(const int *)args[0], stream->number);
}

cudaError_t cudaGetLastError(void)
{
    const int last = recorded.last;
    recorded.last = 0;
    return (cudaError_t)last;
}

cudaError_t cudaPeekAtLastError(void)
{
    return (cudaError_t)recorded.last;
}

const char *cudaGetErrorString(cudaError_t code)
{
    return code == cudaErrorIllegalAddress     ? "an illegal memory access was encountered"
           : code == cudaErrorMemoryAllocation ? "out of memory"
                                               : "another error";
}

const char *cudaGetErrorName(cudaError_t code)
{
#define X(name, number) \
    if (code == number) return #name;
#include "toolkit/errors.h"
#undef X
    return "unrecognized error code";
}
