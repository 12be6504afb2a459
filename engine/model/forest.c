#include "model/forest.h"

#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { TOKEN_BYTES = 12 }; /* its id, its target, its position */

/* The sequences in lexicographic order, and how many tokens each has in common with the one before it. */
struct order {
    const struct sequences *sequences;
    int64_t *sorted, *common;
};

static int64_t length_of(const struct sequences *sequences, int64_t s)
{
    return sequences->starts[s + 1] - sequences->starts[s];
}

static int64_t common_tokens(const struct sequences *sequences, int64_t a, int64_t b)
{
    const uint32_t *left = sequences->tokens + sequences->starts[a], *right = sequences->tokens + sequences->starts[b];
    int64_t limit = length_of(sequences, a), count = 0;
    if (length_of(sequences, b) < limit) limit = length_of(sequences, b);
    while (count < limit && left[count] == right[count]) count++;
    return count;
}

static int compare(const void *left, const void *right, void *context)
{
    const struct sequences *sequences = context;
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right, common = common_tokens(sequences, a, b);
    const int64_t rest_a = length_of(sequences, a) - common, rest_b = length_of(sequences, b) - common;
    if (rest_a == 0 || rest_b == 0) return rest_a != rest_b ? (rest_a > rest_b) - (rest_a < rest_b) : (a > b) - (a < b);
    const uint32_t x = sequences->tokens[sequences->starts[a] + common],
                   y = sequences->tokens[sequences->starts[b] + common];
    return (x > y) - (x < y);
}

/* Without `shared` the sequences keep their order and have nothing in common. */
static enum status order_init(struct order *order, struct sequences *sequences, bool shared, struct error *error)
{
    enum status status;
    *order = (struct order){.sequences = sequences};
    if ((status = memory_new(sequences->count, sizeof(int64_t), "order of texts", &order->sorted, error)) != STATUS_OK)
        return status;
    if ((status = memory_new(sequences->count + 1, sizeof(int64_t), "order of texts", &order->common, error)) !=
        STATUS_OK)
        return status;
    for (int64_t i = 0; i < sequences->count; i++) order->sorted[i] = i;
    if (!shared) return STATUS_OK;
    qsort_r(order->sorted, (size_t)sequences->count, sizeof(int64_t), compare, sequences);
    for (int64_t i = 1; i < sequences->count; i++)
        order->common[i] = common_tokens(sequences, order->sorted[i - 1], order->sorted[i]);
    return STATUS_OK;
}

/* The next cut after `position` in the tokens that sequence i (in order) adds: the nearest position at which a later
 * sequence differs, else the end. */
static int64_t next_cut(const struct order *order, int64_t i, int64_t position)
{
    int64_t least = length_of(order->sequences, order->sorted[i]), cut = least;
    for (int64_t j = i + 1; j < order->sequences->count; j++) {
        if (order->common[j] < least) least = order->common[j];
        if (least <= position) break;
        if (least < cut) cut = least;
    }
    return cut;
}

struct builder {
    struct forest *forest;
    const struct order *order;
    int64_t capacity;   /* of segments */
    int64_t path_count; /* segments from a root to where the next one may continue */
    int64_t *path;
    uint32_t *ids; /* by row */
    int32_t *positions;
    int64_t chunk_tokens, slots; /* limits */
    bool whole;                  /* no stretch is cut in two */
    int64_t chunk_used, chunk_slots;
};

static enum status segment_reserve(struct builder *builder, struct error *error)
{
    struct forest *forest = builder->forest;
    struct forest_segment *larger = NULL;
    if (forest->segment_count < builder->capacity) return STATUS_OK;
    const int64_t capacity = 2 * builder->capacity + 64;
    const enum status status = memory_new(capacity, sizeof *larger, "segments of texts", &larger, error);
    if (status != STATUS_OK) return status;
    if (forest->segment_count > 0) memcpy(larger, forest->segments, (size_t)forest->segment_count * sizeof *larger);
    memory_free(forest->segments);
    forest->segments = larger;
    builder->capacity = capacity;
    return STATUS_OK;
}

static void chunk_next(struct builder *builder)
{
    builder->forest->chunks.count++;
    builder->chunk_used = builder->chunk_slots = 0;
}

