#include "tokenizer/added.h"

#include "base/array.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

enum { CONTENT_LIMIT = 1024 };
enum { ID, CONTENT, SINGLE_WORD, LSTRIP, RSTRIP, NORMALIZED, SPECIAL };
static const char *const fields[] = {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special", NULL};

struct loading {
    const struct part_document *document;
    const struct normalizer *normalizer;
    const struct vocabulary *vocabulary;
    struct added *added;
    struct pattern_scratch *scratch;
    struct text other;
};

static enum status read_token(struct loading *loading, struct json_reader_text item, struct added_token *token,
                              struct error *error)
{
    struct part part;
    enum status status = part_read(loading->document, item, "an added token", fields, false, &part, error);
    int64_t id = -1;
    token->normalized = true;
    if (status == STATUS_OK) status = part_integer(&part, ID, 0, TOKENIZER_ID_LIMIT - 1, &id, error);
    if (status == STATUS_OK) status = part_required_text(&part, CONTENT, &token->content, error);
    if (status == STATUS_OK) status = part_bool(&part, SINGLE_WORD, &token->single_word, error);
    if (status == STATUS_OK) status = part_bool(&part, LSTRIP, &token->lstrip, error);
    if (status == STATUS_OK) status = part_bool(&part, RSTRIP, &token->rstrip, error);
    if (status == STATUS_OK) status = part_bool(&part, SPECIAL, &token->special, error);
    token->normalized = !token->special; /* the default of the tokenizers library */
    if (status == STATUS_OK) status = part_bool(&part, NORMALIZED, &token->normalized, error);
    if (status == STATUS_OK && id < 0)
        status = error_set(error, STATUS_CORRUPT, "%s: an added token lacks its id", loading->document->name);
    token->id = (uint32_t)id;
    return status;
}

static enum status check_id(struct loading *loading, const struct added_token *token, struct error *error)
{
    const char *name = loading->document->name;
    if (token->content.size == 0 || token->content.size > CONTENT_LIMIT)
        return error_set(error, STATUS_UNSUPPORTED, "%s: added token %u has %zu bytes, 1 to %d are done", name,
                         token->id, token->content.size, CONTENT_LIMIT);
    if (added_find(loading->added, token->id) != NULL)
        return error_set(error, STATUS_CORRUPT, "%s: added token \"%.60s\" (id %u) is given twice", name,
                         token->content.bytes, token->id);
    int64_t known = vocabulary_find(loading->vocabulary, token->content.bytes, token->content.size);
    if (known >= 0 && known != (int64_t)token->id)
        return error_set(error, STATUS_CORRUPT, "%s: added token \"%.60s\" has id %u, but %lld in the vocabulary", name,
                         token->content.bytes, token->id, (long long)known);
    size_t size;
    if (known < 0 && vocabulary_content(loading->vocabulary, token->id, &size) != NULL)
        return error_set(error, STATUS_CORRUPT, "%s: id %u of added token \"%.60s\" belongs to another token", name,
                         token->id, token->content.bytes);
    return STATUS_OK;
}

static enum status visit(void *context, struct json_reader_text item, struct error *error)
{
    struct loading *loading = context;
    struct added *added = loading->added;
    bool stripped = false;
    enum status status = array_grow(&added->tokens, added->count + 1, &added->capacity, sizeof *added->tokens, error);
    if (status != STATUS_OK) return status;
    struct added_token *token = &added->tokens[added->count++];
    *token = (struct added_token){0};
    if ((status = read_token(loading, item, token, error)) != STATUS_OK) return status;
    if ((status = check_id(loading, token, error)) != STATUS_OK) return status;
    if ((status = pair_map_put(&added->by_id, token->id, 0, 0, (uint32_t)(added->count - 1), error)) != STATUS_OK)
        return status;
    if ((status = text_append(&token->pattern, token->content.bytes, token->content.size, error)) != STATUS_OK)
        return status;
    if (!token->normalized) return STATUS_OK;
    return normalizer_apply(loading->normalizer, loading->scratch, false, &token->pattern, &loading->other, &stripped,
                            error);
}

static int compare(const void *a, const void *b, void *context)
{
    const struct added_token *tokens = context, *left = &tokens[*(const uint32_t *)a],
                             *right = &tokens[*(const uint32_t *)b];
    size_t shorter = left->pattern.size < right->pattern.size ? left->pattern.size : right->pattern.size;
    int order = memcmp(left->pattern.bytes, right->pattern.bytes, shorter);
    if (order != 0) return order;
    return left->pattern.size < right->pattern.size ? -1 : left->pattern.size > right->pattern.size;
}

static enum status build_automaton(const struct added *added, const char *name, struct added_set *out,
                                   struct error *error)
{
    struct automaton_pattern *patterns = calloc(out->count, sizeof *patterns);
    if (patterns == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for added tokens");
    for (uint32_t i = 0; i < out->count; i++) {
        const struct text *pattern = &added->tokens[out->order[i]].pattern;
        patterns[i] = (struct automaton_pattern){pattern->bytes, pattern->size};
        if (pattern->size <= AUTOMATON_PATTERN) continue;
        free(patterns);
        return error_set(error, STATUS_UNSUPPORTED, "%s: an added token has %zu normalized bytes, at most %d are done",
                         name, pattern->size, AUTOMATON_PATTERN);
    }
    const enum status status = automaton_new(patterns, out->count, &out->automaton, error);
    free(patterns);
    return status;
}

static enum status build_set(struct added *added, bool normalized, const char *name, struct added_set *out,
                             struct error *error)
{
    out->order = calloc((size_t)added->count + 1, sizeof *out->order);
    if (out->order == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for added tokens");
    for (int64_t i = 0; i < added->count; i++) {
        if (added->tokens[i].normalized == normalized && added->tokens[i].pattern.size > 0)
            out->order[out->count++] = (uint32_t)i;
    }
    qsort_r(out->order, out->count, sizeof *out->order, compare, added->tokens);
    for (uint32_t i = 0; i < out->count; i++) {
        const struct added_token *token = &added->tokens[out->order[i]];
        if (i > 0 && compare(&out->order[i - 1], &out->order[i], added->tokens) == 0)
            return error_set(error, STATUS_CORRUPT, "%s: two added tokens are the same text, \"%.60s\"", name,
                             token->pattern.bytes);
    }
    return out->count > 0 ? build_automaton(added, name, out, error) : STATUS_OK;
}

enum status added_load(const struct part_document *document, struct json_reader_text span,
                       const struct normalizer *normalizer, const struct vocabulary *vocabulary, struct added *out,
                       struct error *error)
{
    static const char word[] = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]";
    struct loading loading = {.document = document, .normalizer = normalizer, .vocabulary = vocabulary, .added = out};
    bool words = false;
    *out = (struct added){0};
    enum status status = pattern_scratch_new(&loading.scratch, error);
    if (status == STATUS_OK && !part_absent(span)) status = part_items(document, span, visit, &loading, error);
    if (status == STATUS_OK) status = build_set(out, false, document->name, &out->raw, error);
    if (status == STATUS_OK) status = build_set(out, true, document->name, &out->normalized, error);
    for (int64_t i = 0; i < out->count; i++) words = words || out->tokens[i].single_word;
    if (status == STATUS_OK && words) status = pattern_new(word, sizeof word - 1, PATTERN_PCRE2, &out->word, error);
    pattern_scratch_free(loading.scratch);
    text_free(&loading.other);
    return status;
}

void added_reset(struct added *added)
{
    for (int64_t i = 0; i < added->count; i++) {
        text_free(&added->tokens[i].content);
        text_free(&added->tokens[i].pattern);
    }
    free(added->tokens);
    pair_map_reset(&added->by_id);
    free(added->raw.order);
    free(added->normalized.order);
    automaton_free(added->raw.automaton);
    automaton_free(added->normalized.automaton);
    pattern_free(added->word);
    *added = (struct added){0};
}

/* ---- finding ---- */

static size_t before(const char *text, size_t at)
{
    do at--;
    while (!utf8_is_start(text[at]));
    return at;
}

static enum status is_word(const struct added *added, struct pattern_scratch *scratch, const char *character, bool *out,
                           struct error *error)
{
    struct pattern_search search = {.text = character, .bytes = utf8_width(*character)};
    return pattern_next(added->word, scratch, &search, out, error);
}

static enum status stands_alone(const struct added *added, struct pattern_scratch *scratch, const char *text,
                                size_t bytes, const struct added_match *match, bool *out, struct error *error)
{
    bool left = false, right = false;
    enum status status = STATUS_OK;
    if (match->start > 0) status = is_word(added, scratch, text + before(text, match->start), &left, error);
    if (status == STATUS_OK && match->end < bytes) status = is_word(added, scratch, text + match->end, &right, error);
    *out = !left && !right;
    return status;
}

enum status added_next(const struct added *added, const struct added_set *set, struct pattern_scratch *scratch,
                       const char *text, size_t bytes, size_t done, size_t *from, struct added_match *match,
                       struct error *error)
{
    match->token = NULL;
    if (set->count == 0) return STATUS_OK;
    uint32_t which;
    size_t begin, end;
    while (automaton_find(set->automaton, text, bytes, *from, &which, &begin, &end)) {
        const struct added_token *token = &added->tokens[set->order[which]];
        *match = (struct added_match){.start = begin, .end = end, .token = token};
        *from = end;
        bool alone = true;
        enum status status =
            token->single_word ? stands_alone(added, scratch, text, bytes, match, &alone, error) : STATUS_OK;
        if (status != STATUS_OK) return status;
        if (alone) break;
        match->token = NULL;
    }
    if (match->token == NULL) return STATUS_OK;
    size_t start = match->start;
    while (match->token->lstrip && start > done && utf8_is_white_space(utf8_decode(text + before(text, start))))
        start = before(text, start);
    match->start = start;
    while (match->token->rstrip && match->end < bytes && utf8_is_white_space(utf8_decode(text + match->end)))
        match->end += utf8_width(text[match->end]);
    return STATUS_OK;
}

const struct added_token *added_find(const struct added *added, uint32_t id)
{
    const struct pair_map_slot *slot = pair_map_find(&added->by_id, id, 0);
    return slot != NULL ? &added->tokens[slot->id] : NULL;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool added_splits(const struct added *added)
{
    for (int64_t i = 0; i < added->count; i++) {
        const struct added_token *token = &added->tokens[i];
        const struct text *pattern = &token->pattern;
        if (pattern->size == 0) continue;
        for (size_t at = 0; at + 1 < token->content.size; at++) {
            if (is_letter(token->content.bytes[at]) && token->content.bytes[at + 1] == ' ') return false;
        }
        for (size_t at = 0; at + 1 < pattern->size; at++) {
            if (is_letter(pattern->bytes[at]) && pattern->bytes[at + 1] == ' ') return false;
        }
        if (token->rstrip && is_letter(pattern->bytes[pattern->size - 1])) return false;
        if (token->single_word && pattern->bytes[0] == ' ') return false;
    }
    return true;
}
