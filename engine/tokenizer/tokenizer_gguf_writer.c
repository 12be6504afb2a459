#include "tokenizer/tokenizer_gguf_writer.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer_gguf_merges.h"
#include "tokenizer/tokenizer_gguf_steps.h"
#include "tokenizer/tokenizer_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPACE "\xe2\x96\x81" /* U+2581, SentencePiece's space */

enum { PAD = 24 };

struct merge {
    uint32_t rank, left, right, id;
};

struct listing {
    const struct tokenizer *tokenizer;
    const struct tokenizer_gguf_splitting *splitting; /* NULL: SentencePiece's */
    bool prefix;                                      /* SentencePiece's: a space before every text */
    int64_t count;                                    /* of tokens */
    struct tokenizer_gguf_span *spans;
    char (*pads)[PAD]; /* names of ids without a token */
    int32_t *types;
    float *scores; /* SentencePiece's */
    struct merge *merges;
    int64_t merge_count;
};

static enum status refuse(struct error *error, const char *detail)
{
    return error_set(error, STATUS_UNSUPPORTED, "the tokenizer cannot be said in GGUF: %s", detail);
}

static enum status refuse_token(struct error *error, struct tokenizer_gguf_span token, const char *detail)
{
    return error_set(error, STATUS_UNSUPPORTED, "the tokenizer cannot be said in GGUF: token \"%.*s\" %s",
                     (int)(token.size < 60 ? token.size : 60), token.bytes, detail);
}

/* ---- how text is split ---- */

/* Whether the reader would rebuild the tokenizer's normalizer and pre-tokenizer from that row. */
static enum status matches(const struct tokenizer *tokenizer, const struct tokenizer_gguf_splitting *splitting,
                           bool prefix, bool *out, struct error *error)
{
    static const char *const fields[] = {"normalizer", "pre_tokenizer", "decoder", "model", NULL};
    struct text text = {0};
    struct part part;
    struct normalizer *normalizer = NULL;
    struct pretokenizer *pretokenizer = NULL;
    enum status status = text_append(&text, "{", 1, error);
    *out = false;
    if (status == STATUS_OK) status = tokenizer_gguf_steps(splitting, prefix, &text, error);
    if (status == STATUS_OK) status = text_format(&text, error, "\"model\":0}");
    const struct part_document document = {.name = "steps", .json = text.bytes, .bytes = text.size};
    const struct json_reader_text all = {.bytes = text.bytes, .size = text.size};
    if (status == STATUS_OK) status = part_read(&document, all, "steps", fields, false, &part, error);
    if (status == STATUS_OK) status = normalizer_load(&document, part.spans[0], &normalizer, error);
    if (status == STATUS_OK)
        status = pretokenizer_load(&document, part.spans[1], tokenizer->bpe.whole_alphabet, &pretokenizer, error);
    if (status == STATUS_OK)
        *out = normalizer_same(normalizer, tokenizer->normalizer) &&
               pretokenizer_same(pretokenizer, tokenizer->pretokenizer);
    normalizer_free(normalizer);
    pretokenizer_free(pretokenizer);
    text_free(&text);
    return status;
}

static bool flags_fit(const struct tokenizer *tokenizer, const struct tokenizer_gguf_splitting *splitting)
{
    return tokenizer->bpe.ignore_merges == (splitting != NULL && splitting->whole_words);
}

static enum status find_splitting(struct listing *listing, struct error *error)
{
    const struct tokenizer *tokenizer = listing->tokenizer;
    const bool single =
        tokenizer->bpe.merges.count == 0 && !tokenizer->bpe.ignore_merges && tokenizer->normalizer == NULL;
    enum status status = STATUS_OK;
    bool found = false;
    for (int i = 0; status == STATUS_OK && !found && tokenizer_gguf_splitting_at(i) != NULL; i++) {
        listing->splitting = tokenizer_gguf_splitting_at(i);
        if (flags_fit(tokenizer, listing->splitting))
            status = matches(tokenizer, listing->splitting, false, &found, error);
        /* if every byte is a token, it does not matter where text is split */
        if (status == STATUS_OK && single && pretokenizer_raw_bytes(tokenizer->pretokenizer)) found = true;
    }
    if (status != STATUS_OK || found) return status;
    listing->splitting = NULL;
    for (int i = 0; status == STATUS_OK && !found && i < 2 && flags_fit(tokenizer, NULL); i++) {
        listing->prefix = i == 0;
        status = matches(tokenizer, NULL, listing->prefix, &found, error);
    }
    if (status != STATUS_OK || found) return status;
    return refuse(error, "it has no name for how text is normalized and split; those of " TOKENIZER_GGUF_KNOWN
                         " are known, and Llama 2's");
}

