#include "transfer/asking.h"

#include "transfer/backoff.h"

enum status asking_repeat(const struct asking *asking, const char *server,
                          enum status (*once)(void *context, enum transfer_verdict *verdict, double *wait,
                                              struct error *error),
                          void *context, struct error *error)
{
    struct backoff backoff = {.most = asking->tries, .longest = asking->longest_wait};
    enum transfer_verdict verdict = TRANSFER_AGAIN;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && verdict != TRANSFER_GOOD) {
        double named = -1, wait = 0;
        status = once(context, &verdict, &named, error);
        if (status == STATUS_OK && verdict == TRANSFER_FAILED) status = error->status;
        if (status == STATUS_OK && verdict == TRANSFER_AGAIN)
            status = backoff_fail(&backoff, named, error, &wait, error);
        if (status == STATUS_OK && wait > 1) monitor_log(asking->monitor, "%s is asked again in %.0f s", server, wait);
        if (status == STATUS_OK && wait > 0) status = backoff_sleep(wait, asking->monitor, error);
    }
    return status;
}
