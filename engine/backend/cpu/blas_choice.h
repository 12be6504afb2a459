/* blas_choice.h: chooses how this process computes products. Some builds of OpenBLAS give wrong results, crash or hang
 * on some processors and virtual machines. So before its first product a process compares them with plain loops
 * (blas_check.h), in a child process, so that a crash or hang does no harm, and takes the first of these that is
 * correct:
 *
 *   1. the library with the core type that openblas.h gives it, or that OPENBLAS_CORETYPE names
 *   2. the library with another core type that this processor can run: SKYLAKEX, HASWELL, SANDYBRIDGE, NEHALEM;
 *      NEOVERSEV1, NEOVERSEN1, ARMV8
 *   3. our own kernels
 *
 * Our own kernels compute the narrow products even with a library, so they must be correct in every case. */
#ifndef BACKEND_CPU_BLAS_CHOICE_H
#define BACKEND_CPU_BLAS_CHOICE_H

#include "base/error.h"

#include <stdint.h>

enum blas_verdict { BLAS_PASSED, BLAS_OTHER_CORE, BLAS_OWN_PRODUCTS, BLAS_VERDICTS };

struct blas_choice {
    enum blas_verdict verdict;
    bool absent;       /* BLAS_OWN_PRODUCTS because no library was found, which is not an error */
    char library[200]; /* the library's own description, with its version; "": none was found */
    char core[32];     /* the core type that it runs with; "": our own kernels are used */
    char reason[1200]; /* errors of each earlier choice; "": none */
    int64_t products;  /* number of products that were checked and correct */
    double seconds;    /* duration of the choice */
};

/* Longest time for loading a library or for one product, in seconds of this process's running time: suspension of the
 * host and a stopped process do not count. Most products take less than a millisecond, none more than 20. */
enum { BLAS_CHOICE_SECONDS = 10 };

/* Makes the choice and sets OPENBLAS_CORETYPE or DELTAQ_OPENBLAS in this process's environment accordingly, because
 * backend_cpu_new and child processes read these: call it before any backend is made, with no other thread running.
 * STATUS_UNSUPPORTED: our own kernels are wrong on this processor (the detail names the product and what to do), or it
 * is below KERNEL_LEAST; STATUS_UNAVAILABLE: no process could be started; STATUS_NO_MEMORY. */
MUST_CHECK enum status blas_choice_make(double deadline_seconds, struct blas_choice *out, struct error *error);

/* "passed", "other_core", "own_products". */
const char *blas_choice_verdict(const struct blas_choice *choice);

/* One line for a person. Writes at most `size` bytes to `text`; BLAS_CHOICE_TEXT is enough for all. */
enum { BLAS_CHOICE_TEXT = 1600 };
void blas_choice_describe(const struct blas_choice *choice, char *text, size_t size);

#endif
