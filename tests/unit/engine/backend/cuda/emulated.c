#include "engine/backend/cuda/emulated.h"

#include "backend/cuda/kernels/all.h"
#include "engine/backend/cuda/orders.h"

#include <pthread.h>
#include <stdio.h>
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
    bool reversed, rounds, trusted;
    struct {
        void *address;
        size_t bytes;
        bool used;
    } blocks[EMULATED_BLOCKS];
    int count;
    char *addresses;
    size_t end;            /* of the last block */
    int failed;            /* what an order found: said to whoever waits */
    pthread_mutex_t mutex; /* lanes are used by other threads than the stream */
    struct orders orders;
    int64_t marks[2], points[LANE_COUNT][LANE_POINTS];
};

static void emulated_protect(struct device *device, int how)
{
    struct emulated *emulated = device->state;
    if (emulated->end > 0 && !emulated->trusted) (void)mprotect(emulated->addresses, emulated->end, how);
}

static void emulated_let(struct device *device)
{
    emulated_protect(device, PROT_READ | PROT_WRITE);
}

static void emulated_done(struct device *device)
{
    emulated_protect(device, PROT_NONE);
}

static void emulated_error(int code, char *text, size_t size)
{
    (void)snprintf(text, size, "%s", code == 1 ? "no memory for the emulation" : "the emulation failed");
}

