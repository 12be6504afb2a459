#include "tokenizer/tokenizer_gguf.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "formats/gguf/gguf.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_gguf_merges.h"
#include "tokenizer/tokenizer_gguf_steps.h"

#include <stdlib.h>
#include <string.h>

#define ADVICE "put the model's tokenizer.json beside the file"
#define SPACE  "\xe2\x96\x81" /* U+2581, SentencePiece's space */

struct source {
    struct gguf *file; /* owned */
    const char *name;
    char *tokens, *types; /* owned; as they lie in the file */
    struct tokenizer_gguf_span *spans;
    int64_t count;
    const struct tokenizer_gguf_splitting *splitting; /* NULL: SentencePiece */
};

/* ---- reading ---- */

enum status tokenizer_gguf_spans(const char *name, const char *bytes, const struct gguf_array *array,
                                 struct tokenizer_gguf_span **out, struct error *error)
{
    int64_t at = 0;
    *out = NULL;
    enum status status = memory_new(array->count, sizeof **out, "vocabulary", out, error);
    for (int64_t i = 0; status == STATUS_OK && i < array->count; i++) {
        uint64_t size = 0;
        if (array->bytes - at >= (int64_t)sizeof size) memcpy(&size, bytes + at, sizeof size);
        at += (int64_t)sizeof size;
        if (at > array->bytes || size > (uint64_t)(array->bytes - at)) /* checked when it was opened */
            status = error_set(error, STATUS_INPUT_CHANGED, "%s changed while it was read", name);
        else if (utf8_check(bytes + at, (size_t)size) != (size_t)size)
            status = error_set(error, STATUS_UNSUPPORTED, "%s: a token is not UTF-8; " ADVICE, name);
        (*out)[i] = (struct tokenizer_gguf_span){bytes + at, (size_t)size};
        at += (int64_t)size;
    }
    if (status == STATUS_OK) return status;
    memory_free(*out);
    *out = NULL;
    return status;
}

static enum tokenizer_gguf_type type_of(const struct source *source, int64_t id)
{
    int32_t type;
    memcpy(&type, source->types + id * (int64_t)sizeof type, sizeof type);
    return type >= TOKEN_NORMAL && type < TOKEN_TYPES ? (enum tokenizer_gguf_type)type : TOKEN_NORMAL;
}

static enum status read_vocabulary(struct source *source, struct error *error)
{
    struct gguf_array tokens, types;
    enum status status;
    if (!gguf_array(source->file, "tokenizer.ggml.tokens", &tokens) || tokens.items != GGUF_ITEMS_TEXT ||
        tokens.count == 0)
        return error_set(error, STATUS_UNSUPPORTED, "%s has no vocabulary (tokenizer.ggml.tokens); " ADVICE,
                         source->name);
    if (tokens.count > TOKENIZER_ID_LIMIT)
        return error_set(error, STATUS_TOO_LARGE, "%s: %lld tokens, at most %d are read", source->name,
                         (long long)tokens.count, TOKENIZER_ID_LIMIT);
    if (!gguf_array(source->file, "tokenizer.ggml.token_type", &types) || types.items != GGUF_ITEMS_I32 ||
        types.count != tokens.count)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s does not say which tokens are special (tokenizer.ggml.token_type); " ADVICE, source->name);
    source->count = tokens.count;
    if ((status = gguf_array_read(source->file, &tokens, TOKENIZER_FILE_LIMIT, &source->tokens, error)) != STATUS_OK)
        return status;
    if ((status = gguf_array_read(source->file, &types, TOKENIZER_FILE_LIMIT, &source->types, error)) != STATUS_OK)
        return status;
    return tokenizer_gguf_spans(source->name, source->tokens, &tokens, &source->spans, error);
}

/* Apart from these two keys, the metadata does not describe SentencePiece's normalization. */
static enum status check_sentencepiece(const struct source *source, struct error *error)
{
    struct gguf_array map;
    bool removes = false;
    if ((gguf_array(source->file, "tokenizer.ggml.precompiled_charsmap", &map) && map.count > 0) ||
        (gguf_boolean(source->file, "tokenizer.ggml.remove_extra_whitespaces", &removes) && removes))
        return error_set(error, STATUS_UNSUPPORTED, "%s: its tokenizer rewrites text by tables of its own; " ADVICE,
                         source->name);
    return STATUS_OK;
}

