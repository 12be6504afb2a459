/* cuda.c: the table of the CUDA backend, and what all its slots share. */
#include "backend/cuda/cuda.h"

#include "backend/cuda/open.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BLOCKS = 4096, WHAT_TEXT = 160, ATTENTION_BYTES = 256 << 20, ATTENTION_SHARE = 8 };
/* A product of that size fills a large GPU's multiprocessors with tiles; a smaller square would only save work that
 * runs in parallel anyway. */
enum { SQUARE_COLUMNS = 2048, FACTOR_COLUMNS = 512 };

/* Reports a fault through backend->fault, so that the caller learns of it even if its work ends with another error
 * first: after a fault the device's results are NaN, which may be noticed earlier. */
static void tell_fault(struct backend *backend, enum status status, const struct error *error)
{
    if (status == STATUS_DEVICE && backend->fault != NULL && backend->fault->status != STATUS_DEVICE)
        *backend->fault = *error;
}

struct cuda *cuda_enter_product(struct backend *backend)
{
    struct cuda *cuda = cuda_of(backend);
    pthread_mutex_lock(&cuda->mutex);
    profile_begin(&cuda->profile);
    tell_fault(backend, cuda->status, &cuda->error);
    if (backend->device_peak != NULL && cuda->peak > *backend->device_peak) *backend->device_peak = cuda->peak;
    return cuda;
}

struct cuda *cuda_enter(struct backend *backend)
{
    struct cuda *cuda = cuda_enter_product(backend);
    cuda->narrowed.data = NULL;
    return cuda;
}

void cuda_leave(struct cuda *cuda)
{
    pthread_mutex_unlock(&cuda->mutex);
}

void cuda_fail(struct cuda *cuda, enum status status, const char *what)
{
    if (cuda->status != STATUS_OK) return;
    cuda->status = error_set(&cuda->error, status, "%s", what);
}

enum status cuda_device_failed(const struct cuda *cuda, const char *what, int code, struct error *error)
{
    static const enum status statuses[] = {
        [DEVICE_REFUSED] = STATUS_INTERNAL, [DEVICE_FULL] = STATUS_NO_MEMORY, [DEVICE_FAULT] = STATUS_DEVICE};
    char text[DEVICE_TEXT] = "";
    cuda->device->error_text(code, text, sizeof text);
    return error_set(error, statuses[cuda->device->failure(code)], "the CUDA device failed: %s: %s", what, text);
}

int cuda_careful(struct cuda *cuda, int code)
{
    return code == 0 && cuda->careful ? cuda->device->synchronize(cuda->device) : code;
}

bool cuda_good(struct cuda *cuda, const char *what, int code)
{
    if (cuda->status != STATUS_OK) return false;
    code = cuda_careful(cuda, code);
    profile_add(&cuda->profile, what);
    if (code != 0) cuda->status = cuda_device_failed(cuda, what, code, &cuda->error);
    return cuda->status == STATUS_OK;
}

const char *cuda_kernel_name(enum kernel kernel)
{
    static const char *const names[] = {
#define X(name, type) #name,
        KERNEL_LIST(X)
#undef X
    };
    return names[kernel];
}

void cuda_launch(struct cuda *cuda, enum kernel kernel, int64_t blocks, const void *args)
{
    char what[WHAT_TEXT];
    if (cuda->status != STATUS_OK || blocks == 0) return;
    if (blocks > INT32_MAX) {
        cuda_fail(cuda, STATUS_TOO_LARGE, "more blocks than a CUDA kernel may have: give it fewer tokens at a time");
        return;
    }
    const int code = cuda_careful(cuda, cuda->device->launch(cuda->device, kernel, blocks, args));
    if (code == 0) {
        profile_add(&cuda->profile, cuda_kernel_name(kernel));
        cuda->last = kernel;
        cuda->launches++;
        return;
    }
    (void)snprintf(what, sizeof what, "the kernel %s in %" PRId64 " blocks", cuda_kernel_name(kernel), blocks);
    (void)cuda_good(cuda, what, code);
}

int64_t cuda_blocks(int64_t elements)
{
    const int64_t blocks = (elements + KERNEL_THREADS - 1) / KERNEL_THREADS;
    return blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS;
}

/* Errors of asynchronous work surface here: the kernel that failed is the last one or an earlier one. */
bool cuda_wait(struct cuda *cuda)
{
    char what[WHAT_TEXT];
    if (cuda->status != STATUS_OK) return false;
    const int code = cuda->device->synchronize(cuda->device);
    if (code == 0) return true;
    if (cuda->careful || cuda->launches == 0)
        (void)snprintf(what, sizeof what, "waiting");
    else
        (void)snprintf(what, sizeof what,
                       "waiting, after %" PRId64 " kernels, the last of them %s (DELTAQ_CUDA_SYNC=1 names what failed)",
                       cuda->launches, cuda_kernel_name(cuda->last));
    return cuda_good(cuda, what, code);
}

static void cuda_close(struct backend *backend)
{
    struct cuda *cuda = cuda_of(backend);
    if (cuda == NULL) return;
    tell_fault(backend, cuda->status, &cuda->error);
    for (int i = 0; i < LANE_COUNT; i++) tell_fault(backend, cuda->lanes[i].status, &cuda->lanes[i].error);
    if (cuda->device != NULL) {
        profile_print(&cuda->profile, cuda->device->text, stderr);
        (void)cuda->device->synchronize(cuda->device);
        cuda_release_all(cuda);
        cuda->device->close(cuda->device);
    }
    promises_close(&cuda->promises); /* after the memory it held was given back */
    for (int i = 0; i < LANE_COUNT; i++) pthread_mutex_destroy(&cuda->lanes[i].mutex);
    pthread_mutex_destroy(&cuda->mutex);
    memory_free(cuda); /* the plugin stays loaded: the driver's threads outlive a backend */
}

