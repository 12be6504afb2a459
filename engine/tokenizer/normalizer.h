/* normalizer.h: the "normalizer" of a tokenizer.json: rewrites text before it is split. Normal forms are computed by
 * utf8proc. NFC and NFD equal the tokenizers library's on every character of Unicode 14; NFKC and NFKD differ only for
 * compatibility characters added after Unicode 12, which that library's tables lack. */
#ifndef TOKENIZER_NORMALIZER_H
#define TOKENIZER_NORMALIZER_H

#include "tokenizer/part.h"
#include "tokenizer/pattern.h"

struct normalizer;

/* Loads a normalizer; *out is NULL for null. The caller owns it. STATUS_UNSUPPORTED names the unsupported feature. */
MUST_CHECK enum status normalizer_load(const struct part_document *document, struct json_reader_text span,
                                       struct normalizer **out, struct error *error);
void normalizer_free(struct normalizer *normalizer); /* NULL is fine */

/* Replaces *text by its normal form; *other is working memory. `continued`: the text follows an earlier part, so
 * nothing is put before it. *stripped becomes true when the beginning of the text is removed. */
MUST_CHECK enum status normalizer_apply(const struct normalizer *normalizer, struct pattern_scratch *scratch,
                                        bool continued, struct text *text, struct text *other, bool *stripped,
                                        struct error *error);

/* Whether both have the same steps in the same order, so that they rewrite every text alike. NULL has no steps. */
bool normalizer_same(const struct normalizer *a, const struct normalizer *b);

/* True when text may be cut between an ASCII letter and a space without changing the result (the second part is then
 * `continued`). */
bool normalizer_splits(const struct normalizer *normalizer);

#endif
