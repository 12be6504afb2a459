/* openblas.h: OpenBLAS, loaded at run time, one thread per call; our team makes calls concurrently. */
#ifndef BACKEND_CPU_OPENBLAS_H
#define BACKEND_CPU_OPENBLAS_H

#include "base/error.h"

/* Row-major CBLAS with the enumerators that its interface fixes. */
enum { BLAS_ROW_MAJOR = 101, BLAS_PLAIN = 111, BLAS_TRANSPOSED = 112, BLAS_UPPER = 121, BLAS_LOWER = 122 };
enum { BLAS_NON_UNIT = 131, BLAS_LEFT = 141, BLAS_RIGHT = 142 };

struct openblas {
    void *library; /* NULL: not found */
    char config[200];
    char core[32];     /* "SkylakeX": the processor whose kernels it runs */
    char missing[200]; /* why library is NULL */
    void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                  int lda, const float *b, int ldb, float beta, float *c, int ldc);
    void (*ssyrk)(int order, int triangle, int transpose, int n, int k, float alpha, const float *a, int lda,
                  float beta, float *c, int ldc);
    void (*strsm)(int order, int side, int triangle, int transpose, int diagonal, int m, int n, float alpha,
                  const float *a, int lda, float *b, int ldb);
    void (*strmm)(int order, int side, int triangle, int transpose, int diagonal, int m, int n, float alpha,
                  const float *a, int lda, float *b, int ldb);
};

/* Environment variables: a library instead of libopenblas.so.0, and the core type that it shall use. */
#define OPENBLAS_VARIABLE      "DELTAQ_OPENBLAS"
#define OPENBLAS_CORE_VARIABLE "OPENBLAS_CORETYPE"

/* Sets what the library reads when it loads, OPENBLAS_CORETYPE (if the environment has none) and OPENBLAS_NUM_THREADS,
 * unless they are so already. A process with threads calls it before the first one, because nobody may read the
 * environment while it changes. */
void openblas_prepare(void);

/* Loads libopenblas.so.0 (or the library that DELTAQ_OPENBLAS names), after openblas_prepare, and fills *out; library
 * stays NULL when the library or one of its functions is missing. The first time changes what printf calls, and may set
 * OPENBLAS_CORETYPE: a process with threads opens it once before the first one (blas_choice_make does). */
void openblas_open(struct openblas *out);
void openblas_close(struct openblas *blas);

#endif
