#include "base/memory.h"
#include "base/utf8.h"
#include "files/file.h"
#include "tokenizer/bpe_load.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/tokenizer_gguf.h"
#include "tokenizer/tokenizer_internal.h"

#include <stdlib.h>
#include <string.h>

enum { VERSION, TRUNCATION, PADDING, ADDED_TOKENS, NORMALIZER, PRE_TOKENIZER, POST_PROCESSOR, DECODER, MODEL };
static const char *const fields[] = {"version",       "truncation",     "padding", "added_tokens", "normalizer",
                                     "pre_tokenizer", "post_processor", "decoder", "model",        NULL};

/* A border between a letter and a space allows a cut when no step is affected by it, and either a step always splits
 * there or no merge joins the two characters that they become. */
static enum status find_cuts(struct tokenizer *tokenizer, struct error *error)
{
    struct pretokenizer_border border = pretokenizer_border(tokenizer->pretokenizer);
    struct text image = {0};
    enum status status = STATUS_OK;
    if (!border.harmless || !normalizer_splits(tokenizer->normalizer) || !added_splits(&tokenizer->added))
        return STATUS_OK;
    for (char c = 'A'; status == STATUS_OK && c <= 'z'; c++) {
        char text[] = {c, ' ', 'b'};
        int64_t pieces = 0;
        if (c > 'Z' && c < 'a') continue;
        if ((status = tokenizer_prepare(tokenizer, text, sizeof text, true, &image, &pieces, error)) != STATUS_OK)
            break;
        bool raw = pretokenizer_raw_bytes(tokenizer->pretokenizer);
        if (image.size < 3 || image.bytes[0] != c) continue;
        uint32_t space = raw ? tokenizer->bpe.alphabet[(uint8_t)image.bytes[1]] : utf8_decode(image.bytes + 1);
        size_t width = raw ? 1 : utf8_width(image.bytes[1]);
        bool clean = image.size == 2 + width && image.bytes[1 + width] == 'b';
        tokenizer->cuts[(uint8_t)c] = border.separates || (clean && bpe_splits(&tokenizer->bpe, (uint8_t)c, space));
    }
    text_free(&image);
    return status;
}

static void find_special(struct tokenizer *tokenizer)
{
    static const char *const begins[] = {"<|begin_of_text|>", "<s>", "<bos>", "<|startoftext|>", "<|endoftext|>", NULL};
    static const char *const ends[] = {"<|end_of_text|>", "</s>", "<eos>", "<|endoftext|>", NULL};
    const struct postprocessor *around = &tokenizer->postprocessor;
    tokenizer->bos = around->before.count > 0 ? (int64_t)around->before.ids[0] : -1;
    tokenizer->eos = around->after.count > 0 ? (int64_t)around->after.ids[around->after.count - 1] : -1;
    for (int i = 0; begins[i] != NULL && tokenizer->bos < 0; i++) tokenizer->bos = tokenizer_find(tokenizer, begins[i]);
    for (int i = 0; ends[i] != NULL && tokenizer->eos < 0; i++) tokenizer->eos = tokenizer_find(tokenizer, ends[i]);
}

static enum status check_ids(const struct part_document *document, struct tokenizer *tokenizer, struct error *error)
{
    const struct token_list *lists[] = {&tokenizer->postprocessor.before, &tokenizer->postprocessor.after};
    size_t size;
    tokenizer->size = tokenizer->bpe.vocabulary.size;
    for (int64_t i = 0; i < tokenizer->added.count; i++) {
        if (tokenizer->size <= (int64_t)tokenizer->added.tokens[i].id)
            tokenizer->size = (int64_t)tokenizer->added.tokens[i].id + 1;
    }
    for (int list = 0; list < 2; list++) {
        for (int64_t i = 0; i < lists[list]->count; i++) {
            uint32_t id = lists[list]->ids[i];
            if (added_find(&tokenizer->added, id) == NULL &&
                vocabulary_content(&tokenizer->bpe.vocabulary, id, &size) == NULL)
                return error_set(error, STATUS_CORRUPT, "%s: post_processor adds id %u, which no token has",
                                 document->name, id);
        }
    }
    return STATUS_OK;
}

