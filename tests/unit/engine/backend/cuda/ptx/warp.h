/* warp.h: what PTX's instructions do that the 32 threads of a warp execute together, under their own names with _ for
 * the dots. A thread's registers are in the order of the PTX. */
#ifndef TESTS_CUDA_PTX_WARP_H
#define TESTS_CUDA_PTX_WARP_H

#include "engine/backend/cuda/ptx/instructions.h"

OPERATION float *float_of(const struct ptx_thread *t, int i)
{
    return t->together.registers[i];
}

OPERATION uint32_t bits_of(const struct ptx_thread *t, int i)
{
    uint32_t bits;
    memcpy(&bits, t->together.registers[i], sizeof bits);
    return bits;
}

/* Element i of a thread's bfloat16 numbers, which begin in register `first`. */
OPERATION float bf16_element(const struct ptx_thread *t, int first, int i)
{
    const uint32_t pair = bits_of(t, first + i / 2);
    return f_of_r(i % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
}

/* d [16, 8] = a [16, 16] b [16, 8] + c: registers d 4, a 4, b 2, c 4. The places of elements are in the figures of
 * "Matrix Fragments for mma.m16n8k16 with floating point type" of the PTX ISA. */
OPERATION void mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32(struct ptx_thread *const lanes[PTX_WARP])
{
    float a[16][16], b[16][8], d[PTX_WARP][4];
    for (int lane = 0; lane < PTX_WARP; lane++) {
        const int group = lane >> 2, in_group = lane % 4;
        for (int i = 0; i < 8; i++)
            a[i < 2 || (i >= 4 && i < 6) ? group : group + 8][in_group * 2 + (i & 1) + (i < 4 ? 0 : 8)] =
                bf16_element(lanes[lane], 4, i);
        for (int i = 0; i < 4; i++)
            b[in_group * 2 + (i & 1) + (i < 2 ? 0 : 8)][group] = bf16_element(lanes[lane], 8, i);
    }
    for (int lane = 0; lane < PTX_WARP; lane++)
        for (int i = 0; i < 4; i++) {
            const int row = (lane >> 2) + (i < 2 ? 0 : 8), column = lane % 4 * 2 + (i & 1);
            d[lane][i] = *float_of(lanes[lane], 10 + i);
            for (int k = 0; k < 16; k++) d[lane][i] += a[row][k] * b[k][column];
        }
    for (int lane = 0; lane < PTX_WARP; lane++)
        for (int i = 0; i < 4; i++) *float_of(lanes[lane], i) = d[lane][i];
}

/* Four matrices [8, 8] of numbers of 16 bits from shared memory, whose rows the threads name one each. A thread gets of
 * each matrix the two neighbours in row lane / 4 and columns 2 (lane % 4), or, transposed, in the column and rows. */
OPERATION void load_matrices(struct ptx_thread *const lanes[PTX_WARP], bool transposed)
{
    uint16_t rows[PTX_WARP][8];
    for (int lane = 0; lane < PTX_WARP; lane++) {
        const struct ptx_together *together = &lanes[lane]->together;
        ptx_aligned(lanes[lane], together->numbers[0], 16, together->line);
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t word =
                ld_u32(lanes[lane], PTX_SHARED, (uint64_t)together->numbers[0] + 4 * i, together->line);
            memcpy(&rows[lane][2 * i], &word, sizeof word);
        }
    }
    for (int lane = 0; lane < PTX_WARP; lane++)
        for (int matrix = 0; matrix < 4; matrix++) {
            uint16_t pair[2];
            for (int i = 0; i < 2; i++) {
                const int row = lane >> 2, column = lane % 4 * 2 + i;
                pair[i] = transposed ? rows[8 * matrix + column][row] : rows[8 * matrix + row][column];
            }
            memcpy(lanes[lane]->together.registers[matrix], pair, sizeof pair);
        }
}

OPERATION void ldmatrix_sync_aligned_m8n8_x4_shared_b16(struct ptx_thread *const lanes[PTX_WARP])
{
    load_matrices(lanes, false);
}

OPERATION void ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16(struct ptx_thread *const lanes[PTX_WARP])
{
    load_matrices(lanes, true);
}

/* Each thread gets the number of the thread whose lane differs by the first of its numbers; then come the bound of
 * lanes and the mask of those that take part: all. Registers d, a. */
OPERATION void shfl_sync_bfly_b32(struct ptx_thread *const lanes[PTX_WARP])
{
    uint32_t values[PTX_WARP];
    for (int lane = 0; lane < PTX_WARP; lane++) values[lane] = bits_of(lanes[lane], 1);
    for (uint32_t lane = 0; lane < PTX_WARP; lane++) {
        const struct ptx_together *together = &lanes[lane]->together;
        if (together->numbers[0] >= PTX_WARP || together->numbers[1] != 31 || together->numbers[2] != UINT32_MAX)
            ptx_wrong(lanes[lane], "shuffles among a part of its warp");
        else
            memcpy(together->registers[0], &values[lane ^ together->numbers[0]], sizeof values[lane]);
    }
}

#endif
