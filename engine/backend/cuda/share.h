/* share.h: the part of backend_budget for a device that may be shared. */
#ifndef BACKEND_CUDA_SHARE_H
#define BACKEND_CUDA_SHARE_H

#include "backend/backend.h"

/* Bytes that a run may take now; all available memory is promised to this backend. */
int64_t share_available(struct backend *backend);

#endif