/* Checks how characters that the vocabulary lacks are treated. */
static enum status check_unknown(const struct listing *listing, struct error *error)
{
    const struct bpe *bpe = &listing->tokenizer->bpe;
    bool bytes = bpe->byte_fallback;
    for (int i = 0; i < 256; i++) bytes = bytes && bpe->fallback[i] >= 0;
    if (listing->splitting != NULL && bpe->whole_alphabet) return STATUS_OK;
    if (listing->splitting != NULL && (bpe->unknown >= 0 || bpe->byte_fallback))
        return refuse(error, "its vocabulary of bytes is not whole");
    if (listing->splitting != NULL || bytes || bpe->unknown < 0) return STATUS_OK;
    const struct added_token *unknown = added_find(&listing->tokenizer->added, (uint32_t)bpe->unknown);
    if (!bpe->fuse_unknown) return refuse(error, "runs of unknown characters do not become one token");
    return unknown != NULL && unknown->special ? STATUS_OK : refuse(error, "its unknown token is not a special one");
}

/* ---- tokens ---- */

static void add_ordinary(struct listing *listing, int64_t id)
{
    const struct bpe *bpe = &listing->tokenizer->bpe;
    size_t size = 0;
    const char *content = vocabulary_content(&bpe->vocabulary, id, &size);
    listing->types[id] = TOKEN_NORMAL;
    if (content == NULL) {
        const int length = snprintf(listing->pads[id], PAD, "[PAD%lld]", (long long)id);
        listing->types[id] = TOKEN_UNUSED;
        content = listing->pads[id];
        size = (size_t)length;
    }
    listing->spans[id] = (struct tokenizer_gguf_span){content, size};
}

static enum status add_added(struct listing *listing, const struct added_token *token, struct error *error)
{
    const struct tokenizer *tokenizer = listing->tokenizer;
    const struct tokenizer_gguf_span span = {token->content.bytes, token->content.size};
    const bool normal_form = listing->splitting != NULL && listing->splitting->normal_form;
    const bool normalized = normal_form && !token->special; /* the value that the reader will give it */
    size_t size = 0;
    if (token->single_word || token->lstrip || token->rstrip)
        return refuse_token(error, span, "takes what stands beside it into account");
    if (tokenizer->normalizer != NULL && token->normalized != normalized)
        return refuse_token(
            error, span, normalized ? "is looked for before text is normalized" : "is looked for in normalized text");
    if (listing->splitting == NULL && !token->special && memmem(span.bytes, span.size, SPACE, strlen(SPACE)) != NULL)
        return refuse_token(error, span, "is added and holds the sign for a space");
    if (listing->splitting != NULL && vocabulary_content(&tokenizer->bpe.vocabulary, token->id, &size) != NULL &&
        size == utf8_width(span.bytes[0]))
        return refuse_token(error, span, "is both added and a character of the vocabulary");
    listing->spans[token->id] = span;
    listing->types[token->id] = token->special ? TOKEN_CONTROL : TOKEN_USER;
    return STATUS_OK;
}

