/* inputs.c: launches kernels/inputs.h. */
#include "backend/cuda/cuda.h"

#include <math.h>

enum { HADAMARD_BLOCKS = 1024, HADAMARD_DOUBLES = 8 << 20 }; /* most blocks, and their scratch together */

void cuda_round_rows(struct backend *backend, const struct round_rows_args *args)
{
    struct cuda *cuda = cuda_enter(backend);
    if (args->threshold > 0 && cuda->status == STATUS_OK) {
        (void)cuda_good(cuda, "clearing memory",
                        cuda->device->clear(cuda->device, args->left, (size_t)args->x.columns));
        cuda_launch(cuda, KERNEL_round_mark, cuda_blocks(args->x.rows * args->x.columns), args);
    }
    cuda_launch(cuda, KERNEL_round_rows, args->x.rows, args);
    cuda_leave(cuda);
}

/* Scratch holds vectors too long for shared memory, and the output of Paley's matrix. */
void cuda_hadamard(struct backend *backend, const struct hadamard_args *args)
{
    struct cuda *cuda = cuda_enter(backend);
    struct hadamard_kernel_args call = {.hadamard = *args,
                                        .size = args->columns ? args->x.rows : args->x.columns,
                                        .vectors = args->columns ? args->x.columns : args->x.rows,
                                        .norm = 1 / sqrt((double)(args->order * args->power))};
    call.space = (call.size > HADAMARD_SHARED ? call.size : 0) + (args->order > 1 ? call.size : 0);
    const int64_t most = call.space == 0 ? HADAMARD_BLOCKS : HADAMARD_DOUBLES / call.space + 1;
    int64_t blocks = call.vectors < HADAMARD_BLOCKS ? call.vectors : HADAMARD_BLOCKS;
    if (blocks > most) blocks = most;
    if (call.space > 0) call.scratch = cuda_scratch(cuda, (size_t)(blocks * call.space) * sizeof *call.scratch);
    cuda_launch(cuda, KERNEL_hadamard, blocks, &call);
    cuda_leave(cuda);
}

void cuda_add_products(struct backend *backend, struct matrix to, struct matrix x, struct matrix by)
{
    struct cuda *cuda = cuda_enter(backend);
    cuda_launch(cuda, KERNEL_add_products, x.rows, &(struct select_args){.to = to, .from = x, .by = by});
    cuda_leave(cuda);
}