static enum status check_byte_level(struct source *source, struct error *error)
{
    const char *name = gguf_text(source->file, "tokenizer.ggml.pre");
    bool prefix = false, separator = false;
    for (int i = 0; name != NULL && tokenizer_gguf_splitting_at(i) != NULL; i++)
        if (strcmp(tokenizer_gguf_splitting_at(i)->name, name) == 0) source->splitting = tokenizer_gguf_splitting_at(i);
    if (source->splitting == NULL)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "%s: how its tokenizer splits text (tokenizer.ggml.pre: \"%.40s\") is not known exactly; known are"
            " " TOKENIZER_GGUF_KNOWN "; " ADVICE,
            source->name, name != NULL ? name : "");
    (void)gguf_boolean(source->file, "tokenizer.ggml.add_space_prefix", &prefix);
    (void)gguf_boolean(source->file, "tokenizer.ggml.add_sep_token", &separator);
    if (prefix || separator)
        return error_set(error, STATUS_UNSUPPORTED, "%s: its tokenizer adds what deltaq cannot place (%s); " ADVICE,
                         source->name, prefix ? "add_space_prefix" : "add_sep_token");
    return STATUS_OK;
}

/* ---- writing ---- */

static enum status quoted(struct text *out, const char *bytes, size_t size, struct error *error)
{
    enum status status = text_append(out, "\"", 1, error);
    for (size_t i = 0; status == STATUS_OK && i < size; i++) {
        const char c = bytes[i];
        if (c == '"' || c == '\\')
            status = text_format(out, error, "\\%c", c);
        else if ((unsigned char)c < 0x20)
            status = text_format(out, error, "\\u%04x", (unsigned)c);
        else
            status = text_append(out, &c, 1, error);
    }
    return status == STATUS_OK ? text_append(out, "\"", 1, error) : status;
}

static enum status add_added(const struct source *source, struct text *out, struct error *error)
{
    /* If text is normalized, tokens that are not special are found after normalization, as in the models' original
     * files. */
    const bool normalized = source->splitting != NULL && source->splitting->normal_form;
    enum status status = text_format(out, error, "\"added_tokens\":[");
    bool first = true;
    for (int64_t i = 0; status == STATUS_OK && i < source->count; i++) {
        const enum tokenizer_gguf_type type = type_of(source, i);
        const struct tokenizer_gguf_span token = source->spans[i];
        if (type != TOKEN_UNKNOWN && type != TOKEN_CONTROL && type != TOKEN_USER) continue;
        if (type == TOKEN_USER && source->splitting == NULL &&
            memmem(token.bytes, token.size, SPACE, strlen(SPACE)) != NULL)
            return error_set(error, STATUS_UNSUPPORTED,
                             "%s: whether token \"%.*s\" stands for spaces cannot be told from the metadata; " ADVICE,
                             source->name, (int)(token.size < 60 ? token.size : 60), token.bytes);
        status = text_format(out, error, "%s{\"id\":%lld,\"content\":", first ? "" : ",", (long long)i);
        first = false;
        if (status == STATUS_OK) status = quoted(out, token.bytes, token.size, error);
        if (status == STATUS_OK)
            status = text_format(
                out, error,
                ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":%s,\"special\":%s}",
                normalized && type == TOKEN_USER ? "true" : "false", type == TOKEN_USER ? "false" : "true");
    }
    return status == STATUS_OK ? text_format(out, error, "],") : status;
}

static enum status add_steps(const struct source *source, struct text *out, struct error *error)
{
    bool prefix = true;
    (void)gguf_boolean(source->file, "tokenizer.ggml.add_space_prefix", &prefix);
    return tokenizer_gguf_steps(source->splitting, prefix, out, error);
}

