/* tokenizer_gguf.h: converts the tokenizer in a GGUF file's metadata (tokenizer.ggml.*) to the text of a
 * tokenizer.json.
 *
 * A GGUF file keeps a vocabulary, its merges or scores, and the *name* of a way to split text, not the way itself. So
 * only names with a known tokenizer.json are converted (the table in tokenizer_gguf.c). Ambiguous metadata is refused:
 * a name used for several ways, a vocabulary without kinds of tokens, a normalizer with its own tables. SentencePiece
 * vocabularies become what the transformers library makes of them: merges by score, in its order. */
#ifndef TOKENIZER_TOKENIZER_GGUF_H
#define TOKENIZER_TOKENIZER_GGUF_H

#include "tokenizer/text.h"

/* Whether `path` has the ending of a GGUF file. */
bool tokenizer_gguf_is(const char *path);

/* Appends the text to *out. STATUS_NOT_FOUND (no file), STATUS_UNSUPPORTED (no tokenizer in it, or none that can be
 * reproduced exactly: says why and what to do), STATUS_CORRUPT, STATUS_TOO_LARGE, STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status tokenizer_gguf_text(const char *path, struct text *out, struct error *error);

#endif
