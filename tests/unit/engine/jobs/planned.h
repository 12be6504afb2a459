/* planned.h: what some work took, held against its plan. */
#ifndef PLANNED_H
#define PLANNED_H

#include "base/plan.h"
#include "engine/jobs/memory_counter.h"
#include "unit.h"

#include <stdio.h>

static const struct plan_budget unbounded = {.bytes = {INT64_MAX, INT64_MAX, INT64_MAX}};

/* What is measured lies within four fifths of the plan and the plan. What no plan counts one by one is all that little
 * work takes. */
static inline void compare(const char *what, int64_t planned, long long measured)
{
    if (measured <= planned && (double)measured >= 0.8 * (double)(planned - PLAN_SMALL_BYTES)) return;
    fail_msg("%s: planned %lld bytes, taken %lld (%.3f)", what, (long long)planned, measured,
             (double)measured / (double)planned);
}

/* Bytes that this process has read and written so far, of files and pipes; false where the kernel does not tell. */
struct transfers {
    long long read, written;
};
static inline bool transfers_now(struct transfers *out)
{
    FILE *file = fopen("/proc/self/io", "r");
    if (file == NULL) return false;
    const bool told = fscanf(file, "rchar: %lld wchar: %lld", &out->read, &out->written) == 2;
    (void)fclose(file);
    return told;
}

/* All of some work, for a test to begin and to end. */
struct watch {
    long long live;
    struct transfers before;
    bool told;
};
static inline struct watch watch_begin(void)
{
    struct watch watch = {.live = 0};
    watch.told = transfers_now(&watch.before);
    watch.live = counter_begin();
    return watch;
}

/* What a process reads of the machine's state, and headers of files, is little. */
enum { TRANSFERS_SMALL = 64 << 10 };

static inline void watch_end(const struct watch *watch, const char *what, const struct run_plan *plan)
{
    struct transfers now;
    compare(what, plan->peak[PLAN_HOST], counter_peak(watch->live));
    if (!watch->told || !transfers_now(&now)) return;
    now.read -= watch->before.read;
    now.written -= watch->before.written;
    if (now.read > plan->read_bytes + plan->read_bytes / 64 + TRANSFERS_SMALL || now.read < plan->read_bytes)
        fail_msg("%s: planned to read %lld bytes, read %lld", what, (long long)plan->read_bytes, now.read);
    if (now.written > plan->written_bytes + TRANSFERS_SMALL || now.written + TRANSFERS_SMALL < plan->written_bytes)
        fail_msg("%s: planned to write %lld bytes, wrote %lld", what, (long long)plan->written_bytes, now.written);
}

#endif