/* Appends {"SpecialToken": ...} for the token that `key` names, which is added to texts. */
static enum status add_marker(const struct source *source, const char *key, int64_t *id, struct text *out,
                              struct error *error)
{
    if (!gguf_integer(source->file, key, id) || *id < 0 || *id >= source->count)
        return error_set(error, STATUS_CORRUPT, "%s: a special token is to be added to texts, and %s is no token",
                         source->name, key);
    enum status status = text_format(out, error, "{\"SpecialToken\":{\"id\":");
    if (status == STATUS_OK) status = quoted(out, source->spans[*id].bytes, source->spans[*id].size, error);
    return status == STATUS_OK ? text_format(out, error, ",\"type_id\":0}}") : status;
}

static enum status add_special(const struct source *source, int64_t id, bool first, struct text *out,
                               struct error *error)
{
    const struct tokenizer_gguf_span token = source->spans[id];
    enum status status = first ? STATUS_OK : text_format(out, error, ",");
    if (status == STATUS_OK) status = quoted(out, token.bytes, token.size, error);
    if (status == STATUS_OK) status = text_format(out, error, ":{\"id\":");
    if (status == STATUS_OK) status = quoted(out, token.bytes, token.size, error);
    if (status == STATUS_OK) status = text_format(out, error, ",\"ids\":[%lld],\"tokens\":[", (long long)id);
    if (status == STATUS_OK) status = quoted(out, token.bytes, token.size, error);
    return status == STATUS_OK ? text_format(out, error, "]}") : status;
}

static enum status add_processor(const struct source *source, struct text *out, struct error *error)
{
    bool begins = source->splitting != NULL ? source->splitting->begins : true, ends = false;
    int64_t begin = -1, end = -1;
    enum status status = STATUS_OK;
    (void)gguf_boolean(source->file, "tokenizer.ggml.add_bos_token", &begins);
    (void)gguf_boolean(source->file, "tokenizer.ggml.add_eos_token", &ends);
    if (!begins && !ends) return text_format(out, error, "\"post_processor\":null,");
    status = text_format(out, error, "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[");
    if (status == STATUS_OK && begins) status = add_marker(source, "tokenizer.ggml.bos_token_id", &begin, out, error);
    if (status == STATUS_OK)
        status = text_format(out, error, "%s{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}%s", begins ? "," : "",
                             ends ? "," : "");
    if (status == STATUS_OK && ends) status = add_marker(source, "tokenizer.ggml.eos_token_id", &end, out, error);
    if (status == STATUS_OK) status = text_format(out, error, "],\"pair\":[],\"special_tokens\":{");
    if (status == STATUS_OK && begins) status = add_special(source, begin, true, out, error);
    if (status == STATUS_OK && ends && end != begin) status = add_special(source, end, !begins, out, error);
    return status == STATUS_OK ? text_format(out, error, "}},") : status;
}

static enum status add_merges(const struct source *source, struct text *out, struct error *error)
{
    struct tokenizer_gguf_merge *merges = NULL;
    int64_t count = 0;
    char *held = NULL;
    enum status status = tokenizer_gguf_merges(source->file, source->spans, source->count, source->splitting == NULL,
                                               &merges, &count, &held, error);
    for (int64_t i = 0; status == STATUS_OK && i < count; i++) {
        status = text_append(out, i == 0 ? "[" : ",[", i == 0 ? 1 : 2, error);
        if (status == STATUS_OK) status = quoted(out, merges[i].left.bytes, merges[i].left.size, error);
        if (status == STATUS_OK) status = text_append(out, ",", 1, error);
        if (status == STATUS_OK) status = quoted(out, merges[i].right.bytes, merges[i].right.size, error);
        if (status == STATUS_OK) status = text_append(out, "]", 1, error);
    }
    memory_free(merges);
    memory_free(held);
    return status;
}

/* Special tokens of a byte-level tokenizer are found in the text and do not belong to its byte vocabulary. */
static bool in_vocabulary(const struct source *source, int64_t id)
{
    const enum tokenizer_gguf_type type = type_of(source, id);
    if (type == TOKEN_UNUSED) return false;
    return source->splitting == NULL || type == TOKEN_NORMAL || type == TOKEN_BYTE;
}

