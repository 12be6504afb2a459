/* asking.h: a request that is tried again, with backoff, while its failures are of the kind that pass. */
#ifndef TRANSFER_ASKING_H
#define TRANSFER_ASKING_H

#include "transfer/transfer.h"

/* How long the caller may be kept waiting. */
struct asking {
    const struct monitor *monitor; /* NULL for one who cannot be asked to stop */
    int seconds;                   /* for one request */
    int tries;
    double longest_wait; /* seconds, when the server asks for it */
};

/* Calls `once` until its verdict is not TRANSFER_AGAIN. `once` gives a status other than STATUS_OK when trying again
 * makes no sense whatever the server says (no memory, the monitor); else it fills *verdict, *wait (what the server
 * named, or below 0) and, unless all is good, the error. Its error's status, STATUS_UNAVAILABLE after the last try. */
MUST_CHECK enum status asking_repeat(const struct asking *asking, const char *server,
                                     enum status (*once)(void *context, enum transfer_verdict *verdict, double *wait,
                                                         struct error *error),
                                     void *context, struct error *error);

#endif
