/* blocks.h: decodes the block-quantized dtypes of GGUF to float32 (layouts: github.com/ggml-org/ggml,
 * src/ggml-common.h). `count` is a multiple of the block's elements. Arithmetic is float32 with one rounding per
 * operation, as in ggml. */
#ifndef TENSOR_BLOCKS_H
#define TENSOR_BLOCKS_H

#include <stdint.h>

void blocks_q8_0_to_f32(const void *from, float *to, int64_t count);
void blocks_q4_0_to_f32(const void *from, float *to, int64_t count);
void blocks_q4_1_to_f32(const void *from, float *to, int64_t count);
void blocks_q4_k_to_f32(const void *from, float *to, int64_t count);
void blocks_q6_k_to_f32(const void *from, float *to, int64_t count);

#endif
