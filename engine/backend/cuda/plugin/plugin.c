#include "backend/cuda/plugin/plugin.h"

#include "backend/cuda/plugin/gpu.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST_COMPUTE = 80, VERSION_TEXT = 32 };
/* On newer devices a handle of cuBLAS takes a workspace of 32 MiB, and memory for its first kernels. */
enum { BLAS_BYTES = 256 << 20 };

/* The driver's kernel module reports its version in this file. */
#ifndef PLUGIN_DRIVER_FILE
#define PLUGIN_DRIVER_FILE "/proc/driver/nvidia/version"
#endif

/* Reports a step of opening that failed. */
static int check(cudaError_t code, const char *what, char *text, size_t size)
{
    if (code == cudaSuccess) return 0;
    const int length = snprintf(text, size, "%s: ", what);
    if (length > 0 && (size_t)length < size) gpu_error_text((int)code, text + length, size - (size_t)length);
    return (int)code;
}

/* 12080 is 12.8. */
static void write_version(int version, char text[static VERSION_TEXT])
{
    (void)snprintf(text, VERSION_TEXT, "%d.%d", version / 1000, version % 1000 / 10);
}

/* Reads "580.95.05", or nothing: the first word of the line that is a number with a point ("NVIDIA UNIX Open Kernel
 * Module for x86_64 580.95.05 Release Build"). */
static void read_driver(char text[static VERSION_TEXT])
{
    char line[200] = "";
    FILE *file = fopen(PLUGIN_DRIVER_FILE, "re");
    text[0] = '\0';
    if (file == NULL) return;
    const bool read = fgets(line, sizeof line, file) != NULL;
    (void)fclose(file);
    for (const char *at = line; read && *at != '\0';) {
        const size_t length = strcspn(at, " \t\n"), digits = strspn(at, "0123456789.");
        if (length > 0 && digits == length && memchr(at, '.', length) != NULL) {
            (void)snprintf(text, VERSION_TEXT, "%.*s", (int)length, at);
            return;
        }
        at += length + (at[length] != '\0');
    }
}

