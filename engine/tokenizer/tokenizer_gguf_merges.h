/* tokenizer_gguf_merges.h: the merges of a tokenizer in a GGUF file: listed there, or derived from the scores of its
 * pieces. */
#ifndef TOKENIZER_TOKENIZER_GGUF_MERGES_H
#define TOKENIZER_TOKENIZER_GGUF_MERGES_H

#include "formats/gguf/gguf.h"

struct tokenizer_gguf_span {
    const char *bytes; /* lent; UTF-8, not NUL-terminated */
    size_t size;
};

struct tokenizer_gguf_merge {
    struct tokenizer_gguf_span left, right;
};

/* The texts in `bytes`, which hold the items of `array` (gguf_array_read). The texts point into `bytes`. The caller
 * owns *out (memory_free). STATUS_UNSUPPORTED (not UTF-8), STATUS_INPUT_CHANGED, STATUS_NO_MEMORY. */
MUST_CHECK enum status tokenizer_gguf_spans(const char *name, const char *bytes, const struct gguf_array *array,
                                            struct tokenizer_gguf_span **out, struct error *error);

/* The merges, best first, of the vocabulary `tokens` [count]; tokens[i] has id i. The caller owns *out and *held, the
 * memory of the texts (memory_free). If the file lists no merges and `scored`, each cut of a piece into two pieces is a
 * merge; higher scores come first; cuts of one piece are ordered by the id of the left part, then of the right. That is
 * the transformers library's order, which differs from SentencePiece's own only among merges of equal score.
 * STATUS_UNSUPPORTED (neither merges nor scores), STATUS_CORRUPT. */
MUST_CHECK enum status tokenizer_gguf_merges(const struct gguf *file, const struct tokenizer_gguf_span *tokens,
                                             int64_t count, bool scored, struct tokenizer_gguf_merge **out,
                                             int64_t *merges, char **held, struct error *error);

/* The merges by score alone; `scores` [count] as bytes. */
MUST_CHECK enum status tokenizer_gguf_merges_by_scores(const char *name, const struct tokenizer_gguf_span *tokens,
                                                       const char *scores, int64_t count,
                                                       struct tokenizer_gguf_merge **out, int64_t *merges,
                                                       struct error *error);

#endif
