/* attention.c: attention forward of texts with common beginnings: cuts a batch into tiles of queries and lists the
 * spans of keys that each sequence sees, for kernels/attention.h. Batches of whole sequences, and all other passes, are
 * in attention_products.c. */
#include "backend/cuda/cuda.h"

/* The tables in host scratch: a first pass counts their entries, a second writes them. */
struct plan {
    struct attention_rows *tiles;
    struct attention_span *spans;
    int64_t *span_starts, tile_count, span_count;
};

static void count_plan(const struct batch *batch, struct plan *plan)
{
    struct branch_stretch stretch;
    *plan = (struct plan){.span_count = batch->sequences};
    for (int64_t b = 0; b < batch->sequences; b++) {
        plan->tile_count += (batch->starts[b + 1] - batch->starts[b] + ATTENTION_TILE - 1) / ATTENTION_TILE;
        int64_t branch = batch->branches->parents[b], end = batch->branches->pasts[b];
        while (branch_climb(batch, &branch, &end, &stretch)) plan->span_count++;
    }
}

static void write_plan(const struct batch *batch, struct plan *plan)
{
    struct branch_stretch stretch;
    int64_t tile = 0, span = 0;
    for (int64_t b = 0; b < batch->sequences; b++) {
        const int64_t start = batch->starts[b], stop = batch->starts[b + 1], past = batch->branches->pasts[b];
        for (int64_t row = start; row < stop; row += ATTENTION_TILE)
            plan->tiles[tile++] = (struct attention_rows){
                b, row, stop - row < ATTENTION_TILE ? stop - row : ATTENTION_TILE, past + row - start};
        plan->span_starts[b] = span;
        plan->spans[span++] = (struct attention_span){0, start, past, stop - start};
        int64_t branch = batch->branches->parents[b], end = past;
        while (branch_climb(batch, &branch, &end, &stretch))
            plan->spans[span++] = (struct attention_span){stretch.kept, stretch.row, stretch.first, stretch.count};
    }
    plan->span_starts[batch->sequences] = span;
}

/* Fills the kernels' arguments, with all tables on the device. Returns the number of tiles, 0 after a failure. */
static int64_t plan_call(struct cuda *cuda, const struct attention_args *args, struct attention_kernel_args *call)
{
    const struct batch *batch = args->batch;
    const size_t starts_bytes = (size_t)(batch->sequences + 1) * sizeof(int64_t);
    struct plan plan;
    *call = (struct attention_kernel_args){.attention = *args};
    call->attention.batch = NULL;
    if (args->head_dim > ATTENTION_DIM)
        cuda_fail(cuda, STATUS_UNSUPPORTED,
                  "attention over shared beginnings on CUDA takes heads of at most 256 columns; use --device cpu"
                  " for this model");
    count_plan(batch, &plan);
    const size_t tile_bytes = (size_t)plan.tile_count * sizeof *plan.tiles,
                 span_bytes = (size_t)plan.span_count * sizeof *plan.spans;
    char *memory = cuda_host_scratch(cuda, tile_bytes + span_bytes + starts_bytes);
    if (memory == NULL) return 0;
    plan.tiles = (struct attention_rows *)(void *)memory;
    plan.spans = (struct attention_span *)(void *)(memory + tile_bytes);
    plan.span_starts = (int64_t *)(void *)(memory + tile_bytes + span_bytes);
    write_plan(batch, &plan);
    cuda_announce(cuda, tile_bytes + span_bytes + starts_bytes);
    call->tiles = cuda_staged(cuda, plan.tiles, tile_bytes);
    call->spans = cuda_staged(cuda, plan.spans, span_bytes);
    call->span_starts = cuda_staged(cuda, plan.span_starts, starts_bytes);
    return cuda->status == STATUS_OK ? plan.tile_count : 0;
}

void cuda_attention_forward(struct backend *backend, const struct attention_args *args)
{
    if (args->batch->branches == NULL) {
        cuda_attention_products_forward(backend, args);
        return;
    }
    struct cuda *cuda = cuda_enter(backend);
    struct attention_kernel_args call;
    const int64_t tiles = plan_call(cuda, args, &call);
    cuda_launch(cuda, KERNEL_attention_forward, tiles * args->heads, &call);
    cuda_leave(cuda);
}
