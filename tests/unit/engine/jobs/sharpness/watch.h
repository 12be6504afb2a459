/* watch.h: a monitor of a sharpness run that stops it at a check of the test's choice, and sees that progress only
 * grows. */
#ifndef UNIT_SHARPNESS_WATCH_H
#define UNIT_SHARPNESS_WATCH_H

#include "base/error.h"
#include "base/monitor.h"
#include "unit.h"

#include <string.h>

/* Stops at the `stop`-th check and remembers progress. */
struct watch {
    struct monitor monitor;
    int64_t checks, stop, done, total;
    int anew, resumed; /* log lines */
};

static inline void watch_progress(void *owner, int64_t done, int64_t total, const char *unit)
{
    struct watch *watch = owner;
    if (strcmp(unit, "loss") == 0) {
        assert_true(done > 0 && total >= done);
        return;
    }
    assert_string_equal(unit, "product");
    assert_true(done >= watch->done && total >= done);
    watch->done = done;
    watch->total = total;
}

static inline void watch_log(void *owner, const char *line)
{
    struct watch *watch = owner;
    watch->anew += strstr(line, "beginning anew") != NULL;
    watch->resumed += strstr(line, "going on") != NULL;
}

static inline enum status watch_check(void *owner, struct error *out)
{
    struct watch *watch = owner;
    return ++watch->checks == watch->stop ? error_set(out, STATUS_CANCELLED, "stopped") : STATUS_OK;
}

static inline void watch_init(struct watch *watch, int64_t stop)
{
    *watch = (struct watch){.monitor = {watch, watch_progress, watch_log, watch_check}, .stop = stop};
}

#endif