/* Adds a segment that lies in one chunk: `tokens` [count] at `past`. It becomes the end of the path. `continued`:
 * others may continue it. */
static enum status segment_add(struct builder *builder, const uint32_t *tokens, int64_t past, int64_t count,
                               bool continued, struct error *error)
{
    struct forest *forest = builder->forest;
    const enum status status = segment_reserve(builder, error);
    if (status != STATUS_OK) return status;
    struct forest_segment *segment = &forest->segments[forest->segment_count];
    *segment = (struct forest_segment){
        .row = forest->chunks.tokens,
        .past = past,
        .tokens = count,
        .parent = past > 0 ? builder->path[builder->path_count - 1] : -1,
        .chunk = forest->chunks.count - 1,
        .last_child_chunk = -1,
    };
    if (segment->parent >= 0) forest->segments[segment->parent].last_child_chunk = segment->chunk;
    memcpy(builder->ids + segment->row, tokens, (size_t)count * sizeof *tokens);
    for (int64_t t = 0; t < count; t++) builder->positions[segment->row + t] = (int32_t)(past + t);
    builder->path[builder->path_count++] = forest->segment_count++;
    builder->chunk_used += count;
    builder->chunk_slots += continued;
    forest->chunks.tokens += count;
    return STATUS_OK;
}

