#include "engine/backend/cuda/emulated.h"

#include "backend/cuda/kernels/all.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef __SANITIZE_ADDRESS__
enum { EMULATED_GUARDED = 0 };
#else
enum { EMULATED_GUARDED = 1 };
#endif
enum { EMULATED_BLOCKS = 4096, EMULATED_PAGE = 4096 };
#define EMULATED_ADDRESSES ((size_t)1 << 35)

/* Guarded blocks lie one after another in a stretch of addresses, so that one call lets everybody at them or nobody. */
struct emulated {
    struct device device;
    bool reversed;
    struct {
        void *address;
        size_t bytes;
        bool used;
    } blocks[EMULATED_BLOCKS];
    int count;
    char *addresses;
    size_t end; /* of the last block */
};

static void emulated_protect(struct device *device, int how)
{
    struct emulated *emulated = device->state;
    if (emulated->end > 0) (void)mprotect(emulated->addresses, emulated->end, how);
}

static void emulated_let(struct device *device)
{
    emulated_protect(device, PROT_READ | PROT_WRITE);
}

static int emulated_done(struct device *device)
{
    emulated_protect(device, PROT_NONE);
    return 0;
}

static const char *emulated_error(int code)
{
    return code == 1 ? "no memory for the emulation" : "the emulation failed";
}

/* A block that was given back, or the next addresses. */
static void *emulated_place(struct emulated *emulated, size_t bytes)
{
    for (int i = 0; i < emulated->count; i++)
        if (!emulated->blocks[i].used && emulated->blocks[i].bytes == bytes) {
            emulated->blocks[i].used = true;
            return emulated->blocks[i].address;
        }
    if (emulated->count == EMULATED_BLOCKS || bytes > EMULATED_ADDRESSES - emulated->end) return NULL;
    void *address = EMULATED_GUARDED ? emulated->addresses + emulated->end : malloc(bytes);
    if (address == NULL) return NULL;
    emulated->blocks[emulated->count].address = address;
    emulated->blocks[emulated->count].bytes = bytes;
    emulated->blocks[emulated->count++].used = true;
    if (EMULATED_GUARDED) emulated->end += bytes;
    return address;
}

static int emulated_allocate(struct device *device, size_t bytes, void **out)
{
    struct emulated *emulated = device->state;
    *out = emulated_place(emulated, EMULATED_GUARDED ? (bytes / EMULATED_PAGE + 1) * EMULATED_PAGE : bytes);
    return *out == NULL;
}

static int emulated_release(struct device *device, void *block)
{
    struct emulated *emulated = device->state;
    for (int i = 0; i < emulated->count; i++) {
        if (emulated->blocks[i].address != block) continue;
        if (EMULATED_GUARDED) {
            emulated->blocks[i].used = false;
            (void)madvise(block, emulated->blocks[i].bytes, MADV_DONTNEED);
        } else {
            free(block);
            emulated->blocks[i] = emulated->blocks[--emulated->count];
        }
        return 0;
    }
    return 2;
}

static int emulated_allocate_host(struct device *device, size_t bytes, void **out)
{
    (void)device;
    return (*out = malloc(bytes)) == NULL;
}

static int emulated_release_host(struct device *device, void *block)
{
    (void)device;
    free(block);
    return 0;
}

static int emulated_clear(struct device *device, void *to, size_t bytes)
{
    emulated_let(device);
    memset(to, 0, bytes);
    return emulated_done(device);
}

