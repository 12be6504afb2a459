#include "tokenizer/bpe_load.h"

#include "base/utf8.h"
#include "tokenizer/byte_alphabet.h"

#include <stdio.h>
#include <string.h>

enum { TYPE, DROPOUT, UNK_TOKEN, PREFIX, SUFFIX, FUSE_UNK, BYTE_FALLBACK, IGNORE_MERGES, VOCAB, MERGES };
static const char *const fields[] = {"type",
                                     "dropout",
                                     "unk_token",
                                     "continuing_subword_prefix",
                                     "end_of_word_suffix",
                                     "fuse_unk",
                                     "byte_fallback",
                                     "ignore_merges",
                                     "vocab",
                                     "merges",
                                     NULL};

static enum status load_vocabulary(const struct part *model, struct vocabulary *out, struct error *error)
{
    struct json_reader reader;
    struct json_reader_text content;
    enum status added = STATUS_OK;
    struct error kept;
    part_reader(model->document, model->spans[VOCAB], &reader, error);
    json_reader_object(&reader);
    while (added == STATUS_OK && json_reader_next_key(&reader, &content)) {
        int64_t id;
        if (json_reader_int64(&reader, 0, TOKENIZER_ID_LIMIT - 1, &id))
            added = vocabulary_add(out, content.bytes, content.size, (uint32_t)id, &kept);
    }
    enum status status = json_reader_finish(&reader);
    if (added == STATUS_OK) return status;
    return error_set(error, added, "%s: vocabulary: %s", model->document->name, kept.detail);
}

static uint32_t last_character(const char *text, size_t size)
{
    size_t at = size - 1;
    while (!utf8_is_start(text[at])) at--;
    return utf8_decode(text + at);
}

/* Notes the two characters at the border of a merge. This is enough, because the characters inside its halves were
 * joined by the merges that made them. */
static enum status note_border(struct bpe *bpe, uint32_t left, uint32_t right, struct error *error)
{
    if (left >= 128 || right >= 128) return pair_map_put(&bpe->neighbours, left, right, 0, 0, error);
    bpe->ascii_neighbours[left][right >> 6] |= UINT64_C(1) << (right & 63);
    return STATUS_OK;
}

static enum status add_merge(struct bpe *bpe, int64_t rank, int64_t left, int64_t right, struct text *joined,
                             struct error *error)
{
    size_t left_size = 0, right_size = 0;
    const char *left_text = vocabulary_content(&bpe->vocabulary, left, &left_size);
    const char *right_text = vocabulary_content(&bpe->vocabulary, right, &right_size);
    if (left_text == NULL || right_text == NULL || left_size == 0 || right_size == 0)
        return error_set(error, STATUS_CORRUPT, "joins a token that the vocabulary lacks");
    joined->size = 0;
    enum status status = text_append(joined, left_text, left_size, error);
    if (status == STATUS_OK) status = text_append(joined, right_text, right_size, error);
    if (status != STATUS_OK) return status;
    int64_t id = vocabulary_find(&bpe->vocabulary, joined->bytes, joined->size);
    if (id < 0)
        return error_set(error, STATUS_CORRUPT, "makes \"%.*s\", which the vocabulary lacks",
                         (int)(joined->size < 60 ? joined->size : 60), joined->bytes);
    status = pair_map_put(&bpe->merges, (uint32_t)left, (uint32_t)right, (uint32_t)rank, (uint32_t)id, error);
    if (status != STATUS_OK) return status;
    return note_border(bpe, last_character(left_text, left_size), utf8_decode(right_text), error);
}

/* Reads "left right", with exactly one space. *comment: the line begins with #version and is no merge. */
static bool read_line(struct json_reader *reader, const struct vocabulary *vocabulary, int64_t *left, int64_t *right,
                      bool *comment)
{
    struct json_reader_text line;
    if (!json_reader_string(reader, &line)) return false;
    *comment = line.size >= 8 && memcmp(line.bytes, "#version", 8) == 0;
    if (*comment) return true;
    const char *space = memchr(line.bytes, ' ', line.size);
    size_t rest = space != NULL ? (size_t)(line.bytes + line.size - space - 1) : 0;
    if (space == NULL || memchr(space + 1, ' ', rest) != NULL)
        return json_reader_fail(reader, STATUS_CORRUPT, "a merge is two tokens and one space");
    *left = vocabulary_find(vocabulary, line.bytes, (size_t)(space - line.bytes));
    *right = vocabulary_find(vocabulary, space + 1, rest);
    return true;
}

/* ["left", "right"]. */
static bool read_pair(struct json_reader *reader, const struct vocabulary *vocabulary, int64_t *left, int64_t *right)
{
    struct json_reader_text token;
    int count = 0;
    json_reader_array(reader);
    while (json_reader_next_item(reader)) {
        if (!json_reader_string(reader, &token)) break;
        int64_t id = vocabulary_find(vocabulary, token.bytes, token.size);
        *(count++ == 0 ? left : right) = id;
    }
    if (json_reader_status(reader) == STATUS_OK && count != 2)
        json_reader_fail(reader, STATUS_CORRUPT, "a merge is two tokens, not %d", count);
    return json_reader_status(reader) == STATUS_OK;
}

