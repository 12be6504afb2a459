#include "backend/cuda/plugin/gpu_blas.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NOT_FOUND = GPU_BLAS_FAILED, /* no library was found: used like a status */
    REAL_FLOAT = 0,              /* CUDA_R_32F */
    REAL_BF16 = 14,              /* CUDA_R_16BF */
    COMPUTE_FLOAT = 68,          /* CUBLAS_COMPUTE_32F: never uses TF32 unasked */
    DEFAULT_ALGORITHM = -1,
    LARGEST_INT = 0x7fffffff,
    NO_MEMORY = 3, /* cublasStatus_t */
    UNMAPPED = 11,
    NOT_EXECUTED = 13,
    BROKEN = 14
};

/* Precision of products as cublasComputeType_t. "bf16" rounds both factors to bf16 and sums in float. */
static const struct {
    const char *name;
    int compute;
} product_kinds[] = {{"f32", COMPUTE_FLOAT}, {"tf32", 77}, {"bf16", 75}};

/* Directories to search; the empty name means the system's search path. */
#ifndef GPU_BLAS_PLACES
#if defined(__aarch64__)
#define GPU_BLAS_PLACES "", "/usr/local/cuda/lib64", "/usr/lib/aarch64-linux-gnu"
#else
#define GPU_BLAS_PLACES "", "/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu"
#endif
#endif

/* The libraries that were tried, and the outcomes. */
struct tries {
    char *text;
    size_t size, length;
    int code; /* of the last one */
};

__attribute__((format(printf, 3, 4))) static void note(struct tries *tries, int code, const char *format, ...)
{
    va_list values;
    tries->code = code;
    if (tries->length + 3 >= tries->size) return;
    if (tries->length > 0) tries->length += (size_t)snprintf(tries->text + tries->length, 3, "; ");
    va_start(values, format);
    const int written = vsnprintf(tries->text + tries->length, tries->size - tries->length, format, values);
    va_end(values);
    if (written > 0) tries->length += (size_t)written;
    if (tries->length >= tries->size) tries->length = tries->size - 1;
}

