/* rows.c: launches kernels/norm.h and kernels/loss.h, rope, and both passes of the embedding. */
#include "backend/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

enum { NORM_LANES = 32 }; /* fewest threads for a segment of a norm */

/* Threads for a segment of a norm: up to 32 numbers for each. */
static int norm_lanes(const struct norm_args *norm)
{
    int lanes = NORM_LANES;
    while (lanes < KERNEL_THREADS && NORM_LANES * lanes < norm->x.columns / norm->groups) lanes *= 2;
    return lanes;
}

/* Blocks for all segments of a norm. */
static int64_t norm_blocks(const struct norm_kernel_args *args)
{
    const int64_t teams = KERNEL_THREADS / args->lanes;
    return (args->norm.x.rows * args->norm.groups + teams - 1) / teams;
}

static void norm_alone(struct backend *backend, enum kernel kernel, const struct norm_args *norm)
{
    struct cuda *cuda = cuda_enter(backend);
    const struct norm_kernel_args args = {
        .norm = *norm,
        .lanes = norm_lanes(norm),
        .rounded = kernel == KERNEL_norm_forward && norm->to_product ? cuda_narrow_beside(cuda, norm->y) : NULL,
        .pitch = cuda_narrow_pitch(norm->y.columns)};
    cuda_launch(cuda, kernel, norm_blocks(&args), &args);
    cuda_leave(cuda);
}

void cuda_norm_forward(struct backend *backend, const struct norm_args *args)
{
    norm_alone(backend, KERNEL_norm_forward, args);
}

void cuda_norm_tangent(struct backend *backend, const struct norm_args *args)
{
    norm_alone(backend, KERNEL_norm_tangent, args);
}

/* to += the sums over the splits. */
static void add_partials(struct cuda *cuda, const struct norm_kernel_args *args, struct matrix to, double *partials)
{
    const struct sum_rows_args sums = {.to = to, .partials = partials, .rows = args->rows, .columns = args->columns};
    if (to.data != NULL) cuda_launch(cuda, KERNEL_sum_rows_end, cuda_blocks(args->columns), &sums);
}

static void norm_back(struct backend *backend, const struct norm_args *norm, bool tangent)
{
    struct cuda *cuda = cuda_enter(backend);
    const int64_t segments = norm->x.rows * norm->groups, columns = norm->weight.columns;
    const int64_t rows = columns == norm->x.columns / norm->groups ? segments : norm->x.rows;
    const int64_t splits = (rows + SPLIT_ROWS - 1) / SPLIT_ROWS, across = (columns + SPLIT_COLUMNS - 1) / SPLIT_COLUMNS;
    const struct matrix dweight = tangent ? norm->dweight_t : norm->dweight,
                        dbias = tangent ? norm->dbias_t : norm->dbias;
    double *scratch = cuda_scratch(cuda, (size_t)(4 * segments + 2 * splits * columns) * sizeof(double));
    if (scratch != NULL) {
        struct norm_kernel_args args = {.norm = *norm,
                                        .statistics = scratch,
                                        .rows = rows,
                                        .columns = columns,
                                        .tangent = tangent,
                                        .lanes = norm_lanes(norm)};
        args.partials = scratch + 4 * segments;
        args.bias_partials = args.partials + splits * columns;
        cuda_launch(cuda, KERNEL_norm_statistics, norm_blocks(&args), &args);
        if (dweight.data != NULL || dbias.data != NULL) {
            cuda_launch(cuda, KERNEL_norm_parameters, splits * across, &args);
            add_partials(cuda, &args, dweight, args.partials);
            add_partials(cuda, &args, dbias, args.bias_partials);
        }
        cuda_launch(cuda, tangent ? KERNEL_norm_backward_tangent : KERNEL_norm_backward, norm_blocks(&args), &args);
    }
    cuda_leave(cuda);
}

void cuda_norm_backward(struct backend *backend, const struct norm_args *args)
{
    norm_back(backend, args, false);
}

void cuda_norm_backward_tangent(struct backend *backend, const struct norm_args *args)
{
    norm_back(backend, args, true);
}

void cuda_rope(struct backend *backend, const struct rope_args *args)
{
    struct cuda *cuda = cuda_enter(backend);
    const size_t bytes = (size_t)args->x.matrix.rows * sizeof(int32_t);
    struct rope_kernel_args call = {.rope = *args};
    cuda_announce(cuda, bytes);
    call.positions = cuda_staged(cuda, args->batch->positions, bytes);
    cuda_launch(cuda, KERNEL_rope, cuda_blocks(args->x.matrix.rows * args->heads * (args->rotary / 2)), &call);
    cuda_leave(cuda);
}

void cuda_gather(struct backend *backend, struct matrix to, struct matrix table, const uint32_t *ids)
{
    struct cuda *cuda = cuda_enter(backend);
    const size_t bytes = (size_t)to.rows * sizeof *ids;
    struct embedding_args args = {.table = table, .rows = to};
    cuda_announce(cuda, bytes);
    args.ids = cuda_staged(cuda, ids, bytes);
    cuda_launch(cuda, KERNEL_gather, cuda_blocks(to.rows * to.columns), &args);
    cuda_leave(cuda);
}

