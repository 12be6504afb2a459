#include "train/vocabulary.h"

#include "base/memory.h"
#include "tokenizer/tokenizer_train.h"

enum { CHUNK = 1 << 20 }; /* bytes of text handed over at once */
#define MOST_LEFT_OUT 0.5 /* share of the text in words that are too long to count */

/* The end of a chunk that begins at `first`: after a line break if its second half has one, otherwise at the beginning
 * of a character. */
static int64_t chunk_end(const char *text, int64_t first, int64_t size)
{
    if (size - first <= CHUNK) return size;
    for (int64_t end = first + CHUNK; end > first + CHUNK / 2; end--)
        if (text[end - 1] == '\n') return end;
    int64_t end = first + CHUNK;
    while (end > first && ((unsigned char)text[end] & 0xC0) == 0x80) end--;
    return end;
}

static enum status text_count(struct tokenizer_trainer *trainer, const char *text, int64_t size,
                              const struct monitor *monitor, struct error *error)
{
    for (int64_t first = 0, end; first < size; first = end) {
        enum status status;
        end = chunk_end(text, first, size);
        if ((status = tokenizer_train_add(trainer, text + first, (size_t)(end - first), error)) != STATUS_OK)
            return status;
        if ((status = monitor_check(monitor, error)) != STATUS_OK) return status;
    }
    return STATUS_OK;
}

/* A text without spaces may have nothing else: its tokenizer would be one of bytes, whatever its size. */
static enum status left_out_check(double share, const struct monitor *monitor, struct error *error)
{
    if (share > MOST_LEFT_OUT)
        return error_set_at(error, STATUS_INVALID, "/params/tokenizer",
                            "%.1f %% of the text are runs of more than %d bytes without a space or punctuation, from "
                            "which no tokenizer is learned; put spaces into the text, or take another tokenizer",
                            100 * share, TOKENIZER_TRAIN_WORD);
    if (share > 0)
        monitor_log(monitor, "%.2g %% of the text are runs of more than %d bytes, from which no token is learned",
                    100 * share, TOKENIZER_TRAIN_WORD);
    return STATUS_OK;
}

enum status vocabulary_learn(const struct dataset_source *source, int64_t vocabulary_size, const char *path,
                             const struct monitor *monitor, struct error *error)
{
    struct tokenizer *bytes = NULL;
    struct tokenizer_trainer *trainer = NULL;
    struct sequences documents = {0};
    enum status status;
    if (source->format != DATASET_TEXT && source->format != DATASET_JSONL)
        return error_set_at(error, STATUS_INVALID, "/params/tokenizer",
                            "a tokenizer can be learned from text, not from \"%s\" data",
                            dataset_format_names[source->format]);
    /* the ids of the tokenizer `bytes` are the text itself */
    if ((status = tokenizer_open_bytes(&bytes, error)) != STATUS_OK) goto done;
    if ((status = dataset_load_documents(source, bytes, 256, monitor, &documents, error)) != STATUS_OK) goto done;
    char *text = (char *)documents.tokens; /* packed in place: byte i is written after word i was read */
    for (int64_t i = 0; i < documents.starts[documents.count]; i++) text[i] = (char)documents.tokens[i];
    if ((status = tokenizer_train_new(&trainer, error)) != STATUS_OK) goto done;
    /* no word and no pair reaches from one document into the next */
    for (int64_t i = 0; i < documents.count; i++) {
        const int64_t first = documents.starts[i], size = documents.starts[i + 1] - first;
        if ((status = text_count(trainer, text + first, size, monitor, error)) != STATUS_OK) goto done;
    }
    status = left_out_check(tokenizer_train_left_out(trainer), monitor, error);
    if (status == STATUS_OK) status = tokenizer_train_write(trainer, vocabulary_size, path, error);
done:
    tokenizer_train_free(trainer);
    dataset_sequences_free(&documents);
    tokenizer_close(bytes);
    return status;
}
