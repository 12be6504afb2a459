#include "quant/gptq_block.h"

void gptq_block_solve(const struct gptq_block *block, int64_t tile)
{
    if (__builtin_cpu_supports("x86-64-v4"))
        gptq_block_solve_v4(block, tile);
    else if (__builtin_cpu_supports("x86-64-v3"))
        gptq_block_solve_v3(block, tile);
    else
        gptq_block_solve_v2(block, tile);
}
