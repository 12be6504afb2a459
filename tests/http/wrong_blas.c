/* wrong_blas.c: a library that stands before OpenBLAS and is wrong on purpose, for test_products.py: DELTAQ_OPENBLAS
 * names it. WRONG_BLAS is "PRODUCT FAULT", such as "sgemm crash": what goes wrong and how (wrong, crash, leave, hang).
 * WRONG_BLAS_CORE: the one core type with which it does; without it with all. WRONG_BLAS_ROWS: the rows of a result
 * that it is wrong for; without it all. */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static void *real(const char *name)
{
    static void *library;
    if (library == NULL) library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    void *found = library != NULL ? dlsym(library, name) : NULL;
    if (found == NULL) abort();
    return found;
}

void openblas_set_num_threads(int threads)
{
    ((void (*)(int))real("openblas_set_num_threads"))(threads);
}

char *openblas_get_config(void)
{
    return ((char *(*)(void))real("openblas_get_config"))();
}

char *openblas_get_corename(void)
{
    return ((char *(*)(void))real("openblas_get_corename"))();
}

static void spoil(const char *product, int rows, float *result)
{
    const char *fault = getenv("WRONG_BLAS"), *core = getenv("WRONG_BLAS_CORE"), *only = getenv("WRONG_BLAS_ROWS");
    const size_t length = strlen(product);
    if (fault == NULL || strncmp(fault, product, length) != 0) return;
    if (core != NULL && strcasecmp(core, openblas_get_corename()) != 0) return;
    if (only != NULL && strtol(only, NULL, 10) != rows) return;
    fault += length + 1;
    if (strcmp(fault, "wrong") == 0) result[0] += 0.25F;
    if (strcmp(fault, "crash") == 0) raise(SIGSEGV);
    if (strcmp(fault, "leave") == 0) _exit(3);
    while (strcmp(fault, "hang") == 0) pause();
}

void cblas_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc)
{
    ((void (*)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int))real(
        "cblas_sgemm"))(order, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    spoil("sgemm", m, c);
}

void cblas_ssyrk(int order, int triangle, int transpose, int n, int k, float alpha, const float *a, int lda, float beta,
                 float *c, int ldc)
{
    ((void (*)(int, int, int, int, int, float, const float *, int, float, float *, int))real("cblas_ssyrk"))(
        order, triangle, transpose, n, k, alpha, a, lda, beta, c, ldc);
    spoil("ssyrk", n, c);
}

typedef void triangular(int, int, int, int, int, int, int, float, const float *, int, float *, int);

void cblas_strsm(int order, int side, int triangle, int transpose, int diagonal, int m, int n, float alpha,
                 const float *a, int lda, float *b, int ldb)
{
    ((triangular *)real("cblas_strsm"))(order, side, triangle, transpose, diagonal, m, n, alpha, a, lda, b, ldb);
    spoil("strsm", m, b);
}

void cblas_strmm(int order, int side, int triangle, int transpose, int diagonal, int m, int n, float alpha,
                 const float *a, int lda, float *b, int ldb)
{
    ((triangular *)real("cblas_strmm"))(order, side, triangle, transpose, diagonal, m, n, alpha, a, lda, b, ldb);
    spoil("strmm", m, b);
}
