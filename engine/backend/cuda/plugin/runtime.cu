/* runtime.cu: a device over CUDA's runtime, which is linked in, and cuBLAS, which is looked for when a device is
 * opened: a machine may have it only in PyTorch's package. Its few functions are declared here, so that its headers are
 * not needed. Never run on a GPU yet. */
extern "C" {
#include "backend/cuda/device.h"
}

#include "backend/cuda/plugin/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST_COMPUTE = 80, PATH_TEXT = 1024 };

/* cuBLAS, as its documentation has it (cublas_v2.h): handles are opaque, 0 is success. */
struct cublas {
    void *library, *handle;
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, cudaStream_t stream);
    int (*set_math_mode)(void *handle, int mode);
    int (*version)(void *handle, int *version);
    int (*gemm_ex)(void *handle, int transpose_a, int transpose_b, int m, int n, int k, const void *alpha,
                   const void *a, int a_type, int lda, const void *b, int b_type, int ldb, const void *beta, void *c,
                   int c_type, int ldc, int compute, int algorithm);
    int (*gemm_batched_ex)(void *handle, int transpose_a, int transpose_b, int m, int n, int k, const void *alpha,
                           const void *const *a, int a_type, int lda, const void *const *b, int b_type, int ldb,
                           const void *beta, void *const *c, int c_type, int ldc, int count, int compute,
                           int algorithm);
    int (*ssyrk)(void *handle, int uplo, int transpose, int n, int k, const float *alpha, const float *a, int lda,
                 const float *beta, float *c, int ldc);
};

enum {
    CUBLAS_UPPER = 1,
    CUBLAS_REAL_FLOAT = 0,    /* CUDA_R_32F */
    CUBLAS_PEDANTIC_MATH = 2, /* no TF32 behind the caller's back */
    CUBLAS_DEFAULT_MATH = 0,
    CUBLAS_DEFAULT_ALGORITHM = -1,
    CUBLAS_NO_MEMORY = 3, /* cublasStatus_t: ALLOC_FAILED, MAPPING_ERROR, EXECUTION_FAILED, INTERNAL_ERROR */
    CUBLAS_UNMAPPED = 11,
    CUBLAS_NOT_EXECUTED = 13,
    CUBLAS_BROKEN = 14,
    CUBLAS_FAILED = 100000 /* added to its error numbers, which overlap CUDA's */
};

/* How products are made: cublasComputeType_t. In "bf16" both factors are rounded to bf16 and summed in float. */
static const struct {
    const char *name;
    int compute;
} product_kinds[] = {{"f32", 68}, {"tf32", 77}, {"bf16", 75}};
enum { COMPUTE_FLOAT = 68 };

struct gpu {
    struct device device;
    int ordinal, compute;
    cudaStream_t stream;
    cudaEvent_t marks[2];
    struct {
        cudaStream_t stream;
        cudaEvent_t points[LANE_POINTS], followed;
    } lanes[LANE_COUNT];
    struct cublas blas;
};

static struct gpu *gpu_of(struct device *device)
{
    return (struct gpu *)device->state;
}

/* Every thread has its own idea of the current device. */
static int select_gpu(struct device *device)
{
    return (int)cudaSetDevice(gpu_of(device)->ordinal);
}

static const char *gpu_error_text(int code)
{
    if (code >= CUBLAS_FAILED) return "cuBLAS refused a product";
    return cudaGetErrorString((cudaError_t)code);
}

/* What the runtime's documentation says that only a new process recovers from, and what a device that is lost or in
 * error answers. cuBLAS says of a product that was not started only that. */
