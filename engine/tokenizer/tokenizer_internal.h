/* tokenizer_internal.h: the fields of a tokenizer, for its loader, its encoder and its stream. */
#ifndef TOKENIZER_TOKENIZER_INTERNAL_H
#define TOKENIZER_TOKENIZER_INTERNAL_H

#include "tokenizer/added.h"
#include "tokenizer/bpe.h"
#include "tokenizer/decoder.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/postprocessor.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/tokenizer.h"

enum { TOKENIZER_CHUNK = 1 << 20 }; /* bytes of text that are encoded at a time if the text may be cut */

struct tokenizer_pool; /* working memory, handed to one call at a time */

struct tokenizer {
    struct text source; /* its tokenizer.json */
    struct bpe bpe;
    struct normalizer *normalizer;
    struct pretokenizer *pretokenizer;
    struct added added;
    struct postprocessor postprocessor;
    struct decoder *decoder;
    int64_t size; /* largest id + 1 */
    int64_t bos, eos;
    bool cuts[128]; /* text may be cut between this letter and a space */
    struct tokenizer_pool *pool;
};

struct tokenizer_pool *tokenizer_pool_new(void); /* NULL: no memory */
void tokenizer_pool_free(struct tokenizer_pool *pool);

/* Appends the ids of valid UTF-8. `continued`: the text follows a part that was cut off at a place that `cuts` allows.
 * `monitor`: as in tokenizer_encode_watched, or NULL. */
MUST_CHECK enum status tokenizer_encode_part(const struct tokenizer *tokenizer, const char *text, size_t bytes,
                                             bool continued, const struct monitor *monitor, struct token_list *out,
                                             struct error *error);

/* True when `text` may be cut before its byte `at`, which lies inside the text. */
static inline bool tokenizer_cuts_at(const struct tokenizer *tokenizer, const char *text, size_t at)
{
    uint8_t left = (uint8_t)text[at - 1];
    return text[at] == ' ' && left < 128 && tokenizer->cuts[left];
}

/* Normalizes a text from the middle of a document into *out and cuts it; *pieces: their number. For the loader. */
MUST_CHECK enum status tokenizer_prepare(const struct tokenizer *tokenizer, const char *text, size_t bytes,
                                         bool continued, struct text *out, int64_t *pieces, struct error *error);

#endif