static enum status list_tokens(struct listing *listing, struct error *error)
{
    const struct tokenizer *tokenizer = listing->tokenizer;
    const struct bpe *bpe = &tokenizer->bpe;
    enum status status = STATUS_OK;
    if ((status = memory_new(listing->count, sizeof *listing->spans, "tokens", &listing->spans, error)) != STATUS_OK ||
        (status = memory_new(listing->count, sizeof *listing->pads, "tokens", &listing->pads, error)) != STATUS_OK ||
        (status = memory_new(listing->count, sizeof *listing->types, "tokens", &listing->types, error)) != STATUS_OK)
        return status;
    for (int64_t id = 0; id < listing->count; id++) add_ordinary(listing, id);
    for (int i = 0; i < 256 && listing->splitting == NULL && bpe->byte_fallback; i++)
        if (bpe->fallback[i] >= 0) listing->types[bpe->fallback[i]] = TOKEN_BYTE;
    for (int64_t i = 0; i < tokenizer->added.count && status == STATUS_OK; i++)
        status = add_added(listing, &tokenizer->added.tokens[i], error);
    if (status != STATUS_OK || listing->splitting != NULL || bpe->unknown < 0) return status;
    const struct added_token *unknown = added_find(&tokenizer->added, (uint32_t)bpe->unknown);
    if (unknown != NULL && unknown->special) listing->types[bpe->unknown] = TOKEN_UNKNOWN;
    return status;
}

/* ---- merges ---- */

