/* normalizer.h: the "normalizer" of a tokenizer.json: rewrites text before it is split. Normal forms are utf8proc's;
 * NFC and NFD equal the tokenizers library's on every character of Unicode 14, NFKC and NFKD but for compatibility
 * characters added after Unicode 12, which that library's tables lack. */
#ifndef TOKENIZER_NORMALIZER_H
#define TOKENIZER_NORMALIZER_H

#include "tokenizer/part.h"
#include "tokenizer/pattern.h"

struct normalizer;

/* *out NULL for null. The caller owns it. STATUS_UNSUPPORTED names what deltaq does not do. */
MUST_CHECK enum status normalizer_load(const struct part_document *document, struct json_reader_text span,
                                       struct normalizer **out, struct error *error);
void normalizer_free(struct normalizer *normalizer); /* NULL is fine */

/* Replaces *text by its normal form; *other is working memory (what it holds afterwards means nothing). `continued`:
 * the text goes on from an earlier piece, so that nothing is put before it. *stripped becomes true when the text loses
 * its beginning. */
MUST_CHECK enum status normalizer_apply(const struct normalizer *normalizer, struct pattern_scratch *scratch,
                                        bool continued, struct text *text, struct text *other, bool *stripped,
                                        struct error *error);

/* Whether both rewrite every text alike by construction: the same steps in the same order. NULL has none. */
bool normalizer_same(const struct normalizer *a, const struct normalizer *b);

/* True when text may be cut between an ASCII letter and a space without changing what comes out (the second part
 * `continued`). */
bool normalizer_splits(const struct normalizer *normalizer);

#endif
