/* identity.h: a worker's description of itself for the table of workers. */
#ifndef POOL_IDENTITY_H
#define POOL_IDENTITY_H

#include "pool/worker.h"

/* `threads`: the engine's. Lends the labels from the options. */
void identity_read(const struct worker_options *options, int threads, struct worker_identity *out);

#endif
