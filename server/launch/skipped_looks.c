#include "launch/skipped_looks.h"

enum { COUNTED_MOST = 6 };

bool skipped_looks_pass(struct skipped_looks *backoff)
{
    const bool passes = backoff->skip > 0;
    backoff->skip -= passes;
    return passes;
}

void skipped_looks_fail(struct skipped_looks *backoff)
{
    if (backoff->in_vain < COUNTED_MOST) backoff->in_vain++;
    backoff->skip = (1 << backoff->in_vain) - 1;
}
