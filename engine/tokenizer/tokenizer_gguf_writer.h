/* tokenizer_gguf_writer.h: writes a tokenizer into the metadata of a GGUF file (tokenizer.ggml.*), from which
 * tokenizer_gguf.h makes one that gives the same ids.
 *
 * GGUF can only name a way to split text, not describe it. So a tokenizer can be written if its way has one of the
 * names of tokenizer_gguf_steps.h, or if it is SentencePiece-style and its merges follow from a score of each piece,
 * because llama.cpp reads only scores. */
#ifndef TOKENIZER_TOKENIZER_GGUF_WRITER_H
#define TOKENIZER_TOKENIZER_GGUF_WRITER_H

#include "formats/gguf/gguf_writer.h"
#include "tokenizer/tokenizer.h"

/* Appends the keys: model, pre, tokens, token_type, merges, scores, the ids of special tokens and whether they are
 * added. Ids without a token, up to `vocabulary_size` (of the model), become unused tokens. STATUS_UNSUPPORTED names
 * the feature that GGUF cannot express; STATUS_NO_MEMORY. */
MUST_CHECK enum status tokenizer_gguf_write(const struct tokenizer *tokenizer, int64_t vocabulary_size,
                                            struct gguf_metadata *metadata, struct error *error);

#endif
