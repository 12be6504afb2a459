/* recorded.h: CUDA's runtime and cuBLAS in the plugin's place of them: every call is written down, and any may be made
 * to fail. Memory is the host's, kernels and products do nothing. */
#ifndef TESTS_CUDA_RECORDED_H
#define TESTS_CUDA_RECORDED_H

#include <stdbool.h>

enum { RECORDED_CALLS = 1024, RECORDED_TEXT = 160 };

struct recorded {
    char calls[RECORDED_CALLS][RECORDED_TEXT]; /* "cudaSetDevice 0" */
    int count;
    /* What the machine has. */
    int devices, driver, runtime, major, minor;
    int counting; /* what cudaGetDeviceCount answers */
    int free_mib; /* of 80 GiB */
    /* The call of this number (1: the first) fails with `code`, one of cuBLAS with `status`; sticky: and so do all
     * calls after it. 0: none fails. */
    int fails_at, code, status;
    bool sticky;
    int last;             /* what cudaGetLastError tells */
    int late;             /* what waiting for a stream answers after a kernel was launched */
    int launched;         /* kernels */
    int alive;            /* streams, events, blocks and handles that were made and not ended */
    int version;          /* of cuBLAS: 0: as the number in the library's name */
    const char *refusing; /* a part of the path of cuBLAS libraries that do not start */
};

extern struct recorded recorded;

/* A machine with one H100 and a new driver. */
void recorded_reset(void);
/* Whether a call that begins with `start` was made; its number, or 0. */
int recorded_find(const char *start);

/* For the library in cuBLAS's place (recorded_cublas.c). What the call answers. */
int recorded_blas(const char *format, ...) __attribute__((format(printf, 1, 2), visibility("default")));
int recorded_blas_start(const char *path, int version, int *out) __attribute__((visibility("default")));
void recorded_blas_alive(int change) __attribute__((visibility("default")));

#endif