/* Adds a stretch of a text, in as many chunks as it needs. */
static enum status stretch_add(struct builder *builder, const uint32_t *tokens, int64_t past, int64_t count,
                               bool continued, struct error *error)
{
    for (int64_t done = 0, part; done < count; done += part) {
        const bool full = builder->chunk_used == builder->chunk_tokens;
        const bool crowded = builder->slots > 0 && builder->chunk_slots == builder->slots;
        const bool tight =
            builder->whole && builder->chunk_used > 0 && builder->chunk_used + count > builder->chunk_tokens;
        if (builder->forest->chunks.count == 0 || full || crowded || tight) chunk_next(builder);
        part = builder->chunk_tokens - builder->chunk_used;
        if (part > count - done) part = count - done;
        const enum status status =
            segment_add(builder, tokens + done, past + done, part, continued || done + part < count, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

/* Adds the tokens that sequence i does not share with those before it. */
static enum status sequence_add(struct builder *builder, int64_t i, struct error *error)
{
    const struct order *order = builder->order;
    const struct sequences *sequences = order->sequences;
    struct forest *forest = builder->forest;
    const int64_t sequence = order->sorted[i], length = length_of(sequences, sequence);
    const uint32_t *tokens = sequences->tokens + sequences->starts[sequence];
    int64_t position = order->common[i];
    while (builder->path_count > 0) {
        const struct forest_segment *last = &forest->segments[builder->path[builder->path_count - 1]];
        if (last->past + last->tokens <= position) break;
        builder->path_count--;
    }
    while (position < length) {
        const int64_t cut = next_cut(order, i, position);
        const bool extended = i + 1 < sequences->count && order->common[i + 1] >= cut;
        const enum status status =
            stretch_add(builder, tokens + position, position, cut - position, cut < length || extended, error);
        if (status != STATUS_OK) return status;
        position = cut;
    }
    forest->leaves[sequence] = builder->path[builder->path_count - 1];
    if (length > forest->chunks.longest) forest->chunks.longest = length;
    return STATUS_OK;
}

/* Writes the forks that chunk `c` leaves behind into `out`, deepest first: the segments on the path to the next chunk's
 * beginning that this chunk or later ones continue. */
static int64_t forks_of(const struct forest *forest, int64_t c, int64_t next_first, int64_t *out)
{
    int64_t count = 0;
    if (next_first >= forest->segment_count) return 0;
    for (int64_t s = forest->segments[next_first].parent; s >= 0; s = forest->segments[s].parent)
        if (forest->segments[s].last_child_chunk > c) out[count++] = s;
    return count;
}

/* Arrays of all chunks' branches, one after another. */
struct arrays {
    int64_t *starts, *parents, *pasts, *slots, *ends, *lengths;
};

struct linker {
    struct forest *forest;
    struct arrays at;
    int64_t *before, *forks; /* segments: forks that the chunk was given, and that it leaves behind, shallowest first */
    int64_t before_count, fork_count;
};

/* The code of segment `s` as seen from chunk `c`, which begins with segment `first`. */
static int64_t branch_code(const struct linker *linker, int64_t first, int64_t s)
{
    if (s < 0) return BRANCH_ROOT;
    if (s >= first) return s - first;
    int64_t fork = 0;
    while (fork < linker->before_count && linker->before[fork] != s) fork++;
    assert(fork < linker->before_count);
    return branch_of_fork(fork);
}

static void chunk_link(struct linker *linker, int64_t c, int64_t first, int64_t end)
{
    struct forest *forest = linker->forest;
    struct arrays *at = &linker->at;
    const int64_t row = forest->segments[first].row;
    struct chunk *chunk = &forest->chunks.chunks[c];
    struct branches *branches = &forest->branches[c];
    *branches = (struct branches){at->parents, at->pasts, at->slots, 0, linker->fork_count, at->ends, at->lengths};
    chunk->first_token = row;
    chunk->first_sequence = first;
    chunk->batch.sequences = end - first;
    chunk->batch.starts = at->starts;
    chunk->batch.branches = branches;
    for (int64_t s = first; s < end; s++) {
        const struct forest_segment *segment = &forest->segments[s];
        *at->starts++ = segment->row - row;
        *at->parents++ = branch_code(linker, first, segment->parent);
        *at->pasts++ = segment->past;
        *at->slots++ = segment->last_child_chunk >= 0 ? branches->slot_count++ : -1;
        chunk->batch.tokens += segment->tokens;
        if (segment->tokens > chunk->batch.longest) chunk->batch.longest = segment->tokens;
    }
    *at->starts++ = chunk->batch.tokens;
    for (int64_t j = 0; j < linker->fork_count; j++) {
        const struct forest_segment *segment = &forest->segments[linker->forks[j]];
        *at->ends++ = branch_code(linker, first, linker->forks[j]);
        *at->lengths++ = segment->past + segment->tokens;
    }
    if (branches->slot_count > forest->slots) forest->slots = branches->slot_count;
    if (linker->fork_count > forest->forks) forest->forks = linker->fork_count;
    if (chunk->batch.tokens > forest->chunks.largest) forest->chunks.largest = chunk->batch.tokens;
}

static void reverse(int64_t *values, int64_t count)
{
    for (int64_t i = 0; i < count / 2; i++) {
        const int64_t kept = values[i];
        values[i] = values[count - 1 - i];
        values[count - 1 - i] = kept;
    }
}

/* The largest number of segments on a path, which bounds the number of forks. */
static int64_t deepest_path(const struct forest *forest)
{
    int64_t deepest = 0;
    for (int64_t s = 0; s < forest->segment_count; s++) {
        int64_t depth = 0;
        for (int64_t at = s; at >= 0; at = forest->segments[at].parent) depth++;
        if (depth > deepest) deepest = depth;
    }
    return deepest;
}

int64_t forest_bytes(const struct forest *forest, int64_t sequences, int64_t tokens)
{
    const int64_t chunks = forest->chunks.count, segments = forest->segment_count;
    const int64_t words = 4 * segments + chunks + 2 * deepest_path(forest) * chunks + sequences;
    return chunks * (int64_t)(sizeof *forest->chunks.chunks + sizeof *forest->branches) +
           words * (int64_t)sizeof(int64_t) + segments * (int64_t)sizeof *forest->segments + TOKEN_BYTES * tokens;
}

static enum status link_all(struct forest *forest, const uint32_t *ids, const uint32_t *targets,
                            const int32_t *positions, struct error *error)
{
    const int64_t chunks = forest->chunks.count, segments = forest->segment_count, deepest = deepest_path(forest);
    int64_t *memory = NULL, *scratch = NULL;
    struct linker linker = {.forest = forest};
    enum status status;
    if ((status = memory_new(chunks, sizeof *forest->chunks.chunks, "chunks", &forest->chunks.chunks, error)) !=
            STATUS_OK ||
        (status = memory_new(chunks, sizeof *forest->branches, "branches", &forest->branches, error)) != STATUS_OK ||
        (status = memory_new(4 * segments + chunks + 2 * deepest * chunks, sizeof *memory, "branches", &memory,
                             error)) != STATUS_OK ||
        (status = memory_new(2 * deepest, sizeof *scratch, "branches", &scratch, error)) != STATUS_OK) {
        memory_free(memory);
        return status;
    }
    forest->memory = memory;
    linker.before = scratch;
    linker.forks = scratch + deepest;
    linker.at.starts = memory;
    linker.at.parents = linker.at.starts + segments + chunks;
    linker.at.pasts = linker.at.parents + segments;
    linker.at.slots = linker.at.pasts + segments;
    linker.at.ends = linker.at.slots + segments;
    linker.at.lengths = linker.at.ends + deepest * chunks;
    for (int64_t c = 0, first = 0, end; c < chunks; c++, first = end) {
        struct chunk *chunk = &forest->chunks.chunks[c];
        for (end = first; end < segments && forest->segments[end].chunk == c;) end++;
        linker.fork_count = forks_of(forest, c, end, linker.forks);
        reverse(linker.forks, linker.fork_count);
        chunk_link(&linker, c, first, end);
        chunk->batch.ids = ids + chunk->first_token;
        chunk->batch.targets = targets + chunk->first_token;
        chunk->batch.positions = positions + chunk->first_token;
        linker.before_count = linker.fork_count;
        memcpy(linker.before, linker.forks, (size_t)linker.fork_count * sizeof *linker.forks);
    }
    memory_free(scratch);
    return STATUS_OK;
}

static enum status build(const struct sequences *given, struct builder builder, struct forest *out, struct error *error)
{
    struct sequences sequences = *given;
    const int64_t tokens = sequences.starts[sequences.count];
    struct order order = {0};
    uint32_t *targets = NULL;
    char *rows = NULL;
    enum status status;
    *out = (struct forest){0};
    builder.forest = out;
    builder.order = &order;
    if ((status = order_init(&order, &sequences, !builder.whole, error)) != STATUS_OK) goto done;
    if ((status = memory_new(tokens, TOKEN_BYTES, "token batches", &rows, error)) != STATUS_OK) goto done;
    out->chunks.memory = rows;
    if ((status = memory_new(sequences.count, sizeof *out->leaves, "texts", &out->leaves, error)) != STATUS_OK)
        goto done;
    if ((status = memory_new(tokens, sizeof *builder.path, "path of segments", &builder.path, error)) != STATUS_OK)
        goto done;
    builder.ids = (uint32_t *)(void *)rows;
    targets = builder.ids + tokens;
    builder.positions = (int32_t *)(void *)(targets + tokens);
    memset(targets, 0xff, (size_t)tokens * sizeof *targets); /* TARGET_NONE */
    for (int64_t i = 0; i < sequences.count; i++)
        if ((status = sequence_add(&builder, i, error)) != STATUS_OK) goto done;
    out->chunks.sequences = out->segment_count;
    status = link_all(out, builder.ids, targets, builder.positions, error);
done:
    memory_free(builder.path);
    memory_free(order.sorted);
    memory_free(order.common);
    if (status != STATUS_OK) forest_reset(out);
    return status;
}

enum status forest_init(const struct sequences *sequences, int64_t chunk_tokens, int64_t slots, struct forest *out,
                        struct error *error)
{
    return build(sequences, (struct builder){.chunk_tokens = chunk_tokens, .slots = slots}, out, error);
}

enum status forest_init_apart(const struct sequences *sequences, int64_t chunk_tokens, struct forest *out,
                              struct error *error)
{
    int64_t longest = chunk_tokens;
    for (int64_t s = 0; s < sequences->count; s++)
        if (length_of(sequences, s) > longest) longest = length_of(sequences, s);
    return build(sequences, (struct builder){.chunk_tokens = longest, .whole = true}, out, error);
}

void forest_reset(struct forest *forest)
{
    chunks_reset(&forest->chunks);
    memory_free(forest->segments);
    memory_free(forest->leaves);
    memory_free(forest->branches);
    memory_free(forest->memory);
    *forest = (struct forest){0};
}

int64_t forest_row(const struct forest *forest, int64_t sequence, int64_t position)
{
    const struct forest_segment *segment = &forest->segments[forest->leaves[sequence]];
    while (segment->past > position) segment = &forest->segments[segment->parent];
    return segment->row + position - segment->past;
}
