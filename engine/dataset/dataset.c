#include "dataset/dataset.h"

#include "base/memory.h"
#include "dataset/dataset_reader.h"

#include <assert.h>

const char *const dataset_format_names[] = {"text", "jsonl", "tokens", "inline", NULL};
const char *const dataset_packing_names[] = {"blocks", "documents", NULL};
static_assert(sizeof dataset_format_names / sizeof *dataset_format_names == DATASET_FORMAT_COUNT + 1,
              "a name a format");
static_assert(sizeof dataset_packing_names / sizeof *dataset_packing_names == DATASET_PACKING_COUNT + 1,
              "a name a packing");

static enum status (*const readers[])(struct dataset_reader *reader, const char *path, struct error *error) = {
    [DATASET_TEXT] = dataset_reader_text,
    [DATASET_JSONL] = dataset_reader_jsonl,
    [DATASET_TOKENS] = dataset_reader_tokens,
    [DATASET_INLINE] = NULL,
};

static enum status check(const struct dataset_source *source, const struct dataset_use *use,
                         const struct tokenizer *tokenizer, bool raw, struct error *error)
{
    bool text = source->format == DATASET_TEXT || source->format == DATASET_JSONL;
    if (text && tokenizer == NULL)
        return error_set(error, STATUS_INVALID, "text needs a tokenizer: a model with a tokenizer.json");
    if (use->sequence_length < 0 || use->sequence_length == 1)
        return error_set_at(error, STATUS_INVALID, "/sequence_length", "sequence_length is %lld, at least 2 is needed",
                            (long long)use->sequence_length);
    if (text && !raw && use->packing == DATASET_BLOCKS && use->sequence_length == 0)
        return error_set_at(error, STATUS_INVALID, "/sequence_length", "text packed as blocks needs a sequence_length");
    return STATUS_OK;
}

static enum status read_inline(struct dataset_reader *reader, struct error *error)
{
    const struct sequences *given = reader->source->inlined;
    enum status status = STATUS_OK;
    for (int64_t i = 0; status == STATUS_OK && i < given->count && !dataset_sink_full(reader->sink); i++) {
        status = dataset_sink_put(reader->sink, given->tokens + given->starts[i],
                                  given->starts[i + 1] - given->starts[i], error);
        if (status == STATUS_OK) status = dataset_sink_end(reader->sink, error);
    }
    return status;
}

/* `sink` is empty and says how sequences are made. */
static enum status load(const struct dataset_source *source, struct dataset_sink *sink,
                        const struct tokenizer *tokenizer, const struct monitor *monitor, struct sequences *out,
                        struct error *error)
{
    const struct dataset_use *use = sink->use;
    struct dataset_reader reader = {.source = source,
                                    .tokenizer = tokenizer,
                                    .monitor = monitor,
                                    .add_special_tokens = use->add_special_tokens,
                                    .sink = sink};
    struct dataset_files files = {0};
    *out = (struct sequences){0};
    enum status status = check(source, use, tokenizer, sink->raw, error);
    if (status == STATUS_OK && source->format == DATASET_INLINE) {
        status = read_inline(&reader, error);
    } else if (status == STATUS_OK) {
        status = dataset_files_list(source, &files, error);
        for (int64_t i = 0; status == STATUS_OK && i < files.count && !dataset_sink_full(sink); i++)
            status = readers[source->format](&reader, files.paths[i], error);
    }
    if (status == STATUS_OK) status = dataset_sink_finish(sink, out, error);
    dataset_sequences_free(&sink->out);
    dataset_files_free(&files);
    return status;
}

enum status dataset_load(const struct dataset_source *source, const struct dataset_use *use,
                         const struct tokenizer *tokenizer, const struct monitor *monitor, struct sequences *out,
                         struct error *error)
{
    struct dataset_sink sink = {.use = use};
    return load(source, &sink, tokenizer, monitor, out, error);
}

enum status dataset_load_tokens(const struct dataset_source *source, const struct tokenizer *tokenizer,
                                int64_t vocabulary_size, const struct monitor *monitor, uint32_t **tokens,
                                int64_t *count, struct error *error)
{
    struct dataset_use use = {.packing = DATASET_BLOCKS, .vocabulary_size = vocabulary_size};
    struct dataset_sink sink = {.use = &use, .raw = true};
    struct sequences all;
    *tokens = NULL;
    *count = 0;
    enum status status = load(source, &sink, tokenizer, monitor, &all, error);
    if (status != STATUS_OK) return status;
    *tokens = all.tokens;
    *count = all.starts[1];
    all.tokens = NULL;
    dataset_sequences_free(&all);
    return STATUS_OK;
}

enum status dataset_load_documents(const struct dataset_source *source, const struct tokenizer *tokenizer,
                                   int64_t vocabulary_size, const struct monitor *monitor, struct sequences *out,
                                   struct error *error)
{
    const struct dataset_use use = {.packing = DATASET_DOCUMENTS, .vocabulary_size = vocabulary_size};
    struct dataset_sink sink = {.use = &use, .raw = true, .apart = true};
    return load(source, &sink, tokenizer, monitor, out, error);
}

enum status dataset_look(const struct dataset_source *source, struct error *error)
{
    struct dataset_files files = {0};
    enum status status = dataset_files_list(source, &files, error);
    for (int64_t i = 0; i < files.count && status == STATUS_OK; i++)
        status = (source->format == DATASET_TOKENS ? dataset_reader_look_tokens
                                                   : dataset_reader_look_text)(source, files.paths[i], error);
    dataset_files_free(&files);
    return status;
}