static enum device_failure gpu_failure(int code)
{
    static const int faults[] = {
        cudaErrorDevicesUnavailable,      cudaErrorDeviceUninitialized,  cudaErrorECCUncorrectable,
        cudaErrorNvlinkUncorrectable,     cudaErrorIllegalAddress,       cudaErrorLaunchTimeout,
        cudaErrorContextIsDestroyed,      cudaErrorAssert,               cudaErrorHardwareStackError,
        cudaErrorIllegalInstruction,      cudaErrorMisalignedAddress,    cudaErrorInvalidAddressSpace,
        cudaErrorInvalidPc,               cudaErrorLaunchFailure,        cudaErrorSystemNotReady,
        cudaErrorSystemDriverMismatch,    cudaErrorInitializationError,  cudaErrorNoDevice,
        cudaErrorUnknown,                 CUBLAS_FAILED + CUBLAS_UNMAPPED, CUBLAS_FAILED + CUBLAS_NOT_EXECUTED,
        CUBLAS_FAILED + CUBLAS_BROKEN,
    };
    if (code == cudaErrorMemoryAllocation || code == CUBLAS_FAILED + CUBLAS_NO_MEMORY) return DEVICE_FULL;
    for (int fault : faults)
        if (code == fault) return DEVICE_FAULT;
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
    if (result != 0) (void)cudaGetLastError(); /* no memory is an answer, not a broken device */
    return result;
}

static int gpu_release(struct device *device, void *block)
{
    const int code = select_gpu(device);
    return code != 0 ? code : (int)cudaFree(block);
}

static int gpu_allocate_host(struct device *device, size_t bytes, void **out)
{
    const int code = select_gpu(device);
    return code != 0 ? code : (int)cudaMallocHost(out, bytes);
}

static int gpu_release_host(struct device *device, void *block)
{
    const int code = select_gpu(device);
    return code != 0 ? code : (int)cudaFreeHost(block);
}

static int gpu_clear(struct device *device, void *to, size_t bytes)
{
    const int code = select_gpu(device);
    return code != 0 ? code : (int)cudaMemsetAsync(to, 0, bytes, gpu_of(device)->stream);
}

static int gpu_copy(struct device *device, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                    size_t rows, cudaMemcpyKind kind, cudaStream_t stream)
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
    const auto &at = gpu_of(device)->lanes[lane];
    return code != 0 ? code : (int)cudaEventRecord(at.points[which], at.stream);
}

