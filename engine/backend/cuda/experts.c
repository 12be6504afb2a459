/* experts.c: launches kernels/experts.h. */
#include "backend/cuda/cuda.h"

static int64_t blocks_of_rows(int64_t rows)
{
    return (rows + ROUTE_ROWS - 1) / ROUTE_ROWS;
}

void cuda_route_forward(struct backend *backend, const struct route_args *args)
{
    struct cuda *cuda = cuda_enter(backend);
    const int64_t tiles = (args->logits.rows * args->per_token + ROUTE_TILE - 1) / ROUTE_TILE;
    struct route_kernel_args call = {.route = *args, .tiles = tiles};
    call.counts = cuda_scratch(cuda, (size_t)((tiles + 1) * args->logits.columns) * sizeof *call.counts);
    if (call.counts != NULL) {
        cuda_launch(cuda, KERNEL_route_choose, blocks_of_rows(args->logits.rows), &call);
        cuda_launch(cuda, KERNEL_route_count, tiles, &call);
        cuda_launch(cuda, KERNEL_route_starts, 1, &call);
        cuda_launch(cuda, KERNEL_route_place, tiles, &call);
    }
    cuda_leave(cuda);
}

static void rows_alone(struct backend *backend, enum kernel kernel, const struct route_args *args)
{
    struct cuda *cuda = cuda_enter(backend);
    cuda_launch(cuda, kernel, blocks_of_rows(args->logits.rows), &(struct route_kernel_args){.route = *args});
    cuda_leave(cuda);
}

void cuda_route_backward(struct backend *backend, const struct route_args *args)
{
    rows_alone(backend, KERNEL_route_backward, args);
}

void cuda_route_tangent(struct backend *backend, const struct route_args *args)
{
    rows_alone(backend, KERNEL_route_tangent, args);
}

void cuda_route_backward_tangent(struct backend *backend, const struct route_args *args)
{
    rows_alone(backend, KERNEL_route_backward_tangent, args);
}

static void visits(struct backend *backend, enum kernel kernel, int64_t blocks, const struct experts_args *args)
{
    struct cuda *cuda = cuda_enter(backend);
    cuda_launch(cuda, kernel, blocks, args);
    cuda_leave(cuda);
}

void cuda_experts_spread(struct backend *backend, const struct experts_args *args)
{
    visits(backend, KERNEL_experts_spread, cuda_blocks(args->sorted.rows * args->sorted.columns), args);
}

void cuda_experts_collect(struct backend *backend, const struct experts_args *args)
{
    visits(backend, KERNEL_experts_collect, cuda_blocks(args->token.rows * args->token.columns), args);
}

void cuda_experts_dot(struct backend *backend, const struct experts_args *args)
{
    visits(backend, KERNEL_experts_dot, blocks_of_rows(args->token.rows * args->per_token), args);
}
