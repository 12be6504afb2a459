/* gptq.c: GPTQ inside one block of columns; tiles of rows go to threads. */
#include "backend/cpu/cpu.h"

struct solve_job {
    const struct kernels *kernels;
    const struct gptq_block_args *args;
    /* U[i, j] at j * GPTQ_BLOCK + i, so that the terms of a column are contiguous */
    _Alignas(64) float upper[GPTQ_BLOCK * GPTQ_BLOCK];
};

static void solve_tile(void *context, int64_t tile, int thread)
{
    (void)thread;
    const struct solve_job *job = context;
    job->kernels->gptq_tile(job->args, job->upper, tile);
}

void cpu_gptq_block(struct backend *backend, const struct gptq_block_args *args)
{
    struct solve_job job = {.kernels = cpu_of(backend)->kernels, .args = args};
    for (int64_t j = 0; j < args->upper.columns; j++)
        for (int64_t i = 0; i <= j; i++) job.upper[j * GPTQ_BLOCK + i] = float_row(args->upper, i)[j];
    team_run(backend->team, ceil_divide(args->weights.rows, GPTQ_ROW_TILE), solve_tile, &job);
}
