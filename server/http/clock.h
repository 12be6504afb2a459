/* clock.h: monotonic time for deadlines. */
#ifndef HTTP_CLOCK_H
#define HTTP_CLOCK_H

#include <stdint.h>

int64_t clock_milliseconds(void);

#endif
