/* dtype.h: element types as checkpoints store them, and their conversion from and to float32. */
#ifndef TENSOR_DTYPE_H
#define TENSOR_DTYPE_H

#include "base/error.h"

#include <stdint.h>

enum dtype {
    DTYPE_F32,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_F64,
    DTYPE_I64,
    DTYPE_I32,
    DTYPE_I16,
    DTYPE_I8,
    DTYPE_U8,
    DTYPE_BOOL,
    DTYPE_U16,
    DTYPE_U32,
    DTYPE_U64,
    DTYPE_F8_E4M3,
    DTYPE_F8_E5M2,
    DTYPE_COUNT
};

struct dtype_info {
    const char *name; /* as safetensors writes it: "BF16" */
    size_t bits;
    void (*to_f32)(const void *from, float *to, int64_t count);   /* NULL: not a weight type */
    void (*from_f32)(const float *from, void *to, int64_t count); /* round to nearest even; NULL likewise */
};

const struct dtype_info *dtype_info(enum dtype dtype);
/* False when no dtype has this name. */
bool dtype_find(const char *name, enum dtype *out);

#endif
