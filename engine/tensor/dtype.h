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
    DTYPE_Q8_0, /* block-quantized: read only (blocks.h) */
    DTYPE_Q4_0,
    DTYPE_Q4_1,
    DTYPE_Q4_K,
    DTYPE_Q6_K,
    DTYPE_COUNT
};

enum { DTYPE_BLOCK_MAX = 256, DTYPE_BLOCK_BYTES_MAX = 256 }; /* elements and bytes of any dtype's block */

struct dtype_info {
    const char *name; /* as safetensors writes it: "BF16"; as GGUF does: "Q4_K" */
    size_t bits;      /* of a block */
    int64_t block;    /* elements that are encoded together; 1 for plain numbers. to_f32 takes whole blocks */
    void (*to_f32)(const void *from, float *to, int64_t count);   /* NULL: not a weight type */
    void (*from_f32)(const float *from, void *to, int64_t count); /* rounds to nearest even; NULL: not a weight type */
};

const struct dtype_info *dtype_info(enum dtype dtype);
/* False when no dtype has this name. */
bool dtype_find(const char *name, enum dtype *out);

#endif
