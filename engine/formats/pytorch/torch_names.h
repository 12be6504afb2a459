/* torch_names.h: the names that a pickle of tensors may import: functions that rebuild tensors, storages by dtype, and
 * classes in training states, which are skipped. Every other name is refused where it occurs. */
#ifndef PYTORCH_TORCH_NAMES_H
#define PYTORCH_TORCH_NAMES_H

#include "formats/pytorch/pickle.h"
#include "tensor/dtype.h"

enum torch_meaning {
    TORCH_PASSED_OVER,
    TORCH_REBUILD_TENSOR,    /* (storage, offset, size, stride, …) */
    TORCH_REBUILD_TYPED,     /* the same with the dtype at place 6, over a storage of bytes */
    TORCH_REBUILD_PARAMETER, /* likewise, with the dtype as argument 6, over a storage of bytes */
    TORCH_REBUILD_FROM_TYPE, /* (function, class, arguments, state) */
    TORCH_SIZE,              /* (tuple) */
    TORCH_STORAGE,           /* + an enum dtype; DTYPE_COUNT: one that deltaq does not have */
    TORCH_DTYPE = TORCH_STORAGE + DTYPE_COUNT + 1,
    TORCH_BYTES = TORCH_DTYPE + DTYPE_COUNT + 1 /* a storage of bytes */
};

extern const struct pickle_global torch_names[];
extern const size_t torch_names_count;

#endif
