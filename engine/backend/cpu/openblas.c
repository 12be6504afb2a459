#include "backend/cpu/openblas.h"

#include "backend/cpu/levels.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* OpenBLAS chooses its kernels from a list of processors known when it was built.
 *
 * x86-64: we set the core type before it loads. 0.3.21 runs AVX2 kernels on newer AVX-512 cores (240 GFLOP/s where
 * SkylakeX gives 450 on two Zen 5 cores). On a processor of the Sapphire Rapids family SkylakeX was the fastest too
 * (one core, GFLOP/s: SkylakeX 173, Cooperlake 154 to 175, Haswell 108). It needs the instructions of x86-64-v4.
 *
 * aarch64: we set it if the library chose the kernels of the first ARMv8 processors and this processor has SVE: 0.3.21
 * does not know Neoverse V2 (Grace, Graviton4). NEOVERSEV1's kernels work with vectors of any width, and later versions
 * build a V2's kernels from the same files. This was not measured. */
#if defined(__x86_64__)
static const char *core_type(void)
{
    return level_v4() ? "SKYLAKEX" : NULL; /* NULL: OpenBLAS recognises AVX2 and older processors well */
}

static const char *core_instead(const char *core)
{
    (void)core;
    return NULL;
}
#else
static const char *core_type(void)
{
    return NULL;
}

static const char *core_instead(const char *core)
{
    return strcasecmp(core, "armv8") == 0 && level_any_sve() ? "NEOVERSEV1" : NULL;
}
#endif

/* ISO C has no conversion from an object pointer to a function pointer; POSIX guarantees that their bytes are the
 * same. */
static bool resolve(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool resolve_all(struct openblas *blas)
{
    void (*set_threads)(int) = NULL;
    char *(*get_config)(void) = NULL, *(*get_core)(void) = NULL;
    if (!resolve(blas->library, "cblas_sgemm", &blas->sgemm) || !resolve(blas->library, "cblas_ssyrk", &blas->ssyrk) ||
        !resolve(blas->library, "cblas_strsm", &blas->strsm) || !resolve(blas->library, "cblas_strmm", &blas->strmm) ||
        !resolve(blas->library, "openblas_set_num_threads", &set_threads) ||
        !resolve(blas->library, "openblas_get_config", &get_config) ||
        !resolve(blas->library, "openblas_get_corename", &get_core))
        return false;
    set_threads(1);
    snprintf(blas->config, sizeof blas->config, "%s", get_config());
    snprintf(blas->core, sizeof blas->core, "%s", get_core());
    return true;
}

/* libquadmath, which OpenBLAS needs through libgfortran on x86-64, has printf call it for every %a, %e, %f and %g of
 * the process, and takes that back when it is unloaded: a thread that prints a number just then calls NULL, or an
 * address that is no longer mapped. So it stays loaded, which costs 0.3 MB, while OpenBLAS itself and its buffers
 * go. */
static void keep_printf_functions(void *library)
{
    Dl_info found;
    const void *function = dlsym(library, "quadmath_snprintf"); /* looks into what the library needs, too */
    if (function == NULL || dladdr(function, &found) == 0) return;
    void *kept = dlopen(found.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    if (kept != NULL) dlclose(kept);
}

static void load(struct openblas *out)
{
    const char *name = getenv(OPENBLAS_VARIABLE);
    memset(out, 0, sizeof *out);
    out->library = dlopen(name != NULL ? name : "libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (out->library != NULL) keep_printf_functions(out->library);
    if (out->library != NULL && resolve_all(out)) return;
    const char *why = dlerror();
    snprintf(out->missing, sizeof out->missing, "%s", why != NULL ? why : "it could not be loaded");
    if (out->library != NULL) dlclose(out->library);
    out->library = NULL;
}

void openblas_prepare(void)
{
    static const char threads[] = "OPENBLAS_NUM_THREADS"; /* without it a thread starts for every core when it loads */
    const char *asked = getenv(threads);
    if (core_type() != NULL && getenv(OPENBLAS_CORE_VARIABLE) == NULL) setenv(OPENBLAS_CORE_VARIABLE, core_type(), 1);
    if (asked == NULL || strcmp(asked, "1") != 0) setenv(threads, "1", 1);
}

void openblas_open(struct openblas *out)
{
    openblas_prepare();
    load(out);
    const char *instead = out->library != NULL ? core_instead(out->core) : NULL;
    if (instead == NULL || getenv(OPENBLAS_CORE_VARIABLE) != NULL) return;
    openblas_close(out);
    setenv(OPENBLAS_CORE_VARIABLE, instead, 1);
    load(out);
}

void openblas_close(struct openblas *blas)
{
    if (blas->library != NULL) dlclose(blas->library);
    memset(blas, 0, sizeof *blas);
}
