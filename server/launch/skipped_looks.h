/* skipped_looks.h: after submissions in vain a launcher passes over looks: 1, then 3, 7, … 63 of them. */
#ifndef LAUNCH_SKIPPED_LOOKS_H
#define LAUNCH_SKIPPED_LOOKS_H

#include <stdbool.h>

/* {0} at first; `in_vain` is 0 again after a success. */
struct skipped_looks {
    int in_vain; /* times since the last success, up to the one that counts most */
    int skip;    /* looks that pass without a submission */
};

/* Counts a look; whether it passes without a submission. */
bool skipped_looks_pass(struct skipped_looks *backoff);
/* Counts a submission in vain: backoff->skip looks pass from now on. */
void skipped_looks_fail(struct skipped_looks *backoff);

#endif
