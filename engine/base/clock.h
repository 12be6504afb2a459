/* clock.h: monotonic time for durations and deadlines: it does not jump when somebody sets the system clock. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

int64_t clock_nanoseconds(void);
int64_t clock_milliseconds(void);
double clock_seconds(void);

#endif
