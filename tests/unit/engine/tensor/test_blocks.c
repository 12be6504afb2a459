/* Block-quantized dtypes. The digests are those of the gguf package's numpy code over the same bytes, bit by bit. */
#include "unit.h"

#include "tensor/dtype.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 64 };

static const struct {
    enum dtype dtype;
    int halves[2]; /* places of a block's halves, whose sign of infinity is taken away; -1: none */
    uint64_t digest;
} rows[] = {
    {DTYPE_Q8_0, {0, -1}, UINT64_C(0x63f6afb84024f0c0)},   {DTYPE_Q4_0, {0, -1}, UINT64_C(0xce27affbcfb97000)},
    {DTYPE_Q4_1, {0, 2}, UINT64_C(0xba1c42ba3cf031b)},     {DTYPE_Q4_K, {0, 2}, UINT64_C(0xadae3516065f02ec)},
    {DTYPE_Q6_K, {208, -1}, UINT64_C(0xc88607a2fb792584)},
};

static void test_blocks_are_bitwise_those_of_the_reference(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const struct dtype_info *dtype = dtype_info(rows[r].dtype);
        const size_t width = dtype->bits / 8, size = BLOCKS * width;
        const int64_t count = BLOCKS * dtype->block;
        uint8_t *bytes = malloc(size);
        float *values = malloc((size_t)count * sizeof *values);
        uint32_t random = 1, bits;
        uint64_t digest = 0;
        assert_true(bytes != NULL && values != NULL && dtype->block <= DTYPE_BLOCK_MAX &&
                    width <= DTYPE_BLOCK_BYTES_MAX && dtype->from_f32 == NULL);
        for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)((random = random * 1664525u + 1013904223u) >> 24);
        for (size_t i = 0; i < BLOCKS; i++)
            for (int h = 0; h < 2; h++)
                if (rows[r].halves[h] >= 0) bytes[i * width + (size_t)rows[r].halves[h] + 1] &= 0xbf;
        dtype->to_f32(bytes, values, count);
        for (int64_t i = 0; i < count; i++) {
            memcpy(&bits, &values[i], sizeof bits);
            digest = (digest ^ bits) * UINT64_C(0x100000001b3);
        }
        if (digest != rows[r].digest) fail_msg("%s: %llx", dtype->name, (unsigned long long)digest);
        free(bytes);
        free(values);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_blocks_are_bitwise_those_of_the_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