/* A token's id and index, packed so that they sort by id and then by index. */
static int by_id(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void cuda_scatter_add(struct backend *backend, struct matrix table, struct matrix from, const uint32_t *ids)
{
    struct cuda *cuda = cuda_enter(backend);
    const size_t count = (size_t)from.rows;
    uint64_t *pairs = cuda_host_scratch(cuda, (3 * count + 1) * sizeof(uint64_t));
    if (pairs != NULL && count > 0) {
        int64_t *starts = (int64_t *)(pairs + count), segments = 0;
        uint32_t *unique = (uint32_t *)(starts + count + 1), *order = unique + count;
        for (size_t t = 0; t < count; t++) pairs[t] = (uint64_t)ids[t] << 32 | t;
        qsort(pairs, count, sizeof *pairs, by_id);
        for (size_t i = 0; i < count; i++) {
            const uint32_t id = (uint32_t)(pairs[i] >> 32);
            order[i] = (uint32_t)pairs[i];
            if (i > 0 && id == unique[segments - 1]) continue;
            unique[segments] = id;
            starts[segments++] = (int64_t)i;
        }
        starts[segments] = (int64_t)count;
        struct embedding_args args = {.table = table, .rows = from};
        cuda_announce(cuda, 3 * (count + 1) * sizeof(uint64_t));
        args.ids = cuda_staged(cuda, unique, (size_t)segments * sizeof *unique);
        args.order = cuda_staged(cuda, order, count * sizeof *order);
        args.starts = cuda_staged(cuda, starts, (size_t)(segments + 1) * sizeof *starts);
        cuda_launch(cuda, KERNEL_scatter_add, segments, &args);
    }
    cuda_leave(cuda);
}

void cuda_cross_entropy_forward(struct backend *backend, const struct cross_entropy_args *args)
{
    struct cuda *cuda = cuda_enter(backend);
    const size_t rows = (size_t)args->logits.rows, bytes = rows * sizeof(double);
    struct cross_entropy_args call = *args;
    cuda_announce(cuda, 3 * bytes);
    call.targets = cuda_staged(cuda, args->targets, rows * sizeof *args->targets);
    call.losses = cuda_result(cuda, bytes);
    call.log_sum = cuda_result(cuda, bytes);
    cuda_launch(cuda, KERNEL_cross_entropy_forward, (int64_t)rows, &call);
    cuda_fetch_all(
        cuda, (const struct cuda_fetched[]){{args->losses, call.losses, bytes}, {args->log_sum, call.log_sum, bytes}},
        2);
    cuda_leave(cuda);
}

/* Stages an array that a kernel only reads, for a struct field that is not const. */
static double *staged_doubles(struct cuda *cuda, const double *array, size_t count)
{
    void *copy = NULL;
    const void *staged = cuda_staged(cuda, array, count * sizeof *array);
    memcpy(&copy, &staged, sizeof copy);
    return copy;
}

static void cross_entropy_back(struct backend *backend, enum kernel kernel, const struct cross_entropy_args *args)
{
    struct cuda *cuda = cuda_enter(backend);
    const size_t rows = (size_t)args->logits.rows;
    struct cross_entropy_args call = *args;
    cuda_announce(cuda, 2 * rows * sizeof(double));
    call.targets = cuda_staged(cuda, args->targets, rows * sizeof *args->targets);
    call.log_sum = staged_doubles(cuda, args->log_sum, rows);
    call.losses = NULL;
    cuda_launch(cuda, kernel, (int64_t)rows, &call);
    cuda_leave(cuda);
}

void cuda_cross_entropy_backward(struct backend *backend, const struct cross_entropy_args *args)
{
    cross_entropy_back(backend, KERNEL_cross_entropy_backward, args);
}

void cuda_cross_entropy_backward_tangent(struct backend *backend, const struct cross_entropy_args *args)
{
    cross_entropy_back(backend, KERNEL_cross_entropy_backward_tangent, args);
}

void cuda_compare(struct backend *backend, const struct compare_args *args)
{
    struct cuda *cuda = cuda_enter(backend);
    const size_t rows = (size_t)args->p.rows, bytes = rows * sizeof(double);
    struct compare_args call = *args;
    cuda_announce(cuda, 6 * bytes);
    call.targets = cuda_staged(cuda, args->targets, rows * sizeof *args->targets);
    call.p_log_sum = cuda_staged(cuda, args->p_log_sum, bytes);
    call.q_log_sum = cuda_result(cuda, bytes);
    call.losses = cuda_result(cuda, bytes);
    call.kl = cuda_result(cuda, bytes);
    call.agree = cuda_result(cuda, rows);
    cuda_launch(cuda, KERNEL_compare, (int64_t)rows, &call);
    const struct cuda_fetched fetched[] = {{args->q_log_sum, call.q_log_sum, bytes},
                                           {args->losses, call.losses, bytes},
                                           {args->kl, call.kl, bytes},
                                           {args->agree, call.agree, rows}};
    cuda_fetch_all(cuda, fetched, 4);
    cuda_leave(cuda);
}
