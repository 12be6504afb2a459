#include "backend/cuda/plugin/gpu.h"

#include "backend/cuda/plugin/plugin.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

static struct gpu *gpu_of(struct device *device)
{
    return device->state;
}

/* The current device is a setting of each thread. */
static int select_gpu(struct device *device)
{
    return (int)cudaSetDevice(gpu_of(device)->ordinal);
}

/* If cuBLAS did not start a product, its status does not say why; an error that the runtime has noticed may. */
void gpu_error_text(int code, char *text, size_t size)
{
    const cudaError_t below = code >= GPU_BLAS_FAILED ? cudaPeekAtLastError() : cudaSuccess;
    if (below != cudaSuccess)
        (void)snprintf(text, size, "%s, and CUDA %s (%s, %d)", gpu_blas_status(code), cudaGetErrorString(below),
                       cudaGetErrorName(below), (int)below);
    else if (code >= GPU_BLAS_FAILED)
        (void)snprintf(text, size, "%s", gpu_blas_status(code));
    else
        (void)snprintf(text, size, "%s (%s, %d)", cudaGetErrorString((cudaError_t)code),
                       cudaGetErrorName((cudaError_t)code), code);
}

/* Faults: errors from which, according to the runtime's documentation, only a new process recovers, and the answers of
 * a lost or failed device. */
enum device_failure gpu_failure(int code)
{
    static const int faults[] = {
        cudaErrorDevicesUnavailable,
        cudaErrorDeviceUninitialized,
        cudaErrorECCUncorrectable,
        cudaErrorNvlinkUncorrectable,
        226, /* cudaErrorContained, which older toolkits lack */
        cudaErrorIllegalAddress,
        cudaErrorLaunchTimeout,
        cudaErrorContextIsDestroyed,
        cudaErrorAssert,
        cudaErrorHardwareStackError,
        cudaErrorIllegalInstruction,
        cudaErrorMisalignedAddress,
        cudaErrorInvalidAddressSpace,
        cudaErrorInvalidPc,
        cudaErrorLaunchFailure,
        721, /* cudaErrorTensorMemoryLeak, too */
        /* cudaErrorMps…, some of which older toolkits lack: the server of CUDA's multi-process service is missing, is
         * not ready, has no space, or has ended this process because another one failed */
        805,
        806,
        807,
        808,
        809,
        810,
        911, /* cudaErrorExternalDevice */
        cudaErrorSystemNotReady,
        cudaErrorSystemDriverMismatch,
        cudaErrorInitializationError,
        cudaErrorNoDevice,
        cudaErrorUnknown,
    };
    if (code >= GPU_BLAS_FAILED) return gpu_blas_failure(code);
    if (code == cudaErrorMemoryAllocation) return DEVICE_FULL;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        if (code == faults[i]) return DEVICE_FAULT;
    return DEVICE_REFUSED;
}

static int gpu_memory(struct device *device, int64_t *available, int64_t *total)
{
    size_t bytes[2] = {0, 0};
    const int code = select_gpu(device);
    const int result = code != 0 ? code : (int)cudaMemGetInfo(&bytes[0], &bytes[1]);
    *available = (int64_t)bytes[0];
    *total = (int64_t)bytes[1];
    return result;
}

static int gpu_allocate(struct device *device, size_t bytes, void **out)
{
    const int code = select_gpu(device);
    if (code != 0) return code;
    const int result = (int)cudaMalloc(out, bytes);
    if (result != 0) (void)cudaGetLastError(); /* clears the error: lack of memory is an answer, not a broken device */
    return result;
}

static int gpu_release(struct device *device, void *block)
{
    const int code = select_gpu(device), freed = (int)cudaFree(block); /* an address belongs to one device */
    return code != 0 ? code : freed;
}

static int gpu_allocate_host(struct device *device, size_t bytes, void **out)
{
    const int code = select_gpu(device);
    if (code != 0) return code;
    const int result = (int)cudaMallocHost(out, bytes);
    if (result != 0) (void)cudaGetLastError(); /* likewise */
    return result;
}

static int gpu_release_host(struct device *device, void *block)
{
    const int code = select_gpu(device), freed = (int)cudaFreeHost(block);
    return code != 0 ? code : freed;
}

static int gpu_clear(struct device *device, void *to, size_t bytes)
{
    const int code = select_gpu(device);
    return code != 0 ? code : (int)cudaMemsetAsync(to, 0, bytes, gpu_of(device)->stream);
}

static int gpu_copy(struct device *device, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                    size_t rows, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    const int code = select_gpu(device);
    if (code != 0) return code;
    if (rows == 1 || (to_pitch == width && from_pitch == width))
        return (int)cudaMemcpyAsync(to, from, width * rows, kind, stream);
    return (int)cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, rows, kind, stream);
}

static int gpu_upload(struct device *device, void *to, size_t to_pitch, const void *from, size_t from_pitch,
                      size_t width, size_t rows)
{
    return gpu_copy(device, to, to_pitch, from, from_pitch, width, rows, cudaMemcpyHostToDevice,
                    gpu_of(device)->stream);
}

static int gpu_download(struct device *device, void *to, size_t to_pitch, const void *from, size_t from_pitch,
                        size_t width, size_t rows)
{
    return gpu_copy(device, to, to_pitch, from, from_pitch, width, rows, cudaMemcpyDeviceToHost,
                    gpu_of(device)->stream);
}

