/* identity.h: what a worker says of itself in the table of workers. */
#ifndef POOL_IDENTITY_H
#define POOL_IDENTITY_H

#include "pool/worker.h"

/* `threads`: of the engine. Lends the labels from the options. */
void identity_read(const struct worker_options *options, int threads, struct worker_identity *out);

#endif
