#include "eval/overlap.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* Rolling: the hash of tokens t[0 … n) is the sum of (t[i] + 1) m^(n - 1 - i) modulo 2^64. */
static const uint64_t multiplier = 0x9E3779B97F4A7C15U;

struct window {
    uint64_t hash;
    int64_t first; /* token of the evaluation */
    bool seen;
};

static int compare_windows(const void *left, const void *right)
{
    const struct window *a = left, *b = right;
    if (a->hash != b->hash) return a->hash < b->hash ? -1 : 1;
    return (a->first > b->first) - (a->first < b->first);
}

static uint64_t hash_of(const uint32_t *tokens, int64_t count)
{
    uint64_t hash = 0;
    for (int64_t i = 0; i < count; i++) hash = hash * multiplier + tokens[i] + 1;
    return hash;
}

static int64_t lower_bound(const struct window *windows, int64_t count, uint64_t hash)
{
    int64_t low = 0;
    while (low < count) {
        const int64_t middle = low + (count - low) / 2;
        if (windows[middle].hash < hash)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

static void mark(const struct sequences *evaluation, struct window *windows, int64_t count, int64_t length,
                 uint64_t hash, const uint32_t *tokens)
{
    for (int64_t i = lower_bound(windows, count, hash); i < count && windows[i].hash == hash; i++)
        if (!windows[i].seen &&
            memcmp(evaluation->tokens + windows[i].first, tokens, (size_t)length * sizeof *tokens) == 0)
            windows[i].seen = true;
}

static void look_through(const struct sequences *evaluation, const struct sequences *calibration,
                         struct window *windows, const struct overlap *about)
{
    uint64_t highest = 1; /* multiplier^(window - 1) */
    for (int64_t i = 1; i < about->window; i++) highest *= multiplier;
    for (int64_t s = 0; s < calibration->count; s++) {
        const uint32_t *tokens = calibration->tokens + calibration->starts[s];
        const int64_t length = calibration->starts[s + 1] - calibration->starts[s];
        if (length < about->window) continue;
        uint64_t hash = hash_of(tokens, about->window);
        for (int64_t first = 0;; first++) {
            mark(evaluation, windows, about->windows, about->window, hash, tokens + first);
            if (first + about->window >= length) break;
            hash = (hash - (tokens[first] + 1) * highest) * multiplier + tokens[first + about->window] + 1;
        }
    }
}

enum status overlap_find(const struct sequences *evaluation, const struct sequences *calibration, struct overlap *out,
                         struct error *error)
{
    struct window *windows = NULL;
    int64_t longest = 0, count = 0;
    *out = (struct overlap){0};
    for (int64_t s = 0; s < evaluation->count; s++) {
        const int64_t length = evaluation->starts[s + 1] - evaluation->starts[s];
        longest = length > longest ? length : longest;
    }
    out->window = longest < OVERLAP_WINDOW ? longest : OVERLAP_WINDOW;
    if (out->window == 0) return STATUS_OK;
    for (int64_t s = 0; s < evaluation->count; s++)
        out->windows += (evaluation->starts[s + 1] - evaluation->starts[s]) / out->window;
    const enum status status = memory_new(out->windows, sizeof *windows, "windows of the evaluation", &windows, error);
    if (status != STATUS_OK) return status;
    for (int64_t s = 0; s < evaluation->count; s++)
        for (int64_t first = evaluation->starts[s]; first + out->window <= evaluation->starts[s + 1];
             first += out->window)
            windows[count++] = (struct window){hash_of(evaluation->tokens + first, out->window), first, false};
    qsort(windows, (size_t)count, sizeof *windows, compare_windows);
    look_through(evaluation, calibration, windows, out);
    for (int64_t i = 0; i < count; i++) out->overlapping += windows[i].seen;
    memory_free(windows);
    return STATUS_OK;
}
