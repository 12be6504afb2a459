/* Steps in the order of the tokenizers library: first find added tokens in the original text, then normalize the text
 * between them, then find added tokens that match normalized text, then cut the rest into pieces, and encode those by
 * BPE. */
#include "tokenizer/tokenizer.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "files/file_writer.h"
#include "tokenizer/tokenizer_internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { POOL_KEEPS = 16, STEPS_BETWEEN = 512 };

struct context {
    struct bpe_scratch bpe;
    struct pattern_scratch *pattern;
    struct text normal, other;
    struct pretokenizer_pieces pieces;
    const struct monitor *monitor; /* lent for one call; may be NULL */
    unsigned steps;                /* since the last check */
};

struct tokenizer_pool {
    pthread_mutex_t mutex;
    struct context *idle[POOL_KEEPS];
    int count;
};

/* ---- working memory ---- */

static void context_free(struct context *context)
{
    if (context == NULL) return;
    bpe_scratch_reset(&context->bpe);
    pattern_scratch_free(context->pattern);
    text_free(&context->normal);
    text_free(&context->other);
    pretokenizer_pieces_reset(&context->pieces);
    free(context);
}

static enum status context_take(struct tokenizer_pool *pool, struct context **out, struct error *error)
{
    pthread_mutex_lock(&pool->mutex);
    *out = pool->count > 0 ? pool->idle[--pool->count] : NULL;
    pthread_mutex_unlock(&pool->mutex);
    if (*out != NULL) return STATUS_OK;
    struct context *context = calloc(1, sizeof *context);
    if (context == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory to encode text");
    enum status status = pattern_scratch_new(&context->pattern, error);
    if (status == STATUS_OK) {
        *out = context;
        return STATUS_OK;
    }
    context_free(context);
    return status;
}

/* Keeps the working memory and its warm cache for the next call, unless a very long text made it large. */
static void context_give(struct tokenizer_pool *pool, struct context *context)
{
    bool large = context->bpe.ids_capacity > TOKENIZER_CHUNK || context->pieces.capacity > TOKENIZER_CHUNK ||
                 context->normal.capacity > 16 * TOKENIZER_CHUNK || context->pieces.own.capacity > 16 * TOKENIZER_CHUNK;
    pthread_mutex_lock(&pool->mutex);
    if (!large && pool->count < POOL_KEEPS) {
        pool->idle[pool->count++] = context;
        context = NULL;
    }
    pthread_mutex_unlock(&pool->mutex);
    context_free(context);
}

struct tokenizer_pool *tokenizer_pool_new(void)
{
    struct tokenizer_pool *pool = calloc(1, sizeof *pool);
    if (pool != NULL) pthread_mutex_init(&pool->mutex, NULL);
    return pool;
}

void tokenizer_pool_free(struct tokenizer_pool *pool)
{
    if (pool == NULL) return;
    while (pool->count > 0) context_free(pool->idle[--pool->count]);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

/* ---- encoding ---- */

/* Called for each piece of text; checks the monitor every STEPS_BETWEEN pieces. */
static enum status go_on(struct context *context, struct error *error)
{
    return ++context->steps % STEPS_BETWEEN != 0 ? STATUS_OK : monitor_check(context->monitor, error);
}

static enum status encode_pieces(const struct tokenizer *tokenizer, struct context *context, const char *text,
                                 size_t bytes, bool at_start, struct token_list *out, struct error *error)
{
    struct pretokenizer_pieces *pieces = &context->pieces;
    bool raw = pretokenizer_raw_bytes(tokenizer->pretokenizer);
    enum status status =
        pretokenizer_apply(tokenizer->pretokenizer, context->pattern, text, bytes, at_start, pieces, error);
    for (int64_t i = 0; status == STATUS_OK && i < pieces->count; i++) {
        struct pretokenizer_piece piece = pieces->items[i];
        if ((status = go_on(context, error)) != STATUS_OK) return status;
        status = bpe_encode(&tokenizer->bpe, &context->bpe, pieces->text + piece.start, piece.end - piece.start, raw,
                            out, error);
    }
    return status;
}

typedef enum status encode_between(const struct tokenizer *tokenizer, struct context *context, const char *text,
                                   size_t bytes, bool at_start, bool continued, struct token_list *out,
                                   struct error *error);

/* Appends the added tokens of `set`, and encodes the text between them with `between`. */
static enum status encode_around(const struct tokenizer *tokenizer, const struct added_set *set,
                                 struct context *context, const char *text, size_t bytes, bool at_start, bool continued,
                                 encode_between *between, struct token_list *out, struct error *error)
{
    size_t done = 0, from = 0;
    enum status status = STATUS_OK;
    struct added_match match;
    do {
        if ((status = go_on(context, error)) != STATUS_OK) return status;
        status = added_next(&tokenizer->added, set, context->pattern, text, bytes, done, &from, &match, error);
        size_t end = match.token != NULL ? match.start : bytes;
        if (status == STATUS_OK && done < end)
            status = between(tokenizer, context, text + done, end - done, at_start && done == 0, continued && done == 0,
                             out, error);
        if (status == STATUS_OK && match.token != NULL) {
            status = bpe_append(out, &match.token->id, 1, error);
            done = match.end;
        }
    } while (status == STATUS_OK && match.token != NULL);
    return status;
}

static enum status encode_normal(const struct tokenizer *tokenizer, struct context *context, const char *text,
                                 size_t bytes, bool at_start, bool continued, struct token_list *out,
                                 struct error *error)
{
    (void)continued;
    return encode_pieces(tokenizer, context, text, bytes, at_start, out, error);
}

static enum status encode_original(const struct tokenizer *tokenizer, struct context *context, const char *text,
                                   size_t bytes, bool at_start, bool continued, struct token_list *out,
                                   struct error *error)
{
    bool stripped = false;
    if (tokenizer->normalizer != NULL) {
        context->normal.size = 0;
        enum status status = text_append(&context->normal, text, bytes, error);
        if (status == STATUS_OK)
            status = normalizer_apply(tokenizer->normalizer, context->pattern, continued, &context->normal,
                                      &context->other, &stripped, error);
        if (status != STATUS_OK) return status;
        text = context->normal.bytes;
        bytes = context->normal.size;
    }
    return encode_around(tokenizer, &tokenizer->added.normalized, context, text, bytes, at_start && !stripped,
                         continued, encode_normal, out, error);
}

enum status tokenizer_encode_part(const struct tokenizer *tokenizer, const char *text, size_t bytes, bool continued,
                                  const struct monitor *monitor, struct token_list *out, struct error *error)
{
    struct context *context = NULL;
    enum status status = context_take(tokenizer->pool, &context, error);
    if (status != STATUS_OK) return status;
    context->monitor = monitor;
    while (status == STATUS_OK && bytes > 0) {
        if ((status = monitor_check(monitor, error)) != STATUS_OK) break;
        size_t end = bytes < TOKENIZER_CHUNK ? bytes : TOKENIZER_CHUNK;
        while (end < bytes && !tokenizer_cuts_at(tokenizer, text, end)) end++;
        status = encode_around(tokenizer, &tokenizer->added.raw, context, text, end, !continued, continued,
                               encode_original, out, error);
        continued = true;
        text += end;
        bytes -= end;
    }
    context->monitor = NULL;
    context_give(tokenizer->pool, context);
    return status;
}

enum status tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t bytes, bool add_special_tokens,
                             struct token_list *out, struct error *error)
{
    return tokenizer_encode_watched(tokenizer, text, bytes, add_special_tokens, NULL, out, error);
}

enum status tokenizer_encode_watched(const struct tokenizer *tokenizer, const char *text, size_t bytes,
                                     bool add_special_tokens, const struct monitor *monitor, struct token_list *out,
                                     struct error *error)
{
    const struct postprocessor *around = &tokenizer->postprocessor;
    enum status status = STATUS_OK;
    int64_t had = out->count;
    if (bytes > (size_t)TOKENIZER_TEXT_LIMIT)
        return error_set(error, STATUS_TOO_LARGE, "text has %zu bytes, at most %lld are encoded at once", bytes,
                         (long long)TOKENIZER_TEXT_LIMIT);
    size_t valid = utf8_check(text, bytes);
    if (valid != bytes) return error_set(error, STATUS_MALFORMED, "text is not UTF-8 at byte %zu", valid);
    if (add_special_tokens) status = bpe_append(out, around->before.ids, around->before.count, error);
    if (status == STATUS_OK) status = tokenizer_encode_part(tokenizer, text, bytes, false, monitor, out, error);
    if (status == STATUS_OK && add_special_tokens)
        status = bpe_append(out, around->after.ids, around->after.count, error);
    if (status != STATUS_OK) out->count = had;
    return status;
}

enum status tokenizer_prepare(const struct tokenizer *tokenizer, const char *text, size_t bytes, bool continued,
                              struct text *out, int64_t *pieces, struct error *error)
{
    struct context *context = NULL;
    enum status status = context_take(tokenizer->pool, &context, error);
    if (status != STATUS_OK) return status;
    out->size = 0;
    context->normal.size = 0;
    bool stripped = false;
    status = text_append(&context->normal, text, bytes, error);
    if (status == STATUS_OK)
        status = normalizer_apply(tokenizer->normalizer, context->pattern, continued, &context->normal, &context->other,
                                  &stripped, error);
    if (status == STATUS_OK)
        status = pretokenizer_apply(tokenizer->pretokenizer, context->pattern, context->normal.bytes,
                                    context->normal.size, !continued, &context->pieces, error);
    *pieces = context->pieces.count;
    for (int64_t i = 0; status == STATUS_OK && i < context->pieces.count; i++) {
        struct pretokenizer_piece piece = context->pieces.items[i];
        status = text_append(out, context->pieces.text + piece.start, piece.end - piece.start, error);
    }
    context_free(context);
    return status;
}

/* ---- decoding ---- */

enum status tokenizer_decode(const struct tokenizer *tokenizer, const uint32_t *ids, int64_t count, bool skip_special,
                             char **text, size_t *bytes, struct error *error)
{
    struct decoder_strings strings = {0};
    struct text joined = {0};
    struct context *context = NULL;
    *text = NULL;
    enum status status = context_take(tokenizer->pool, &context, error);
    for (int64_t i = 0; status == STATUS_OK && i < count; i++) {
        const struct added_token *added = added_find(&tokenizer->added, ids[i]);
        size_t size = 0;
        const char *content =
            added != NULL ? added->pattern.bytes : vocabulary_content(&tokenizer->bpe.vocabulary, ids[i], &size);
        if (added != NULL && added->special && skip_special) continue;
        if (content == NULL)
            status = error_set(error, STATUS_INVALID, "the tokenizer has no id %u (number %lld)", ids[i], (long long)i);
        else
            status = decoder_append(&strings, content, added != NULL ? added->pattern.size : size, error);
    }
    if (status == STATUS_OK) status = decoder_apply(tokenizer->decoder, context->pattern, &strings, &joined, error);
    if (status == STATUS_OK) status = memory_new((int64_t)joined.size + 1, 1, "decoded text", text, error);
    if (status == STATUS_OK) {
        if (joined.size > 0) memcpy(*text, joined.bytes, joined.size);
        *bytes = joined.size;
    }
    if (context != NULL) context_give(tokenizer->pool, context);
    decoder_strings_free(&strings);
    text_free(&joined);
    return status;
}

/* ---- list, lookup, files ---- */

void tokenizer_list_free(struct token_list *list)
{
    free(list->ids);
    *list = (struct token_list){0};
}

int64_t tokenizer_vocabulary_size(const struct tokenizer *tokenizer)
{
    return tokenizer->size;
}

int64_t tokenizer_find(const struct tokenizer *tokenizer, const char *content)
{
    size_t size = strlen(content);
    for (int64_t i = 0; i < tokenizer->added.count; i++) {
        const struct added_token *token = &tokenizer->added.tokens[i];
        if (token->content.size == size && memcmp(token->content.bytes, content, size) == 0) return token->id;
    }
    return vocabulary_find(&tokenizer->bpe.vocabulary, content, size);
}

int64_t tokenizer_bos(const struct tokenizer *tokenizer)
{
    return tokenizer->bos;
}

int64_t tokenizer_eos(const struct tokenizer *tokenizer)
{
    return tokenizer->eos;
}

enum status tokenizer_write(const struct tokenizer *tokenizer, const char *path, struct error *error)
{
    return file_writer_put(path, tokenizer->source.bytes, tokenizer->source.size, error);
}

void tokenizer_source(const struct tokenizer *tokenizer, const char **json, size_t *bytes)
{
    *json = tokenizer->source.bytes;
    *bytes = tokenizer->source.size;
}