static enum status load(const struct part_document *document, struct tokenizer *tokenizer, struct error *error)
{
    struct part top;
    enum status status;
    struct json_reader_text all = {.bytes = document->json, .size = document->bytes};
    if ((status = part_read(document, all, "the file", fields, false, &top, error)) != STATUS_OK) return status;
    if (top.spans[MODEL].bytes == NULL)
        return error_set(error, STATUS_CORRUPT, "%s: no \"model\": not a tokenizer.json", document->name);
    if ((status = bpe_load(document, top.spans[MODEL], &tokenizer->bpe, error)) != STATUS_OK) return status;
    if ((status = normalizer_load(document, top.spans[NORMALIZER], &tokenizer->normalizer, error)) != STATUS_OK)
        return status;
    status = pretokenizer_load(document, top.spans[PRE_TOKENIZER], tokenizer->bpe.whole_alphabet,
                               &tokenizer->pretokenizer, error);
    if (status != STATUS_OK) return status;
    status = added_load(document, top.spans[ADDED_TOKENS], tokenizer->normalizer, &tokenizer->bpe.vocabulary,
                        &tokenizer->added, error);
    if (status != STATUS_OK) return status;
    if ((status = postprocessor_load(document, top.spans[POST_PROCESSOR], &tokenizer->postprocessor, error)) !=
        STATUS_OK)
        return status;
    if ((status = decoder_load(document, top.spans[DECODER], &tokenizer->decoder, error)) != STATUS_OK) return status;
    if ((status = check_ids(document, tokenizer, error)) != STATUS_OK) return status;
    find_special(tokenizer);
    return find_cuts(tokenizer, error);
}

enum status tokenizer_open_memory(const char *name, const char *json, size_t bytes, struct tokenizer **out,
                                  struct error *error)
{
    *out = NULL;
    if (bytes > (size_t)TOKENIZER_FILE_LIMIT)
        return error_set(error, STATUS_TOO_LARGE, "%s: %zu bytes, at most %lld are read", name, bytes,
                         (long long)TOKENIZER_FILE_LIMIT);
    struct tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (tokenizer == NULL || (tokenizer->pool = tokenizer_pool_new()) == NULL) {
        free(tokenizer);
        return error_set(error, STATUS_NO_MEMORY, "no memory for a tokenizer");
    }
    enum status status = text_append(&tokenizer->source, json, bytes, error);
    struct part_document document = {.name = name, .json = tokenizer->source.bytes, .bytes = bytes};
    if (status == STATUS_OK) status = load(&document, tokenizer, error);
    if (status == STATUS_OK)
        *out = tokenizer;
    else
        tokenizer_close(tokenizer);
    return status;
}

enum status tokenizer_open(const char *path, struct tokenizer **out, struct error *error)
{
    char *json = NULL;
    size_t bytes;
    struct text text = {0};
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    *out = NULL;
    if (tokenizer_gguf_is(path)) {
        enum status made = tokenizer_gguf_text(path, &text, error);
        if (made == STATUS_OK) made = tokenizer_open_memory(name, text.bytes, text.size, out, error);
        text_free(&text);
        return made;
    }
    enum status status = file_read_all(AT_FDCWD, path, TOKENIZER_FILE_LIMIT, &json, &bytes, error);
    if (status == STATUS_OK) status = tokenizer_open_memory(name, json, bytes, out, error);
    memory_free(json);
    return status;
}

enum status tokenizer_open_bytes(struct tokenizer **out, struct error *error)
{
    static const char head[] =
        "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[],\"normalizer\":null,"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":false,"
        "\"use_regex\":false},\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\","
        "\"add_prefix_space\":false,\"trim_offsets\":false,\"use_regex\":false},"
        "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":null,"
        "\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":false,"
        "\"vocab\":{";
    struct text json = {0};
    *out = NULL;
    enum status status = text_append(&json, head, sizeof head - 1, error);
    for (unsigned byte = 0; status == STATUS_OK && byte < 256; byte++) {
        char c = (char)byte;
        status = text_append(&json, byte == '"' || byte == '\\' ? ",\"\\" : ",\"", byte == '"' || byte == '\\' ? 3 : 2,
                             error);
        if (status == STATUS_OK && byte == 0) json.bytes[--json.size - 1] = '"'; /* no comma before the first */
        if (status == STATUS_OK) status = byte_alphabet_append(&json, &c, 1, error);
        if (status == STATUS_OK) status = text_format(&json, error, "\":%u", byte);
    }
    if (status == STATUS_OK) status = text_format(&json, error, "},\"merges\":[]}}");
    if (status == STATUS_OK) status = tokenizer_open_memory("bytes", json.bytes, json.size, out, error);
    text_free(&json);
    return status;
}

void tokenizer_close(struct tokenizer *tokenizer)
{
    if (tokenizer == NULL) return;
    text_free(&tokenizer->source);
    bpe_reset(&tokenizer->bpe);
    normalizer_free(tokenizer->normalizer);
    pretokenizer_free(tokenizer->pretokenizer);
    added_reset(&tokenizer->added);
    postprocessor_reset(&tokenizer->postprocessor);
    decoder_free(tokenizer->decoder);
    tokenizer_pool_free(tokenizer->pool);
    free(tokenizer);
}