static enum status load_merges(const struct part *model, struct bpe *bpe, struct error *error)
{
    struct json_reader reader;
    struct text joined = {0};
    struct error kept;
    enum status added = STATUS_OK;
    int64_t rank = 0;
    part_reader(model->document, model->spans[MERGES], &reader, error);
    json_reader_array(&reader);
    while (added == STATUS_OK && json_reader_next_item(&reader)) {
        int64_t left = -1, right = -1;
        bool comment = false;
        bool read = json_reader_peek(&reader) == JSON_READER_STRING
                        ? read_line(&reader, &bpe->vocabulary, &left, &right, &comment)
                        : read_pair(&reader, &bpe->vocabulary, &left, &right);
        if (!read) break;
        if (!comment) added = add_merge(bpe, rank++, left, right, &joined, &kept);
    }
    enum status status = json_reader_finish(&reader);
    text_free(&joined);
    if (added == STATUS_OK) return status;
    return error_set(error, added, "%s: merge number %lld %s", model->document->name, (long long)rank, kept.detail);
}

static enum status refuse_unsupported(const struct part *model, struct error *error)
{
    static const int affixes[] = {PREFIX, SUFFIX};
    const char *name = model->document->name;
    struct text affix = {0};
    for (int i = 0; i < 2; i++) {
        affix.size = 0;
        enum status status = part_text(model, affixes[i], &affix, error);
        if (status == STATUS_OK && affix.size > 0)
            status = error_set(error, STATUS_UNSUPPORTED, "%s: model has a %s, which deltaq does not do", name,
                               fields[affixes[i]]);
        if (status != STATUS_OK) {
            text_free(&affix);
            return status;
        }
    }
    text_free(&affix);
    struct json_reader_text dropout = model->spans[DROPOUT];
    if (dropout.bytes != NULL && !json_reader_is(dropout, "0.0") && !json_reader_is(dropout, "0"))
        return error_set(error, STATUS_UNSUPPORTED, "%s: model has dropout, which is random; set it to null", name);
    if (model->spans[VOCAB].bytes == NULL || model->spans[MERGES].bytes == NULL)
        return error_set(error, STATUS_CORRUPT, "%s: model lacks \"%s\"", name,
                         model->spans[VOCAB].bytes != NULL ? "merges" : "vocab");
    return STATUS_OK;
}

static enum status find_unknown(const struct part *model, struct bpe *bpe, struct error *error)
{
    struct text content = {0};
    bpe->unknown = -1;
    enum status status = part_text(model, UNK_TOKEN, &content, error);
    if (status == STATUS_OK && model->spans[UNK_TOKEN].bytes != NULL) {
        bpe->unknown = vocabulary_find(&bpe->vocabulary, content.bytes, content.size);
        if (bpe->unknown < 0)
            status = error_set(error, STATUS_CORRUPT, "%s: unk_token \"%.60s\" is not in the vocabulary",
                               model->document->name, content.bytes);
    }
    text_free(&content);
    return status;
}

/* Fills the tables that every word needs. */
static void fill_tables(struct bpe *bpe)
{
    char text[8];
    for (uint32_t c = 0; c < BPE_COMMON; c++)
        bpe->common[c] = (int32_t)vocabulary_find(&bpe->vocabulary, text, utf8_encode(c, text));
    byte_alphabet_fill(bpe->alphabet);
    bpe->whole_alphabet = true;
    for (unsigned byte = 0; byte < 256; byte++) {
        snprintf(text, sizeof text, "<0x%02X>", byte);
        bpe->fallback[byte] = (int32_t)vocabulary_find(&bpe->vocabulary, text, 6);
        if (bpe->common[bpe->alphabet[byte]] < 0) bpe->whole_alphabet = false;
    }
}

enum status bpe_load(const struct part_document *document, struct json_reader_text span, struct bpe *out,
                     struct error *error)
{
    struct part model;
    char type[64];
    enum status status;
    *out = (struct bpe){.unknown = -1};
    if ((status = part_type(document, span, "model", type, error)) != STATUS_OK) return status;
    if (type[0] != '\0' && strcmp(type, "BPE") != 0) /* files from before 2020 have no type */
        return error_set(error, STATUS_UNSUPPORTED, "%s: model type \"%s\"; deltaq does BPE", document->name, type);
    if ((status = part_read(document, span, "model", fields, false, &model, error)) != STATUS_OK) return status;
    if ((status = refuse_unsupported(&model, error)) != STATUS_OK) return status;
    if ((status = part_bool(&model, FUSE_UNK, &out->fuse_unknown, error)) != STATUS_OK) return status;
    if ((status = part_bool(&model, BYTE_FALLBACK, &out->byte_fallback, error)) != STATUS_OK) return status;
    if ((status = part_bool(&model, IGNORE_MERGES, &out->ignore_merges, error)) != STATUS_OK) return status;
    if ((status = vocabulary_init(&out->vocabulary, error)) != STATUS_OK) return status;
    out->merges.seed = out->neighbours.seed = out->vocabulary.seed;
    if ((status = load_vocabulary(&model, &out->vocabulary, error)) != STATUS_OK) return status;
    if ((status = find_unknown(&model, out, error)) != STATUS_OK) return status;
    if ((status = load_merges(&model, out, error)) != STATUS_OK) return status;
    fill_tables(out);
    return STATUS_OK;
}
