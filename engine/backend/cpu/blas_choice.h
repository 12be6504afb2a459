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
 * Our own kernels make the narrow products beside any library, so they must be right in every case. The processor's
 * units for bfloat16 (tile_product.h, bf16.h) are held to plain loops too; where one is wrong, none is used. */
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
    char reason[1200]; /* what was wrong with each choice that comes before; "": nothing */
    char units[480];   /* what is wrong with the bf16 units, which are not used then; "": nothing */
    int64_t products;  /* that were held to plain loops, and were right */
    double seconds;    /* all of it took */
};

/* Longest time for loading a library or for one product, in seconds of this process's running time: suspension of the
 * host and a stopped process do not count. Most products take less than a millisecond, none more than 20. */
enum { BLAS_CHOICE_SECONDS = 10 };

/* Makes the choice, and sets OPENBLAS_CORETYPE, DELTAQ_OPENBLAS or DELTAQ_KERNELS of this process's environment
 * accordingly, after openblas_prepare, which backend_cpu_new and child processes read: call it before any backend is
 * made, with no other thread running.
 * STATUS_UNSUPPORTED: our own kernels are wrong on this processor (the detail names the product and what to do), or it
 * is below KERNEL_LEAST; STATUS_UNAVAILABLE: no process could be started; STATUS_NO_MEMORY. */
MUST_CHECK enum status blas_choice_make(double deadline_seconds, struct blas_choice *out, struct error *error);

/* "passed", "other_core", "own_products". */
const char *blas_choice_verdict(const struct blas_choice *choice);

/* One line for a person. `text` gets at most `size` bytes; BLAS_CHOICE_TEXT hold all of it. */
enum { BLAS_CHOICE_TEXT = 2200 };
void blas_choice_describe(const struct blas_choice *choice, char *text, size_t size);

#endif