static enum device_failure emulated_failure(int code)
{
    return code == 1 ? DEVICE_FULL : DEVICE_REFUSED;
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

static struct emulated *emulated_enter(struct device *device)
{
    struct emulated *emulated = device->state;
    pthread_mutex_lock(&emulated->mutex);
    return emulated;
}

static int emulated_leave(struct emulated *emulated, int code)
{
    pthread_mutex_unlock(&emulated->mutex);
    return code;
}

/* As cudaFree: after everything. */
static int emulated_drop(struct emulated *emulated, void *block)
{
    orders_reach_all(&emulated->orders);
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

static int emulated_memory(struct device *device, int64_t *available, int64_t *total)
{
    *available = device->memory_free;
    *total = device->memory_total;
    return 0;
}

static int emulated_allocate(struct device *device, size_t bytes, void **out)
{
    struct emulated *emulated = emulated_enter(device);
    *out = emulated_place(emulated, EMULATED_GUARDED ? (bytes / EMULATED_PAGE + 1) * EMULATED_PAGE : bytes);
    return emulated_leave(emulated, *out == NULL);
}

static int emulated_release(struct device *device, void *block)
{
    struct emulated *emulated = emulated_enter(device);
    return emulated_leave(emulated, emulated_drop(emulated, block));
}

/* Filled with a byte that no test sends: what a copy leaves out is not there from an earlier test by chance. */
static int emulated_allocate_host(struct device *device, size_t bytes, void **out)
{
    (void)device;
    if ((*out = malloc(bytes)) == NULL) return 1;
    memset(*out, 0xa5, bytes);
    return 0;
}

static int emulated_release_host(struct device *device, void *block)
{
    (void)device;
    free(block);
    return 0;
}

/* One more order for a queue. */
static int emulated_ask(struct device *device, int queue, order_run *run, const void *payload, size_t size)
{
    struct emulated *emulated = emulated_enter(device);
    return emulated_leave(emulated, orders_add(&emulated->orders, queue, run, payload, size));
}

struct copy_order {
    void *to;
    const void *from; /* NULL: zeros */
    size_t to_pitch, from_pitch, width, rows;
};

static void emulated_do_copy(void *context, const void *payload)
{
    const struct copy_order *copy = payload;
    emulated_let(context);
    for (size_t i = 0; i < copy->rows; i++)
        if (copy->from != NULL)
            memcpy((char *)copy->to + i * copy->to_pitch, (const char *)copy->from + i * copy->from_pitch, copy->width);
        else
            memset((char *)copy->to + i * copy->to_pitch, 0, copy->width);
    emulated_done(context);
}

static int emulated_clear(struct device *device, void *to, size_t bytes)
{
    const struct copy_order order = {.to = to, .width = bytes, .rows = 1};
    return emulated_ask(device, ORDERS_STREAM, emulated_do_copy, &order, sizeof order);
}

static int emulated_copy(struct device *device, void *to, size_t to_pitch, const void *from, size_t from_pitch,
                         size_t width, size_t rows)
{
    const struct copy_order order = {to, from, to_pitch, from_pitch, width, rows};
    return emulated_ask(device, ORDERS_STREAM, emulated_do_copy, &order, sizeof order);
}

static int emulated_carry(struct device *device, enum lane lane, void *to, size_t to_pitch, const void *from,
                          size_t from_pitch, size_t width, size_t rows, bool to_device)
{
    const struct copy_order order = {to, from, to_pitch, from_pitch, width, rows};
    (void)to_device;
    return emulated_ask(device, (int)lane, emulated_do_copy, &order, sizeof order);
}

static int emulated_mark(struct device *device, int which)
{
    struct emulated *emulated = emulated_enter(device);
    emulated->marks[which] = emulated->orders.queues[ORDERS_STREAM].asked;
    return emulated_leave(emulated, 0);
}

static int emulated_wait(struct device *device, int which)
{
    struct emulated *emulated = emulated_enter(device);
    orders_reach(&emulated->orders, ORDERS_STREAM, emulated->marks[which]);
    return emulated_leave(emulated, emulated->failed);
}

static int emulated_synchronize(struct device *device)
{
    struct emulated *emulated = emulated_enter(device);
    orders_reach(&emulated->orders, ORDERS_STREAM, emulated->orders.queues[ORDERS_STREAM].asked);
    return emulated_leave(emulated, emulated->failed);
}

static int emulated_point(struct device *device, enum lane lane, int which)
{
    struct emulated *emulated = emulated_enter(device);
    emulated->points[lane][which] = emulated->orders.queues[lane].asked;
    return emulated_leave(emulated, 0);
}

static int emulated_follow(struct device *device, enum lane lane)
{
    struct emulated *emulated = emulated_enter(device);
    return emulated_leave(emulated, orders_wait(&emulated->orders, (int)lane, ORDERS_STREAM,
                                                emulated->orders.queues[ORDERS_STREAM].asked));
}

static int emulated_await(struct device *device, enum lane lane, int which)
{
    struct emulated *emulated = emulated_enter(device);
    return emulated_leave(emulated,
                          orders_wait(&emulated->orders, ORDERS_STREAM, (int)lane, emulated->points[lane][which]));
}

static int emulated_arrive(struct device *device, enum lane lane, int which)
{
    struct emulated *emulated = emulated_enter(device);
    orders_reach(&emulated->orders, (int)lane, emulated->points[lane][which]);
    return emulated_leave(emulated, emulated->failed);
}

typedef void emulated_kernel(const struct launch *grid, const void *args);

#define X(name, type)                                                        \
    static void emulated_##name(const struct launch *grid, const void *args) \
    {                                                                        \
        name##_kernel(grid, args);                                           \
    }
KERNEL_LIST(X)
#undef X

/* Its arguments follow. */
struct launch_order {
    enum kernel kernel;
    int64_t blocks;
    max_align_t args[];
};

static void emulated_do_launch(void *context, const void *payload)
{
    static emulated_kernel *const kernels[] = {
#define X(name, type) emulated_##name,
        KERNEL_LIST(X)
#undef X
    };
    const struct launch_order *launch = payload;
    struct device *device = context;
    const bool reversed = ((const struct emulated *)device->state)->reversed;
    emulated_let(device);
    for (int64_t i = 0; i < launch->blocks; i++) {
        const struct launch grid = {reversed ? launch->blocks - 1 - i : i, launch->blocks, reversed};
        kernels[launch->kernel](&grid, launch->args);
    }
    emulated_done(device);
}

static int emulated_launch(struct device *device, enum kernel kernel, int64_t blocks, const void *args)
{
    static const size_t sizes[] = {
#define X(name, type) sizeof(struct type),
        KERNEL_LIST(X)
#undef X
    };
    struct launch_order *order = malloc(sizeof *order + sizes[kernel]);
    if (order == NULL) return 1;
    order->kernel = kernel;
    order->blocks = blocks;
    memcpy(order->args, args, sizes[kernel]);
    const int code = emulated_ask(device, ORDERS_STREAM, emulated_do_launch, order, sizeof *order + sizes[kernel]);
    free(order);
    return code;
}

/* To bfloat16, to nearest, ties to even; NaN stays NaN. */
static float rounded(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x == x) bits = (bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Factors are numbers of four bytes, or of two. */
static float factor_of(const struct device_gemm *g, const float *factors, int64_t i)
{
    uint16_t narrow;
    uint32_t bits;
    float value;
    if (!g->bf16) return factors[i];
    memcpy(&narrow, (const char *)factors + i * (int64_t)sizeof narrow, sizeof narrow);
    bits = (uint32_t)narrow << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void multiply(const struct emulated *emulated, const struct device_gemm *g)
{
    const bool rounds = emulated->rounds && !g->exact;
    for (int64_t j = 0; j < g->n; j++)
        for (int64_t i = 0; i < g->m; i++) {
            float sum = 0;
            for (int64_t l = 0; l < g->k; l++) {
                const float a = factor_of(g, g->a, g->transpose_a ? l + i * g->lda : i + l * g->lda),
                            b = factor_of(g, g->b, g->transpose_b ? j + l * g->ldb : l + j * g->ldb);
                sum += rounds ? rounded(a) * rounded(b) : a * b;
            }
            float *c = &g->c[i + j * g->ldc];
            *c = g->beta == 0 ? g->alpha * sum : g->alpha * sum + g->beta * *c;
        }
}

static void emulated_do_gemm(void *context, const void *payload)
{
    emulated_let(context);
    multiply(((struct device *)context)->state, payload);
    emulated_done(context);
}

static int emulated_gemm(struct device *device, const struct device_gemm *g)
{
    return emulated_ask(device, ORDERS_STREAM, emulated_do_gemm, g, sizeof *g);
}

static bool misaligned(const void *a, const void *b, const void *c)
{
    return ((uintptr_t)a | (uintptr_t)b | (uintptr_t)c) % 16 != 0;
}

/* What cuBLAS leaves to its caller is looked for: two products that write one place, and addresses that are not as
 * promised, or not as factors in bf16 want them. As in the plugin, floats are rounded only at such addresses. */
static void emulated_do_gemm_batched(void *context, const void *payload)
{
    const struct device_gemm_batched *args = payload;
    struct device *device = context;
    struct emulated *emulated = device->state;
    if (misaligned(args->a, args->b, args->c)) emulated->failed = 2;
    emulated_let(device);
    for (int64_t i = 0; i < args->count && emulated->failed == 0; i++) {
        const int64_t at = emulated->reversed ? args->count - 1 - i : i;
        struct device_gemm each = args->each;
        each.a = args->a[at], each.b = args->b[at], each.c = args->c[at];
        for (int64_t other = 0; other < at; other++)
            if (args->c[other] == each.c) emulated->failed = 2;
        each.exact = !args->aligned;
        if ((args->aligned || each.bf16) && misaligned(each.a, each.b, each.c)) emulated->failed = 2;
        multiply(emulated, &each);
    }
    emulated_done(device);
}

static int emulated_gemm_batched(struct device *device, const struct device_gemm_batched *args)
{
    return emulated_ask(device, ORDERS_STREAM, emulated_do_gemm_batched, args, sizeof *args);
}

static void emulated_close(struct device *device)
{
    struct emulated *emulated = device->state;
    orders_reach_all(&emulated->orders);
    pthread_mutex_destroy(&emulated->mutex);
    if (EMULATED_GUARDED) (void)munmap(emulated->addresses, EMULATED_ADDRESSES);
    free(emulated);
}

struct device *emulated_device(bool reversed)
{
    struct emulated *emulated = calloc(1, sizeof *emulated);
    if (emulated == NULL) return NULL;
    if (EMULATED_GUARDED) {
        emulated->addresses =
            mmap(NULL, EMULATED_ADDRESSES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (emulated->addresses == MAP_FAILED) {
            free(emulated);
            return NULL;
        }
    }
    emulated->reversed = reversed;
    emulated->orders.context = &emulated->device;
    pthread_mutex_init(&emulated->mutex, NULL);
    emulated->device = (struct device){
        .state = emulated,
        .text = "emulated device",
        .close = emulated_close,
        .error_text = emulated_error,
        .failure = emulated_failure,
        .memory = emulated_memory,
        .allocate = emulated_allocate,
        .release = emulated_release,
        .allocate_host = emulated_allocate_host,
        .release_host = emulated_release_host,
        .clear = emulated_clear,
        .upload = emulated_copy,
        .download = emulated_copy,
        .mark = emulated_mark,
        .wait = emulated_wait,
        .synchronize = emulated_synchronize,
        .carry = emulated_carry,
        .point = emulated_point,
        .follow = emulated_follow,
        .await = emulated_await,
        .arrive = emulated_arrive,
        .launch = emulated_launch,
        .gemm = emulated_gemm,
        .gemm_batched = emulated_gemm_batched,
    };
    emulated->device.memory_free = emulated->device.memory_total = (int64_t)1 << 33;
    return &emulated->device;
}

void emulated_round(struct device *device)
{
    ((struct emulated *)device->state)->rounds = device->narrow = true;
    memcpy(device->text, "emulated device, products in bf16", sizeof "emulated device, products in bf16");
}

bool emulated_trust(struct device *device)
{
    struct emulated *emulated = device->state;
    emulated->trusted = true;
    return !EMULATED_GUARDED || mprotect(emulated->addresses, EMULATED_ADDRESSES, PROT_READ | PROT_WRITE) == 0;
}
