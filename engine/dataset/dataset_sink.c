#include "dataset/dataset_sink.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

/* SHORTEST_DROPPED: documents of so many tokens or fewer are dropped (GPTQModel's calibration_data_min_length). */
enum { SHORTEST_DROPPED = 10, TEXT_OF_TOKEN = 8 /* bytes */ };

static bool is_blocks(const struct dataset_sink *sink)
{
    return sink->use->packing == DATASET_BLOCKS && sink->use->sequence_length > 0;
}

/* Number of a document's tokens that are kept; INT64_MAX: all. */
static int64_t document_limit(const struct dataset_sink *sink)
{
    const struct dataset_use *use = sink->use;
    if (sink->raw || use->packing == DATASET_BLOCKS) return INT64_MAX;
    int64_t limit = use->sequence_length > 0 ? use->sequence_length : INT64_MAX;
    return use->longest > 0 && use->longest < limit ? use->longest : limit;
}

bool dataset_sink_document_full(const struct dataset_sink *sink)
{
    return dataset_sink_full(sink) || sink->seen >= document_limit(sink);
}

bool dataset_sink_full(const struct dataset_sink *sink)
{
    if (sink->raw || sink->use->max_sequences <= 0) return false;
    if (is_blocks(sink)) return sink->total / sink->use->sequence_length >= sink->use->max_sequences;
    return sink->out.count >= sink->use->max_sequences;
}

enum status dataset_sink_refuse(const struct dataset_sink *sink, int64_t ahead, int64_t token, struct error *error)
{
    int64_t sequence = is_blocks(sink) ? (sink->total + ahead) / sink->use->sequence_length : sink->out.count;
    int64_t position = is_blocks(sink) ? (sink->total + ahead) % sink->use->sequence_length : sink->seen + ahead;
    int64_t size = sink->use->vocabulary_size > 0 ? sink->use->vocabulary_size : (int64_t)UINT32_MAX + 1;
    if (sink->raw)
        return error_set(error, STATUS_INVALID, "token %lld at position %lld is outside the vocabulary of %lld",
                         (long long)token, (long long)(sink->total + ahead), (long long)size);
    return error_set(
        error, STATUS_INVALID,
        "token %lld (sequence %lld, position %lld) is outside the vocabulary of %lld: another model's tokens?",
        (long long)token, (long long)sequence, (long long)position, (long long)size);
}

static enum status too_many(const struct dataset_sink *sink, struct error *error)
{
    return error_set(error, STATUS_TOO_LARGE, "more than %lld tokens are in the data",
                     (long long)sink->use->most_tokens);
}

/* Text is counted too, because a tokenizer may hold much of it before it returns a token. */
enum status dataset_sink_read(struct dataset_sink *sink, size_t bytes, struct error *error)
{
    const int64_t most = sink->use->most_tokens;
    sink->text_read += (int64_t)bytes;
    return most > 0 && sink->text_read / TEXT_OF_TOKEN > most ? too_many(sink, error) : STATUS_OK;
}

enum status dataset_sink_put(struct dataset_sink *sink, const uint32_t *tokens, int64_t count, struct error *error)
{
    int64_t limit = document_limit(sink), size = sink->use->vocabulary_size;
    int64_t kept = sink->seen >= limit ? 0 : limit - sink->seen < count ? limit - sink->seen : count;
    if (sink->use->most_tokens > 0 && sink->total + kept > sink->use->most_tokens) return too_many(sink, error);
    enum status status =
        array_grow(&sink->out.tokens, sink->total + kept, &sink->tokens_capacity, sizeof *sink->out.tokens, error);
    if (status != STATUS_OK) return status;
    for (int64_t i = 0; i < kept; i++) {
        if (size > 0 && (int64_t)tokens[i] >= size) return dataset_sink_refuse(sink, i, tokens[i], error);
    }
    if (kept > 0) memcpy(sink->out.tokens + sink->total, tokens, (size_t)kept * sizeof *tokens);
    sink->total += kept;
    sink->seen += count;
    sink->found += count;
    return STATUS_OK;
}

static enum status end_sequence(struct dataset_sink *sink, struct error *error)
{
    enum status status =
        array_grow(&sink->out.starts, sink->out.count + 2, &sink->starts_capacity, sizeof *sink->out.starts, error);
    if (status != STATUS_OK) return status;
    sink->out.starts[sink->out.count++] = sink->begin;
    sink->out.starts[sink->out.count] = sink->begin = sink->total;
    return STATUS_OK;
}

enum status dataset_sink_end(struct dataset_sink *sink, struct error *error)
{
    int64_t seen = sink->seen, held = sink->total - sink->begin;
    sink->documents++;
    sink->seen = 0;
    if (seen > sink->longest) sink->longest = seen;
    if ((sink->raw && !sink->apart) || is_blocks(sink)) return STATUS_OK;
    if (sink->raw) return held > 0 ? end_sequence(sink, error) : STATUS_OK;
    bool dropped = sink->use->packing == DATASET_DOCUMENTS ? held <= SHORTEST_DROPPED : held < 2;
    if (sink->use->packing == DATASET_BLOCKS && dropped)
        return error_set(error, STATUS_INVALID, "sequence %lld has %lld tokens, at least 2 are needed",
                         (long long)sink->out.count, (long long)held);
    if (dropped || dataset_sink_full(sink)) {
        sink->total = sink->begin;
        return STATUS_OK;
    }
    return end_sequence(sink, error);
}

static enum status cut_blocks(struct dataset_sink *sink, struct error *error)
{
    const struct dataset_use *use = sink->use;
    int64_t length = sink->raw ? sink->total : use->sequence_length;
    int64_t count = length > 0 ? sink->total / length : 0;
    if (!sink->raw && use->max_sequences > 0 && count > use->max_sequences) count = use->max_sequences;
    enum status status =
        array_grow(&sink->out.starts, count + 1, &sink->starts_capacity, sizeof *sink->out.starts, error);
    if (status != STATUS_OK) return status;
    for (int64_t i = 0; i <= count; i++) sink->out.starts[i] = i * length;
    sink->out.count = count;
    return STATUS_OK;
}

static enum status too_little(const struct dataset_sink *sink, struct error *error)
{
    if (sink->raw || is_blocks(sink))
        return error_set(error, STATUS_INVALID, "too little text: %lld tokens found, %lld needed for one sequence",
                         (long long)sink->found, (long long)(sink->raw ? 2 : sink->use->sequence_length));
    return error_set(error, STATUS_INVALID,
                     "too little text: none of %lld documents has more than %d tokens (the longest has %lld)",
                     (long long)sink->documents, SHORTEST_DROPPED, (long long)sink->longest);
}

enum status dataset_sink_finish(struct dataset_sink *sink, struct sequences *out, struct error *error)
{
    const bool cut = (sink->raw && !sink->apart) || is_blocks(sink);
    enum status status = cut ? cut_blocks(sink, error) : STATUS_OK;
    if (status == STATUS_OK && (sink->out.count == 0 || (sink->raw && sink->total < 2)))
        status = too_little(sink, error);
    *out = (struct sequences){0};
    if (status == STATUS_OK)
        *out = sink->out;
    else
        dataset_sequences_free(&sink->out);
    sink->out = (struct sequences){0};
    return status;
}

void dataset_sequences_free(struct sequences *sequences)
{
    free(sequences->starts);
    free(sequences->tokens);
    *sequences = (struct sequences){0};
}
