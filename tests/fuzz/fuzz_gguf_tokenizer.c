/* A tokenizer in the metadata of a GGUF file, written from lines: the model, the way to split, then lines of
 * "TYPE token" ('1' to '6'), "m merge", "f flag" (a boolean that is true), "b id", "e id". What it becomes is a
 * tokenizer.json that opens or is refused, and encodes to ids of the vocabulary. */
#include "fuzz_file.h"

#include "formats/gguf/gguf_writer.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_gguf.h"

#include <string.h>

enum { LINES_MOST = 256 };

struct lines {
    struct {
        const char *text;
        size_t size;
    } of[LINES_MOST];
    int count;
};

static void cut(struct lines *lines, const char *text, size_t size)
{
    for (size_t at = 0; at < size && lines->count < LINES_MOST;) {
        const char *end = memchr(text + at, '\n', size - at);
        const size_t length = end != NULL ? (size_t)(end - text) - at : size - at;
        lines->of[lines->count].text = text + at;
        lines->of[lines->count++].size = length;
        at += length + 1;
    }
}

static void word_of(const struct lines *lines, int index, char out[64])
{
    const size_t size = index >= lines->count ? 0 : lines->of[index].size < 63 ? lines->of[index].size : 63;
    if (size > 0) memcpy(out, lines->of[index].text, size);
    out[size] = '\0';
}

static void put_texts(struct gguf_metadata *metadata, const struct lines *lines, const char *key, char first, char last)
{
    int64_t count = 0;
    for (int i = 2; i < lines->count; i++)
        count += lines->of[i].size >= 2 && lines->of[i].text[0] >= first && lines->of[i].text[0] <= last;
    gguf_metadata_texts(metadata, key, count);
    for (int i = 2; i < lines->count; i++)
        if (lines->of[i].size >= 2 && lines->of[i].text[0] >= first && lines->of[i].text[0] <= last)
            gguf_metadata_texts_add(metadata, lines->of[i].text + 2, lines->of[i].size - 2);
}

static void put_kinds(struct gguf_metadata *metadata, const struct lines *lines)
{
    int32_t types[LINES_MOST];
    float scores[LINES_MOST];
    int64_t count = 0;
    for (int i = 2; i < lines->count; i++) {
        const char kind = lines->of[i].size >= 2 ? lines->of[i].text[0] : '\0';
        if (kind < '1' || kind > '6') continue;
        types[count] = kind - '0';
        scores[count] = (float)-count;
        count++;
    }
    gguf_metadata_integers(metadata, "tokenizer.ggml.token_type", types, count);
    gguf_metadata_numbers(metadata, "tokenizer.ggml.scores", scores, count);
}

static void put_rest(struct gguf_metadata *metadata, const struct lines *lines)
{
    for (int i = 2; i < lines->count; i++) {
        char word[64], key[96];
        word_of(lines, i, word);
        const char *rest = strlen(word) > 2 ? word + 2 : "";
        if (word[0] == 'b' || word[0] == 'e')
            gguf_metadata_integer(metadata,
                                  word[0] == 'b' ? "tokenizer.ggml.bos_token_id" : "tokenizer.ggml.eos_token_id",
                                  (uint32_t)strtoul(rest, NULL, 10));
        (void)snprintf(key, sizeof key, "tokenizer.ggml.%s", rest);
        if (word[0] == 'f') gguf_metadata_boolean(metadata, key, true);
    }
}

/* A header and the metadata; no tensors. */
static void put_file(const struct gguf_metadata *metadata, char path[64], int *descriptor)
{
    struct {
        char magic[4];
        uint32_t version;
        uint64_t tensors, entries;
    } head = {{'G', 'G', 'U', 'F'}, 3, 0, metadata->count};
    const size_t size = sizeof head + metadata->pairs.length;
    uint8_t *bytes = malloc(size);
    fuzz_require(bytes != NULL);
    memcpy(bytes, &head, sizeof head);
    if (metadata->pairs.length > 0) memcpy(bytes + sizeof head, metadata->pairs.bytes, metadata->pairs.length);
    *descriptor = fuzz_file(bytes, size, path);
    free(bytes);
}

static void check(const struct text *json)
{
    static const char text[] = "ab  aab\n<s> 12^^ \xc3\xa9\xe2\x96\x81x <0x0A>";
    struct error error;
    struct tokenizer *tokenizer = NULL;
    struct token_list list = {0};
    const enum status status = tokenizer_open_memory("x", json->bytes, json->size, &tokenizer, &error);
    fuzz_require(status != STATUS_INTERNAL && status != STATUS_MALFORMED);
    if (status == STATUS_OK && tokenizer_encode(tokenizer, text, sizeof text - 1, true, &list, &error) == STATUS_OK)
        for (int64_t i = 0; i < list.count; i++)
            fuzz_require((int64_t)list.ids[i] < tokenizer_vocabulary_size(tokenizer));
    tokenizer_list_free(&list);
    tokenizer_close(tokenizer);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct lines lines = {.count = 0};
    struct gguf_metadata metadata = {0};
    struct text json = {0};
    struct error error;
    char word[64], path[64];
    int descriptor;
    cut(&lines, (const char *)bytes, size);
    word_of(&lines, 0, word);
    gguf_metadata_text(&metadata, "tokenizer.ggml.model", word);
    word_of(&lines, 1, word);
    gguf_metadata_text(&metadata, "tokenizer.ggml.pre", word);
    put_texts(&metadata, &lines, "tokenizer.ggml.tokens", '1', '6');
    put_kinds(&metadata, &lines);
    put_texts(&metadata, &lines, "tokenizer.ggml.merges", 'm', 'm');
    put_rest(&metadata, &lines);
    put_file(&metadata, path, &descriptor);
    const enum status status = tokenizer_gguf_text(path, &json, &error);
    fuzz_require(status == STATUS_OK || ((status == STATUS_CORRUPT || status == STATUS_UNSUPPORTED ||
                                          status == STATUS_INVALID || status == STATUS_TOO_LARGE) &&
                                         error.detail[0]));
    if (status == STATUS_OK) check(&json);
    text_free(&json);
    gguf_metadata_reset(&metadata);
    (void)close(descriptor);
    return 0;
}
