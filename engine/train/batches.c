#include "train/batches.h"

#include "base/memory.h"
#include "base/random.h"

#define ORDER_STREAM (UINT64_C(1) << 40) /* above the streams that fresh weights are drawn from */

enum { ROUNDS = 6 };

int64_t batches_permute(uint64_t seed, uint64_t stream, int64_t index, int64_t count)
{
    int half = 1;
    while (((uint64_t)1 << (2 * half)) < (uint64_t)count) half++;
    const uint64_t mask = ((uint64_t)1 << half) - 1;
    uint64_t at = (uint64_t)index;
    do {
        uint64_t left = at >> half, right = at & mask;
        for (uint64_t round = 0; round < ROUNDS; round++) {
            const uint64_t next = left ^ (random_bits(seed, stream, round << 48 | right) & mask);
            left = right;
            right = next;
        }
        at = left << half | right;
    } while (at >= (uint64_t)count);
    return (int64_t)at;
}

enum status batches_init(struct batches *batches, const uint32_t *tokens, int64_t count, int64_t sequence_length,
                         int64_t sequences, uint64_t seed, struct error *error)
{
    const int64_t blocks = count / sequence_length, largest = sequences * sequence_length;
    enum status status;
    *batches = (struct batches){
        .tokens = tokens, .blocks = blocks, .sequence_length = sequence_length, .seed = seed, .capacity = sequences};
    if (blocks < 1)
        return error_set_at(error, STATUS_INVALID, "/params/dataset",
                            "the data has %lld tokens, fewer than one sequence of %lld; use more data",
                            (long long)count, (long long)sequence_length);
    if ((status = memory_new(sequences + 1, sizeof *batches->starts, "batch", &batches->starts, error)) != STATUS_OK)
        goto failed;
    if ((status = memory_new(largest, sizeof *batches->ids, "batch", &batches->ids, error)) != STATUS_OK) goto failed;
    if ((status = memory_new(largest, sizeof *batches->targets, "batch", &batches->targets, error)) != STATUS_OK)
        goto failed;
    if ((status = memory_new(largest, sizeof *batches->positions, "batch", &batches->positions, error)) != STATUS_OK)
        goto failed;
    for (int64_t s = 0; s <= sequences; s++) batches->starts[s] = s * sequence_length;
    for (int64_t t = 0; t < largest; t++) batches->positions[t] = (int32_t)(t % sequence_length);
    return STATUS_OK;
failed:
    batches_reset(batches);
    return status;
}

void batches_reset(struct batches *batches)
{
    memory_free(batches->starts);
    memory_free(batches->ids);
    memory_free(batches->targets);
    memory_free(batches->positions);
    *batches = (struct batches){0};
}

int64_t batches_block(const struct batches *batches, int64_t index)
{
    const uint64_t epoch = (uint64_t)(index / batches->blocks);
    return batches_permute(batches->seed, ORDER_STREAM + epoch, index % batches->blocks, batches->blocks);
}

struct batch batches_next(struct batches *batches, int64_t first, int64_t count)
{
    const int64_t length = batches->sequence_length;
    for (int64_t s = 0; s < count; s++) {
        const uint32_t *block = batches->tokens + batches_block(batches, first + s) * length;
        uint32_t *ids = batches->ids + s * length, *targets = batches->targets + s * length;
        for (int64_t t = 0; t < length; t++) {
            ids[t] = block[t];
            targets[t] = t + 1 < length ? block[t + 1] : TARGET_NONE;
        }
    }
    return (struct batch){.tokens = count * length,
                          .sequences = count,
                          .longest = length,
                          .starts = batches->starts,
                          .ids = batches->ids,
                          .targets = batches->targets,
                          .positions = batches->positions};
}