static int gpu_mark(struct device *device, int which)
{
    const int code = select_gpu(device);
    return code != 0 ? code : (int)cudaEventRecord(gpu_of(device)->marks[which], gpu_of(device)->stream);
}

static int gpu_wait(struct device *device, int which)
{
    const int code = select_gpu(device);
    return code != 0 ? code : (int)cudaEventSynchronize(gpu_of(device)->marks[which]);
}

static int gpu_synchronize(struct device *device)
{
    const int code = select_gpu(device);
    return code != 0 ? code : (int)cudaStreamSynchronize(gpu_of(device)->stream);
}

static int gpu_carry(struct device *device, enum lane lane, void *to, size_t to_pitch, const void *from,
                     size_t from_pitch, size_t width, size_t rows, bool to_device)
{
    return gpu_copy(device, to, to_pitch, from, from_pitch, width, rows,
                    to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, gpu_of(device)->lanes[lane].stream);
}

static int gpu_point(struct device *device, enum lane lane, int which)
{
    const int code = select_gpu(device);
    struct gpu *gpu = gpu_of(device);
    return code != 0 ? code : (int)cudaEventRecord(gpu->lanes[lane].points[which], gpu->lanes[lane].stream);
}

static int gpu_follow(struct device *device, enum lane lane)
{
    const int code = select_gpu(device);
    struct gpu *gpu = gpu_of(device);
    if (code != 0) return code;
    const int recorded = (int)cudaEventRecord(gpu->lanes[lane].followed, gpu->stream);
    return recorded != 0 ? recorded : (int)cudaStreamWaitEvent(gpu->lanes[lane].stream, gpu->lanes[lane].followed, 0);
}

static int gpu_await(struct device *device, enum lane lane, int which)
{
    const int code = select_gpu(device);
    return code != 0 ? code
                     : (int)cudaStreamWaitEvent(gpu_of(device)->stream, gpu_of(device)->lanes[lane].points[which], 0);
}

static int gpu_arrive(struct device *device, enum lane lane, int which)
{
    const int code = select_gpu(device);
    return code != 0 ? code : (int)cudaEventSynchronize(gpu_of(device)->lanes[lane].points[which]);
}

/* The cast is safe: the runtime only reads the arguments. */
static int gpu_launch(struct device *device, enum kernel kernel, int64_t blocks, const void *args)
{
    void *parameters[] = {(void *)(uintptr_t)args};
    const dim3 grid = {(unsigned)blocks, 1, 1}, threads = {KERNEL_THREADS, 1, 1};
    const int code = select_gpu(device);
    if (code != 0) return code;
    return (int)cudaLaunchKernel(plugin_kernel(kernel), grid, threads, parameters, 0, gpu_of(device)->stream);
}

static int gpu_gemm(struct device *device, const struct device_gemm *args)
{
    const int code = select_gpu(device);
    return code != 0 ? code : gpu_blas_gemm(&gpu_of(device)->blas, args);
}

static int gpu_gemm_batched(struct device *device, const struct device_gemm_batched *args)
{
    const int code = select_gpu(device);
    return code != 0 ? code : gpu_blas_gemm_batched(&gpu_of(device)->blas, args);
}

static void destroy_event(cudaEvent_t event)
{
    if (event != NULL) (void)cudaEventDestroy(event);
}

static void gpu_close(struct device *device)
{
    struct gpu *gpu = gpu_of(device);
    (void)select_gpu(device);
    gpu_blas_close(&gpu->blas);
    for (int i = 0; i < 2; i++) destroy_event(gpu->marks[i]);
    for (int i = 0; i < LANE_COUNT; i++) {
        if (gpu->lanes[i].stream != NULL) (void)cudaStreamSynchronize(gpu->lanes[i].stream);
        for (int point = 0; point < LANE_POINTS; point++) destroy_event(gpu->lanes[i].points[point]);
        destroy_event(gpu->lanes[i].followed);
        if (gpu->lanes[i].stream != NULL) (void)cudaStreamDestroy(gpu->lanes[i].stream);
    }
    if (gpu->stream != NULL) (void)cudaStreamDestroy(gpu->stream);
    free(gpu);
}

void gpu_init(struct gpu *gpu, int ordinal)
{
    *gpu = (struct gpu){.ordinal = ordinal};
    gpu->device = (struct device){
        .state = gpu,
        .close = gpu_close,
        .error_text = gpu_error_text,
        .failure = gpu_failure,
        .memory = gpu_memory,
        .allocate = gpu_allocate,
        .release = gpu_release,
        .allocate_host = gpu_allocate_host,
        .release_host = gpu_release_host,
        .clear = gpu_clear,
        .upload = gpu_upload,
        .download = gpu_download,
        .mark = gpu_mark,
        .wait = gpu_wait,
        .synchronize = gpu_synchronize,
        .carry = gpu_carry,
        .point = gpu_point,
        .follow = gpu_follow,
        .await = gpu_await,
        .arrive = gpu_arrive,
        .launch = gpu_launch,
        .gemm = gpu_gemm,
        .gemm_batched = gpu_gemm_batched,
    };
}
