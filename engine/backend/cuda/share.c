/* share.c: lets backends of one device plan together (promises.h): a plan is made with all available memory, the bytes
 * it needs are kept, and the rest is returned to the others before the work begins. */
#include "backend/cuda/share.h"

#include "backend/cuda/cuda.h"
#include "backend/cuda/open.h"
#include "base/integer.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

enum { WAIT_MILLISECONDS = 200, SPARE = 4 /* of a plan: blocks are rounded up and kept for reuse */ };

static bool is_shared(const struct cuda *cuda)
{
    return cuda->promises.fd >= 0;
}

/* Bytes that a plan cannot use: blocks in use, scratch of attention and of rounded factors, staging. Unused blocks that
 * are kept for reuse do not count. */
static int64_t spoken_for(const struct cuda *cuda)
{
    const int64_t kept = larger(cuda->attention_bytes - (int64_t)cuda->scratch.bytes, 0) +
                         larger(cuda->narrow_bytes - (int64_t)cuda->narrow.bytes, 0),
                  stage = cuda->stage.device == NULL ? cuda_stage_bytes(0, 0) : 0;
    return cuda_memory_used(cuda) + kept + stage;
}

static int64_t left_of(const struct cuda *cuda, int64_t bytes)
{
    return bytes == INT64_MAX ? INT64_MAX : larger(bytes - spoken_for(cuda), 0);
}

void cuda_promise(struct cuda *cuda, int64_t bytes)
{
    const int64_t wanted = bytes > 0 ? larger(bytes, cuda->budget) : INT64_MAX;
    struct error error;
    if (!is_shared(cuda)) return;
    const enum status status = promises_take(&cuda->promises, cuda->device, cuda_reserve(cuda->device->memory_total),
                                             smaller(wanted, cuda->limit), &cuda->space, &error);
    if (status != STATUS_OK) cuda_fail(cuda, status, error.detail);
    cuda->budget = cuda->promises.own.promised;
}

/* The bytes this backend could hold if the others gave back theirs. */
static int64_t in_all(const struct cuda *cuda)
{
    return is_shared(cuda) ? larger(smaller(cuda->space.may_have + cuda->space.others, cuda->limit), 0) : cuda->budget;
}

int64_t share_available(struct backend *backend)
{
    struct cuda *cuda = cuda_enter(backend);
    cuda_promise(cuda, 0);
    const int64_t left = left_of(cuda, cuda->budget);
    cuda_leave(cuda);
    return left;
}

int64_t cuda_memory(struct backend *backend)
{
    struct cuda *cuda = cuda_enter(backend);
    cuda_promise(cuda, 0);
    const int64_t left = left_of(cuda, in_all(cuda));
    cuda_leave(cuda);
    return left;
}

int64_t backend_cuda_may_take(const struct backend *backend)
{
    return in_all(backend->state);
}

enum status backend_cuda_capacity(const struct backend *backend, int64_t *out, struct error *error)
{
    const struct cuda *cuda = backend->state;
    const int64_t total = cuda->device->memory_total;
    *out = larger(total - cuda_reserve(total), 0);
    return backend_cuda_budget(out, error);
}

enum status backend_share(struct backend *backend, int64_t limit, const char *directory, struct error *error)
{
    struct cuda *cuda = cuda_of(backend);
    int64_t most = limit > 0 ? limit : INT64_MAX;
    if (backend->ops->host || cuda->device == NULL) return STATUS_OK;
    const char *uuid = cuda->device->identity.uuid;
    enum status status = backend_cuda_budget(&most, error);
    if (status == STATUS_OK) status = promises_open(directory, uuid[0] != '\0' ? uuid : "cuda", &cuda->promises, error);
    if (status != STATUS_OK) return status;
    (void)cuda_enter(backend);
    cuda->limit = most;
    cuda->budget = 0;
    cuda_promise(cuda, 1); /* reads how much there is, and takes nothing */
    cuda_keep_scratch(cuda, in_all(cuda));
    if ((status = cuda->status) != STATUS_OK) *error = cuda->error;
    cuda_leave(cuda);
    return status;
}

/* Whether the present promise covers the need. If so, it keeps the need and returns the rest. */
static bool keep_need(struct cuda *cuda, int64_t need)
{
    if (need > left_of(cuda, cuda->budget)) return false;
    int64_t bytes = spoken_for(cuda) + need + need / SPARE;
    if (cuda_memory_used(cuda) > 0) bytes = larger(bytes, cuda->planned); /* only part of an earlier plan */
    cuda->planned = bytes;
    cuda->budget = larger(smaller(bytes, cuda->budget), cuda->held);
    promises_keep(&cuda->promises, cuda->budget);
    return true;
}

/* Releases memory before a wait: two backends that wait for each other while both hold memory would wait for ever. */
static bool let_go(struct cuda *cuda)
{
    cuda_release_spare(cuda);
    cuda->budget = cuda->held;
    promises_keep(&cuda->promises, cuda->budget);
    return cuda->held == 0;
}

enum keeping { KEPT, CROWDED, HOPELESS, ENTANGLED };

static enum keeping try_to_keep(struct cuda *cuda, int64_t need)
{
    cuda_promise(cuda, 0);
    if (keep_need(cuda, need)) return KEPT;
    if (cuda->space.others == 0 || need > left_of(cuda, in_all(cuda))) return HOPELESS;
    return let_go(cuda) ? CROWDED : ENTANGLED;
}

enum status backend_claim(struct backend *backend, int64_t need, const struct monitor *monitor, bool *again,
                          struct error *error)
{
    static const struct timespec pause = {.tv_nsec = WAIT_MILLISECONDS * 1000000L};
    struct cuda *cuda = cuda_of(backend);
    *again = false;
    if (backend->ops->host || !is_shared(cuda)) return STATUS_OK;
    while (monitor_check(monitor, error) == STATUS_OK) {
        (void)cuda_enter(backend);
        const enum keeping found = try_to_keep(cuda, need);
        const int64_t others = cuda->space.others;
        cuda_leave(cuda);
        if (found == ENTANGLED)
            return error_set(error, STATUS_NO_MEMORY,
                             "%" PRId64 " more bytes of the device are needed, and other workers were promised %" PRId64
                             " of it meanwhile",
                             need, others);
        if (found != CROWDED) return STATUS_OK;
        if (!*again)
            monitor_log(monitor,
                        "waits for memory of the device: %" PRId64 " bytes are needed, and other workers were promised"
                        " %" PRId64,
                        need, others);
        *again = true;
        (void)nanosleep(&pause, NULL);
    }
    return error->status;
}

void backend_device_words(struct backend *backend, char *text, size_t size)
{
    text[0] = '\0';
    if (backend->ops->host) return;
    struct cuda *cuda = cuda_enter(backend);
    char limit[60] = "";
    if (cuda->limit < INT64_MAX) (void)snprintf(limit, sizeof limit, "; --device-memory allows %" PRId64, cuda->limit);
    if (is_shared(cuda))
        (void)snprintf(text, size,
                       "of %" PRId64 " free on the device %" PRId64 " are reserve and %" PRId64
                       " promised to other workers%s",
                       cuda->space.free, cuda_reserve(cuda->device->memory_total), cuda->space.outstanding, limit);
    cuda_leave(cuda);
}
