/* tokenizer_gguf_merges.h: the merges of a tokenizer in a GGUF file: as it lists them, or out of the scores of its
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

/* The texts of `array`, whose items are `bytes` (gguf_array_read), which they lend. The caller owns *out (memory_free).
 * STATUS_UNSUPPORTED (not UTF-8), STATUS_INPUT_CHANGED, STATUS_NO_MEMORY. */
MUST_CHECK enum status tokenizer_gguf_spans(const char *name, const char *bytes, const struct gguf_array *array,
                                            struct tokenizer_gguf_span **out, struct error *error);

/* The merges, best first, of the vocabulary `tokens` [count], of which id i is tokens[i]. The caller owns *out and
 * *held, what they lie in (memory_free). Where none are listed and `scored`: each way to cut a piece in two pieces is
 * one; higher scores go first; of one piece's, lower ids of the left part, then of the right. That is the transformers
 * library's order, which differs from SentencePiece's own only among merges of one score. STATUS_UNSUPPORTED (neither
 * merges nor scores), STATUS_CORRUPT. */
MUST_CHECK enum status tokenizer_gguf_merges(const struct gguf *file, const struct tokenizer_gguf_span *tokens,
                                             int64_t count, bool scored, struct tokenizer_gguf_merge **out,
                                             int64_t *merges, char **held, struct error *error);

/* The second way alone, with `scores` [count] as bytes. */
MUST_CHECK enum status tokenizer_gguf_merges_by_scores(const char *name, const struct tokenizer_gguf_span *tokens,
                                                       const char *scores, int64_t count,
                                                       struct tokenizer_gguf_merge **out, int64_t *merges,
                                                       struct error *error);

#endif
