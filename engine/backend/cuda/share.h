/* share.h: what backend_budget asks of a device that may be shared. */
#ifndef BACKEND_CUDA_SHARE_H
#define BACKEND_CUDA_SHARE_H

#include "backend/backend.h"

/* Bytes that a run may take now; all that there is is promised to it. */
int64_t share_available(struct backend *backend);

#endif