static bool resolve(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* The name of a function that the library lacks, or NULL. */
static const char *resolve_all(struct gpu_blas *blas, void *library)
{
    const struct {
        const char *name;
        void *function;
    } wanted[] = {
        {"cublasCreate_v2", &blas->create},        {"cublasDestroy_v2", &blas->destroy},
        {"cublasSetStream_v2", &blas->set_stream}, {"cublasGetVersion_v2", &blas->get_version},
        {"cublasGemmEx", &blas->gemm_ex},          {"cublasGemmBatchedEx", &blas->gemm_batched_ex},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (!resolve(library, wanted[i].name, wanted[i].function)) return wanted[i].name;
    return NULL;
}

/* The major version: 130101 is 13.1.1; early versions of 11 were numbered 11000. */
static int major(int version)
{
    return version >= 100000 ? version / 10000 : version / 1000;
}

/* A library that does not start stays loaded, because its own threads and destructors may still run. */
static bool start(struct gpu_blas *blas, void *library, struct CUstream_st *stream, struct tries *tries)
{
    const char *lacks = resolve_all(blas, library);
    int status = 0;
    if (lacks != NULL) return note(tries, NOT_FOUND, "%s lacks %s", blas->path, lacks), false;
    if ((status = blas->create(&blas->handle)) != 0) {
        blas->handle = NULL;
        note(tries, GPU_BLAS_FAILED + status, "%s: cublasCreate: %s", blas->path,
             gpu_blas_status(GPU_BLAS_FAILED + status));
        return false;
    }
    if ((status = blas->get_version(blas->handle, &blas->version)) != 0)
        note(tries, GPU_BLAS_FAILED + status, "%s: cublasGetVersion: %s", blas->path,
             gpu_blas_status(GPU_BLAS_FAILED + status));
    else if (major(blas->version) < GPU_BLAS_OLDEST || major(blas->version) > GPU_BLAS_NEWEST)
        note(tries, NOT_FOUND, "%s has version %d, %d to %d are known", blas->path, major(blas->version),
             GPU_BLAS_OLDEST, GPU_BLAS_NEWEST);
    else if ((status = blas->set_stream(blas->handle, stream)) != 0)
        note(tries, GPU_BLAS_FAILED + status, "%s: cublasSetStream: %s", blas->path,
             gpu_blas_status(GPU_BLAS_FAILED + status));
    else
        return true;
    gpu_blas_close(blas);
    return false;
}

/* Loads a version from a directory, or from the system's search path. cuBLAS needs cublasLt of the same version from
 * the same directory, which the system may not search; so cublasLt is loaded first, and cuBLAS then finds it by
 * name. */
static void *load_version(struct gpu_blas *blas, const char *directory, int version)
{
    char beside[GPU_BLAS_PATH];
    const char *slash = *directory != '\0' ? "/" : "";
    if (snprintf(beside, sizeof beside, "%s%slibcublasLt.so.%d", directory, slash, version) >= (int)sizeof beside)
        return NULL;
    (void)snprintf(blas->path, sizeof blas->path, "%s%slibcublas.so.%d", directory, slash, version);
    if (*directory != '\0') (void)dlopen(beside, RTLD_NOW | RTLD_LOCAL);
    return dlopen(blas->path, RTLD_NOW | RTLD_LOCAL);
}

/* A library that exists and does not load is reported; one that does not exist is not. If memory is short, the search
 * ends, because another library would not find more. */
static bool try_place(struct gpu_blas *blas, const char *directory, struct CUstream_st *stream, struct tries *tries)
{
    for (int version = GPU_BLAS_NEWEST; version >= GPU_BLAS_OLDEST; version--) {
        void *library = load_version(blas, directory, version);
        const char *why = library == NULL ? dlerror() : NULL;
        if (library != NULL && start(blas, library, stream, tries)) return true;
        if (library != NULL && gpu_blas_failure(tries->code) == DEVICE_FULL) return false;
        if (why != NULL && strstr(why, "No such file") == NULL) note(tries, NOT_FOUND, "%.200s", why);
    }
    return false;
}

static bool try_named(struct gpu_blas *blas, const char *path, struct CUstream_st *stream, struct tries *tries)
{
    (void)snprintf(blas->path, sizeof blas->path, "%s", path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) return start(blas, library, stream, tries);
    const char *why = dlerror();
    note(tries, NOT_FOUND, "DELTAQ_CUBLAS: %.300s", why != NULL ? why : path);
    return false;
}

static bool try_places(struct gpu_blas *blas, struct CUstream_st *stream, struct tries *tries)
{
    static const char *const places[] = {GPU_BLAS_PLACES};
    for (const char *at = getenv("DELTAQ_CUDA_LIBRARIES"); at != NULL && *at != '\0';) {
        char directory[GPU_BLAS_PATH];
        const size_t length = strcspn(at, ":");
        if (length > 0 && snprintf(directory, sizeof directory, "%.*s", (int)length, at) < (int)sizeof directory &&
            try_place(blas, directory, stream, tries))
            return true;
        if (gpu_blas_failure(tries->code) == DEVICE_FULL) return false;
        at += length + (at[length] == ':');
    }
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (try_place(blas, places[i], stream, tries)) return true;
        if (gpu_blas_failure(tries->code) == DEVICE_FULL) return false;
    }
    return false;
}

int gpu_blas_open(struct gpu_blas *blas, struct CUstream_st *stream, const char *products, char *text, size_t size)
{
    struct tries tries = {text, size, 0, NOT_FOUND};
    const char *named = getenv("DELTAQ_CUBLAS");
    *blas = (struct gpu_blas){.handle = NULL};
    if (named != NULL ? try_named(blas, named, stream, &tries) : try_places(blas, stream, &tries)) {
        for (size_t i = 0; i < sizeof product_kinds / sizeof product_kinds[0]; i++)
            if (strcmp(products, product_kinds[i].name) == 0) blas->compute = product_kinds[i].compute;
        if (blas->compute != 0) return 0;
        gpu_blas_close(blas);
        (void)snprintf(text, size, "products in \"%.40s\": expected f32, tf32 or bf16", products);
        return NOT_FOUND;
    }
    if (tries.length == 0)
        note(&tries, NOT_FOUND,
             "found no cuBLAS (libcublas.so.%d to .%d): name its directory in DELTAQ_CUDA_LIBRARIES, such as "
             "nvidia/cublas/lib of the Python packages beside PyTorch",
             GPU_BLAS_NEWEST, GPU_BLAS_OLDEST);
    return tries.code;
}

void gpu_blas_close(struct gpu_blas *blas)
{
    if (blas->handle != NULL) (void)blas->destroy(blas->handle);
    blas->handle = NULL;
}

const char *gpu_blas_status(int code)
{
    static const struct {
        int status;
        const char *name;
    } names[] = {
        {1, "CUBLAS_STATUS_NOT_INITIALIZED"},      {NO_MEMORY, "CUBLAS_STATUS_ALLOC_FAILED"},
        {7, "CUBLAS_STATUS_INVALID_VALUE"},        {8, "CUBLAS_STATUS_ARCH_MISMATCH"},
        {UNMAPPED, "CUBLAS_STATUS_MAPPING_ERROR"}, {NOT_EXECUTED, "CUBLAS_STATUS_EXECUTION_FAILED"},
        {BROKEN, "CUBLAS_STATUS_INTERNAL_ERROR"},  {15, "CUBLAS_STATUS_NOT_SUPPORTED"},
        {16, "CUBLAS_STATUS_LICENSE_ERROR"},
    };
    if (code == GPU_BLAS_TOO_LONG) return "a dimension is beyond 2147483647, which cuBLAS cannot be asked for";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (code == GPU_BLAS_FAILED + names[i].status) return names[i].name;
    return "a status that is not in its documentation";
}

/* A product that was not started gives no more than that: it counts as refused. */
enum device_failure gpu_blas_failure(int code)
{
    if (code == GPU_BLAS_FAILED + NO_MEMORY) return DEVICE_FULL;
    return code == GPU_BLAS_FAILED + UNMAPPED || code == GPU_BLAS_FAILED + NOT_EXECUTED ||
                   code == GPU_BLAS_FAILED + BROKEN
               ? DEVICE_FAULT
               : DEVICE_REFUSED;
}

static int failed_or_not(int status)
{
    return status == 0 ? 0 : GPU_BLAS_FAILED + status;
}

static bool fits_int(const struct device_gemm *g)
{
    return g->m <= LARGEST_INT && g->n <= LARGEST_INT && g->k <= LARGEST_INT && g->lda <= LARGEST_INT &&
           g->ldb <= LARGEST_INT && g->ldc <= LARGEST_INT;
}

/* bf16 factors are multiplied as they are, whatever the device was opened with. */
int gpu_blas_gemm(const struct gpu_blas *blas, const struct device_gemm *g)
{
    const int type = g->bf16 ? REAL_BF16 : REAL_FLOAT;
    if (!fits_int(g)) return GPU_BLAS_TOO_LONG;
    return failed_or_not(blas->gemm_ex(blas->handle, g->transpose_a, g->transpose_b, (int)g->m, (int)g->n, (int)g->k,
                                       &g->alpha, g->a, type, (int)g->lda, g->b, type, (int)g->ldb, &g->beta, g->c,
                                       REAL_FLOAT, (int)g->ldc, g->exact || g->bf16 ? COMPUTE_FLOAT : blas->compute,
                                       DEFAULT_ALGORITHM));
}

/* cuBLAS checks alignment for single products, not for pointer arrays. So a batch may round its factors for the tensor
 * cores only if all addresses are multiples of 16 bytes; otherwise it is computed in float. Factors that are bf16
 * numbers already need such addresses, too: the caller sees to that (attention_products.c). */
int gpu_blas_gemm_batched(const struct gpu_blas *blas, const struct device_gemm_batched *args)
{
    const struct device_gemm *g = &args->each;
    const int type = g->bf16 ? REAL_BF16 : REAL_FLOAT;
    if (!fits_int(g) || args->count > LARGEST_INT) return GPU_BLAS_TOO_LONG;
    return failed_or_not(
        blas->gemm_batched_ex(blas->handle, g->transpose_a, g->transpose_b, (int)g->m, (int)g->n, (int)g->k, &g->alpha,
                              (const void *const *)args->a, type, (int)g->lda, (const void *const *)args->b, type,
                              (int)g->ldb, &g->beta, (void *const *)args->c, REAL_FLOAT, (int)g->ldc, (int)args->count,
                              args->aligned && !g->bf16 ? blas->compute : COMPUTE_FLOAT, DEFAULT_ALGORITHM));
}