/* The driver that each runtime requires (CUDA's release notes). */
static int driver_wanted(int runtime)
{
    static const struct {
        int major, driver;
    } wanted[] = {{13, 580}, {12, 525}, {11, 450}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (runtime / 1000 == wanted[i].major) return wanted[i].driver;
    return 0;
}

struct versions {
    int driver, runtime; /* 0: none */
    char driver_text[VERSION_TEXT], runtime_text[VERSION_TEXT], module[VERSION_TEXT];
};

static void read_versions(struct versions *out)
{
    *out = (struct versions){.driver = 0};
    if (cudaDriverGetVersion(&out->driver) != cudaSuccess) out->driver = 0;
    if (cudaRuntimeGetVersion(&out->runtime) != cudaSuccess) out->runtime = CUDART_VERSION;
    write_version(out->driver, out->driver_text);
    write_version(out->runtime, out->runtime_text);
    read_driver(out->module);
}

static void say_too_old(const struct versions *found, char *text, size_t size)
{
    (void)snprintf(
        text, size,
        "the NVIDIA driver%s%s knows CUDA %s, and this plugin has the runtime of CUDA %s: it needs driver %d "
        "or newer, or a plugin that was built with a toolkit of CUDA %d",
        found->module[0] != '\0' ? " " : "", found->module, found->driver_text, found->runtime_text,
        driver_wanted(found->runtime), found->driver / 1000);
}

/* Says why there are no devices. True: nothing is installed that should work. */
static bool say_none(cudaError_t code, char *text, size_t size)
{
    struct versions found;
    read_versions(&found);
    (void)cudaGetLastError(); /* answered */
    if (found.driver == 0 && found.module[0] != '\0') {
        (void)snprintf(text, size,
                       "the NVIDIA driver %s is loaded, and its library libcuda.so.1 is not here: a container needs "
                       "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
                       found.module);
        return false;
    }
    if (found.driver == 0) return (void)snprintf(text, size, "no NVIDIA driver here (libcuda.so.1)"), true;
    if (code == cudaErrorInsufficientDriver) return say_too_old(&found, text, size), false;
    if (code == cudaSuccess || code == cudaErrorNoDevice)
        return (void)snprintf(text, size, "the driver shows no device"), true;
    return check(code, "counting devices", text, size) == 0;
}

static int plugin_count(char *text, size_t size, bool *sound)
{
    struct versions found;
    int count = 0;
    const cudaError_t code = cudaGetDeviceCount(&count);
    *sound = true;
    if (code != cudaSuccess || count == 0) {
        *sound = say_none(code, text, size);
        return 0;
    }
    read_versions(&found);
    (void)snprintf(text, size, "%d CUDA device%s, driver %s%sfor CUDA %s, runtime %s, built with the toolkit %d.%d",
                   count, count == 1 ? "" : "s", found.module, found.module[0] != '\0' ? " " : "", found.driver_text,
                   found.runtime_text, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    return count;
}

/* Reading the properties makes no context on the device. */
static void identity_of(const struct cudaDeviceProp *found, struct device_identity *out)
{
    const unsigned char *u = (const unsigned char *)found->uuid.bytes;
    (void)snprintf(out->name, sizeof out->name, "%.79s", found->name);
    (void)snprintf(out->uuid, sizeof out->uuid,
                   "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2], u[3],
                   u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
    (void)snprintf(out->bus, sizeof out->bus, "%04x:%02x:%02x.0", (unsigned)found->pciDomainID,
                   (unsigned)found->pciBusID, (unsigned)found->pciDeviceID);
}

static bool plugin_identify(int ordinal, struct device_identity *out, char *text, size_t size)
{
    struct cudaDeviceProp found;
    if (check(cudaGetDeviceProperties(&found, ordinal), "reading the device's properties", text, size) != 0)
        return false;
    identity_of(&found, out);
    return true;
}

static int describe(struct gpu *gpu, const char *products, char *text, size_t size)
{
    struct cudaDeviceProp found;
    size_t available = 0, total = 0;
    const int version = gpu->blas.version;
    int code = check(cudaGetDeviceProperties(&found, gpu->ordinal), "reading the device's properties", text, size);
    if (code != 0) return code;
    if (found.major * 10 + found.minor < OLDEST_COMPUTE) {
        (void)snprintf(text, size, "%s has compute capability %d.%d; deltaq's kernels need 8.0", found.name,
                       found.major, found.minor);
        return cudaErrorNoKernelImageForDevice;
    }
    if ((code = check(cudaMemGetInfo(&available, &total), "reading the device's memory", text, size)) != 0) return code;
    gpu->device.memory_free = (int64_t)available;
    gpu->device.memory_total = (int64_t)total;
    identity_of(&found, &gpu->device.identity);
    gpu->device.narrow = strcmp(products, "bf16") == 0;
    (void)snprintf(gpu->device.text, sizeof gpu->device.text, "%s (sm_%d%d), %lld MiB, cuBLAS %d, products in %s",
                   found.name, found.major, found.minor, (long long)(total >> 20), version, products);
    return 0;
}

static int make_stream(cudaStream_t *stream, char *text, size_t size)
{
    return check(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "making a stream", text, size);
}

static int make_event(cudaEvent_t *event, char *text, size_t size)
{
    return check(cudaEventCreateWithFlags(event, cudaEventDisableTiming | cudaEventBlockingSync), "making an event",
                 text, size);
}

/* Chooses the only device on which this process has a context. Waiting threads sleep, to leave the processor to
 * others. */
static int choose(int ordinal, char *text, size_t size)
{
    const int code = check(cudaSetDevice(ordinal), "choosing the device", text, size);
    if (code != 0) return code;
    const cudaError_t flags = cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync);
    if (flags != cudaErrorSetOnActiveProcess) return check(flags, "having waits block", text, size);
    (void)cudaGetLastError(); /* an error of an older runtime: the flags of an earlier run stay */
    return 0;
}

/* On a device whose memory is taken by others, cublasCreate reports that CUDA could not be initialised. This counts as
 * lack of memory, so that the run is tried again. */
static int open_blas(struct gpu *gpu, const char *products, char *text, size_t size)
{
    size_t available = 0, total = 0;
    const int code = gpu_blas_open(&gpu->blas, gpu->stream, products, text, size);
    if (code != GPU_BLAS_NOT_STARTED || cudaMemGetInfo(&available, &total) != cudaSuccess || available >= BLAS_BYTES)
        return code;
    const size_t length = strlen(text);
    (void)snprintf(text + length, size - length, "; the device has %zu MiB left", available >> 20);
    return GPU_BLAS_FULL;
}

/* On failure the caller's `close` of the device releases what was made. */
static int start(struct gpu *gpu, const char *products, char *text, size_t size)
{
    int code = choose(gpu->ordinal, text, size);
    if (code != 0 || (code = make_stream(&gpu->stream, text, size)) != 0) return code;
    for (int i = 0; i < 2; i++)
        if ((code = make_event(&gpu->marks[i], text, size)) != 0) return code;
    for (int i = 0; i < LANE_COUNT; i++) {
        if ((code = make_stream(&gpu->lanes[i].stream, text, size)) != 0) return code;
        if ((code = make_event(&gpu->lanes[i].followed, text, size)) != 0) return code;
        for (int point = 0; point < LANE_POINTS; point++)
            if ((code = make_event(&gpu->lanes[i].points[point], text, size)) != 0) return code;
    }
    if ((code = open_blas(gpu, products, text, size)) != 0) return code;
    return describe(gpu, products, text, size);
}

static struct device *plugin_open(int ordinal, const char *products, char *text, size_t size,
                                  enum device_failure *failure)
{
    struct gpu *gpu = malloc(sizeof *gpu);
    *failure = DEVICE_FULL;
    if (gpu == NULL) return (void)snprintf(text, size, "no memory for a device"), NULL;
    gpu_init(gpu, ordinal);
    const int code = start(gpu, products, text, size);
    if (code == 0) return &gpu->device;
    *failure = gpu_failure(code);
    (void)cudaGetLastError(); /* answered */
    gpu->device.close(&gpu->device);
    return NULL;
}

static const size_t sizes[] = DEVICE_ALL_SIZES;

extern const struct device_plugin deltaq_cuda_plugin;
__attribute__((visibility("default"))) const struct device_plugin deltaq_cuda_plugin = {
    CUDA_PLUGIN_VERSION, DEVICE_SIZE_COUNT, CUDA_SOURCES, sizes, plugin_count, plugin_identify, plugin_open,
};
