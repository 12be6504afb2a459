/* recorded_cublas.c: libcublas.so for the plugin's tests: every call is told to the program that loaded it. */
#include "engine/backend/cuda/recorded.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

typedef struct CUstream_st *stream;
EXPORTED int cublasCreate_v2(void **handle);
EXPORTED int cublasDestroy_v2(void *handle);
EXPORTED int cublasSetStream_v2(void *handle, stream on);
EXPORTED int cublasGetVersion_v2(void *handle, int *version);
EXPORTED int cublasGemmEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a,
                          int a_type, int lda, const void *b, int b_type, int ldb, const void *beta, void *c,
                          int c_type, int ldc, int compute, int algorithm);
EXPORTED int cublasGemmBatchedEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha,
                                 const void *const *a, int a_type, int lda, const void *const *b, int b_type, int ldb,
                                 const void *beta, void *const *c, int c_type, int ldc, int count, int compute,
                                 int algorithm);

/* Its own path, from the library's last folder on: "cu12/libcublas.so.12". */
static const char *own_path(int *version)
{
    Dl_info found = {.dli_fname = NULL};
    const void *self = own_path;
    if (dladdr(self, &found) == 0) return "nowhere";
    const char *at = strstr(found.dli_fname, "/recorded/"), *number = strstr(found.dli_fname, ".so.");
    *version = number != NULL ? (int)strtol(number + 4, NULL, 10) * 10000 + 102 : 0;
    return at != NULL ? at + strlen("/recorded/") : found.dli_fname;
}

int cublasCreate_v2(void **handle)
{
    int version = 0;
    const char *path = own_path(&version);
    const int status = recorded_blas_start(path, 0, NULL);
    if (status != 0) return status;
    *handle = malloc(1);
    recorded_blas_alive(1);
    return 0;
}

int cublasDestroy_v2(void *handle)
{
    free(handle);
    recorded_blas_alive(-1);
    return recorded_blas("cublasDestroy");
}

int cublasSetStream_v2(void *handle, stream on)
{
    (void)handle;
    return recorded_blas("cublasSetStream %s", on != NULL ? "one" : "none");
}

int cublasGetVersion_v2(void *handle, int *version)
{
    int own = 0;
    (void)handle;
    const char *path = own_path(&own);
    return recorded_blas_start(path, own, version);
}

int cublasGemmEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int a_type,
                 int lda, const void *b, int b_type, int ldb, const void *beta, void *c, int c_type, int ldc,
                 int compute, int algorithm)
{
    (void)handle, (void)a, (void)b, (void)c;
    return recorded_blas("cublasGemmEx %d %d, %d %d %d, %g %g, ld %d %d %d, types %d %d %d, compute %d, algorithm %d",
                         ta, tb, m, n, k, (double)*(const float *)alpha, (double)*(const float *)beta, lda, ldb, ldc,
                         a_type, b_type, c_type, compute, algorithm);
}

#ifndef WITHOUT_BATCHES
int cublasGemmBatchedEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *const *a,
                        int a_type, int lda, const void *const *b, int b_type, int ldb, const void *beta,
                        void *const *c, int c_type, int ldc, int count, int compute, int algorithm)
{
    (void)handle, (void)a, (void)b, (void)c, (void)algorithm;
    return recorded_blas(
        "cublasGemmBatchedEx %d %d, %d %d %d, %g %g, ld %d %d %d, types %d %d %d, count %d, compute %d", ta, tb, m, n,
        k, (double)*(const float *)alpha, (double)*(const float *)beta, lda, ldb, ldc, a_type, b_type, c_type, count,
        compute);
}
#endif
