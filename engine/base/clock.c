#include "base/clock.h"

#include <time.h>

int64_t clock_nanoseconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t clock_milliseconds(void)
{
    return clock_nanoseconds() / 1000000;
}

double clock_seconds(void)
{
    return 1e-9 * (double)clock_nanoseconds();
}