static enum status add_unknown(const struct source *source, int64_t id, struct text *out, struct error *error)
{
    enum status status = text_format(out, error, "\"unk_token\":");
    if (status == STATUS_OK) status = quoted(out, source->spans[id].bytes, source->spans[id].size, error);
    return status == STATUS_OK ? text_format(out, error, ",") : status;
}

static enum status add_vocabulary(const struct source *source, struct text *out, struct error *error)
{
    bool first = true;
    enum status status = STATUS_OK;
    for (int64_t i = 0; status == STATUS_OK && i < source->count; i++) {
        if (!in_vocabulary(source, i)) continue;
        if (!first) status = text_append(out, ",", 1, error);
        first = false;
        if (status == STATUS_OK) status = quoted(out, source->spans[i].bytes, source->spans[i].size, error);
        if (status == STATUS_OK) status = text_format(out, error, ":%lld", (long long)i);
    }
    return status;
}

static enum status add_model(const struct source *source, struct text *out, struct error *error)
{
    int64_t unknown = -1;
    bool bytes = false;
    enum status status = text_format(out, error, "\"model\":{\"type\":\"BPE\",\"dropout\":null,");
    for (int64_t i = 0; source->splitting == NULL && i < source->count; i++) {
        bytes |= type_of(source, i) == TOKEN_BYTE;
        if (type_of(source, i) == TOKEN_UNKNOWN && unknown < 0) unknown = i;
    }
    if (status == STATUS_OK && unknown >= 0) status = add_unknown(source, unknown, out, error);
    if (status == STATUS_OK)
        status = text_format(out, error, "\"fuse_unk\":%s,\"byte_fallback\":%s,\"ignore_merges\":%s,\"vocab\":{",
                             source->splitting != NULL ? "false" : "true", bytes ? "true" : "false",
                             source->splitting != NULL && source->splitting->whole_words ? "true" : "false");
    if (status == STATUS_OK) status = add_vocabulary(source, out, error);
    if (status == STATUS_OK) status = text_format(out, error, "},\"merges\":[");
    if (status == STATUS_OK) status = add_merges(source, out, error);
    return status == STATUS_OK ? text_format(out, error, "]}") : status;
}

/* ---- the whole file ---- */

static enum status convert(struct source *source, struct text *out, struct error *error)
{
    const char *model = gguf_text(source->file, "tokenizer.ggml.model");
    enum status status;
    if (model != NULL && strcmp(model, "gpt2") == 0)
        status = check_byte_level(source, error);
    else if (model != NULL && strcmp(model, "llama") == 0)
        status = check_sentencepiece(source, error);
    else
        status = error_set(
            error, STATUS_UNSUPPORTED,
            "%s: its tokenizer (tokenizer.ggml.model: \"%.40s\") is not read; read are gpt2 and llama; " ADVICE,
            source->name, model != NULL ? model : "");
    if (status == STATUS_OK) status = read_vocabulary(source, error);
    if (status == STATUS_OK)
        status = text_format(out, error, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,");
    if (status == STATUS_OK) status = add_added(source, out, error);
    if (status == STATUS_OK) status = add_steps(source, out, error);
    if (status == STATUS_OK) status = add_processor(source, out, error);
    if (status == STATUS_OK) status = add_model(source, out, error);
    return status == STATUS_OK ? text_append(out, "}", 1, error) : status;
}

bool tokenizer_gguf_is(const char *path)
{
    const size_t size = strlen(path), ending = strlen(".gguf");
    return size > ending && strcmp(path + size - ending, ".gguf") == 0;
}

enum status tokenizer_gguf_text(const char *path, struct text *out, struct error *error)
{
    struct source source = {0};
    enum status status = gguf_open(AT_FDCWD, path, &source.file, error);
    if (status == STATUS_OK) {
        source.name = file_name(gguf_file(source.file));
        status = convert(&source, out, error);
    }
    memory_free(source.tokens);
    memory_free(source.types);
    memory_free(source.spans);
    gguf_close(source.file);
    return status;
}