static int gpu_follow(struct device *device, enum lane lane)
{
    const int code = select_gpu(device);
    const auto &at = gpu_of(device)->lanes[lane];
    if (code != 0) return code;
    const int recorded = (int)cudaEventRecord(at.followed, gpu_of(device)->stream);
    return recorded != 0 ? recorded : (int)cudaStreamWaitEvent(at.stream, at.followed, 0);
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

static int gpu_launch(struct device *device, enum kernel kernel, int64_t blocks, const void *args)
{
    void *parameters[] = {const_cast<void *>(args)};
    const int code = select_gpu(device);
    if (code != 0) return code;
    return (int)cudaLaunchKernel(plugin_kernel(kernel), dim3((unsigned)blocks), dim3(KERNEL_THREADS), parameters, 0,
                                 gpu_of(device)->stream);
}

static int cublas_code(int status)
{
    return status == 0 ? 0 : CUBLAS_FAILED + status;
}

static bool fits_int(const struct device_gemm *g)
{
    const int64_t largest = 0x7fffffff;
    return g->m <= largest && g->n <= largest && g->k <= largest && g->lda <= largest && g->ldb <= largest &&
           g->ldc <= largest;
}

static int gpu_gemm(struct device *device, const struct device_gemm *g)
{
    const struct gpu *gpu = gpu_of(device);
    const int code = select_gpu(device);
    if (code != 0) return code;
    if (!fits_int(g)) return CUBLAS_FAILED;
    return cublas_code(gpu->blas.gemm_ex(gpu->blas.handle, g->transpose_a, g->transpose_b, (int)g->m, (int)g->n,
                                         (int)g->k, &g->alpha, g->a, CUBLAS_REAL_FLOAT, (int)g->lda, g->b,
                                         CUBLAS_REAL_FLOAT, (int)g->ldb, &g->beta, g->c, CUBLAS_REAL_FLOAT, (int)g->ldc,
                                         g->exact ? COMPUTE_FLOAT : gpu->compute, CUBLAS_DEFAULT_ALGORITHM));
}

/* Of one product cuBLAS sees where its factors begin. Of arrays of pointers it does not: what is rounded for the tensor
 * cores must begin at multiples of 16 bytes there, and else is multiplied in float. */
static int gpu_gemm_batched(struct device *device, const struct device_gemm_batched *args)
{
    const struct gpu *gpu = gpu_of(device);
    const struct device_gemm *g = &args->each;
    const int code = select_gpu(device);
    if (code != 0) return code;
    if (!fits_int(g) || args->count > 0x7fffffff) return CUBLAS_FAILED;
    return cublas_code(gpu->blas.gemm_batched_ex(
        gpu->blas.handle, g->transpose_a, g->transpose_b, (int)g->m, (int)g->n, (int)g->k, &g->alpha,
        (const void *const *)args->a, CUBLAS_REAL_FLOAT, (int)g->lda, (const void *const *)args->b, CUBLAS_REAL_FLOAT,
        (int)g->ldb, &g->beta, (void *const *)args->c, CUBLAS_REAL_FLOAT, (int)g->ldc, (int)args->count,
        args->aligned ? gpu->compute : COMPUTE_FLOAT, CUBLAS_DEFAULT_ALGORITHM));
}

static int gpu_syrk(struct device *device, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, float beta,
                    float *c, int64_t ldc)
{
    const struct gpu *gpu = gpu_of(device);
    const int code = select_gpu(device);
    if (code != 0) return code;
    return cublas_code(
        gpu->blas.ssyrk(gpu->blas.handle, CUBLAS_UPPER, 0, (int)n, (int)k, &alpha, a, (int)lda, &beta, c, (int)ldc));
}

static void *open_in(const char *directory, const char *name)
{
    char path[PATH_TEXT];
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path) return NULL;
    return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

/* In a directory, or with NULL by the system's own search. cuBLAS needs cublasLt of the same version beside it. */
static void *open_version(const char *directory, int version)
{
    char first[64], second[64];
    (void)snprintf(first, sizeof first, "libcublasLt.so.%d", version);
    (void)snprintf(second, sizeof second, "libcublas.so.%d", version);
    if (directory == NULL) return dlopen(second, RTLD_NOW | RTLD_LOCAL);
    (void)open_in(directory, first);
    return open_in(directory, second);
}

static void *find_cublas(void)
{
    static const char *const usual[] = {"/usr/local/cuda/lib64",
#if defined(__aarch64__)
                                        "/usr/lib/aarch64-linux-gnu",
#else
                                        "/usr/lib/x86_64-linux-gnu",
#endif
                                        NULL};
    const char *named = getenv("DELTAQ_CUBLAS"), *directories = getenv("DELTAQ_CUDA_LIBRARIES");
    void *library = NULL;
    if (named != NULL) return dlopen(named, RTLD_NOW | RTLD_LOCAL);
    for (int version = 13; version >= 11 && library == NULL; version--) {
        for (const char *at = directories; at != NULL && *at != '\0' && library == NULL;) {
            char directory[PATH_TEXT];
            const int length = (int)strcspn(at, ":");
            (void)snprintf(directory, sizeof directory, "%.*s", length, at);
            library = open_version(directory, version);
            at += length + (at[length] == ':');
        }
        if (library == NULL) library = open_version(NULL, version);
        for (int i = 0; usual[i] != NULL && library == NULL; i++) library = open_version(usual[i], version);
    }
    return library;
}

static bool resolve(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool cublas_open(struct cublas *blas, char *text, size_t size)
{
    blas->library = find_cublas();
    if (blas->library == NULL) {
        (void)snprintf(
            text, size,
            "found no cuBLAS (libcublas.so.13, .12 or .11): name its directory in DELTAQ_CUDA_LIBRARIES, such as "
            "nvidia/cublas/lib of the Python packages beside PyTorch");
        return false;
    }
    if (resolve(blas->library, "cublasCreate_v2", &blas->create) &&
        resolve(blas->library, "cublasDestroy_v2", &blas->destroy) &&
        resolve(blas->library, "cublasSetStream_v2", &blas->set_stream) &&
        resolve(blas->library, "cublasSetMathMode", &blas->set_math_mode) &&
        resolve(blas->library, "cublasGetVersion_v2", &blas->version) &&
        resolve(blas->library, "cublasGemmEx", &blas->gemm_ex) &&
        resolve(blas->library, "cublasGemmBatchedEx", &blas->gemm_batched_ex) &&
        resolve(blas->library, "cublasSsyrk_v2", &blas->ssyrk))
        return true;
    (void)snprintf(text, size, "the cuBLAS found lacks a function that products need: another version is wanted");
    return false;
}

static void gpu_close(struct device *device)
{
    struct gpu *gpu = gpu_of(device);
    (void)select_gpu(device);
    if (gpu->blas.handle != NULL) (void)gpu->blas.destroy(gpu->blas.handle);
    for (int i = 0; i < 2; i++)
        if (gpu->marks[i] != NULL) (void)cudaEventDestroy(gpu->marks[i]);
    for (auto &lane : gpu->lanes) {
        if (lane.stream != NULL) (void)cudaStreamSynchronize(lane.stream);
        for (cudaEvent_t point : lane.points)
            if (point != NULL) (void)cudaEventDestroy(point);
        if (lane.followed != NULL) (void)cudaEventDestroy(lane.followed);
        if (lane.stream != NULL) (void)cudaStreamDestroy(lane.stream);
    }
    if (gpu->stream != NULL) (void)cudaStreamDestroy(gpu->stream);
    free(gpu);
}

static const struct device functions = {
    NULL,
    {0},
    {{0}, {0}, {0}},
    0,
    0,
    gpu_close,
    gpu_error_text,
    gpu_failure,
    gpu_memory,
    gpu_allocate,
    gpu_release,
    gpu_allocate_host,
    gpu_release_host,
    gpu_clear,
    gpu_upload,
    gpu_download,
    gpu_mark,
    gpu_wait,
    gpu_synchronize,
    gpu_carry,
    gpu_point,
    gpu_follow,
    gpu_await,
    gpu_arrive,
    gpu_launch,
    gpu_gemm,
    gpu_gemm_batched,
    gpu_syrk,
};

static bool check(cudaError_t code, const char *what, char *text, size_t size)
{
    if (code == cudaSuccess) return true;
    (void)snprintf(text, size, "%s: %s", what, cudaGetErrorString(code));
    return false;
}

/* The properties come without a context: nothing is made on the device. */
static void identity_of(const cudaDeviceProp *found, struct device_identity *out)
{
    const unsigned char *u = (const unsigned char *)found->uuid.bytes;
    (void)snprintf(out->name, sizeof out->name, "%.79s", found->name);
    (void)snprintf(out->uuid, sizeof out->uuid,
                   "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2], u[3],
                   u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
    (void)snprintf(out->bus, sizeof out->bus, "%04x:%02x:%02x.0", (unsigned)found->pciDomainID,
                   (unsigned)found->pciBusID, (unsigned)found->pciDeviceID);
}

static bool describe(struct gpu *gpu, const char *products, char *text, size_t size)
{
    cudaDeviceProp found;
    size_t available = 0, total = 0;
    int version = 0;
    if (!check(cudaGetDeviceProperties(&found, gpu->ordinal), "reading the device's properties", text, size))
        return false;
    if (found.major * 10 + found.minor < OLDEST_COMPUTE) {
        (void)snprintf(text, size, "%s has compute capability %d.%d; deltaq's kernels need 8.0", found.name,
                       found.major, found.minor);
        return false;
    }
    if (!check(cudaMemGetInfo(&available, &total), "reading the device's memory", text, size)) return false;
    (void)gpu->blas.version(gpu->blas.handle, &version);
    gpu->device.memory_free = (int64_t)available;
    gpu->device.memory_total = (int64_t)total;
    identity_of(&found, &gpu->device.identity);
    (void)snprintf(gpu->device.text, sizeof gpu->device.text, "%s (sm_%d%d), %lld MiB, cuBLAS %d, products in %s",
                   found.name, found.major, found.minor, (long long)(total >> 20), version, products);
    return true;
}

static bool make_event(cudaEvent_t *event, char *text, size_t size)
{
    return check(cudaEventCreateWithFlags(event, cudaEventDisableTiming | cudaEventBlockingSync), "making an event",
                 text, size);
}

static bool start(struct gpu *gpu, const char *products, char *text, size_t size)
{
    gpu->compute = -1;
    for (size_t i = 0; i < sizeof product_kinds / sizeof product_kinds[0]; i++)
        if (strcmp(products, product_kinds[i].name) == 0) gpu->compute = product_kinds[i].compute;
    if (gpu->compute < 0) {
        (void)snprintf(text, size, "products in \"%s\": expected f32, tf32 or bf16", products);
        return false;
    }
    /* The one device that this process has a context on. Who waits for it sleeps: the processor is for others. */
    if (!check(cudaSetDevice(gpu->ordinal), "choosing the device", text, size)) return false;
    const cudaError_t flags = cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync);
    if (flags == cudaErrorSetOnActiveProcess) /* an older runtime, and an earlier run's flags hold */
        (void)cudaGetLastError();
    else if (!check(flags, "having waits block", text, size))
        return false;
    if (!check(cudaStreamCreateWithFlags(&gpu->stream, cudaStreamNonBlocking), "making a stream", text, size))
        return false;
    for (cudaEvent_t &mark : gpu->marks)
        if (!make_event(&mark, text, size)) return false;
    for (auto &lane : gpu->lanes) {
        if (!check(cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking), "making a stream", text, size))
            return false;
        if (!make_event(&lane.followed, text, size)) return false;
        for (cudaEvent_t &point : lane.points)
            if (!make_event(&point, text, size)) return false;
    }
    if (!cublas_open(&gpu->blas, text, size)) return false;
    const int mode = strcmp(products, "f32") == 0 ? CUBLAS_PEDANTIC_MATH : CUBLAS_DEFAULT_MATH;
    if (gpu->blas.create(&gpu->blas.handle) != 0 || gpu->blas.set_stream(gpu->blas.handle, gpu->stream) != 0 ||
        gpu->blas.set_math_mode(gpu->blas.handle, mode) != 0) {
        (void)snprintf(text, size, "cuBLAS does not start on this device");
        return false;
    }
    return describe(gpu, products, text, size);
}

static struct device *plugin_open(int ordinal, const char *products, char *text, size_t size,
                                  enum device_failure *failure)
{
    struct gpu *gpu = (struct gpu *)calloc(1, sizeof *gpu);
    *failure = DEVICE_REFUSED;
    (void)cudaGetLastError(); /* an older one that was answered */
    if (gpu == NULL) {
        (void)snprintf(text, size, "no memory for a device");
        return NULL;
    }
    gpu->device = functions;
    gpu->device.state = gpu;
    gpu->ordinal = ordinal;
    if (start(gpu, products, text, size)) return &gpu->device;
    *failure = gpu_failure((int)cudaGetLastError());
    gpu_close(&gpu->device);
    return NULL;
}

static int plugin_count(char *text, size_t size)
{
    int count = 0, driver = 0;
    const cudaError_t code = cudaGetDeviceCount(&count);
    if (code == cudaSuccess && count > 0) {
        (void)cudaDriverGetVersion(&driver);
        (void)snprintf(text, size, "%d CUDA device%s, driver for CUDA %d.%d", count, count == 1 ? "" : "s",
                       driver / 1000, driver % 1000 / 10);
        return count;
    }
    const bool without_driver = cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0;
    (void)snprintf(text, size, "%s",
                   code == cudaSuccess ? "the driver shows no device"
                   : without_driver    ? "no NVIDIA driver here (libcuda.so.1)"
                                       : cudaGetErrorString(code));
    return 0;
}

static bool plugin_identify(int ordinal, struct device_identity *out, char *text, size_t size)
{
    cudaDeviceProp found;
    if (!check(cudaGetDeviceProperties(&found, ordinal), "reading the device's properties", text, size)) return false;
    identity_of(&found, out);
    return true;
}

extern "C" __attribute__((visibility("default"))) const struct device_plugin deltaq_cuda_plugin;
const struct device_plugin deltaq_cuda_plugin = {
    CUDA_PLUGIN_VERSION, sizeof(struct attention_kernel_args), sizeof(struct device), plugin_count, plugin_identify,
    plugin_open};
