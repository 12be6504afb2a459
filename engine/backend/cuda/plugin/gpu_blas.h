/* gpu_blas.h: cuBLAS, which is searched for when a device is opened, because a machine may have it only in PyTorch's
 * package. Its few functions are declared here, so that its headers are not needed. */
#ifndef BACKEND_CUDA_PLUGIN_GPU_BLAS_H
#define BACKEND_CUDA_PLUGIN_GPU_BLAS_H

#include "backend/cuda/device.h"

struct CUstream_st;

enum {
    GPU_BLAS_OLDEST = 11, /* versions with all functions that are called here */
    GPU_BLAS_NEWEST = 13,
    GPU_BLAS_FAILED = 100000, /* added to cuBLAS's statuses, which overlap CUDA's numbers */
    GPU_BLAS_NOT_STARTED = GPU_BLAS_FAILED + 1,
    GPU_BLAS_FULL = GPU_BLAS_FAILED + 3,
    GPU_BLAS_TOO_LONG = 199999, /* a dimension that does not fit cuBLAS's ints; cuBLAS was not called */
    GPU_BLAS_PATH = 512,
};

/* As declared in cublas_v2.h: handles are opaque, 0 is success. */
struct gpu_blas {
    void *handle;
    int compute;              /* cublasComputeType_t of products that need not be exact */
    int version;              /* 130101: 13.1.1 */
    char path[GPU_BLAS_PATH]; /* path or name with which it was opened */
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, struct CUstream_st *stream);
    int (*get_version)(void *handle, int *version);
    int (*gemm_ex)(void *handle, int transpose_a, int transpose_b, int m, int n, int k, const void *alpha,
                   const void *a, int a_type, int lda, const void *b, int b_type, int ldb, const void *beta, void *c,
                   int c_type, int ldc, int compute, int algorithm);
    int (*gemm_batched_ex)(void *handle, int transpose_a, int transpose_b, int m, int n, int k, const void *alpha,
                           const void *const *a, int a_type, int lda, const void *const *b, int b_type, int ldb,
                           const void *beta, void *const *c, int c_type, int ldc, int count, int compute,
                           int algorithm);
};

/* Searches the directories of DELTAQ_CUDA_LIBRARIES first, then the system's (LD_LIBRARY_PATH, ld.so.conf), then the
 * usual places; in each of them the newest version first. A library that does not start is skipped. DELTAQ_CUBLAS names
 * the library itself; then no other is tried. products: "f32", "tf32" or "bf16". Returns 0, or the failure's number,
 * with all that was tried in `text`. */
int gpu_blas_open(struct gpu_blas *blas, struct CUstream_st *stream, const char *products, char *text, size_t size);
void gpu_blas_close(struct gpu_blas *blas);

int gpu_blas_gemm(const struct gpu_blas *blas, const struct device_gemm *g);
int gpu_blas_gemm_batched(const struct gpu_blas *blas, const struct device_gemm_batched *args);

/* For its numbers from GPU_BLAS_FAILED on. */
const char *gpu_blas_status(int code);
enum device_failure gpu_blas_failure(int code);

#endif