static void cuda_describe(const struct backend *backend, char *text, size_t size)
{
    const struct cuda *cuda = backend->state;
    (void)snprintf(text, size, "%s", cuda->device->text); /* always the same: it names what decides the numbers */
}

static enum status cuda_prepare(struct backend *backend, int64_t longest_sequence, int64_t widest_row,
                                struct error *error)
{
    (void)backend, (void)longest_sequence, (void)widest_row, (void)error;
    return STATUS_OK; /* scratch grows on demand, because its size also depends on the number of tokens */
}

static enum status cuda_sync(struct backend *backend, struct error *error)
{
    struct cuda *cuda = cuda_enter(backend);
    (void)cuda_wait(cuda);
    const enum status status = cuda->status;
    if (status != STATUS_OK) *error = cuda->error;
    cuda_leave(cuda);
    return status;
}

/* Products of several thousand rows fill a large GPU and repay what each rounds or reads of its weights; every slice of
 * logits ends with a wait. */
static const struct backend_sizes sizes = {
    .activation = 8192 * 4096, .chunk = 16384, .logits = 64 << 20, .micro = 8192};

static const struct backend_ops ops = {
    .name = "cuda",
    .element = sizeof(float),
    .close = cuda_close,
    .describe = cuda_describe,
    .memory = cuda_memory,
    .allocate = cuda_allocate,
    .release = cuda_release,
    .prepare = cuda_prepare,
    .scratch = cuda_stage_bytes,
    .sync = cuda_sync,
#define X(type, slot, ...) .slot = cuda_##slot,
    BACKEND_SLOTS(X)
#undef X
        .host = false,
    .sizes = &sizes,
    .lanes = &cuda_lanes,
    .rounding = &cuda_rounding,
};

int64_t cuda_attention_share(int64_t budget)
{
    return budget / ATTENTION_SHARE < ATTENTION_BYTES ? budget / ATTENTION_SHARE : ATTENTION_BYTES;
}

void cuda_keep_scratch(struct cuda *cuda, int64_t budget)
{
    cuda->attention_bytes = cuda_attention_share(budget);
    cuda->narrow_bytes = cuda->rounds ? cuda_narrow_share(budget) : 0;
}

enum status backend_cuda_paper_new(int64_t budget, const char *products, struct backend **out, struct error *error)
{
    const enum status status = cuda_open_device(NULL, budget, NULL, out, error);
    if (status != STATUS_OK) return status;
    struct cuda *cuda = (*out)->state;
    cuda->rounds = products != NULL && strcmp(products, "bf16") == 0;
    cuda_keep_scratch(cuda, budget);
    return STATUS_OK;
}

/* An environment variable that is 1, or 0 or unset. */
static enum status read_switch(const char *name, bool *out, struct error *error)
{
    const char *text = getenv(name);
    *out = text != NULL && strcmp(text, "1") == 0;
    if (text == NULL || *out || *text == '\0' || strcmp(text, "0") == 0) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "%s: expected 0 or 1, found \"%.40s\"", name, text);
}

/* DELTAQ_CUDA_SYNC: finds the operation that failed. DELTAQ_CUDA_PROFILE: adds up the times of all (profile.h). */
static enum status read_switches(struct cuda *cuda, struct error *error)
{
    const enum status status = read_switch("DELTAQ_CUDA_PROFILE", &cuda->profile.on, error);
    if (status == STATUS_OK && read_switch("DELTAQ_CUDA_SYNC", &cuda->careful, error) != STATUS_OK)
        return error->status;
    cuda->careful = cuda->careful || cuda->profile.on;
    return status;
}

enum status cuda_open_device(struct device *device, int64_t budget, struct team *team, struct backend **out,
                             struct error *error)
{
    struct backend *backend = NULL;
    struct cuda *cuda = NULL;
    enum status status;
    *out = NULL;
    if ((status = memory_new(1, sizeof *backend, "backend", &backend, error)) != STATUS_OK) goto failed;
    if ((status = memory_new(1, sizeof *cuda, "backend", &cuda, error)) != STATUS_OK) goto failed;
    if ((status = read_switches(cuda, error)) != STATUS_OK) goto failed;
    cuda->device = device;
    cuda->rounds = device != NULL && device->narrow;
    cuda->budget = budget;
    cuda->limit = budget;
    cuda_keep_scratch(cuda, budget);
    cuda->square = SQUARE_COLUMNS;
    cuda->factor_columns = FACTOR_COLUMNS;
    cuda->narrow_tile = NARROW_TILE;
    cuda->promises.fd = -1;
    pthread_mutex_init(&cuda->mutex, NULL);
    for (int i = 0; i < LANE_COUNT; i++) pthread_mutex_init(&cuda->lanes[i].mutex, NULL);
    *backend = (struct backend){.ops = &ops, .team = team, .state = cuda};
    *out = backend;
    return STATUS_OK;
failed:
    if (device != NULL) device->close(device);
    memory_free(cuda);
    memory_free(backend);
    return status;
}
