/* table.c: the table of the plain loops in one element type, and the few functions without equations. */
#include "backend/reference/table.h"

#include "backend/reference/real.h"
#include "base/memory.h"

#include <stdio.h>

static void reference_close(struct backend *backend)
{
    (void)backend;
}

static void reference_describe(const struct backend *backend, char *text, size_t size)
{
    snprintf(text, size, "plain loops in %s, threads %d", sizeof(real) == 8 ? "double" : "float",
             team_size(backend->team));
}

static enum status reference_allocate(struct backend *backend, int64_t elements, const char *what, void **out,
                                      struct error *error)
{
    (void)backend;
    return memory_new(elements, sizeof(real), what, out, error);
}

static void reference_release(struct backend *backend, void *block)
{
    (void)backend;
    memory_free(block);
}

static enum status reference_prepare(struct backend *backend, int64_t longest_sequence, int64_t widest_row,
                                     struct error *error)
{
    (void)backend, (void)longest_sequence, (void)widest_row, (void)error;
    return STATUS_OK; /* needs no scratch */
}

static enum status reference_sync(struct backend *backend, struct error *error)
{
    (void)backend, (void)error;
    return STATUS_OK;
}

const struct backend_ops REFERENCE(ops) = {
    .name = sizeof(real) == 8 ? "reference64" : "reference",
    .element = sizeof(real),
    .close = reference_close,
    .describe = reference_describe,
    .memory = backend_host_memory,
    .scratch = backend_no_scratch,
    .allocate = reference_allocate,
    .release = reference_release,
    .prepare = reference_prepare,
    .sync = reference_sync,
#define X(type, slot, ...) .slot = REFERENCE(slot),
    BACKEND_SLOTS(X)
#undef X
        .host = true,
    .sizes = &backend_host_sizes,
};
