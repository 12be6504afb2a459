#include "tasks/encode.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum status encode_init(struct encode *encode, const struct tokenizer *tokenizer, bool special_tokens, int64_t longest,
                        int64_t vocabulary_size, struct error *error)
{
    const int64_t bos = tokenizer_bos(tokenizer);
    const uint32_t id = (uint32_t)bos;
    char *text = NULL;
    size_t bytes = 0;
    *encode = (struct encode){.tokenizer = tokenizer,
                              .special_tokens = special_tokens,
                              .longest = longest,
                              .vocabulary_size = vocabulary_size};
    if (bos < 0) return STATUS_OK;
    enum status status = tokenizer_decode(tokenizer, &id, 1, false, &text, &bytes, error);
    if (status == STATUS_OK) status = phrase_add(&encode->bos, text, bytes, error);
    memory_free(text);
    return status;
}

void encode_reset(struct encode *encode)
{
    phrase_reset(&encode->bos);
    phrase_reset(&encode->whole);
    tokenizer_list_free(&encode->alone);
    tokenizer_list_free(&encode->joined);
    *encode = (struct encode){0};
}

static enum status tokens_of(struct encode *encode, const char *text, size_t size, struct token_list *out,
                             struct error *error)
{
    const struct phrase *bos = &encode->bos;
    const bool begins = bos->size > 0 && size >= bos->size && memcmp(text, bos->bytes, bos->size) == 0;
    return tokenizer_encode(encode->tokenizer, text, size, encode->special_tokens && !begins, out, error);
}

/* Encodes a continuation without a context: BOS or, if there is none, EOS precedes it. */
static enum status encode_bare(struct encode *encode, const struct phrase *continuation, int64_t *context_tokens,
                               struct error *error)
{
    const int64_t bos = tokenizer_bos(encode->tokenizer), first = bos >= 0 ? bos : tokenizer_eos(encode->tokenizer);
    struct token_list *joined = &encode->joined;
    const uint32_t id = (uint32_t)first;
    enum status status;
    if (first < 0)
        return error_set(error, STATUS_INVALID,
                         "a prompt is empty, and the tokenizer has no token to begin a text with");
    status = tokenizer_encode(encode->tokenizer, continuation->bytes, continuation->size, false, &encode->alone, error);
    if (status != STATUS_OK) return status;
    const bool there = encode->alone.count > 0 && encode->alone.ids[0] == id;
    const int64_t count = encode->alone.count + !there;
    uint32_t *ids = realloc(joined->ids, (size_t)(count + 1) * sizeof *ids);
    if (ids == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for %lld tokens", (long long)count);
    *joined = (struct token_list){ids, count, count + 1};
    ids[0] = id;
    if (encode->alone.count > there) memcpy(ids + 1, encode->alone.ids + there, (size_t)(count - 1) * sizeof *ids);
    *context_tokens = 1;
    return STATUS_OK;
}

static enum status encode_both(struct encode *encode, const struct phrase *context, const struct phrase *continuation,
                               int64_t *context_tokens, struct error *error)
{
    struct phrase *whole = &encode->whole;
    const size_t kept = context->size - phrase_blanks_at_end(context->bytes, context->size);
    enum status status;
    whole->size = 0;
    if ((status = phrase_add(whole, context->bytes, context->size, error)) != STATUS_OK) return status;
    if ((status = phrase_add(whole, continuation->bytes, continuation->size, error)) != STATUS_OK) return status;
    if ((status = tokens_of(encode, whole->bytes, whole->size, &encode->joined, error)) != STATUS_OK) return status;
    if ((status = tokens_of(encode, whole->bytes, kept, &encode->alone, error)) != STATUS_OK) return status;
    *context_tokens = encode->alone.count;
    return STATUS_OK;
}

static enum status append(struct token_list *list, const uint32_t *ids, int64_t count, struct error *error)
{
    if (list->count + count > list->capacity) {
        const int64_t capacity = 2 * (list->count + count) + 1024;
        uint32_t *grown = realloc(list->ids, (size_t)capacity * sizeof *grown);
        if (grown == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for %lld tokens", (long long)capacity);
        list->ids = grown;
        list->capacity = capacity;
    }
    memcpy(list->ids + list->count, ids, (size_t)count * sizeof *ids);
    list->count += count;
    return STATUS_OK;
}

enum status encode_pair(struct encode *encode, const struct phrase *context, const struct phrase *continuation,
                        struct token_list *tokens, struct encoded *out, struct error *error)
{
    const struct token_list *joined = &encode->joined;
    int64_t context_tokens = 0;
    encode->alone.count = encode->joined.count = 0;
    enum status status = context->size == 0 ? encode_bare(encode, continuation, &context_tokens, error)
                                            : encode_both(encode, context, continuation, &context_tokens, error);
    if (status != STATUS_OK) return status;
    *out = (struct encoded){.tokens = joined->count, .targets = joined->count - context_tokens};
    if (out->targets < 1) return error_set(error, STATUS_INVALID, "a choice has no tokens of its own");
    if (context_tokens < 1) return error_set(error, STATUS_INVALID, "a prompt has no tokens before its choice");
    if (out->targets > encode->longest)
        return error_set(error, STATUS_INVALID, "a choice has %lld tokens, the model %lld positions",
                         (long long)out->targets, (long long)encode->longest);
    if (out->tokens > encode->longest + 1) {
        out->tokens = encode->longest + 1;
        out->cut = true;
    }
    const uint32_t *kept = joined->ids + joined->count - out->tokens;
    for (int64_t i = 0; i < out->tokens; i++)
        if (kept[i] >= encode->vocabulary_size)
            return error_set(error, STATUS_INVALID,
                             "token %u is outside the model's vocabulary of %lld: the tokenizer is another model's",
                             kept[i], (long long)encode->vocabulary_size);
    return append(tokens, kept, out->tokens, error);
}