static int emulated_copy(struct device *device, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                         size_t rows)
{
    emulated_let(device);
    for (size_t i = 0; i < rows; i++) memcpy((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width);
    return emulated_done(device);
}

static int emulated_point(struct device *device, int which)
{
    (void)device;
    return which < 0 || which > 1;
}

static int emulated_synchronize(struct device *device)
{
    (void)device;
    return 0;
}

typedef void emulated_kernel(const struct launch *grid, const void *args);

#define X(name, type)                                                                                                              \
    static void emulated_##name(const struct launch *grid, const void *args)                                                       \
    {                                                                                                                              \
        name##_kernel(grid, args);                                                                                                 \
    }
KERNEL_LIST(X)
#undef X

static int emulated_launch(struct device *device, enum kernel kernel, int64_t blocks, const void *args)
{
    static emulated_kernel *const kernels[] = {
#define X(name, type) emulated_##name,
        KERNEL_LIST(X)
#undef X
    };
    const struct emulated *emulated = device->state;
    emulated_let(device);
    for (int64_t i = 0; i < blocks; i++) {
        const struct launch grid = {emulated->reversed ? blocks - 1 - i : i, blocks, emulated->reversed};
        kernels[kernel](&grid, args);
    }
    return emulated_done(device);
}

static void multiply(const struct device_gemm *g)
{
    for (int64_t j = 0; j < g->n; j++)
        for (int64_t i = 0; i < g->m; i++) {
            float sum = 0;
            for (int64_t l = 0; l < g->k; l++)
                sum +=
                    g->a[g->transpose_a ? l + i * g->lda : i + l * g->lda] * g->b[g->transpose_b ? j + l * g->ldb : l + j * g->ldb];
            float *c = &g->c[i + j * g->ldc];
            *c = g->beta == 0 ? g->alpha * sum : g->alpha * sum + g->beta * *c;
        }
}

static int emulated_gemm(struct device *device, const struct device_gemm *g)
{
    emulated_let(device);
    multiply(g);
    return emulated_done(device);
}

static bool misaligned(const void *a, const void *b, const void *c)
{
    return ((uintptr_t)a | (uintptr_t)b | (uintptr_t)c) % 16 != 0;
}

/* What cuBLAS leaves to its caller is looked for: two products that write one place, and addresses that are not as promised. */
static int emulated_gemm_batched(struct device *device, const struct device_gemm_batched *args)
{
    const struct emulated *emulated = device->state;
    int code = misaligned(args->a, args->b, args->c) ? 2 : 0;
    emulated_let(device);
    for (int64_t i = 0; i < args->count && code == 0; i++) {
        const int64_t at = emulated->reversed ? args->count - 1 - i : i;
        struct device_gemm each = args->each;
        each.a = args->a[at], each.b = args->b[at], each.c = args->c[at];
        for (int64_t other = 0; other < at; other++)
            if (args->c[other] == each.c) code = 2;
        if (args->aligned && misaligned(each.a, each.b, each.c)) code = 2;
        multiply(&each);
    }
    (void)emulated_done(device);
    return code;
}

static int emulated_syrk(struct device *device, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, float beta,
                         float *c, int64_t ldc)
{
    emulated_let(device);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i <= j; i++) {
            float sum = 0;
            for (int64_t l = 0; l < k; l++) sum += a[i + l * lda] * a[j + l * lda];
            c[i + j * ldc] = beta == 0 ? alpha * sum : alpha * sum + beta * c[i + j * ldc];
        }
    return emulated_done(device);
}

static void emulated_close(struct device *device)
{
    struct emulated *emulated = device->state;
    if (EMULATED_GUARDED) (void)munmap(emulated->addresses, EMULATED_ADDRESSES);
    free(emulated);
}

struct device *emulated_device(bool reversed)
{
    struct emulated *emulated = calloc(1, sizeof *emulated);
    if (emulated == NULL) return NULL;
    if (EMULATED_GUARDED) {
        emulated->addresses = mmap(NULL, EMULATED_ADDRESSES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (emulated->addresses == MAP_FAILED) {
            free(emulated);
            return NULL;
        }
    }
    emulated->reversed = reversed;
    emulated->device = (struct device){
        .state = emulated,
        .text = "emulated device",
        .close = emulated_close,
        .error_text = emulated_error,
        .allocate = emulated_allocate,
        .release = emulated_release,
        .allocate_host = emulated_allocate_host,
        .release_host = emulated_release_host,
        .clear = emulated_clear,
        .upload = emulated_copy,
        .download = emulated_copy,
        .mark = emulated_point,
        .wait = emulated_point,
        .synchronize = emulated_synchronize,
        .launch = emulated_launch,
        .gemm = emulated_gemm,
        .gemm_batched = emulated_gemm_batched,
        .syrk = emulated_syrk,
    };
    emulated->device.memory_free = (int64_t)1 << 33;
    return &emulated->device;
}
