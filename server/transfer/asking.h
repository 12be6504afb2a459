/* asking.h: repeats a request, with backoff, while its failures are temporary. */
#ifndef TRANSFER_ASKING_H
#define TRANSFER_ASKING_H

#include "transfer/transfer.h"

/* How long the caller may be made to wait. */
struct asking {
    const struct monitor *monitor; /* NULL when the caller cannot be stopped */
    int seconds;                   /* time limit of one request */
    int tries;
    double longest_wait; /* the most seconds to wait when the server names a time */
};

/* Calls `once` until its verdict is not TRANSFER_AGAIN. `once` returns a status other than STATUS_OK when a retry is
 * useless whatever the server says (no memory, the monitor). Otherwise it sets *verdict, *wait (the time that the
 * server named, or a negative number) and, unless all is good, the error. Returns the error's status;
 * STATUS_UNAVAILABLE after the last try. */
MUST_CHECK enum status asking_repeat(const struct asking *asking, const char *server,
                                     enum status (*once)(void *context, enum transfer_verdict *verdict, double *wait,
                                                         struct error *error),
                                     void *context, struct error *error);

#endif
