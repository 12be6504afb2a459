#include "model/chunks.h"

#include "base/memory.h"

#include <string.h>

enum { TOKENS_LEAST = 2048, TOKENS_STEP = 1024 };

int64_t chunks_tokens(const struct backend *backend, int64_t hidden_size)
{
    const struct backend_sizes *sizes = backend->ops->sizes;
    const int64_t tokens = sizes->activation / hidden_size / TOKENS_STEP * TOKENS_STEP;
    return tokens < TOKENS_LEAST ? TOKENS_LEAST : tokens > sizes->chunk ? sizes->chunk : tokens;
}

struct arrays {
    int64_t *starts; /* space for sequences + chunks entries: each chunk has one more than its sequences */
    uint32_t *ids, *targets;
    int32_t *positions;
};

static void chunk_fill(const struct sequences *sequences, int64_t first, int64_t count, struct arrays *at,
                       struct chunk *chunk)
{
    const int64_t begin = sequences->starts[first], tokens = sequences->starts[first + count] - begin;
    chunk->first_token = begin;
    chunk->first_sequence = first;
    memcpy(at->ids, sequences->tokens + begin, (size_t)tokens * sizeof *at->ids);
    int64_t longest = 0;
    for (int64_t s = 0; s <= count; s++) at->starts[s] = sequences->starts[first + s] - begin;
    for (int64_t s = 0; s < count; s++) {
        const int64_t length = at->starts[s + 1] - at->starts[s];
        if (length > longest) longest = length;
        for (int64_t t = at->starts[s]; t < at->starts[s + 1]; t++) {
            at->targets[t] = t + 1 < at->starts[s + 1] ? at->ids[t + 1] : TARGET_NONE;
            at->positions[t] = (int32_t)(t - at->starts[s]);
        }
    }
    chunk->batch = (struct batch){tokens, count, longest, at->starts, at->ids, at->targets, at->positions, NULL};
    at->starts += count + 1;
    at->ids += tokens;
    at->targets += tokens;
    at->positions += tokens;
}

static int64_t sequences_that_fit(const struct sequences *sequences, int64_t first, int64_t tokens)
{
    int64_t count = 1;
    while (first + count < sequences->count &&
           sequences->starts[first + count + 1] - sequences->starts[first] <= tokens)
        count++;
    return count;
}

/* Bytes of the arrays of all batches; starts: at most a chunk for each sequence. */
static int64_t array_bytes(int64_t sequences, int64_t tokens)
{
    return 2 * sequences * (int64_t)sizeof(int64_t) + tokens * (int64_t)(2 * sizeof(uint32_t) + sizeof(int32_t));
}

int64_t chunks_bytes(const struct chunks *chunks)
{
    return chunks->sequences * (int64_t)sizeof *chunks->chunks + array_bytes(chunks->sequences, chunks->tokens);
}

enum status chunks_init(const struct sequences *sequences, int64_t tokens, struct chunks *out, struct error *error)
{
    const int64_t total = sequences->starts[sequences->count];
    const int64_t words = 2 * sequences->count;
    char *memory = NULL;
    enum status status;
    *out = (struct chunks){.tokens = total, .sequences = sequences->count, .predictions = total - sequences->count};
    if ((status = memory_new(sequences->count, sizeof *out->chunks, "chunks", &out->chunks, error)) != STATUS_OK)
        return status;
    if ((status = memory_new(array_bytes(sequences->count, total), 1, "token batches", &memory, error)) != STATUS_OK) {
        chunks_reset(out);
        return status;
    }
    out->memory = memory;
    struct arrays at = {.starts = (int64_t *)(void *)memory};
    at.ids = (uint32_t *)(void *)(memory + words * 8);
    at.targets = at.ids + total;
    at.positions = (int32_t *)(void *)(at.targets + total);
    for (int64_t first = 0, count; first < sequences->count; first += count) {
        struct chunk *chunk = &out->chunks[out->count++];
        count = sequences_that_fit(sequences, first, tokens);
        chunk_fill(sequences, first, count, &at, chunk);
        if (chunk->batch.longest > out->longest) out->longest = chunk->batch.longest;
        if (chunk->batch.tokens > out->largest) out->largest = chunk->batch.tokens;
    }
    return STATUS_OK;
}

void chunks_reset(struct chunks *chunks)
{
    memory_free(chunks->memory);
    memory_free(chunks->chunks);
    *chunks = (struct chunks){0};
}