static int by_rank(const void *left, const void *right)
{
    const struct merge *a = left, *b = right;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static enum status list_merges(struct listing *listing, struct error *error)
{
    const struct pair_map *map = &listing->tokenizer->bpe.merges;
    const enum status status = memory_new(map->count + 1, sizeof *listing->merges, "merges", &listing->merges, error);
    if (status != STATUS_OK) return status;
    for (size_t i = 0; i < map->slot_count; i++) {
        const uint64_t pair = map->slots[i].key - 1;
        if (map->slots[i].key == 0) continue;
        listing->merges[listing->merge_count++] =
            (struct merge){map->slots[i].rank, (uint32_t)(pair >> 32), (uint32_t)pair, map->slots[i].id};
    }
    qsort(listing->merges, (size_t)listing->merge_count, sizeof *listing->merges, by_rank);
    for (int64_t i = 0; i < listing->merge_count; i++) {
        const uint32_t ids[] = {listing->merges[i].left, listing->merges[i].right, listing->merges[i].id};
        for (int k = 0; k < 3; k++) {
            const struct tokenizer_gguf_span token = listing->spans[ids[k]];
            const bool added = listing->types[ids[k]] == TOKEN_CONTROL || listing->types[ids[k]] == TOKEN_USER;
            if (memchr(token.bytes, ' ', token.size) != NULL)
                return refuse_token(error, token, "is merged and holds a space");
            if (added && listing->splitting != NULL) return refuse_token(error, token, "is both added and merged");
        }
    }
    return STATUS_OK;
}

static bool same_span(struct tokenizer_gguf_span a, struct tokenizer_gguf_span b)
{
    return a.size == b.size && memcmp(a.bytes, b.bytes, a.size) == 0;
}

/* Scores pieces by the order in which merges make them; pieces that no merge makes come last. The merges derived from
 * these scores must then equal the tokenizer's own. */
static enum status list_scores(struct listing *listing, struct error *error)
{
    struct tokenizer_gguf_merge *made = NULL;
    int64_t made_count = 0, rank = 0;
    enum status status = memory_new(listing->count, sizeof *listing->scores, "scores", &listing->scores, error);
    if (status != STATUS_OK) return status;
    for (int64_t i = 0; i < listing->merge_count; i++) {
        float *score = &listing->scores[listing->merges[i].id];
        if (*score == 0) *score = -(float)++rank;
    }
    for (int64_t id = 0; id < listing->count; id++)
        if (listing->scores[id] == 0 && listing->types[id] == TOKEN_NORMAL) listing->scores[id] = -(float)++rank;
    status = tokenizer_gguf_merges_by_scores("the tokenizer", listing->spans, (const char *)listing->scores,
                                             listing->count, &made, &made_count, error);
    bool same = made_count == listing->merge_count;
    for (int64_t i = 0; i < made_count && same; i++)
        same = same_span(made[i].left, listing->spans[listing->merges[i].left]) &&
               same_span(made[i].right, listing->spans[listing->merges[i].right]);
    memory_free(made);
    if (status == STATUS_OK && !same) status = refuse(error, "no scores of its pieces give its merges");
    return status;
}

/* ---- the keys ---- */

static enum status write_merges(const struct listing *listing, struct gguf_metadata *metadata, struct error *error)
{
    struct text line = {0};
    enum status status = STATUS_OK;
    gguf_metadata_texts(metadata, "tokenizer.ggml.merges", listing->merge_count);
    for (int64_t i = 0; i < listing->merge_count && status == STATUS_OK; i++) {
        const struct tokenizer_gguf_span left = listing->spans[listing->merges[i].left];
        const struct tokenizer_gguf_span right = listing->spans[listing->merges[i].right];
        line.size = 0;
        status = text_append(&line, left.bytes, left.size, error);
        if (status == STATUS_OK) status = text_append(&line, " ", 1, error);
        if (status == STATUS_OK) status = text_append(&line, right.bytes, right.size, error);
        if (status == STATUS_OK) gguf_metadata_texts_add(metadata, line.bytes, line.size);
    }
    text_free(&line);
    return status;
}

static void write_special(const struct listing *listing, struct gguf_metadata *metadata)
{
    const struct tokenizer *tokenizer = listing->tokenizer;
    const struct postprocessor *around = &tokenizer->postprocessor;
    const int64_t unknown = listing->splitting == NULL ? tokenizer->bpe.unknown : -1;
    if (tokenizer->bos >= 0) gguf_metadata_integer(metadata, "tokenizer.ggml.bos_token_id", (uint32_t)tokenizer->bos);
    if (tokenizer->eos >= 0) gguf_metadata_integer(metadata, "tokenizer.ggml.eos_token_id", (uint32_t)tokenizer->eos);
    if (unknown >= 0) gguf_metadata_integer(metadata, "tokenizer.ggml.unknown_token_id", (uint32_t)unknown);
    gguf_metadata_boolean(metadata, "tokenizer.ggml.add_bos_token", around->before.count > 0);
    gguf_metadata_boolean(metadata, "tokenizer.ggml.add_eos_token", around->after.count > 0);
    if (listing->splitting == NULL) gguf_metadata_boolean(metadata, "tokenizer.ggml.add_space_prefix", listing->prefix);
}

static enum status write_keys(const struct listing *listing, struct gguf_metadata *metadata, struct error *error)
{
    gguf_metadata_text(metadata, "tokenizer.ggml.model", listing->splitting != NULL ? "gpt2" : "llama");
    gguf_metadata_text(metadata, "tokenizer.ggml.pre",
                       listing->splitting != NULL ? listing->splitting->name : "default");
    gguf_metadata_texts(metadata, "tokenizer.ggml.tokens", listing->count);
    for (int64_t i = 0; i < listing->count; i++)
        gguf_metadata_texts_add(metadata, listing->spans[i].bytes, listing->spans[i].size);
    gguf_metadata_integers(metadata, "tokenizer.ggml.token_type", listing->types, listing->count);
    if (listing->splitting == NULL)
        gguf_metadata_numbers(metadata, "tokenizer.ggml.scores", listing->scores, listing->count);
    write_special(listing, metadata);
    return write_merges(listing, metadata, error);
}

enum status tokenizer_gguf_write(const struct tokenizer *tokenizer, int64_t vocabulary_size,
                                 struct gguf_metadata *metadata, struct error *error)
{
    const int64_t size = tokenizer->size;
    struct listing listing = {.tokenizer = tokenizer, .count = size > vocabulary_size ? size : vocabulary_size};
    enum status status;
    if (size > vocabulary_size)
        return error_set(error, STATUS_UNSUPPORTED,
                         "the tokenizer cannot be said in GGUF: it has %lld tokens, and the model's vocabulary %lld",
                         (long long)size, (long long)vocabulary_size);
    if (tokenizer->postprocessor.before.count > 1 || tokenizer->postprocessor.after.count > 1)
        return refuse(error, "more than one token is put before or after a text");
    if ((status = find_splitting(&listing, error)) != STATUS_OK) goto done;
    if ((status = check_unknown(&listing, error)) != STATUS_OK) goto done;
    if ((status = list_tokens(&listing, error)) != STATUS_OK) goto done;
    if ((status = list_merges(&listing, error)) != STATUS_OK) goto done;
    if (listing.splitting == NULL && (status = list_scores(&listing, error)) != STATUS_OK) goto done;
    status = write_keys(&listing, metadata, error);
done:
    memory_free(listing.spans);
    memory_free(listing.pads);
    memory_free(listing.types);
    memory_free(listing.scores);
    memory_free(listing.merges);
    return status;
}
