/* memory_counter.h: stands in for engine/base/memory.c and counts what is taken: the linker finds these first. */
#ifndef MEMORY_COUNTER_H
#define MEMORY_COUNTER_H

#include "base/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_llong memory_live, memory_peak;
enum { COUNTER_HEAD = 64 };

enum status size_multiply(size_t a, size_t b, const char *what, size_t *out, struct error *error)
{
    return __builtin_mul_overflow(a, b, out) ? error_set(error, STATUS_TOO_LARGE, "%s: size overflows", what)
                                             : STATUS_OK;
}

enum status size_add(size_t a, size_t b, const char *what, size_t *out, struct error *error)
{
    return __builtin_add_overflow(a, b, out) ? error_set(error, STATUS_TOO_LARGE, "%s: size overflows", what)
                                             : STATUS_OK;
}

enum status memory_new(int64_t count, size_t size, const char *what, void *out, struct error *error)
{
    char *block = NULL;
    const long long bytes = (long long)count * (long long)size;
    void *body = NULL;
    (void)what, (void)error;
    if (posix_memalign((void **)(void *)&block, 64, (size_t)bytes + 2 * COUNTER_HEAD) != 0) abort();
    memset(block, 0, (size_t)bytes + 2 * COUNTER_HEAD);
    memcpy(block, &bytes, sizeof bytes);
    const long long live = atomic_fetch_add(&memory_live, bytes) + bytes;
    long long peak = atomic_load(&memory_peak);
    while (live > peak && !atomic_compare_exchange_weak(&memory_peak, &peak, live)) continue;
    body = block + COUNTER_HEAD;
    memcpy(out, &body, sizeof body);
    return STATUS_OK;
}

void memory_free(void *body)
{
    long long bytes = 0;
    if (body == NULL) return;
    char *const block = (char *)body - COUNTER_HEAD;
    memcpy(&bytes, block, sizeof bytes);
    atomic_fetch_sub(&memory_live, bytes);
    free(block);
}

/* From here on: the peak over what is live now. */
static inline long long counter_begin(void)
{
    const long long live = atomic_load(&memory_live);
    atomic_store(&memory_peak, live);
    return live;
}

static inline long long counter_peak(long long begun)
{
    return atomic_load(&memory_peak) - begun;
}

#endif
